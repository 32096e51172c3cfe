"""A scene cut into overlapping tiles of one size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from attcr.errors import ConfigError


@dataclass(frozen=True)
class Tile:
    """A window of a scene, in pixels."""

    row: int
    col: int
    height: int
    width: int

    @property
    def rows(self) -> slice:
        """The scene's rows that the tile covers."""
        return slice(self.row, self.row + self.height)

    @property
    def cols(self) -> slice:
        """The scene's columns that the tile covers."""
        return slice(self.col, self.col + self.width)


@dataclass(frozen=True)
class Grid:
    """Tiles of one size that cover a scene and overlap by at least `overlap` pixels."""

    height: int
    """Rows of the scene."""
    width: int
    """Columns of the scene."""
    tile_height: int
    """Rows of every tile: the asked size, or the scene's where that is smaller."""
    tile_width: int
    """Columns of every tile."""
    overlap: int
    """Pixels that neighbours share at least."""
    rows: tuple[int, ...]
    """First row of each row of tiles, ascending; the last one ends with the scene."""
    cols: tuple[int, ...]
    """First column of each column of tiles, ascending."""

    def __len__(self) -> int:
        return len(self.rows) * len(self.cols)

    def __iter__(self) -> Iterator[Tile]:
        for row in self.rows:
            yield from self.row_of_tiles(row)

    def row_of_tiles(self, row: int) -> list[Tile]:
        """Give the tiles that begin at this row of the scene, left to right."""
        return [Tile(row, col, self.tile_height, self.tile_width) for col in self.cols]


def grid(height: int, width: int, *, tile: int = 256, overlap: int = 32, origin: int = 0) -> Grid:
    """Lay tiles over a scene of any size, smaller than a tile included.

    The last tile of a line is moved back to end with the scene, so that all tiles have one size and the
    network never sees padding. `origin` shifts the second and later tiles back by that many pixels.
    """
    if height < 1 or width < 1:
        raise ConfigError(f"A scene has at least one pixel, got {height} x {width}.")
    if not 0 <= overlap <= tile // 2:
        raise ConfigError(f"overlap is {overlap} and must lie between 0 and half of the tile ({tile // 2}).")
    if tile < 8:
        raise ConfigError(f"tile is {tile} pixels and must be at least 8, the smallest the network takes.")
    if not 0 <= origin < tile - overlap:
        raise ConfigError(f"origin is {origin} and must lie between 0 and tile - overlap ({tile - overlap}).")
    rows, cols = (_starts(length, tile, tile - overlap, origin) for length in (height, width))
    return Grid(height, width, min(tile, height), min(tile, width), overlap, rows, cols)


def _starts(length: int, tile: int, stride: int, origin: int) -> tuple[int, ...]:
    last = max(length - tile, 0)
    inner = range(stride - origin, last, stride)
    return (0, *inner, last) if last else (0,)
