"""Runs in this process: done means done, whatever happened before."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar
from zipfile import ZipFile

import numpy as np
import pytest
import rasterio

from attcr.errors import ConfigError, FleetError, ManifestError, WeightsError
from attcr.fleet.fetch import Fetched
from attcr.fleet.ledger import Ledger, Outcome
from attcr.fleet.manifest import Work
from attcr.fleet.run import FleetOptions, Tally, _Todo, read_status, recipe_of, requeue, run_fleet
from attcr.fleet.store import Scratch, Store
from attcr.fleet.worker import SceneWorker, block_key
from attcr.predict import Predictor
from attcr.restore.options import RestoreOptions
from commands import attcr
from fake_fleets import (
    SOURCE,
    Publisher,
    command,
    completed,
    contents,
    environment,
    item,
    ledger,
    make_scenes,
    run,
    write_rows,
)
from fake_scenes import UTM, make, noise, read, serve

OPTIONS = RestoreOptions(tile=64, overlap=8, mask="none")


def test_a_run_writes_rasters_and_items_and_a_second_one_does_nothing(tmp_path: Path, weights: Path) -> None:
    scenes = make_scenes(tmp_path / "in", 3, 70)
    out = tmp_path / "out"
    tally = run_fleet(str(scenes), str(out), str(weights), options=OPTIONS)
    assert (tally.rows, tally.done, tally.complete) == (3, 3, True)
    told = item(out, "s000_20200101")
    restored = (out / "items" / told["assets"]["restored"]["href"]).resolve()
    assert read(restored).shape == (3, 70, 70)
    with rasterio.open(restored) as file:
        assert file.crs == "EPSG:32633"
    assert (out / "items" / told["assets"]["quality"]["href"]).exists()
    assert told["links"] == [{"rel": "derived_from", "href": str(tmp_path / "in" / "s000_20200101.tif")}]
    before = contents(out)
    again = run_fleet(str(scenes), str(out), str(weights), options=OPTIONS)
    assert (again.skipped, again.done, again.found) == (3, 0, 0)
    assert contents(out) == before
    assert completed(out) == {f"s00{i}_20200101": 1 for i in range(3)}
    assert not (out / ".scratch").exists()


def test_all_machines_of_a_fleet_compute_in_float32_unless_it_is_told_otherwise(
    tmp_path: Path, weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cpuinfo").write_text("flags\t\t: amx_bf16\n")
    monkeypatch.setattr("attcr.predict.CPU_INFO", tmp_path / "cpuinfo")
    scenes = make_scenes(tmp_path / "in", 1)
    for options, dtype in ((OPTIONS, "float32"), (replace(OPTIONS, dtype="bfloat16"), "bfloat16")):
        out = tmp_path / dtype
        assert run_fleet(str(scenes), str(out), str(weights), options=options).done == 1
        told = item(out, "s000_20200101")["properties"]
        assert told["attcr:predictor"]["dtype"] == told["attcr:options"]["dtype"] == dtype
        assert json.loads((out / "run.json").read_text())["options"]["dtype"] == dtype


def test_what_the_item_does_not_prove_is_run_again(tmp_path: Path, weights: Path) -> None:
    scenes = make_scenes(tmp_path / "in", 4)
    out = tmp_path / "out"
    run_fleet(str(scenes), str(out), str(weights), options=OPTIONS)
    before = contents(out)
    names = [f"s00{i}_20200101" for i in range(4)]
    (out / "items" / f"{names[0]}.json").unlink()  # its commit is gone
    make(tmp_path / "in" / f"{names[1]}.tif", noise("uint8", (3, 65, 64), 9), photometric="RGB", **UTM)  # other input
    shutil.rmtree(out / "ledger")  # the log is gone, the items are not
    (out / "items" / f"{names[2]}.json").write_text("")  # cut short by a crash of the machine
    tally = run_fleet(str(scenes), str(out), str(weights), options=OPTIONS)
    assert (tally.done, tally.found, tally.skipped) == (3, 1, 0)
    after = contents(out)
    changed = {Path(name).name.split("_")[0] for name in before if before[name] != after.get(name)}
    assert changed == {"s001"}
    other = run_fleet(str(scenes), str(out), str(weights), options=replace(OPTIONS, overlap=16))
    assert other.done == 4


def test_what_is_there_of_other_work_is_run_again_though_it_was_done_once(tmp_path: Path, weights: Path) -> None:
    scenes, out = make_scenes(tmp_path / "in", 2), tmp_path / "out"
    rows = [{"id": path.stem, "hrefs": [str(path)], "version": "1"} for path in sorted((tmp_path / "in").iterdir())]
    manifest = write_rows(tmp_path / "m.parquet", rows)
    first = run_fleet(str(manifest), str(out), str(weights), options=OPTIONS)
    before = contents(out)
    other = write_rows(tmp_path / "other.parquet", [{**row, "version": "2"} for row in rows])
    for source, options in ((other, OPTIONS), (manifest, OPTIONS), (scenes, replace(OPTIONS, overlap=16))):
        assert run_fleet(str(source), str(out), str(weights), options=options).done == first.done == 2
    max((out / "ledger").iterdir(), key=lambda path: path.stat().st_mtime_ns).unlink()  # as if killed before it
    run_fleet(str(manifest), str(out), str(weights), options=OPTIONS)
    assert before.items() <= contents(out).items()
    assert len(list((out / "items").iterdir())) == 2


def test_two_runs_at_once_leave_each_scene_done_once(tmp_path: Path, weights: Path) -> None:
    scenes = make_scenes(tmp_path / "in", 6)
    out = tmp_path / "out"
    arguments = command("run", scenes, out, "--weights", weights, "--set", "tile=64", "--set", "overlap=8")
    both = [subprocess.Popen(arguments, env=environment(), stdout=subprocess.DEVNULL) for _ in range(2)]
    assert [process.wait(300) for process in both] == [0, 0]
    done = [row["id"] for row in ledger(out) if row["status"] == "done"]
    assert sorted(done) == [f"s00{i}_20200101" for i in range(6)]
    assert not (out / ".scratch").exists()


def test_shards_do_all_of_it(tmp_path: Path, weights: Path) -> None:
    scenes = make_scenes(tmp_path / "in", 5)
    out = tmp_path / "out"
    for index in range(2):
        run_fleet(str(scenes), str(out), str(weights), options=OPTIONS, fleet=FleetOptions(shard=(index, 2)))
    assert completed(out) == {f"s00{i}_20200101": 1 for i in range(5)}
    assert read_status(str(out)).left == 0


def test_a_scene_in_blocks_goes_on_where_it_was_and_leaves_none(tmp_path: Path, weights: Path) -> None:
    scenes = make_scenes(tmp_path / "in", 1, 300)
    out, whole = tmp_path / "out", tmp_path / "whole"
    run_fleet(str(scenes), str(whole), str(weights), options=OPTIONS)
    fleet = FleetOptions(split_over=0.03)

    class Stopped(SceneWorker):
        def restore(self, work: Work, fetched: object) -> float | None:
            if work.block == 2:
                raise KeyboardInterrupt
            return super().restore(work, fetched)  # type: ignore[arg-type]

    with pytest.raises(KeyboardInterrupt):
        run_fleet(str(scenes), str(out), str(weights), options=OPTIONS, fleet=fleet, make=Stopped)
    blocks = {path: path.stat().st_mtime_ns for path in (out / "blocks").iterdir()}
    assert len(blocks) == 2

    class Watched(SceneWorker):
        def restore(self, work: Work, fetched: object) -> float | None:
            if work.block == work.blocks:
                assert blocks.items() <= {p: p.stat().st_mtime_ns for p in (out / "blocks").iterdir()}.items()
            return super().restore(work, fetched)  # type: ignore[arg-type]

    assert run_fleet(str(scenes), str(out), str(weights), options=OPTIONS, fleet=fleet, make=Watched).done == 1
    assert contents(out) == contents(whole)
    (out / "blocks" / f"{item(out, 's000_20200101')['properties']['attcr:work']}-0-3.zip").touch()  # a late one
    assert run_fleet(str(scenes), str(out), str(weights), options=OPTIONS, fleet=fleet).skipped == 1
    assert contents(out) == contents(whole)


@pytest.mark.parametrize(("limit", "shares"), [(0.025, [1, 2, 1, 2]), (0.013, [0, 1, 1, 1, 1, 1, 1])])
def test_rows_of_tiles_are_shared_among_blocks_evenly_and_none_is_lost(
    tmp_path: Path, weights: Path, limit: float, shares: list[int]
) -> None:
    scenes = make_scenes(tmp_path / "in", 1, 300)  # 6 rows of tiles
    out, whole = tmp_path / "out", tmp_path / "whole"
    run_fleet(str(scenes), str(whole), str(weights), options=OPTIONS)
    seen: list[int] = []

    class Watched(SceneWorker):
        def restore(self, work: Work, fetched: Fetched | None) -> float | None:
            if work.block == work.blocks:
                for block in range(work.blocks):
                    names = ZipFile(out / block_key(work, block)).namelist()
                    seen.append(len({name.partition("/")[0] for name in names}))
            return super().restore(work, fetched)

    run_fleet(str(scenes), str(out), str(weights), options=OPTIONS, fleet=FleetOptions(split_over=limit), make=Watched)
    assert seen == shares
    assert contents(out) == contents(whole)


class Noting(Publisher):
    """A worker that notes the blocks it is given."""

    blocks: ClassVar[list[tuple[str, int, int]]] = []
    fails: ClassVar[tuple[str, int] | None] = None

    def restore(self, work: Work, fetched: Fetched | None) -> float | None:
        self.blocks.append((work.id, work.block, work.blocks))
        if (work.id, work.block) == self.fails:
            raise ValueError("cannot be restored")
        return super().restore(work, fetched)


def split(tmp_path: Path, weights: Path, sizes: dict[str, float | None], limit: float | None) -> Tally:
    """Run made rows of these megapixels."""
    rows = [{"id": name, "href": f"s3://b/{name}.tif", "megapixels": size} for name, size in sizes.items()]
    manifest = write_rows(tmp_path / "m.parquet", rows)
    fleet = FleetOptions(split_over=limit, attempts=1)
    Noting.blocks.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("attcr.fleet.local.fetch_ahead", lambda *_: None)
        return run_fleet(str(manifest), str(tmp_path / "out"), str(weights), fleet=fleet, make=Noting)


@pytest.mark.parametrize(
    ("size", "blocks"), [(None, 0), (29.9, 0), (30.0, 0), (30.1, 2), (60.0, 2), (60.1, 3), (90.0, 3), (91.0, 4)]
)
def test_a_scene_has_as_few_blocks_as_keep_each_within_the_limit(
    tmp_path: Path, weights: Path, size: float | None, blocks: int
) -> None:
    tally = split(tmp_path, weights, {"a": size}, 30.0)
    assert Noting.blocks == [("a", block, blocks) for block in range(blocks + 1)]
    assert (tally.rows, tally.done, tally.megapixels) == (1, 1, 2.0)


def test_a_scene_is_joined_after_the_last_of_its_blocks_and_not_before(tmp_path: Path) -> None:
    rows = [{"id": "a", "href": "s3://b/a.tif", "megapixels": 90.0}]
    manifest, store = write_rows(tmp_path / "m.parquet", rows), Store(str(tmp_path / "out"))
    with Scratch(store.scratch) as scratch:
        log = Ledger(store, scratch, "r")
        todo = _Todo(str(manifest), "r", FleetOptions(split_over=30.0), store, Tally(), log)
        blocks = list(todo)
        assert [(work.block, work.blocks) for work in blocks] == [(0, 3), (1, 3), (2, 3)]
        joins = []
        for work in blocks:
            assert todo.settle(Outcome("a", work.key, "block")) is None
            joins.append([(join.block, join.blocks) for join in todo])
        assert joins == [[], [], [(3, 3)]]
        done = Outcome("a", blocks[0].key, "done")
        assert todo.settle(done) is done
        assert todo.settle(done) is None  # another worker was at it too


def test_without_a_limit_no_scene_is_split(tmp_path: Path, weights: Path) -> None:
    split(tmp_path, weights, {"a": 1e6}, None)
    assert Noting.blocks == [("a", 0, 0)]


def test_a_scene_with_a_block_that_fails_is_quarantined_once_and_not_joined(
    tmp_path: Path, weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Noting, "fails", ("a", 0))
    tally = split(tmp_path, weights, {"a": 90.0, "b": 10.0}, 30.0)
    assert (tally.rows, tally.done, tally.quarantined) == (2, 1, 1)
    assert ("a", 3, 3) not in Noting.blocks
    assert [(row["id"], row["status"], row["error"]) for row in ledger(tmp_path / "out")] == [
        ("a", "quarantined", "ValueError"),
        ("b", "done", ""),
    ]


def test_a_tally_counts_outcomes_by_their_status() -> None:
    tally = Tally()
    for status, megapixels in (("done", 2.0), ("done", 3.0), ("found", 0.0), ("quarantined", 0.0), ("lost", 0.0)):
        assert tally.complete is (status != "lost")
        tally.count(Outcome("a", "0" * 64, status, megapixels=megapixels))  # type: ignore[arg-type]
    assert (tally.done, tally.found, tally.quarantined, tally.megapixels) == (2, 1, 1, 5.0)


def test_a_tally_keeps_starting_and_working_apart(
    tmp_path: Path, weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    monkeypatch.setattr("attcr.fleet.run.time", SimpleNamespace(perf_counter=lambda: clock[0]))

    class Slow(Publisher):
        def load(self, options: RestoreOptions) -> Predictor:
            clock[0] += 5
            return super().load(options)

        def restore(self, work: Work, fetched: Fetched | None) -> float | None:
            clock[0] += 7
            return super().restore(work, fetched)

    seen: list[tuple[str, int, float]] = []
    tally = run_fleet(
        str(make_scenes(tmp_path / "in", 2)),
        str(tmp_path / "out"),
        str(weights),
        make=Slow,
        on_outcome=lambda outcome, tally: seen.append((outcome.status, tally.done, tally.megapixels)),
    )
    assert (tally.startup_seconds, tally.seconds) == (5.0, 14.0)
    assert seen == [("done", 1, 2.0), ("done", 2, 4.0)]


def test_run_json_tells_the_run_without_secrets(tmp_path: Path, weights: Path) -> None:
    make_scenes(tmp_path / "in", 1)
    rows = [
        {"id": "a", "href": "s3://b/a.tif", "megapixels": 1.5},
        {"id": "b", "href": "s3://b/b.tif", "megapixels": 2.0},
    ]
    manifest, out = write_rows(tmp_path / "m.parquet", rows), tmp_path / "out"
    options = RestoreOptions(radar="https://u:hunter2@h/sar.tif?sig=hunter2", mask="scl=https://h/scl.tif?sig=hunter2")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("attcr.fleet.local.fetch_ahead", lambda *_: None)
        run_fleet(str(manifest), str(out), str(weights), options=options, make=Publisher)
    about = json.loads((out / "run.json").read_text())
    assert (about["rows"], about["megapixels"], about["manifest"]) == (2, 3.5, str(manifest))
    assert (about["options"]["radar"], about["options"]["mask"]) == ("https://h/sar.tif", "scl=https://h/scl.tif")
    assert about["weights_sha256"] == sha256(weights.read_bytes()).hexdigest()
    assert about["recipe"] == recipe_of(about["weights_sha256"], replace(options, dtype="float32"))
    newer = RestoreOptions(radar="https://h/sar.tif?sig=newer", mask="scl=https://h/scl.tif?sig=newer", dtype="float32")
    assert recipe_of(about["weights_sha256"], newer) == about["recipe"]
    assert recipe_of(about["weights_sha256"], RestoreOptions(radar="https://h/other.tif")) != about["recipe"]


MALFORMED = 20


def malformed_rows(folder: Path) -> list[dict[str, object]]:
    """Rows that cannot be restored, each for a reason of its own."""
    folder.mkdir()
    whole = make(folder / "whole.tif", noise("uint8", (3, 64, 64)), photometric="RGB").read_bytes()
    contents = {
        "truncated.tif": whole[:3000],
        "magic.tif": bytes(16) + whole[16:],
        "empty.tif": b"",
        "text.tif": b"this is no raster",
        "html.tif": b"<!DOCTYPE html><html><body>404</body></html>",
        "none.json": json.dumps({"type": "FeatureCollection", "features": []}).encode(),
        "program.tif": b"\x7fELF\x02\x01\x01" + bytes(200),
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    make(folder / "complex.tif", np.zeros((3, 9, 9), np.complex64))
    make(folder / "one.tif", noise("uint8", (1, 9, 9)))
    make(folder / "seven.tif", noise("uint16", (7, 9, 9)))
    make(folder / "unknown.tif", noise("uint16", (3, 9, 9)))
    (folder / "dangling.tif").symlink_to("nowhere")
    (folder / "hollow").mkdir()
    names = [*contents, "complex.tif", "one.tif", "seven.tif", "unknown.tif", "dangling.tif", "hollow", "absent.tif"]
    rows: list[dict[str, object]] = [{"id": f"bad_{Path(n).stem}", "hrefs": [str(folder / n)]} for n in names]
    good = [str(folder / "whole.tif")]
    rows += [
        {"id": "../../escaped", "hrefs": good},
        {"id": "bad_no_href", "hrefs": []},
        {"id": "bad_options", "hrefs": good, "options": "{not json"},
        {"id": "bad_option", "hrefs": good, "options": '{"tyle": 64}'},
        {"id": "bad_type", "hrefs": good, "options": '{"tile": "big"}'},
        {"id": "bad_server", "hrefs": ["http://127.0.0.1:9/a.tif"]},
    ]
    return [{"options": None, **row} for row in rows]


def test_of_60_scenes_20_are_malformed_and_the_others_come_out(
    tmp_path: Path, weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attcr.fleet.stop.end_on_signals", lambda: None)  # the signals of the tests are theirs
    make_scenes(tmp_path / "in", 40, 16)
    bad = malformed_rows(tmp_path / "bad")
    assert len(bad) == MALFORMED
    good = [{"id": path.stem, "hrefs": [str(path)], "options": None} for path in sorted((tmp_path / "in").iterdir())]
    manifest = write_rows(
        tmp_path / "m.parquet", [row for i in range(20) for row in (bad[i], *good[i * 2 : i * 2 + 2])]
    )
    out = tmp_path / "deep" / "out"
    options = ("--weights", weights, "--set", "tile=64", "--set", "overlap=8", "--attempts", 2)
    done = attcr("fleet", "run", manifest, out, *options)
    assert done.returncode == 3, done.stderr
    assert len(list((out / "items").iterdir())) == 40
    rows = [row for row in ledger(out) if row["status"] == "quarantined"]
    assert len(rows) == 20
    assert all(row["error"] and row["message"] for row in rows)
    kinds = {str(row["id"]): row["error"] for row in rows}
    assert kinds["bad_one"] == "SceneError"
    assert kinds["bad_option"] == "ConfigError"
    assert kinds["../../escaped"] == kinds["bad_no_href"] == "ManifestError"
    assert len(set(kinds.values())) > 4
    assert all(row["attempts"] == 2 for row in rows if row["error"] != "ManifestError")
    assert {path.name for path in tmp_path.iterdir()} == {"in", "bad", "m.parquet", "deep"}
    assert {path.name for path in (tmp_path / "deep").iterdir()} == {"out"}
    assert {path.name for path in out.iterdir()} == {"items", "scenes", "ledger", "run.json"}
    status = attcr("fleet", "status", out)
    assert "40 of 60 scenes done, 20 quarantined, 0 left" in status.stdout
    assert "ManifestError" in status.stdout


def test_quarantined_scenes_wait_for_a_retry(tmp_path: Path, weights: Path) -> None:
    (tmp_path / "in").mkdir()
    path = tmp_path / "in" / "a.tif"
    manifest = write_rows(tmp_path / "m.parquet", [{"id": "a", "hrefs": [str(path)], "version": "1"}])
    out = tmp_path / "out"

    def go() -> tuple[int, int]:
        tally = run_fleet(str(manifest), str(out), str(weights), options=OPTIONS)
        return tally.done, tally.quarantined

    assert go() == (0, 1)
    make(path, noise("uint8", (3, 64, 64)), photometric="RGB", **UTM)
    assert go() == (0, 1)  # it is not tried again by itself
    assert read_status(str(out)).summary.quarantined == {"SceneError": 1}
    assert requeue(str(out), ["TimeoutError"]) == 0
    assert requeue(str(out), ["SceneError"]) == 1
    assert read_status(str(out)).left == 1
    assert go() == (1, 0)
    assert read_status(str(out)).summary.quarantined == {}


def test_a_retry_holds_though_the_clock_goes_back(
    tmp_path: Path, weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failing(Publisher):
        def restore(self, work: Work, fetched: Fetched | None) -> float | None:
            raise ValueError("not yet")

    manifest = str(write_rows(tmp_path / "m.parquet", [{"id": name, "href": f"/in/{name}.tif"} for name in "ab"]))
    out, real = str(tmp_path / "out"), time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() + 3600 * 10**9)  # it ran an hour ahead
    assert run_fleet(manifest, out, str(weights), make=Failing).quarantined == 2
    monkeypatch.setattr(time, "time_ns", real)
    assert requeue(out, ["all"]) == 2
    assert read_status(out).left == 2
    assert run_fleet(manifest, out, str(weights), make=Failing).quarantined == 2
    assert requeue(out, ["all"]) == 2
    assert run_fleet(manifest, out, str(weights), make=Publisher).done == 2
    assert read_status(out).summary.quarantined == {}


def test_an_equal_row_that_is_refused_does_not_shut_the_first_out(tmp_path: Path, weights: Path) -> None:
    manifest = str(write_rows(tmp_path / "m.parquet", [{"id": "a", "href": "/in/a.tif"}] * 3))
    out = tmp_path / "out"

    store = Store(str(out))
    with Scratch(store.scratch) as scratch:  # Ray may end the refused rows first
        todo = list(_Todo(manifest, "r", FleetOptions(), store, Tally(), Ledger(store, scratch, "r")))
    assert [bool(work.problem) for work in todo] == [False, True, True]
    assert todo[0].key not in {work.key for work in todo[1:]}
    assert (tally := run_fleet(manifest, str(out), str(weights), make=Publisher)).done == 1
    assert tally.quarantined == 2
    again = run_fleet(manifest, str(out), str(weights), make=Publisher)
    assert (again.skipped, again.quarantined) == (1, 2)


def test_an_id_that_occurs_twice_is_run_once(tmp_path: Path, weights: Path) -> None:
    make_scenes(tmp_path / "in", 2)
    rows = [{"id": "same", "hrefs": [str(path)]} for path in sorted((tmp_path / "in").iterdir())]
    tally = run_fleet(
        str(write_rows(tmp_path / "m.parquet", rows)), str(tmp_path / "out"), str(weights), options=OPTIONS
    )
    assert (tally.done, tally.quarantined) == (1, 1)
    before = item(tmp_path / "out", "same")
    assert requeue(str(tmp_path / "out"), ["all"]) == 1
    again = run_fleet(str(tmp_path / "m.parquet"), str(tmp_path / "out"), str(weights), options=OPTIONS)
    assert (again.skipped, again.done, again.quarantined) == (1, 0, 1)
    assert item(tmp_path / "out", "same") == before


def test_a_split_scene_that_is_there_is_found_once(tmp_path: Path, weights: Path) -> None:
    scenes, out = make_scenes(tmp_path / "in", 1, 300), tmp_path / "out"
    run_fleet(str(scenes), str(out), str(weights), options=OPTIONS)
    shutil.rmtree(out / "ledger")
    tally = run_fleet(str(scenes), str(out), str(weights), options=OPTIONS, fleet=FleetOptions(split_over=0.03))
    assert (tally.done, tally.found) == (0, 1)
    assert completed(out) == {"s000_20200101": 1}


class Deadly(SceneWorker):
    """A worker that one scene kills."""

    def restore(self, work: Work, fetched: object) -> float | None:
        if work.id == "s001_20200101":
            os.kill(os.getpid(), signal.SIGKILL)
        return super().restore(work, fetched)  # type: ignore[arg-type]


def test_a_scene_that_kills_its_process_is_quarantined_in_the_end(tmp_path: Path, weights: Path) -> None:
    scenes, out = make_scenes(tmp_path / "in", 3), tmp_path / "out"
    fleet = FleetOptions(attempts=2)
    code = (
        "import sys; from test_fleet_run import *; run_fleet(*sys.argv[1:], options=OPTIONS, "
        "fleet=FleetOptions(attempts=2), make=Deadly)"
    )
    paths = os.pathsep.join([str(SOURCE), str(Path(__file__).parent), str(Path(__file__).parents[1])])
    for _ in range(2):
        child = subprocess.run([sys.executable, "-c", code, scenes, out, weights], env=environment(PYTHONPATH=paths))
        assert child.returncode == -signal.SIGKILL
    tally = run_fleet(str(scenes), str(out), str(weights), options=OPTIONS, fleet=fleet, make=Deadly)
    assert (tally.done + tally.found + tally.skipped, tally.quarantined) == (2, 1)
    assert read_status(str(out)).summary.quarantined == {"WorkerDied": 1}
    assert {path.name for path in out.iterdir()} == {"items", "scenes", "ledger", "run.json"}


def test_credentials_are_stored_and_shown_nowhere(tmp_path: Path, weights: Path) -> None:
    (tmp_path / "served").mkdir()
    make(tmp_path / "served" / "a.tif", noise("uint8", (3, 64, 64)), photometric="RGB", **UTM)
    make(tmp_path / "served" / "mask.tif", np.ones((1, 64, 64), np.uint8), **UTM)
    with serve(tmp_path / "served") as address:
        signature = "X-Amz-Credential=AKIAHUNTER2HUNTER2&X-Amz-Signature=hunter2&sig=hunter2&se=hunter2"
        signed = f"{address}/a.tif?{signature}"
        mask = json.dumps({"mask": f"/vsicurl/{address}/mask.tif?{signature}"})
        user = address.replace("://", "://hunter2:hunter2@")
        rows = [
            {"id": "fetched", "hrefs": [signed], "options": None},
            {"id": "in_place", "hrefs": [f"/vsicurl/{signed}"], "options": None},
            {"id": "masked", "hrefs": [signed], "options": mask},
            {"id": "absent", "hrefs": [f"{address}/no.tif?{signature}"], "options": None},
            {"id": "absent_in_place", "hrefs": [f"/vsicurl/{user}/no.tif?{signature}"], "options": None},
            {"id": "lost_mask", "hrefs": [signed], "options": mask.replace("mask.tif", "no.tif")},
            {"id": f"https://u:hunter2@h/x?{signature}", "hrefs": [signed], "options": None},
            {"id": "option", "hrefs": [signed], "options": json.dumps({f"{user}?{signature}": 1})},
        ]
        manifest = write_rows(tmp_path / "m.parquet", rows)
        out = tmp_path / "out"
        arguments = ("run", manifest, out, "--weights", weights, "--set", "tile=64", "--set", "overlap=8")
        done = run(*arguments, "--attempts", 1, AWS_SECRET_ACCESS_KEY="envhunter2")
    assert done.returncode == 3, done.stderr
    assert completed(out) == {"fetched": 1, "in_place": 1, "masked": 1}
    everything = {str(path): path.read_bytes() for path in out.rglob("*") if path.is_file()}
    rows_told = json.dumps(ledger(out), default=str)
    assert "hunter2" not in (done.stdout + done.stderr + rows_told).lower()
    assert [name for name, data in everything.items() if b"hunter2" in data.lower()] == []
    told = item(out, "fetched")
    assert told["links"][0]["href"] == f"{address}/a.tif"
    assert str(tmp_path) not in json.dumps(told)
    masked = item(out, "masked")["properties"]
    assert masked["attcr:options"]["mask"] == f"/vsicurl/{address}/mask.tif"


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"engine": "dask"}, "`engine` is 'dask'; expected local or ray"),
        ({"shard": (2, 2)}, "shard is 2/2"),
        ({"attempts": 0}, "`attempts` is 0 and must be at least 1"),
        ({"threads": 0}, "`threads` is 0 and must be at least 1"),
        ({"gpus": -0.5, "engine": "ray"}, "`gpus` is -0.5 and must be at least 0"),
        ({"workers": 2}, "for `engine=ray`"),
        ({"engine": "ray", "workers": 0}, "`workers` is 0"),
        ({"split_over": 0.0}, "split_over is 0.0 megapixels"),
    ],
)
def test_options_that_cannot_be_are_refused(wrong: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        FleetOptions(**wrong)  # type: ignore[arg-type]


def test_what_is_missing_is_said(tmp_path: Path, weights: Path) -> None:
    with pytest.raises(FleetError, match=r"run\.json"):
        read_status(str(tmp_path))
    with pytest.raises(WeightsError, match="no such file"):
        run_fleet("x.txt", str(tmp_path / "out"), str(tmp_path / "no.safetensors"))


@pytest.mark.parametrize("name", ["in/nothing*.tif", "empty.txt"])
def test_a_manifest_without_scenes_is_refused_and_leaves_nothing(tmp_path: Path, weights: Path, name: str) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "empty.txt").touch()
    with pytest.raises(ManifestError, match=r"There is no scene in .*: check the name, or the pattern"):
        run_fleet(str(tmp_path / name), str(tmp_path / "out"), str(weights), options=OPTIONS)
    assert not list((tmp_path / "out").rglob("*.json"))
