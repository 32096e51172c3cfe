"""The rim that is restored around cloud."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from attcr.scenes.clouds.rim import CloudMap, Rim
from attcr.scenes.tiles import grid


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
