"""How a command uses the machine: as many threads as cores that nothing else uses, and memory that is kept."""

import ctypes
import os
import sys
from collections.abc import MutableMapping
from contextlib import suppress

from attcr.files import cores

KEPT = {
    "MALLOC_MMAP_THRESHOLD_": (-3, 2**31 - 1),
    "MALLOC_TRIM_THRESHOLD_": (-1, 2**31 - 1),
    "MALLOC_ARENA_MAX": (-8, 1),
}
"""Variables of glibc's allocator, each with its number for `mallopt` and its value."""


def keep_memory(environment: MutableMapping[str, str] = os.environ) -> None:
    """Let glibc keep what a network frees, in this process and in those that it starts.

    By default arrays of more than 32 MiB come from the system each time, and clearing them takes up to half of the time
    of an image of 512 x 512. Variables MALLOC_... that are set rule; elsewhere than on glibc nothing is changed.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is None or any(name in environment for name in KEPT):
        return
    for name, (number, value) in KEPT.items():
        mallopt(number, value)
        environment[name] = str(value)


def spare_the_cores(environment: MutableMapping[str, str] = os.environ, argv: list[str] | None = None) -> None:
    """Set OpenMP up before torch is loaded: threads that wait sleep, and there are none beyond the idle cores.

    By default they spin while they wait, and on a loaded machine they take the cores from the very threads that they
    wait for: four tiles took 983 s on two cores under a load of 16, 108 s with threads that sleep, 50 s with one.
    OMP_NUM_THREADS and OMP_WAIT_POLICY rule where they are set.
    """
    environment.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    command = (sys.argv if argv is None else argv)[1:2]
    if command and command[0] != "train":  # which runs for hours, and shares the machine for as long
        environment.setdefault("OMP_NUM_THREADS", str(idle_cores(cores(), load())))


def idle_cores(count: int, busy: float) -> int:
    """Give how many of the cores are idle, and at least one."""
    return max(1, count - round(max(busy, 0.0)))


def load() -> float:
    """Give how many processes wanted a core over the last minute; 0 where the system does not tell."""
    with suppress(OSError, AttributeError):
        return os.getloadavg()[0]
    return 0.0
