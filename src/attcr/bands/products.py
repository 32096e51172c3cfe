"""Products and bands: which sensor a scene is of by what it says about itself, and which of its bands is which."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import DTypeLike

from attcr.bands.sensors import (
    LANDSAT_BANDS,
    LANDSAT_C2_L1,
    LANDSAT_C2_L2,
    LANDSAT_COMMON,
    LANDSAT_TM_C2_L2,
    LANDSAT_WAVELENGTHS,
    REFLECTANCE,
    RGB,
    RGB8,
    S2_COMMON,
    S2_L1C_BANDS,
    S2_WAVELENGTHS,
    SENTINEL2_L1C,
    SENTINEL2_L1C_N0400,
    SENTINEL2_L2A,
    SENTINEL2_L2A_N0400,
    Sensor,
)

BAND_IN_NAME = re.compile(r"(?:^|[_/\\])(B(?:\d{1,2}|8A)|SCL|QA_PIXEL)(?:_\d+m)?\.\w+$", re.IGNORECASE)
"""The band at the end of a band file's name: _B04_10m.jp2, _SR_B4.TIF, B04.tif."""
COMMON_WAVELENGTHS = dict(zip(S2_COMMON, S2_WAVELENGTHS, strict=True))
"""Nanometres of the bands by their common names."""
SENTINEL2_NAMES = (
    r"MSIL(?P<level>1C|2A)_(?P<day>\d{8})T\d{6}(?:_N(?P<baseline>\d{4}))?",
    r"(?<!\w)L(?P<level>1C|2A)_T\d{2}[A-Z]{3}(?:_A\d{6})?_(?P<day>\d{8})T\d{6}",
    r"(?<!\w)S2[A-D]_\d{2}[A-Z]{3}_\d{8}_\d_L(?P<level>1C|2A)",
    r"(?<!\w)T\d{2}[A-Z]{3}_(?P<day>\d{8})T\d{6}_B\w{2}(?P<size>_\d0m)?\.",
)
"""How ESA names a product, a granule and a band file, and Earth Search a product; the first that is found counts. Of
ESA's own names only those of L2A's band files end in a size, and the day tells whether 1000 was added."""
FIRST_DAY_OF_N0400 = "20220125"
SENTINEL2 = {
    ("1C", False): SENTINEL2_L1C,
    ("1C", True): SENTINEL2_L1C_N0400,
    ("2A", False): SENTINEL2_L2A,
    ("2A", True): SENTINEL2_L2A_N0400,
}
"""Sentinel-2 by its level, and by whether 1000 was added to its numbers."""


def recognise(
    hints: Mapping[str, str], dtype: DTypeLike, scales: Sequence[float] = (1.0,), offsets: Sequence[float] = (0.0,)
) -> Sensor | None:
    """Tell the product from what an image says about itself, or None where it does not say."""
    found = candidates(hints, dtype, scales, offsets)
    return found[0] if len(found) == 1 else None


def candidates(
    hints: Mapping[str, str],
    dtype: DTypeLike,
    scales: Sequence[float],
    offsets: Sequence[float],
    bands: Sequence[str] = (),
    is_dark: Callable[[], bool] = lambda: False,
) -> tuple[Sensor, ...]:
    """Give the products that a scene can be of: one where it says which, and none where it says nothing at all.

    `hints` has "name" (file names), and may have the tags PROCESSING_BASELINE, PROCESSING_LEVEL and
    PRODUCT_URI, and "offset_applied" ("true" where a provider already took Sentinel-2's offset out). `bands` are the
    names of its bands and of masks that came with them. `is_dark` looks at the values, and is asked only where names
    and tags leave open whether 1000 was added to them: it says that they are too small for that.
    """
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return (REFLECTANCE,)
    if kind == np.uint8:
        return (RGB8,)
    scaled = one_scale(scales, offsets)
    found = _products(hints, bands if kind == np.uint16 else (), is_dark if not scaled else lambda: False)
    if scaled:
        # The file's own scale and offset rule over what its name lets one guess.
        told = len({product.product for product in found}) == 1
        base = found[0] if told else replace(REFLECTANCE, name="scaled by its tags")
        return (replace(base, scale=scales[0], offset=offsets[0]),)
    return found


def one_scale(scales: Sequence[float], offsets: Sequence[float]) -> bool:
    """Say whether a file has a scale of its own, one for all bands."""
    return set(scales) != {1.0} and len(set(scales)) == 1 and len(set(offsets)) == 1


def as_stored(sensor: Sensor, dtype: DTypeLike, scales: Sequence[float], offsets: Sequence[float]) -> Sensor:
    """Give the product that a user named as a file of this type holds it.

    Reflectance in integers has the file's own scale and offset; without them, 10000 is 1 in 16 bits or more.
    """
    kind = np.dtype(dtype)
    if sensor != REFLECTANCE or kind.kind == "f":
        return sensor
    if one_scale(scales, offsets):
        return replace(sensor, scale=scales[0], offset=offsets[0])
    return replace(sensor, scale=1e-4) if kind.itemsize > 1 else sensor


def could_be_picture(sensor: Sensor, hints: Mapping[str, str], names: Sequence[str]) -> bool:
    """Say whether floats that are taken for reflectance may be a picture's: three colours of no product."""
    colours = {"", *RGB}
    return (
        sensor == REFLECTANCE
        and len(names) == len(RGB)
        and {name.lower() for name in names} <= colours
        and not _products(hints, (), lambda: False)
    )


def _products(hints: Mapping[str, str], bands: Sequence[str], is_dark: Callable[[], bool]) -> tuple[Sensor, ...]:
    text = f"{hints.get('PRODUCT_URI', '')} {hints.get('LANDSAT_PRODUCT_ID', '')} {hints.get('name', '')}"
    landsat = _landsat(text, bands)
    if landsat:
        return (landsat,)
    matches = (re.search(form, text) for form in SENTINEL2_NAMES)
    named = next((match.groupdict() for match in matches if match), {})
    level = named.get("level") or hints.get("PROCESSING_LEVEL", "")[-2:].upper()
    baseline = named.get("baseline") or hints.get("PROCESSING_BASELINE", "").replace(".", "")
    spelt = [_key(name) for name in bands]
    padded = any(re.match(r" *B0\d\b", name) for name in bands)
    if not named and "b8a" not in spelt and not padded and not (level in ("1C", "2A") and baseline.isdigit()):
        return ()
    levels = {level} & {"1C", "2A"} or _levels(spelt, named) or {"1C", "2A"}
    applied = hints.get("offset_applied") == "true"
    if applied or baseline.isdigit():
        shifts = {not applied and int(baseline) >= 400}
    elif is_dark():
        shifts = {False}
    else:
        shifts = {True} if (named.get("day") or "") >= FIRST_DAY_OF_N0400 else {False, True}
    return tuple(SENTINEL2[level, shift] for level in sorted(levels) for shift in sorted(shifts))


def _levels(spelt: Sequence[str], named: Mapping[str, str | None]) -> set[str]:
    """Give the levels of Sentinel-2 that its bands, and ESA's name of a band file, tell of."""
    told = set()
    if "b10" in spelt:
        told.add("1C")
    if "scl" in spelt or {_key(band) for band in S2_L1C_BANDS} - set(spelt) == {"b10"}:
        told.add("2A")
    if "size" in named:
        told.add("2A" if named["size"] else "1C")
    return told


def _landsat(text: str, bands: Sequence[str]) -> Sensor | None:
    """Tell a Landsat product of Collection 2; Level 1 of 4, 5 and 7 is radiance whose gains are in its MTL file."""
    product = re.search(r"L[COTEM]0([4-9])_L([12])\w{2}_\d{6}_\d{8}(?:_\d{8}_(\d{2})_)?", text)
    if product:
        satellite, level, collection = product.groups()
        # Collection 1 had neither Level 2 nor Landsat 9, so that a shortened name of these is of Collection 2.
        if collection == "02" or (collection is None and (level == "2" or satellite == "9")):
            if satellite in "89":
                return LANDSAT_C2_L1 if level == "1" else LANDSAT_C2_L2
            return LANDSAT_TM_C2_L2 if level == "2" else None
        return None
    # Of Level 2 only Landsat 8 and 9 have a reflectance band 6, and only Collection 2 calls it so.
    if bands and re.search(r"(?<![A-Z])SR_B6(?!\d)", f"{text} {' '.join(bands)}"):
        return LANDSAT_C2_L2
    return None


def find_bands(sensor: Sensor, names: Sequence[str], wanted: Sequence[str]) -> list[int] | None:
    """Say where these bands are among a scene's, or None where one is missing."""
    names = band_names(sensor, names)
    found = [find_band(sensor, names, name) for name in wanted]
    return None if None in found else [at for at in found if at is not None]


def band_names(sensor: Sensor, names: Sequence[str]) -> Sequence[str]:
    """Give a scene's band names; those of its product where it names none and has as many."""
    return sensor.bands if not any(names) and len(names) == len(sensor.bands) else names


def wavelength_of(sensor: Sensor, name: str) -> float | None:
    """Give the centre of a scene's band in nanometres, by its product, its common name or its own words."""
    told = re.search(r"(?<!\d)(\d{3,4}(?:\.\d+)?) ?nm\b", name)
    if told:
        return float(told.group(1))
    for band, common, nm in zip(sensor.bands, sensor.common, sensor.wavelengths, strict=True):
        if _key(name) in (_key(band), common):
            return nm
    if sensor.bands:
        return None
    full = {band.lower(): nm for band, nm in zip(S2_L1C_BANDS, S2_WAVELENGTHS, strict=True)}
    full |= {f"sr_{band.lower()}": nm for band, nm in zip(LANDSAT_BANDS, LANDSAT_WAVELENGTHS, strict=True)}
    return (full | COMMON_WAVELENGTHS).get(name.lower())


def find_band(sensor: Sensor, names: Sequence[str], wanted: str) -> int | None:
    """Say where a band, by its name, its common name or its number from 1, is among a scene's."""
    if wanted.isdigit():
        return int(wanted) - 1 if 1 <= int(wanted) <= len(names) else None
    keys = {_key(wanted)}
    for band, common in zip(sensor.bands, sensor.common, strict=False):
        if _key(wanted) in (_key(band), common):
            keys |= {_key(band), common}
    found = next((i for i, name in enumerate(names) if _key(name) in keys), None)
    if found is None and not sensor.bands:  # the product is unknown, but these spellings are one product's only
        full = {common: {band} for band, common in zip(S2_L1C_BANDS, S2_COMMON, strict=True)}
        for band, common in zip(LANDSAT_BANDS, LANDSAT_COMMON, strict=True):
            full[common].add(f"SR_{band}")
        spelt = full.get(wanted.lower(), set())
        found = next((i for i, name in enumerate(names) if name.upper() in spelt), None)
    return found


def _key(name: str) -> str:
    """Bring B04, b4, SR_B4 and "B4, central wavelength 665 nm" to one spelling; words to lower case."""
    first = re.split(r"[ ,]", name.strip())[0].lower().removeprefix("sr_")
    number = re.fullmatch(r"b0*(\d+)(a?)", first)
    return f"b{number.group(1)}{number.group(2)}" if number else first
