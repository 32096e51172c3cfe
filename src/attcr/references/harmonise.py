"""Harmonise: give a reference the tones of the target, fitted where both are clear.

Each method takes what both show there and gives a function of pixels. It takes the reference's values (C, N) with their
rows and columns, and gives the values (C, N) that the target would show. All values are reflectance. What is local is
fitted on a coarse grid of cells. They lie on absolute rows and columns, so that the result does not depend on how many
rows come at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attcr.extras import need

Array = NDArray[Any]
Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]

Harmoniser = Callable[[Float32, Array, Array], Float32]
"""Values (C, N), their rows and columns -> values (C, N)."""

SMALLEST_CELL = 16
MOST_CELLS = 1 << 17
"""The most cells of a grid; a larger image gets larger cells."""
NEAR = 0.7
"""Standard deviation, in cells, of the nearest neighbourhood that a cell is smoothed over."""
FADE = 0.05
"""Weight of the next larger neighbourhood, relative to the one before: far pixels count where near ones are missing."""
KINDS_OF_GROUND = 8
"""Number of kinds of ground, which differ by their reflectance in the reference."""
FEWEST = 200
"""The fewest pixels of a kind of ground for its own fit."""
SLACK = 1e-5
"""Variance of reflectance below which a local slope is mostly the slope of the whole image."""
SORTED = 8_000
"""About how many pixels the kinds of ground are found from."""
STEPS = 256
"""Number of quantiles at which histograms are matched."""
PLAUSIBLE = (-0.2, 2.0)
"""Reflectance beyond which a value is none: a fill value that nothing declares, or saturation."""


def plausible(values: Float32) -> NDArray[np.bool_]:
    """Say which pixels of an image (C, h, W) hold finite values that can be reflectance in all bands."""
    low, high = PLAUSIBLE
    return np.asarray(((values >= low) & (values <= high)).all(axis=0))


@dataclass(frozen=True)
class Cells:
    """Square cells over an image."""

    height: int
    width: int
    size: int

    @classmethod
    def over(cls, height: int, width: int) -> Cells:
        """Give the finest cells for an image of this size."""
        size = SMALLEST_CELL
        while -(-height // size) * -(-width // size) > MOST_CELLS:
            size *= 2
        return cls(height, width, size)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of cells."""
        return -(-self.height // self.size), -(-self.width // self.size)

    def sums(self, planes: Array) -> Float64:
        """Sum planes (P, h, W), whole rows of cells or the image's last ones, into (P, rows of cells, columns)."""
        count, height, width = planes.shape
        rows, columns = -(-height // self.size), self.shape[1]
        padded = np.zeros((count, rows * self.size, columns * self.size), np.float64)
        padded[:, :height, :width] = planes
        return np.asarray(padded.reshape(count, rows, self.size, columns, self.size).sum(axis=(2, 4)))

    def of(self, rows: Array, cols: Array) -> tuple[Array, Array]:
        """Give the cells that pixels lie in."""
        return rows // self.size, cols // self.size

    def interpolate(self, fields: Float32, rows: Array, cols: Array) -> Float32:
        """Give fields (P, rows of cells, columns) at pixels (N,), linear between the middles of cells, as (P, N)."""
        count, height, width = fields.shape
        above, down = _between(rows, self.size, height)
        left, across = _between(cols, self.size, width)
        flat = fields.reshape(count, -1)
        below, right = np.minimum(above + 1, height - 1), np.minimum(left + 1, width - 1)
        upper = flat[:, above * width + left] * (1 - across) + flat[:, above * width + right] * across
        lower = flat[:, below * width + left] * (1 - across) + flat[:, below * width + right] * across
        return np.asarray(upper * (1 - down) + lower * down, np.float32)


def _between(at: Array, size: int, count: int) -> tuple[Array, Float32]:
    """Give the cell whose middle comes before each position, and how far it is towards the next one (0 to 1)."""
    place = np.clip((at + 0.5) / size - 0.5, 0, count - 1)
    before = np.minimum(place.astype(np.intp), max(count - 2, 0))
    return before, (place - before).astype(np.float32)


def smooth(sums: Float64) -> Float64:
    """Add to each cell's sums (P, h, w) those of the cells around it: near cells weigh much, far ones little.

    As soon as any cell has pixels, every cell gets some. A cell in the middle of a wide gap gets those of its rim.
    """
    gaussian = need("scipy.ndimage").gaussian_filter
    count, height, width = sums.shape
    out: Float64 = np.empty_like(sums)
    for plane, smoothed in zip(sums, out, strict=True):
        smoothed[:] = gaussian(plane, NEAR, mode="constant", truncate=4.0)
    if max(height, width) > 1:
        padded = np.zeros((count, height + height % 2, width + width % 2))
        padded[:, :height, :width] = sums
        halved = padded.reshape(count, padded.shape[1] // 2, 2, padded.shape[2] // 2, 2).sum(axis=(2, 4))
        out += FADE / 4 * _doubled(smooth(halved), height, width)
    return out


def _doubled(planes: Float64, height: int, width: int) -> Float64:
    """Enlarge planes to twice their size, linearly between the middles of their cells."""
    for axis, size in ((1, height), (2, width)):
        before, on = _between(np.arange(size), 2, planes.shape[axis])
        after = np.minimum(before + 1, planes.shape[axis] - 1)
        share = on.reshape(-1, 1) if axis == 1 else on
        planes = planes.take(before, axis) * (1 - share) + planes.take(after, axis) * share
    return planes


@dataclass(frozen=True)
class Sample:
    """Pixels that are clear in both images."""

    rows: NDArray[np.intp]
    cols: NDArray[np.intp]
    reference: Float32
    """(C, N)."""
    target: Float32
    """(C, N)."""

    def __len__(self) -> int:
        return len(self.rows)

    def where(self, chosen: NDArray[np.bool_]) -> Sample:
        """Give some of them."""
        return Sample(self.rows[chosen], self.cols[chosen], self.reference[:, chosen], self.target[:, chosen])


@dataclass(frozen=True)
class Seen:
    """What both images show where both are clear (`check.Evidence` gathers it), shared by the methods."""

    cells: Cells
    sums: Float64
    """Of each cell (planes, h, w), one plane each: pixels, the bands of the reference, those of the target, products of
    two bands of the reference (the upper triangle), and of a band of the reference with one of the target."""
    sample: Sample

    @cached_property
    def around(self) -> Float64:
        """The sums of each cell with those around it."""
        return smooth(self.sums)


def surroundings(seen: Seen) -> Harmoniser:
    """Leave the reference out: the target's own clear ground, interpolated."""
    bands = len(seen.sample.reference)
    sums = smooth(seen.sums[[0, *range(1 + bands, 1 + 2 * bands)]])
    level = (sums[1:] / np.maximum(sums[0], 1e-12)).astype(np.float32)
    return lambda values, rows, cols: seen.cells.interpolate(level, rows, cols)


def middle(seen: Seen) -> Harmoniser:
    """Leave the reference out: the median of the target's clear ground."""
    level = np.median(seen.sample.target, axis=1, keepdims=True).astype(np.float32)
    return lambda values, rows, cols: np.broadcast_to(level, values.shape)


def copied(seen: Seen) -> Harmoniser:
    """Leave the reference as it is."""
    return lambda values, rows, cols: values


def one_line(seen: Seen) -> Harmoniser:
    """One linear fit for each band."""
    slope, offset = fit_lines(seen.sample.reference, seen.sample.target)
    return lambda values, rows, cols: (values * slope + offset).astype(np.float32)


def fit_lines(reference: Float32, target: Float32) -> tuple[Float32, Float32]:
    """Give slope and offset, (C, 1) each, of the least squares of each band; slope 1 where a band is flat."""
    x, y = reference.astype(np.float64), target.astype(np.float64)
    middle, level = x.mean(axis=1, keepdims=True), y.mean(axis=1, keepdims=True)
    spread = ((x - middle) ** 2).mean(axis=1, keepdims=True)
    common = ((x - middle) * (y - level)).mean(axis=1, keepdims=True)
    slope = np.where(spread > 1e-10, common / np.maximum(spread, 1e-10), 1.0)
    return slope.astype(np.float32), (level - slope * middle).astype(np.float32)


def histogram(seen: Seen) -> Harmoniser:
    """Match the histograms of each band."""
    at = (np.arange(STEPS) + 0.5) / STEPS
    pairs = [
        (np.maximum.accumulate(np.quantile(x, at)), np.quantile(y, at))
        for x, y in zip(seen.sample.reference, seen.sample.target, strict=True)
    ]

    def apply(values: Float32, rows: Array, cols: Array) -> Float32:
        out = np.empty_like(values)
        for band, (given, wanted) in enumerate(pairs):
            inside = np.clip(values[band], given[0], given[-1])
            out[band] = np.interp(inside, given, wanted) + (values[band] - inside)  # beyond the ends, the same step on
        return out

    return apply


@dataclass(frozen=True)
class Kinds:
    """Kinds of ground by reflectance."""

    scale: Float32
    middles: Float32
    """(kinds, C), in units of `scale`."""

    @classmethod
    def among(cls, values: Float32, count: int = KINDS_OF_GROUND) -> Kinds:
        """Find kinds among values (C, N) by k-means, always the same ones."""
        points = values[:, :: max(values.shape[1] // SORTED, 1)].T.astype(np.float64)
        scale = points.std(axis=0) + 1e-6
        points = points / scale
        middles = points[[0]]
        nearest = np.full(len(points), np.inf)
        for _ in range(min(count, len(points)) - 1):  # begin with points far from one another, but for odd ones
            nearest = np.minimum(nearest, ((points - middles[-1]) ** 2).sum(axis=1))
            far = np.argsort(nearest, kind="stable")[int(0.98 * (len(points) - 1))]
            middles = np.concatenate([middles, points[[far]]])
        for _ in range(12):
            kinds = _nearest(points, middles)
            for kind in range(len(middles)):
                if (kinds == kind).any():
                    middles[kind] = points[kinds == kind].mean(axis=0)
        return cls(scale.astype(np.float32), middles.astype(np.float32))

    def of(self, values: Float32) -> NDArray[np.intp]:
        """Give the kind of each of the values (C, N)."""
        return _nearest((values / self.scale[:, None]).T, self.middles)


def _nearest(points: Array, middles: Array) -> NDArray[np.intp]:
    """Give the nearest of the middles for each point."""
    distance = (middles**2).sum(axis=1) - 2 * (points @ middles.T)
    return np.asarray(distance.argmin(axis=1))


def by_class(seen: Seen) -> Harmoniser:
    """A linear fit for each band and kind of ground."""
    sample = seen.sample
    kinds = Kinds.among(sample.reference)
    told = kinds.of(sample.reference)
    lines = [fit_lines(sample.reference, sample.target)] * len(kinds.middles)
    for kind in range(len(lines)):
        inside = told == kind
        if inside.sum() > FEWEST:
            lines[kind] = fit_lines(sample.reference[:, inside], sample.target[:, inside])
    slopes, offsets = (np.concatenate(some, axis=1) for some in zip(*lines, strict=True))

    def apply(values: Float32, rows: Array, cols: Array) -> Float32:
        kind = kinds.of(values)
        return np.asarray(values * slopes[:, kind] + offsets[:, kind])

    return apply


def similar(seen: Seen) -> Harmoniser:
    """Add the change of nearby pixels of the same kind; nearer ones count more."""
    sample, cells = seen.sample, seen.cells
    kinds = Kinds.among(sample.reference, 2 * KINDS_OF_GROUND)
    told = kinds.of(sample.reference)
    count, bands = len(kinds.middles), len(sample.reference)
    places = np.ravel_multi_index(cells.of(sample.rows, sample.cols), cells.shape)
    change = sample.target - sample.reference
    every = change.mean(axis=1)
    fields = np.empty((count, bands, *cells.shape), np.float32)
    for kind in range(count):
        inside = told == kind
        planes = [np.ones(inside.sum()), *change[:, inside]]
        counted = np.stack([np.bincount(places[inside], plane, np.prod(cells.shape)) for plane in planes])
        sums = smooth(counted.astype(np.float64).reshape(-1, *cells.shape))
        few = 1e-9  # where a kind was never seen, the change of all
        fields[kind] = (sums[1:] + few * every[:, None, None]) / (sums[0] + few)

    def apply(values: Float32, rows: Array, cols: Array) -> Float32:
        kind = kinds.of(values)
        out: Float32 = values.copy()
        for one in range(count):
            here = kind == one
            out[:, here] += cells.interpolate(fields[one], rows[here], cols[here])
        return out

    return apply


def local(seen: Seen) -> Harmoniser:
    """A linear fit for each band around each place."""
    bands = len(seen.sample.reference)
    whole = _Moments.of(seen.sums.sum(axis=(1, 2))[:, None], bands)
    flat = np.arange(bands)
    prior = whole.common[flat, flat] / np.maximum(whole.spread[flat, flat], 1e-10)
    fields = np.empty((2 * bands, *seen.cells.shape), np.float32)
    for row in range(seen.cells.shape[0]):
        here = _Moments.of(seen.around[:, row], bands)
        slope = (here.common[flat, flat] + SLACK * prior) / (here.spread[flat, flat] + SLACK)
        fields[:bands, row] = slope
        fields[bands:, row] = here.level - slope * here.mean

    def apply(values: Float32, rows: Array, cols: Array) -> Float32:
        both = seen.cells.interpolate(fields, rows, cols)
        return np.asarray(values * both[:bands] + both[bands:])

    return apply


def regression(seen: Seen) -> Harmoniser:
    """A linear fit of each band to all bands of the reference around each place."""
    bands = len(seen.sample.reference)
    whole = _Moments.of(seen.sums.sum(axis=(1, 2))[:, None], bands)
    some = np.eye(bands)
    prior = np.linalg.solve(whole.spread[..., 0] + 1e-6 * some, whole.common[..., 0] + 1e-6 * some)
    fields = np.empty(((bands + 1) * bands, *seen.cells.shape), np.float32)
    for row in range(seen.cells.shape[0]):
        here = _Moments.of(seen.around[:, row], bands)
        spread, common = here.spread.transpose(2, 0, 1), here.common.transpose(2, 0, 1)
        slopes = np.linalg.solve(spread + SLACK * some, common + SLACK * prior)
        fields[bands:, row] = slopes.transpose(1, 2, 0).reshape(bands * bands, -1)
        fields[:bands, row] = here.level - np.einsum("wij,iw->jw", slopes, here.mean)

    def apply(values: Float32, rows: Array, cols: Array) -> Float32:
        out = seen.cells.interpolate(fields[:bands], rows, cols)
        for i in range(bands):
            out += seen.cells.interpolate(fields[(i + 1) * bands : (i + 2) * bands], rows, cols) * values[i]
        return out

    return apply


@dataclass(frozen=True)
class _Moments:
    """Means and second moments of sums (planes, W)."""

    mean: Float64
    """Of the reference's bands, (C, W)."""
    level: Float64
    """Of the target's."""
    spread: Float64
    """Covariance of the reference's bands, (C, C, W)."""
    common: Float64
    """Covariance of the reference's bands (first) with the target's."""

    @classmethod
    def of(cls, sums: Float64, bands: int) -> _Moments:
        means = sums[1:] / np.maximum(sums[0], 1e-12)
        mean, level = means[:bands], means[bands : 2 * bands]
        spread = np.empty((bands, bands, sums.shape[1]))
        upper = np.triu_indices(bands)
        spread[upper] = means[2 * bands : -bands * bands]
        spread[upper[::-1]] = spread[upper]
        common = means[-bands * bands :].reshape(bands, bands, -1)
        return cls(mean, level, spread - mean[:, None] * mean, common - mean[:, None] * level)


METHODS: dict[str, Callable[[Seen], Harmoniser]] = {
    "regression": regression,
    "local": local,
    "similar": similar,
    "classes": by_class,
    "histogram": histogram,
    "line": one_line,
    "copied": copied,
}
"""Names of the methods, as reports have them."""
WITHOUT: dict[str, Callable[[Seen], Harmoniser]] = {"surroundings": surroundings, "middle": middle}
"""What needs no reference, so that every reference must beat it."""


def window_fit(reference: Float32, target: Float32, clear: NDArray[np.bool_], window: int = 65) -> Float32:
    """Give a whole reference (C, H, W) fitted to the target in a square window around each pixel.

    The plain form of `local`, for images in memory. Where the window is flat, the slope moves towards that of the whole
    image; where it holds few clear pixels, the fit of the whole image is used.
    """

    def mean(values: Array) -> Array:
        return np.asarray(need("scipy.ndimage").uniform_filter(values, window, mode="reflect"))

    weight = clear.astype(np.float32)
    share = mean(weight) + 1e-6
    slopes, offsets = fit_lines(reference[:, clear], target[:, clear])
    out = np.empty_like(reference)
    trust = np.clip(share / 0.05, 0, 1)
    slack = 2e-5
    for band, (x, y) in enumerate(zip(reference, target, strict=True)):
        middle, level = mean(x * weight) / share, mean(y * weight) / share
        common = mean(x * y * weight) / share - middle * level
        spread = mean(x * x * weight) / share - middle * middle
        slope = (common + slack * slopes[band]) / (spread + slack)
        fitted = level + slope * (x - middle)
        out[band] = trust * fitted + (1 - trust) * (x * slopes[band] + offsets[band])
    return out
