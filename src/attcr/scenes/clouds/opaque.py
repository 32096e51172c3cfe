"""Cloud that nothing of the ground shows through, by what is in the image."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from attcr.scenes.clouds.masks import CLEAR, CLOUD, THICK, THIN, Classes
from attcr.sensors import Sensor

WHITE = 0.35
"""Reflectance in red, green and blue from which cloud is opaque: on SEN12MS-CR's pairs, what is fine in the cloudy
image has a correlation of 0.1 with the ground just below it, and none above."""
PICTURE_WHITE = 0.95
"""The same in a picture, whose 1 is about this bright."""
GREY = 0.8
"""The darkest of the three over the brightest from which a pixel is grey: bright sand is below."""


def is_opaque(values: NDArray[Any], sensor: Sensor) -> NDArray[np.bool_]:
    """Say where red, green and blue (3, H, W), as a product has them, are white: under a cloud nothing is seen there.

    Said of cloud only: snow and salt are as white.
    """
    seen = sensor.to_reflectance(values)
    darkest, brightest = seen.min(axis=0), seen.max(axis=0)
    white = PICTURE_WHITE if sensor.picture else WHITE
    opaque: NDArray[np.bool_] = (darkest >= white) & (darkest >= GREY * brightest)
    return opaque


def settle(classes: Classes, opaque: NDArray[np.bool_] | None, *, untold: int = THIN) -> Classes:
    """Give the classes with thick wherever cloud is opaque, and thin where a mask did not tell and it is not.

    Where the image does not tell either (None), cloud of a mask that does not tell becomes `untold`.
    """
    if opaque is None:
        return np.where(classes == CLOUD, untold, classes).astype(np.uint8)
    plain = np.where(classes == CLOUD, THIN, classes)
    return np.where((classes > CLEAR) & opaque, THICK, plain).astype(np.uint8)
