"""Find what a mask missed beside a gap, the fringe of a cloud and its shadow, with the help of another date.

A clear pixel that is far brighter or far darker than on another date may have changed. Where it touches a gap, it is
more likely under the same cloud. So gaps grow into such pixels, up to a limit. Thin cloud that gaps mostly surround
becomes gap as well, so that no restored islands are left inside filled ground.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attcr.extras import needed
from attcr.references.cells import Array, Float32
from attcr.references.check import SOME, Checked, cells_to_gap
from attcr.references.evidence import Evidence
from attcr.references.harmonise import Harmoniser, Seen, copied, regression

FARTHEST = 48
"""The most pixels by which a gap grows."""
NEAR_CELLS = 3
"""Cells around gaps that tones are not learnt from: what the mask missed lies there."""
TIMES, LEAST = 3.0, 0.02
"""A difference is suspicious beyond so many expected errors, and beyond this reflectance."""
COPIED_ERROR = 0.02
"""The expected error of a reference that is taken as it is."""
AROUND = 97
"""Pixels along the square around a pixel under thin cloud that decides whether gaps surround it."""
SOFT = 1.5
"""Standard deviation, in pixels, of the neighbourhood over which a difference is averaged."""
GREY = 0.6
"""The least that a cloud adds in the blue, relative to the red; bare soil is brighter in the red."""
SHADE = 0.85
"""The largest part of the near infrared that is left in a shadow."""


@dataclass(frozen=True)
class Colours:
    """Where blue, red and near infrared are among the bands."""

    blue: int
    red: int
    infrared: int


class Suspected(NamedTuple):
    """Pixels (h, W) that differ too much from the reference."""

    hazy: NDArray[np.bool_]
    dark: NDArray[np.bool_]


@dataclass(frozen=True)
class Suspicion:
    """A reference in the target's tones, learnt on ground far from gaps, and what differs from it too much."""

    harmonise: Harmoniser
    most: float
    """Difference in reflectance from which a pixel is suspicious."""
    colours: Colours

    @classmethod
    def of(cls, evidence: Evidence, checked: Checked, colours: Colours) -> Suspicion:
        """Learn the tones on clear cells away from gaps; where there are too few, take the reference as it is."""
        near = cells_to_gap(evidence) <= NEAR_CELLS
        far = evidence.sums[0][~near].sum() / (evidence.cells.height * evidence.cells.width)
        if far < SOME or "regression" not in checked.errors:
            seen = Seen.of(evidence)
            return cls(copied(seen), max(TIMES * COPIED_ERROR, LEAST), colours)
        most = max(TIMES * checked.errors["regression"], LEAST)
        return cls(regression(Seen.of(evidence, near)), most, colours)

    def __call__(self, target: Float32, reference: Float32, known: NDArray[np.bool_], top: int) -> Suspected:
        """Say which of the known pixels (h, W) are under haze or in shadow, by comparing both dates (C, h, W)."""
        rows, cols = np.nonzero(known)
        chosen = [self.colours.blue, self.colours.red, self.colours.infrared]
        fitted = self.harmonise(reference[:, rows, cols], rows + top, cols)[chosen]
        change = np.zeros((len(chosen), *known.shape), np.float32)
        change[:, rows, cols] = target[chosen][:, rows, cols] - fitted
        ground = np.zeros(known.shape, np.float32)
        ground[rows, cols] = fitted[-1]
        share = _around(known) + 1e-6
        blue, red, infrared = (_around(plane) / share for plane in change)
        meant = _around(ground) / share
        hazy = (blue > self.most) & (blue > GREY * red) & (infrared > -self.most)
        dark = (infrared < -self.most) & (meant + infrared < SHADE * meant) & (red < self.most) & (blue < self.most)
        return Suspected(known & hazy, known & dark)


def grow(
    gap: NDArray[np.bool_], suspicious: NDArray[np.bool_], through: NDArray[np.bool_] | None = None
) -> NDArray[np.bool_]:
    """Give the suspicious pixels that a gap reaches in FARTHEST steps through such ones, or through others."""
    with needed():
        from scipy.ndimage import binary_dilation
    if not (gap.any() and suspicious.any()):
        return np.zeros_like(gap)
    way = gap | suspicious if through is None else gap | suspicious | through
    reached: NDArray[np.bool_] = binary_dilation(gap, iterations=FARTHEST, mask=way)
    return reached & suspicious & ~gap


def enclosed(gap: NDArray[np.bool_], thin: NDArray[np.bool_], valid: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Give the thin pixels around which gap is no less than clear ground, and at least a quarter of what is valid."""
    if not (gap.any() and thin.any()):
        return np.zeros_like(thin)
    gaps, known = _count_around(gap & valid), _count_around(valid)
    clear = _count_around(valid & ~gap & ~thin)
    return thin & (gaps >= clear) & (4 * gaps >= known)


def _count_around(plane: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Count the pixels that are set in the square of AROUND pixels around each, as far as the image goes."""
    counts = plane.astype(np.int64)
    for axis in (0, 1):
        size, half = counts.shape[axis], AROUND // 2
        sums = np.concatenate([np.zeros_like(counts.take([0], axis)), counts.cumsum(axis)], axis)
        at = np.arange(size)
        counts = sums.take(np.minimum(at + half + 1, size), axis) - sums.take(np.maximum(at - half, 0), axis)
    return counts


def _around(plane: Array) -> Float32:
    with needed():
        from scipy.ndimage import gaussian_filter
    smoothed: Float32 = gaussian_filter(plane.astype(np.float32), SOFT, mode="constant", truncate=3.0)
    return smoothed


MARGIN = FARTHEST + AROUND // 2 + int(3.0 * SOFT + 0.5) + 1
"""Rows that are needed above and below, so that the result does not depend on where blocks end."""
