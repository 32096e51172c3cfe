"""The self-check: hide clear parts of the scene itself, fill them by each method, and find the best method.

It works on evidence: what a reference and the target show together where both are clear.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from attcr.extras import need
from attcr.references.align import LEAST_DETAIL
from attcr.references.harmonise import METHODS, WITHOUT, Array, Cells, Float32, Float64, Sample, Seen

MOST_SAMPLES = 400_000
"""About the most pixels that are kept of a reference and the target."""
SHIFTS = ((0.5, 0.5), (0.25, 0.6), (0.7, 0.2))
"""How far the gaps are moved, as parts of the image, to hide clear cells in their shape."""
MOST_HIDDEN = 0.5
"""The largest part of the clear cells that is hidden at once."""
FARTHEST_CELL = 8
"""Distance from clear ground, in cells, beyond which errors are counted together."""
LEAST_PIXELS = 64
"""The fewest hidden pixels that say anything about a method."""
SOME_CLEAR, MUCH_CLEAR = 0.05, 0.1
"""Part of the image that must be clear in both for any fit, and for more than one linear fit for each band.

The little ground that is left between clouds is often in their shadow: a fit there would be worse than none."""
SIMPLE = ("line", "histogram", "copied")
EARNED, WITH_DETAIL = 0.95, 1.05
"""Part of the error without any reference that a reference must stay below; where its detail is the scene's, it may be
a little above: a mean error favours what is blurred.

Constants, noise and other places reach 0.96 at best, and pairs of real dates 1.01 at worst."""


@dataclass
class Evidence:
    """What a reference and the target show together, gathered from blocks of rows."""

    cells: Cells
    bands: int
    sums: Float64 = field(init=False)
    """Of each cell, as `Seen` has them."""
    gaps: Float64 = field(init=False)
    """Pixels to fill in each cell."""
    detail: float = float("nan")
    """Correlation of the fine detail of both (`align`); NaN where it is not known."""
    _parts: list[Sample] = field(default_factory=list)

    def __post_init__(self) -> None:
        planes = 1 + 2 * self.bands + self.bands * (self.bands + 1) // 2 + self.bands**2
        self.sums = np.zeros((planes, *self.cells.shape))
        self.gaps = np.zeros(self.cells.shape)
        pixels = self.cells.height * self.cells.width
        self._step = max(int(np.ceil(np.sqrt(pixels / MOST_SAMPLES))), 1)

    @property
    def common(self) -> float:
        """Part of the image that is clear in both."""
        return float(self.sums[0].sum() / (self.cells.height * self.cells.width))

    def add(
        self, top: int, reference: Float32, target: Float32, clear: NDArray[np.bool_], gap: NDArray[np.bool_]
    ) -> None:
        """Add rows from `top` on, the first of a row of cells: images (C, h, W), clear in both, and gaps (h, W)."""
        size = self.cells.size
        for first in range(0, clear.shape[0], size):
            rows = slice(first, first + size)
            self._add_row_of_cells((top + first) // size, reference[:, rows], target[:, rows], clear[rows], gap[rows])
        self._keep(top, reference, target, clear)

    def _add_row_of_cells(self, row: int, reference: Float32, target: Float32, clear: Array, gap: Array) -> None:
        self.gaps[row] = self.cells.sums(gap[None])[0, 0]
        if not clear.any():
            return
        seen = np.where(clear, reference, 0)
        meant = np.where(clear, target, 0)
        planes = [clear[None], seen, meant]
        planes += [seen[i] * seen[i:] for i in range(self.bands)]
        planes += [seen[i] * meant for i in range(self.bands)]
        at = 0
        for some in planes:
            self.sums[at : at + len(some), row] = self.cells.sums(some)[:, 0]
            at += len(some)

    def _keep(self, top: int, reference: Float32, target: Float32, clear: Array) -> None:
        step = self._step
        first = -top % step
        rows, cols = np.nonzero(clear[first::step, ::step])
        rows, cols = rows * step + first, cols * step
        self._parts.append(Sample(rows + top, cols, reference[:, rows, cols], target[:, rows, cols]))

    def sample(self) -> Sample:
        """Give the pixels that were kept, those on every n-th row and column."""
        parts = self._parts
        joined = Sample(
            np.concatenate([part.rows for part in parts]),
            np.concatenate([part.cols for part in parts]),
            np.concatenate([part.reference for part in parts], axis=1),
            np.concatenate([part.target for part in parts], axis=1),
        )
        self._parts = [joined]
        return joined

    def seen(self, hidden: NDArray[np.bool_] | None = None) -> Seen:
        """Give what the methods fit on, except for hidden cells."""
        sample = self.sample()
        if hidden is None:
            return Seen(self.cells, self.sums, sample)
        rows, cols = self.cells.of(sample.rows, sample.cols)
        return Seen(self.cells, np.where(hidden, 0, self.sums), sample.where(~hidden[rows, cols]))

    def gap_cells(self) -> NDArray[np.bool_]:
        """Say which cells are mostly gap; where none is, which cells have any gap."""
        gap: NDArray[np.bool_] = self.gaps > 0.5 * self.cells.size**2
        return gap if gap.any() else self.gaps > 0

    def hidden_cells(self) -> Iterator[NDArray[np.bool_]]:
        """Give several choices of clear cells to hide, in the shape of the gaps; some clear cells are always left."""
        clear = self.sums[0] >= 0.5 * np.maximum(self.sums[0].max(), 1)
        gap = self.gap_cells()
        for down, across in SHIFTS:
            hidden = _moved(gap, clear, down, across)
            if hidden.any() and (clear & ~hidden).any():
                yield hidden


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
    surroundings: float = float("nan")
    """The error on the same pixels without any reference: of the clear ground around them, or of the median of all."""

    detail: float = float("nan")
    """Correlation of the fine detail of both; NaN where it is not known."""

    @property
    def earned(self) -> bool:
        """Whether it shows the scene's ground, and no worse than without any reference, as far as this is known."""
        if np.isnan(self.detail):
            return not self.error > EARNED * self.surroundings
        return self.detail >= LEAST_DETAIL and not self.error > WITH_DETAIL * self.surroundings


def self_check(evidence: Evidence, methods: Sequence[str] = tuple(METHODS)) -> Checked:
    """Hide clear cells in the shape of the gaps, fill them by each method and take the best method.

    The errors are weighted by the distance to clear ground, so that each distance counts as much as in the gaps.
    """
    if evidence.common < SOME_CLEAR:
        return Checked("copied", float("nan"), {}, 0, detail=evidence.detail)
    little = evidence.common < MUCH_CLEAR
    if little:
        methods = [name for name in methods if name in SIMPLE] or list(methods)
    gap = evidence.gap_cells()
    wanted = np.bincount(cells_to(~gap)[gap], minlength=FARTHEST_CELL + 1).astype(np.float64)
    ways = {name: METHODS[name] for name in methods} | WITHOUT
    errors = {name: np.zeros(FARTHEST_CELL + 1) for name in ways}
    counts = np.zeros(FARTHEST_CELL + 1)
    sample = evidence.sample()
    places = evidence.cells.of(sample.rows, sample.cols)
    for hidden in evidence.hidden_cells():
        here = hidden[places]
        tried, seen = sample.where(here), evidence.seen(hidden)
        if not len(tried) or len(seen.sample) < LEAST_PIXELS:
            continue
        near = cells_to(~hidden)[places][here]
        counts += np.bincount(near, minlength=FARTHEST_CELL + 1)
        for name, method in ways.items():
            filled = method(seen)(tried.reference, tried.rows, tried.cols)
            off = np.abs(filled - tried.target).mean(axis=0, dtype=np.float64)
            errors[name] += np.bincount(near, off, FARTHEST_CELL + 1)
    total = int(counts.sum())
    if total < LEAST_PIXELS:
        simple = "line" if len(sample) >= LEAST_PIXELS else "copied"
        return Checked(simple, float("nan"), {}, total, detail=evidence.detail)
    expected = {name: expected_error(sums, counts, wanted) for name, sums in errors.items()}
    alone = min(expected.pop(name) for name in WITHOUT)
    alone = float("nan") if little else alone  # what is hidden lies close to clear ground, and the gaps far from it
    best = min(expected, key=lambda name: expected[name])
    return Checked(best, expected[best], expected, total, alone, evidence.detail)


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


def cells_to(chosen: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Give each cell's distance, in cells, to the nearest chosen one; FARTHEST_CELL at most."""
    if not chosen.any():
        return np.full(chosen.shape, FARTHEST_CELL, np.intp)
    distances: Array = need("scipy.ndimage").distance_transform_cdt(~chosen, "chessboard")
    return np.minimum(distances, FARTHEST_CELL).astype(np.intp)


def expected_error(sums: Float64, counts: Float64, wanted: Float64) -> float:
    """Give the mean error at the wanted distances; the next nearer one stands for a distance that was not measured."""
    known = np.flatnonzero(counts)
    means = sums[known] / counts[known]
    at = np.clip(np.searchsorted(known, np.arange(len(counts)), side="right") - 1, 0, len(known) - 1)
    weights = wanted if wanted.sum() else counts
    return float((means[at] * weights).sum() / weights.sum())
