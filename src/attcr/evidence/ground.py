"""The ground under veils and shadows from the statistics of the same scene: a Wiener filter across bands, by scale.

What is seen under a veil is ground and veil. Clear ground of the scene shows how ground varies between bands at each
scale (covariance G); under the veil ground and veil vary (X). Wherever X varies more than G, the rest is the veil's,
and W = G (G + V)^-1 of what is seen is the expected ground, with the error G - W G. The coarse level follows the same
rule: there the clear surroundings are interpolated, and clear ground hidden under the veil's own shape says how far
that is off. A shadow takes light away instead of adding it; the rule is the same, with statistics of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attcr.evidence.pyramid import Float32, Pyramid, expand, mean_of, reduce
from attcr.extras import need

Float64 = NDArray[np.float64]

LEVELS = 4
"""Halvings down to the coarse grid."""
STEP = 1 << LEVELS
"""Pixels of the scene in a cell of the coarse grid."""
MARGIN = 4 * STEP
"""Pixels beyond rows that decide what comes out in them."""
CELL = 512
"""Pixels a side of the cells that have statistics of their own."""
SURROUNDINGS = (16, 32, 64, 128, 256)
"""Pixels (standard deviations) over which clear ground is interpolated, the nearest that is enough."""
ENOUGH = 0.15
"""Share of clear ground, so weighted, that is enough."""
LEAST_AROUND = 0.05
"""Share of clear ground in the widest surroundings from which on all is known that they can say."""
SHRINK = 20_000
"""Pixels of its own at which a cell believes itself as much as the scene."""
FEWEST = 1000
"""Clear pixels below which a scene says nothing about its ground."""
TRIES, HIDDEN = 24, 4
"""Places that are tried for the veil's shape, and how often it hides clear ground."""
LEAST_LEFT = 0.05
"""Share of the scene that stays clear when ground is hidden."""
BY_RULE, AROUND, MOMENTS = 0.4, 0.3, 0.3
"""The coarse level is a mean of three: by the rule above, the surroundings, and what is seen with the mean and spread
of clear ground. Alone, the first is best under thin veils, the others under dense ones and in shadow."""
WEAK, STRONG = 1.1, 2.2
"""How much further from its surroundings a cover is than interpolation errs (root of mean squares): up to the first
nothing is changed, since no veil is seen; from the second on all is."""
RIDGE = 0.01
"""How much the variance of what else was seen is raised, so that what it says is not learnt by heart."""
FLOOR = 1e-4
"""The least part of the mean variance that ground has in any combination of bands: a covariance is never exact."""
ERRORS, ERRORS_IN_GAPS = 1.75, 1.4
"""Expected errors are this much larger than the formula's, which takes its statistics for exact: under a cover that
shows the ground, and under one that shows nothing. Measured on pairs of two dates, moved veils and clear places."""
WIDEST = 256
"""Pixels (standard deviation) over which a cover's strength is judged."""


class Seen(NamedTuple):
    """Rows of a scene."""

    values: Float32
    """Reflectance (C, h, W), finite everywhere; after it what else was seen of the ground without this cover, as
    another date or radar (E, h, W)."""
    clear: Float32
    """(h, W), 0..1: how surely this is clear ground; 0 where there is no data."""
    covers: Float32
    """(K, h, W), 0..1: how surely this is under each kind of cover (veil, shadow)."""
    known: Float32 | None = None
    """(h, W), 0..1: where else something was seen (`Grounds`)."""


class Expected(NamedTuple):
    """Rows of the expected ground."""

    values: Float32
    """Reflectance (C, h, W) under the cover that each pixel is under; meaningless where there is none."""
    error: Float32
    """Expected absolute error (h, W), the mean over the bands."""
    support: Float32
    """(h, W), 0..1: how much clear ground there is around to go by."""


class Told(NamedTuple):
    """The ground under what shows nothing of it, and what the others that were seen are worth there."""

    ground: Ground
    error: float
    """Expected absolute error with them, the mean under the cover; not a number where nothing could be learnt."""
    surroundings: float
    """That of the surroundings alone."""


class Tone(NamedTuple):
    """The expected ground under a kind of cover on the coarse grid."""

    values: Float32
    variance: Float32
    """Of its error, (C, h, w)."""
    strength: Float32
    """(h, w), 0..1: how much of the cover is to be taken away."""


@dataclass
class Moments:
    """Sums over pixels by cell: weights (rows, columns), values (.., n) and products (.., n, n)."""

    weight: Float64
    total: Float64
    product: Float64

    @classmethod
    def zeros(cls, rows: int, columns: int, n: int) -> Moments:
        """Give sums over nothing."""
        return cls(np.zeros((rows, columns)), np.zeros((rows, columns, n)), np.zeros((rows, columns, n, n)))

    def add(self, row: int, top: int, size: int, values: Float32, weight: Float32) -> None:
        """Add rows (n, h, w), from `top` on, to this row of cells; a cell has `size` pixels a side."""
        for column in range(self.weight.shape[1]):
            rows, columns = slice(top, top + size), slice(column * size, (column + 1) * size)
            some = weight[rows, columns] > 0
            if not some.any():
                continue
            w, x = weight[rows, columns][some], values[:, rows, columns][:, some]
            weighted = x * w
            self.weight[row, column] += w.sum(dtype=np.float64)
            self.total[row, column] += weighted.sum(axis=1, dtype=np.float64)
            self.product[row, column] += weighted @ x.T

    def first(self, bands: int) -> Moments:
        """Give the sums of the first planes alone."""
        return Moments(self.weight, self.total[..., :bands], self.product[..., :bands, :bands])

    def near(self, level: int) -> Moments:
        """Give the sums with those of the neighbours, and of the scene as far as these are few pixels."""
        parts = (self.weight, self.total, self.product)
        every = [part.sum(axis=(0, 1)) for part in parts]
        share = SHRINK / 4**level / max(float(every[0]), 1.0)
        return Moments(*(_smooth(part) + share * whole for part, whole in zip(parts, every, strict=True)))

    @property
    def mean(self) -> Float64:
        """The mean by cell."""
        return self.total / np.maximum(self.weight, 1e-9)[..., None]

    @property
    def square(self) -> Float64:
        """The mean product by cell."""
        return self.product / np.maximum(self.weight, 1e-9)[..., None, None]

    @property
    def covariance(self) -> Float64:
        """The covariance by cell."""
        return self.square - self.mean[..., :, None] * self.mean[..., None, :]

    @property
    def deviation(self) -> Float64:
        """The standard deviation by cell."""
        return np.sqrt(np.maximum(np.diagonal(self.covariance, axis1=-2, axis2=-1), 1e-8))


def _smooth(cells: Float64) -> Float64:
    """Give each cell with a half of its neighbours."""
    for axis in (0, 1):
        one = np.moveaxis(cells, axis, 0)
        out = one.copy()
        out[1:] += 0.5 * one[:-1]
        out[:-1] += 0.5 * one[1:]
        cells = np.moveaxis(out, 0, axis)
    return cells


def wiener(ground: Float64, seen: Float64) -> tuple[Float64, Float64]:
    """Give the filter G (G + V)^-1 and the variance of its error by band, from G and X = G + V (.., n, n).

    In the combinations of bands in which both are diagonal, V is what X has more than G, and never negative.
    """
    n = ground.shape[-1]
    least = FLOOR * np.trace(ground, axis1=-2, axis2=-1) / n + 1e-9
    root = np.linalg.cholesky(ground + least[..., None, None] * np.eye(n))
    inverse = np.linalg.inv(root)
    times, turn = np.linalg.eigh(inverse @ seen @ np.swapaxes(inverse, -1, -2))
    kept = 1 / np.maximum(times, 1)
    out = root @ turn
    weights = out * kept[..., None, :] @ np.swapaxes(turn, -1, -2) @ inverse
    return weights, np.sum(out**2 * (1 - kept)[..., None, :], axis=-1)


def informed(ground: Float64, seen: Float64 | None, bands: int) -> tuple[Float64, Float64]:
    """Give the filter (.., n, n + E) for the first n = `bands` planes, and the variance of its error.

    What else was seen (E) says a part of the ground by its covariance with it; the rest follows `wiener`. Without
    `seen` the cover shows nothing, and only the others say what is under it.
    """
    own = np.broadcast_to(np.eye(bands), (*ground.shape[:-2], bands, bands))
    others = ground[..., bands:, bands:]
    least = RIDGE * np.einsum("...ii->...i", others) + 1e-9
    told = ground[..., :bands, bands:] @ np.linalg.inv(others + least[..., None] * np.eye(others.shape[-1]))
    left = np.concatenate([own, -told], axis=-1)  # what the others do not say

    def rest(covariance: Float64) -> Float64:
        out: Float64 = left @ covariance @ np.swapaxes(left, -1, -2)
        return out

    if seen is None:
        return np.concatenate([0 * own, told], axis=-1), np.diagonal(rest(ground), axis1=-2, axis2=-1)
    weights, variance = wiener(rest(ground), rest(seen))
    return np.concatenate([weights, told - weights @ told], axis=-1), variance


def interpolate(total: Float32, weight: Float32) -> tuple[Float32, Float32]:
    """Fill a coarse grid from its sums (C, h, w) with weights (h, w): from the nearest surroundings that are enough.

    The second answer (h, w) is how far the widest are enough.
    """
    out = support = np.zeros(0, np.float32)
    for size in reversed(SURROUNDINGS):
        near = blurred(weight, size)
        mean = mean_of(np.stack([blurred(plane, size) for plane in total]), near)
        share = near / blurred(np.ones_like(weight), size)
        if size == SURROUNDINGS[-1]:
            out, support = mean, np.clip(share / np.float32(LEAST_AROUND), 0, 1)
        else:
            out = out + np.clip(share / np.float32(ENOUGH), 0, 1) * (mean - out)
    return out, support


def blurred(plane: Float32, size: int) -> Float32:
    """Give a plane of the coarse grid, blurred over so many pixels of the scene; nothing lies beyond."""
    blur: Float32 = need("scipy.ndimage").gaussian_filter(plane, size / STEP, mode="constant", truncate=3)
    return blur


def smoother(total: Float32, weight: Float32) -> Float32:
    """Give a coarse grid one level smoother, as a mean of what has weight."""
    height, width = weight.shape
    pad = [(0, height % 2), (0, width % 2)]
    total, weight = np.pad(total, [(0, 0), *pad]), np.pad(weight, pad)
    return expand(mean_of(reduce(total), reduce(weight)))[:, :height, :width]


@dataclass
class Survey:
    """What one pass over a scene says about its ground and its covers: of clear ground, then of each kind of cover."""

    details: list[list[Moments]]
    """By level."""
    pixels: list[Moments]
    """Whole values."""
    totals: Float32
    """Sums on the coarse grid (1 + K, C, h, w)."""
    weights: Float32
    """(1 + K, h, w)."""

    @classmethod
    def empty(cls, height: int, width: int, bands: int, kinds: int) -> Survey:
        """Give what is known of a scene of this size before it is looked at."""
        rows, columns = -(-height // CELL), -(-width // CELL)
        shape = (-(-height // STEP), -(-width // STEP))
        return cls(
            [[Moments.zeros(rows, columns, bands) for _ in range(LEVELS)] for _ in range(1 + kinds)],
            [Moments.zeros(rows, columns, bands) for _ in range(1 + kinds)],
            np.zeros((1 + kinds, bands, *shape), np.float32),
            np.zeros((1 + kinds, *shape), np.float32),
        )

    @classmethod
    def of(cls, read: Callable[[int, int], Seen], height: int, width: int, bands: int, kinds: int) -> Survey:
        """Look at a scene; `read` gives rows [top, bottom) of it."""
        survey = cls.empty(height, width, bands, kinds)
        for row, seen, above, rows in _by_cells(read, height):
            survey._add(row, seen, above, rows)
        return survey

    @classmethod
    def of_both(
        cls, read: Callable[[int, int], Seen], height: int, width: int, bands: Sequence[int], kinds: int
    ) -> list[Survey]:
        """Look once at a scene of which other images show a part: without them, and with them."""
        both = [cls.empty(height, width, number, kinds) for number in bands]
        for row, seen, above, rows in _by_cells(read, height):
            for survey, part in zip(both, _parts(seen, bands[0]), strict=True):
                survey._add(row, part, above, rows)
        return both

    def first(self, bands: int) -> Survey:
        """Give what is known of the first planes alone."""
        details = [[one.first(bands) for one in levels] for levels in self.details]
        return Survey(details, [one.first(bands) for one in self.pixels], self.totals[:, :bands], self.weights)

    def _add(self, row: int, seen: Seen, above: int, height: int) -> None:
        inner = slice(above // STEP, above // STEP + -(-height // STEP))
        rows = slice(row * CELL // STEP, row * CELL // STEP + inner.stop - inner.start)
        columns = self.weights.shape[-1]
        for number, weight in enumerate((seen.clear, *seen.covers)):
            if not weight.any():
                continue
            pyramid = Pyramid(seen.values, weight, LEVELS)
            self.totals[number][:, rows] = pyramid.coarsest[:, inner, :columns]
            self.weights[number][rows] = pyramid.weights[-1][inner, :columns]
            for level, (detail, counted) in enumerate(zip(pyramid.details, pyramid.weights, strict=False)):
                self.details[number][level].add(row, above >> level, CELL >> level, detail, counted)
            self.pixels[number].add(row, above, CELL, seen.values, weight)


def _by_cells(read: Callable[[int, int], Seen], height: int) -> Iterator[tuple[int, Seen, int, int]]:
    """Give the rows of each row of cells, as `padded` does."""
    for row, top in enumerate(range(0, height, CELL)):
        yield row, *padded(read, top, min(top + CELL, height), height)


def padded(read: Callable[[int, int], Seen], top: int, bottom: int, height: int) -> tuple[Seen, int, int]:
    """Read rows with a margin, out to whole cells of the coarse grid; say how many lie above, and how many these are.

    What lies beyond the scene has no weight.
    """
    first, last = max((top - MARGIN) // STEP * STEP, 0), min(-(-(bottom + MARGIN) // STEP) * STEP, height)
    seen = read(first, last)
    pad = [(0, -(last - first) % STEP), (0, -seen.clear.shape[1] % STEP)]
    if np.any(pad):
        values = np.pad(seen.values, [(0, 0), *pad], mode="edge")
        known = None if seen.known is None else np.pad(seen.known, pad)
        seen = Seen(values, np.pad(seen.clear, pad), np.pad(seen.covers, [(0, 0), *pad]), known)
    return seen, top - first, bottom - top


class Ground:
    """The expected ground of a scene, rows at a time."""

    def __init__(
        self,
        read: Callable[[int, int], Seen],
        height: int,
        width: int,
        bands: int,
        shows: Sequence[bool] = (True,),
        others: int = 0,
        survey: Survey | None = None,
    ) -> None:
        self._read, self.height, self.width, self.bands, self._shows = read, height, width, bands, shows
        survey = survey or Survey.of(read, height, width, bands + others, len(shows))
        self._covered, self._learnt = survey.weights[1:], True
        self.clear_pixels = float(survey.pixels[0].weight.sum())
        """How much clear ground there is."""
        clear, *covered = [
            [one.near(level).covariance for level, one in enumerate(levels)] for levels in survey.details
        ]
        self._filters = [
            [self._filter(ground, seen, shown) for ground, seen in zip(clear, levels, strict=True)]
            for levels, shown in zip(covered, shows, strict=True)
        ]
        self.surroundings, support = interpolate(survey.totals[0], survey.weights[0])
        self.support = support if self.clear_pixels >= FEWEST else np.zeros_like(support)
        """On the coarse grid: how much clear ground there is around to go by."""
        self._tones = [self._tone(survey, 1 + kind) for kind in range(len(shows))]
        self._errors = [
            self._error(tone, [variance for _, variance in filters], ERRORS if shown else ERRORS_IN_GAPS)
            for tone, filters, shown in zip(self._tones, self._filters, shows, strict=True)
        ]

    def _error(self, tone: Tone, details: Sequence[Float64], larger: float) -> Float32:
        """Give the expected error on the coarse grid: of the tone, and of the details of all levels."""
        variance = tone.variance + over_cells(np.sum(details, axis=0), tone.variance.shape[1:], CELL // STEP)
        error: Float32 = np.sqrt(variance * np.float32(larger**2 * 2 / np.pi)).mean(axis=0)
        return error

    def error_under(self, kind: int) -> float:
        """Give the mean of the expected error under a kind of cover; not a number where nothing could be learnt."""
        weight = self._covered[kind]
        return float((self._errors[kind] * weight).sum() / weight.sum()) if self._learnt else float("nan")

    def _filter(self, ground: Float64, seen: Float64, shown: bool) -> tuple[Float64, Float64]:
        return informed(ground, seen if shown else None, self.bands)

    def _tone(self, survey: Survey, kind: int) -> Tone:
        """Give the expected ground under a kind of cover on the coarse grid."""
        total, weight, around = survey.totals[kind], survey.weights[kind], self.surroundings[: self.bands]
        level = smoother(total, weight)
        offset = level - self.surroundings
        covered = weight > min(0.25, float(weight.max()) / 2)
        hidden = hidden_errors(survey.totals[0], survey.weights[0], covered) if self.support.any() else []
        if not hidden or not covered.any():
            self._learnt = False
            return Tone(around, offset[: self.bands] ** 2, np.ones_like(weight))
        errors = second_moments(hidden)
        rows, columns = survey.pixels[0].weight.shape
        seen, size = Moments.zeros(rows, columns, len(offset)), CELL // STEP
        for row in range(rows):
            seen.add(row, row * size, size, offset, np.where(covered, weight, np.float32(0)))
        told, _ = informed(errors, None, self.bands)
        around = around + np.einsum("ij,jhw->ihw", told.astype(np.float32), offset)
        finest = self._finest(survey, kind, mean_of(total, weight) - level)
        if not self._shows[kind - 1]:
            unsaid = unsaid_elsewhere(hidden, self.bands).astype(np.float32)
            return Tone(around + finest, np.broadcast_to(unsaid[:, None, None], around.shape), np.ones_like(weight))
        weights, variance = informed(errors, seen.near(LEVELS).square, self.bands)
        rule = self.surroundings[: self.bands].copy()
        add_filtered(rule, weights.astype(np.float32), offset, 0, size)
        variances = over_cells(variance, offset.shape[1:], size)
        moments = self._with_moments(survey, kind, level[: self.bands])
        tone = BY_RULE * rule + AROUND * around + MOMENTS * moments
        apart = ((rule - around) ** 2 + (moments - around) ** 2 + (rule - moments) ** 2) / 6
        tone += finest
        power = blurred((offset[: self.bands] ** 2).sum(axis=0) * weight, WIDEST)
        power /= np.maximum(blurred(weight, WIDEST), 1e-6)
        times = np.sqrt(power / max(float(np.trace(errors[: self.bands, : self.bands])), 1e-12))
        strength = np.clip((times - WEAK) / (STRONG - WEAK), 0, 1).astype(np.float32)
        return Tone(tone, variances + apart, strength)

    def _finest(self, survey: Survey, kind: int, detail: Float32) -> Float32:
        """Filter what the coarse grid shows beyond its smoother level, by the statistics of the level below."""
        ground, seen = (survey.details[number][-1].near(LEVELS).covariance for number in (0, kind))
        weights, _ = self._filter(ground, seen, self._shows[kind - 1])
        out = np.zeros_like(detail[: self.bands])
        add_filtered(out, weights.astype(np.float32), detail, 0, CELL // STEP)
        return out

    def _with_moments(self, survey: Survey, kind: int, level: Float32) -> Float32:
        """Give the level with the mean and spread of the clear ground around."""
        clear, covered = survey.pixels[0].near(0), survey.pixels[kind].near(0)
        ratio = np.clip(clear.deviation / covered.deviation, 0.5, 2)
        size, shape = CELL // STEP, level.shape[1:]
        parts = (one[..., : self.bands] for one in (ratio, clear.mean, covered.mean))
        times, mean, other = (over_cells(one, shape, size) for one in parts)
        return (level - other) * times + mean

    def rows(self, top: int, bottom: int) -> Expected:
        """Give rows [top, bottom)."""
        return self.of(top, *padded(self._read, top, bottom, self.height))

    def of(self, top: int, seen: Seen, above: int, height: int) -> Expected:
        """Give rows from `top` on, of what `padded` gives."""
        inner = np.s_[..., above : above + height, : self.width]
        share = seen.covers / np.maximum(seen.covers.sum(axis=0), np.float32(1e-6))
        values, error = np.zeros_like(seen.values[: self.bands]), np.zeros_like(seen.clear)
        first = (top - above) // STEP
        rows = slice(first, first + seen.clear.shape[0] // STEP)
        for kind, cover in enumerate(seen.covers):
            if cover.any():
                values += self._under(kind, seen.values, cover, first, share[kind])
                error += share[kind] * to_pixels(self._errors[kind][None, rows])[0]
        support = to_pixels(self.support[None, rows])[0]
        return Expected(values[inner], error[inner], support[inner])

    def _under(self, kind: int, image: Float32, cover: Float32, first: int, share: Float32) -> Float32:
        """Give the ground under a kind of cover, times its share of each pixel."""
        rows = slice(first, first + cover.shape[0] // STEP)
        tone = self._tones[kind]
        out = tone.values[:, rows]
        pyramid = Pyramid(image, cover, LEVELS)
        for level in reversed(range(LEVELS)):
            weights, _ = self._filters[kind][level]
            out = expand(out)
            add_filtered(out, weights.astype(np.float32), pyramid.details[level], first * STEP >> level, CELL >> level)
        out -= image[: self.bands]
        out *= to_pixels(tone.strength[None, rows])
        out += image[: self.bands]
        out *= share
        return out


class Grounds:
    """The expected ground of a scene of which other images show a part: with them there, and without them elsewhere."""

    def __init__(
        self, read: Callable[[int, int], Seen], height: int, width: int, bands: int, shows: Sequence[bool], others: int
    ) -> None:
        self._read, self.height, self._bands = read, height, bands
        alone, told = Survey.of_both(read, height, width, (bands, bands + others), len(shows))
        self._alone = Ground(read, height, width, bands, shows, survey=alone)
        self._told = Ground(read, height, width, bands, shows, survey=told)
        self.support = np.minimum(self._alone.support, self._told.support)
        """On the coarse grid: how much clear ground there is around to go by, at least."""

    def rows(self, top: int, bottom: int) -> Expected:
        """Give rows [top, bottom)."""
        seen, above, height = padded(self._read, top, bottom, self.height)
        alone, told = _parts(seen, self._bands)
        parts = zip(self._alone.of(top, alone, above, height), self._told.of(top, told, above, height), strict=True)
        known = _known(seen)[above : above + height, : self._alone.width]
        return Expected(*(one + known * (other - one) for one, other in parts))


def _parts(seen: Seen, bands: int) -> tuple[Seen, Seen]:
    """Give rows as they are without what else was seen, where that is not known, and with it, where it is."""
    known = _known(seen)
    alone = Seen(seen.values[:bands], seen.clear, seen.covers * (1 - known))
    return alone, Seen(seen.values, seen.clear * known, seen.covers * known)


def _known(seen: Seen) -> Float32:
    assert seen.known is not None, "what reads for Grounds says it"
    return seen.known


def over_cells(cells: Float64, shape: tuple[int, ...], size: int, begin: int = 0) -> Float32:
    """Interpolate values by cell (rows, columns, n) over pixels (n, h, w) that start at the row `begin`."""
    rows, columns = _between(cells.shape[0], shape[0], size, begin), _between(cells.shape[1], shape[1], size, 0)
    made: Float32 = np.einsum("hr,rcn,wc->nhw", rows, cells.astype(np.float32), columns, optimize=True)
    return made


def to_pixels(coarse: Float32) -> Float32:
    """Interpolate the coarse grid (n, h, w) over its pixels."""
    for _ in range(LEVELS):
        coarse = expand(coarse)
    return coarse


def add_filtered(out: Float32, weights: Float32, image: Float32, begin: int, size: int) -> None:
    """Add to `out` what each cell's filter (rows, columns, n, m) makes of pixels (m, h, w) from the row `begin` on.

    It fades from one cell's middle to the next.
    """
    rows = _between(weights.shape[0], image.shape[1], size, begin)
    columns = _between(weights.shape[1], image.shape[2], size, 0)
    for r in np.flatnonzero(rows.any(axis=0)):
        for c in np.flatnonzero(columns.any(axis=0)):
            (hs,), (ws,) = np.nonzero(rows[:, r]), np.nonzero(columns[:, c])
            h, w = slice(hs[0], hs[-1] + 1), slice(ws[0], ws[-1] + 1)
            here = image[:, h, w]
            made = (weights[r, c] @ here.reshape(len(image), -1)).reshape(-1, *here.shape[1:])
            made *= rows[h, r, None] * columns[None, w, c]
            out[:, h, w] += made


def _between(cells: int, pixels: int, size: int, begin: int) -> Float32:
    """Give how much of each cell (pixels, cells) counts for each pixel: linear between the middles of cells."""
    at = np.clip((begin + np.arange(pixels) + 0.5) / size - 0.5, 0, cells - 1)
    share: Float32 = np.maximum(0, 1 - np.abs(at[:, None] - np.arange(cells))).astype(np.float32)
    return share


def gaps_told_by(read: Callable[[int, int], Seen], height: int, width: int, bands: int, others: int) -> Told:
    """Give the ground under the one cover of a scene, that shows nothing, from its surroundings and from others."""
    survey = Survey.of(read, height, width, bands + others, 1)
    told = Ground(read, height, width, bands, (False,), others, survey=survey)
    alone = Ground(read, height, width, bands, (False,), survey=survey.first(bands))
    return Told(told, told.error_under(0), alone.error_under(0))


def unsaid_elsewhere(hidden: Sequence[Float64], bands: int) -> Float64:
    """Give the variance by band of what others do not say, where they were not asked what they say.

    What each hidden place misses is told by what was learnt at all the others; with one place, at this one.
    """
    variances = []
    for at, there in enumerate(hidden):
        rest = [one for number, one in enumerate(hidden) if number != at] or [there]
        told, _ = informed(second_moments(rest), None, bands)
        variances.append(np.mean((there[:bands] - told @ there) ** 2, axis=1))
    out: Float64 = np.mean(variances, axis=0)
    return out


def second_moments(parts: Sequence[Float64]) -> Float64:
    """Give the mean product of planes (n, n) over the pixels of all parts (n, pixels)."""
    every = np.concatenate(parts, axis=1)
    out: Float64 = every @ every.T / every.shape[1]
    return out


def hidden_errors(total: Float32, weight: Float32, covered: NDArray[np.bool_]) -> list[Float64]:
    """Give what interpolation misses (n, pixels) at each place where the cover's own shape hides clear ground.

    The same answer each time: the places are drawn from a fixed seed.
    """
    rng, errors = np.random.default_rng(0), []
    clear, level = weight > 0.5, smoother(total, weight)
    for _ in range(HIDDEN):
        hidden = _hide(covered, clear, rng)
        if hidden is None:
            continue
        keep = np.where(hidden, np.float32(0), weight)
        made, _ = interpolate(np.where(hidden, np.float32(0), total), keep)
        errors.append((level - made)[:, hidden].astype(np.float64))
    return errors


def _hide(covered: NDArray[np.bool_], clear: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.bool_] | None:
    """Move the cover's shape to where it hides most clear ground and leaves some."""
    best: NDArray[np.bool_] | None = None
    for _ in range(TRIES):
        turn = int(rng.integers(4))
        shape = covered[:: -1 if turn & 1 else 1, :: -1 if turn & 2 else 1]
        moved = np.roll(shape, [int(rng.integers(side)) for side in shape.shape], (0, 1)) & clear
        if (clear & ~moved).mean() >= LEAST_LEFT and (best is None or moved.sum() > best.sum()):
            best = moved
    return best if best is not None and best.any() else None
