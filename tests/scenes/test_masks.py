"""Masks of products, users and detectors become one kind of map."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attcr.scenes import masks
from attcr.scenes.masks import CLEAR, THICK, THIN, CloudMap
from attcr.scenes.tiles import grid


def test_scl_classes_are_those_of_the_product_specification() -> None:
    scl = np.arange(12, dtype=np.uint8)
    wanted = [CLEAR, CLEAR, CLEAR, THIN, CLEAR, CLEAR, CLEAR, CLEAR, THICK, THICK, THIN, CLEAR]
    assert masks.classes_of_scl(scl).tolist() == wanted


@pytest.mark.parametrize(
    ("qa", "wanted"),
    [
        (1, CLEAR),  # fill
        (21824, CLEAR),  # the usual clear land pixel
        (21952, CLEAR),  # clear water
        (22280, THICK),  # high confidence cloud
        (23888, THIN),  # cloud shadow
        (54596, THIN),  # cirrus
        (0b10, THIN),  # dilated cloud
    ],
)
def test_qa_pixel_values_of_the_landsat_guide_are_read(qa: int, wanted: int) -> None:
    assert masks.classes_of_qa_pixel(np.array([qa], np.uint16)).tolist() == [wanted]


def test_any_value_but_zero_of_a_users_mask_is_cloud() -> None:
    values = np.array([0, 1, 255, -1, np.nan], np.float32)
    assert masks.classes_of_raster(values).tolist() == [CLEAR, THICK, THICK, THICK, CLEAR]


def test_brightness_finds_white_and_leaves_colour_and_dark() -> None:
    cloud, haze, field, roof = (0.9, 0.9, 0.92), (0.5, 0.5, 0.55), (0.2, 0.4, 0.15), (0.9, 0.3, 0.2)
    picture = np.array([cloud, haze, field, roof], np.float32).T.reshape(3, 1, 4)
    assert masks.classes_of_brightness(picture)[0].tolist() == [THICK, THIN, CLEAR, CLEAR]


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
    clouds = CloudMap(lambda top, bottom: classes[top:bottom], height, dilate, feather)
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
