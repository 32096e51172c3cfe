"""Threads as the machine can spare them."""

import pytest

from attcr.cli import threads
from attcr.cli.threads import cores, idle_cores, load, spare_the_cores


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
