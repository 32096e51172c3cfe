"""Windows: the pixels of a scene that lie in a box, and what has to be read around them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from attcr.errors import SceneError
from attcr.extras import needed
from attcr.scenes.scene import Profile, Scene
from attcr.scenes.tiles import Tile

with needed():
    from rasterio._err import CPLE_BaseError
    from rasterio.errors import RasterioError
    from rasterio.warp import transform_bounds

LON_LAT = "EPSG:4326"
AROUND = 512
"""Pixels around a window that are read too: what is clear there says what is under the cloud in it."""
SNAP = 64
"""Pixels, counted from the scene's corner, on which the surroundings begin and end: cells of statistics do too."""
EDGE = 1e-6
"""Pixels by which a box may reach over an edge that it is meant to end on."""


def tile_of_box(scene: Scene, box: Sequence[float], crs: Any = LON_LAT) -> Tile:
    """Give the pixels of a scene that a box (west, south, east, north) touches, in whole pixels of its coarsest band.

    What of the box lies beyond the scene is left out; a box that lies outside is refused.
    """
    profile = scene.profile
    if profile.crs is None:
        raise SceneError(
            f"{scene.source} has no CRS, so that no box can be found in it: restore all of it, or cut it first."
        )
    west, south, east, north = _bounds(scene, box, crs, profile.crs)
    inverse = ~profile.transform
    places = [inverse * (x, y) for x in (west, east) for y in (south, north)]
    step = max(band.factor for band in scene.bands)
    cols, rows = ([at[axis] for at in places] for axis in (0, 1))
    left, right = _snapped(min(cols), max(cols), step, profile.width)
    top, bottom = _snapped(min(rows), max(rows), step, profile.height)
    if left >= right or top >= bottom:
        corners = list(zip(*profile.corners(), strict=True))
        extent = (min(corners[0]), min(corners[1]), max(corners[0]), max(corners[1]))
        covered = ",".join(f"{edge:.4f}" for edge in _bounds(scene, extent, profile.crs, LON_LAT))
        raise SceneError(f"The box lies outside {scene.source}, which covers {covered}: give one that overlaps it.")
    return Tile(top, left, bottom - top, right - left)


def surroundings(tile: Tile, needs: Tile, height: int, width: int) -> Tile:
    """Give the part of a scene of this size that is read for a window: with what its tiles need, and some around."""
    top, bottom = _around(tile.rows, needs.rows, height)
    left, right = _around(tile.cols, needs.cols, width)
    return Tile(top, left, bottom - top, right - left)


def window_beside(scene: Scene, profile: Profile) -> Scene:
    """Give the part of another scene that lies where a window of the first one does; all of it beside a whole scene.

    On another grid it is a little more: what warping reads at the edges.
    """
    own, whole = scene.profile, profile.whole
    if whole is None:
        return scene
    if (own.height, own.width) == (whole.height, whole.width) and own.transform.almost_equals(whole.transform):
        return scene.window(Tile(*profile.corner, profile.height, profile.width))
    corners = list(zip(*profile.corners(), strict=True))
    extent = (min(corners[0]), min(corners[1]), max(corners[0]), max(corners[1]))
    try:
        tile = tile_of_box(scene, extent, profile.crs)
    except SceneError:  # whoever lays it on the window's grid says what is wrong
        return scene
    return scene.window(surroundings(tile, tile, own.height, own.width))


def _bounds(scene: Scene, box: Sequence[float], here: Any, there: Any) -> tuple[float, ...]:
    west, south, east, north = box
    try:
        found = tuple(transform_bounds(here, there, west, south, east, north))
    except (RasterioError, CPLE_BaseError, ValueError, SystemError) as error:
        reason = " ".join(str(error).split())[:200]
        raise SceneError(f"The box cannot be brought to the CRS of {scene.source}: {reason}.") from error
    if not all(map(math.isfinite, found)):
        raise SceneError(f"The box lies where the CRS of {scene.source} has no coordinates: give one that overlaps it.")
    return found


def _snapped(low: float, high: float, step: int, length: int) -> tuple[int, int]:
    first, last = math.floor((low + EDGE) / step) * step, math.ceil((high - EDGE) / step) * step
    return max(first, 0), min(last, length)


def _around(tile: slice, needs: slice, length: int) -> tuple[int, int]:
    first = min(tile.start - AROUND, needs.start) // SNAP * SNAP
    last = -(-max(tile.stop + AROUND, needs.stop) // SNAP) * SNAP
    return max(first, 0), min(last, length)
