"""The rim that is restored around cloud."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attcr.scenes.clouds.masks import THICK, THIN
from attcr.scenes.clouds.rim import SOFT, CloudMap, Rim
from attcr.scenes.clouds.vote import DARK
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
    whole = clouds.rows(0, height).weights
    cut = data.draw(st.integers(0, height))
    parts = [clouds.rows(top, bottom).weights for top, bottom in ((0, cut), (cut, height)) if bottom > top]
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


def test_what_is_near_thick_cloud_counts_to_it_up_to_dilate_and_no_farther() -> None:
    line = np.zeros((1, 9), np.uint8)
    line[0, 4] = THICK
    line[0, 0] = THIN
    clouds = CloudMap(lambda top, bottom: line[top:bottom], 1, Rim(2, 3))
    assert clouds.rows(0, 1).thick.tolist() == [[False, False, True, True, True, True, True, False, False]]
    assert clouds.rows(0, 1).weights.tolist() == [[1, 1, 1, 1, 1, 1, 1, 0.75, 0.5]]


def test_thick_cloud_that_is_left_has_no_weight_no_ramp_and_no_tile() -> None:
    line = np.zeros((1, 24), np.uint8)
    line[0, 0], line[0, 5:] = THIN, THICK
    clouds = CloudMap(lambda top, bottom: line[top:bottom], 1, Rim(1, 4), leaves_thick=True)
    found = clouds.rows(0, 1)
    assert found.classes.tolist() == line.tolist()
    assert np.allclose(found.weights, [[1, 1, 0.8, 0.6] + [0] * 20])
    assert found.thick.tolist() == [[False] * 4 + [True] * 20]
    tiles = grid(1, 24, tile=8, overlap=0)
    assert clouds.cloudy_tiles(tiles, 0) == [Tile(0, 0, 1, 8)]


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 60), st.integers(0, 9), st.integers(0, 9), st.integers(0, 99), st.data())
def test_what_is_left_is_the_same_however_the_rows_are_asked_for(
    height: int, dilate: int, feather: int, seed: int, data: st.DataObject
) -> None:
    drawn = np.random.default_rng(seed).random((height, 30))
    classes = np.where(drawn < 0.01, THICK, np.where(drawn < 0.03, THIN, 0)).astype(np.uint8)
    clouds = CloudMap(lambda top, bottom: classes[top:bottom], height, Rim(dilate, feather), leaves_thick=True)
    whole = clouds.rows(0, height)
    cut = data.draw(st.integers(0, height))
    parts = [clouds.rows(top, bottom) for top, bottom in ((0, cut), (cut, height)) if bottom > top]
    assert np.array_equal(np.concatenate([part.thick for part in parts]), whole.thick)
    assert np.array_equal(np.concatenate([part.weights for part in parts]), whole.weights)
    assert not whole.weights[whole.thick].any()
    tiles = grid(height, 30, tile=16, overlap=4)
    run = [tile for row in tiles.rows for tile in clouds.cloudy_tiles(tiles, row)]
    assert all(tile in run for tile in tiles if whole.weights[tile.rows, tile.cols].any())


def test_shadow_is_as_soft_however_the_rows_are_asked_for() -> None:
    told = np.zeros((40, 8), np.uint8)
    told[20:, :] = DARK

    def read(top: int, bottom: int) -> np.ndarray:
        return told[top:bottom]

    clouds = CloudMap(read, 40, Rim(1, 1), bits=read)
    whole = clouds.rows(0, 40).dark
    parts = [clouds.rows(top, top + 10).dark for top in range(0, 40, 10)]
    assert np.array_equal(np.concatenate(parts), whole)
    assert 0 < whole[20 - 2 * SOFT, 0] < 0.1 < whole[19, 0] < 0.5 < whole[20, 0] < 1
