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


def test_a_tile_falls_by_a_raised_cosine_over_the_overlap_pixel_centres_counted() -> None:
    first, last = line_weights((0, 4), 8, 12, 4)
    fall = np.sin(np.array([0.875, 0.625, 0.375, 0.125]) * np.pi / 2) ** 2
    assert first == pytest.approx(np.array([1, 1, 1, 1, *fall]), abs=1e-6)
    assert last == pytest.approx(np.array([*fall[::-1], 1, 1, 1, 1]), abs=1e-6)
    assert line_weights((0, 4), 4, 8, 0).tolist() == [[1] * 4] * 2


def test_rows_and_columns_each_have_their_own_weights() -> None:
    tiles = grid(12, 8, tile=8, overlap=4)
    blender = StripBlender(tiles, 1)
    blender.add(tiles.row_of_tiles(0)[0], np.ones((1, 8, 8), np.float32))
    fall = np.sin(0.875 * np.pi / 2) ** 2
    assert blender.finish(4)[0, :, 3].tolist() == [1] * 4
    assert blender.finish(8)[0, 0] == pytest.approx(np.full(8, fall), abs=1e-6)


def test_a_blender_that_starts_anew_has_forgotten_what_it_added() -> None:
    tiles = grid(24, 8, tile=8, overlap=0)
    blender = StripBlender(tiles, 1)
    blender.add(tiles.row_of_tiles(0)[0], np.full((1, 8, 8), 5, np.float32))
    blender.start(8)
    blender.add(tiles.row_of_tiles(8)[0], np.ones((1, 8, 8), np.float32))
    assert blender.finish(16)[0].tolist() == [[1] * 8] * 8
