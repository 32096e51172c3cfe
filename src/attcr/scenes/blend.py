"""Weighted overlap-add of tiles that holds one strip of rows, never the scene."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from attcr.scenes.tiles import Grid, Tile

Float32 = NDArray[np.float32]


def line_weights(starts: tuple[int, ...], size: int, length: int, overlap: int) -> Float32:
    """Give each tile's weights along one axis, shaped (len(starts), size); they add up to 1 at every pixel.

    A tile weighs 1 in its middle and falls by a raised cosine over the overlap, so that neither the result
    nor its slope jumps where a tile ends.
    """
    distance = np.minimum(np.arange(size), np.arange(size)[::-1]) + 0.5
    ramp = np.clip(distance / overlap, 0, 1) if overlap else np.ones(size)
    window = np.sin(ramp * np.pi / 2) ** 2
    total = np.zeros(length)
    for start in starts:
        total[start : start + size] += window
    return np.stack([window / total[start : start + size] for start in starts]).astype(np.float32)


class StripBlender:
    """Adds up one row of tiles after another and gives rows back once no later tile touches them."""

    def __init__(self, grid: Grid, channels: int) -> None:
        self._grid = grid
        self._row_weights = line_weights(grid.rows, grid.tile_height, grid.height, grid.overlap)
        self._col_weights = line_weights(grid.cols, grid.tile_width, grid.width, grid.overlap)
        self._sum = np.zeros((channels, grid.tile_height, grid.width), np.float32)
        self._top = 0

    def start(self, row: int) -> None:
        """Begin at the row of tiles that starts at `row`, with nothing left from earlier rows."""
        self._sum[:] = 0
        self._top = row

    def add(self, tile: Tile, values: Float32) -> None:
        """Add a tile's values (C, h, w) at its place; the tile belongs to the current row of tiles."""
        down = self._row_weights[self._grid.rows.index(tile.row)][:, None]
        across = self._col_weights[self._grid.cols.index(tile.col)]
        self._sum[:, :, tile.cols] += values * (down * across)

    def finish(self, bottom: int) -> Float32:
        """Give the rows from the current top to `bottom`, and move on: the next row of tiles starts there."""
        done = bottom - self._top
        rows: Float32 = self._sum[:, :done].copy()
        self._sum[:, : self._sum.shape[1] - done] = self._sum[:, done:]
        self._sum[:, self._sum.shape[1] - done :] = 0
        self._top = bottom
        return rows
