"""Where acquisitions come from: what a STAC API calls things, and what its numbers mean. Bands have their common names.

A source of one's own is a file of a few lines (TOML):

    api = "https://stac.example.org/v1"
    collection = "s2-l2a"
    mask = ["SCL", "scl"]
    by_baseline = true
    [bands]
    red = "B04"
    nir = "B08"
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

from attcr.bands.sensors import LANDSAT_C2_L2, SENTINEL2_L2A, SENTINEL2_L2A_N0400, Sensor
from attcr.errors import ConfigError
from attcr.extras import need

Mask = Literal["scl", "qa_pixel", "fmask", ""]
Signing = Literal["none", "planetary-computer"]
MASKS: tuple[Mask, ...] = ("scl", "qa_pixel", "fmask", "")
WITH_OFFSET = 4.0
"""The processing baseline from which on Sentinel-2's numbers have 1000 added."""


@dataclass(frozen=True)
class Source:
    """A collection of a STAC API, and how its items are read."""

    name: str
    """What people call it."""
    api: str
    """Address of the API."""
    collection: str
    bands: Mapping[str, str]
    """Asset of each band, by the band's common name. `SR_10m/b02` is the array b02 in the Zarr group that SR_10m is."""
    mask: tuple[str, Mask] = ("", "")
    """The asset that says where cloud is, and how it is read."""
    scale: float = 1e-4
    """Reflectance of a step of the numbers."""
    offset: float = 0.0
    """Reflectance of number 0."""
    nodata: float = 0
    """The number that stands for nothing."""
    dtype: str = "uint16"
    by_baseline: bool = False
    """Whether the offset is Sentinel-2's: -0.1 from baseline 04.00 on, unless an item says that it was taken out."""
    signed: Signing = "none"
    """Who signs addresses before they are read."""
    requests: int = 8
    """How many requests the provider takes at once."""
    account: str = ""
    """What a user needs beforehand; empty where no account is needed."""

    def __post_init__(self) -> None:
        if not re.match(r"https?://[^\s/]+", self.api) or not self.collection or not self.bands:
            raise ConfigError(
                f"The source {self.name!r} needs an api (https://...), a collection, and its bands by common name."
            )
        if self.mask[1] not in MASKS or bool(self.mask[0]) != bool(self.mask[1]):
            raise ConfigError(
                f"The mask of source {self.name!r} is {self.mask}; expected an asset and how it is read: "
                f"{', '.join(filter(None, MASKS))}."
            )
        if not self.scale > 0 or self.requests < 1:
            raise ConfigError(f"The source {self.name!r} needs a scale above 0 and at least one request at once.")

    def sensor(self, offset: float) -> Sensor:
        """Give what turns its numbers into reflectance, where number 0 is so much."""
        return Sensor(self.name, (), self.scale, offset, self.nodata)

    def offset_of(self, properties: Mapping[str, Any]) -> float:
        """Give the reflectance of number 0 in an item with these properties."""
        if not self.by_baseline:
            return self.offset
        told = str(properties.get("s2:processing_baseline") or properties.get("processing:version") or "")
        baseline = re.match(r"(\d{1,2})\.?(\d\d)", told)
        late = baseline is not None and float(f"{baseline[1]}.{baseline[2]}") >= WITH_OFFSET
        taken_out = properties.get("earthsearch:boa_offset_applied") is True
        return SENTINEL2_L2A_N0400.offset if late and not taken_out else SENTINEL2_L2A.offset

    def choose(self, bands: Sequence[str]) -> tuple[str, ...]:
        """Give the bands that were asked for, or all; refuse one that it does not have."""
        absent = [name for name in bands if name not in self.bands]
        if absent:
            raise ConfigError(f"{self.name} has no band {' '.join(absent)}; it has {' '.join(self.bands)}.")
        return tuple(dict.fromkeys(bands)) or tuple(self.bands)

    def sign(self, href: str) -> str:
        """Give an address as it is read."""
        if self.signed == "none":
            return href
        signed: str = need("planetary_computer").sign_url(href)
        return signed


def _numbered(names: str, form: str) -> dict[str, str]:
    """Give Sentinel-2's bands by common name, from `blue=02:10` and how an asset is called."""
    pairs = (one.split("=") for one in names.split())
    return {name: form.format(*told.split(":")) for name, told in pairs}


_S2 = (
    "blue=02:10 green=03:10 red=04:10 nir=08:10 rededge1=05:20 rededge2=06:20 rededge3=07:20 nir08=8A:20 "
    "swir16=11:20 swir22=12:20"
)
_HLS = "blue=02 green=03 red=04 nir08=8A swir16=11 swir22=12"
_S2_NAMES = tuple(one.partition("=")[0] for one in _S2.split())
_LANDSAT_NAMES = ("blue", "green", "red", "nir08", "swir16", "swir22")

SOURCES = {
    one.name: one
    for one in (
        Source(
            "earth-search",
            "https://earth-search.aws.element84.com/v1",
            "sentinel-2-l2a",
            {name: name for name in _S2_NAMES},
            ("scl", "scl"),
            by_baseline=True,
        ),
        Source(
            "planetary-computer",
            "https://planetarycomputer.microsoft.com/api/stac/v1",
            "sentinel-2-l2a",
            _numbered(_S2, "B{0}"),
            ("SCL", "scl"),
            by_baseline=True,
            signed="planetary-computer",
        ),
        Source(
            "cdse",
            "https://stac.dataspace.copernicus.eu/v1",
            "sentinel-2-l2a",
            _numbered(_S2, "B{0}_{1}m"),
            ("SCL_20m", "scl"),
            by_baseline=True,
            requests=4,
            account="S3 keys of the Copernicus Data Space in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, with "
            "AWS_S3_ENDPOINT=eodata.dataspace.copernicus.eu and AWS_VIRTUAL_HOSTING=FALSE",
        ),
        Source(
            "earthdata-hls",
            "https://cmr.earthdata.nasa.gov/stac/LPCLOUD",
            "HLSS30_2.0",
            _numbered(_HLS, "B{0}"),
            ("Fmask", "fmask"),
            nodata=-9999,
            dtype="int16",
            account="an Earthdata login in ~/.netrc, with GDAL_HTTP_COOKIEFILE and GDAL_HTTP_COOKIEJAR set",
        ),
        Source(
            "landsat-c2",
            "https://planetarycomputer.microsoft.com/api/stac/v1",
            "landsat-c2-l2",
            {name: name for name in _LANDSAT_NAMES},
            ("qa_pixel", "qa_pixel"),
            scale=LANDSAT_C2_L2.scale,
            offset=LANDSAT_C2_L2.offset,
            signed="planetary-computer",
        ),
        Source(
            "eopf",
            "https://stac.core.eopf.eodc.eu",
            "sentinel-2-l2a",
            {
                name: f"SR_{told.split(':')[1]}m/b{told.split(':')[0].lower()}"
                for name, told in (one.split("=") for one in _S2.split())
            },
            ("SCL_20m", "scl"),
            by_baseline=True,
        ),
    )
}
"""Sources by name."""


def open_source(text: str) -> Source:
    """Give a source by its name, from a TOML file, or of any API: `https://API#collection`.

    Assets of an API by address are called as Earth Search calls Sentinel-2's, or as Landsat's are where the collection
    has landsat in its name; for other names write a file.
    """
    if text in SOURCES:
        return SOURCES[text]
    if text.startswith(("http://", "https://")):
        api, _, collection = text.partition("#")
        like = "landsat-c2" if "landsat" in collection.lower() else "earth-search"
        if not collection:
            raise ConfigError(f"{text!r} names no collection: write https://API#collection.")
        return replace(SOURCES[like], name=collection, api=api, collection=collection, signed="none")
    if text.endswith(".toml"):
        return read_source(Path(text))
    raise ConfigError(
        f"There is no source {text!r}: expected one of {', '.join(SOURCES)}, https://API#collection, or a TOML file."
    )


def read_source(path: Path) -> Source:
    """Read a source from a TOML file."""
    import sys

    toml = need("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        told = toml.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} is not a source: {error}.") from error
    known = {one.name for one in fields(Source)}
    if unknown := sorted(set(told) - known):
        raise ConfigError(
            f"{path} says {', '.join(unknown)}, which a source does not have: {', '.join(sorted(known))}."
        )
    given = {"name": path.stem, **told}
    if "mask" in given:
        given["mask"] = tuple(given["mask"])
    try:
        return Source(**given)
    except TypeError as error:
        raise ConfigError(f"{path} is not a whole source: {error}.") from error
