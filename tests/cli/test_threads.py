"""Threads as the machine can spare them, and memory that is kept."""

import os
import subprocess
import sys

import pytest

from attcr.cli import threads
from attcr.cli.threads import KEPT, idle_cores, keep_memory, load, spare_the_cores
from attcr.files import cores


@pytest.mark.parametrize(
    ("count", "busy", "left"), [(2, 0.0, 2), (2, 0.4, 2), (2, 0.9, 1), (2, 16.5, 1), (16, 3.6, 12), (1, 0.0, 1)]
)
def test_busy_cores_are_left_alone(count: int, busy: float, left: int) -> None:
    assert idle_cores(count, busy) == left


def test_what_the_user_set_rules_and_training_takes_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "load", lambda: 5.0)
    monkeypatch.setattr(threads, "cores", lambda: 8)
    environment: dict[str, str] = {}
    spare_the_cores(environment, ["attcr", "restore", "in.tif", "out.tif"])
    assert environment == {"OMP_WAIT_POLICY": "PASSIVE", "OMP_NUM_THREADS": "3"}
    own = {"OMP_WAIT_POLICY": "ACTIVE", "OMP_NUM_THREADS": "7"}
    spare_the_cores(own, ["attcr", "demo"])
    assert own == {"OMP_WAIT_POLICY": "ACTIVE", "OMP_NUM_THREADS": "7"}
    trained: dict[str, str] = {}
    spare_the_cores(trained, ["attcr", "train", "--config", "small-cpu"])
    assert trained == {"OMP_WAIT_POLICY": "PASSIVE"}


def test_the_machine_tells_its_cores_and_load() -> None:
    assert cores() >= 1
    assert load() >= 0


TAKES_AND_FREES = """
import resource, sys
from attcr.cli.threads import keep_memory
if sys.argv[1] == "keep":
    keep_memory()
import numpy as np
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
np.ones(2**26, np.uint8)
before = faults()
for _ in range(20):
    np.ones(2**26, np.uint8)
print(faults() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator")
def test_freed_memory_is_kept() -> None:
    """An array of 64 MiB has 16,384 pages of 4 KiB, or 32 of 2 MiB; each that is new is a fault."""

    def faults(how: str) -> int:
        command = [sys.executable, "-c", TAKES_AND_FREES, how]
        default = {name: value for name, value in os.environ.items() if name not in KEPT}
        return int(subprocess.run(command, check=True, capture_output=True, text=True, env=default).stdout)

    assert faults("as it is") > 10 * max(faults("keep"), 32)


def test_processes_that_it_starts_keep_memory_too_unless_the_user_set_how() -> None:
    own = {"MALLOC_ARENA_MAX": "4"}
    keep_memory(own)
    assert own == {"MALLOC_ARENA_MAX": "4"}
    code = "from attcr.cli.threads import keep_memory; e = {}; keep_memory(e); print(*e, *e.values())"
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert told == ([*KEPT, "2147483647", "2147483647", "1"] if sys.platform == "linux" else [])
