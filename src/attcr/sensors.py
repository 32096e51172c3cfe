"""Products and bands: digital numbers <-> reflectance <-> the model's range.

Integers are digital numbers and floats are reflectance (decibels for SAR); this is the only file that turns
one into the other. Arrays are (C, H, W), one entry of the first axis per band of the sensor.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from attcr.errors import SceneError, ShapeError

Array = NDArray[Any]

S2_L1C_BANDS = ("B01", "B02", "B03", "B04", "B05", "B06", "B07", "B08", "B8A", "B09", "B10", "B11", "B12")
S2_L2A_BANDS = tuple(band for band in S2_L1C_BANDS if band != "B10")  # the L2A processor drops the cirrus band
LANDSAT_BANDS = ("B1", "B2", "B3", "B4", "B5", "B6", "B7")

RGB = ("red", "green", "blue")

# The names by which STAC and people know the bands, in the order above.
_S2_COMMON = (
    "coastal", "blue", "green", "red", "rededge1", "rededge2", "rededge3", "nir", "nir08", "nir09", "cirrus",
    "swir16", "swir22",
)  # fmt: skip
_LANDSAT_COMMON = ("coastal", "blue", "green", "red", "nir08", "swir16", "swir22")


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
    common: tuple[str, ...] = ()
    """What STAC and people call the bands, in the same order."""

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

    def unnamed(self) -> Sensor:
        """Give the same for bands that were picked already: how many and which is no more its matter."""
        return replace(self, bands=(), common=())

    def band(self, i: int) -> Sensor:
        """Give the same for the i-th band alone."""
        low, high = (numbers[i if len(numbers) > 1 else 0] for numbers in (self.range.low, self.range.high))
        return replace(self.unnamed(), range=ModelRange((low,), (high,), self.range.span))

    def to_model(self, values: Array) -> NDArray[np.float32]:
        """Give the model's float32 view of digital numbers (or float reflectance); NaN stays NaN."""
        self._check(values)
        working = np.result_type(values.dtype, np.float32)  # 8 and 16 bits are exact in float32, 32 in float64
        zero, unit = self.zero.astype(working), self.unit.astype(working)
        top = (self.zero + self.unit * self.range.span).astype(working)
        clipped: Array = np.clip(values.astype(working), zero, top)
        return np.asarray((clipped - zero) / unit, dtype=np.float32)

    def from_model(self, x: Array, dtype: DTypeLike) -> Array:
        """Give the values of `dtype` that `x` stands for; integers are rounded and held in range."""
        self._check(x)
        kind = np.dtype(dtype)
        values = x.astype(np.float64) * self.unit + self.zero
        return into_dtype(values, kind)

    def to_reflectance(self, values: Array) -> NDArray[np.float32]:
        """Give the reflectance (or dB) of digital numbers of any bands, not clipped."""
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


RGB8 = Sensor("rgb8", RGB, 1 / 255, 0.0, PICTURE_RANGE)
"""An 8-bit picture: 0..255 are the model's 0..1."""
REFLECTANCE = Sensor("reflectance", (), 1.0, 0.0, RGB_RANGE)
"""Floats that already are reflectance 0..1, any bands."""
PICTURE = Sensor("picture", (), 1.0, 0.0, PICTURE_RANGE)
"""Floats that are a picture's 0..1, white included, any bands."""
SENTINEL2_L1C = Sensor("s2-l1c", S2_L1C_BANDS, 1e-4, 0.0, SEN12MSCR_RANGE, 0, _S2_COMMON)
"""Sentinel-2 top of atmosphere before processing baseline 04.00 (or harmonised to it)."""
SENTINEL2_L1C_N0400 = replace(SENTINEL2_L1C, name="s2-l1c-n0400", offset=-0.1)
"""Sentinel-2 top of atmosphere from baseline 04.00 (25 January 2022) on: 1000 is reflectance 0."""
SENTINEL2_L2A = Sensor(
    "s2-l2a", S2_L2A_BANDS, 1e-4, 0.0, RGB_RANGE, 0, tuple(name for name in _S2_COMMON if name != "cirrus")
)
"""Sentinel-2 surface reflectance before processing baseline 04.00 (or harmonised to it); it has no B10."""
SENTINEL2_L2A_N0400 = replace(SENTINEL2_L2A, name="s2-l2a-n0400", offset=-0.1)
"""Sentinel-2 surface reflectance from baseline 04.00 on: 1000 is reflectance 0."""
LANDSAT_C2_L1 = Sensor("landsat-c2-l1", LANDSAT_BANDS, 2e-5, -0.1, RGB_RANGE, 0, _LANDSAT_COMMON)
"""Landsat Collection 2 Level 1: top of atmosphere without the sun's elevation."""
LANDSAT_C2_L2 = Sensor("landsat-c2-l2", LANDSAT_BANDS, 2.75e-5, -0.2, RGB_RANGE, 0, _LANDSAT_COMMON)
"""Landsat Collection 2 Level 2 surface reflectance."""
SEN12MSCR_OPTICAL = replace(SENTINEL2_L1C, name="sen12mscr-optical")
"""The 13 optical bands as SEN12MS-CR weights take them: clip to 0..10000, over 2000."""
SEN12MSCR_SAR = Sensor("sar-db", ("VV", "VH"), 1.0, 0.0, SEN12MSCR_SAR_RANGE)
"""Sentinel-1 in decibels as SEN12MS-CR weights take it: VV from [-25, 0] and VH from [-35, 0] to 0..2."""

SENSORS = {
    sensor.name: sensor
    for sensor in (
        RGB8, PICTURE, REFLECTANCE, SENTINEL2_L1C, SENTINEL2_L1C_N0400, SENTINEL2_L2A, SENTINEL2_L2A_N0400,
        LANDSAT_C2_L1, LANDSAT_C2_L2,
    )
}  # fmt: skip
"""What `--sensor` accepts."""


def recognise(
    hints: Mapping[str, str], dtype: DTypeLike, scales: Sequence[float], offsets: Sequence[float]
) -> Sensor | None:
    """Tell the product from what a scene says about itself, or None where it does not say.

    `hints` has "name" (file names), and may have the tags PROCESSING_BASELINE, PROCESSING_LEVEL and
    PRODUCT_URI, and "offset_applied" ("true" where a provider already took Sentinel-2's offset out).
    """
    kind = np.dtype(dtype).kind
    if kind == "f":
        return REFLECTANCE
    if np.dtype(dtype) == np.uint8:
        return RGB8
    product = _recognise_product(hints)
    if set(scales) != {1.0} and len(set(scales)) == 1 and len(set(offsets)) == 1:
        # The file's own scale and offset rule over what its name lets one guess.
        base = product or replace(REFLECTANCE, name="scaled by its tags")
        return replace(base, scale=scales[0], offset=offsets[0])
    return product


def _recognise_product(hints: Mapping[str, str]) -> Sensor | None:
    text = f"{hints.get('PRODUCT_URI', '')} {hints.get('LANDSAT_PRODUCT_ID', '')} {hints.get('name', '')}"
    sentinel = re.search(r"MSIL(1C|2A)_\d{8}T\d{6}_N(\d{4})", text)
    level = sentinel.group(1) if sentinel else hints.get("PROCESSING_LEVEL", "")[-2:].upper()
    baseline = sentinel.group(2) if sentinel else hints.get("PROCESSING_BASELINE", "").replace(".", "")
    if level in ("1C", "2A") and baseline.isdigit():
        shifted = int(baseline) >= 400 and hints.get("offset_applied") != "true"
        if level == "1C":
            return SENTINEL2_L1C_N0400 if shifted else SENTINEL2_L1C
        return SENTINEL2_L2A_N0400 if shifted else SENTINEL2_L2A
    landsat = re.search(r"L[COTEM]0[4-9]_L([12])\w{2}_\d{6}_\d{8}_\d{8}_02_", text)
    if landsat:
        return LANDSAT_C2_L1 if landsat.group(1) == "1" else LANDSAT_C2_L2
    return None


def model_range(sensor: Sensor, channels: int) -> Sensor:
    """Give the sensor for weights of so many optical channels: 13 are SEN12MS-CR's, others saw pictures."""
    if channels == len(S2_L1C_BANDS):
        return sensor.into(SEN12MSCR_RANGE)
    return sensor.into(PICTURE_RANGE if sensor.range == PICTURE_RANGE else RGB_RANGE)


def pick_bands(sensor: Sensor, names: Sequence[str], channels: int, asked: Sequence[str] | None = None) -> list[int]:
    """Say which of a scene's bands (by name, "" where unnamed) go into weights of so many channels, in order.

    `asked` are the user's own choice, by name or by number from 1.
    """
    listed = " ".join(name or "?" for name in names[:20]) + (" ..." if len(names) > 20 else "")
    if asked is not None:
        if len(asked) != channels:
            raise SceneError(f"--bands names {len(asked)} bands and the weights take {channels}: name {channels}.")
        return [_find(sensor, names, name, listed) for name in asked]
    if channels == len(S2_L1C_BANDS):
        if sensor.bands == S2_L2A_BANDS:
            raise SceneError(
                f"The scene is {sensor.name}, which has no cirrus band B10, and the weights take the 13 "
                "bands of L1C: give the L1C product of the same date, or weights for RGB."
            )
        wanted: Sequence[str] = S2_L1C_BANDS
    elif channels == 3:
        wanted = RGB
    else:
        wanted = ()
    if not any(names) and len(names) == len(sensor.bands):
        names = sensor.bands
    if len(names) == channels and (not wanted or not any(names)):
        return list(range(channels))
    if not wanted or len(names) < channels:
        raise SceneError(
            f"The scene has {len(names)} bands ({listed}) and the weights take {channels}"
            f"{' (' + ' '.join(wanted) + ')' if wanted else ''}: give a scene that has them, or other "
            "weights."
        )
    return [_find(sensor, names, name, listed) for name in wanted]


def find_bands(sensor: Sensor, names: Sequence[str], wanted: Sequence[str]) -> list[int] | None:
    """Say where these bands are among a scene's, or None where one is missing."""
    if not any(names) and len(names) == len(sensor.bands):
        names = sensor.bands
    found = [_position(sensor, names, name) for name in wanted]
    return None if None in found else [at for at in found if at is not None]


def check_values(sensor: Sensor, values: Array, valid: NDArray[np.bool_]) -> None:
    """Refuse values that cannot be what the sensor says: the wrong scaling is worse than none."""
    kind, choices = values.dtype, f"--sensor is one of {', '.join(SENSORS)}."
    if sensor.name in (REFLECTANCE.name, PICTURE.name) and kind.kind != "f":
        raise SceneError(f"The scene holds {kind} numbers and {sensor.name} is float 0..1: name the product; {choices}")
    if sensor.name == RGB8.name and kind != np.uint8:
        raise SceneError(f"The scene holds {kind} numbers and rgb8 is 0..255 in uint8: name the product; {choices}")
    counted = sensor.bands in (S2_L1C_BANDS, S2_L2A_BANDS, LANDSAT_BANDS)
    if counted and (kind.kind == "f" or kind.itemsize == 1):
        instead = "reflectance" if kind.kind == "f" else "rgb8"
        raise SceneError(
            f"The scene holds {kind} values and {sensor.name} is digital numbers of 16 bits: if these "
            f"were scaled already, say --sensor {instead}."
        )
    seen = values[valid]
    if not seen.size:
        return
    top = float(np.percentile(seen, 99.9))
    if sensor.name in (REFLECTANCE.name, PICTURE.name) and top > 10:
        raise SceneError(
            f"The scene holds floats up to {top:g} and reflectance is 0..1: these look like digital "
            "numbers, so convert them to integers with gdal_translate -ot UInt16 and name the product "
            "with --sensor."
        )
    if counted and top <= 255:
        raise SceneError(
            f"The scene's values end at {top:g} and {sensor.name} goes to 10000 and more: this looks like "
            "a picture of 8 bits, so convert it with gdal_translate -ot Byte and say --sensor rgb8."
        )
    if counted and sensor.offset < 0 and float(np.mean(seen * sensor.scale + sensor.offset < 0)) > 0.5:
        raise SceneError(
            f"More than half of the scene's values are below reflectance 0 as {sensor.name}: its offset of "
            f"{sensor.offset:g} was already taken out, or never put in; say --sensor with the plain product."
        )


def _find(sensor: Sensor, names: Sequence[str], wanted: str, listed: str) -> int:
    at = _position(sensor, names, wanted)
    if at is None:
        raise SceneError(
            f"Band {wanted} is not among the scene's {len(names)} bands ({listed}): give a scene that has "
            "it, or choose by name or number with --bands."
        )
    return at


def _position(sensor: Sensor, names: Sequence[str], wanted: str) -> int | None:
    if wanted.isdigit():
        return int(wanted) - 1 if 1 <= int(wanted) <= len(names) else None
    keys = {_key(wanted)}
    for band, common in zip(sensor.bands, sensor.common, strict=False):
        if _key(wanted) in (_key(band), common):
            keys |= {_key(band), common}
    found = next((i for i, name in enumerate(names) if _key(name) in keys), None)
    if found is None and not sensor.common:  # the product is unknown, but these spellings are one product's only
        full = {common: {band} for band, common in zip(S2_L1C_BANDS, _S2_COMMON, strict=True)}
        for band, common in zip(LANDSAT_BANDS, _LANDSAT_COMMON, strict=True):
            full[common].add(f"SR_{band}")
        spelt = full.get(wanted.lower(), set())
        found = next((i for i, name in enumerate(names) if name.upper() in spelt), None)
    return found


def _key(name: str) -> str:
    """Bring B04, b4, SR_B4 and "B4, central wavelength 665 nm" to one spelling; words to lower case."""
    first = re.split(r"[ ,]", name.strip())[0].lower().removeprefix("sr_")
    number = re.fullmatch(r"b0*(\d+)(a?)", first)
    return f"b{number.group(1)}{number.group(2)}" if number else first
