"""Windows of a scene: every pixel on its row and column, whatever the size of its band."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from affine import Affine

from attcr.errors import SceneError
from attcr.scenes.open import open_scene
from attcr.scenes.scene import AlignedRaster, Scene
from fake_scenes import UTM, make

HEIGHT, WIDTH = 12, 18
WINDOWS = [
    (0, 12, 0, 18),
    (3, 4, 0, 18),  # one row, inside a pixel of 20 m
    (5, 11, 7, 8),  # one column
    (1, 8, 3, 16),  # odd on every side
    (2, 6, 4, 12),  # between pixels of 20 m
    (0, 1, 0, 1),
    (11, 12, 17, 18),
    (7, 12, 11, 18),
    (5, 5, 3, 9),  # nothing
]


def numbered(height: int, width: int, first: int) -> np.ndarray:
    """No two pixels alike."""
    return (first + np.arange(height * width).reshape(1, height, width)).astype(np.uint16)


def coarser(factor: int) -> dict[str, Any]:
    t = UTM["transform"]
    return {"crs": UTM["crs"], "transform": Affine(t.a * factor, 0, t.c, 0, t.e * factor, t.f)}


def enlarged(values: np.ndarray, factor: int) -> np.ndarray:
    return np.kron(values, np.ones((1, factor, factor), values.dtype))


def window_id(window: tuple[int, int, int, int]) -> str:
    return "rows {}-{} columns {}-{}".format(*window)


@pytest.fixture
def mixed(tmp_path: Path) -> Iterator[tuple[Scene, np.ndarray]]:
    """A folder of bands of 10, 20 and 60 m, and what it is on the finest grid, in the order of the bands."""
    wanted = []
    for i, (band, factor) in enumerate((("B02", 1), ("B08", 1), ("B8A", 2), ("B09", 6), ("B11", 2))):
        values = numbered(HEIGHT // factor, WIDTH // factor, 1000 * (i + 1))
        make(tmp_path / f"T33UXQ_20220501T100021_{band}_{factor}0m.tif", values, **coarser(factor))
        wanted.append(enlarged(values, factor))
    with open_scene(tmp_path) as scene:
        yield scene, np.concatenate(wanted)


def test_b8a_stands_between_b08_and_b09(mixed: tuple[Scene, np.ndarray]) -> None:
    scene, _ = mixed
    assert [band.name for band in scene.bands] == ["B02", "B08", "B8A", "B09", "B11"]
    assert [band.factor for band in scene.bands] == [1, 1, 2, 6, 2]


@pytest.mark.parametrize("window", WINDOWS, ids=window_id)
def test_coarse_bands_lie_on_the_rows_and_columns_they_cover(
    mixed: tuple[Scene, np.ndarray], window: tuple[int, int, int, int]
) -> None:
    scene, wanted = mixed
    top, bottom, left, right = window
    assert np.array_equal(scene.read(top, bottom, left=left, right=right), wanted[:, top:bottom, left:right])
    assert np.array_equal(scene.read(top, bottom), wanted[:, top:bottom])
    chosen = scene.select([4, 2])
    assert np.array_equal(chosen.read(top, bottom, left=left, right=right), wanted[[4, 2], top:bottom, left:right])


@pytest.mark.parametrize("window", WINDOWS, ids=window_id)
def test_a_single_raster_is_read_in_windows_with_its_bands_in_the_order_asked_for(
    tmp_path: Path, window: tuple[int, int, int, int]
) -> None:
    values = np.concatenate([numbered(HEIGHT, WIDTH, 1000 * i) for i in range(3)])
    top, bottom, left, right = window
    with open_scene(make(tmp_path / "in.tif", values, **UTM)) as scene:
        assert np.array_equal(scene.read(top, bottom, left=left, right=right), values[:, top:bottom, left:right])
        turned = scene.select([2, 0])
        assert np.array_equal(turned.read(top, bottom, left=left, right=right), values[[2, 0], top:bottom, left:right])
        assert scene.read_alpha(top, bottom) is None
        assert scene.read_mask(top, bottom) is None


@pytest.mark.parametrize("window", WINDOWS, ids=window_id)
def test_the_alpha_band_is_no_band_of_the_scene_and_says_what_is_valid(
    tmp_path: Path, window: tuple[int, int, int, int]
) -> None:
    values = np.concatenate([numbered(HEIGHT, WIDTH, 1 + i) for i in range(4)]).astype(np.uint8)
    values[3] = np.arange(HEIGHT)[:, None] * np.arange(WIDTH)  # 0 in the first row and the first column
    path = make(tmp_path / "in.tif", values, photometric="RGB", alpha="YES", **UTM)
    top, bottom, left, right = window
    wanted = values[:, top:bottom, left:right]
    with open_scene(path) as scene:
        assert (len(scene.bands), scene.alpha.name if scene.alpha else None) == (3, "alpha")
        assert not scene.profile.has_mask
        read = scene.read(top, bottom, left=left, right=right)
        alpha = scene.read_alpha(top, bottom, left=left, right=right)
        mask = scene.read_mask(top, bottom, left=left, right=right)
        valid = scene.valid(read, top, left=left)
    assert np.array_equal(read, wanted[:3])
    assert alpha is not None
    assert np.array_equal(alpha, wanted[3:])
    assert mask is not None
    assert np.array_equal(mask, wanted[3])
    assert np.array_equal(valid, np.broadcast_to(wanted[3] > 0, valid.shape))


@pytest.mark.parametrize("window", WINDOWS, ids=window_id)
def test_a_mask_band_says_what_is_valid_on_its_rows_and_columns(
    tmp_path: Path, window: tuple[int, int, int, int]
) -> None:
    mask = np.random.default_rng(3).integers(0, 2, (HEIGHT, WIDTH)).astype(np.uint8) * 255
    values = numbered(HEIGHT, WIDTH, 1)
    path = make(tmp_path / "in.tif", values, lambda file: file.write_mask(mask), **UTM)
    top, bottom, left, right = window
    with open_scene(path) as scene:
        assert scene.profile.has_mask
        read = scene.read(top, bottom, left=left, right=right)
        seen = scene.read_mask(top, bottom, left=left, right=right)
        valid = scene.valid(read, top, left=left)
    assert seen is not None
    assert np.array_equal(seen, mask[top:bottom, left:right])
    assert np.array_equal(valid[0], mask[top:bottom, left:right] > 0)


def test_nodata_counts_for_each_band_and_a_products_blank_only_where_none_is_declared(tmp_path: Path) -> None:
    values = np.array([[[0, 7, 5]], [[0, 0, 7]]], np.uint16)
    with open_scene(make(tmp_path / "plain.tif", values)) as scene:
        assert scene.valid(values, 0).all()
        assert scene.valid(values, 0, blank=0).tolist() == [[[False, True, True]]] * 2
    with open_scene(tmp_path / "plain.tif", nodata=7) as declared:
        assert declared.valid(values, 0, blank=0).tolist() == [[[True, False, True]], [[True, True, False]]]
    for nodata in (-1, 65_536, 0.5):
        with pytest.raises(SceneError, match="cannot be a value of uint16"):
            open_scene(tmp_path / "plain.tif", nodata=nodata)
    floats = np.array([[[np.nan, np.inf, 1, -9]]], np.float32)
    with open_scene(make(tmp_path / "floats.tif", floats, nodata=-9)) as scene:
        assert scene.valid(floats, 0).tolist() == [[[False, False, True, False]]]
    with open_scene(make(tmp_path / "nan.tif", floats, nodata=np.nan)) as scene:
        assert scene.valid(floats, 0).tolist() == [[[False, False, True, True]]]


@pytest.mark.parametrize("window", WINDOWS, ids=window_id)
@pytest.mark.parametrize(
    ("factor", "placed"),
    [(1, True), (2, True), (3, True), (1, False), (2, False), (3, False)],
)
def test_another_raster_is_laid_on_the_scenes_rows_and_columns(
    tmp_path: Path, window: tuple[int, int, int, int], factor: int, placed: bool
) -> None:
    scene_at, raster_at = (UTM, coarser(factor)) if placed else ({}, {})
    values = np.concatenate([numbered(HEIGHT // factor, WIDTH // factor, first) for first in (1, 500)])
    raster = make(tmp_path / "other.tif", values, **raster_at)
    top, bottom, left, right = window
    with open_scene(make(tmp_path / "in.tif", numbered(HEIGHT, WIDTH, 1), **scene_at)) as scene:
        other = AlignedRaster(str(raster), scene.profile)
        try:
            read = other.read(top, bottom, left=left, right=right)
            rows = other.read(top, bottom)
        finally:
            other.close()
    assert other.count == 2
    assert np.array_equal(read, enlarged(values, factor)[:, top:bottom, left:right])
    assert np.array_equal(rows, enlarged(values, factor)[:, top:bottom])


def test_another_raster_that_begins_elsewhere_is_moved_to_its_place(tmp_path: Path) -> None:
    t = UTM["transform"]
    shifted = {"crs": UTM["crs"], "transform": Affine(10, 0, t.c + 30, 0, -10, t.f - 20)}  # 3 right, 2 down
    values = numbered(4, 5, 1)
    raster = make(tmp_path / "other.tif", values, **shifted)
    with open_scene(make(tmp_path / "in.tif", numbered(HEIGHT, WIDTH, 1), **UTM)) as scene:
        other = AlignedRaster(str(raster), scene.profile)
        whole = other.read(0, HEIGHT)[0]
        other.close()
    wanted = np.zeros((HEIGHT, WIDTH), np.uint16)
    wanted[2:6, 3:8] = values[0]
    assert np.array_equal(whole, wanted)


def test_another_raster_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    t = UTM["transform"]
    far = {"crs": UTM["crs"], "transform": Affine(10, 0, t.c + 10 * WIDTH, 0, -10, t.f)}
    beside = make(tmp_path / "far.tif", numbered(4, 5, 1), **far)
    odd = make(tmp_path / "odd.tif", numbered(5, 9, 1))
    with open_scene(make(tmp_path / "in.tif", numbered(HEIGHT, WIDTH, 1), **UTM)) as scene:
        with pytest.raises(SceneError, match="outside the scene"):
            AlignedRaster(str(beside), scene.profile)
        with pytest.raises(SceneError, match=r"9 x 5.*does not fit the scene \(18 x 12\)"):
            AlignedRaster(str(odd), scene.profile)


@pytest.mark.parametrize(
    "window", [(-1, 3, 0, 4), (0, 13, 0, 4), (4, 3, 0, 4), (0, 3, -1, 4), (0, 3, 5, 4), (0, 3, 0, 19)]
)
def test_a_window_beyond_the_scene_is_refused(tmp_path: Path, window: tuple[int, int, int, int]) -> None:
    top, bottom, left, right = window
    path = make(tmp_path / "in.tif", numbered(HEIGHT, WIDTH, 1), **UTM)
    with open_scene(path) as scene:
        other = AlignedRaster(str(path), scene.profile)
        for read in (scene.read, other.read):
            with pytest.raises(SceneError, match="12 rows and 18 columns"):
                read(top, bottom, left=left, right=right)
        other.close()
