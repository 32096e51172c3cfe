"""What two dates show together where both are clear: sums on cells for local fits, and a sample of pixels."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from attcr.references.cells import Array, Cells, Float32, Float64

MOST_SAMPLES = 400_000
"""About the most pixels that are kept for a pair of dates."""


@dataclass(frozen=True)
class Sample:
    """Pixels that are clear in both dates."""

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


@dataclass
class Evidence:
    """What a reference and the target show together, gathered from blocks of rows.

    The sums of a cell are, one plane each: pixels, the bands of the reference, those of the target, products of two
    bands of the reference (the upper triangle), and of a band of the reference with one of the target.
    """

    cells: Cells
    bands: int
    sums: Float64 = field(init=False)
    gaps: Float64 = field(init=False)
    """Pixels to fill in each cell."""
    _parts: list[Sample] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.sums = np.zeros((self.planes, *self.cells.shape))
        self.gaps = np.zeros(self.cells.shape)
        pixels = self.cells.height * self.cells.width
        self._step = max(int(np.ceil(np.sqrt(pixels / MOST_SAMPLES))), 1)

    @property
    def planes(self) -> int:
        """Number of sums that are kept for each cell."""
        return 1 + 2 * self.bands + self.bands * (self.bands + 1) // 2 + self.bands**2

    @property
    def common(self) -> float:
        """Part of the image that is clear in both dates."""
        return float(self.sums[0].sum() / (self.cells.height * self.cells.width))

    def add(
        self, top: int, reference: Float32, target: Float32, clear: NDArray[np.bool_], gap: NDArray[np.bool_]
    ) -> None:
        """Add rows from `top` on, the first of a row of cells: both dates (C, h, W), clear in both, and gaps (h, W)."""
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
