"""The filling of a block: the ground of every date from what that date and all the others saw. Arrays only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attcr.evidence.pyramid import Float32
from attcr.restore.walk import CLOUD_LEFT, FROM_DATE, NODATA, ORIGINAL
from attcr.scenes.clouds.masks import CLEAR, Classes

Float64 = NDArray[np.float64]

MARGIN = 64
"""Pixels around a block that decide what comes out in it."""


@dataclass(frozen=True)
class Dates:
    """All dates of a block, its margin with it."""

    values: Float32
    """Reflectance (T, C, h, w); NaN where there is no data."""
    classes: Classes
    """(T, h, w): 0 clear, 1 thin or shadow, 2 thick, with the bit `DARK` where it is shadow."""
    days: Float64
    """(T,): days since the first."""
    names: tuple[str, ...]
    """The bands' common names."""

    @property
    def seen(self) -> NDArray[np.bool_]:
        """Where each date shows the ground (T, h, w)."""
        seen: NDArray[np.bool_] = np.isfinite(self.values).all(axis=1) & (self.classes == CLEAR)
        return seen


class Filled(NamedTuple):
    """The asked dates (t), filled."""

    values: Float32
    """(t, C, h, w): to the bit what came where quality is ORIGINAL; NaN where nothing is known."""
    quality: NDArray[np.uint8]
    """(t, h, w): the classes of `restore.walk`."""
    source: NDArray[np.int16]
    """(t, h, w): which date counts most; the own one where it was seen, -1 where nothing is known."""
    days: Float32
    """(t, h, w): weighted mean of the days of what a pixel is from, from this date on; 0 where it was seen."""
    error: Float32
    """(t, h, w): expected absolute error, mean over the bands; 0 where it was seen, NaN where nothing is known."""


def fill(dates: Dates, wanted: Sequence[int] | None = None) -> Filled:
    """Give the ground of these dates, by default of all; each pixel from dates that saw it."""
    every = range(len(dates.days)) if wanted is None else wanted
    return Filled(*(np.stack(parts) for parts in zip(*(_fill(dates, at) for at in every), strict=True)))


def _fill(dates: Dates, at: int) -> Filled:
    seen = dates.seen
    order = np.argsort(np.abs(dates.days - dates.days[at]), kind="stable")
    source = np.where(seen.any(axis=0), order[seen[order].argmax(axis=0)], -1).astype(np.int16)
    known, own = source >= 0, seen[at]
    values = np.take_along_axis(dates.values, np.maximum(source, 0)[None, None].astype(np.intp), axis=0)[0]
    values = np.where(known, values, np.float32(np.nan))
    days = np.where(known, (dates.days - dates.days[at])[source], 0).astype(np.float32)
    apart = [np.abs(dates.values[one] - dates.values[at]).mean(axis=0)[seen[one] & own] for one in range(len(seen))]
    errors = np.array([one.mean() if one.size else np.nan for one in apart], np.float32)
    error = np.where(known, errors[source], np.float32(np.nan))
    left = np.where(np.isfinite(dates.values[at]).all(axis=0), CLOUD_LEFT, NODATA)
    quality = np.where(own, ORIGINAL, np.where(known, FROM_DATE, left)).astype(np.uint8)
    return Filled(values, quality, source, days, np.where(own, np.float32(0), error))
