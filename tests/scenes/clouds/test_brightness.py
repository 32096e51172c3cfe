"""Clouds by brightness."""

import numpy as np

from attcr.scenes.clouds.brightness import classes_of_brightness
from attcr.scenes.clouds.masks import CLEAR, THICK, THIN


def test_brightness_finds_white_and_leaves_colour_and_dark() -> None:
    cloud, haze, field, roof = (0.9, 0.9, 0.92), (0.5, 0.5, 0.55), (0.2, 0.4, 0.15), (0.9, 0.3, 0.2)
    picture = np.array([cloud, haze, field, roof], np.float32).T.reshape(3, 1, 4)
    assert classes_of_brightness(picture)[0].tolist() == [THICK, THIN, CLEAR, CLEAR]
