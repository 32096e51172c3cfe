"""Clouds by s2cloudless: Sentinel Hub's classifier of single Sentinel-2 L1C pixels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from attcr.extras import needed
from attcr.scenes.clouds.masks import CLEAR, CLOUD, Classes

BANDS = ("B01", "B02", "B04", "B05", "B08", "B8A", "B09", "B10", "B11", "B12")
"""The bands it needs, in its order."""
LIKELY = 0.4
"""Probability from which a pixel is cloud: the package's own threshold. It does not say how thick the cloud is."""


def classify(reflectance: NDArray[np.float32]) -> Classes:
    """Classify top-of-atmosphere reflectance (10, H, W) in the order of `BANDS`."""
    with needed():
        from s2cloudless.cloud_detector import S2PixelCloudDetector
    detector = S2PixelCloudDetector(threshold=LIKELY, average_over=4, dilation_size=2)
    pixels = np.nan_to_num(reflectance).transpose(1, 2, 0)[None]
    probability = detector.get_cloud_probability_maps(np.ascontiguousarray(pixels))
    likely = detector.get_mask_from_prob(probability)[0] > 0
    return np.where(likely, CLOUD, CLEAR).astype(np.uint8)
