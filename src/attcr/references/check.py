"""The self-check: hide clear parts of the scene itself, fill them by each method, and find the best method."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attcr.extras import needed
from attcr.references.cells import Array, Float64
from attcr.references.evidence import Evidence, Sample
from attcr.references.harmonise import METHODS, Harmoniser, Seen

SHIFTS = ((0.5, 0.5), (0.25, 0.6), (0.7, 0.2))
"""How far the gaps are moved, as parts of the image, to hide clear cells in their shape."""
MOST_HIDDEN = 0.5
"""The largest part of the clear cells that is hidden at once."""
FARTHEST = 8
"""Distance from clear ground, in cells, beyond which errors are counted together."""
LEAST_PIXELS = 64
"""The fewest hidden pixels that say anything about a method."""
SOME, MUCH = 0.05, 0.1
"""Part of the image that must be clear in both dates for any fit, and for more than one linear fit for each band.

The little ground that is left between clouds is often in their shadow: a fit there would be worse than none."""
SIMPLE = ("line", "histogram", "copied")


@dataclass(frozen=True)
class Checked:
    """What the self-check found about one reference."""

    method: str
    """The best method."""
    error: float
    """Its expected mean absolute error in the gaps; NaN where nothing could be hidden."""
    errors: Mapping[str, float]
    """The same for each method."""
    pixels: int
    """Number of hidden pixels that the errors were measured on."""


def self_check(evidence: Evidence, methods: Sequence[str] = tuple(METHODS)) -> Checked:
    """Hide clear cells in the shape of the gaps, fill them by each method and take the best method.

    The errors are weighted by the distance to clear ground, so that each distance counts as much as in the gaps.
    """
    if evidence.common < SOME:
        return Checked("copied", float("nan"), {}, 0)
    if evidence.common < MUCH:
        methods = [name for name in methods if name in SIMPLE] or list(methods)
    gap = _gap_cells(evidence)
    wanted = np.bincount(_distances(~gap)[gap], minlength=FARTHEST + 1).astype(np.float64)
    errors = {name: np.zeros(FARTHEST + 1) for name in methods}
    counts = np.zeros(FARTHEST + 1)
    sample = evidence.sample()
    places = evidence.cells.of(sample.rows, sample.cols)
    for hidden in hidden_cells(evidence):
        here = hidden[places]
        tried = sample.where(here)
        if not len(tried):
            continue
        near = _distances(~hidden)[places][here]
        seen = Seen.of(evidence, hidden)
        if len(seen.sample) < LEAST_PIXELS:
            continue
        counts += np.bincount(near, minlength=FARTHEST + 1)
        for name in methods:
            errors[name] += np.bincount(near, _errors(METHODS[name](seen), tried), FARTHEST + 1)
    total = int(counts.sum())
    if total < LEAST_PIXELS:
        return Checked("line" if len(sample) >= LEAST_PIXELS else "copied", float("nan"), {}, total)
    expected = {name: _expected(sums, counts, wanted) for name, sums in errors.items()}
    best = min(expected, key=lambda name: expected[name])
    return Checked(best, expected[best], expected, total)


def hidden_cells(evidence: Evidence) -> Iterator[NDArray[np.bool_]]:
    """Give several choices of clear cells to hide, in the shape of the gaps; some clear cells are always left."""
    clear = evidence.sums[0] >= 0.5 * np.maximum(evidence.sums[0].max(), 1)
    gap = _gap_cells(evidence)
    for down, across in SHIFTS:
        hidden = _moved(gap, clear, down, across)
        if hidden.any() and (clear & ~hidden).any():
            yield hidden


def _gap_cells(evidence: Evidence) -> NDArray[np.bool_]:
    """Say which cells are mostly gap; where none is, which cells have any gap."""
    gap: NDArray[np.bool_] = evidence.gaps > 0.5 * evidence.cells.size**2
    return gap if gap.any() else evidence.gaps > 0


def cells_to_gap(evidence: Evidence) -> NDArray[np.intp]:
    """Give each cell's distance, in cells, to the nearest cell with a gap; FARTHEST at most."""
    return _distances(evidence.gaps > 0)


def _errors(harmonise: Harmoniser, tried: Sample) -> Array:
    filled = harmonise(tried.reference, tried.rows, tried.cols)
    errors: Array = np.abs(filled - tried.target).mean(axis=0, dtype=np.float64)
    return errors


def _moved(gap: NDArray[np.bool_], clear: NDArray[np.bool_], down: float, across: float) -> NDArray[np.bool_]:
    """Give the clear cells that the moved gaps would cover, but leave enough clear cells for a fit."""
    rows, cols = gap.shape
    moved = np.roll(gap, (round(down * rows), round(across * cols)), axis=(0, 1)) & clear
    if not moved.any():  # gaps smaller than the way to clear ground: squares instead
        row, col = np.indices(gap.shape)
        moved = clear & ((row // 4 + col // 4) % 4 == round(4 * down) % 4)
    while moved.sum() > MOST_HIDDEN * clear.sum():
        rows_left = np.flatnonzero(moved.any(axis=1))
        if len(rows_left) < 2:
            moved[:, : moved.shape[1] // 2] = False
            break
        moved[rows_left[len(rows_left) // 2 :]] = False
    return moved


def _distances(clear: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Give each cell's distance, in cells, to the nearest clear cell; FARTHEST at most."""
    with needed():
        from scipy.ndimage import distance_transform_cdt
    if not clear.any():
        return np.full(clear.shape, FARTHEST, np.intp)
    found: NDArray[np.intp] = np.minimum(distance_transform_cdt(~clear, "chessboard"), FARTHEST).astype(np.intp)
    return found


def _expected(sums: Float64, counts: Float64, wanted: Float64) -> float:
    """Give the mean error at the wanted distances; the next nearer one stands for a distance that was not measured."""
    known = np.flatnonzero(counts)
    means = sums[known] / counts[known]
    at = np.clip(np.searchsorted(known, np.arange(len(counts)), side="right") - 1, 0, len(known) - 1)
    weights = wanted if wanted.sum() else counts
    return float((means[at] * weights).sum() / weights.sum())
