"""The log, and what it adds up to."""

import json
import os
import time
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from attcr.cli import app
from attcr.fleet.ledger import (
    Ledger,
    Outcome,
    Status,
    contains,
    quarantined_rows,
    read_standing,
    short_key,
    summarise,
)
from attcr.fleet.run import read_status, run_fleet
from attcr.fleet.store import Scratch, Store
from attcr.restore.options import RestoreOptions
from fake_fleets import item, ledger, make_scenes

OPTIONS = RestoreOptions(tile=64, overlap=8, mask="none")
BEGAN = 1_700_000_000
"""When the made ledger begins, in seconds since 1970."""
ROWS: list[tuple[int, str, Status, float, float, str]] = [
    (0, "a", "done", 10.0, 2.0, ""),
    (1000, "b", "done", 20.0, 3.0, ""),
    (1010, "a", "found", 0.0, 0.0, ""),
    (1050, "c", "found", 0.0, 0.0, ""),
    (1060, "d", "quarantined", 5.0, 0.0, "SceneError"),
    (1070, "e", "quarantined", 5.0, 0.0, "SceneError"),
    (1080, "e", "requeued", 0.0, 0.0, ""),
    (1090, "f", "quarantined", 5.0, 0.0, "TimeoutError"),
    (1100, "g", "lost", 0.0, 0.0, "WorkerDied"),
    (1110, "g", "lost", 0.0, 0.0, "WorkerDied"),
    (1120, "h", "quarantined", 5.0, 0.0, "SceneError"),
    (1130, "i", "quarantined", 5.0, 0.0, "TimeoutError"),
    (1200, "f", "done", 30.0, 4.0, ""),
    (1300, "d", "lost", 0.0, 0.0, "WorkerDied"),
]
"""Seconds, scene, status, seconds of work, megapixels and error; what counts in the end is a b c f, d h i."""


def key_of(name: str) -> str:
    return f"{ord(name):064x}"[::-1]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """An output with the ledger of `ROWS` and a row of another recipe."""
    store = Store(str(tmp_path / "out"))
    with Scratch(store.scratch) as scratch:
        ours, other = Ledger(store, scratch, "r"), Ledger(store, scratch, "other")
        for at, name, status, seconds, megapixels, error in ROWS:
            monkeypatch.setattr(time, "time_ns", lambda at=at: (BEGAN + at) * 10**9)
            ours.add(Outcome(name, key_of(name), status, seconds, megapixels, 1, error, "-", "h:1"))
        other.add(Outcome("z", key_of("z"), "done", 100.0, 50.0, 1))
        ours.flush()
        other.flush()
        about = scratch.folder / "run.json"
        about.write_text(json.dumps({"recipe": "r", "rows": 12}))
        store.put(about, "run.json")
    return store


def test_a_summary_counts_each_scene_of_the_recipe_once(made: Store) -> None:
    summary = summarise(made, "r")
    assert (summary.done, summary.found, summary.lost) == (4, 1, 3)
    assert summary.quarantined == {"SceneError": 2, "TimeoutError": 1}
    assert list(summary.quarantined) == ["SceneError", "TimeoutError"]
    assert (summary.megapixels, summary.worker_seconds) == (9.0, 60.0)
    other = summarise(made, "other")
    assert (other.done, other.found, other.megapixels, other.worker_seconds) == (1, 0, 50.0, 100.0)
    assert (other.quarantined, other.lost) == ({}, 0)


def test_deaths_before_a_retry_do_not_count(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "out"))
    with Scratch(store.scratch) as scratch:
        ledger = Ledger(store, scratch, "r")
        told: tuple[Status, ...] = ("lost", "lost", "requeued", "lost")
        for status in told:
            ledger.add(Outcome("a", key_of("a"), status))
        ledger.flush()
    assert read_standing(store).lost == {short_key(key_of("a")): 1}


def test_the_rate_is_that_of_the_last_ten_minutes(made: Store) -> None:
    summary = summarise(made, "r")
    assert summary.scenes_per_second == pytest.approx(3 / 200)  # at 1000, 1010, 1050 and 1200, not at 0
    assert summary.last == BEGAN + 1200
    assert summarise(made, "other").scenes_per_second == 0.0
    nothing = summarise(made, "none")
    assert (nothing.done, nothing.scenes_per_second, nothing.last) == (0, 0.0, 0.0)


def test_the_status_is_what_is_left_and_how_long_it_takes(made: Store) -> None:
    status = read_status(made.name)
    assert (status.rows, status.left) == (12, 12 - 4 - 3)
    assert status.seconds_left == pytest.approx(5 / (3 / 200))
    about = Path(made.name, "run.json")
    about.write_text(json.dumps({"recipe": "other", "rows": 3}))
    assert (read_status(made.name).left, read_status(made.name).seconds_left) == (2, None)
    for rows in (0, 1):
        about.write_text(json.dumps({"recipe": "other", "rows": rows}))
        assert (read_status(made.name).left, read_status(made.name).seconds_left) == (0, 0.0)


def test_the_command_shows_counts_rates_and_classes(made: Store) -> None:
    shown = CliRunner().invoke(app, ["fleet", "status", made.name]).output
    assert shown.splitlines()[:5] == [
        "4 of 12 scenes done, 3 quarantined, 5 left",
        "9.0 megapixels in 0.02 worker-hours",
        "0.01 scenes per second recently, time left 6 min",
        "         2  SceneError",
        "         1  TimeoutError",
    ]
    told = json.loads(CliRunner().invoke(app, ["fleet", "status", made.name, "--json"]).output)
    assert (told["left"], told["summary"]["done"], told["summary"]["lost"]) == (5, 4, 3)


def test_standing_tells_what_the_last_row_of_each_scene_says(made: Store) -> None:
    standing = read_standing(made)
    keys = {name: np.array([short_key(key_of(name))], np.uint64) for name in "abcdefghiz"}
    assert [name for name, key in keys.items() if contains(standing.done, key)[0]] == [*"abcfz"]
    assert [name for name, key in keys.items() if contains(standing.quarantined, key)[0]] == [*"dhi"]
    assert standing.lost == {short_key(key_of("g")): 2, short_key(key_of("d")): 1}
    assert {row["id"]: row["error"] for row in quarantined_rows(made)} == {
        "d": "SceneError",
        "h": "SceneError",
        "i": "TimeoutError",
    }


def test_contains_finds_keys_at_both_ends_and_between() -> None:
    keys = np.array([3, 5, 9], np.uint64)
    assert contains(keys, np.array([2, 3, 4, 5, 9, 10], np.uint64)).tolist() == [False, True, False, True, True, False]
    assert contains(keys[:0], np.array([1], np.uint64)).tolist() == [False]


def test_a_row_is_dated_in_utc_to_the_microsecond(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    store = Store(str(tmp_path / "out"))
    try:
        with Scratch(store.scratch) as scratch:
            monkeypatch.setattr(time, "time_ns", lambda: 1_704_164_645_000_006_999)
            log = Ledger(store, scratch, "r")
            log.add(Outcome("a", "0" * 64, "done"))
            log.flush()
            (name,) = store.names("ledger")
            assert abs(datetime.strptime(name[:15], "%Y%m%dT%H%M%S").timestamp() + 9 * 3600 - time.time()) < 60
    finally:
        monkeypatch.undo()
        time.tzset()
    (row,) = ledger(tmp_path / "out")
    assert row["time"] == datetime(2024, 1, 2, 3, 4, 5, 6, tzinfo=timezone.utc)


def test_a_later_row_has_a_later_time_where_the_clock_stands_or_goes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, clock = Store(str(tmp_path / "out")), iter([9_000_000, 9_000_000, 5_000_000])
    with Scratch(store.scratch) as scratch:
        log = Ledger(store, scratch, "r")
        monkeypatch.setattr(time, "time_ns", lambda: next(clock))
        for name in "abc":
            log.add(Outcome(name, key_of(name), "done"))
        log.flush()
    rows = ledger(tmp_path / "out")
    first = datetime.fromtimestamp(0, timezone.utc)
    assert [(row["id"], round((row["time"] - first).total_seconds() * 1e6)) for row in rows] == [
        ("a", 9000), ("b", 9001), ("c", 9002),
    ]  # fmt: skip


def test_a_ledger_row_tells_all_that_is_asked_for(tmp_path: Path, weights: Path) -> None:
    out = tmp_path / "out"
    run_fleet(str(make_scenes(tmp_path / "in", 1)), str(out), str(weights), options=OPTIONS)
    (row,) = ledger(out)
    assert row["status"] == "done"
    assert row["seconds"] > 0
    assert row["megapixels"] == 64 * 64 / 1e6
    assert row["attempts"] == 1
    assert row["worker"].endswith(f":{os.getpid()}")
    assert row["work"] == item(out, row["id"])["properties"]["attcr:work"]


def test_a_ledger_is_on_disk_within_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(str(tmp_path / "out"))
    with Scratch(store.scratch) as scratch:
        log = Ledger(store, scratch, "r")
        log.add(Outcome("a", "0" * 64, "done"))
        assert ledger(tmp_path / "out") == []
        now = time.monotonic()
        monkeypatch.setattr(time, "monotonic", lambda: now + 3)
        log.add(Outcome("b", "1" * 64, "done"))
    assert [row["id"] for row in ledger(tmp_path / "out")] == ["a", "b"]
