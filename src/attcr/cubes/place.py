"""A place on the Earth in the ways that people write one, and the grid of pixels over it."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attcr.errors import ConfigError
from attcr.extras import need, needed

with needed():
    from affine import Affine
    from rasterio.crs import CRS
    from rasterio.warp import transform, transform_bounds

Box = tuple[float, float, float, float]

RESOLUTION = 10.0
"""Metres of a pixel, where nothing else is asked for."""
TILE_METRES, TILE_SNAP = 109_800, 60
"""Side of a Sentinel-2 tile, and what its corner is a multiple of."""
FARTHEST_FROM_ZONE = 6.0
"""Degrees from the middle of its UTM zone up to which a place may reach."""
_BANDS = dict(
    zip(
        "CDEFGHJKLMNPQRSTUVWX",
        (11, 20, 28, 37, 46, 55, 64, 73, 82, 91, 0, 8, 17, 26, 35, 44, 53, 62, 70, 79),
        strict=True,
    )
)
"""The least northing of each latitude band, in 100 km."""


@dataclass(frozen=True)
class Place:
    """A place: a box in degrees, or one in metres of a projection."""

    text: str
    """As it was written."""
    box: Box
    """West, south, east, north in degrees."""
    crs: str = ""
    """The projection that it is a box in, where it is one; empty: degrees."""
    bounds: Box = (0.0, 0.0, 0.0, 0.0)
    """Left, bottom, right, top in that projection."""

    @classmethod
    def parse(cls, text: str) -> Place:
        """Read a place: `west,south,east,north`, `lat,lon,size` (metres), an MGRS tile, or a GeoJSON or GeoPackage."""
        if tile := re.fullmatch(r"T?(\d{1,2})([C-HJ-NP-X])([A-HJ-NP-Z])([A-HJ-NP-V])", text):
            return cls._of_tile(text, int(tile[1]), tile[2], tile[3], tile[4])
        numbers = _numbers(text)
        if numbers is None:
            return cls(text, checked(_box_of_file(Path(text)), text))
        if len(numbers) == 4:
            return cls(text, checked(tuple(numbers), text))
        if len(numbers) == 3:
            lat, lon, size = numbers
            if not 0 < size <= 5e6:
                raise ConfigError(f"The size in {text!r} is {size:g} m: write lat,lon,metres.")
            _check_point(lon, lat, text)
            crs, half = utm_of(lon, lat), size / 2
            (x,), (y,) = transform("EPSG:4326", crs, [lon], [lat])
            bounds = (x - half, y - half, x + half, y + half)
            return cls(text, checked(transform_bounds(crs, "EPSG:4326", *bounds), text), crs, bounds)
        raise ConfigError(f"{text!r} has {len(numbers)} numbers: write west,south,east,north or lat,lon,metres.")

    @classmethod
    def _of_tile(cls, text: str, zone: int, band: str, column: str, row: str) -> Place:
        """Give the 109.8 km of a tile as Sentinel-2 has them."""
        columns = ("ABCDEFGH", "JKLMNPQR", "STUVWXYZ")[(zone - 1) % 3]
        if not 1 <= zone <= 60 or column not in columns:
            raise ConfigError(f"There is no MGRS tile {text!r}: zone {zone} has the columns {columns}.")
        north = ("ABCDEFGHJKLMNPQRSTUV".index(row) - 5 * (zone % 2 == 0)) % 20
        while north < _BANDS[band]:
            north += 20
        left = (columns.index(column) + 1) * 100_000 // TILE_SNAP * TILE_SNAP
        top = -(-(north + 1) * 100_000 // TILE_SNAP) * TILE_SNAP
        crs = f"EPSG:{(327 if band < 'N' else 326)}{zone:02d}"
        bounds = (float(left), float(top - TILE_METRES), float(left + TILE_METRES), float(top))
        return cls(text, checked(transform_bounds(crs, "EPSG:4326", *bounds), text), crs, bounds)


def _numbers(text: str) -> list[float] | None:
    """Read numbers between commas; None where the text is something else."""
    try:
        numbers = [float(one) for one in text.split(",")]
    except ValueError:
        return None
    if len(numbers) == 1:
        return None
    if not all(map(math.isfinite, numbers)):
        raise ConfigError(f"{text!r} has a number that is none.")
    return numbers


def checked(box: Any, text: str) -> Box:
    """Give a box in degrees, or say what is wrong with it."""
    west, south, east, north = (float(one) for one in box)
    if not all(map(math.isfinite, (west, south, east, north))):
        raise ConfigError(f"{text!r} is no place in degrees: its box is {west:g},{south:g},{east:g},{north:g}.")
    for lon, lat in ((west, south), (east, north)):
        _check_point(lon, lat, text)
    if south >= north:
        raise ConfigError(
            f"In {text!r} the south {south:g} is not below the north {north:g}: write them in this order."
        )
    if west >= east:
        raise ConfigError(
            f"In {text!r} the west {west:g} is not left of the east {east:g}: write them in this order. A place over "
            "the 180th meridian is two cubes, one for each side."
        )
    if east - west > 180:
        raise ConfigError(f"{text!r} reaches around the Earth: a place over the 180th meridian is two cubes.")
    return west, south, east, north


def _check_point(lon: float, lat: float, text: str) -> None:
    if abs(lat) > 90 and abs(lon) <= 90:
        raise ConfigError(f"{text!r} has the latitude {lat:g}: are latitude and longitude swapped?")
    if abs(lon) > 180 or abs(lat) > 90:
        raise ConfigError(f"{text!r} is not on the Earth: longitude {lon:g}, latitude {lat:g}.")


def _box_of_file(path: Path) -> Box:
    """Give the box in degrees around all that a GeoJSON or GeoPackage file holds."""
    if not path.is_file():
        raise ConfigError(
            f"{str(path)!r} is no place and no file: write west,south,east,north, lat,lon,metres, an MGRS tile such as "
            "33UXQ, or name a GeoJSON or GeoPackage file."
        )
    if path.suffix.lower() in (".json", ".geojson"):
        try:
            points = list(_points(json.loads(path.read_text())))
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise ConfigError(f"{path} is not GeoJSON: {error}.") from error
        if not points:
            raise ConfigError(f"{path} has no geometry.")
        lon, lat = zip(*points, strict=True)
        return min(lon), min(lat), max(lon), max(lat)
    pyogrio = need("pyogrio")
    try:
        told = pyogrio.read_info(path, force_total_bounds=True)
    except Exception as error:  # its kinds are private
        raise ConfigError(f"{path} cannot be read: {str(error).splitlines()[0]}") from error
    bounds, crs = told["total_bounds"], told["crs"]
    if bounds is None or crs is None:
        raise ConfigError(f"{path} has no geometry, or no coordinate system.")
    west, south, east, north = transform_bounds(crs, "EPSG:4326", *bounds)
    return west, south, east, north


def _points(told: Any) -> Any:
    """Give every point of what is GeoJSON."""
    kind = told["type"]
    if kind == "FeatureCollection":
        for one in told["features"]:
            yield from _points(one)
    elif kind == "Feature":
        yield from _points(told["geometry"]) if told["geometry"] else ()
    elif kind == "GeometryCollection":
        for one in told["geometries"]:
            yield from _points(one)
    else:
        yield from _of_coordinates(told["coordinates"])


def _of_coordinates(told: Any) -> Any:
    if told and not isinstance(told[0], list):
        yield float(told[0]), float(told[1])
    else:
        for one in told:
            yield from _of_coordinates(one)


def utm_of(lon: float, lat: float) -> str:
    """Give the UTM projection of a point, as `EPSG:32633`; Norway and Svalbard have zones of their own."""
    zone = min(int((lon + 180) // 6), 59) + 1
    if 56 <= lat < 64 and 3 <= lon < 12:
        zone = 32
    if lat >= 72 and 0 <= lon < 42:
        zone = 31 + 2 * int((lon + 3) // 12)
    return f"EPSG:{326 if lat >= 0 else 327}{zone:02d}"


@dataclass(frozen=True)
class Grid:
    """A grid of pixels."""

    crs: str
    transform: Affine
    height: int
    width: int

    @classmethod
    def over(cls, place: Place, resolution: float = RESOLUTION, crs: str | None = None) -> Grid:
        """Give the grid over a place: in the UTM zone of its middle, with pixels on multiples of their size."""
        west, south, east, north = place.box
        lon, lat = (west + east) / 2, (south + north) / 2
        if not 0 < resolution <= 1e5:
            raise ConfigError(f"A pixel of {resolution:g} m is none: give a resolution such as 10.")
        told = crs or place.crs or utm_of(lon, lat)
        if not crs and not place.crs and max(east - lon, lon - west) > FARTHEST_FROM_ZONE:
            raise ConfigError(
                f"{place.text!r} is {east - west:.1f} degrees wide, too much for a UTM zone: give a `crs`."
            )
        if told == place.crs:
            bounds = place.bounds
        else:
            try:
                bounds = transform_bounds("EPSG:4326", CRS.from_user_input(told), *place.box)
            except Exception as error:  # rasterio's kinds for a wrong CRS and for a place outside it are several
                raise ConfigError(f"{place.text!r} cannot be put into {told}: {error}.") from error
        left, bottom, right, top = (one / resolution for one in bounds)
        first, last = math.floor(left + 1e-6), math.ceil(right - 1e-6)
        upper, lower = math.ceil(top - 1e-6), math.floor(bottom + 1e-6)
        at = Affine(resolution, 0, first * resolution, 0, -resolution, upper * resolution)
        return cls(told, at, max(upper - lower, 1), max(last - first, 1))

    @property
    def megapixels(self) -> float:
        """Its size."""
        return self.height * self.width / 1e6

    @property
    def bounds(self) -> Box:
        """Left, bottom, right, top in its projection."""
        t = self.transform
        return t.c, t.f + t.e * self.height, t.c + t.a * self.width, t.f

    @property
    def box(self) -> Box:
        """West, south, east, north in degrees."""
        west, south, east, north = transform_bounds(self.crs, "EPSG:4326", *self.bounds)
        return west, south, east, north

    def part(self, top: int, left: int, height: int, width: int) -> Grid:
        """Give some of its rows and columns, or those beside it."""
        t = self.transform
        return Grid(self.crs, Affine(t.a, t.b, t.c + left * t.a, t.d, t.e, t.f + top * t.e), height, width)
