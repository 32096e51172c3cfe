"""Fill gaps from harmonised references: the best one at each pixel, without a border that shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attcr.dates.cells import Array, Float32
from attcr.dates.check import Checked, self_check
from attcr.dates.evidence import Evidence
from attcr.dates.harmonise import METHODS, Harmoniser, Seen
from attcr.errors import MissingExtraError

EDGE = 24
"""Pixels from its own clouds and its own end over which a reference gains weight: mask edges are seldom clear."""
PREFERENCE = 4
"""How strongly a reference of a smaller expected error is preferred: its power."""
CERTAIN = 1e-3
"""Expected error below which references count as equally good."""
UNKNOWN = 0.05
"""The error that is assumed of a reference that shares no clear ground with the target."""
SOFT = 8.0
"""Standard deviation, in pixels, of the neighbourhood that the step at a border is taken from."""
LARGEST_STEP = 0.05
"""Reflectance by which a border is moved at most."""
REACH = int(4 * SOFT + 0.5)
"""Pixels from a gap whose values decide its border."""
MARGIN = EDGE + 1 + REACH
"""Rows above and below that must be at hand for a result that does not depend on where strips end."""


@dataclass(frozen=True)
class Tuned:
    """A reference with the way to the target's tones that was best on the scene itself."""

    harmonise: Harmoniser
    checked: Checked

    @property
    def error(self) -> float:
        """Its expected mean absolute error, in reflectance."""
        return UNKNOWN if np.isnan(self.checked.error) else self.checked.error


def tune(evidence: Evidence, methods: Sequence[str] = tuple(METHODS)) -> Tuned:
    """Choose the best method by the self-check, and fit it on all that was seen."""
    checked = self_check(evidence, methods)
    return Tuned(METHODS[checked.method](Seen.of(evidence)), checked)


@dataclass(frozen=True)
class Filled:
    """Rows as the references show them, in the target's tones."""

    values: Float32
    """(C, h, W); 0 where no reference is clear."""
    number: NDArray[np.int16]
    """(h, W): the reference that counts most, from 1; 0 where none is clear."""


def compose(
    references: Sequence[Tuned],
    values: Sequence[Float32],
    clear: Sequence[NDArray[np.bool_]],
    wanted: NDArray[np.bool_],
    top: int,
) -> Filled:
    """Give the wanted pixels (h, W) of rows from `top` on, from references (C, h, W) and where each is clear.

    The weights of references change gradually, so that no border shows between two of them.
    """
    bands, height, width = values[0].shape
    total = np.zeros((bands, height, width), np.float32)
    weights = np.zeros((height, width), np.float32)
    best = np.zeros((height, width), np.float32)
    number = np.zeros((height, width), np.int16)
    for i, (reference, seen, sound) in enumerate(zip(references, values, clear, strict=True), 1):
        rows, cols = np.nonzero(wanted & sound)
        if not len(rows):
            continue
        weight = _inwards(sound)[rows, cols] * np.float32(max(reference.error, CERTAIN) / CERTAIN) ** -PREFERENCE
        total[:, rows, cols] += weight * reference.harmonise(seen[:, rows, cols], rows + top, cols)
        weights[rows, cols] += weight
        better = weight > best[rows, cols]
        best[rows[better], cols[better]] = weight[better]
        number[rows[better], cols[better]] = i
    return Filled((total / np.where(weights > 0, weights, 1)).astype(np.float32), number)


def _inwards(clear: NDArray[np.bool_]) -> Float32:
    """Give how much pixels weigh by their distance to what is not clear: a little at its edge, 1 from EDGE on."""
    if clear.all():
        return np.ones(clear.shape, np.float32)
    try:
        from scipy.ndimage import distance_transform_edt
    except ImportError as error:
        raise MissingExtraError("scipy", "scenes") from error
    weights: Float32 = np.clip(distance_transform_edt(clear) / EDGE, 0, 1).astype(np.float32)
    return weights


def meet_border(filled: Filled, target: Float32, clear: NDArray[np.bool_]) -> Float32:
    """Give the filled values (C, h, W) moved so that they meet the target's clear pixels (h, W) around a gap.

    What the two differ by just outside is carried inwards and fades within a few pixels; it is never more than
    LARGEST_STEP.
    """
    try:
        from scipy.ndimage import gaussian_filter
    except ImportError as error:
        raise MissingExtraError("scipy", "scenes") from error
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
        out[band] = np.where(filled.number > 0, new + step, new)
    return out
