"""Products and bands: digital numbers <-> reflectance <-> the model's range.

Integers are digital numbers and floats are reflectance (decibels for SAR); this is the only file that turns
one into the other. Arrays are (C, H, W), one entry of the first axis per band of the sensor.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from attcr.errors import ShapeError

Array = NDArray[Any]

S2_L1C_BANDS = ("B01", "B02", "B03", "B04", "B05", "B06", "B07", "B08", "B8A", "B09", "B10", "B11", "B12")
S2_L2A_BANDS = tuple(band for band in S2_L1C_BANDS if band != "B10")  # the L2A processor drops the cirrus band
LANDSAT_BANDS = ("B1", "B2", "B3", "B4", "B5", "B6", "B7")

# The names by which STAC and people know the bands, so that "red" finds B04 or SR_B4.
COMMON_NAMES = {
    "s2": {
        "coastal": "B01", "blue": "B02", "green": "B03", "red": "B04", "rededge1": "B05", "rededge2": "B06",
        "rededge3": "B07", "nir": "B08", "nir08": "B8A", "nir09": "B09", "cirrus": "B10", "swir16": "B11",
        "swir22": "B12",
    },
    "landsat": {
        "coastal": "B1", "blue": "B2", "green": "B3", "red": "B4", "nir08": "B5", "swir16": "B6",
        "swir22": "B7",
    },
}  # fmt: skip


@dataclass(frozen=True)
class ModelRange:
    """The physical values that a model's 0 and `span` stand for; beyond them its input is clipped."""

    low: tuple[float, ...]
    """Reflectance (or dB) at the model's 0, one for all bands or one each."""
    high: tuple[float, ...]
    """Reflectance (or dB) at the model's `span`, one for all bands or one each."""
    span: float
    """The model's value at `high`."""


RGB_RANGE = ModelRange((0.0,), (0.3558,), 1.0)
"""Of weights trained on 8-bit pictures: white is reflectance 0.3558, as in ESA's true-colour image."""
PICTURE_RANGE = ModelRange((0.0,), (1.0,), 1.0)
"""Of the same weights when the scene is itself an 8-bit picture."""
SEN12MSCR_RANGE = ModelRange((0.0,), (1.0,), 5.0)
"""Of the SEN12MS-CR weights: digital numbers clipped to 0..10000, over 2000."""
SEN12MSCR_SAR_RANGE = ModelRange((-25.0, -35.0), (0.0, 0.0), 2.0)
"""Of the SEN12MS-CR weights' radar half: VV clipped to [-25, 0] dB and VH to [-35, 0] dB."""


@dataclass(frozen=True)
class Sensor:
    """How one product's values become the model's: `reflectance = value * scale + offset`, then the range."""

    name: str
    """What `--sensor` calls it."""
    bands: tuple[str, ...]
    """Band names in product order; empty for a product of any bands."""
    scale: float
    """Reflectance (or dB) per digital number."""
    offset: float
    """Reflectance (or dB) of digital number 0."""
    range: ModelRange
    """What the model wants to see."""
    nodata: float | None = None
    """The value that means "nothing here" by the product's own specification, where a file declares none."""

    @property
    def zero(self) -> Array:
        """The value that the model sees as 0, shaped (bands or 1, 1, 1)."""
        return np.round((_column(self.range.low) - self.offset) / self.scale, 6)

    @property
    def unit(self) -> Array:
        """How many values make 1 in the model's range, shaped (bands or 1, 1, 1)."""
        spread = _column(self.range.high) - _column(self.range.low)
        return np.round(spread / self.range.span / self.scale, 6)

    def into(self, range: ModelRange) -> Sensor:
        """Give the same product for a model of another range."""
        return replace(self, range=range)

    def to_model(self, values: Array) -> NDArray[np.float32]:
        """Give the model's float32 view of digital numbers (or float reflectance); NaN stays NaN."""
        self._check(values)
        working = np.result_type(values.dtype, np.float32)  # 8 and 16 bits are exact in float32, 32 in float64
        zero, unit = self.zero.astype(working), self.unit.astype(working)
        top = (self.zero + self.unit * self.range.span).astype(working)
        clipped: Array = np.clip(values.astype(working), zero, top)
        return np.asarray((clipped - zero) / unit, dtype=np.float32)

    def from_model(self, x: Array, dtype: DTypeLike) -> Array:
        """Give the values of `dtype` that the model's `x` stands for; integers are rounded and held in range."""
        self._check(x)
        kind = np.dtype(dtype)
        values = x.astype(np.float64) * self.unit + self.zero
        return into_dtype(values, kind)

    def to_reflectance(self, values: Array) -> NDArray[np.float32]:
        """Give the reflectance (or dB) of digital numbers, not clipped."""
        self._check(values)
        return np.asarray(values.astype(np.float64) * self.scale + self.offset, dtype=np.float32)

    def _check(self, values: Array) -> None:
        wanted = max(len(self.bands), len(self.range.low), len(self.range.high))
        free = not self.bands and wanted == 1
        if values.ndim != 3 or (values.shape[0] != wanted and not free):
            bands = "any number of bands" if free else f"{wanted} bands {' '.join(self.bands)}"
            raise ShapeError(
                f"{self.name} takes (C, H, W) with {bands}, got an array of shape {values.shape}: "
                "select the bands first, in this order."
            )


def into_dtype(values: Array, dtype: np.dtype[Any]) -> Array:
    """Cast float values to `dtype`: integers are rounded to nearest and held within what they can hold."""
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return np.clip(np.rint(values), info.min, info.max).astype(dtype)
    return values.astype(dtype)


def _column(numbers: tuple[float, ...]) -> NDArray[np.float64]:
    return np.array(numbers, dtype=np.float64).reshape(-1, 1, 1)


RGB8 = Sensor("rgb8", ("red", "green", "blue"), 1 / 255, 0.0, PICTURE_RANGE)
"""An 8-bit picture: 0..255 are the model's 0..1."""
REFLECTANCE = Sensor("reflectance", (), 1.0, 0.0, RGB_RANGE)
"""Floats that already are reflectance 0..1, any bands."""
SENTINEL2_L1C = Sensor("s2-l1c", S2_L1C_BANDS, 1e-4, 0.0, SEN12MSCR_RANGE, nodata=0)
"""Sentinel-2 top of atmosphere before processing baseline 04.00 (or harmonised to it)."""
SENTINEL2_L1C_N0400 = replace(SENTINEL2_L1C, name="s2-l1c-n0400", offset=-0.1)
"""Sentinel-2 top of atmosphere from baseline 04.00 (25 January 2022) on: 1000 is reflectance 0."""
SENTINEL2_L2A = Sensor("s2-l2a", S2_L2A_BANDS, 1e-4, 0.0, RGB_RANGE, nodata=0)
"""Sentinel-2 surface reflectance before processing baseline 04.00 (or harmonised to it); it has no B10."""
SENTINEL2_L2A_N0400 = replace(SENTINEL2_L2A, name="s2-l2a-n0400", offset=-0.1)
"""Sentinel-2 surface reflectance from baseline 04.00 on: 1000 is reflectance 0."""
LANDSAT_C2_L1 = Sensor("landsat-c2-l1", LANDSAT_BANDS, 2e-5, -0.1, RGB_RANGE, nodata=0)
"""Landsat Collection 2 Level 1: top of atmosphere without the sun's elevation."""
LANDSAT_C2_L2 = Sensor("landsat-c2-l2", LANDSAT_BANDS, 2.75e-5, -0.2, RGB_RANGE, nodata=0)
"""Landsat Collection 2 Level 2 surface reflectance."""
SEN12MSCR_OPTICAL = replace(SENTINEL2_L1C, name="sen12mscr-optical")
"""The 13 optical bands as SEN12MS-CR weights take them: clip to 0..10000, over 2000."""
SEN12MSCR_SAR = Sensor("sar-db", ("VV", "VH"), 1.0, 0.0, SEN12MSCR_SAR_RANGE)
"""Sentinel-1 in decibels as SEN12MS-CR weights take it: VV from [-25, 0] and VH from [-35, 0] to 0..2."""

SENSORS = {
    sensor.name: sensor
    for sensor in (
        RGB8, REFLECTANCE, SENTINEL2_L1C, SENTINEL2_L1C_N0400, SENTINEL2_L2A, SENTINEL2_L2A_N0400,
        LANDSAT_C2_L1, LANDSAT_C2_L2,
    )
}  # fmt: skip
"""What `--sensor` accepts."""
