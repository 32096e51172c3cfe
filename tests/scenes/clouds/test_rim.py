"""The rim that is restored around cloud."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attcr.scenes.clouds.masks import THICK, THIN
from attcr.scenes.clouds.rim import CloudMap, Rim
from attcr.scenes.tiles import Grid, Tile, grid


@settings(max_examples=50, deadline=None)
@given(
    st.integers(1, 80),
    st.integers(1, 60),
    st.integers(0, 9),
    st.integers(0, 9),
    st.integers(0, 99),
    st.data(),
)
def test_weights_are_the_same_however_the_rows_are_asked_for(
    height: int, width: int, dilate: int, feather: int, seed: int, data: st.DataObject
) -> None:
    classes = (np.random.default_rng(seed).random((height, width)) < 0.01).astype(np.uint8)
    clouds = CloudMap(lambda top, bottom: classes[top:bottom], height, Rim(dilate, feather))
    _, whole = clouds.rows(0, height)
    cut = data.draw(st.integers(0, height))
    parts = [clouds.rows(top, bottom)[1] for top, bottom in ((0, cut), (cut, height)) if bottom > top]
    assert np.array_equal(np.concatenate(parts), whole)
    assert (whole[classes > 0] == 1).all()
    tiles = grid(height, width, tile=16, overlap=4)
    run = [tile for row in tiles.rows for tile in clouds.cloudy_tiles(tiles, row)]
    for tile in tiles:
        if whole[tile.rows, tile.cols].any():
            assert tile in run, "a pixel that changes must lie only in tiles that are run"


def test_weights_are_1_up_to_dilate_and_fall_evenly_over_feather() -> None:
    line = np.zeros((1, 9), np.uint8)
    line[0, 0] = THIN
    assert Rim(2, 3).weights(line).tolist() == [[1, 1, 1, 0.75, 0.5, 0.25, 0, 0, 0]]
    assert Rim(0, 0).weights(line).tolist() == [[1, 0, 0, 0, 0, 0, 0, 0, 0]]
    assert Rim(3, 0).weights(line).tolist() == [[1, 1, 1, 1, 0, 0, 0, 0, 0]]
    assert not Rim(3, 3).weights(np.zeros((2, 2), np.uint8)).any()


def test_the_rim_is_round_and_ends_at_its_reach() -> None:
    square = np.zeros((5, 5), np.uint8)
    square[2, 2] = THICK
    assert Rim(0, 1).weights(square).tolist() == [
        [0, 0, 0, 0, 0],
        [0, 0, 0.5, 0, 0],
        [0, 0.5, 1, 0.5, 0],
        [0, 0, 0.5, 0, 0],
        [0, 0, 0, 0, 0],
    ]


@pytest.mark.parametrize(
    ("row", "col", "reached"),
    [(19, 20, True), (20, 20, False), (16, 23, True), (16, 24, False), (8, 20, True), (7, 20, False)],
)
def test_a_tile_is_run_when_a_cloud_is_within_reach_of_it(row: int, col: int, reached: bool) -> None:
    classes = np.zeros((40, 40), np.uint8)
    classes[row, col] = THIN
    clouds = CloudMap(lambda top, bottom: classes[top:bottom], 40, Rim(2, 2))
    one = Grid(40, 40, 4, 4, 0, (12,), (16,))  # rows 12 to 16, columns 16 to 20
    assert clouds.cloudy_tiles(one, 12) == ([Tile(12, 16, 4, 4)] if reached else [])
