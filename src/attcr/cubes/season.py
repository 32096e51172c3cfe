"""One image of a season from all its dates: levelled to each other, then one value for each pixel. Arrays only.

All dates are given the tones of their median, by the local fits of `references.harmonise`. These are fitted once on a
coarse image of the whole place, so that no edge of a block shows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attcr.references.check import MUCH_CLEAR, SOME_CLEAR, Evidence
from attcr.references.harmonise import METHODS, Cells, Float32, Float64, Harmoniser

Bool = NDArray[np.bool_]
Ints = NDArray[np.intp]

ROUNDS = 2
"""Times that the median is taken and every date fitted to it."""
FEWEST = 2
"""Dates of a pixel below which it says nothing of how one differs from the others."""
TOGETHER = 1 << 14
"""Pixels that are merged at a time."""
STEPS, CLOSE = 60, 1e-5
"""Steps towards a geometric median at most, and reflectance below which one is the last."""
FAR = 50
"""Pixels from cloud beyond which a pixel is as good as any."""
PREFER = 0.02
"""How much the mean distance of a whole date counts beside that of its pixel: it decides between two dates."""


@dataclass(frozen=True)
class Levels:
    """What gives each date the tones of the season."""

    ways: tuple[Harmoniser, ...]
    spread: Float32
    """(T,): mean distance of each date, as it came, from the season's median, in reflectance."""
    step: int
    """Pixels of the image along one of those that it was fitted on."""

    def __call__(self, at: int, values: Float32, rows: Ints, cols: Ints) -> Float32:
        """Give values (C, n) of a date, at these rows and columns of the whole image, in the season's tones."""
        down, across = ((one + 0.5) / self.step - 0.5 for one in (rows, cols))
        return self.ways[at](values, down, across)


def level(values: Float32, step: int = 1) -> Levels:
    """Fit all dates (T, C, h, w), NaN where nothing is seen, to their median."""
    seen: Bool = np.asarray(np.isfinite(values).all(axis=1))
    count, bands, *shape = values.shape
    cells = Cells.over(shape[0], shape[1])
    often = seen.sum(axis=0) >= FEWEST
    ways: dict[int, Harmoniser] = {}
    levelled, spread = values.copy(), np.full(count, np.nan, np.float32)
    rows, cols = np.indices(shape).reshape(2, -1)
    for _ in range(ROUNDS):
        target = _median(levelled)
        for at, one in enumerate(values):
            both = seen[at] & often
            evidence = Evidence(cells, bands)
            evidence.add(0, np.nan_to_num(one), np.nan_to_num(target), both, ~both)
            enough = evidence.common
            name = "copied" if enough < SOME_CLEAR else "line" if enough < MUCH_CLEAR else "local"
            ways[at] = METHODS[name](evidence.seen())
            levelled[at] = ways[at](one.reshape(bands, -1), rows, cols).reshape(one.shape)
            if both.any():
                spread[at] = np.abs(one - target)[:, both].mean()
    known = spread[np.isfinite(spread)]
    usual = known.max() if len(known) else np.float32(0)
    return Levels(tuple(ways.values()), np.where(np.isfinite(spread), spread, usual).astype(np.float32), step)


def _median(values: Float32) -> Float32:
    """Give the median over the first axis, of what is not NaN; NaN where all is."""
    ordered = np.sort(values, axis=0)
    last = np.maximum(np.isfinite(values).sum(axis=0, keepdims=True) - 1, 0)
    low, high = (np.take_along_axis(ordered, at, axis=0)[0] for at in (last // 2, (last + 1) // 2))
    middle: Float32 = (low + high) / 2
    return middle


class Shown(NamedTuple):
    """What all dates show of some pixels."""

    came: Float32
    """(T, C, n): as it was seen."""
    values: Float32
    """(T, C, n): in the season's tones."""
    seen: Bool
    """(T, n)."""
    inside: Float32
    """(T, n): how far a pixel is from cloud, 0 to 1."""
    spread: Float32
    """(T,)."""


class Merged(NamedTuple):
    """One image of a season."""

    values: Float32
    """(C, n); NaN where no date shows the ground."""
    days: Float32
    """(n,): day of the date that a pixel is from; for the geometric median the mean, by weight."""
    dates: Ints
    """(n,): how many dates show the ground."""
    error: Float32
    """(n,): mean distance to the other dates as they came, over the bands."""


def merge(shown: Shown, days: Float64, method: str) -> Merged:
    """Give one value for each pixel."""
    weights = METHOD[method](shown)
    known = shown.seen.any(axis=0)
    weights /= np.where(known, weights.sum(axis=0), 1)
    values = np.einsum("tn,tcn->cn", weights, np.where(shown.seen[:, None], shown.values, 0))
    apart = np.abs(shown.came - values).mean(axis=1)
    others = shown.seen & (weights < 1)
    usual = weights.T @ shown.spread  # one more, so that a pixel which was seen once has an error too
    error = (np.where(others, apart, 0).sum(axis=0) + usual) / (others.sum(axis=0) + 1)
    return Merged(
        np.where(known, values, np.nan).astype(np.float32),
        np.where(known, weights.T @ days, np.nan).astype(np.float32),
        shown.seen.sum(axis=0),
        np.where(known, error, np.nan).astype(np.float32),
    )


def medoid(shown: Shown) -> Float32:
    """Choose the date of which the sum of distances to all others is least."""
    far = np.zeros(shown.seen.shape, np.float32)
    for one in range(len(far)):
        for other in range(one):
            off = shown.values[one] - shown.values[other]
            apart = np.where(shown.seen[one] & shown.seen[other], np.sqrt(np.einsum("cn,cn->n", off, off)), 0)
            far[one] += apart
            far[other] += apart
    far /= np.maximum(shown.seen.sum(axis=0), 1)
    whole = shown.spread * np.sqrt(shown.values.shape[1])
    return _one(shown.seen, -far - np.float32(PREFER) * whole[:, None])


def best(shown: Shown) -> Float32:
    """Choose the date that is most like the season as a whole, far from its clouds."""
    return _one(shown.seen, shown.inside / np.maximum(shown.spread, 1e-6)[:, None])


def geomedian(shown: Shown) -> Float32:
    """Weigh the dates so that the sum of distances to all of them is least (Weiszfeld)."""
    weights = shown.seen.astype(np.float32)
    values = np.where(shown.seen[:, None], shown.values, 0)
    before = np.inf
    for _ in range(STEPS):
        middle = np.einsum("tn,tcn->cn", weights, values) / np.maximum(weights.sum(axis=0), 1e-20)
        if np.abs(middle - before).max(initial=0) < CLOSE:
            break
        before = middle
        apart = np.sqrt(((values - middle) ** 2).sum(axis=1))
        weights = np.where(shown.seen, 1 / np.maximum(apart, CLOSE), 0).astype(np.float32)
    return weights


def _one(seen: Bool, score: NDArray[Any]) -> Float32:
    """Give all weight to the date of the highest score."""
    at = np.where(seen, score, -np.inf).argmax(axis=0)
    weights: Float32 = (seen & (np.arange(len(seen))[:, None] == at)).astype(np.float32)
    return weights


METHOD: dict[str, Callable[[Shown], Float32]] = {"medoid": medoid, "geomedian": geomedian, "best": best}
"""How one value is made of all."""
