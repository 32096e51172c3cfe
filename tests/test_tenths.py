"""Ten commits run each nightly test, and a gate runs a tenth of them."""

import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from tenths import is_due, tenth

sys.path.insert(0, str(Path(__file__).parent / "attacks"))
from counts import COUNTS, seeds_of

COMMITS = [f"0000000{digit}{'f' * 32}" for digit in "0123456789"]


def test_ten_commits_run_each_nightly_test_once(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"tests/test_it.py::test_{number}" for number in range(500)]
    runs = []
    for commit in COMMITS:
        monkeypatch.setenv("ATTCR_TENTH", commit)
        runs.append([name for name in names if is_due(name)])
    assert sorted(name for run in runs for name in run) == sorted(names)
    assert all(30 < len(run) < 70 for run in runs)


def test_by_hand_every_nightly_test_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ATTCR_TENTH", raising=False)
    assert tenth() is None
    assert all(is_due(f"test_{number}") for number in range(30))


@pytest.mark.parametrize("attack", COUNTS)
def test_ten_gates_try_the_seeds_of_a_nightly(attack: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: list[int] = []
    monkeypatch.delenv("ATTCR_ATTACKS", raising=False)
    for commit in COMMITS:
        monkeypatch.setenv("ATTCR_TENTH", commit)
        seeds += seeds_of(attack)
    monkeypatch.setenv("ATTCR_ATTACKS", "nightly")
    assert sorted(seeds) == list(seeds_of(attack))


@dataclass(eq=False)
class Item:
    """What is asked of an item of pytest."""

    nodeid: str
    marks: list[str]
    fixturenames: tuple[str, ...]

    def add_marker(self, name: str) -> None:
        self.marks.append(name)

    def get_closest_marker(self, name: str) -> bool:
        return name in self.marks


def test_what_is_not_due_is_left_out_and_what_needs_s3_is_nightly(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ATTCR_TENTH", COMMITS[0])
    kinds = {"marked": (("nightly",), ()), "s3": ((), ("s3",)), "other": (("slow",), ("tmp_path",))}
    items = [
        Item(f"{kind} {number}", list(marks), fixtures)
        for kind, (marks, fixtures) in kinds.items()
        for number in range(100)
    ]
    told: list[object] = []
    hook = SimpleNamespace(pytest_deselected=lambda items: told.extend(items))
    rules = request.config.pluginmanager.getplugin(str(Path(__file__).with_name("conftest.py")))
    rules.pytest_collection_modifyitems(SimpleNamespace(hook=hook), items)
    left = [one.nodeid.split()[0] for one in items]
    assert left.count("other") == 100
    assert 3 < left.count("marked") < 20
    assert 3 < left.count("s3") < 20
    assert len(told) + len(items) == 300
