"""The filling of a block: the ground of every date from what that date and all the others saw. Arrays only.

Every date is a linear mixture of others, fitted where it shows the ground: of each band of the dates that say most
about it, as it is and as the mean around each pixel. Where a date of the mixture is under cloud itself, what was filled
there before stands in for it; so dates are filled twice, after plain means of what was seen about the same time. What
the mixture misses on clear ground goes on into the gap, from the nearest surroundings that are enough. What is
missed of dates like it, when they are hidden in the same place, is the expected error. A date that shows next to
nothing is between those about it in time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attcr.evidence.pyramid import Float32, expand, mean_of, reduce
from attcr.extras import need
from attcr.restore.walk import CLOUD_LEFT, FROM_DATE, LARGE_ERROR, LOW_CONFIDENCE, NODATA, ORIGINAL
from attcr.scenes.clouds.masks import CLEAR, Classes

Float64 = NDArray[np.float64]
Bool = NDArray[np.bool_]

MARGIN = 64
"""Pixels around a block that decide what comes out in it."""
TOGETHER = 8
"""The most dates of a mixture."""
AROUND = 5
"""Pixels along the box whose mean is a plane of its own."""
SWEEPS = 2
"""How often every date is filled."""
MOST_PIXELS = 20_000
"""About the most pixels that a mixture is fitted on."""
SOME_PIXELS = 4000
"""About as many that two dates are compared on."""
SPAN = 0.3
"""Within about which factor a number of days is like another."""
LITTLE = 0.03
"""Share of a block below which what a date shows, often the rim of its clouds, says nothing about the rest of it."""
FEWEST = 30
"""Clear pixels of a date, for each weight of a band, below which it is no mixture."""
LASTS, NOISE = 100.0, 0.003
"""Days after which ground is mostly another, and what differs between dates however near they are, in parts of that."""
SLACK = 2.5e-6
"""Variance of reflectance below which weights are mostly those of the plain mean of the dates."""
ROUNDS, SMALL_ERROR = 3, 0.004
"""Times that a mixture is fitted, each time with pixels weighed by the inverse of their error before, or of this one
where it is smaller: what changed between the dates shall not decide."""
ALIKE, SHOWN = 2, 0.3
"""How many dates are hidden to see what is missed, and the least part of gap and ground together that they show."""
CELL = 32
"""Pixels along the cells of which every other one is left out of a fit, where no date can be hidden."""
LEVELS = 6
"""Halvings over which what a mixture misses goes on into a gap."""
ENOUGH = 0.15
"""Share of clear ground that is enough to go by."""


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
    def seen(self) -> Bool:
        """Where each date shows the ground (T, h, w)."""
        seen: Bool = np.isfinite(self.values).all(axis=1) & (self.classes == CLEAR)
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
    """(t, h, w): days from this date to `source`; 0 where it was seen or nothing is known."""
    error: Float32
    """(t, h, w): expected absolute error, mean over the bands; 0 where it was seen, NaN where nothing is known."""


class _Mixture(NamedTuple):
    """A date as a mixture of others."""

    dates: list[int]
    weights: Float32
    """(C, N) of the planes of all of them."""
    offset: Float32
    """(C, 1)."""
    parts: Float64
    """(dates,): the spread of what each adds."""


def fill(dates: Dates, wanted: Sequence[int] | None = None) -> Filled:
    """Give the ground of these dates, by default of all; each pixel from dates that saw it."""
    every = range(len(dates.days)) if wanted is None else wanted
    block = _Block(dates)
    return Filled(*(np.stack(parts) for parts in zip(*(block.filled(at) for at in every), strict=True)))


class _Block:
    """The dates of a block while they are filled."""

    def __init__(self, dates: Dates) -> None:
        self.dates, self.seen = dates, dates.seen
        self.known = self.seen.any(axis=0)
        given = np.where(self.seen[:, None], dates.values, np.float32(0))
        self.apart = _apart(given, self.seen, dates.days)
        self.values = self._start(given)
        self.around = np.stack([_around(one) for one in self.values])
        self.error = np.zeros(self.seen.shape, np.float32)
        self.parts = 1 / self.apart**2
        np.fill_diagonal(self.parts, 0)
        order = np.argsort(-self.seen.mean(axis=(1, 2)), kind="stable")
        for sweep in range(SWEEPS):
            for at in order[~self.seen[order].all(axis=(1, 2))]:
                self._sweep(int(at), last=sweep == SWEEPS - 1)

    def _start(self, given: Float32) -> Float32:
        """Fill every date by the mean of what others saw, the more the less they are apart."""
        weight = (1 / self.apart**2).astype(np.float32)
        np.fill_diagonal(weight, 0)
        weight /= weight.sum(axis=1, keepdims=True)
        count, shape = len(given), given.shape[1:]
        share = (weight @ self.seen.reshape(count, -1)).reshape(count, 1, *shape[1:])
        mean = (weight @ given.reshape(count, -1)).reshape(given.shape) / np.maximum(share, np.float32(1e-20))
        return np.where(self.seen[:, None], given, mean).astype(np.float32, copy=False)

    def _sweep(self, at: int, *, last: bool) -> None:
        """Fill a date; the last time, say how far it may be off."""
        seen, here = self.seen[at], self.dates.values[at]
        chosen = self._choose(at)
        if not chosen or seen.mean() < LITTLE:
            self._between(at)
            return
        mixture = self._fit(at, chosen, seen)
        made = self._made(mixture)
        off = np.where(seen, here - made, 0)
        self.values[at] = np.where(seen, here, made + _goes_on(off, seen))
        self.around[at] = _around(self.values[at])
        self.parts[at] = 0
        self.parts[at, mixture.dates] = mixture.parts
        if last:
            self.error[at] = self._missed(at, mixture.dates, np.abs(off).sum() / seen.sum())

    def _between(self, at: int) -> None:
        """Fill a date of which nothing, or too little, is seen: from those about it in time (kriging).

        Dates change the more the longer they are apart; what shows a part only was filled itself, so it counts less.
        """
        share = self.seen.mean(axis=(1, 2))
        noise = NOISE + 1 - share
        gap = 1 - np.exp(-np.abs(self.dates.days[:, None] - self.dates.days) / LASTS)
        others = np.flatnonzero((np.arange(len(share)) != at) & (share > 0))
        near = others[np.argsort((gap[at] + noise)[others], kind="stable")[:TOGETHER]]
        if not len(near):
            return
        ones = np.ones((len(near), 1))
        among, away = gap[np.ix_(near, near)], gap[at][near]
        noisy = among - np.diag(noise[near])
        weights = np.linalg.solve(np.block([[noisy, ones], [ones.T, np.zeros((1, 1))]]), np.append(away, 1))[:-1]
        made = np.einsum("t,tchw->chw", weights.astype(np.float32), self.values[near])
        self.values[at] = np.where(self.seen[at], self.values[at], made)
        self.around[at] = _around(self.values[at])
        pairs = np.ix_([at, *near], [at, *near])
        step = (self.apart[pairs] ** 2)[gap[pairs] > 0].sum() / max(2 * gap[pairs].sum(), 1e-6)
        self.error[at] = np.sqrt(step * (2 * weights @ away - weights @ noisy @ weights + NOISE))
        self.parts[at] = 0
        self.parts[at, near] = np.maximum(weights, 0)

    def _missed(self, at: int, chosen: list[int], off: float) -> Float32:
        """Give the error to expect, by what is missed where the truth is known: as much off as this date's mixture is.

        The dates most like it are hidden where it is; where none can be, other parts of its own ground than are told.
        """
        seen, gap = self.seen[at], ~self.seen[at]
        total, count = np.zeros((2, *seen.shape), np.float32)
        shown = (self.seen & gap).mean(axis=(1, 2)) / gap.mean() * (self.seen & seen).mean(axis=(1, 2)) / seen.mean()
        for other in np.argsort(np.where(shown > SHOWN, self.apart[at], np.inf), kind="stable")[:ALIKE]:
            others = [one for one in chosen if one != other]
            if shown[other] > SHOWN and others:
                missed, least = self._tried(int(other), others, seen & self.seen[other])
                known = gap & self.seen[other]
                total += np.where(known, missed * (off / least), 0)
                count += known
        if not count.any():
            cells = np.add.outer(np.arange(seen.shape[0]) // CELL, np.arange(seen.shape[1]) // CELL) % 2
            count = (seen & (cells == 1)).astype(np.float32)
            total = np.where(count, self._tried(at, chosen, seen & (cells == 0))[0], 0)
        error: Float32 = _goes_on((total / np.maximum(count, 1))[None], count > 0)[0]
        return error

    def _tried(self, at: int, chosen: list[int], told: Bool) -> tuple[Float32, float]:
        """Give what is missed of a date that is told there, mean over bands, and how far off its mixture is there."""
        here = self.dates.values[at]
        made = self._made(self._fit(at, chosen, told))
        off = np.where(told, here - made, 0)
        missed: Float32 = np.abs(made + _goes_on(off, told) - here).mean(axis=0)
        return missed, max(float(np.abs(off).sum() / max(told.sum(), 1)), 1e-6)

    def _choose(self, at: int) -> list[int]:
        """Give the dates that say most about this one's gaps, the best first."""
        gap, bands = ~self.seen[at], self.values.shape[1]
        shown = self.seen & self.seen[at]
        worth = np.zeros(len(shown))
        for other, both in enumerate(shown):
            where = np.flatnonzero(both)
            if other != at and len(where) >= FEWEST * 2 * bands:
                x, y = (self._pixels(one, where[:: max(len(where) // SOME_PIXELS, 1)]) for one in (other, at))
                x, y = x - x.mean(axis=1, keepdims=True), y - y.mean(axis=1, keepdims=True)
                power = (x * x).sum(axis=1) * (y * y).sum(axis=1)
                alike = np.mean((x * y).sum(axis=1) ** 2 / np.maximum(power, 1e-12))
                worth[other] = alike * self.seen[other][gap].mean()
        return [int(one) for one in np.argsort(-worth, kind="stable")[:TOGETHER] if worth[one] > 0]

    def _pixels(self, at: int, where: NDArray[np.intp]) -> Float32:
        """Give a date (C, n) at some pixels, counted along the rows."""
        return np.take(self.values[at].reshape(self.values.shape[1], -1), where, axis=1)

    def _planes(self, dates: Sequence[int], where: NDArray[np.intp]) -> Float32:
        """Give the planes of some dates (N, n) at some pixels, counted along the rows."""
        parts = [one[at].reshape(len(one[at]), -1)[:, where] for at in dates for one in (self.values, self.around)]
        return np.concatenate(parts)

    def _fit(self, at: int, chosen: list[int], told: Bool) -> _Mixture:
        """Fit a date to others where it is told; robustly (`ROUNDS`)."""
        where = np.flatnonzero(told & self.seen[chosen].any(axis=0))
        where = where[:: max(len(where) // MOST_PIXELS, 1)]
        bands = self.values.shape[1]
        while len(chosen) > 1 and len(where) < FEWEST * 2 * bands * len(chosen):
            chosen = chosen[:-1]
        x = self._planes(chosen, where)
        y = self._pixels(at, where)
        plain = np.tile(np.eye(2 * bands, bands) / len(chosen), (len(chosen), 1))
        count = np.full(len(where), 1 / max(len(where), 1), np.float32)
        for _ in range(ROUNDS):
            middle, level = (x @ count)[:, None], (y @ count)[:, None]
            off = (x - middle) * np.sqrt(count)
            spread = (off @ off.T).astype(np.float64)
            common = (off @ ((y - level) * np.sqrt(count)).T).astype(np.float64)
            solved = np.linalg.solve(spread + SLACK * np.eye(len(x)), common + SLACK * plain).astype(np.float32)
            count = 1 / np.maximum(np.abs(solved.T @ (x - middle) + level - y).mean(axis=0), np.float32(SMALL_ERROR))
            count /= count.sum()
        shape = (len(chosen), 2 * bands, bands)
        weights, own = solved.reshape(shape), spread.reshape(len(chosen), 2 * bands, len(chosen), 2 * bands)
        power = [np.einsum("kc,kl,lc->", w, own[i, :, i], w) for i, w in enumerate(weights)]
        return _Mixture(chosen, solved.T, level - solved.T @ middle, np.sqrt(np.maximum(power, 1e-20)))

    def _made(self, mixture: _Mixture) -> Float32:
        """Give what a mixture makes of the block."""
        bands, *shape = self.values.shape[1:]
        made = np.broadcast_to(mixture.offset, (bands, shape[0] * shape[1])).copy()
        weights = np.split(mixture.weights, 2 * len(mixture.dates), axis=1)
        images = [one[at] for at in mixture.dates for one in (self.values, self.around)]
        for weight, image in zip(weights, images, strict=True):
            made += weight @ image.reshape(bands, -1)
        block: Float32 = made.reshape(bands, *shape)
        return block

    def filled(self, at: int) -> Filled:
        """Give a date with what is known about it."""
        own, here = self.seen[at], self.dates.values[at]
        values = np.where(own, here, np.where(self.known, self.values[at], np.float32(np.nan)))
        parts = np.where(self.seen, self.parts[at][:, None, None], 0) + 1e-9 * self.seen / self.apart[at][:, None, None]
        source = np.where(own, at, np.where(self.known, parts.argmax(axis=0), -1)).astype(np.int16)
        days = np.where(source < 0, 0, self.dates.days[source] - self.dates.days[at]).astype(np.float32)
        error = np.where(own, 0, np.where(self.known, self.error[at], np.nan)).astype(np.float32)
        left = np.where(np.isfinite(here).all(axis=0), CLOUD_LEFT, NODATA)
        filled = np.where(error > LARGE_ERROR, LOW_CONFIDENCE, FROM_DATE)
        quality = np.where(own, ORIGINAL, np.where(self.known, filled, left)).astype(np.uint8)
        return Filled(values, quality, source, days, error)


def _apart(values: Float32, seen: Bool, days: Float64) -> Float64:
    """Give how far dates are apart (T, T) in reflectance: as both show, or as others so many days apart are."""
    count = len(seen)
    measured, known = np.zeros((2, count, count))
    for one in range(count):
        for other in range(one):
            both = np.flatnonzero(seen[one] & seen[other])
            both = both[:: max(len(both) // SOME_PIXELS, 1)]
            if len(both) >= SOME_PIXELS // 10:
                x, y = (values[at].reshape(values.shape[1], -1)[:, both] for at in (one, other))
                measured[one, other] = measured[other, one] = np.abs(x - y).mean()
                known[one, other] = known[other, one] = 1
    lag = np.log1p(np.abs(days[:, None] - days))
    apart = measured.copy()
    for one in range(count):
        near = np.exp(-(((lag[one][:, None, None] - lag) / SPAN) ** 2)) * known + 1e-12
        guess = (near * np.where(known > 0, measured, 0.01 * lag)).sum(axis=(1, 2)) / near.sum(axis=(1, 2))
        apart[one] = np.where(known[one] > 0, measured[one], guess)
    least: Float64 = np.maximum(apart, 1e-4)
    return least


def _around(image: Float32) -> Float32:
    """Give the mean around each pixel."""
    mean: Float32 = need("scipy.ndimage").uniform_filter(image, (0, AROUND, AROUND), mode="nearest")
    return mean


def _goes_on(values: Float32, told: Bool) -> Float32:
    """Give what is told somewhere (C, h, w) everywhere: as a mean of the nearest surroundings that are enough."""
    height, width = told.shape
    side = 1 << LEVELS
    pad = [(0, -height % side), (0, -width % side)]
    total, weight = np.pad(values, [(0, 0), *pad]), np.pad(told, pad).astype(np.float32)
    levels = []
    for _ in range(LEVELS):
        total, weight = reduce(total), reduce(weight)
        levels.append((total, weight))
    out = np.broadcast_to((total.sum(axis=(1, 2)) / max(float(weight.sum()), 1e-6))[:, None, None], total.shape)
    for level in reversed(range(LEVELS)):
        total, weight = levels[level]
        out = expand(out + np.clip(weight / np.float32(ENOUGH), 0, 1) * (mean_of(total, weight) - out))
    return out[:, :height, :width]
