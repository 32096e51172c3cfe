"""The rim around cloud: how far beyond a mask a scene is restored, and how it fades into the original."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attcr.errors import MissingExtraError
from attcr.scenes.clouds.masks import CLEAR, Classes
from attcr.scenes.tiles import Grid, Tile


@dataclass(frozen=True)
class Rim:
    """Pixels around a cloud that are restored too."""

    dilate: int
    """Pixels around a cloud that are restored as the cloud is."""
    feather: int
    """Pixels beyond those over which the restored fades into the original."""

    @property
    def reach(self) -> int:
        """How far from a cloud a pixel can be changed."""
        return self.dilate + self.feather

    def weights(self, classes: Classes) -> NDArray[np.float32]:
        """Give 1 up to `dilate` pixels around cloud, then a ramp down to 0 over `feather` pixels."""
        cloudy = classes > CLEAR
        if not cloudy.any():
            return np.zeros(classes.shape, np.float32)
        try:
            from scipy.ndimage import distance_transform_edt
        except ImportError as error:
            raise MissingExtraError("scipy", "scenes") from error
        distance: NDArray[np.float64] = distance_transform_edt(~cloudy)
        weights = np.clip((self.reach + 1 - distance) / (self.feather + 1), 0, 1)
        weights[distance > self.reach] = 0  # diagonals: farther than the reach is outside
        return weights.astype(np.float32)


@dataclass(frozen=True)
class CloudMap:
    """A scene's cloud classes, read rows at a time, with the rim that is restored around them."""

    read: Callable[[int, int], Classes]
    """Gives the classes of rows [top, bottom) as (rows, W)."""
    height: int
    """Rows of the scene."""
    rim: Rim

    def rows(self, top: int, bottom: int) -> tuple[Classes, NDArray[np.float32]]:
        """Give the classes and weights of rows [top, bottom), the same however the rows are asked for."""
        reach = self.rim.reach
        first, last = max(top - reach, 0), min(bottom + reach, self.height)
        classes = self.read(first, last)
        weights = self.rim.weights(classes)
        inner = slice(top - first, bottom - first)
        return classes[inner], weights[inner]

    def cloudy_tiles(self, grid: Grid, row: int) -> list[Tile]:
        """Give those of the tiles that begin at this row in which a pixel can be changed."""
        reach = self.rim.reach
        last = min(row + grid.tile_height + reach, self.height)
        columns = self.read(max(row - reach, 0), last).max(axis=0) > CLEAR
        return [
            tile
            for tile in grid.row_of_tiles(row)
            if columns[max(tile.col - reach, 0) : tile.col + tile.width + reach].any()
        ]
