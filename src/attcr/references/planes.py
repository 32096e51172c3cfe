"""What a network that corrects harmonised references sees of a gap, and what its numbers mean.

All numbers are relative to the pair itself: bands to their mean and spread in the image, errors to the mean error where
both dates are clear. So the network cannot memorise a place, its tones or its season, and its output is relative to
the error that harmonising left.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attcr.bands.sensors import S2_L1C_BANDS
from attcr.references.cells import Float32

BANDS = len(S2_L1C_BANDS)
PLANES = 4 * BANDS + 3
"""Harmonised, reference, error where it is known, presence; then clear, to fill, and how good the fit is."""
LEAST_ERROR = 1e-3
FARTHEST = 4.0
"""Numbers are clipped at so many spreads or mean errors."""


@dataclass(frozen=True)
class View:
    """The planes of one image, and the unit of each band's error."""

    planes: Float32
    """(PLANES, H, W)."""
    unit: Float32
    """(C, 1, 1): mean absolute error of the harmonised reference where both dates are clear, in reflectance."""

    def corrected(self, out: Float32, harmonised: Float32, bands: tuple[int, ...]) -> Float32:
        """Give the harmonised reference with what the network adds to it; `out` is (2 BANDS, H, W)."""
        better: Float32 = harmonised + out[list(bands)] * self.unit
        return better

    def expected(self, out: Float32, bands: tuple[int, ...]) -> Float32:
        """Give the expected absolute error (C, H, W) in reflectance."""
        scale: Float32 = np.exp(out[[BANDS + band for band in bands]].clip(-5, 3)) * self.unit
        return scale


def see(
    target: Float32,
    harmonised: Float32,
    reference: Float32,
    clear: NDArray[np.bool_],
    gap: NDArray[np.bool_],
    bands: tuple[int, ...],
) -> View:
    """Give what the network sees of images (C, H, W), clear in both dates or only in the reference (H, W).

    What the target shows elsewhere has no effect.
    """
    known = clear | gap
    error = np.where(clear, target - harmonised, 0)
    unit = np.maximum(np.abs(error).sum(axis=(1, 2), keepdims=True) / max(clear.sum(), 1), LEAST_ERROR)
    planes = np.zeros((PLANES, *clear.shape), np.float32)
    at = np.array(bands)
    spread = np.ones_like(unit)
    for first, image in ((0, harmonised), (BANDS, reference)):
        mean = image[:, known].mean(axis=1)[:, None, None]
        spread = np.abs(image[:, known] - mean[:, 0]).mean(axis=1)[:, None, None] + LEAST_ERROR
        planes[first + at] = np.where(known, (image - mean) / spread, 0).clip(-FARTHEST, FARTHEST)
        if not first:
            good = float(np.log(unit / spread).mean())
    planes[2 * BANDS + at] = (error / unit).clip(-FARTHEST, FARTHEST)
    planes[3 * BANDS + at] = 1
    planes[-3:] = clear, gap, np.full(clear.shape, good)
    return View(planes, unit.astype(np.float32))
