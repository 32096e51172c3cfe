"""Find opaque cloud, through which nothing of the ground shows, from the image itself."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from attcr.bands.sensors import Sensor
from attcr.scenes.clouds.masks import CLEAR, CLOUD, THICK, THIN, Classes

WHITE = 0.35
"""Cloud is opaque from this reflectance in red, green and blue. On SEN12MS-CR's pairs, fine detail of the cloudy image
has a correlation of 0.1 with the ground just below this value, and none above."""
WHITE_OF_PICTURES = 0.95
"""The same for pictures, whose white is about this reflectance."""
GREY = 0.8
"""A pixel is grey if the darkest of the three over the brightest is at least this; bright sand is below."""


def is_opaque(values: NDArray[Any], sensor: Sensor) -> NDArray[np.bool_]:
    """Say where red, green and blue (3, H, W), in a product's values, are white: a cloud there hides all the ground.

    This holds for pixels that are known to be cloud: snow and salt are just as white.
    """
    seen = sensor.to_reflectance(values)
    darkest, brightest = seen.min(axis=0), seen.max(axis=0)
    white = WHITE_OF_PICTURES if sensor.picture else WHITE
    opaque: NDArray[np.bool_] = (darkest >= white) & (darkest >= GREY * brightest)
    return opaque


def settle(classes: Classes, opaque: NDArray[np.bool_] | None, *, untold: int = THIN) -> Classes:
    """Set cloud to thick wherever it is opaque, and to thin where it is not and the mask did not say which it is.

    Where the image cannot say either (None), such cloud gets the class `untold`.
    """
    if opaque is None:
        return np.where(classes == CLOUD, untold, classes).astype(np.uint8)
    plain = np.where(classes == CLOUD, THIN, classes)
    return np.where((classes > CLEAR) & opaque, THICK, plain).astype(np.uint8)
