"""Fill gaps from harmonised references, without visible borders, and find what a mask missed beside a gap.

A clear pixel that is far brighter or far darker than in a reference may have changed. Where it touches a gap, it is
more likely under the same cloud, in its fringe or its shadow. So gaps grow into such pixels, up to a limit. Thin cloud
that gaps mostly surround becomes gap as well, so that no restored islands are left inside filled ground.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attcr.extras import need
from attcr.references.check import SOME_CLEAR, Checked, Evidence, cells_to, self_check
from attcr.references.harmonise import METHODS, PLAUSIBLE, Array, Float32, Harmoniser, copied, regression

EDGE = 24
"""Pixels from its own clouds and edge over which a reference gains weight: the edges of masks are seldom clear."""
PREFERENCE = 4
"""A reference weighs its expected error to the power of minus this: small errors are strongly preferred."""
CERTAIN = 1e-3
"""Expected error below which references count as equally good."""
UNKNOWN_ERROR = 0.05
"""The expected error of a reference that shares no clear ground with the target."""
BORDER_SOFT = 8.0
"""Standard deviation, in pixels, of the neighbourhood over which the step at a border is measured."""
LARGEST_STEP = 0.05
"""The largest reflectance by which values at a border are moved."""
BORDER_REACH = int(4 * BORDER_SOFT + 0.5)
"""How far from a gap, in pixels, values affect its border."""
FILL_MARGIN = EDGE + 1 + BORDER_REACH
"""Rows that filling needs above and below, so that the result does not depend on where strips end."""

LARGEST_GROWTH = 48
"""The most pixels by which a gap grows."""
NEAR_CELLS = 3
"""Cells around gaps that tones are not learnt from: what the mask missed lies there."""
TIMES_EXPECTED, LEAST_CHANGE = 3.0, 0.02
"""A difference is suspicious beyond so many expected errors, and beyond this reflectance."""
COPIED_ERROR = 0.02
"""The expected error of a reference that is taken as it is."""
AROUND = 97
"""Pixels along the square around a pixel under thin cloud that decides whether gaps surround it."""
CHANGE_SOFT = 1.5
"""Standard deviation, in pixels, of the neighbourhood over which a difference is averaged."""
GREY = 0.6
"""The least that a cloud adds in the blue, relative to the red; bare soil is brighter in the red."""
SHADE = 0.85
"""The largest part of the near infrared that is left in a shadow."""
GROWTH_MARGIN = LARGEST_GROWTH + AROUND // 2 + int(3 * CHANGE_SOFT + 0.5) + 1
"""Rows that growing needs above and below, so that the result does not depend on where blocks end."""


@dataclass(frozen=True)
class Corrected:
    """How a network corrects a reference."""

    share: float
    """The share of the network's correction that is used, up to 1."""
    error: float
    """The expected mean absolute error with it."""
    base: Harmoniser
    """The harmonised reference that the network corrects."""


@dataclass(frozen=True)
class Tuned:
    """A reference with the method that was best on the scene itself."""

    harmonise: Harmoniser
    checked: Checked
    corrected: Corrected | None = None
    """How a network corrects it, where that makes the scene's error smaller."""

    @property
    def error(self) -> float:
        """Its expected mean absolute error, in reflectance."""
        if self.corrected:
            return self.corrected.error
        return UNKNOWN_ERROR if np.isnan(self.checked.error) else self.checked.error

    @property
    def preference(self) -> float:
        """Its weight relative to other references."""
        return float(np.float32(max(self.error, CERTAIN) / CERTAIN) ** -PREFERENCE)


def tune(evidence: Evidence, methods: Sequence[str] = tuple(METHODS)) -> Tuned:
    """Choose the best method by the self-check, and fit it on all the evidence."""
    checked = self_check(evidence, methods)
    return Tuned(METHODS[checked.method](evidence.seen()), checked)


@dataclass(frozen=True)
class Shown:
    """Rows as one reference shows them."""

    values: Float32
    """Reflectance (C, h, W)."""
    clear: NDArray[np.bool_]
    """(h, W): where it is clear."""

    def cut(self, top: int, bottom: int) -> Shown:
        """Give some of its rows."""
        return Shown(self.values[:, top:bottom], self.clear[top:bottom])

    def moved(self, across: int, above: int, below: int) -> Shown:
        """Give it so many columns farther left, with rows added above and below that are not clear."""
        width = self.clear.shape[1]
        start, end = min(max(across, 0), width), max(min(width + across, width), 0)
        sides = (above, below), (start - across, width - end + across)
        values = np.pad(self.values[:, :, start:end], ((0, 0), *sides))
        return Shown(values, np.pad(self.clear[:, start:end], sides))


@dataclass(frozen=True)
class Added:
    """What a network adds to a harmonised reference in some of the rows."""

    top: int
    """The first of these rows, counted from the first row that `compose` gets."""
    values: Float32
    """(K, h, W), of some bands."""
    share: Float32
    """(h, W): how much of the network is in each pixel."""
    bands: Sequence[int]
    """These bands, K."""


@dataclass(frozen=True)
class Filled:
    """Rows as the references show them, in the target's tones."""

    values: Float32
    """(C, h, W); 0 where no reference is clear."""
    weights: Float32
    """(N, h, W): how much each reference counts; they sum to 1, and are 0 where none is clear."""
    share: Float32 | None = None
    """(h, W): how much of a network is in each pixel of some bands."""
    bands: Sequence[int] = ()
    """These bands."""

    @property
    def known(self) -> NDArray[np.bool_]:
        """Where any reference is clear."""
        return np.asarray(self.weights.any(axis=0))


def compose(
    references: Sequence[Tuned],
    shown: Sequence[Shown],
    wanted: NDArray[np.bool_],
    top: int,
    added: Sequence[Added | None] = (),
) -> Filled:
    """Give the wanted pixels (h, W) of rows from `top` on, from the references.

    The weights of references change gradually, so that no border shows between two of them.
    """
    total = np.zeros_like(shown[0].values, np.float32)
    weights = np.zeros((len(shown), *wanted.shape), np.float32)
    network = next((one for one in added if one), None)
    shares = np.zeros(wanted.shape, np.float32) if network else None
    for i, (reference, seen) in enumerate(zip(references, shown, strict=True)):
        rows, cols = np.nonzero(wanted & seen.clear)
        if not len(rows):
            continue
        weight = inwards(seen.clear)[rows, cols] * np.float32(reference.preference)
        fitted = reference.harmonise(seen.values[:, rows, cols], rows + top, cols)
        total[:, rows, cols] += weight * np.clip(fitted, *PLAUSIBLE)
        more = added[i] if added else None
        if more and shares is not None:
            inside = (rows >= more.top) & (rows < more.top + len(more.share))
            down, across = rows[inside], cols[inside]
            place = (down - more.top, across)
            for band, plane in zip(more.bands, more.values, strict=True):
                total[band, down, across] += weight[inside] * plane[place]
            shares[down, across] += weight[inside] * more.share[place]
        weights[i, rows, cols] = weight
    every = weights.sum(axis=0)
    every[every == 0] = 1
    share = None if shares is None else shares / every
    return Filled(total / every, weights / every, share, network.bands if network else ())


def inwards(clear: NDArray[np.bool_]) -> Float32:
    """Give each pixel's weight by its distance to what is not clear: a little at the edge, 1 from EDGE on."""
    if clear.all():
        return np.ones(clear.shape, np.float32)
    distance: Array = need("scipy.ndimage").distance_transform_edt(clear)
    return np.clip(distance / EDGE, 0, 1).astype(np.float32)


def meet_border(filled: Filled, target: Float32, clear: NDArray[np.bool_]) -> Float32:
    """Give the filled values (C, h, W) moved so that they meet the target's clear pixels (h, W) around a gap.

    The difference of the two just outside is carried inwards and fades within a few pixels; it is never more than
    LARGEST_STEP. A network already sees the border: the larger its share in a pixel, the less the pixel is moved.
    """
    here = filled.known
    known = clear & here
    if not known.any():
        return filled.values

    def around(plane: Array) -> Float32:
        return smoothed(plane, BORDER_SOFT, 4.0)

    share = around(known)
    out = np.empty_like(filled.values)
    for band, (new, seen) in enumerate(zip(filled.values, target, strict=True)):
        step = around(np.where(known, np.clip(seen - new, -LARGEST_STEP, LARGEST_STEP), 0)) / (share + 0.05)
        if filled.share is not None and band in filled.bands:
            step *= 1 - filled.share
        out[band] = np.where(here, new + step, new)
    return out


def smoothed(plane: Array, soft: float, truncate: float) -> Float32:
    """Give a plane smoothed by a Gaussian of so many pixels; 0 lies beyond its edge."""
    gaussian = need("scipy.ndimage").gaussian_filter
    return np.asarray(gaussian(plane.astype(np.float32), soft, mode="constant", truncate=truncate))


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
        near = cells_to(evidence.gaps > 0) <= NEAR_CELLS
        far = evidence.sums[0][~near].sum() / (evidence.cells.height * evidence.cells.width)
        if far < SOME_CLEAR or "regression" not in checked.errors:
            return cls(copied(evidence.seen()), max(TIMES_EXPECTED * COPIED_ERROR, LEAST_CHANGE), colours)
        most = max(TIMES_EXPECTED * checked.errors["regression"], LEAST_CHANGE)
        return cls(regression(evidence.seen(near)), most, colours)

    def __call__(self, target: Float32, reference: Float32, known: NDArray[np.bool_], top: int) -> Suspected:
        """Say which of the known pixels (h, W) are under haze or in shadow, by comparing both images (C, h, W)."""

        def around(plane: Array) -> Float32:
            return smoothed(plane, CHANGE_SOFT, 3.0)

        rows, cols = np.nonzero(known)
        chosen = [self.colours.blue, self.colours.red, self.colours.infrared]
        fitted = self.harmonise(reference[:, rows, cols], rows + top, cols)[chosen]
        change = np.zeros((len(chosen), *known.shape), np.float32)
        change[:, rows, cols] = target[chosen][:, rows, cols] - fitted
        ground = np.zeros(known.shape, np.float32)
        ground[rows, cols] = fitted[-1]
        share = around(known) + 1e-6
        blue, red, infrared = (around(plane) / share for plane in change)
        meant = around(ground) / share
        hazy = (blue > self.most) & (blue > GREY * red) & (infrared > -self.most)
        dark = (infrared < -self.most) & (meant + infrared < SHADE * meant) & (red < self.most) & (blue < self.most)
        return Suspected(known & hazy, known & dark)


def grow(
    gap: NDArray[np.bool_], suspicious: NDArray[np.bool_], through: NDArray[np.bool_] | None = None
) -> NDArray[np.bool_]:
    """Give the suspicious pixels that a gap reaches in LARGEST_GROWTH steps through such ones, or through others."""
    if not (gap.any() and suspicious.any()):
        return np.zeros_like(gap)
    way = gap | suspicious if through is None else gap | suspicious | through
    reached: NDArray[np.bool_] = need("scipy.ndimage").binary_dilation(gap, iterations=LARGEST_GROWTH, mask=way)
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
