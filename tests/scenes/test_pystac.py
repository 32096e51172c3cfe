"""STAC items: scenes that come as one, and the item of a restored scene."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from affine import Affine
from rasterio.crs import CRS
from rasterio.warp import transform

from attcr.errors import SceneError
from attcr.scenes.open import open_scene
from attcr.scenes.pystac import item_of, open_item
from attcr.scenes.scene import Scene
from fake_scenes import UTM, make


def write_item(path: Path, assets: dict[str, Any], properties: dict[str, Any] | None = None, **more: Any) -> Path:
    item = {
        "type": "Feature", "stac_version": "1.0.0", "id": "S2B_33UXQ_20220501_0_L2A", "geometry": None,
        "properties": {"datetime": "2022-05-01T10:00:21Z", **(properties or {})}, "links": [], "assets": assets, **more,
    }  # fmt: skip
    path.write_text(json.dumps(item))
    return path


def band(href: str, **told: Any) -> dict[str, Any]:
    return {"href": href, "type": "image/tiff; application=geotiff; profile=cloud-optimized", **told}


def test_an_items_bands_masks_and_product_are_read(tmp_path: Path) -> None:
    assets = {
        "red": band("./B04.tif", **{"eo:bands": [{"name": "B04", "common_name": "red"}]}),
        "green": band("https://host/B03.tif", **{"eo:bands": [{"common_name": "green"}]}),
        "blue": band(str(tmp_path / "B02.tif"), bands=[{"description": "no name"}]),
        "nir": {"href": "./B08.jp2", "type": "image/jp2", "bands": [{"name": "B08"}]},
        "visual": band("./TCI.tif", **{"eo:bands": [{"name": "B04"}, {"name": "B03"}, {"name": "B02"}]}),
        "aot": band("./AOT.tif"),
        "scl": band("./SCL.tif"),
        "QA_PIXEL": band("./QA.tif"),
        "thumbnail": {"href": "./t.jpg", "type": "image/jpeg", "bands": [{"name": "B04"}]},
        "plain": {"href": "./B11.tif", "bands": [{"name": "B11"}]},
    }
    told = {"s2:processing_baseline": "05.09", "s2:product_uri": "S2B_MSIL2A.SAFE", "processing:level": "L2A"}
    item = open_item(str(write_item(tmp_path / "item.json", assets, told)))
    assert item.bands == {
        str(tmp_path / "B04.tif"): "B04",
        "https://host/B03.tif": "green",
        str(tmp_path / "B02.tif"): "blue",
        str(tmp_path / "B08.jp2"): "B08",
        str(tmp_path / "B11.tif"): "B11",
    }
    assert item.companions == {"scl": str(tmp_path / "SCL.tif"), "qa_pixel": str(tmp_path / "QA.tif")}
    assert item.hints == {
        "PRODUCT_URI": "S2B_MSIL2A.SAFE",
        "PROCESSING_BASELINE": "05.09",
        "PROCESSING_LEVEL": "Level-2A",
        "datetime": "2022-05-01T10:00:21+00:00",
    }


@pytest.mark.parametrize(("key", "kind"), [("SCL", "scl"), ("qa_pixel", "qa_pixel"), ("qa", "qa_pixel")])
def test_a_mask_is_known_by_its_key(tmp_path: Path, key: str, kind: str) -> None:
    assets = {"red": band("./B04.tif", bands=[{"name": "B04"}]), key: band("./M.tif", bands=[{"name": "mask"}])}
    item = open_item(str(write_item(tmp_path / "item.json", assets)))
    assert item.companions == {kind: str(tmp_path / "M.tif")}
    assert list(item.bands.values()) == ["B04"]


@pytest.mark.parametrize(
    ("properties", "collection", "wanted"),
    [
        ({"processing:level": "L1C"}, None, {"PROCESSING_LEVEL": "Level-1C"}),
        ({}, "sentinel-2-l2a", {"PROCESSING_LEVEL": "Level-2A"}),
        ({}, "sentinel-2-l1c", {"PROCESSING_LEVEL": "Level-1C"}),
        ({}, "pictures", {}),
        ({"processing:version": "02.14"}, None, {"PROCESSING_BASELINE": "02.14"}),
        ({"earthsearch:boa_offset_applied": True}, None, {"offset_applied": "true"}),
        ({"earthsearch:boa_offset_applied": False}, None, {}),
    ],
)
def test_what_an_item_says_of_its_product_becomes_hints(
    tmp_path: Path, properties: dict[str, Any], collection: str | None, wanted: dict[str, str]
) -> None:
    assets = {"red": band("./B04.tif", bands=[{"name": "B04"}])}
    path = write_item(tmp_path / "item.json", assets, properties, collection=collection)
    hints = open_item(str(path)).hints
    assert hints.pop("PRODUCT_URI") == "S2B_33UXQ_20220501_0_L2A"
    assert hints.pop("datetime") == "2022-05-01T10:00:21+00:00"
    assert hints == wanted


@pytest.mark.parametrize(
    ("applied", "sensor", "reflectance"),
    [(True, "s2-l2a", 0.3), (False, "s2-l2a-n0400", 0.2), (None, "s2-l2a-n0400", 0.2)],
)
def test_earth_search_says_whether_the_offset_is_still_in_the_numbers(
    tmp_path: Path, applied: bool | None, sensor: str, reflectance: float
) -> None:
    make(tmp_path / "B04.tif", np.full((1, 2, 2), 3000, np.uint16), **UTM)
    told: dict[str, Any] = {"s2:processing_baseline": "05.09", "processing:level": "L2A"}
    if applied is not None:
        told["earthsearch:boa_offset_applied"] = applied
    path = write_item(tmp_path / "item.json", {"red": band("./B04.tif", **{"eo:bands": [{"name": "red"}]})}, told)
    with open_scene(path) as scene:
        product = scene.product
        assert [one.name for one in scene.bands] == ["red"]
        assert product.name == sensor
        assert np.allclose(product.to_reflectance(scene.read(0, 2)), reflectance, atol=1e-6)


def test_a_file_that_is_no_item_of_bands_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SceneError, match="does not exist"):
        open_item(str(tmp_path / "nowhere.json"))
    for text in ("[]", "7", "{", "{}", '{"type": "Feature", "stac_version": "1.0.0", "id": "a"}'):
        (tmp_path / "other.json").write_text(text)
        with pytest.raises(SceneError, match="not a STAC item"):
            open_item(str(tmp_path / "other.json"))
    for described in ("B04", ["B04"], {"name": "B04"}, []):
        assets = {"scl": band("./SCL.tif"), "red": band("./B04.tif", bands=described)}
        with pytest.raises(SceneError, match="no raster asset of one band"):
            open_item(str(write_item(tmp_path / "item.json", assets)))


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    path = make(tmp_path / "scene.tif", np.ones((2, 30, 50), np.uint8), **UTM)
    os.utime(path, ns=(0, 1_600_000_000_999_999_999))
    with open_scene(path) as opened:
        return opened


def written(scene: Scene) -> dict[str, Any]:
    files = {
        "restored": (Path("out/a.tif"), {"title": "The scene", "raster:scale": 1e-4}),
        "quality": (Path("out/a_quality.tif"), {"title": "Classes"}),
        "preview": (Path("out/a_preview.png"), {"title": "Both"}),
    }
    item: dict[str, Any] = json.loads(item_of(scene, Path("out/a.tif"), files, {"attcr:sensor": "rgb8"}))
    return item


def tagged(scene: Scene, stamp: str) -> Scene:
    return replace(scene, profile=replace(scene.profile, tags={"": {"TIFFTAG_DATETIME": stamp}}))


@pytest.mark.parametrize(
    ("hints", "stamp", "wanted", "source"),
    [
        ({"datetime": "2020-02-03T04:05:06+00:00"}, "2021:04:10 10:00:21", "2020-02-03T04:05:06Z", "item"),
        ({"name": "T33_20190807T060504_B04.tif"}, "2021:04:10 10:00:21", "2021-04-10T10:00:21Z", "tag"),
        ({"name": "T33_20190807T060504_B04.tif"}, "2021-04-10 10:00:21", "2019-08-07T06:05:04Z", "name"),
        ({"name": "LC08_L2SP_192026_20190807_20200827.tif"}, "", "2019-08-07T00:00:00Z", "name"),
        ({"name": "2018/20180101/a_20190807.tif"}, "", "2019-08-07T00:00:00Z", "name"),
        ({"name": "a_20180101.tif b_20190807.tif"}, "", "2019-08-07T00:00:00Z", "name"),
        ({"name": "a_19990807.tif"}, "", "1999-08-07T00:00:00Z", "name"),
        ({"name": "a_120190807.tif"}, "", "2020-09-13T12:26:40Z", "file"),
        ({"name": "a_18990807.tif"}, "", "2020-09-13T12:26:40Z", "file"),
        ({"name": "a_20191307.tif"}, "", "2020-09-13T12:26:40Z", "file"),
        ({"name": "scene.tif"}, "", "2020-09-13T12:26:40Z", "file"),
    ],
)
def test_the_date_is_the_items_the_tags_the_names_or_the_files(
    scene: Scene, hints: dict[str, str], stamp: str, wanted: str, source: str
) -> None:
    properties = written(replace(tagged(scene, stamp), hints=hints))["properties"]
    assert (properties["datetime"], properties["attcr:datetime_from"]) == (wanted, source)


def test_a_date_that_nothing_tells_is_said_to_be_unknown(scene: Scene) -> None:
    far = replace(scene, hints={}, identity=(("https://host/scene.tif", -1, -1),))
    properties = written(far)["properties"]
    assert (properties["datetime"], properties["attcr:datetime_from"]) == ("1970-01-01T00:00:00Z", "unknown")


def test_the_footprint_is_the_scenes_corners_in_degrees(scene: Scene) -> None:
    item = written(scene)
    left, top = 600000.0, 5500020.0
    xs, ys = [left, left, left + 500, left + 500], [top, top - 300, top - 300, top]
    lon, lat = transform(UTM["crs"], "EPSG:4326", xs, ys)
    corners = [[round(x, 7), round(y, 7)] for x, y in zip(lon, lat, strict=True)]
    assert np.allclose(item["geometry"]["coordinates"], [[*corners, corners[0]]], rtol=0, atol=2e-7)
    assert np.allclose(item["bbox"], [min(lon), min(lat), max(lon), max(lat)], rtol=0, atol=2e-7)
    assert (item["properties"]["proj:code"], item["properties"]["proj:shape"]) == ("EPSG:32633", [30, 50])
    assert item["properties"]["proj:transform"] == [10, 0, left, 0, -10, top]


def test_a_turned_scene_has_a_turned_footprint_and_one_without_crs_none(scene: Scene) -> None:
    turned = replace(scene.profile, crs=CRS.from_epsg(4326), transform=Affine(0.01, 0.02, 10, 0.03, -0.04, 50))
    corners = [(10, 50), (10.6, 48.8), (11.1, 50.3), (10.5, 51.5)]
    assert np.allclose(turned.corners(), corners)
    item = written(replace(scene, profile=turned))
    assert np.allclose(item["geometry"]["coordinates"], [[*corners, corners[0]]])
    assert item["bbox"] == pytest.approx([10, 48.8, 11.1, 51.5])
    item = written(replace(scene, profile=replace(scene.profile, crs=None)))
    assert item["geometry"] is None
    assert "bbox" not in item
    assert item["properties"]["proj:code"] is None


def test_the_item_names_its_files_bands_and_source(scene: Scene) -> None:
    bands = (replace(scene.bands[0], name="B04"), scene.bands[1])
    item = written(replace(scene, bands=bands, source="https://host/scene.tif"))
    assert item["id"] == "a"
    assert item["properties"]["attcr:sensor"] == "rgb8"
    cog = "image/tiff; application=geotiff; profile=cloud-optimized"
    told = {key: (one["href"], one["title"], one["type"], one["roles"]) for key, one in item["assets"].items()}
    assert told == {
        "restored": ("./a.tif", "The scene", cog, ["data"]),
        "quality": ("./a_quality.tif", "Classes", cog, ["metadata"]),
        "preview": ("./a_preview.png", "Both", "image/png", ["overview"]),
    }
    assert item["assets"]["restored"]["bands"] == [{"name": "B04"}, {"name": "band 2"}]
    assert item["assets"]["restored"]["raster:scale"] == 1e-4
    assert item["properties"]["gsd"] == scene.profile.metres == scene.profile.transform.a
    assert [(link["rel"], link["href"]) for link in item["links"]] == [("derived_from", "https://host/scene.tif")]


def test_an_item_holds_no_number_that_json_has_not(scene: Scene) -> None:
    files = {"restored": (Path("out/a.tif"), {"title": "The scene"})}
    with pytest.raises(ValueError, match="not JSON compliant"):
        item_of(scene, Path("out/a.tif"), files, {"attcr:error": float("nan")})
