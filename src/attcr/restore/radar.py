"""Radar of the same place, on an image's grid: what it shows where cloud hides the ground."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attcr.errors import SceneError, warn
from attcr.evidence.ground import Expected, Seen, gaps_told_by
from attcr.extras import need

if TYPE_CHECKING:  # arrays are restored without rasterio too
    from attcr.scenes.scene import AlignedRaster, Profile

Array = NDArray[Any]
Float32 = NDArray[np.float32]

SPECKLE_METRES = 20.0
"""Standard deviation of the blur against speckle, of power, not of decibels."""
UNKNOWN_METRES = 10.0
"""Size of a pixel of a scene that does not say it in metres."""
DARKEST, BRIGHTEST = -50.0, 30.0
"""Decibels between which backscatter lies; all else is no data."""
LOOKS = 8
"""Blocks of rows that are looked at to tell decibels from power."""
WORTH = 0.97
"""Radar is used where the expected error with it is at most this part of the one without."""


class Decibels:
    """Rows of a radar raster in decibels, not a number where there is no data."""

    def __init__(self, raster: AlignedRaster, profile: Profile, name: str) -> None:
        self._raster, self.height, self.name = raster, profile.height, name
        crs = profile.crs
        metres = abs(profile.transform.a) if crs is not None and crs.is_projected else UNKNOWN_METRES
        self._blur = SPECKLE_METRES / (metres or UNKNOWN_METRES)
        self._linear = self._is_linear()

    def _is_linear(self) -> bool:
        step = max(self.height // LOOKS, 1)
        rows = [self._raster.read(top, min(top + 16, self.height)).ravel() for top in range(0, self.height, step)]
        values = np.concatenate(rows).astype(np.float32)
        values = values[np.isfinite(values) & (values != 0) & (values > -1000)]
        if not values.size:
            raise SceneError(f"{self.name} has no data where the scene is: give radar of the same place.")
        low, middle, high = np.quantile(values, (0.01, 0.5, 0.99))
        if low > 0 and middle < 2:
            return True
        if low >= DARKEST and middle < 0 and high <= BRIGHTEST:
            return False
        raise SceneError(
            f"{self.name} has values from {low:.4g} to {high:.4g}, which is neither backscatter in decibels nor as "
            "power: give calibrated, terrain-corrected radar (sigma0 or gamma0)."
        )

    def read(self, top: int, bottom: int) -> Float32:
        """Give rows [top, bottom) as (C, rows, W)."""
        values = self._raster.read(top, bottom).astype(np.float32)
        if self._linear:
            with np.errstate(divide="ignore", invalid="ignore"):
                values = 10 * np.log10(values)
        return np.where((values > DARKEST) & (values < BRIGHTEST), values, np.float32(np.nan))

    def close(self) -> None:
        """Close the file."""
        self._raster.close()

    def shows(self, top: int, bottom: int) -> tuple[Float32, Float32]:
        """Give rows (C, h, W) without speckle, finite, and where they are data (h, W)."""
        margin = int(4 * self._blur) + 1
        first, last = max(top - margin, 0), min(bottom + margin, self.height)
        values = self.read(first, last)
        data: NDArray[np.bool_] = np.asarray(np.isfinite(values).all(axis=0))
        blur = need("scipy.ndimage").gaussian_filter
        weight: Float32 = np.maximum(blur(data.astype(np.float32), self._blur), np.float32(1e-6))
        power = np.where(data, 10 ** (values / 10), np.float32(0))
        smooth = np.maximum([blur(plane, self._blur) / weight for plane in power], np.float32(1e-6))
        shown: Float32 = np.where(data, 10 * np.log10(smooth), np.float32(0))
        inner = slice(top - first, bottom - first)
        return shown[:, inner].astype(np.float32), data[inner].astype(np.float32)


Reader = Callable[[int, int], Seen]
"""Gives rows [top, bottom) of a scene: what is surely clear, and of one cover, what is under opaque cloud."""


class UnderCloud:
    """The ground under opaque cloud as radar and the clear surroundings tell it, rows at a time."""

    def __init__(self, read: Reader, radar: Decibels, height: int, width: int, bands: int) -> None:
        self._radar = radar
        others = len(radar.shows(0, 1)[0])

        def seen(top: int, bottom: int) -> Seen:
            rows = read(top, bottom)
            shown, known = radar.shows(top, bottom)
            return Seen(np.concatenate([rows.values, shown]), rows.clear * known, rows.covers * known)

        self._told = gaps_told_by(seen, height, width, bands, others)

    def earned(self) -> bool:
        """Say whether radar tells more of the ground than the surroundings do, and warn if not."""
        error, without = self._told.error, self._told.surroundings
        if error <= WORTH * without:
            return True
        why = f"with it, ground under thick cloud is expected to be off by {error:.4f}, and by {without:.4f} without it"
        if np.isnan(error):
            why = "no thick cloud that it shows, or too little clear ground to learn what it shows"
        warn(f"{self._radar.name} is not used: {why}.")
        return False

    def rows(self, top: int, bottom: int) -> tuple[Expected, NDArray[np.bool_]]:
        """Give rows of the expected ground, and where radar shows it and clear ground is around."""
        expected = self._told.ground.rows(top, bottom)
        known = self._radar.shows(top, bottom)[1] > 0
        return expected, known & (expected.support > 0)
