"""Clouds by brightness: a rule on red, green and blue that needs no product and no model."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from attcr.errors import MissingExtraError
from attcr.scenes.clouds.masks import CLEAR, CLOUD, Classes

DARKEST = 0.35
"""The darkest of red, green and blue, as a part of a picture's white, from which a pixel can be cloud: haze brightens
all three, and most ground is dark in one."""
BLUE_TO_RED = 0.88
"""Blue over red from which it can be: cloud is about as bright in both, and bright soil and sand are redder."""
SMALLEST = 5
"""Pixels across what is cloud at least: roofs and roads are narrower."""


def classes_of_brightness(picture: NDArray[np.float32]) -> Classes:
    """Guess the clouds of an RGB picture (3, H, W) in 0..1: what is bright in all colours, not reddish, and not small.

    Thick cloud, haze and cirrus over dark ground are found. Snow, salt, white roofs of halls and surf are taken for
    cloud, and thin haze is missed: where a product brings its own mask, use that one.
    """
    try:
        from scipy.ndimage import maximum_filter, minimum_filter
    except ImportError as error:
        raise MissingExtraError("scipy", "scenes") from error
    red, _, blue = picture
    bright = (picture.min(axis=0) > DARKEST) & (blue > BLUE_TO_RED * red)
    cores = minimum_filter(bright.astype(np.uint8), SMALLEST, mode="reflect")  # a cloud goes on beyond the picture
    return np.where(maximum_filter(cores, SMALLEST, mode="reflect") > 0, CLOUD, CLEAR).astype(np.uint8)
