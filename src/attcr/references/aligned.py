"""Another scene seen on a scene's grid, as reflectance, rows at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from attcr.bands.sensors import Sensor
from attcr.errors import SceneError
from attcr.extras import needed
from attcr.scenes.dataset import reading
from attcr.scenes.scene import Profile, Scene

with needed():
    from rasterio._err import CPLE_BaseError
    from rasterio.enums import Resampling
    from rasterio.errors import RasterioError
    from rasterio.vrt import WarpedVRT
    from rasterio.warp import transform_bounds
    from rasterio.windows import Window


class AlignedScene:
    """Some bands of a scene on another scene's grid: unchanged where the grids are equal, else warped (cubic)."""

    def __init__(self, scene: Scene, places: Sequence[int], sensor: Sensor, profile: Profile) -> None:
        self._scene = scene.select(places)
        self._sensor = sensor
        self._profile = profile
        self._warped: dict[str, WarpedVRT] = {}
        if _same_grid(scene.profile, profile):
            return
        if not scene.profile.crs or not profile.crs:
            raise SceneError(
                f"{scene.source} ({scene.width} x {scene.height}) does not fit the scene ({profile.width} x "
                f"{profile.height}), and one of them has no CRS to bring them together: give it on the scene's grid."
            )
        self._check_overlap()
        for band in self._scene.bands:
            if band.href not in self._warped:
                self._warped[band.href] = self._warp(band.href, band.nodata)

    def _check_overlap(self) -> None:
        corners = list(zip(*self._scene.profile.corners(), strict=True))
        bounds = (min(corners[0]), min(corners[1]), max(corners[0]), max(corners[1]))
        try:
            left, bottom, right, top = transform_bounds(self._scene.profile.crs, self._profile.crs, *bounds)
        except (RasterioError, CPLE_BaseError, ValueError, SystemError) as error:
            reason = " ".join(str(error).split())[:200]
            raise SceneError(f"{self._scene.source} cannot be brought to the scene's CRS: {reason}.") from error
        xs, ys = zip(*self._profile.corners(), strict=True)
        if left >= max(xs) or right <= min(xs) or bottom >= max(ys) or top <= min(ys):
            raise SceneError(f"{self._scene.source} lies outside the scene: give another date of the same place.")

    def _warp(self, href: str, nodata: float | None) -> WarpedVRT:
        blank = self._sensor.nodata if nodata is None else nodata
        return WarpedVRT(
            self._scene.dataset(href),
            crs=self._profile.crs,
            transform=self._profile.transform,
            width=self._profile.width,
            height=self._profile.height,
            resampling=Resampling.cubic,
            src_nodata=blank,
            nodata=np.nan,
            dtype="float32",
        )

    def read(self, top: int, bottom: int) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Read rows [top, bottom) of the other grid: reflectance (C, rows, W), and where all bands have data."""
        if not self._warped:
            values = self._scene.read(top, bottom)
            valid = np.asarray(self._scene.valid(values, top, blank=self._sensor.nodata).all(axis=0))
            return self._sensor.to_reflectance(values), valid
        window = Window(0, top, self._profile.width, bottom - top)
        seen = np.empty((len(self._scene.bands), bottom - top, self._profile.width), np.float32)
        with reading(self._scene.source):
            for plane, band in zip(seen, self._scene.bands, strict=True):
                self._warped[band.href].read(band.index, window=window, out=plane)
        return self._sensor.to_reflectance(seen), np.asarray(np.isfinite(seen).all(axis=0))

    def close(self) -> None:
        """Close what was opened here; the scene itself stays open."""
        for warped in self._warped.values():
            warped.close()


def _same_grid(one: Profile, other: Profile) -> bool:
    if (one.height, one.width) != (other.height, other.width):
        return False
    if not one.crs or not other.crs:
        return True
    return bool(one.crs == other.crs and one.transform.almost_equals(other.transform))
