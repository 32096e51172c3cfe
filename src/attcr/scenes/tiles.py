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
    """Rows of every tile: the requested size, or the scene's where that is smaller."""
    tile_width: int
    """Columns of every tile."""
    overlap: int
    """The fewest pixels that neighbours share."""
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

    def part(self, window: Tile, *, reach: int = 0) -> Part:
        """Give the tiles that touch a window, and the pixels needed to run them and to see `reach` around the window.

        Inside the window the result equals that of the whole scene, bit by bit: no tile that covers it is missing.
        """
        if min(window.row, window.col) < 0 or min(window.height, window.width) < 1:
            raise ConfigError(f"A window has at least one pixel and begins inside the scene, got {window}.")
        if window.rows.stop > self.height or window.cols.stop > self.width:
            raise ConfigError(f"{window} reaches beyond the scene of {self.height} x {self.width} pixels.")
        down, top, bottom = _touching(self.rows, self.tile_height, window.rows, reach, self.height)
        across, left, right = _touching(self.cols, self.tile_width, window.cols, reach, self.width)
        tiles = Grid(
            height=down[-1] + self.tile_height,  # a walk ends with its last tile, above what only `reach` adds
            width=right - left,
            tile_height=self.tile_height,
            tile_width=self.tile_width,
            overlap=self.overlap,
            rows=down,
            cols=across,
        )
        inner = Tile(window.row - top, window.col - left, window.height, window.width)
        return Part(tiles, Tile(top, left, bottom - top, right - left), inner)


@dataclass(frozen=True)
class Part:
    """The tiles of a grid that touch a window, and the pixels that they need."""

    grid: Grid
    """The tiles, counted from the first pixel needed."""
    needs: Tile
    """The pixels needed, in the scene."""
    window: Tile
    """The window that was asked for, counted from the first pixel needed."""


def grid(height: int, width: int, *, tile: int = 256, overlap: int = 32, origin: int = 0) -> Grid:
    """Lay tiles over a scene of any size, even one smaller than a tile.

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


def _touching(
    starts: tuple[int, ...], size: int, window: slice, reach: int, length: int
) -> tuple[tuple[int, ...], int, int]:
    """Give the tiles along one axis that touch a window, and the first and the last pixel (exclusive) needed.

    The tiles are counted from the first pixel needed.
    """
    touching = [start for start in starts if start < window.stop and start + size > window.start]
    first = max(min(touching[0], window.start - reach), 0)
    last = min(max(touching[-1] + size, window.stop + reach), length)
    return tuple(start - first for start in touching), first, last
