"""A window of a scene comes out as it does in the whole scene, and little else is read for it."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from affine import Affine
from rasterio.warp import transform_bounds
from typer.testing import CliRunner

from attcr.cli import app
from attcr.errors import ConfigError, SceneError
from attcr.restore import Progress, RestoreOptions, join_blocks, plan_scene, restore_block, restore_scene
from attcr.restore.walk import Strip
from attcr.scenes import windows
from attcr.scenes.tiles import Tile
from fake_scenes import SENSORS, Same, Smooth, make, noise, read, same_bits

HEIGHT, WIDTH = 180, 240
UTM: dict[str, Any] = {"crs": "EPSG:32633", "transform": Affine(10, 0, 498000, 0, -10, 5500020)}
"""In the middle of its zone, where a box in degrees is one in metres."""


def box_of(row: int, col: int, height: int, width: int, inset: float = 0.3) -> tuple[float, ...]:
    """A box in degrees inside these pixels of the grid UTM, so that it touches each of them and no others."""
    t = UTM["transform"]
    left, top = t.c + (col + inset) * t.a, t.f + (row + inset) * t.e
    right, bottom = t.c + (col + width - inset) * t.a, t.f + (row + height - inset) * t.e
    return tuple(transform_bounds(UTM["crs"], "EPSG:4326", left, bottom, right, top))


def of(row: int, col: int, height: int, width: int) -> tuple[slice, ...]:
    return (slice(None), slice(row, row + height), slice(col, col + width))


@pytest.fixture
def scene(tmp_path: Path) -> Path:
    return make(tmp_path / "in.tif", noise("uint8", (3, HEIGHT, WIDTH)), photometric="RGB", **UTM)


@pytest.fixture
def mask(tmp_path: Path) -> Path:
    cloudy = np.zeros((1, HEIGHT, WIDTH), np.uint8)
    cloudy[:, 20:120, 30:200] = 1
    cloudy[:, 150:, 220:] = 1
    return make(tmp_path / "mask.tif", cloudy, **UTM)


def options(mask: Path, **more: Any) -> RestoreOptions:
    given = {"sensor": SENSORS["uint8"], "mask": str(mask), "tile": 64, "overlap": 16, "dtype": "float32"}
    return RestoreOptions(**{**given, **more})


@pytest.mark.parametrize("around", [0, 20])
def test_a_window_has_the_bytes_of_the_whole_where_the_network_alone_decides(
    tmp_path: Path, scene: Path, mask: Path, around: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(windows, "AROUND", around)
    given = options(mask)
    restore_scene(scene, tmp_path / "whole.tif", Smooth(), options=given)
    for place in [(0, 0, 30, 40), (67, 91, 50, 40), (100, 180, 80, 60), (63, 64, 1, 1)]:
        box = ",".join(map(str, box_of(*place)))
        again = replace(given, bbox=box)
        result = restore_scene(scene, tmp_path / "part.tif", Smooth(), options=again, overwrite=True)
        for name in ("", "_quality"):
            whole, part = read(tmp_path / f"whole{name}.tif"), read(tmp_path / f"part{name}.tif")
            assert same_bits(whole[of(*place)], part), (name, place)
        assert not same_bits(read(tmp_path / "part.tif"), read(scene)[of(*place)])
        row, col, height, width = place
        with rasterio.open(tmp_path / "part.tif") as file:
            assert file.transform == UTM["transform"] * Affine.translation(col, row)
        assert sum(result.pixels.values()) == height * width
        assert result.tiles < 16


def test_a_strip_is_cut_to_a_window_with_all_that_is_known_of_it() -> None:
    values = np.arange(2 * 6 * 5).reshape(2, 6, 5)
    plane = values[0].astype(np.float32)
    strip = Strip(
        10, values, values + 100, plane.astype(np.uint8), plane, plane > 20, plane > 10, values[:1].astype(np.int16)
    )
    cut = strip.cut(Tile(12, 1, 9, 3))
    assert (cut.top, cut.values.shape) == (0, (2, 4, 3))
    assert np.array_equal(cut.came, values[:, 2:, 1:4])
    assert np.array_equal(cut.values, cut.came + 100)
    assert cut.left is not None
    assert np.array_equal(cut.left, plane[2:, 1:4] > 20)
    assert cut.cloudy is not None
    assert cut.dates is not None
    assert np.array_equal(cut.dates[0], cut.quality)
    assert strip.cut(Tile(4, 0, 8, 5)).top == 6
    assert strip.cut(Tile(0, 0, 10, 5)).values.shape[1] == strip.cut(Tile(16, 0, 4, 5)).values.shape[1] == 0


class StoppedError(Exception):
    """Stands for a run that is killed."""


def test_a_window_is_taken_up_and_joined_to_the_same_bytes(tmp_path: Path, scene: Path, mask: Path) -> None:
    given = options(mask, bbox=box_of(30, 40, 120, 100))
    (tmp_path / "once").mkdir()
    restore_scene(scene, tmp_path / "once" / "out.tif", Smooth(), options=given)
    strips = 0

    def stop(now: Progress) -> None:
        nonlocal strips
        strips += now.stage == "restore"
        if strips > 8:
            raise StoppedError

    (tmp_path / "again").mkdir()
    again = tmp_path / "again" / "out.tif"
    with pytest.raises(StoppedError):
        restore_scene(scene, again, Smooth(), options=given, resume=True, progress=stop)
    result = restore_scene(scene, again, Smooth(), options=given, resume=True)
    assert 0 < result.resumed_row < 120
    (tmp_path / "joined").mkdir()
    parts = [tmp_path / f"{i}.zip" for i in range(3)]
    for i, part in enumerate(parts):
        restore_block(scene, part, Smooth(), block=(i, 3), options=given)
    join_blocks(scene, parts, tmp_path / "joined" / "out.tif", Smooth(), options=given)
    once, *others = (
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("once", "again", "joined")
    )
    assert others == [once, once]


def test_what_another_window_left_behind_is_not_taken_up(tmp_path: Path, scene: Path, mask: Path) -> None:
    def stop(now: Progress) -> None:
        if now.stage == "restore" and now.done > 4:
            raise StoppedError

    area = tmp_path / "area.geojson"

    def draw(*place: int) -> None:
        west, south, east, north = box_of(*place)
        line = {"type": "LineString", "coordinates": [[west, south], [east, north]]}
        area.write_text(json.dumps({"type": "Feature", "properties": {}, "geometry": line}))

    given, target = options(mask, aoi=str(area)), tmp_path / "out.tif"
    draw(30, 40, 120, 100)
    with pytest.raises(StoppedError):
        restore_scene(scene, target, Smooth(), options=given, resume=True, progress=stop)
    draw(30, 41, 120, 100)
    with pytest.warns(match="was left by other work"):
        assert restore_scene(scene, target, Smooth(), options=given, resume=True).resumed_row == 0


def clear_of(dates: int, seed: int = 3) -> list[np.ndarray]:
    """Dates of a place: ground of many scales, each with its own gain and noise."""
    rng = np.random.default_rng(seed)
    ground = sum(
        np.kron(rng.normal(size=(4, HEIGHT // n, WIDTH // n)), np.ones((1, n, n))) for n in (60, 20, 10, 4, 2, 1)
    )
    images = []
    for date in range(dates):
        seen = 2000 + 200 * (1 + 0.2 * date) * ground + 100 * date + rng.normal(0, 15, ground.shape)
        images.append(np.clip(np.rint(seen), 1, 9999).astype(np.uint16))
    return images


L2A = RestoreOptions(sensor="s2-l2a", tile=64, overlap=16, dtype="float32")


@pytest.fixture
def dates(tmp_path: Path) -> tuple[Path, Path, list[str]]:
    """A scene with a hole of opaque cloud, its mask, and a reference on the same grid and one on another."""
    bands = ("B02", "B03", "B04", "B08")

    def name(file: Any) -> None:
        for i, band in enumerate(bands, 1):
            file.set_band_description(i, band)

    first, near, far = clear_of(3)
    cloudy = np.zeros((1, HEIGHT, WIDTH), np.uint8)
    cloudy[:, 60:120, 80:160] = 255
    first[:, cloudy[0] > 0] = 9000
    mask = make(tmp_path / "cloud.tif", cloudy, **UTM)
    scene = make(tmp_path / "S2A_20200105.tif", first, name, **UTM)
    same = make(tmp_path / "S2A_20200115.tif", near, name, **UTM)
    moved = {**UTM, "transform": UTM["transform"] * Affine.translation(-7.8, -3.7)}
    other = make(tmp_path / "S2A_20200125.tif", np.pad(far, ((0, 0), (4, 9), (8, 3)), mode="edge"), name, **moved)
    return scene, mask, [str(same), str(other)]


def restored(dates: tuple[Path, Path, list[str]], target: Path, **more: Any) -> dict[str, np.ndarray]:
    """What fills the hole from the references alone, by file."""
    scene, mask, references = dates
    given = replace(L2A, mask=str(mask), references=references, reference_mask="none", reference_fill="classical")
    restore_scene(scene, target, "none", options=replace(given, **more))
    files = {name: target.with_name(f"{target.stem}{name}.tif") for name in ("", "_quality", "_dates")}
    return {name: read(path) for name, path in files.items()}


def test_with_all_of_the_scene_around_it_a_window_from_references_has_the_same_bytes(
    tmp_path: Path, dates: tuple[Path, Path, list[str]]
) -> None:
    place = (30, 50, 60, 100)
    whole = restored(dates, tmp_path / "whole.tif")
    part = restored(dates, tmp_path / "part.tif", bbox=box_of(*place))
    for name, values in whole.items():
        assert same_bits(values[of(*place)], part[name]), name
    assert (part["_quality"] == 6).mean() > 0.5


def test_with_less_around_it_what_is_filled_from_references_differs_by_little(
    tmp_path: Path, dates: tuple[Path, Path, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which statistics are used is all that differs: the values of both references are those of the whole."""
    monkeypatch.setattr(windows, "AROUND", 20)
    place = (30, 50, 60, 100)
    whole = restored(dates, tmp_path / "whole.tif")
    part = restored(dates, tmp_path / "part.tif", bbox=box_of(*place))
    filled = part["_quality"][0] == 6
    assert (whole["_quality"][of(*place)][0] == 6)[filled].all()
    apart = np.abs(whole[""][of(*place)].astype(float) - part[""])
    assert apart[:, ~filled].max() == 0
    assert 0 < apart[:, filled].mean() < 15  # digital numbers; the references' own noise is 15
    item = json.loads((tmp_path / "part.json").read_text())["properties"]
    assert item["attcr:window"] == {"window": [30, 50, 60, 100], "read": [0, 0, 128, 240], "scene": [HEIGHT, WIDTH]}
    assert 0.5 < sum(one["share"] for one in item["attcr:references"]) < 0.8


def test_the_ground_under_thin_cloud_is_that_of_the_whole_or_nearly(
    tmp_path: Path, dates: tuple[Path, Path, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By default clear ground around says what is under thin cloud: a window sees less of it."""
    (values,) = clear_of(1)
    veil = np.zeros((1, HEIGHT, WIDTH), np.uint8)
    veil[:, 60:120, 80:160] = 1
    values[:, veil[0] > 0] = values[:, veil[0] > 0] * 0.7 + 1500
    bands = ("B02", "B03", "B04", "B08")
    scene = make(
        dates[0], values, lambda file: [file.set_band_description(i, b) for i, b in enumerate(bands, 1)], **UTM
    )
    mask = make(dates[1], veil, **UTM)
    weights = Same(4)
    weights.spec = replace(weights.spec, removes=("thin",))
    place = (30, 50, 60, 100)
    apart = {}
    for around in (512, 20):
        monkeypatch.setattr(windows, "AROUND", around)
        for name, box in (("whole", None), ("part", box_of(*place))):
            given = replace(L2A, mask=str(mask), bbox=box)
            restore_scene(scene, tmp_path / f"{name}.tif", weights, options=given, overwrite=True)
        whole, part = read(tmp_path / "whole.tif").astype(float)[of(*place)], read(tmp_path / "part.tif")
        assert np.abs(whole - read(scene)[of(*place)]).mean() > 300
        apart[around] = np.abs(whole - part).mean()
    assert apart[512] == 0
    assert 0 < apart[20] < 30  # of a change of more than 300


def test_a_window_ends_with_the_pixels_of_the_coarsest_band(tmp_path: Path) -> None:
    fine, coarse = noise("uint16", (1, 240, 240)) // 8 + 1, noise("uint16", (1, 80, 80), 1) // 8 + 1
    scl = np.full((1, 120, 120), 4, np.uint8)
    scl[:, 20:100, 50:100] = 10
    place = (120, 60, 60, 75)
    for name, values, factor in (("B02_10m", fine, 1), ("B05_30m", coarse, 3), ("SCL_20m", scl, 2)):
        grid = {**UTM, "transform": UTM["transform"] * Affine.scale(factor)}
        make(tmp_path / f"T33UUP_20200101T000000_{name}.tif", values, **grid)
    weights = Smooth(2)
    weights.spec = replace(weights.spec, removes=("thin",))
    given = replace(L2A, mask="scl", bands="1,2", ground="network")
    files = sorted(tmp_path.glob("T33*.tif"))
    restore_scene(files, tmp_path / "whole.tif", weights, options=given)
    restore_scene(files, tmp_path / "part.tif", weights, options=replace(given, bbox=box_of(121, 62, 58, 71)))
    for name in ("", "_quality"):
        assert same_bits(read(tmp_path / f"whole{name}.tif")[of(*place)], read(tmp_path / f"part{name}.tif"))
    assert len(np.unique(read(tmp_path / "part_quality.tif"))) > 1


@contextmanager
def logging(folder: Path, log: Path) -> Iterator[str]:
    """Serve a folder from another process, which writes down what it is asked for."""
    line = [sys.executable, Path(__file__).parents[1] / "file_server.py", folder, log]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield f"http://127.0.0.1:{server.stdout.readline().strip()}"
        server.terminate()


def test_only_the_blocks_around_the_window_are_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "AROUND", 40)
    size, block = 1024, 128
    values = noise("uint8", (3, size, size))
    tiled = {"tiled": True, "blockxsize": block, "blockysize": block, "interleave": "pixel", "compress": "deflate"}
    scene = make(tmp_path / "in.tif", values, photometric="RGB", **tiled, **UTM)
    mask = make(tmp_path / "mask.tif", np.ones((1, size, size), np.uint8), compress="deflate", **UTM)
    with rasterio.open(scene) as file:
        places = {
            (row, col): (
                int(file.get_tag_item(f"BLOCK_OFFSET_{col}_{row}", "TIFF", 1)),
                int(file.get_tag_item(f"BLOCK_SIZE_{col}_{row}", "TIFF", 1)),
            )
            for row in range(size // block)
            for col in range(size // block)
        }
    place = (400, 500, 100, 100)
    given = options(mask, bbox=box_of(*place))
    log = tmp_path / "asked.txt"
    with logging(tmp_path, log) as address:
        restore_scene(f"{address}/in.tif", tmp_path / "part.tif", Smooth(), options=given)
    asked = [line.split("\t") for line in log.read_text().splitlines()]
    told = [one.removeprefix("bytes=").split("-") for path, one in asked if path == "/in.tif" and one]
    ranges = [(int(first), int(last)) for first, last in told]
    fetched = {
        at
        for at, (offset, length) in places.items()
        if any(first <= offset and offset + length <= last + 1 for first, last in ranges)
    }
    assert fetched <= {(row, col) for row in range(2, 5) for col in (3, 4)}
    assert len(fetched) >= 4
    assert sum(last + 1 - first for first, last in ranges) < 0.2 * scene.stat().st_size
    assert read(tmp_path / "part_quality.tif").all()


def test_a_plan_and_the_command_say_what_is_read(tmp_path: Path, scene: Path, mask: Path) -> None:
    given = options(mask, bbox=box_of(70, 100, 20, 30))
    plan = plan_scene(scene, tmp_path / "out.tif", Smooth(), options=given)
    assert (plan.height, plan.width, plan.read) == (20, 30, (HEIGHT, WIDTH))
    assert (plan.tiles, plan.tiles_to_run) == (2, 2)
    box = ",".join(map(str, box_of(70, 100, 20, 30)))
    line = ["restore", str(scene), str(tmp_path / "out.tif"), "--bbox", box, "--mask", str(mask), "--dry-run"]
    told = CliRunner().invoke(app, [*line, "--weights", "rgb-thin"])
    assert "a window, for which 240 x 180 pixels are read" in told.output.replace("\n", " ")
    assert "30 x 20 pixels" in told.output


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"bbox": "13,52,14"}, "expected west,south,east,north, such"),
        ({"bbox": "13,52,14,north"}, "expected west,south,east,north, such"),
        ({"bbox": (52.0, 13.0, 52.0, 14.0)}, "with south below north"),
        ({"bbox": (13.0, 53.0, 14.0, 52.0)}, "with south below north"),
        ({"bbox": "13,52,14,91"}, "with south below north"),
        ({"bbox": "13,52,14,nan"}, "with south below north"),
        ({"bbox": "13,52,14,53", "aoi": "a.gpkg"}, "give one of them"),
    ],
)
def test_a_box_that_is_none_is_refused(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        RestoreOptions(**given)


def test_a_box_over_the_date_line_goes_on_beyond_180() -> None:
    assert RestoreOptions(bbox="179.5,-17,-179.5,-16").bbox == (179.5, -17, 180.5, -16)
    assert (
        RestoreOptions(bbox=(13.0, 52.0, 14.0, 53.0)).digest() != RestoreOptions(bbox=(13.0, 52.0, 14.0, 54.0)).digest()
    )


def test_a_box_elsewhere_and_a_scene_without_a_place_are_refused(tmp_path: Path, scene: Path, mask: Path) -> None:
    with pytest.raises(SceneError, match=r"lies outside .*in\.tif, which covers 14\.97\d+,49"):
        restore_scene(scene, tmp_path / "out.tif", Same(), options=options(mask, bbox="10,40,11,41"))
    nowhere = make(tmp_path / "nowhere.tif", noise("uint8", (3, 40, 40)), photometric="RGB")
    with pytest.raises(SceneError, match="has no CRS"):
        restore_scene(nowhere, tmp_path / "out.tif", Same(), options=options(mask, bbox="10,40,11,41"))
    assert not list(tmp_path.glob("out*"))
