"""Remote files on servers of this machine: what is asked of whom, and what is read."""

import json
from base64 import b64encode
from dataclasses import replace
from pathlib import Path

import obstore
import pytest
from obstore.store import MemoryStore

from attcr.fleet.fetch import Fetched, fetch, fetch_ahead, lay_down
from attcr.fleet.manifest import Work, work_of_item
from attcr.fleet.run import run_fleet
from attcr.restore.options import RestoreOptions
from fake_fleets import host, item, ledger, stac_item, told
from fake_scenes import UTM, make, noise, serve

OPTIONS = RestoreOptions(tile=64, overlap=8, mask="none")


def sizes(fetched: Fetched) -> dict[str, int]:
    return {href.rpartition("/")[2]: fetched.size(href) or 0 for href in fetched.files}


def test_a_login_is_sent_to_its_host_and_not_to_the_one_that_it_sends_on_to() -> None:
    with host({"/b.tif?x=1": told(b"pixels")}) as (second, asked_second):
        moved = [(302, {"Location": f"{second}/b.tif?x=1", "Content-Length": "0"}, b"")]
        with host({"/a.tif": moved}) as (first, asked_first):
            href = first.replace("://", "://user:p%40ss@") + "/a.tif"
            fetched = fetch(Work("a", (href,)), OPTIONS)
    assert dict(fetched.files) == {href: b"pixels"}
    assert asked_first == [("/a.tif", f"Basic {b64encode(b'user:p@ss').decode()}")]
    assert asked_second == [("/b.tif?x=1", None)]


def test_an_address_without_a_login_is_asked_without_one_and_with_its_signature() -> None:
    with host({"/a.tif?sig=1": told(b"pixels")}) as (address, asked):
        fetch(Work("a", (f"{address}/a.tif?sig=1",)), OPTIONS)
    assert asked == [("/a.tif?sig=1", None)]


@pytest.mark.parametrize(
    ("lengths", "read"),
    [
        ([100], [100]),
        ([101], []),
        ([60, 40], [60, 40]),
        ([60, 41], [60]),
        ([60, 41, 40], [60, 40]),
        ([101, 60, 40], [60, 40]),
        ([50, 30, 21, 20], [50, 30, 20]),
    ],
)
def test_the_files_of_a_scene_are_fetched_as_far_as_the_limit_goes(
    lengths: list[int], read: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attcr.fleet.fetch.FETCH_LIMIT", 100)
    bucket = MemoryStore()
    monkeypatch.setattr("attcr.fleet.fetch.open_bucket", lambda url: bucket)
    for length in lengths:
        obstore.put(bucket, f"in/{length}", bytes(length))
    with host({f"/{length}": told(bytes(length)) for length in lengths}) as (address, _):
        on_web = fetch(Work("a", tuple(f"{address}/{length}" for length in lengths)), OPTIONS)
    in_bucket = fetch(Work("a", tuple(f"s3://bucket/in/{length}" for length in lengths)), OPTIONS)
    assert sizes(on_web) == sizes(in_bucket) == {str(length): length for length in read}


def test_a_file_that_does_not_say_how_large_it_is_stays_where_it_is() -> None:
    with host({"/a.tif": [(200, {}, b"pixels")], "/b.tif": told(b""), "/c.tif": told(b"more")}) as (address, _):
        fetched = fetch(Work("a", tuple(f"{address}/{name}.tif" for name in "abc")), OPTIONS)
    assert sizes(fetched) == {"b.tif": 0, "c.tif": 4}


def test_what_is_local_or_read_in_place_is_not_fetched(tmp_path: Path) -> None:
    with host({}) as (address, asked):
        hrefs = (str(tmp_path / "a.tif"), f"/vsicurl/{address}/b.tif", f"{address}/item.JSON?sig=1")
        fetched = fetch(Work("a", hrefs), OPTIONS)
    assert (fetched.files, asked) == ({}, [])
    assert lay_down(Work("a", hrefs), fetched, tmp_path / "in") == list(hrefs)


@pytest.mark.parametrize(("bands", "count"), [(None, 0), (("red",), 0), (("red", "green"), 3)])
def test_of_an_item_only_as_many_files_as_named_bands_and_a_mask_are_fetched(
    bands: tuple[str, ...] | None, count: int
) -> None:
    with host({f"/s/{band}.tif?sig=secret": told(b"pixels") for band in ("red", "green", "blue")}) as (address, _):
        work = work_of_item(json.loads(json.dumps(stac_item("s")).replace("https://host", address)))
        assert len(fetch(work, replace(OPTIONS, bands=bands)).files) == count


def test_a_fetch_that_fails_gives_nothing_to_reuse() -> None:
    with host({"/a.tif": told(b"pixels"), "/b.tif": [(503, {"Content-Length": "0"}, b"")]}) as (address, _):
        both = Work("a", (f"{address}/a.tif", f"{address}/b.tif"))
        assert fetch_ahead(both, OPTIONS) is None
        alone = fetch_ahead(replace(both, hrefs=both.hrefs[:1]), OPTIONS)
        assert alone is not None
        assert sizes(alone) == {"a.tif": 6}
        assert fetch_ahead(replace(both, hrefs=both.hrefs[:1], options='{"tyle": 1}'), OPTIONS) is None


def test_fetched_files_take_the_place_of_their_addresses(tmp_path: Path) -> None:
    hrefs = ("https://u:p@host/x/T33.SAFE/B02.jp2?sig=1", "https://host/large.tif")
    fetched = Fetched({hrefs[0]: b"pixels"})
    place = tmp_path / "in" / "host" / "x" / "T33.SAFE" / "B02.jp2"
    assert lay_down(Work("a", hrefs), fetched, tmp_path / "in") == [str(place), hrefs[1]]
    assert place.read_bytes() == b"pixels"
    known = {"links": [{"rel": "self", "href": "https://host/item.json"}], "properties": {}}
    text = json.dumps({**known, "assets": {"blue": {"href": hrefs[0]}, "all": {"href": hrefs[1]}}})
    place.unlink()
    source = lay_down(Work("a", hrefs, item=text), fetched, tmp_path / "in")
    assert isinstance(source, str)
    laid = json.loads(Path(source).read_text())
    assert laid == {**known, "links": [], "assets": {"blue": {"href": str(place)}, "all": {"href": hrefs[1]}}}


def test_a_fetched_file_stays_in_its_folder(tmp_path: Path) -> None:
    href = "s3://bucket/../../../x/./y.tif"
    (made,) = lay_down(Work("a", (href,)), Fetched({href: b"x"}), tmp_path / "in")
    assert Path(made).resolve() == (tmp_path / "in" / "bucket" / "x" / "y.tif").resolve()


def test_a_stac_item_is_restored_with_the_bands_that_are_named(tmp_path: Path, weights: Path) -> None:
    (tmp_path / "served").mkdir()
    with serve(tmp_path / "served") as address:
        assets = {}
        for name in ("red", "green", "blue", "nir"):
            make(tmp_path / "served" / f"{name}.tif", noise("uint8", (1, 64, 64)), **UTM)
            assets[name] = {"href": f"{address}/{name}.tif?sig=1", "type": "image/tiff", "bands": [{"name": name}]}
        (tmp_path / "served" / "nir.tif").unlink()  # it is not needed
        properties = {"datetime": "2021-05-06T07:08:09Z"}
        known = {"type": "Feature", "stac_version": "1.1.0", "id": "scene", "geometry": None, "links": []}
        (tmp_path / "items.ndjson").write_text(json.dumps({**known, "properties": properties, "assets": assets}))
        out = tmp_path / "out"
        options = replace(OPTIONS, bands=("red", "green", "blue"))
        tally = run_fleet(str(tmp_path / "items.ndjson"), str(out), str(weights), options=options)
    assert tally.done == 1, ledger(out)
    assert item(out, "scene")["properties"]["datetime"] == "2021-05-06T07:08:09Z"
    assert "sig" not in json.dumps(item(out, "scene"))


def test_files_go_to_a_folder_and_addresses_that_differ_in_their_query_alone_apart(tmp_path: Path) -> None:
    names = ("red", "green", "blue")
    with host({f"/get?file={name}.tif": told(name.encode()) for name in names}) as (address, _):
        hrefs = tuple(f"{address}/get?file={name}.tif" for name in names)
        fetched = fetch(Work("a", hrefs), OPTIONS, tmp_path / "in")
    assert fetched is not None
    assert all(isinstance(content, Path) for content in fetched.files.values())
    laid = lay_down(Work("a", hrefs), fetched, tmp_path / "in")
    assert [Path(path).read_text() for path in laid] == list(names)
    held = Fetched({href: name.encode() for href, name in zip(hrefs, names, strict=True)})
    laid = lay_down(Work("a", hrefs), held, tmp_path / "again")
    assert [Path(path).read_text() for path in laid] == list(names)


def test_what_is_too_much_for_memory_is_left_to_the_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attcr.fleet.fetch.MEMORY_LIMIT", 100)
    with host({"/60": told(bytes(60)), "/41": told(bytes(41))}) as (address, _):
        both = Work("a", (f"{address}/60", f"{address}/41"))
        assert fetch(both, OPTIONS) is None
        fetched = fetch(both, OPTIONS, tmp_path / "in")
    assert fetched is not None
    assert sizes(fetched) == {"60": 60, "41": 41}


def test_a_file_that_ends_too_early_or_comes_too_slowly_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with host({"/a.tif": [(200, {"Content-Length": "100"}, b"pixels")]}) as (address, _):
        with pytest.raises(OSError, match="ended after 6 of 100 bytes"):
            fetch(Work("a", (f"{address}/a.tif",)), OPTIONS, tmp_path / "in")
        monkeypatch.setattr("attcr.fleet.fetch.seconds_for", lambda size: -1.0)
        with pytest.raises(TimeoutError, match="too slowly"):
            fetch(Work("a", (f"{address}/a.tif",)), OPTIONS, tmp_path / "again")
