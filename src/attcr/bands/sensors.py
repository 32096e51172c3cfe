"""Sensors: digital numbers <-> reflectance <-> the model's range.

Integers are digital numbers and floats are reflectance (decibels for SAR); this is the only file that turns
one into the other. Arrays are (C, H, W), one entry of the first axis per band of the sensor.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from attcr.errors import SceneError, ShapeError, warn

Array = NDArray[Any]

S2_L1C_BANDS = ("B01", "B02", "B03", "B04", "B05", "B06", "B07", "B08", "B8A", "B09", "B10", "B11", "B12")
S2_L2A_BANDS = tuple(band for band in S2_L1C_BANDS if band != "B10")  # the L2A processor drops the cirrus band
LANDSAT_BANDS = ("B1", "B2", "B3", "B4", "B5", "B6", "B7")
LANDSAT_TM_BANDS = ("B1", "B2", "B3", "B4", "B5", "B7")  # of Landsat 4, 5 and 7, whose B1 is blue and B4 near infrared

RGB = ("red", "green", "blue")

# The names by which STAC and people know the bands, in the order above.
S2_COMMON = (
    "coastal", "blue", "green", "red", "rededge1", "rededge2", "rededge3", "nir", "nir08", "nir09", "cirrus",
    "swir16", "swir22",
)  # fmt: skip
LANDSAT_COMMON = ("coastal", "blue", "green", "red", "nir08", "swir16", "swir22")

# Centres of the bands in nanometres, in the same order.
S2_WAVELENGTHS = (
    443.0, 490.0, 560.0, 665.0, 705.0, 740.0, 783.0, 842.0, 865.0, 945.0, 1375.0, 1610.0, 2190.0,
)  # fmt: skip
LANDSAT_WAVELENGTHS = (443.0, 482.0, 561.0, 655.0, 865.0, 1609.0, 2201.0)
LANDSAT_TM_WAVELENGTHS = (485.0, 560.0, 660.0, 830.0, 1650.0, 2215.0)


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
"""Of a picture, whose white is 1."""
SEN12MSCR_SAR_RANGE = ModelRange((-25.0, -35.0), (0.0, 0.0), 2.0)
"""Of the SEN12MS-CR weights' radar half: VV clipped to [-25, 0] dB and VH to [-35, 0] dB."""


@dataclass(frozen=True)
class Sensor:
    """How one product's values become the model's: `reflectance = value * scale + offset`, then the range."""

    name: str
    """What the option `sensor` calls it."""
    bands: tuple[str, ...]
    """Band names in product order; empty for a product of any bands."""
    scale: float
    """Reflectance (or dB) per digital number."""
    offset: float
    """Reflectance (or dB) of digital number 0."""
    nodata: float | None = None
    """The value that means "nothing here" by the product's own specification, where a file declares none."""
    common: tuple[str, ...] = ()
    """What STAC and people call the bands, in the same order."""
    wavelengths: tuple[float, ...] = ()
    """Centres of the bands in nanometres, in the same order."""
    picture: bool = False
    """Whether 1 is a picture's white instead of a reflectance."""
    surface: bool | None = None
    """Whether it is reflectance at the surface, or at the top of the atmosphere; None where nothing says."""
    wanted: ModelRange | None = None
    """What the model wants to see; None where the weights are to say it (`InputSpec.fit`)."""

    @property
    def range(self) -> ModelRange:
        """What the model wants to see: 0..1 where nobody said."""
        return self.wanted or PICTURE_RANGE

    @property
    def product(self) -> str:
        """What weights call the product: Sentinel-2 of every baseline is one, values scaled by tags are reflectance."""
        name = self.name.removesuffix("-n0400")
        return name if name in SENSORS else PICTURE.name if self.picture else REFLECTANCE.name

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
        return replace(self, wanted=range)

    def unnamed(self) -> Sensor:
        """Give the same for bands that were picked already: how many and which is no more its matter."""
        return replace(self, bands=(), common=(), wavelengths=())

    def band(self, i: int) -> Sensor:
        """Give the same for the i-th band alone."""
        low, high = (numbers[i if len(numbers) > 1 else 0] for numbers in (self.range.low, self.range.high))
        return replace(self.unnamed(), wanted=ModelRange((low,), (high,), self.range.span))

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

    def from_reflectance(self, values: Array) -> NDArray[np.float64]:
        """Give digital numbers of reflectance (or dB), not rounded."""
        return (values.astype(np.float64) - self.offset) / self.scale

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


RGB8 = Sensor("rgb8", RGB, 1 / 255, 0.0, common=RGB, wavelengths=(665.0, 560.0, 490.0), picture=True)
"""An 8-bit picture: 0..255 are the model's 0..1."""
REFLECTANCE = Sensor("reflectance", (), 1.0, 0.0)
"""Floats that already are reflectance 0..1, any bands."""
PICTURE = Sensor("picture", (), 1.0, 0.0, picture=True)
"""Floats that are a picture's 0..1, white included, any bands."""
SENTINEL2_L1C = Sensor("s2-l1c", S2_L1C_BANDS, 1e-4, 0.0, 0, S2_COMMON, S2_WAVELENGTHS, surface=False)
"""Sentinel-2 top of atmosphere before processing baseline 04.00 (or harmonised to it)."""
SENTINEL2_L1C_N0400 = replace(SENTINEL2_L1C, name="s2-l1c-n0400", offset=-0.1)
"""Sentinel-2 top of atmosphere from baseline 04.00 (25 January 2022) on: 1000 is reflectance 0."""
SENTINEL2_L2A = replace(
    SENTINEL2_L1C,
    name="s2-l2a",
    bands=S2_L2A_BANDS,
    common=tuple(name for name in S2_COMMON if name != "cirrus"),
    wavelengths=tuple(nm for nm in S2_WAVELENGTHS if nm != 1375.0),
    surface=True,
)
"""Sentinel-2 surface reflectance before processing baseline 04.00 (or harmonised to it); it has no B10."""
SENTINEL2_L2A_N0400 = replace(SENTINEL2_L2A, name="s2-l2a-n0400", offset=-0.1)
"""Sentinel-2 surface reflectance from baseline 04.00 on: 1000 is reflectance 0."""
LANDSAT_C2_L1 = Sensor(
    "landsat-c2-l1", LANDSAT_BANDS, 2e-5, -0.1, 0, LANDSAT_COMMON, LANDSAT_WAVELENGTHS, surface=False
)
"""Landsat 8 and 9, Collection 2 Level 1: top of atmosphere without the sun's elevation."""
LANDSAT_C2_L2 = replace(LANDSAT_C2_L1, name="landsat-c2-l2", scale=2.75e-5, offset=-0.2, surface=True)
"""Landsat 8 and 9, Collection 2 Level 2: surface reflectance."""
LANDSAT_TM_C2_L2 = replace(
    LANDSAT_C2_L2,
    name="landsat-tm-c2-l2",
    bands=LANDSAT_TM_BANDS,
    common=LANDSAT_COMMON[1:],
    wavelengths=LANDSAT_TM_WAVELENGTHS,
)
"""Landsat 4, 5 and 7, Collection 2 Level 2: surface reflectance."""

SENSORS = {
    sensor.name: sensor
    for sensor in (
        RGB8, PICTURE, REFLECTANCE, SENTINEL2_L1C, SENTINEL2_L1C_N0400, SENTINEL2_L2A, SENTINEL2_L2A_N0400,
        LANDSAT_C2_L1, LANDSAT_C2_L2, LANDSAT_TM_C2_L2,
    )
}  # fmt: skip
"""What the option `sensor` accepts."""


AIR, AIR_RED, NO_AIR, BELOW_0 = 0.06, 0.65, 0.05, -0.01
"""Reflectance of the darkest blue above which, and part of it below which the darkest red, shows the air of L1C; that
of the darkest blue below which L1C has none; and that of a tenth of red below which an offset was taken out twice.

Of 133 L1C and 196 L2A scenes none is warned of as what it is; as the other level, 95 and 189; with an offset that was
taken out before, 123 and 187. Bright deserts are not found out."""


def check_values(sensor: Sensor, values: Array, valid: NDArray[np.bool_]) -> None:
    """Refuse values that cannot be what the sensor says: the wrong scaling is worse than none."""
    kind, choices = values.dtype, f"`sensor` is one of {', '.join(SENSORS)}."
    plain = sensor in (REFLECTANCE, PICTURE)
    if plain and kind.kind != "f":
        raise SceneError(f"The scene holds {kind} numbers and {sensor.name} is float 0..1: name the product; {choices}")
    if sensor.name == RGB8.name and kind != np.uint8:
        raise SceneError(f"The scene holds {kind} numbers and rgb8 is 0..255 in uint8: name the product; {choices}")
    counted = sensor.bands in (S2_L1C_BANDS, S2_L2A_BANDS, LANDSAT_BANDS, LANDSAT_TM_BANDS)
    if counted and (kind.kind == "f" or kind.itemsize == 1):
        instead = "reflectance" if kind.kind == "f" else "rgb8"
        raise SceneError(
            f"The scene holds {kind} values and {sensor.name} is digital numbers of 16 bits: if these "
            f"were scaled already, say `sensor={instead}`."
        )
    seen = values[valid]
    if not seen.size:
        return
    top = float(np.percentile(seen, 99.9))
    if sensor.name == REFLECTANCE.name and kind.kind != "f" and top * sensor.scale + sensor.offset > 2:
        raise SceneError(
            f"The scene's values go up to {top:g}, which is reflectance {top * sensor.scale + sensor.offset:.1f} at "
            f"{sensor.scale:g} each: say what a number stands for with gdal_edit.py -scale."
        )
    if plain and top > 10:
        raise SceneError(
            f"The scene holds floats up to {top:g} and reflectance is 0..1: these look like digital "
            "numbers, so convert them to integers with gdal_translate -ot UInt16 and name the product "
            "with `sensor`."
        )
    if counted and top <= 255:
        raise SceneError(
            f"The scene's values end at {top:g} and {sensor.name} goes to 10000 and more: this looks like "
            "a picture of 8 bits, so convert it with gdal_translate -ot Byte and say `sensor=rgb8`."
        )
    if counted and sensor.offset < 0 and float(np.mean(seen * sensor.scale + sensor.offset < 0)) > 0.5:
        raise SceneError(
            f"More than half of the scene's values are below reflectance 0 as {sensor.name}: its offset of "
            f"{sensor.offset:g} was already subtracted, or never added; name the plain product with `sensor`."
        )


def check_floats(values: Array, valid: NDArray[np.bool_]) -> None:
    """Warn that floats of three bands are taken for reflectance, where nobody said what they are; refuse a picture.

    A picture's white is 1 and reflectance 0.36 is as bright: taken for the other, either comes out wrong. Values that
    are all whole 255ths are a picture's for sure.
    """
    found = values[valid]
    steps = found.astype(np.float64) * 255
    if found.size and np.abs(steps - np.rint(steps)).max() < 1e-3 and np.unique(np.rint(steps)).size > 2:
        raise SceneError(
            "The scene's values are multiples of 1/255, so they come from an 8-bit picture, not from reflectance: say "
            "`sensor=picture` (or `sensor=reflectance`, if you are sure)."
        )
    warn(
        "The scene does not say what its floats are, so they count as reflectance. If it is a picture, whose white is "
        "1, say `sensor=picture`; `sensor=reflectance` turns this warning off."
    )


def check_level(sensor: Sensor, blue: Array, red: Array) -> None:
    """Warn where Sentinel-2's numbers look like those of its other level, or as if their offset was taken out before.

    Air alone is blue at the top of the atmosphere, and half as bright in red; at the surface dark ground is dark in
    both. `blue` and `red` are numbers of valid pixels.
    """
    other = {SENTINEL2_L1C.name: SENTINEL2_L2A.name, SENTINEL2_L2A.name: SENTINEL2_L1C.name}.get(sensor.product)
    if other is None or not blue.size or not red.size:
        return
    seen_blue, seen_red = sensor.to_reflectance(blue), sensor.to_reflectance(red)
    if sensor.offset < 0 and np.percentile(seen_red, 10) < BELOW_0:
        warn(
            f"A tenth of the scene's red is below reflectance {BELOW_0:g} as {sensor.name}: its offset of "
            f"{sensor.offset:g} was probably subtracted before. If the result is too dark, say "
            f"`sensor={sensor.product}`."
        )
        return
    dark_blue, dark_red = np.percentile(seen_blue, 1), np.percentile(seen_red, 1)
    if (dark_blue > AIR and dark_red < AIR_RED * dark_blue) if sensor.surface else dark_blue < NO_AIR:
        looks = sensor.name.replace(sensor.product, other)
        warn(
            f"The darkest blue of the scene is {dark_blue:.3f} and the darkest red {dark_red:.3f} as {sensor.name}, "
            f"which is more like {looks}. If the result looks wrong, say `sensor={looks}`."
        )
