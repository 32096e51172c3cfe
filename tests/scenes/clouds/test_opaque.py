"""Cloud that nothing is seen through, by what is in the image."""

import numpy as np
import pytest

from attcr.bands.sensors import REFLECTANCE, RGB8, SENTINEL2_L1C_N0400, Sensor
from attcr.scenes.clouds.masks import CLEAR, CLOUD, THICK, THIN
from attcr.scenes.clouds.opaque import is_opaque, settle


@pytest.mark.parametrize(
    ("sensor", "red", "green", "blue", "wanted"),
    [
        (REFLECTANCE, 0.36, 0.36, 0.36, True),
        (REFLECTANCE, 0.34, 0.34, 0.34, False),
        (REFLECTANCE, 0.40, 0.40, 0.34, False),  # blue is below white
        (REFLECTANCE, 0.44, 0.40, 0.36, True),
        (REFLECTANCE, 0.46, 0.40, 0.36, False),  # bright sand: 0.36 is less than 0.8 of 0.46
        (REFLECTANCE, np.nan, 0.5, 0.5, False),
        (SENTINEL2_L1C_N0400, 4600, 4600, 4600, True),
        (SENTINEL2_L1C_N0400, 4400, 4400, 4400, False),
        (RGB8, 243, 243, 243, True),
        (RGB8, 241, 255, 255, False),
    ],
)
def test_white_is_opaque_and_sand_is_not(sensor: Sensor, red: float, green: float, blue: float, wanted: bool) -> None:
    values = np.array([red, green, blue]).reshape(3, 1, 1)
    assert is_opaque(values, sensor).tolist() == [[wanted]]


def test_only_cloud_can_be_thick_and_the_image_tells_where_a_mask_does_not() -> None:
    classes = np.array([CLEAR, THIN, THICK, CLOUD], np.uint8)
    assert settle(classes, np.array([True] * 4)).tolist() == [CLEAR, THICK, THICK, THICK]
    assert settle(classes, np.array([False] * 4)).tolist() == [CLEAR, THIN, THICK, THIN]
    assert settle(classes, None).tolist() == [CLEAR, THIN, THICK, THIN]
    assert settle(classes, None, untold=THICK).tolist() == [CLEAR, THIN, THICK, THICK]
