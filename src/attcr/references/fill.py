"""Fill gaps from harmonised references: the best reference at each pixel, without visible borders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attcr.extras import needed
from attcr.references.cells import Array, Float32
from attcr.references.check import Checked, self_check
from attcr.references.evidence import Evidence
from attcr.references.harmonise import METHODS, Harmoniser, Seen

EDGE = 24
"""Pixels from its own clouds and edge over which a reference gains weight: the edges of masks are seldom clear."""
PREFERENCE = 4
"""A reference weighs its expected error to the power of minus this: small errors are strongly preferred."""
CERTAIN = 1e-3
"""Expected error below which references count as equally good."""
UNKNOWN = 0.05
"""The expected error of a reference that shares no clear ground with the target."""
SOFT = 8.0
"""Standard deviation, in pixels, of the neighbourhood over which the step at a border is measured."""
LARGEST_STEP = 0.05
"""The largest reflectance by which values at a border are moved."""
REACH = int(4 * SOFT + 0.5)
"""How far from a gap, in pixels, values affect its border."""
MARGIN = EDGE + 1 + REACH
"""Rows that are needed above and below, so that the result does not depend on where strips end."""


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
        return UNKNOWN if np.isnan(self.checked.error) else self.checked.error

    @property
    def preference(self) -> float:
        """Its weight relative to other references."""
        return float(np.float32(max(self.error, CERTAIN) / CERTAIN) ** -PREFERENCE)


def tune(evidence: Evidence, methods: Sequence[str] = tuple(METHODS)) -> Tuned:
    """Choose the best method by the self-check, and fit it on all the evidence."""
    checked = self_check(evidence, methods)
    return Tuned(METHODS[checked.method](Seen.of(evidence)), checked)


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
    number: NDArray[np.int16]
    """(h, W): the reference that counts most, from 1; 0 where none is clear."""
    share: Float32 | None = None
    """(h, W): how much of a network is in each pixel of some bands."""
    bands: Sequence[int] = ()
    """These bands."""


def compose(
    references: Sequence[Tuned],
    values: Sequence[Float32],
    clear: Sequence[NDArray[np.bool_]],
    wanted: NDArray[np.bool_],
    top: int,
    added: Sequence[Added | None] = (),
) -> Filled:
    """Give the wanted pixels (h, W) of rows from `top` on, from references (C, h, W) and where each is clear.

    The weights of references change gradually, so that no border shows between two of them.
    """
    bands, height, width = values[0].shape
    total = np.zeros((bands, height, width), np.float32)
    weights = np.zeros((height, width), np.float32)
    best = np.zeros((height, width), np.float32)
    number = np.zeros((height, width), np.int16)
    network = next((one for one in added if one), None)
    shares = np.zeros((height, width), np.float32) if network else None
    for i, (reference, seen, sound) in enumerate(zip(references, values, clear, strict=True), 1):
        rows, cols = np.nonzero(wanted & sound)
        if not len(rows):
            continue
        weight = _inwards(sound)[rows, cols] * np.float32(reference.preference)
        total[:, rows, cols] += weight * reference.harmonise(seen[:, rows, cols], rows + top, cols)
        more = added[i - 1] if added else None
        if more and shares is not None:
            below = more.top + len(more.share)
            inside = (rows >= more.top) & (rows < below)
            down, across = rows[inside], cols[inside]
            place = (down - more.top, across)
            for band, plane in zip(more.bands, more.values, strict=True):
                total[band, down, across] += weight[inside] * plane[place]
            shares[down, across] += weight[inside] * more.share[place]
        weights[rows, cols] += weight
        better = weight > best[rows, cols]
        best[rows[better], cols[better]] = weight[better]
        number[rows[better], cols[better]] = i
    weights = np.where(weights > 0, weights, 1)
    share = None if shares is None else shares / weights
    return Filled((total / weights).astype(np.float32), number, share, network.bands if network else ())


def _inwards(clear: NDArray[np.bool_]) -> Float32:
    """Give each pixel's weight by its distance to what is not clear: a little at the edge, 1 from EDGE on."""
    if clear.all():
        return np.ones(clear.shape, np.float32)
    with needed():
        from scipy.ndimage import distance_transform_edt
    weights: Float32 = np.clip(distance_transform_edt(clear) / EDGE, 0, 1).astype(np.float32)
    return weights


def meet_border(filled: Filled, target: Float32, clear: NDArray[np.bool_]) -> Float32:
    """Give the filled values (C, h, W) moved so that they meet the target's clear pixels (h, W) around a gap.

    The difference of the two just outside is carried inwards and fades within a few pixels; it is never more than
    LARGEST_STEP. A network already sees the border: the larger its share in a pixel, the less the pixel is moved.
    """
    with needed():
        from scipy.ndimage import gaussian_filter
    known = clear & (filled.number > 0)
    if not known.any():
        return filled.values

    def around(plane: Array) -> Float32:
        smoothed: Float32 = gaussian_filter(plane.astype(np.float32), SOFT, mode="constant", truncate=4.0)
        return smoothed

    share = around(known)
    out = np.empty_like(filled.values)
    for band, (new, seen) in enumerate(zip(filled.values, target, strict=True)):
        step = around(np.where(known, np.clip(seen - new, -LARGEST_STEP, LARGEST_STEP), 0)) / (share + 0.05)
        if filled.share is not None and band in filled.bands:
            step *= 1 - filled.share
        out[band] = np.where(filled.number > 0, new + step, new)
    return out
