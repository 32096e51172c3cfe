import json
from dataclasses import replace
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from attcr.errors import ManifestError
from attcr.fleet.manifest import Work, in_shard, prune_item, read_manifest, survey, work_of_item, write_manifest
from fake_fleets import stac_item, write_rows


def test_a_parquet_row_becomes_work(tmp_path: Path) -> None:
    rows = [
        {"id": "a", "hrefs": ["s3://b/a.tif"], "version": "e1", "options": '{"mask": "auto"}', "megapixels": 120.5},
        {"id": "b", "hrefs": ["b_B02.tif", "b_B03.tif"], "version": None, "options": None, "megapixels": None},
    ]
    first, second = read_manifest(str(write_rows(tmp_path / "m.parquet", rows)))
    assert (first.id, first.hrefs, first.version, first.megapixels) == ("a", ("s3://b/a.tif",), "e1", 120.5)
    assert json.loads(first.options) == {"mask": "auto"}
    assert second.hrefs == tuple(str(Path(name).absolute()) for name in ("b_B02.tif", "b_B03.tif"))
    assert second.problem == ""


def test_options_may_be_a_struct_and_href_a_column(tmp_path: Path) -> None:
    rows = [{"id": "a", "href": "/x/a.tif", "options": {"tile": 128, "mask": None}}]
    (work,) = read_manifest(str(write_rows(tmp_path / "m.parquet", rows)))
    assert work.hrefs == ("/x/a.tif",)
    assert json.loads(work.options) == {"tile": 128}


@pytest.mark.parametrize(
    "row", [{"options": 7}, {"href": 7}, {"megapixels": "x"}, {"options": [1]}, {"item": 3, "megapixels": [1.0]}]
)
def test_a_malformed_row_comes_with_its_problem(tmp_path: Path, row: dict[str, object]) -> None:
    (work,) = read_manifest(str(write_rows(tmp_path / "m.parquet", [{"id": "a", "href": "/x/a.tif", **row}])))
    assert work.id == "a"
    assert "cannot be read" in work.problem


def test_a_malformed_item_stops_no_other(tmp_path: Path) -> None:
    bad = [{"assets": {"red": None}}, {"assets": [1]}, {"assets": {"red": {"href": "x", "proj:shape": ["x", None]}}}]
    items = [stac_item("first"), *({**stac_item(f"bad{i}"), **one} for i, one in enumerate(bad)), stac_item("last")]
    (tmp_path / "a.json").write_text(json.dumps({"type": "FeatureCollection", "features": items}))
    lines = [json.dumps(one) for one in items]
    (tmp_path / "b.ndjson").write_text("\n".join([*lines[:-1], '{"id": "cut', "7", "", lines[-1]]))
    for name, problems in (("a.json", 3), ("b.ndjson", 5)):
        works = list(read_manifest(str(tmp_path / name)))
        assert [work.id for work in works if not work.problem] == ["first", "last"]
        assert sum(bool(work.problem) for work in works) == problems


def test_rows_are_read_as_they_are_asked_for(tmp_path: Path) -> None:
    """A manifest whose second half is damaged gives its first rows."""
    path = tmp_path / "m.parquet"
    table = pa.table({"id": [f"s{i}" for i in range(40_000)], "href": [f"/in/{i}.tif" for i in range(40_000)]})
    pq.write_table(table, path, row_group_size=10_000)
    last = pq.ParquetFile(path).metadata.row_group(3).column(0)
    start = last.dictionary_page_offset or last.data_page_offset
    with path.open("r+b") as file:
        file.seek(start)
        file.write(bytes(64))
    assert [work.id for work in islice(read_manifest(str(path)), 3)] == ["s0", "s1", "s2"]
    with pytest.raises(ManifestError):
        list(read_manifest(str(path)))


@pytest.mark.parametrize("kind", ["collection.json", "lines.ndjson", "item.json", "table.parquet"])
def test_stac_in_every_form_becomes_work(tmp_path: Path, kind: str) -> None:
    items = [stac_item(f"s{i}", updated=f"2024-01-0{i + 1}T00:00:00Z") for i in range(1 if kind == "item.json" else 3)]
    path = tmp_path / kind
    if kind == "collection.json":
        path.write_text(json.dumps({"type": "FeatureCollection", "features": items, "links": []}, indent=2))
    elif kind == "lines.ndjson":
        path.write_text("\n".join(map(json.dumps, items)))
    elif kind == "item.json":
        path.write_text(json.dumps(items[0]))
    else:
        arrow = pytest.importorskip("stac_geoparquet.arrow")
        arrow.to_parquet(arrow.parse_stac_items_to_arrow(items), path)
    works = list(read_manifest(str(path)))
    assert [work.id for work in works] == [item["id"] for item in items]
    assert works[0].hrefs[0] == "https://host/s0/blue.tif?sig=secret"
    assert works[0].megapixels == 0.005
    assert works[0].version
    assert set(json.loads(works[0].item)["assets"]) == {"red", "green", "blue"}


def test_a_collection_longer_than_a_chunk_is_read_item_by_item(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attcr.fleet.manifest._CHUNK", 97)
    items = [stac_item(f"s{i}", title="Žďár") for i in range(20)]
    path = tmp_path / "m.json"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": items}, ensure_ascii=False))
    assert [work.id for work in read_manifest(str(path))] == [f"s{i}" for i in range(20)]
    path.write_text(path.read_text()[:-200])
    with pytest.raises(ManifestError, match="middle of an item"):
        list(read_manifest(str(path)))


def tries_of_json(path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many characters the decoder is given while a manifest is read."""

    class Counting(json.JSONDecoder):
        seen = 0

        def raw_decode(self, s: str, idx: int = 0) -> tuple[Any, int]:
            Counting.seen += len(s) - idx
            return super().raw_decode(s, idx)

    monkeypatch.setattr("attcr.fleet.manifest._DECODER", Counting())
    assert len(list(read_manifest(str(path)))) == 1
    return Counting.seen


def test_an_item_of_many_chunks_is_tried_a_few_times_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attcr.fleet.manifest._CHUNK", 1000)
    path = tmp_path / "m.json"
    path.write_text(json.dumps({**stac_item("long"), "x": ["y" * 10] * 30_000}))  # 400 chunks
    assert tries_of_json(path, monkeypatch) < 3 * path.stat().st_size


def test_features_behind_a_long_beginning_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attcr.fleet.manifest._CHUNK", 100)
    path = tmp_path / "m.json"
    path.write_text(json.dumps({"type": "FeatureCollection", "links": ["x" * 50] * 300, "features": [stac_item("a")]}))
    assert [work.id for work in read_manifest(str(path))] == ["a"]


def test_a_list_and_a_glob(tmp_path: Path) -> None:
    for name in ("a.tif", "b c.tif", "note.txt"):
        (tmp_path / name).touch()
    listed = tmp_path / "list.txt"
    listed.write_text(f"# scenes\n{tmp_path}/a.tif\n\ns3://bucket/x/T33_B02.jp2\ts3://bucket/x/T33_B03.jp2\n")
    first, second = read_manifest(str(listed))
    assert (first.id, second.id) == ("a", "T33_B02")
    assert second.hrefs == ("s3://bucket/x/T33_B02.jp2", "s3://bucket/x/T33_B03.jp2")
    assert sorted(work.id for work in read_manifest(f"{tmp_path}/*.tif")) == ["a", "b_c"]


@pytest.mark.parametrize(
    "name", ["../../x", "..", ".", "/etc/x", "a/b", "a\\b/../c", "", "x\n", "-rf", "\0", "é", "a" * 201]
)
def test_an_id_that_is_no_plain_name_is_refused(tmp_path: Path, name: str) -> None:
    (work,) = read_manifest(str(write_rows(tmp_path / "m.parquet", [{"id": name, "href": "/x.tif"}])))
    assert "cannot name a file" in work.problem


def test_a_row_without_a_scene_is_refused(tmp_path: Path) -> None:
    (work,) = read_manifest(str(write_rows(tmp_path / "m.parquet", [{"id": "a", "hrefs": [""]}])))
    assert "no href" in work.problem


@pytest.mark.parametrize("name", ["m.csv", "absent.parquet", "folder", "text.parquet", "columns.parquet", "half.json"])
def test_what_is_no_manifest_is_refused_in_words(tmp_path: Path, name: str) -> None:
    (tmp_path / "m.csv").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "text.parquet").write_text("no")
    write_rows(tmp_path / "columns.parquet", [{"name": "a"}])
    (tmp_path / "half.json").write_text('{"type": "Feature", ')
    with pytest.raises(ManifestError):
        list(read_manifest(str(tmp_path / name)))


def test_equal_work_has_equal_keys_and_signatures_do_not_count() -> None:
    signed = work_of_item(stac_item("s", updated="1"))
    other = work_of_item(json.loads(json.dumps(stac_item("s", updated="1")).replace("secret", "newer")))
    assert signed.keyed("recipe").key == other.keyed("recipe").key
    assert signed.keyed("recipe").key != signed.keyed("other weights").key
    assert signed.keyed("recipe").key != work_of_item(stac_item("s", updated="2")).keyed("recipe").key


def test_a_scene_is_as_large_as_its_finest_asset() -> None:
    item = stac_item("s")
    item["assets"]["red"]["proj:shape"] = [1000, 400]  # beside others of 100 x 50
    assert work_of_item(item).megapixels == 0.4


def test_a_refused_row_has_another_key_than_an_equal_one_that_is_not() -> None:
    good = Work("a", ("s3://b/a.tif",), version="1")
    keys = {replace(good, problem=problem).keyed("recipe").key for problem in ("", "no href", "no id")}
    assert len(keys) == 3


def test_a_local_file_that_changes_is_other_work(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    path.write_text("1")
    (before,) = read_manifest(f"{tmp_path}/*.tif")
    key = before.keyed("r").key
    assert before.keyed("r").key == key
    path.write_text("22")
    assert before.keyed("r").key != key


def test_a_survey_counts_and_finds_ids_that_occur_twice(tmp_path: Path) -> None:
    rows = [{"id": name, "href": "/x.tif", "megapixels": size} for name, size in [("a", 1.0), ("b", None), ("a", 2.0)]]
    about = survey(str(write_rows(tmp_path / "m.parquet", rows)))
    assert (about.rows, about.megapixels, about.unsized) == (3, 3.0, 1)
    assert about.repeated == {hash("a")}


def test_shards_part_the_work(tmp_path: Path) -> None:
    rows = [{"id": f"s{i}", "href": "/x.tif"} for i in range(100)]
    works = list(read_manifest(str(write_rows(tmp_path / "m.parquet", rows))))
    shards = [[work.id for work in works if in_shard(work, (i, 7))] for i in range(7)]
    assert sorted(name for shard in shards for name in shard) == sorted(work.id for work in works)
    assert all(shards)


def test_a_written_manifest_keeps_rows_and_no_signature(tmp_path: Path) -> None:
    works = [work_of_item(stac_item(f"s{i}")) for i in range(3)]
    write_manifest(iter(works), tmp_path / "m.parquet")
    again = list(read_manifest(str(tmp_path / "m.parquet")))
    assert [work.id for work in again] == ["s0", "s1", "s2"]
    assert [work.keyed("r").key for work in again] == [work.keyed("r").key for work in works]
    assert b"secret" not in (tmp_path / "m.parquet").read_bytes()
    assert all("secret" not in work.item for work in again)


def test_a_file_that_changes_deep_in_a_folder_changes_the_key(tmp_path: Path) -> None:
    bands = tmp_path / "a.SAFE" / "GRANULE" / "IMG_DATA"
    bands.mkdir(parents=True)
    (bands / "B02.jp2").write_bytes(b"1")
    work = Work("a", (str(tmp_path / "a.SAFE"),))
    keys = [work.keyed("recipe").key, work.keyed("recipe").key]
    (bands / "B02.jp2").write_bytes(b"22")
    keys.append(work.keyed("recipe").key)
    (bands / "B03.jp2").write_bytes(b"3")
    keys.append(work.keyed("recipe").key)
    assert keys[0] == keys[1]
    assert len(set(keys)) == 3


def test_a_key_is_the_sha256_of_recipe_id_version_options_and_addresses() -> None:
    work = Work("a", ("s3://b/a.tif", "s3://b/b.tif"), version="e1", options='{"tile": 64}')
    told = 'r\0a\0e1\0{"tile": 64}\0s3://b/a.tif\0s3://b/b.tif'
    assert work.keyed("r").key == sha256(told.encode()).hexdigest()


@pytest.mark.parametrize("option", ["radar", "mask"])
@pytest.mark.parametrize(
    ("address", "plain"),
    [
        ("https://u:hunter2@h/x/cloud.tif?sig=hunter2", "https://h/x/cloud.tif"),
        ("scl=https://h/scl.tif?X-Amz-Signature=hunter2", "scl=https://h/scl.tif"),
        ("/vsicurl/https://u:hunter2@h/scl.tif?sig=hunter2", "/vsicurl/https://h/scl.tif"),
        ("/vsicurl?header.Authorization=hunter2&url=h%2Fx.tif", "/vsicurl"),
        ("s3://bucket/scl.tif", "s3://bucket/scl.tif"),
    ],
)
def test_options_are_stored_without_the_secrets_of_their_addresses_and_keyed_without(
    tmp_path: Path, option: str, address: str, plain: str
) -> None:
    work = Work("a", ("/in/a.tif",), version="1", options=json.dumps({option: address, "tile": 64}))
    write_manifest(iter([work]), tmp_path / "m.parquet")
    (again,) = read_manifest(str(tmp_path / "m.parquet"))
    assert json.loads(again.options) == {option: plain, "tile": 64}
    assert b"hunter2" not in (tmp_path / "m.parquet").read_bytes()
    newer = Work("a", ("/in/a.tif",), version="1", options=work.options.replace("hunter2", "newer99"))
    assert again.keyed("r").key == work.keyed("r").key == newer.keyed("r").key
    other = Work("a", ("/in/a.tif",), version="1", options=json.dumps({option: "s3://other.tif", "tile": 64}))
    assert other.keyed("r").key != work.keyed("r").key


def sentinel() -> Work:
    """An item whose assets name their bands in every way there is."""
    assets = {
        "red": {"eo:bands": [{"name": "B04", "common_name": "red"}]},
        "B03": {"bands": [{"name": "green"}]},
        "image_02": {"bands": [{"name": "B02", "eo:common_name": "blue"}]},
        "nir": {"bands": [{"name": "B08"}]},
        "visual": {"bands": [{"name": "red"}, {"name": "green"}, {"name": "blue"}]},
        "SCL": {},
        "qa_pixel": {},
        "thumbnail": {},
    }
    given = {key: {**asset, "href": f"s3://b/{key}.tif"} for key, asset in assets.items()}
    return work_of_item({**stac_item("s"), "assets": given})


@pytest.mark.parametrize(
    ("bands", "mask", "left"),
    [
        (("red", "green", "blue"), "none", ["B03", "image_02", "qa_pixel", "red"]),
        (("B04", "b03", "B02"), "scl", ["B03", "SCL", "image_02", "qa_pixel", "red"]),
        (("RED", "nir"), "none", ["nir", "qa_pixel", "red"]),
        (("B04", "B03", "B02"), "auto", ["B03", "image_02", "qa_pixel", "red"]),
    ],
)
def test_of_an_item_the_named_bands_and_the_mask_are_left(bands: tuple[str, ...], mask: str, left: list[str]) -> None:
    work = prune_item(sentinel(), bands=bands, mask=mask)
    assert work.hrefs == tuple(f"s3://b/{key}.tif" for key in left)
    assert sorted(json.loads(work.item)["assets"]) == left


@pytest.mark.parametrize(
    ("bands", "mask"),
    [
        (None, "none"),
        ((), "none"),
        (("red", "swir16"), "none"),
        (("red", "green", "blue"), "csmask"),
        (("red", "green", "blue"), "s2cloudless"),
        (("nir", "red", "green"), "auto"),
    ],
)
def test_an_item_stays_whole_where_a_band_is_not_found_or_a_detector_needs_others(
    bands: tuple[str, ...] | None, mask: str
) -> None:
    assert prune_item(sentinel(), bands=bands, mask=mask) == sentinel()


def test_what_is_no_item_has_nothing_to_prune() -> None:
    work = Work("a", ("/in/a.tif",))
    assert prune_item(work, bands=("red",), mask="none") is work
