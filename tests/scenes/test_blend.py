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


def test_a_tile_falls_by_a_raised_cosine_over_the_overlap_and_weighs_1_beyond_it() -> None:
    low, high = np.sin(np.pi / 8) ** 2, np.sin(3 * np.pi / 8) ** 2  # a quarter and three quarters down the overlap
    weights = line_weights((0, 4), 6, 10, 2)
    assert weights.dtype == np.float32
    assert np.allclose(weights, [[1, 1, 1, 1, high, low], [low, high, 1, 1, 1, 1]], rtol=0, atol=1e-7)
    assert (round(low, 6), round(high, 6)) == (0.146447, 0.853553)
    eight = line_weights((0, 24), 32, 56, 8)
    assert np.allclose(eight[1, :8], np.sin((np.arange(8) + 0.5) * np.pi / 16) ** 2, rtol=0, atol=1e-7)
    assert (eight[0, :24] == 1).all()
    assert (eight[1, 8:] == 1).all()


def test_tiles_that_share_more_than_the_overlap_weigh_in_proportion() -> None:
    low = np.sin(np.pi / 8) ** 2
    weights = line_weights((0, 3), 6, 9, 2)  # the second is moved back: three pixels are shared
    shared = [1 / (1 + low), 0.5, low / (1 + low)]
    assert np.allclose(weights, [[1, 1, 1, *shared], [*shared[::-1], 1, 1, 1]], rtol=0, atol=1e-7)


def test_without_overlap_every_pixel_is_one_tiles() -> None:
    assert line_weights((0, 4), 4, 8, 0).tolist() == [[1, 1, 1, 1], [1, 1, 1, 1]]


def test_the_step_between_two_tiles_becomes_a_ramp() -> None:
    tiles = Grid(6, 10, 6, 6, 2, (0,), (0, 4))
    blender = StripBlender(tiles, 1)
    for tile, value in zip(tiles, (0.0, 10.0), strict=True):
        blender.add(tile, np.full((1, 6, 6), value, np.float32))
    wanted = [0, 0, 0, 0, 1.4644661, 8.5355339, 10, 10, 10, 10]
    assert np.allclose(blender.finish(6), np.broadcast_to(wanted, (1, 6, 10)), rtol=0, atol=1e-5)


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
