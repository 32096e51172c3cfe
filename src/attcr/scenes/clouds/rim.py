"""The rim around cloud: how far beyond a mask a scene is restored, and how it fades into the original."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attcr.extras import need, needed
from attcr.scenes.clouds.masks import CLEAR, THICK, THIN, Classes
from attcr.scenes.clouds.vote import CLASS, DARK, SURE
from attcr.scenes.tiles import Grid, Tile

SOFT = 5
"""Pixels (standard deviation) over which shadow fades into veil."""


@dataclass(frozen=True)
class Rim:
    """Pixels around a cloud that are restored too."""

    dilate: int
    """Pixels around a cloud that are restored as the cloud is."""
    feather: int
    """Pixels beyond those, over which the restored image fades into the original."""

    @property
    def reach(self) -> int:
        """How far from a cloud a pixel can be changed."""
        return self.dilate + self.feather

    def weights(self, classes: Classes) -> NDArray[np.float32]:
        """Give 1 up to `dilate` pixels around cloud, then a ramp down to 0 over `feather` pixels."""
        cloudy = classes > CLEAR
        if not cloudy.any():
            return np.zeros(classes.shape, np.float32)
        distance = _distance(cloudy)
        weights = np.clip((self.reach + 1 - distance) / (self.feather + 1), 0, 1)
        weights[distance > self.reach] = 0  # diagonals: farther than the reach is outside
        return weights.astype(np.float32)

    def thick(self, classes: Classes, near: int | None = None) -> NDArray[np.bool_]:
        """Say which pixels are thick cloud or up to `near` (without it `dilate`) pixels from it."""
        thick: NDArray[np.bool_] = classes == THICK
        return _distance(thick) <= (self.dilate if near is None else near) if thick.any() else thick


def _distance(cloudy: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Give each pixel's distance to the nearest cloud."""
    with needed():
        from scipy.ndimage import distance_transform_edt
    distance: NDArray[np.float64] = distance_transform_edt(~cloudy)
    return distance


class CloudRows(NamedTuple):
    """Rows of a cloud map, each (rows, W)."""

    classes: Classes
    weights: NDArray[np.float32]
    """How much of the restored image goes into each pixel."""
    thick: NDArray[np.bool_]
    """Thick cloud and the pixels that are nearer to it than the rim's `dilate`."""
    sure: NDArray[np.bool_]
    """What is surely clear, and not near cloud."""
    dark: NDArray[np.float32]
    """How much of it is shadow, 0..1: soft, so that no line shows where shadow and veil meet."""


@dataclass(frozen=True)
class CloudMap:
    """A scene's cloud classes, read rows at a time, with the rim that is restored around them."""

    read: Callable[[int, int], Classes]
    """Gives the classes of rows [top, bottom) as (rows, W)."""
    height: int
    """Rows of the scene."""
    rim: Rim
    bits: Callable[[int, int], Classes] | None = None
    """Gives classes with the bits that say what is surely clear, which is never changed, and what is dark; None: what
    is farther from cloud than its rim is surely clear, and nothing says what is dark."""
    leaves_thick: bool = False
    """Whether thick cloud and what is near it are left as they are: no ramp leads into it, no tile is run for it."""
    near_thick: int | None = None
    """How many pixels are near it; without it, the rim's `dilate`."""

    def rows(self, top: int, bottom: int) -> CloudRows:
        """Give rows [top, bottom); the same values however the scene is cut into requests."""
        reach = max(self.rim.reach, 3 * SOFT) if self.bits else self.rim.reach
        first, last = max(top - reach, 0), min(bottom + reach, self.height)
        told = (self.bits or self.read)(first, last)
        classes = told & CLASS
        thick = self.rim.thick(classes, self.near_thick)
        weights = self.rim.weights(self._restored(classes))
        sure = (weights < 1) & ((told & SURE) > 0) & ~thick if self.bits else (weights == 0) & ~thick
        if self.bits:
            weights[(told & SURE) > 0] = 0
        if self.leaves_thick:
            weights[thick] = 0
        inner = slice(top - first, bottom - first)
        dark = ((told & DARK) > 0).astype(np.float32)
        if dark.any():
            dark = need("scipy.ndimage").gaussian_filter(dark, SOFT, mode="nearest", truncate=3)
        return CloudRows(classes[inner], weights[inner], thick[inner], sure[inner], dark[inner])

    def _restored(self, classes: Classes) -> Classes:
        """Give the classes with only the cloud that will be restored."""
        return np.where(classes == THIN, THIN, CLEAR).astype(np.uint8) if self.leaves_thick else classes

    def cloudy_tiles(self, grid: Grid, row: int) -> list[Tile]:
        """Give those of the tiles that begin at this row in which a pixel can be changed."""
        reach = self.rim.reach
        last = min(row + grid.tile_height + reach, self.height)
        columns = self._restored(self.read(max(row - reach, 0), last)).max(axis=0) > CLEAR
        return [
            tile
            for tile in grid.row_of_tiles(row)
            if columns[max(tile.col - reach, 0) : tile.col + tile.width + reach].any()
        ]
