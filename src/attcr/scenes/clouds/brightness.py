"""Clouds by brightness: a rule on red, green and blue that needs no product and no model."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from attcr.extras import needed
from attcr.scenes.clouds.masks import CLEAR, CLOUD, Classes

DARKEST = 0.35
"""A pixel can be cloud if the darkest of its red, green and blue is at least this part of white: haze brightens all
three, and most ground is dark in one of them."""
BLUE_TO_RED = 0.88
"""It can be cloud if blue over red is at least this: cloud is equally bright in both, and bright soil is redder."""
SMALLEST = 5
"""The least width of a cloud in pixels: roofs and roads are narrower."""


def classes_of_brightness(picture: NDArray[np.float32]) -> Classes:
    """Guess the clouds of an RGB picture (3, H, W) in 0..1: what is bright in all colours, not reddish, and not small.

    It finds thick cloud, haze, and cirrus over dark ground. It mistakes snow, salt, large white roofs and surf for
    cloud, and misses thin haze: where a product comes with its own mask, use that mask.
    """
    with needed():
        from scipy.ndimage import maximum_filter, minimum_filter
    red, _, blue = picture
    bright = (picture.min(axis=0) > DARKEST) & (blue > BLUE_TO_RED * red)
    cores = minimum_filter(bright.astype(np.uint8), SMALLEST, mode="reflect")  # a cloud goes on beyond the picture
    return np.where(maximum_filter(cores, SMALLEST, mode="reflect") > 0, CLOUD, CLEAR).astype(np.uint8)
