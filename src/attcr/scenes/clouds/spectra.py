"""How a pixel differs from the clear ground of its scene: a witness of veils and shadows that needs no training.

The clear ground around says what colour is expected, and its spread what colours ground has there. A matched filter
looks for the colours of cloud, or of lost sunlight, in what is left, and gives their amount in standard deviations of
clear ground.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attcr.extras import need

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]

VEIL = {
    "coastal": 0.92, "blue": 0.97, "green": 0.94, "red": 1.09, "rededge1": 1.0, "rededge2": 0.84, "rededge3": 0.85,
    "nir": 0.76, "nir08": 0.85, "swir16": 0.95, "swir22": 0.82,
}  # fmt: skip
"""Band to what thin cloud adds to it, beside the mean of the visible ones: medians of the veils of six real pairs."""
SHADE = {
    "coastal": 0.35, "blue": 0.5, "green": 0.72, "red": 0.84, "rededge1": 0.9, "rededge2": 0.93, "rededge3": 0.96,
    "nir": 1.0, "nir08": 1.0, "swir16": 1.2, "swir22": 1.25,
}  # fmt: skip
"""Band to the share of the ground's light that shadow takes, beside that of the near infrared: skylight is blue.
Medians of the shadows of fourteen real pairs, none of them one that the rules were developed on."""
FEWEST_BANDS = 4
CELL = 4
"""Side, in the pixels that are given, of a cell of the survey."""
AROUND = 16.0
"""Cells (standard deviation) over which clear ground is around a pixel: smaller, and it hides what no witness sees."""
SMOOTH, NEAR = 1.5, 8
"""Pixels (standard deviation) over which an amount is a mean, and how far away a pixel counts at most: whole cells."""
LEAST_CLEAR = 0.01
"""The share of the ground around that must be clear."""
SAMPLES, FEWEST_SAMPLES = 200_000, 20
"""How many clear pixels tell how ground varies; at least so many for each band."""
ROUNDS, OUTLIERS = 3, 0.02
"""How often, and how many, of the most unusual pixels are left out."""
NOISE = 0.002
"""Reflectance (standard deviation) by which bands differ at least."""


class ClearGround(NamedTuple):
    """What clear ground looks like in a scene."""

    around: Float32
    """The mean of the clear ground around each cell (C, rows, columns); not a number where there is hardly any."""
    filters: tuple[Float32, Float32]
    """What finds veils, and shadow, by cell (C, rows, columns): the product with what a pixel has beyond the ground
    around is the amount."""

    def amounts(self, values: Float32, top: int) -> tuple[Float32, Float32]:
        """Give the amounts of veil and shadow (h, w) in values (C, h, w) from row `top` on, in standard deviations.

        They are means over a few pixels, since both are wider than what is bright or dark in clear ground.
        """
        rows, columns = (np.arange(size) // CELL for size in values.shape[1:])
        at = np.s_[:, (rows + top // CELL)[:, None], columns[None]]
        beyond = values - self.around[at]
        veil, shade = ((one[at] * beyond).sum(axis=0) for one in self.filters)
        return _mean_near(veil), _mean_near(shade)


class Survey:
    """Takes the clear ground of a scene, block by block; each begins at a multiple of CELL rows."""

    def __init__(self, bands: list[str], height: int, width: int) -> None:
        self.bands = bands
        cells = -(-height // CELL), -(-width // CELL)
        self._sums, self._counts = np.zeros((len(bands), *cells), np.float32), np.zeros(cells, np.float32)
        self._every = max(int(np.ceil(np.sqrt(height * width / SAMPLES))), 1)
        self._samples: list[Float32] = []
        self._at: list[NDArray[np.intp]] = []

    def add(self, values: Float32, clear: NDArray[np.bool_], top: int) -> None:
        """Take the values (C, h, w) from row `top` on that are clear (h, w)."""
        first, rows = top // CELL, -(-clear.shape[0] // CELL)
        self._sums[:, first : first + rows] = _per_cell(np.where(clear, values, 0))
        self._counts[first : first + rows] = _per_cell(clear[None])[0]
        some = np.zeros_like(clear)
        some[-top % self._every :: self._every, :: self._every] = True
        row, column = np.nonzero(clear & some)
        self._samples.append(values[:, row, column])
        self._at.append(np.stack([row // CELL + first, column // CELL]))

    def ground(self) -> ClearGround | None:
        """Give the clear ground; None where there is too little."""
        if not self._samples:
            return None
        blur = need("scipy.ndimage").gaussian_filter
        count = blur(self._counts, AROUND, mode="constant")
        around = np.stack([blur(one, AROUND, mode="constant") for one in self._sums]) / np.maximum(count, 1e-6)
        most = blur(np.full_like(self._counts, CELL**2), AROUND, mode="constant")
        around[:, count < LEAST_CLEAR * most] = np.nan
        at = np.concatenate(self._at, axis=1)
        beyond = (np.concatenate(self._samples, axis=1) - around[:, at[0], at[1]]).astype(np.float64)
        beyond = beyond[:, np.isfinite(beyond).all(axis=0)]
        if beyond.shape[1] < FEWEST_SAMPLES * len(self.bands):
            return None
        inverse = spread_of(beyond)
        veil, shade = (np.array([one[band] for band in self.bands])[:, None, None] for one in (VEIL, SHADE))
        veils = np.broadcast_to(matched_filter(inverse, veil), around.shape)
        return ClearGround(around.astype(np.float32), (veils, matched_filter(inverse, -shade * around)))


def bytes_of_survey(bands: int, height: int, width: int) -> int:
    """Give the most that a survey of so many pixels takes."""
    return 4 * bands * (6 * (height // CELL + 1) * (width // CELL + 1) + 4 * min(SAMPLES, height * width))


def spread_of(beyond: Float64) -> Float64:
    """Give the inverse covariance (C, C) of what ground (C, n) has beyond the ground around.

    By it that ground has a standard deviation of 1 in each direction, but for the most unusual of its pixels.
    """
    kept = beyond
    for last in range(ROUNDS - 1, -1, -1):
        inverse: Float64 = np.linalg.inv(kept @ kept.T / kept.shape[1] + NOISE**2 * np.eye(len(beyond)))
        if last:
            far = np.einsum("in,ij,jn->n", beyond, inverse, beyond)
            kept = beyond[:, far <= np.quantile(far, 1 - OUTLIERS)]
    return inverse


def matched_filter(inverse: Float64, colours: Float64) -> Float32:
    """Give the filters (C, h, w) that find colours (C, h, w) in ground with this inverse covariance."""
    weights = np.einsum("ij,jhw->ihw", inverse, colours)
    found: Float32 = (weights / np.sqrt((weights * colours).sum(axis=0))).astype(np.float32)
    return found


def _mean_near(amount: Float32) -> Float32:
    """Give the mean over the pixels near each; not a number where the pixel itself is none."""
    told, blur = np.isfinite(amount), need("scipy.ndimage").gaussian_filter
    mean = blur(np.where(told, amount, 0), SMOOTH) / np.maximum(blur(told.astype(np.float32), SMOOTH), 1e-6)
    return np.where(told, mean, np.nan).astype(np.float32)


def _per_cell(values: NDArray[Any]) -> Float32:
    """Sum (C, h, w) over cells; beyond the edge there is nothing."""
    bands, height, width = values.shape
    padded = np.pad(values, [(0, 0), (0, -height % CELL), (0, -width % CELL)])
    shape = (bands, padded.shape[1] // CELL, CELL, padded.shape[2] // CELL, CELL)
    sums: Float32 = padded.reshape(shape).sum(axis=(2, 4), dtype=np.float32)
    return sums
