"""Overlap-add gives back what the tiles hold."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attcr.scenes.blend import StripBlender, line_weights
from attcr.scenes.tiles import Grid, grid


def blend(tiles: Grid, image: np.ndarray) -> np.ndarray:
    blender = StripBlender(tiles, image.shape[0])
    strips = []
    for row, below in zip(tiles.rows, [*tiles.rows[1:], tiles.height], strict=True):
        for tile in tiles.row_of_tiles(row):
            blender.add(tile, image[:, tile.rows, tile.cols])
        strips.append(blender.finish(below))
    return np.concatenate(strips, axis=1)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 200), st.integers(1, 200), st.integers(8, 80), st.data())
def test_tiles_cut_from_an_image_blend_back_to_it(height: int, width: int, tile: int, data: st.DataObject) -> None:
    overlap = data.draw(st.integers(0, tile // 2))
    image = np.random.default_rng(0).normal(size=(2, height, width)).astype(np.float32)
    assert np.allclose(blend(grid(height, width, tile=tile, overlap=overlap), image), image, atol=1e-5)


def test_no_change_in_the_tiles_is_exactly_no_change_in_the_scene() -> None:
    assert not blend(grid(300, 200, tile=64, overlap=16), np.zeros((3, 300, 200), np.float32)).any()


@pytest.mark.parametrize("overlap", [0, 1, 16, 32])
def test_weights_add_up_to_one_at_every_pixel(overlap: int) -> None:
    tiles = grid(333, 100, tile=64, overlap=overlap)
    total = np.zeros(333)
    for start, weights in zip(tiles.rows, line_weights(tiles.rows, 64, 333, overlap), strict=True):
        total[start : start + 64] += weights
    assert np.allclose(total, 1, atol=1e-6)


def test_a_blender_started_in_the_middle_gives_the_same_rows_to_the_bit() -> None:
    tiles = grid(300, 90, tile=64, overlap=16)
    image = np.random.default_rng(1).normal(size=(1, 300, 90)).astype(np.float32)
    whole = blend(tiles, image)
    blender = StripBlender(tiles, 1)
    start = tiles.rows[2]
    blender.start(start)
    strips = []
    for row, below in zip(tiles.rows[2:], [*tiles.rows[3:], 300], strict=True):
        for tile in tiles.row_of_tiles(row):
            blender.add(tile, image[:, tile.rows, tile.cols])
        strips.append(blender.finish(below))
    rows = np.concatenate(strips, axis=1)
    after = tiles.rows[3] - start  # rows before this also belong to the row of tiles above
    assert np.array_equal(rows[:, after:], whole[:, start + after :])
