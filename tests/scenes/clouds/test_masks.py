"""Masks of products and users become one kind of map."""

import numpy as np
import pytest

from attcr.scenes.clouds import masks
from attcr.scenes.clouds.masks import CLEAR, CLOUD, THICK, THIN


def test_scl_classes_are_those_of_the_product_specification() -> None:
    scl = np.arange(12, dtype=np.uint8)
    wanted = [CLEAR, CLEAR, CLEAR, THIN, CLEAR, CLEAR, CLEAR, CLEAR, CLOUD, THICK, THIN, CLEAR]
    assert masks.classes_of_scl(scl).tolist() == wanted


@pytest.mark.parametrize("value", [12, 255, 256 + 9, -1])
def test_a_number_that_is_no_scl_class_is_clear(value: int) -> None:
    assert masks.classes_of_scl(np.array([value], np.int16)).tolist() == [CLEAR]


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
        (0b100, THIN),  # cirrus alone
        (0b1000, THICK),  # cloud alone
        (0b10000, THIN),  # shadow alone
        (0b100000, CLEAR),  # snow
        (0b1000000, CLEAR),  # clear
        (0b10000000, CLEAR),  # water
        (0b1111111100000000, CLEAR),  # confidences only
        (0b11110, THICK),  # cloud wins over its rim, cirrus and shadow
        (0b11111, CLEAR),  # fill wins over all
    ],
)
def test_qa_pixel_values_of_the_landsat_guide_are_read(qa: int, wanted: int) -> None:
    assert masks.classes_of_qa_pixel(np.array([qa], np.uint16)).tolist() == [wanted]


def test_any_value_but_zero_of_a_users_mask_is_cloud() -> None:
    values = np.array([0, 1, 255, -1, np.nan], np.float32)
    assert masks.classes_of_raster(values).tolist() == [CLEAR, CLOUD, CLOUD, CLOUD, CLEAR]
