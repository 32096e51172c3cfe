"""Tiles, facts and points of what came and what was made."""

import json
from io import BytesIO
from math import asinh, pi, radians, tan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from PIL import Image
from rio_tiler.colormap import cmap as colormaps
from starlette.testclient import TestClient

from attcr.serve import tiles
from fake_fleets import host, told
from fake_scenes import UTM
from fake_services import ask, begin, ended, pixels, plain_tiff, quick_server, tiff


def tile_at(lon: float, lat: float, z: int) -> tuple[int, int]:
    """The tile of the web's grid that a place is in."""
    return int((lon + 180) / 360 * 2**z), int((1 - asinh(tan(radians(lat))) / pi) / 2 * 2**z)


def picture(answer: Any) -> np.ndarray:
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "image/png"
    return np.asarray(Image.open(BytesIO(answer.content)).convert("RGBA"))


def test_facts_and_tiles_of_a_job(server: TestClient, done: str) -> None:
    info = server.get(f"/jobs/{done}/info").json()
    assert info["layers"] == {"input": True, "result": True, "quality": True}
    assert info["bounds"] == pytest.approx([16.385, 49.6415, 16.3895, 49.6444], abs=1e-3)
    assert (info["width"], info["height"], info["crs"], info["dtype"]) == (32, 32, "EPSG:32633", "uint8")
    assert info["bands"] == info["shown"] == ["red", "green", "blue"]
    assert [one["value"] for one in info["classes"]] == list(range(8))
    assert info["classes"][1]["colour"] == "#bebebe"
    z = 16
    x, y = tile_at(*info["center"], z)
    drawn = {}
    for layer, address in info["tiles"].items():
        drawn[layer] = picture(server.get(address.format(z=z, x=x, y=y)))
        assert drawn[layer].shape == (256, 256, 4)
    seen = drawn["input"][..., 3] > 0
    assert seen.any()
    assert (drawn["input"] == drawn["result"]).all(), "this worker gives back what came"
    assert {tuple(colour) for colour in drawn["quality"][seen]} == {(190, 190, 190, 255)}
    assert picture(server.get(info["tiles"]["input"].format(z=z, x=x, y=f"{y}@2x"))).shape[0] == 512
    assert not picture(server.get(info["tiles"]["result"].format(z=z, x=0, y=0)))[..., 3].any(), "nothing is there"


def test_a_tile_shows_each_band_in_its_colour(server: TestClient, done: str) -> None:
    info = server.get(f"/jobs/{done}/info").json()
    lon, lat, z = info["center"][0] + 7e-5, info["center"][1] - 4.5e-5, 20  # in the middle of a pixel
    low, high = info["stretch"][0]
    shown = [
        band["before"] for band in server.get(f"/jobs/{done}/point", params={"lon": lon, "lat": lat}).json()["bands"]
    ]
    (x, y), (col, row) = tile_at(lon, lat, z), tile_at(lon, lat, z + 8)
    drawn = picture(server.get(info["tiles"]["input"].format(z=z, x=x, y=y)))[row % 256, col % 256]
    assert len(set(shown)) == 3
    assert drawn[:3].tolist() == [int(min(max((value - low) / (high - low), 0), 1) * 255) for value in shown]


def test_a_point_tells_the_numbers_before_and_after(server: TestClient, done: str) -> None:
    info = server.get(f"/jobs/{done}/info").json()
    lon, lat = info["center"]
    point = server.get(f"/jobs/{done}/point", params={"lon": lon, "lat": lat}).json()
    assert abs(point["row"] - 16) <= 1
    assert abs(point["col"] - 16) <= 1
    came = pixels(tiff())[:, point["row"], point["col"]].tolist()
    assert point["bands"] == [
        {"name": name, "before": value, "after": value} for name, value in zip(info["bands"], came, strict=True)
    ]
    assert point["quality"] == {"value": 1, "name": "original"}
    assert point["date"] is None
    assert server.get(f"/jobs/{done}/point", params={"lon": 0, "lat": 0}).status_code == 404


def test_a_picture_without_a_place_is_shown_at_zero(server: TestClient) -> None:
    job = begin(server, plain_tiff(40, 20))
    ended(server, job)
    info = server.get(f"/jobs/{job}/info").json()
    assert info["georeferenced"] is False
    west, south, east, north = info["bounds"]
    assert (west + east, south + north) == pytest.approx((0, 0), abs=1e-6)
    assert (east - west) / (north - south) == pytest.approx(2, rel=1e-3)
    point = server.get(f"/jobs/{job}/point", params={"lon": west + (east - west) / 80, "lat": north * 0.95}).json()
    assert (point["row"], point["col"], point["bands"][0]["before"]) == (0, 0, 0)
    z = info["maxzoom"] - 1
    x, y = tile_at(-1e-6, 1e-6, z)
    assert picture(server.get(info["tiles"]["input"].format(z=z, x=x, y=y)))[..., 3].any()


def test_files_come_from_allowed_hosts_and_items(tmp_path: Any) -> None:
    """A scene by address, and a STAC item by address whose assets are relative."""
    bands = {f"/scenes/{name}.tif": told(tiff(bands=1, seed=i)) for i, name in enumerate(("red", "green", "blue"))}
    bands["/scenes/red.tif?sig=secret"] = bands["/scenes/red.tif"]
    names = ("red", "green", "blue")
    assets = {name: {"href": f"./{name}.tif", "type": "image/tiff", "bands": [{"name": name}]} for name in names}
    item = {"type": "Feature", "stac_version": "1.0.0", "id": "x", "properties": {"datetime": "2020-01-01T00:00:00Z"}}
    item |= {"geometry": None, "links": [], "assets": assets}
    with host({**bands, "/scenes/item.json": told(json.dumps(item).encode())}) as (url, _):
        place = f"private:{url.removeprefix('http://')}"
        with quick_server(tmp_path / "store", allow_hosts=(place,)) as client:
            one = ask(client, {"scene": {"href": f"{url}/scenes/red.tif?sig=secret"}}).json()
            status = ended(client, one["jobID"])
            assert (status["status"], status["title"]) == ("successful", "red.tif")
            assert "secret" not in client.get("/jobs").text
            many = ask(client, {"scene": {"href": f"{url}/scenes/item.json"}}).json()["jobID"]
            ended(client, many)
            info = client.get(f"/jobs/{many}/info").json()
            assert info["bands"] == ["blue", "green", "red"]
            assert info["shown"] == ["red", "green", "blue"]


def test_the_stretch_is_of_the_middle_numbers(tmp_path: Any) -> None:
    values = tiff(64, bands=1, dtype="uint16")
    (tmp_path / "x.tif").write_bytes(values)
    (low, high), *others = tiles.stretch_of((str(tmp_path / "x.tif"),), "", "true", "")
    assert others == [(low, high)] * 2
    assert [low, high] == pytest.approx(np.percentile(pixels(values), [1, 99]).tolist())


def test_the_colours_are_those_of_the_product_and_zeros_are_no_data(tmp_path: Path) -> None:
    """Sentinel-2 bands in files, as downloaded: red is B04, whatever came first, and the rim is no stretch."""
    source = []
    for number, band in enumerate(("B01", "B02", "B03", "B04", "B08", "B12"), 1):
        values = np.full((1, 64, 64), 1000 * number, np.uint16)
        values[:, :20] = 0
        path = tmp_path / f"T33UXR_20200101T100031_{band}_10m.tif"
        with rasterio.open(path, "w", driver="GTiff", count=1, height=64, width=64, dtype="uint16", **UTM) as file:
            file.write(values)
        source.append(str(path))
    told = tiles.info(tuple(source), "s2-l2a", "")
    assert told["shows"] == {
        "true": ["B04", "B03", "B02"], "false": ["B08", "B04", "B03"], "swir": ["B12", "B08", "B04"],
        "ndvi": ["B08", "B04"],
    }  # fmt: skip
    assert tiles.info(tuple(source), "", "")["shows"] == told["shows"], "it need not be known which of L2A it is"
    assert told["stretch"] == [[4000, 4001], [3000, 3001], [2000, 2001]]
    assert tiles.stretch_of(tuple(source), "s2-l2a", "swir", "") == ((6000, 6001), (5000, 5001), (4000, 4001))


@pytest.mark.parametrize(("sensor", "zero"), [("s2-l2a", 0), ("s2-l2a-n0400", 1000)])
def test_ndvi_is_of_reflectance_and_has_the_colours_of_its_scale(tmp_path: Path, sensor: str, zero: int) -> None:
    """Red at -0.2, green at 0.9; where nothing was seen, nothing is drawn."""
    wanted = np.array([-0.2, 0.35, 0.9, 0.0])
    red = np.full((32, 32), 1000.0)
    nir = red * np.repeat((1 + wanted) / (1 - wanted), 8)[None]
    bands = np.round(np.stack([red, nir]) + zero).astype(np.uint16)
    bands[:, :, 24:] = 0
    with rasterio.open(
        tmp_path / "x.tif", "w", driver="GTiff", count=2, height=32, width=32, dtype="uint16", **UTM
    ) as file:
        file.write(bands)
        file.descriptions = ("B04", "B08")
    source = (str(tmp_path / "x.tif"),)
    told = tiles.info(source, sensor, "")
    assert told["shows"]["ndvi"] == ["B08", "B04"]
    west, south, east, north = told["bounds"]
    colours = set()
    for lon, lat in ((west, south), (west, north), (east, south), (east, north)):  # at this zoom, four tiles at most
        at = (*tile_at(lon, lat, 14), 14)
        content = tiles.picture_tile(source, "", sensor, kind="ndvi", after=False, at=at, size=512)
        drawn = np.asarray(Image.open(BytesIO(content)).convert("RGBA"))
        colours |= {tuple(int(one) for one in colour) for colour in drawn[drawn[..., 3] > 0]}
    scale = colormaps.get("rdylgn")
    assert colours == {tuple(int(one) for one in scale[value]) for value in (0, 127, 255)}
