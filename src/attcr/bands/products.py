"""Products and bands: which sensor a scene is of by what it says about itself, and which of its bands is which."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
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

BAND_IN_NAME = re.compile(r"(?:^|_)(B(?:\d{1,2}|8A)|SCL|QA_PIXEL)(?:_\d+m)?\.\w+$", re.IGNORECASE)
"""The band at the end of a band file's name: _B04_10m.jp2, _SR_B4.TIF."""
COMMON_WAVELENGTHS = dict(zip(S2_COMMON, S2_WAVELENGTHS, strict=True))
"""Nanometres of the bands by their common names."""


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


def could_be_picture(sensor: Sensor, hints: Mapping[str, str], names: Sequence[str]) -> bool:
    """Say whether floats that are taken for reflectance may be a picture's: three colours of no product."""
    colours = {"", *RGB}
    return (
        sensor == REFLECTANCE
        and len(names) == len(RGB)
        and {name.lower() for name in names} <= colours
        and _recognise_product(hints) is None
    )


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
    landsat = re.search(r"L[COTEM]0([4-9])_L([12])\w{2}_\d{6}_\d{8}_\d{8}_02_", text)
    if landsat and landsat.group(1) in "89":
        return LANDSAT_C2_L1 if landsat.group(2) == "1" else LANDSAT_C2_L2
    if landsat and landsat.group(2) == "2":  # Level 1 of these is radiance whose gains are in its MTL file
        return LANDSAT_TM_C2_L2
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
