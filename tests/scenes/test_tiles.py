"""Tiles cover a scene."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attcr.errors import ConfigError
from attcr.scenes.tiles import Tile, grid


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
