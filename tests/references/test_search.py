"""References that are searched for: a real STAC API, and files over HTTP."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attcr.errors import AttcrWarning, ConfigError, SceneError
from attcr.restore import RestoreOptions, plan_scene, restore_scene
from attcr.restore.walk import CLOUD_LEFT, FROM_DATE, ORIGINAL
from fake_catalogs import SIDE, Asked, add_date, counted, item_at, scl_with, stac_api
from fake_dates import ground
from fake_scenes import read, same_bits
from interrupts import interrupted

LEFT, RIGHT = (slice(8, 40), slice(8, 24)), (slice(8, 40), slice(40, 56))
SMALL = {"tile": 64, "overlap": 16, "dilate": 2, "feather": 2}


@dataclass
class Catalog:
    """One place: the scene of 1 June under two clouds, and other dates."""

    folder: Path
    host: str
    asked: Asked
    items: list[dict[str, Any]]
    api: str = ""

    def at(self, name: str) -> str:
        return item_at(self.api, f"S2_{name}")

    def restore(self, name: str = "out.tif", references: Any = "auto", **more: Any) -> Any:
        options = RestoreOptions(references=references, **{**SMALL, **more.pop("options", {})})
        return restore_scene(self.at("20200601"), self.folder / name, "none", options=options, **more)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    pytest.importorskip("pystac_client")
    tmp_path = tmp_path_factory.mktemp("catalog")
    folder = tmp_path / "files"
    folder.mkdir()
    everything = (slice(None), slice(None))
    with counted(folder, tmp_path / "asked.txt") as (host, asked):
        items = [
            add_date(folder, host, "2020-06-01", scl_with(LEFT, RIGHT)),
            add_date(folder, host, "2020-05-27", scl_with(LEFT, RIGHT), (0.9, 0.02)),  # near, and sees nothing
            add_date(folder, host, "2020-06-06", scl_with(RIGHT), (0.8, 0.05)),
            add_date(folder, host, "2020-05-22", scl_with(LEFT), (1.1, 0.01)),
            add_date(folder, host, "2020-07-20", scl_with(RIGHT), (0.7, 0.03)),
            add_date(folder, host, "2020-06-16", scl_with(everything)),
            add_date(folder, host, "2020-11-30", scl_with()),  # clear
            add_date(folder, host, "2019-06-01", scl_with()),  # too far away in time
        ]
        with stac_api(items, tmp_path) as api:
            yield Catalog(folder, host, asked, items, api)


@pytest.fixture
def catalog(served: Catalog, tmp_path: Path) -> Catalog:
    return replace(served, folder=tmp_path)


def names(references: list[dict[str, Any]]) -> list[str]:
    return [one["name"].rpartition("/")[2] for one in references]


def test_dates_that_see_the_ground_under_the_cloud_are_found_and_fill_it(catalog: Catalog) -> None:
    result = catalog.restore(references="auto:2")
    assert sorted(names(result.references)) == ["S2_20200522", "S2_20200606"]  # each sees what the other does not
    assert {one["days"] for one in result.references} == {5, -10}
    quality = read(result.quality)[0]
    assert set(np.unique(quality)) == {ORIGINAL, FROM_DATE}
    assert np.abs(read(result.target) / 10_000 - ground(SIDE, SIDE)).mean() < 0.002
    told = json.loads(result.item.read_text())["properties"]
    assert told["attcr:options"]["references"] == [one["name"] for one in result.references]
    assert all("sha256" in file or "etag" in file for one in result.references for file in one["files"])


def test_found_or_named_the_same_references_give_the_same_bytes(catalog: Catalog) -> None:
    for name in "ab":
        (catalog.folder / name).mkdir()
    found = catalog.restore("a/out.tif")
    named = catalog.restore("b/out.tif", references=tuple(one["name"] for one in found.references))
    assert names(found.references) == names(named.references)
    assert found.target.read_bytes() == named.target.read_bytes()
    assert found.item.read_text() == named.item.read_text()


def test_of_masks_few_bytes_are_asked_and_of_bands_of_other_dates_none(catalog: Catalog) -> None:
    catalog.asked.clear()
    plan = plan_scene(
        catalog.at("20200601"),
        catalog.folder / "out.tif",
        "none",
        options=RestoreOptions(references="auto:2", **SMALL),
    )
    assert [one.rpartition("/")[2] for one in plan.references] == ["S2_20200606", "S2_20200522"]
    for day in ("20200527", "20200720"):
        assert len(catalog.asked.of(f"{day}/SCL.tif")) <= 3, catalog.asked.of(f"{day}/SCL.tif")
        assert not catalog.asked.of(f"{day}/B04.tif")
    assert not catalog.asked.of("20190601/SCL.tif")


def test_a_scene_without_cloud_asks_for_no_reference(catalog: Catalog) -> None:
    options = RestoreOptions(references="auto", **SMALL)
    result = restore_scene(catalog.at("20201130"), catalog.folder / "clear.tif", "none", options=options)
    assert result.references == []
    assert result.dates is None
    assert set(read(result.quality).ravel()) == {ORIGINAL}


def test_where_no_date_helps_the_cloud_is_left_and_said_so(catalog: Catalog) -> None:
    with pytest.warns(AttcrWarning) as said:
        result = catalog.restore(options={"reference_days": 1})
    texts = [str(one.message) for one in said]
    assert any("No date within 1 days sees the ground" in text for text in texts)
    assert any("stays in the image" in text for text in texts)
    quality = read(result.quality)[0]
    cloud = scl_with(LEFT, RIGHT).repeat(2, 0).repeat(2, 1) == 9
    assert set(quality[cloud]) == {CLOUD_LEFT}
    assert result.references == []


def interrupt(catalog: Catalog, name: str) -> None:
    interrupted(lambda: catalog.restore(name), strips=1)


def test_a_resumed_run_takes_the_references_that_were_found_before(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = catalog.restore("out.tif")
    bytes_of = {path.name: path.read_bytes() for path in catalog.folder.glob("out*")}
    for path in catalog.folder.glob("out*"):
        path.unlink()
    interrupt(catalog, "out.tif")

    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("it was searched again")

    monkeypatch.setattr("attcr.scenes.pystac_client.search_items", never)
    result = catalog.restore("out.tif", resume=True)
    assert result.resumed_row > 0
    assert result.references == whole.references
    assert {path.name: path.read_bytes() for path in catalog.folder.glob("out*")} == bytes_of


def test_a_resumed_run_with_another_span_searches_again(catalog: Catalog) -> None:
    interrupt(catalog, "out.tif")
    found = json.loads((catalog.folder / ".out.tif.attcr" / "found.json").read_text())["references"]
    assert len(found) == 3
    with pytest.warns(AttcrWarning, match="other work"):
        result = catalog.restore("out.tif", resume=True, options={"reference_days": 20})
    assert sorted(names(result.references)) == ["S2_20200522", "S2_20200606"]


def test_what_has_no_catalog_is_refused_with_what_to_do(catalog: Catalog, served: Catalog, tmp_path: Path) -> None:
    options = RestoreOptions(references="auto", sensor="s2-l2a", mask="auto", bands="1,1,1")
    plain = next(served.folder.glob("*/B03.tif"))
    with pytest.raises(SceneError, match="is not a STAC item"):
        restore_scene(plain, tmp_path / "o.tif", "none", options=options)
    alone = tmp_path / "alone.json"
    alone.write_text(json.dumps({**catalog.items[0], "links": []}))
    with pytest.raises(SceneError, match="links to no catalog that can be searched"):
        restore_scene(alone, tmp_path / "o.tif", "none", options=RestoreOptions(references="auto"))
    alone.write_text(json.dumps({**catalog.items[0], "links": [{"rel": "root", "href": catalog.host}]}))
    with pytest.raises(SceneError, match="cannot be searched"):
        restore_scene(alone, tmp_path / "o.tif", "none", options=RestoreOptions(references="auto"))


@pytest.mark.parametrize("references", ["auto:0", "auto:x", "auto:", "auto:100", ("auto", "a.tif"), ("auto", "auto:3")])
def test_auto_stands_alone_with_a_number_that_can_be(references: Any) -> None:
    with pytest.raises(ConfigError, match="expected auto or auto:NUMBER"):
        RestoreOptions(references=references)
    assert RestoreOptions(references="auto").searched == 3
    assert RestoreOptions(references="auto:12").searched == 12
    assert RestoreOptions(references=("a.tif", "automatic.tif")).searched == 0


def test_a_downloaded_item_leads_to_its_catalog_too(catalog: Catalog, tmp_path: Path) -> None:
    import urllib.request

    path = tmp_path / "here.json"
    path.write_bytes(urllib.request.urlopen(catalog.at("20200601")).read())
    result = restore_scene(path, tmp_path / "o.tif", "none", options=RestoreOptions(references="auto:2", **SMALL))
    again = catalog.restore(references="auto:2")
    assert names(result.references) == names(again.references)
    assert same_bits(read(result.target), read(again.target))
