"""Masks of products and users become one kind of map."""

import numpy as np
import pytest

from attcr.scenes.clouds import masks
from attcr.scenes.clouds.masks import CLEAR, THICK, THIN


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
