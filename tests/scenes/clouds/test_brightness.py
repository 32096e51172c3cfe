"""Clouds by brightness."""

import numpy as np
import pytest

from attcr.scenes.clouds.brightness import classes_of_brightness
from attcr.scenes.clouds.masks import CLEAR, CLOUD


def test_brightness_finds_white_and_leaves_colour_and_dark() -> None:
    cloud, haze, field, roof = (0.9, 0.9, 0.92), (0.5, 0.5, 0.55), (0.2, 0.4, 0.15), (0.9, 0.3, 0.2)
    picture = np.array([cloud, haze, field, roof], np.float32).T.reshape(3, 1, 4)
    assert classes_of_brightness(picture)[0].tolist() == [CLOUD, CLOUD, CLEAR, CLEAR]


@pytest.mark.parametrize(
    ("red", "green", "blue", "wanted"),
    [
        (0.39, 0.39, 0.39, CLEAR),
        (0.41, 0.41, 0.41, CLOUD),
        (0.64, 0.64, 0.64, CLOUD),
        (0.66, 0.66, 0.66, CLOUD),
        (0.61, 0.50, 0.39, CLEAR),  # 0.22 of colour at brightness 0.5, where less than 0.20 is white
        (0.59, 0.50, 0.41, CLOUD),
        (0.41, 0.50, 0.59, CLOUD),
        (0.91, 0.80, 0.69, CLOUD),  # 0.22 of colour at brightness 0.8, where less than 0.23 is white
        (0.92, 0.80, 0.68, CLEAR),
    ],
)
def test_white_is_little_colour_for_the_brightness(red: float, green: float, blue: float, wanted: int) -> None:
    picture = np.array([red, green, blue], np.float32).reshape(3, 1, 1)
    assert classes_of_brightness(picture).tolist() == [[wanted]]
