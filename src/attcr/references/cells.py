"""A coarse grid of square cells: sums of pixels in, smooth fields of coefficients out.

Cells lie on absolute rows and columns, so the result does not depend on how many rows come at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attcr.extras import needed

Array = NDArray[Any]
Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]

SMALLEST_CELL = 16
MOST_CELLS = 1 << 17
"""The most cells of a grid; a larger image gets larger cells."""
NEAR = 0.7
"""Standard deviation, in cells, of the nearest neighbourhood that a cell is smoothed over."""
FADE = 0.05
"""Weight of the next larger neighbourhood, relative to the one before: far pixels count where near ones are missing."""


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
        total: Float64 = padded.reshape(count, rows, self.size, columns, self.size).sum(axis=(2, 4))
        return total

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
        found: Float32 = np.asarray(upper * (1 - down) + lower * down, np.float32)
        return found


def _between(at: Array, size: int, count: int) -> tuple[Array, Float32]:
    """Give the cell whose middle comes before each position, and how far it is towards the next one (0 to 1)."""
    place = np.clip((at + 0.5) / size - 0.5, 0, count - 1)
    before = np.minimum(place.astype(np.intp), max(count - 2, 0))
    return before, (place - before).astype(np.float32)


def smooth(sums: Float64) -> Float64:
    """Add to each cell's sums (P, h, w) those of the cells around it: near cells weigh much, far ones little.

    As soon as any cell has pixels, every cell gets some. A cell in the middle of a wide gap gets those of its rim.
    """
    gaussian = _gaussian()
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


def _gaussian() -> Any:
    with needed():
        from scipy.ndimage import gaussian_filter
    return gaussian_filter
