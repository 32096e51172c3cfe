"""Tiles, points and facts of a job's rasters, by titiler: a process of its own, for files come from anyone.

`python -m attcr.serve.tiles` is started by the server, and ends when the server does.
"""

import math
import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from affine import Affine
from numpy.typing import NDArray
from rasterio.crs import CRS
from rasterio.enums import Resampling
from rasterio.errors import NotGeoreferencedWarning
from rasterio.io import DatasetReader
from rasterio.vrt import WarpedVRT
from rasterio.warp import transform
from rio_tiler.colormap import cmap as colormaps
from rio_tiler.errors import TileOutsideBounds
from rio_tiler.io import Reader
from rio_tiler.models import ImageData
from titiler.core.resources.enums import ImageType
from titiler.core.utils import render_image

from attcr.addresses import is_item
from attcr.bands.products import band_names, find_bands
from attcr.bands.sensors import PICTURE, SENSORS
from attcr.bands.spec import shown_bands
from attcr.restore.walk import QUALITY_COLOURS
from attcr.scenes.dataset import gdal, open_dataset
from attcr.scenes.open import open_scene
from attcr.serve.limits import check_size
from attcr.serve.pool import hold_memory, read_requests, take_stdout
from attcr.serve.settings import Limits

WGS84, MERCATOR = CRS.from_epsg(4326), CRS.from_epsg(3857)
PIXEL = 10.0
"""Metres of a pixel of what says nothing about its place."""
SEEN = 512
"""Pixels along the side of what the stretch is found from."""
DEEPEST = 24
MEMORY = 4 << 30
"""Bytes that a process of these may have."""


SHOWN = {
    "true": (("red", "green", "blue"),),
    "false": (("nir", "red", "green"), ("nir08", "red", "green")),
    "swir": (("swir22", "nir", "red"), ("swir22", "nir08", "red")),
    "ndvi": (("nir", "red"), ("nir08", "red")),
}
"""What may be shown, and the bands that are red, green and blue then, the first that a scene has; of NDVI its two."""
NDVI = (-0.2, 0.9)
"""The vegetation index that is drawn as red, and as green."""


@dataclass(frozen=True)
class View:
    """What of a scene is shown, and where."""

    places: tuple[tuple[str, int], ...]
    """File and number of each band."""
    names: tuple[str, ...]
    shown: dict[str, tuple[int, ...]]
    """Which of the bands are red, green and blue, for each of what may be shown."""
    zero: float
    """The number of reflectance 0."""
    blank: bool
    """Whether a pixel of zeros is one without data, as in a satellite's product that does not say so."""
    alone: bool
    """Whether each band is stretched by itself."""
    dtype: str
    width: int
    height: int
    crs: str
    georeferenced: bool


@lru_cache(64)
def view_of(source: tuple[str, ...], sensor: str = "") -> View:
    """Look at a scene, as it came; its product may be named by an option of the job's."""
    with gdal(), open_scene(list(source), vrt="never") as scene:
        product = SENSORS[sensor] if sensor else next(iter(scene.products), PICTURE)  # these have the same bands
        names = [band.name for band in scene.bands]
        found = {kind: next(filter(None, (find_bands(product, names, w) for w in SHOWN[kind])), None) for kind in SHOWN}
        found["true"] = found["true"] or shown_bands(names)
        told = band_names(product, names)
        of_satellite = bool(product.bands) and not product.picture
        return View(
            places=tuple((band.href, band.index) for band in scene.bands),
            names=tuple(name or f"band {i}" for i, name in enumerate(told, 1)),
            shown={kind: tuple(bands) for kind, bands in found.items() if bands},
            zero=float(product.from_reflectance(np.zeros(1))[0]),
            alone=of_satellite,
            blank=of_satellite and scene.dtype.kind == "u" and all(band.nodata is None for band in scene.bands),
            dtype=str(scene.dtype),
            width=scene.width,
            height=scene.height,
            crs=":".join(scene.profile.crs.to_authority() or ()) if scene.profile.crs else "",
            georeferenced=scene.profile.crs is not None or bool(scene.profile.gcps[0]),
        )


@lru_cache(64)
def check_source(source: tuple[str, ...], sensor: str, limits: Limits) -> None:
    """Refuse a scene beyond the server's limits, before a pixel of it is read."""
    with gdal():
        for href in source:
            if not is_item(href):
                with open_dataset(href, "never") as raster:
                    check_size(Path(href).name, raster.width, raster.height, raster.count, limits)
    view = view_of(source, sensor)
    check_size(Path(source[0]).name, view.width, view.height, len(view.places), limits)


def _located(dataset: DatasetReader, stack: ExitStack) -> Any:
    """Give a raster with a place; one that has none is laid out at longitude and latitude 0."""
    if dataset.crs is not None or dataset.gcps[0]:
        return dataset
    place = Affine(PIXEL, 0, -PIXEL * dataset.width / 2, 0, -PIXEL, PIXEL * dataset.height / 2)
    size = {"width": dataset.width, "height": dataset.height}
    grids = {"src_crs": MERCATOR, "src_transform": place, "crs": MERCATOR, "transform": place}
    return stack.enter_context(WarpedVRT(dataset, **grids, **size))


class Opened(ExitStack):
    """Rasters that are open for one request."""

    def __init__(self) -> None:
        super().__init__()
        self.enter_context(gdal())
        self._found: dict[str, Any] = {}

    def __getitem__(self, path: str) -> Any:
        if path not in self._found:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", NotGeoreferencedWarning)
                self._found[path] = _located(self.enter_context(open_dataset(path, "never")), self)
        return self._found[path]


def _places(view: View, kind: str, result: str) -> list[tuple[str, int]]:
    """Give file and number of the shown bands: of the scene as it came, or of the result, which has them in order."""
    bands = view.shown.get(kind, view.shown["true"])
    return [(result, at + 1) if result else view.places[at] for at in bands]


def _stretch(view: View, kind: str, result: str, opened: Opened) -> tuple[tuple[float, float], ...]:
    """Give the 1st and 99th percentile of the shown bands, of the result where it is there.

    Of pictures all together; of a satellite's product each alone, or the air makes it blue.
    """
    seen = {}
    for path, index in dict.fromkeys(_places(view, kind, result)):
        dataset = opened[path]
        step = max(dataset.width, dataset.height) / SEEN
        shape = (max(int(dataset.height / max(step, 1)), 1), max(int(dataset.width / max(step, 1)), 1))
        values = dataset.read(index, out_shape=shape, masked=True)
        seen[path, index] = (values[values != 0] if view.blank else values).compressed().astype(np.float64)
    joined = np.concatenate(list(seen.values()))
    return tuple(_ends(seen[place] if view.alone else joined) for place in _places(view, kind, result))


def _ends(values: NDArray[np.float64]) -> tuple[float, float]:
    values = values[np.isfinite(values)]
    if not values.size:
        return 0.0, 1.0
    low, high = (float(value) for value in np.percentile(values, [1, 99]))
    return low, high if high > low else low + 1.0


@lru_cache(256)
def stretch_of(source: tuple[str, ...], sensor: str, kind: str, result: str) -> tuple[tuple[float, float], ...]:
    """Give the numbers that are shown as black and white, of red, green and blue."""
    with Opened() as opened:
        return _stretch(view_of(source, sensor), kind, result, opened)


def _read_tile(path: str, indexes: Sequence[int], at: tuple[int, int, int], size: int, opened: Opened) -> ImageData:
    with Reader(path, dataset=opened[path]) as reader:
        options: Any = {"tilesize": size, "resampling_method": "nearest", "reproject_method": "nearest"}
        image: ImageData = reader.tile(*at, indexes=tuple(indexes), **options)
        return image


def picture_tile(
    source: tuple[str, ...], result: str, sensor: str, *, kind: str, after: bool, at: tuple[int, int, int], size: int
) -> bytes:
    """Give a tile of the scene as it came, or of the result, as PNG."""
    view = view_of(source, sensor)
    with Opened() as opened:
        places = _places(view, kind, result if after else "")
        planes: dict[tuple[str, int], Any] = {}
        for path in dict.fromkeys(path for path, _ in places):  # all of a file at once: each call warps all its bands
            wanted = list(dict.fromkeys(index for name, index in places if name == path))
            one = _read_tile(path, wanted, at, size, opened)
            planes |= {(path, index): plane for index, plane in zip(wanted, one.array, strict=True)}
        bands = np.ma.stack([planes[place] for place in places])
        nothing = np.ma.getmaskarray(bands) | (bands.data == 0) if view.blank else np.ma.getmaskarray(bands)
        values, (low, high), colours = bands.data.astype(np.float64), np.array([NDVI]).T, None
        if kind == "ndvi" and kind in view.shown:
            (nir, red), colours = values - view.zero, colormaps.get("rdylgn")
            values = np.divide(nir - red, nir + red, out=np.zeros_like(red), where=nir + red > 0)[None]
        else:
            low, high = np.array(stretch_of(source, sensor, kind, result)).T[:, :, None, None]
        share = np.nan_to_num((values - low) / (high - low), posinf=1, neginf=0)
        drawn = (np.clip(share, 0, 1) * 255).astype(np.uint8)
        hidden = np.broadcast_to(nothing.all(axis=0), drawn.shape)
        image = ImageData(np.ma.MaskedArray(drawn, hidden))
        return bytes(render_image(image, colormap=colours, output_format=ImageType.png)[0])


def quality_tile(path: str, at: tuple[int, int, int], size: int) -> bytes:
    """Give a tile of the classes in their colours, as PNG."""
    with Opened() as opened:
        one = _read_tile(path, [1], at, size, opened)
        colours: Any = {value: QUALITY_COLOURS.get(value, (0, 0, 0, 0)) for value in range(256)}
        content, _ = render_image(one, colormap=colours, output_format=ImageType.png)
        return bytes(content)


@lru_cache(4)
def empty_tile(size: int) -> bytes:
    """Give a tile in which nothing is."""
    nothing = np.ma.MaskedArray(np.zeros((3, size, size), np.uint8), True)
    return bytes(render_image(ImageData(nothing), output_format=ImageType.png)[0])


def info(source: tuple[str, ...], sensor: str, result: str) -> dict[str, Any]:
    """Give where a scene is, and what its bands are."""
    view = view_of(source, sensor)
    with Opened() as opened:
        finest = max({path for path, _ in view.places}, key=lambda path: opened[path].width)
        with Reader(finest, dataset=opened[finest]) as reader:
            bounds = [float(edge) for edge in reader.get_geographic_bounds(WGS84)]
            zooms = reader.minzoom, reader.maxzoom
    return {
        "bounds": bounds,
        "center": [(bounds[0] + bounds[2]) / 2, (bounds[1] + bounds[3]) / 2],
        "minzoom": zooms[0],
        "maxzoom": min(zooms[1] + 2, DEEPEST),
        "georeferenced": view.georeferenced,
        "crs": view.crs,
        "width": view.width,
        "height": view.height,
        "bands": list(view.names),
        "dtype": view.dtype,
        "shown": [view.names[at] for at in view.shown["true"]],
        "shows": {kind: [view.names[at] for at in bands] for kind, bands in view.shown.items()},
        "stretch": [list(ends) for ends in stretch_of(source, sensor, "true", result)],
    }


def _pixel(dataset: Any, lon: float, lat: float) -> tuple[int, int] | None:
    """Give row and column of a place, if it is in a raster."""
    with ExitStack() as stack:
        if dataset.crs is None:  # located by control points
            dataset = stack.enter_context(WarpedVRT(dataset, src_crs=dataset.gcps[1], resampling=Resampling.nearest))
        xs, ys = transform(WGS84, dataset.crs, [lon], [lat])
        if not (math.isfinite(xs[0]) and math.isfinite(ys[0])):
            return None
        col, row = ~dataset.transform * (xs[0], ys[0])
        inside = 0 <= row < dataset.height and 0 <= col < dataset.width
        return (math.floor(row), math.floor(col)) if inside else None


def _value(dataset: Any, index: int, at: tuple[int, int]) -> float | int | None:
    window = rasterio.windows.Window(at[1], at[0], 1, 1)
    number = dataset.read(index, window=window)[0, 0].item()
    return None if isinstance(number, float) and not math.isfinite(number) else number


def point(source: tuple[str, ...], sensor: str, files: dict[str, str], lon: float, lat: float) -> dict[str, Any] | None:
    """Give the numbers at a place before and after, its class and date; None where it is outside."""
    view = view_of(source, sensor)
    with Opened() as opened:
        before, where = [], None
        for path, index in view.places:
            at = _pixel(opened[path], lon, lat)
            if at is None:
                return None
            before.append(_value(opened[path], index, at))
            if opened[path].width == view.width:
                where = at
        assert where is not None, "one band has the scene's own grid"
        after: list[Any] = [None] * len(before)
        quality = date = None
        if "restored" in files:
            after = [_value(opened[files["restored"]], i, where) for i in range(1, len(before) + 1)]
            quality = _value(opened[files["quality"]], 1, where)
        if "dates" in files:
            number = _value(opened[files["dates"]], 2, where)
            if number is not None and number > 0:
                date = {"days": _value(opened[files["dates"]], 1, where), "reference": number}
        bands = [
            {"name": name, "before": came, "after": made}
            for name, came, made in zip(view.names, before, after, strict=True)
        ]
        return {"row": where[0], "col": where[1], "bands": bands, "quality": quality, "date": date}


def answer(request: dict[str, Any]) -> tuple[Any, bytes]:
    """Answer one request of the server."""
    source, sensor, files = tuple(request["source"]), request["sensor"], request["files"]
    check_source(source, sensor, Limits(**request["limits"]))
    result = files.get("restored", "")
    if request["call"] == "info":
        return info(source, sensor, result), b""
    if request["call"] == "point":
        return point(source, sensor, files, request["lon"], request["lat"]), b""
    at, size, layer = (request["x"], request["y"], request["z"]), request["size"], request["layer"]
    try:
        if layer == "quality":
            return None, quality_tile(files["quality"], at, size)
        kind, after = request["show"], layer == "result"
        return None, picture_tile(source, result, sensor, kind=kind, after=after, at=at, size=size)
    except TileOutsideBounds:
        return None, empty_tile(size)


def main() -> None:
    """Answer requests until the server ends."""
    tell, requests = take_stdout(), read_requests()
    hold_memory(MEMORY)
    tell({"ready": True})
    while True:
        request, content = requests.get(), b""
        try:
            told, content = answer(request)
            head = {"told": told}
        except Exception as error:  # whatever a file holds, the next request is answered
            head = {"error": f"{type(error).__name__}: {error}"[:500]}
        tell({"id": request["id"], **head}, content)


if __name__ == "__main__":
    main()
