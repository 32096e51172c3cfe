"""Clouds by brightness: a rule on red, green and blue that needs no product and no model."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from attcr.scenes.clouds.masks import CLEAR, CLOUD, Classes


def classes_of_brightness(picture: NDArray[np.float32]) -> Classes:
    """Guess the clouds of an RGB picture (3, H, W) in 0..1: what is bright and has little colour.

    Thick cloud, haze and cirrus over dark ground are found. Snow, sand, roofs and surf are taken for cloud,
    and thin haze over bright ground is missed: where a product brings its own mask, use that one.
    """
    brightness = picture.mean(axis=0)
    colour = picture.max(axis=0) - picture.min(axis=0)
    white = colour < 0.15 + 0.1 * brightness
    return np.where(white & (brightness > 0.4), CLOUD, CLEAR).astype(np.uint8)
