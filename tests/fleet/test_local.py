"""This process as the engine: what it says in the store about where it is, and what is made of that."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from attcr.fleet.fetch import Fetched
from attcr.fleet.ledger import Outcome
from attcr.fleet.manifest import Work, in_shard
from attcr.fleet.run import FleetOptions, read_status, run_fleet
from attcr.fleet.store import Store
from fake_fleets import Publisher, host, ledger, told, write_rows

HERE = f"{socket.gethostname()}:{os.getpid()}"


def rows_of(tmp_path: Path, *names: str) -> str:
    return str(write_rows(tmp_path / "m.parquet", [{"id": name, "href": f"/in/{name}.tif"} for name in names]))


class Watching(Publisher):
    """A worker that notes which marks there are while it is at a scene."""

    marks: list[tuple[str, dict[str, str]]]

    def run(self, work: Work, fetched: Fetched | None = None) -> Outcome:
        out = Path(self.store.name)
        self.marks.append((work.id, {path.name: path.read_text() for path in out.glob("at-*")}))
        return super().run(work, fetched)


@pytest.fixture
def marks(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, str]]]:
    seen: list[tuple[str, dict[str, str]]] = []
    monkeypatch.setattr(Watching, "marks", seen, raising=False)
    return seen


@pytest.mark.parametrize("shard", [(0, 1), (1, 2)])
def test_the_store_is_told_who_is_at_which_scene_and_nothing_in_the_end(
    tmp_path: Path, weights: Path, marks: list[tuple[str, dict[str, str]]], shard: tuple[int, int]
) -> None:
    names = [f"s{i}" for i in range(6)]
    ours = [name for name in names if in_shard(Work(name, ()), shard)]
    out = tmp_path / "out"
    run_fleet(rows_of(tmp_path, *names), str(out), str(weights), fleet=FleetOptions(shard=shard), make=Watching)
    key = f"at-{shard[0]}-of-{shard[1]}"
    assert marks == [(name, {key: f"{HERE} {name}"}) for name in ours]
    assert not list(out.glob("at-*"))


def test_a_row_that_cannot_be_run_leaves_no_mark(
    tmp_path: Path, weights: Path, marks: list[tuple[str, dict[str, str]]]
) -> None:
    run_fleet(rows_of(tmp_path, "../x", "a"), str(tmp_path / "out"), str(weights), make=Watching)
    assert marks == [("../x", {}), ("a", {"at-0-of-1": f"{HERE} a"})]


def died(tmp_path: Path, weights: Path, mark: str, name: str = "at-0-of-1", attempts: int = 3) -> list[object]:
    """What a run over the scenes a and b logs about deaths when it finds this mark."""
    out = tmp_path / "out"
    out.mkdir(exist_ok=True)
    (out / name).write_text(mark)
    run_fleet(
        rows_of(tmp_path, "a", "b"), str(out), str(weights), fleet=FleetOptions(attempts=attempts), make=Publisher
    )
    return [(row["id"], row["status"]) for row in ledger(out) if row["status"] not in ("done", "found")]


def test_a_mark_of_a_process_that_is_gone_is_a_death_at_its_scene(tmp_path: Path, weights: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert died(tmp_path, weights, f"{socket.gethostname()}:{gone.pid} a") == [("a", "lost")]
    status = read_status(str(tmp_path / "out"))
    assert (status.summary.lost, status.summary.done) == (1, 2)


@pytest.mark.parametrize("worker", [HERE, f"elsewhere:{os.getppid()}"], ids=["here", "elsewhere"])
def test_a_mark_of_this_number_or_another_machine_is_one_too(tmp_path: Path, weights: Path, worker: str) -> None:
    assert died(tmp_path, weights, f"{worker} b") == [("b", "lost")]


@pytest.mark.parametrize(
    "mark",
    ["", "a", HERE, "host:x a", f"{socket.gethostname()}:{os.getppid()} a", f"{HERE} another"],
    ids=["nothing", "no worker", "no scene", "no number", "the living", "another scene"],
)
def test_a_mark_of_the_living_or_of_nothing_is_none(tmp_path: Path, weights: Path, mark: str) -> None:
    assert died(tmp_path, weights, mark) == []


def test_a_mark_of_another_shard_is_not_ours(tmp_path: Path, weights: Path) -> None:
    assert died(tmp_path, weights, f"{HERE} a", name="at-1-of-2") == []
    assert (tmp_path / "out" / "at-1-of-2").exists()


def test_the_death_that_is_one_too_many_quarantines(tmp_path: Path, weights: Path) -> None:
    assert died(tmp_path, weights, f"{HERE} a", attempts=1) == [("a", "lost"), ("a", "quarantined")]
    assert Store(str(tmp_path / "out")).exists("items/b.json")
    assert not Store(str(tmp_path / "out")).exists("items/a.json")


def test_the_next_scene_is_read_ahead_and_one_that_fails_comes_without_content(tmp_path: Path, weights: Path) -> None:
    seen: list[tuple[str, int | None]] = []

    class Reading(Publisher):
        def run(self, work: Work, fetched: Fetched | None = None) -> Outcome:
            seen.append((work.id, None if fetched is None else sum(fetched.size(href) or 0 for href in fetched.files)))
            return super().run(work, fetched)

    failing = [(404, {"Content-Length": "0"}, b"")]
    with host({"/a.tif": told(b"12345"), "/b.tif": failing, "/c.tif": told(b"123")}) as (address, asked):
        (tmp_path / "list.txt").write_text("".join(f"{address}/{name}.tif\n" for name in "abc"))
        run_fleet(str(tmp_path / "list.txt"), str(tmp_path / "out"), str(weights), make=Reading)
    assert seen == [("a", 5), ("b", None), ("c", 3)]
    assert len(asked) == 3
