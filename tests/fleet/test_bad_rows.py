"""Bad rows, logs and marks: none of them stops the scenes beside it, each bad row is quarantined with its reason."""

import json
import os
import shutil
import socket
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from attcr.errors import AttcrWarning, FleetError, ManifestError
from attcr.fleet.ledger import FOLDER, SCHEMA
from attcr.fleet.manifest import MOST_MEGAPIXELS
from attcr.fleet.run import MOST_BLOCKS, FleetOptions, Tally, read_status, requeue, run_fleet
from fake_fleets import Publisher, ledger, stac_item, write_rows

Bad = str | bytes
DEEP = "[" * 100_000


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attcr.fleet.local.fetch_ahead", lambda *_: None)


def go(manifest: Path, out: Path, weights: Path, split_over: float | None = None) -> Tally:
    fleet = FleetOptions(split_over=split_over, attempts=1)
    return run_fleet(str(manifest), str(out), str(weights), fleet=fleet, make=Publisher)


def told_of(asset: str) -> str:
    """An item whose one asset is this JSON."""
    return f'{{"id": "bad", "assets": {{"a": {asset}}}}}'


LINES: dict[str, Bad] = {
    "a lone surrogate in the id": r'{"id": "\ud800", "assets": {"a": {"href": "/x.tif"}}}',
    "a lone surrogate in an address": told_of(r'{"href": "/x\ud800.tif"}'),
    "an escaped byte in an address": told_of(r'{"href": "/x\udcff.tif"}'),
    "a deep list": DEEP,
    "a deep object": '{"a":' * 100_000,
    "a deep id": '{"id": ' + DEEP + "]" * 100_000 + "}",
    "a number": "5",
    "null": "null",
    "text": '"x"',
    "a list": "[]",
    "half an object": '{"id": "cut',
    "bytes that are no UTF-8": b"\xff\xfe{}",
    "a NUL in an address": told_of(r'{"href": "/a\u0000b.tif"}'),
    "a NUL in a remote address": told_of(r'{"href": "s3://b/a\u0000b.tif"}'),
    "an address that is a number": told_of('{"href": 5}').replace('"bad"', "[5]"),
    "no assets": '{"id": "bad"}',
    "assets that are text": '{"id": "bad", "assets": "red"}',
    "an asset that is null": told_of("null"),
    "an id that is a list": '{"id": ["a"], "assets": {"a": {"href": "/x.tif"}}}',
    "an id that is an object": '{"id": {"a": 1}, "assets": {"a": {"href": "/x.tif"}}}',
    "an id that is true": '{"id": true, "assets": {"a": {"href": "/x.tif"}}}',
    "an id of 5 MB": json.dumps({"id": "x-" * 2_500_000, "assets": {"a": {"href": "/x.tif"}}}),
    "an id that is a number of 5,000 digits": '{"id": ' + "9" * 5000 + ', "assets": {"a": {"href": "/x.tif"}}}',
    "a shape of infinity": told_of('{"href": "/x.tif", "proj:shape": [1e400, 2]}'),
    "a shape of NaN": told_of('{"href": "/x.tif", "proj:shape": [NaN, 2]}'),
    "a shape below 0": told_of('{"href": "/x.tif", "proj:shape": [-5, 2]}'),
    "a shape past all rasters": told_of('{"href": "/x.tif", "proj:shape": [100000000000, 100000000000]}'),
    "a shape past all floats": told_of('{"href": "/x.tif", "proj:shape": [' + "9" * 400 + ", 9]}"),
    "properties that are a number": '{"id": "bad", "properties": 5, "assets": {"a": {"href": "/x.tif"}}}',
}
ROWS: dict[str, dict[str, object]] = {
    "an infinite size": {"megapixels": float("inf")},
    "a size of minus infinity": {"megapixels": float("-inf")},
    "a size that is no number": {"megapixels": float("nan")},
    "a size below 0": {"megapixels": -5.0},
    "a size past all rasters": {"megapixels": 1e13},
    "a NUL in a local address": {"href": "a\0b"},
    "a NUL in the id": {"id": "a\0b"},
    "an id that leaves its folder": {"id": "../../x"},
    "an id that is empty": {"id": ""},
    "an id that is too long": {"id": "x" * 201},
    "an id of two lines": {"id": "a\nb"},
    "no address": {"href": ""},
}
LISTED: dict[str, Bad] = {"bytes that are no UTF-8": b"/in/\xff.tif", "a NUL": b"/in/a\0b.tif"}


def check(tally: Tally, out: Path) -> None:
    """The two good rows have their items, the one between them its reason."""
    assert (tally.rows, tally.done, tally.quarantined) == (3, 2, 1)
    assert sorted(path.name for path in (out / "items").iterdir()) == ["fine.json", "last.json"]
    (row,) = [row for row in ledger(out) if row["status"] == "quarantined"]
    assert row["error"] == "ManifestError"
    assert row["message"]
    assert len(str(row["message"])) <= 1000
    assert read_status(str(out)).left == 0
    assert requeue(str(out), ["all"]) == 1


@pytest.mark.parametrize("bad", LINES.values(), ids=LINES)
def test_a_bad_line_is_quarantined_and_stops_no_other(tmp_path: Path, weights: Path, bad: Bad) -> None:
    line = bad.encode() if isinstance(bad, str) else bad
    good = [json.dumps(stac_item(name)).encode() for name in ("fine", "last")]
    (tmp_path / "m.ndjson").write_bytes(b"\n".join([good[0], line, good[1]]))
    check(go(tmp_path / "m.ndjson", tmp_path / "out", weights, 0.5), tmp_path / "out")


@pytest.mark.parametrize("bad", [bad for bad in LINES.values() if isinstance(bad, str) and bad.endswith(("}", "5"))])
def test_a_bad_item_of_a_collection_is_quarantined_and_stops_no_other(
    tmp_path: Path, weights: Path, bad: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attcr.fleet.manifest._CHUNK", 1000)
    good = [json.dumps(stac_item(name)) for name in ("fine", "last")]
    if len(bad) > 10**6:
        monkeypatch.undo()
        monkeypatch.setattr("attcr.fleet.local.fetch_ahead", lambda *_: None)
    collection = f'{{"type": "FeatureCollection", "features": [{good[0]}, {bad}, {good[1]}]}}'
    (tmp_path / "m.json").write_text(collection)
    check(go(tmp_path / "m.json", tmp_path / "out", weights), tmp_path / "out")


@pytest.mark.parametrize("bad", ['{"id": }', '{"id": "a" "x": [1, 2]}', "null", '"]}"', "[[]]"])
def test_what_is_no_item_among_items_is_quarantined_too(tmp_path: Path, weights: Path, bad: str) -> None:
    test_a_bad_item_of_a_collection_is_quarantined_and_stops_no_other(tmp_path, weights, bad, pytest.MonkeyPatch())


@pytest.mark.parametrize("bad", ROWS.values(), ids=ROWS)
def test_a_bad_row_is_quarantined_and_stops_no_other(tmp_path: Path, weights: Path, bad: dict[str, object]) -> None:
    rows = [{"id": name, "href": f"/in/{name}.tif", "megapixels": 0.001} for name in ("fine", "bad", "last")]
    manifest = write_rows(tmp_path / "m.parquet", [rows[0], {**rows[1], **bad}, rows[2]])
    check(go(manifest, tmp_path / "out", weights, 0.5), tmp_path / "out")


def test_a_row_whose_text_is_no_utf_8_is_quarantined_and_stops_no_other(tmp_path: Path, weights: Path) -> None:
    names = pa.array([b"/in/a.tif", b"/in/\xff.tif", b"/in/b.tif"]).cast(pa.binary()).view(pa.string())
    pq.write_table(pa.table({"id": ["fine", "bad", "last"], "href": names}), tmp_path / "m.parquet")
    check(go(tmp_path / "m.parquet", tmp_path / "out", weights), tmp_path / "out")


@pytest.mark.parametrize("bad", LISTED.values(), ids=LISTED)
def test_a_bad_line_of_a_list_is_quarantined_and_stops_no_other(tmp_path: Path, weights: Path, bad: bytes) -> None:
    (tmp_path / "m.txt").write_bytes(b"/in/fine.tif\n" + bad + b"\n/in/last.tif\n")
    check(go(tmp_path / "m.txt", tmp_path / "out", weights), tmp_path / "out")


def test_a_bad_row_does_not_shut_a_good_one_of_its_id_out(tmp_path: Path, weights: Path) -> None:
    rows = [{"id": "fine", "href": ""}, {"id": "fine", "href": "/a.tif"}, {"id": "last", "href": "/b.tif"}]
    check(go(write_rows(tmp_path / "m.parquet", rows), tmp_path / "out", weights), tmp_path / "out")


@pytest.mark.parametrize("text", [DEEP, '{"features": 5}', '{"type": "FeatureCollection", "features": [{"a": '])
def test_a_manifest_that_is_none_is_refused_in_words(tmp_path: Path, weights: Path, text: str) -> None:
    (tmp_path / "m.json").write_text(text)
    if text == '{"features": 5}':
        assert go(tmp_path / "m.json", tmp_path / "out", weights).quarantined == 1
        return
    with pytest.raises(ManifestError):
        go(tmp_path / "m.json", tmp_path / "out", weights)


@pytest.mark.nightly
def test_the_largest_scene_there_may_be_has_a_bounded_number_of_blocks(tmp_path: Path, weights: Path) -> None:
    seen: set[int] = set()

    class Noting(Publisher):
        def restore(self, work: object, fetched: object) -> float | None:
            seen.add(work.blocks)  # type: ignore[attr-defined]
            return super().restore(work, fetched)  # type: ignore[arg-type]

    rows = [{"id": "large", "href": "/in/a.tif", "megapixels": MOST_MEGAPIXELS}]
    manifest, fleet = write_rows(tmp_path / "m.parquet", rows), FleetOptions(split_over=0.5, attempts=1)
    assert run_fleet(str(manifest), str(tmp_path / "out"), str(weights), fleet=fleet, make=Noting).done == 1
    assert seen == {MOST_BLOCKS}


def write_log(out: Path, **values: object) -> None:
    """A file of the log with one row whose values are these."""
    row = {"id": "x", "work": "0" * 64, "recipe": "r", "status": "done", "time": 0, "error": "E", **values}
    pq.write_table(pa.Table.from_pylist([row], SCHEMA), out / FOLDER / "y.parquet")


def not_utf8(out: Path) -> None:
    table = pa.table({"id": pa.array([b"\xff"]).view(pa.string()), "work": ["0" * 64], "status": ["done"]})
    pq.write_table(table.append_column("time", pa.array([0], pa.timestamp("us", "UTC"))), out / FOLDER / "y.parquet")


def cut_short(out: Path) -> None:
    path = next((out / FOLDER).iterdir())
    path.write_bytes(path.read_bytes()[:-40])


def flipped(out: Path) -> None:
    path = next((out / FOLDER).iterdir())
    data = bytearray(path.read_bytes())
    data[4:200] = bytes(196)
    path.write_bytes(data)


def spoil_items(out: Path, text: str) -> None:
    """With no log that says that they were whole once."""
    shutil.rmtree(out / FOLDER)
    for path in (out / "items").iterdir():
        path.write_text(text)


LOGS: dict[str, Callable[[Path], object]] = {
    "a log of garbage": lambda out: (out / FOLDER / "x.parquet").write_bytes(b"garbage"),
    "a log of nothing": lambda out: (out / FOLDER / "x.parquet").write_bytes(b""),
    "a log cut short": cut_short,
    "a log with zeros in it": flipped,
    "a log of other columns": lambda out: pq.write_table(pa.table({"a": [1]}), out / FOLDER / "y.parquet"),
    "a log that is a folder": lambda out: (out / FOLDER / "d.parquet").mkdir(),
    "a log that leads nowhere": lambda out: (out / FOLDER / "l.parquet").symlink_to("nowhere"),
    "a log whose work is no key": lambda out: write_log(out, work="zz"),
    "a log without work": lambda out: write_log(out, work=None),
    "a log without an id": lambda out: write_log(out, id=None),
    "a log without a status": lambda out: write_log(out, status=None),
    "a log of an unknown status": lambda out: write_log(out, status="gone"),
    "a log without a time": lambda out: write_log(out, time=None),
    "a log of the year 200000": lambda out: write_log(out, time=2**62, status="quarantined"),
    "a log before all years": lambda out: write_log(out, time=-(2**62), status="quarantined"),
    "a log without an error's class": lambda out: write_log(out, status="quarantined", error=None),
    "a log without a recipe": lambda out: write_log(out, status="quarantined", recipe=None),
    "a log of sizes that are no numbers": lambda out: write_log(out, megapixels=float("nan"), seconds=float("inf")),
    "a log of text that is no UTF-8": not_utf8,
    "half a run.json": lambda out: (out / "run.json").write_text("{"),
    "an empty run.json": lambda out: (out / "run.json").write_text(""),
    "a run.json that is a list": lambda out: (out / "run.json").write_text("[]"),
    "a deep run.json": lambda out: (out / "run.json").write_text(DEEP),
    "a run.json of no text": lambda out: (out / "run.json").write_bytes(b"\xff"),
    "a run.json of other values": lambda out: (out / "run.json").write_text('{"recipe": [], "rows": "x"}'),
    "items of garbage": lambda out: spoil_items(out, "{"),
    "deep items": lambda out: spoil_items(out, DEEP),
    "items that are lists": lambda out: spoil_items(out, "[]"),
}


@pytest.mark.parametrize("damage", LOGS.values(), ids=LOGS)
def test_a_damaged_log_stops_no_fleet(tmp_path: Path, weights: Path, damage: Callable[[Path], object]) -> None:
    rows = [{"id": name, "href": f"/in/{name}.tif"} for name in ("fine", "last")]
    manifest, out = write_rows(tmp_path / "m.parquet", rows), tmp_path / "out"
    go(manifest, out, weights)
    damage(out)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AttcrWarning)
        with suppress(FleetError):  # where it is run.json that is damaged
            read_status(str(out))
        tally = go(manifest, out, weights)
        assert (tally.rows, tally.done + tally.found + tally.skipped, tally.quarantined) == (2, 2, 0)
        status = read_status(str(out))
        assert (status.summary.done, status.left) == (2, 0)
        assert status.summary.megapixels == status.summary.megapixels  # a number
        requeue(str(out), ["all"])
    for name in ("fine", "last"):
        assert json.loads((out / "items" / f"{name}.json").read_text())["properties"]["attcr:work"]


def test_a_damaged_log_is_told(tmp_path: Path, weights: Path) -> None:
    (tmp_path / "out" / FOLDER).mkdir(parents=True)
    (tmp_path / "out" / FOLDER / "x.parquet").write_bytes(b"garbage")
    manifest = write_rows(tmp_path / "m.parquet", [{"id": "a", "href": "/in/a.tif"}])
    with pytest.warns(AttcrWarning, match=r"x\.parquet"):
        assert go(manifest, tmp_path / "out", weights).done == 1


HOST = socket.gethostname()
MARKS: dict[str, bytes] = {
    "a number past all processes": f"{HOST}:99999999999999999999 fine".encode(),
    "a number of 5,000 digits": f"{HOST}:{'9' * 5000} fine".encode(),
    "a number below 0": f"{HOST}:-1 fine".encode(),
    "the number 0": f"{HOST}:0 fine".encode(),
    "a digit that is none": f"{HOST}:² fine".encode(),
    "no text": b"\xff\xfe\x00",
    "a NUL": b"\0:1 \0",
}


@pytest.mark.parametrize("mark", MARKS.values(), ids=MARKS)
def test_a_mark_that_is_none_stops_no_fleet(tmp_path: Path, weights: Path, mark: bytes) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "at-0-of-1").write_bytes(mark)
    rows = [{"id": name, "href": f"/in/{name}.tif"} for name in ("fine", "last")]
    assert go(write_rows(tmp_path / "m.parquet", rows), out, weights).done == 2
    assert [row["status"] for row in ledger(out)] == ["done", "done"]


def test_a_mark_that_is_a_folder_stops_no_fleet(tmp_path: Path, weights: Path) -> None:
    (tmp_path / "out" / "at-0-of-1").mkdir(parents=True)
    manifest = write_rows(tmp_path / "m.parquet", [{"id": "a", "href": "/in/a.tif"}])
    assert go(manifest, tmp_path / "out", weights).done == 1


def test_a_mark_of_another_users_process_is_one_of_the_living(
    tmp_path: Path, weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(pid: int, number: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "kill", refuse)
    out = tmp_path / "out"
    out.mkdir()
    (out / "at-0-of-1").write_text(f"{HOST}:1 a")
    manifest = write_rows(tmp_path / "m.parquet", [{"id": "a", "href": "/in/a.tif"}])
    assert go(manifest, out, weights).done == 1
    assert [row["status"] for row in ledger(out)] == ["done"]
