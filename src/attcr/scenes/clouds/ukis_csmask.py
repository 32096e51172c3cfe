"""Clouds and shadows by ukis-csmask: a small network of DLR for Sentinel-2 and Landsat that runs offline."""

from __future__ import annotations

import warnings
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from attcr.extras import needed
from attcr.scenes.clouds.masks import CLEAR, CLOUD, THIN, Classes

BANDS = ("blue", "green", "red", "nir", "swir16", "swir22")
"""The bands it works best with; the first four are enough."""
SMALLEST = 256


def classify(reflectance: NDArray[np.float32], bands: tuple[str, ...], level: Literal["l1c", "l2a"]) -> Classes:
    """Classify reflectance (C, H, W) with bands named as in `BANDS`."""
    with needed():
        from ukis_csmask.mask import CSmask
    _, height, width = reflectance.shape
    missing = (max(SMALLEST - height, 0), max(SMALLEST - width, 0))
    padded = np.pad(np.nan_to_num(reflectance), ((0, 0), (0, missing[0]), (0, missing[1])), mode="symmetric")
    image = np.ascontiguousarray(padded.transpose(1, 2, 0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = CSmask(image, list(bands), product_level=level).csm
    classes: Classes = np.array([CLEAR, CLOUD, THIN], np.uint8)[found[:height, :width, 0]]
    return classes
