"""Tiles cover a scene."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attcr.errors import ConfigError
from attcr.scenes.blend import StripBlender
from attcr.scenes.tiles import Grid, Part, Tile, grid


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 700), st.integers(1, 700), st.integers(8, 200), st.data())
def test_tiles_of_one_size_cover_every_pixel_and_stay_inside(
    height: int, width: int, tile: int, data: st.DataObject
) -> None:
    overlap = data.draw(st.integers(0, tile // 2))
    origin = data.draw(st.integers(0, tile - overlap - 1))
    tiles = grid(height, width, tile=tile, overlap=overlap, origin=origin)
    covered = np.zeros((height, width), int)
    for one in tiles:
        assert (one.height, one.width) == (min(tile, height), min(tile, width))
        assert one.row >= 0
        assert one.row + one.height <= height
        assert one.col + one.width <= width
        covered[one.rows, one.cols] += 1
    assert covered.min() >= 1
    assert len(list(tiles)) == len(tiles)
    for starts, size, length in ((tiles.rows, one.height, height), (tiles.cols, one.width, width)):
        assert all(0 < b - a <= tile - overlap for a, b in pairwise(starts))
        assert starts[-1] + size == length


def test_a_scene_smaller_than_a_tile_is_one_tile_of_its_own_size() -> None:
    assert list(grid(7, 5, tile=256, overlap=32)) == [Tile(0, 0, 7, 5)]


@pytest.mark.parametrize(
    ("height", "tile", "overlap", "origin"),
    [(0, 64, 8, 0), (9, 4, 0, 0), (9, 64, 33, 0), (9, 64, -1, 0), (9, 64, 8, 56)],
)
def test_a_grid_that_cannot_be_is_refused(height: int, tile: int, overlap: int, origin: int) -> None:
    with pytest.raises(ConfigError):
        grid(height, 10, tile=tile, overlap=overlap, origin=origin)


LARGE = grid(100, 90, tile=32, overlap=8)  # tiles begin at rows 0, 24, 48, 68 and at columns 0, 24, 48, 58


def small(height: int, width: int, rows: tuple[int, ...], cols: tuple[int, ...]) -> Grid:
    return Grid(height, width, 32, 32, 8, rows, cols)


@pytest.mark.parametrize(
    ("window", "reach", "wanted"),
    [
        pytest.param(
            Tile(0, 0, 100, 90),
            5,
            Part(LARGE, Tile(0, 0, 100, 90), Tile(0, 0, 100, 90)),
            id="all",
        ),
        pytest.param(
            Tile(26, 33, 10, 10),  # rows of two tiles, columns of one
            0,
            Part(small(56, 32, (0, 24), (0,)), Tile(0, 24, 56, 32), Tile(26, 9, 10, 10)),
            id="inside",
        ),
        pytest.param(
            Tile(32, 32, 16, 16),  # between the tiles' overlaps, to the pixel
            0,
            Part(small(32, 32, (0,), (0,)), Tile(24, 24, 32, 32), Tile(8, 8, 16, 16)),
            id="one tile",
        ),
        pytest.param(
            Tile(31, 32, 17, 17),  # one pixel more at the top and at the right
            0,
            Part(small(56, 56, (0, 24), (0, 24)), Tile(0, 24, 56, 56), Tile(31, 8, 17, 17)),
            id="one pixel more",
        ),
        pytest.param(
            Tile(32, 32, 16, 16),  # reach beyond the tile: 20 pixels around, no more tiles
            20,
            Part(small(44, 56, (12,), (12,)), Tile(12, 12, 56, 56), Tile(20, 20, 16, 16)),
            id="reach",
        ),
        pytest.param(
            Tile(99, 89, 1, 1),
            200,
            Part(small(100, 90, (68,), (58,)), Tile(0, 0, 100, 90), Tile(99, 89, 1, 1)),
            id="corner and a reach beyond the scene",
        ),
        pytest.param(
            Tile(0, 0, 1, 1),
            3,
            Part(small(32, 32, (0,), (0,)), Tile(0, 0, 32, 32), Tile(0, 0, 1, 1)),
            id="first pixel",
        ),
    ],
)
def test_a_part_has_the_tiles_that_touch_the_window_and_the_pixels_they_need(
    window: Tile, reach: int, wanted: Part
) -> None:
    assert LARGE.part(window, reach=reach) == wanted


def blend_from_top(tiles: Grid, values_of: dict[tuple[int, int], np.ndarray]) -> np.ndarray:
    """Blend a value for each tile; rows above the first tile are missing."""
    blender = StripBlender(tiles, 1)
    blender.start(tiles.rows[0])
    strips = []
    for row, below in zip(tiles.rows, [*tiles.rows[1:], tiles.height], strict=True):
        for tile in tiles.row_of_tiles(row):
            blender.add(tile, values_of[tile.row, tile.col])
        strips.append(blender.finish(below))
    return np.concatenate(strips, axis=1)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 120), st.integers(1, 120), st.integers(8, 40), st.integers(0, 30), st.data())
def test_within_its_window_a_part_blends_to_the_bits_of_the_whole(
    height: int, width: int, tile: int, reach: int, data: st.DataObject
) -> None:
    tiles = grid(height, width, tile=tile, overlap=data.draw(st.integers(0, tile // 2)))
    row, col = data.draw(st.integers(0, height - 1)), data.draw(st.integers(0, width - 1))
    window = Tile(row, col, data.draw(st.integers(1, height - row)), data.draw(st.integers(1, width - col)))
    rng = np.random.default_rng(0)
    values = {(one.row, one.col): rng.normal(size=(1, one.height, one.width)).astype(np.float32) for one in tiles}
    whole = blend_from_top(tiles, values)
    part = tiles.part(window, reach=reach)
    top, left = part.needs.row, part.needs.col
    moved = {(row - top, col - left): tile for (row, col), tile in values.items()}
    blended = blend_from_top(part.grid, moved)
    inside = slice(part.window.row - part.grid.rows[0], part.window.row - part.grid.rows[0] + window.height)
    assert np.array_equal(blended[:, inside, part.window.cols], whole[:, window.rows, window.cols])
    assert (part.needs.row + part.window.row, part.needs.col + part.window.col) == (window.row, window.col)


@pytest.mark.parametrize(
    "window", [Tile(-1, 0, 5, 5), Tile(0, -1, 5, 5), Tile(0, 0, 0, 5), Tile(0, 0, 101, 5), Tile(0, 86, 5, 5)]
)
def test_a_part_for_a_window_beyond_the_scene_is_refused(window: Tile) -> None:
    with pytest.raises(ConfigError, match=r"at least one pixel|beyond the scene"):
        LARGE.part(window)


def test_tiles_begin_where_stride_and_origin_say_and_the_last_ends_with_the_scene() -> None:
    assert grid(100, 40, tile=32, overlap=8).rows == (0, 24, 48, 68)
    assert grid(100, 40, tile=32, overlap=8).cols == (0, 8)
    assert grid(100, 40, tile=32, overlap=8, origin=4).rows == (0, 20, 44, 68)
    assert grid(56, 32, tile=32, overlap=8).rows == (0, 24)
    assert grid(32, 33, tile=32, overlap=16).cols == (0, 1)


def test_the_smallest_tile_is_8_and_the_largest_overlap_its_half() -> None:
    assert grid(20, 20, tile=8, overlap=4).rows == (0, 4, 8, 12)
    with pytest.raises(ConfigError, match="tile is 7 pixels and must be at least 8"):
        grid(20, 20, tile=7, overlap=0)
    with pytest.raises(ConfigError, match=r"overlap is 5 and must lie between 0 and half of the tile \(4\)"):
        grid(20, 20, tile=8, overlap=5)
    with pytest.raises(ConfigError, match="at least one pixel, got 20 x 0"):
        grid(20, 0)
