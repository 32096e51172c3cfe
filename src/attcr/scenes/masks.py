"""Where the clouds are: masks of products and detectors as one kind of map, dilated and feathered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import distance_transform_edt

from attcr.scenes.tiles import Grid, Tile

Array = NDArray[Any]
Classes = NDArray[np.uint8]

CLEAR, THIN, THICK = 0, 1, 2
"""The classes of a cloud map; shadow counts as thin, for something of the ground shows through it."""


def classes_of_scl(scl: Array) -> Classes:
    """Read Sentinel-2's scene classification: 8 and 9 are thick cloud, 10 is cirrus, 3 is shadow."""
    table = np.zeros(256, np.uint8)
    table[[3, 10]] = THIN
    table[[8, 9]] = THICK
    return table[np.clip(scl, 0, 255).astype(np.uint8)]


def classes_of_qa_pixel(qa: Array) -> Classes:
    """Read Landsat Collection 2's QA_PIXEL: bit 3 is cloud; rim (1), cirrus (2) and shadow (4) are thin."""
    bits = qa.astype(np.uint16)
    thin = (bits & 0b10110) > 0
    thick = (bits & 0b01000) > 0
    filled = (bits & 1) > 0
    return np.where(filled, CLEAR, np.where(thick, THICK, np.where(thin, THIN, CLEAR))).astype(np.uint8)


def classes_of_raster(values: Array) -> Classes:
    """Read a mask that anyone made: whatever is not 0 is thick cloud."""
    return np.where(np.nan_to_num(values) != 0, THICK, CLEAR).astype(np.uint8)


def classes_of_brightness(picture: NDArray[np.float32]) -> Classes:
    """Guess the clouds of an RGB picture (3, H, W) in 0..1: what is bright and has little colour.

    Thick cloud, haze and cirrus over dark ground are found. Snow, sand, roofs and surf are taken for cloud,
    and thin haze over bright ground is missed: where a product brings its own mask, use that one.
    """
    brightness = picture.mean(axis=0)
    colour = picture.max(axis=0) - picture.min(axis=0)
    white = colour < 0.15 + 0.1 * brightness
    thick = white & (brightness > 0.65)
    thin = white & (brightness > 0.4)
    return np.where(thick, THICK, np.where(thin, THIN, CLEAR)).astype(np.uint8)


def feather_weights(classes: Classes, dilate: int, feather: int) -> NDArray[np.float32]:
    """Give 1 up to `dilate` pixels around cloud, then a ramp down to 0 over `feather` pixels."""
    cloudy = classes > CLEAR
    if not cloudy.any():
        return np.zeros(classes.shape, np.float32)
    distance: NDArray[np.float64] = distance_transform_edt(~cloudy)
    weights = np.clip((dilate + feather + 1 - distance) / (feather + 1), 0, 1)
    weights[distance > dilate + feather] = 0  # diagonals: farther than the reach is outside
    return weights.astype(np.float32)


@dataclass(frozen=True)
class CloudMap:
    """A scene's cloud classes, read rows at a time, with the rim that is restored around them."""

    read: Callable[[int, int], Classes]
    """Gives the classes of rows [top, bottom) as (rows, W)."""
    height: int
    """Rows of the scene."""
    dilate: int
    """Pixels around a cloud that are restored as the cloud is."""
    feather: int
    """Pixels beyond those over which the restored fades into the original."""

    @property
    def reach(self) -> int:
        """How far from a cloud a pixel can be changed."""
        return self.dilate + self.feather

    def rows(self, top: int, bottom: int) -> tuple[Classes, NDArray[np.float32]]:
        """Give the classes and weights of rows [top, bottom), the same however the rows are asked for."""
        first, last = max(top - self.reach, 0), min(bottom + self.reach, self.height)
        classes = self.read(first, last)
        weights = feather_weights(classes, self.dilate, self.feather)
        inner = slice(top - first, bottom - first)
        return classes[inner], weights[inner]

    def cloudy_tiles(self, grid: Grid, row: int) -> list[Tile]:
        """Give those of the tiles that begin at this row in which a pixel can be changed."""
        last = min(row + grid.tile_height + self.reach, self.height)
        columns = self.read(max(row - self.reach, 0), last).max(axis=0) > CLEAR
        return [
            tile
            for tile in grid.row_of_tiles(row)
            if columns[max(tile.col - self.reach, 0) : tile.col + tile.width + self.reach].any()
        ]
