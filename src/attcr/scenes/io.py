"""Open a scene: one raster, a set of band files, a SAFE-like folder or a STAC item, read rows at a time."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import rasterio
from numpy.typing import NDArray
from rasterio.enums import ColorInterp, MaskFlags
from rasterio.errors import NotGeoreferencedWarning, RasterioError
from rasterio.io import DatasetReader
from rasterio.vrt import WarpedVRT
from rasterio.warp import transform_bounds
from rasterio.windows import Window

from attcr.addresses import is_local, redact, redact_all
from attcr.errors import SceneError

Array = NDArray[Any]

# Formats with pixels of their own, and VRT. Services stay out: a text file must not open a URL.
DRIVERS = ("GTiff", "JP2OpenJPEG", "PNG", "JPEG", "WEBP", "HFA", "ENVI", "BMP", "VRT")
SUFFIXES = (".tif", ".tiff", ".jp2", ".png", ".jpg", ".jpeg", ".webp", ".img", ".bmp", ".vrt")
BIGGEST_SCENE = 1 << 34  # pixels: 140 Sentinel-2 tiles at 10 m
BIGGEST_BLOCK = 1 << 30  # bytes GDAL must hold at once to give us one row
BOMB_RATIO = 500  # deflate reaches 1032 on zeros; a scene comes nowhere near
BOMB_BYTES = 1 << 30

# Namespaces that GDAL makes itself, or that we carry by their own means.
_OWN_NAMESPACES = ("IMAGE_STRUCTURE", "DERIVED_SUBDATASETS", "SUBDATASETS", "RPC", "COLOR_PROFILE")
BAND_IN_NAME = re.compile(r"(?:^|_)(B(?:\d{1,2}|8A)|SCL|QA_PIXEL)(?:_\d+m)?\.\w+$", re.IGNORECASE)
_PRODUCT_TAGS = ("PROCESSING_BASELINE", "PROCESSING_LEVEL", "PRODUCT_URI", "LANDSAT_PRODUCT_ID")


@dataclass(frozen=True)
class Band:
    """One band of a scene: where its pixels are, and all that its file says about them."""

    name: str
    """As the product calls it; empty where nothing says."""
    href: str
    index: int
    """Band number in its file, from 1."""
    factor: int = 1
    """Scene pixels to one of its own: 1 on the scene's grid, 2 for a 20 m band in a 10 m scene."""
    nodata: float | None = None
    description: str | None = None
    scale: float = 1.0
    offset: float = 0.0
    unit: str | None = None
    colour: ColorInterp = ColorInterp.undefined
    colormap: dict[int, tuple[int, ...]] | None = None
    tags: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Profile:
    """What a raster says about itself as a whole; what comes out says the same."""

    height: int
    width: int
    dtype: str
    crs: Any
    transform: Any
    gcps: tuple[list[Any], Any]
    rpcs: Any
    tags: dict[str, dict[str, str]]
    """Namespace ("" is the default one) to tags."""
    has_mask: bool = False
    """A mask band of the whole raster, internal or beside it."""

    def corners(self) -> list[tuple[float, float]]:
        """Give the four corners in the CRS, around from the upper left."""
        t = self.transform
        pixels = [(0, 0), (0, self.height), (self.width, self.height), (self.width, 0)]
        return [(t.a * col + t.b * row + t.c, t.d * col + t.e * row + t.f) for col, row in pixels]


@dataclass
class Scene:
    """A raster or a set of band files on one grid. Rows are read on demand; close it, or use `with`."""

    source: str
    """Where it came from, without credentials."""
    bands: tuple[Band, ...]
    profile: Profile
    alpha: Band | None = None
    """The band that says how opaque a pixel is; it passes through as it is."""
    companions: dict[str, str] = field(default_factory=dict)
    """Files that came along: "scl" or "qa_pixel" to where it is."""
    hints: dict[str, str] = field(default_factory=dict)
    """What file names and metadata say about the product, for `sensors.recognise`."""
    identity: tuple[tuple[str, int, int], ...] = ()
    """Name, size and time of each file: the same input gives the same identity."""
    _datasets: dict[str, DatasetReader] = field(default_factory=dict, repr=False)

    @property
    def height(self) -> int:
        """Rows."""
        return self.profile.height

    @property
    def width(self) -> int:
        """Columns."""
        return self.profile.width

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the digital numbers."""
        return np.dtype(self.profile.dtype)

    def select(self, positions: Sequence[int]) -> Scene:
        """Give the same scene with only the bands at these positions, in this order; files are shared."""
        return replace(self, bands=tuple(self.bands[i] for i in positions))

    def with_nodata(self, nodata: float) -> Scene:
        """Give the same scene with this nodata value declared for every band."""
        if not np.can_cast(np.min_scalar_type(nodata), self.dtype) and not np.isnan(nodata):
            raise SceneError(f"nodata {nodata:g} cannot be a value of {self.dtype}: give one that can.")
        return replace(self, bands=tuple(replace(band, nodata=float(nodata)) for band in self.bands))

    def read(self, top: int, bottom: int) -> Array:
        """Read rows [top, bottom) as (C, rows, W), values untouched."""
        out = np.empty((len(self.bands), bottom - top, self.width), self.dtype)
        if len({band.href for band in self.bands}) == 1 and all(band.factor == 1 for band in self.bands):
            indexes = [band.index for band in self.bands]
            window = Window(0, top, self.width, bottom - top)
            with reading(self.source):
                self._datasets[self.bands[0].href].read(indexes, window=window, out=out)
            return out
        for plane, band in zip(out, self.bands, strict=True):
            plane[:] = self._read_band(band, top, bottom)
        return out

    def read_alpha(self, top: int, bottom: int) -> Array | None:
        """Read rows of the alpha band as (1, rows, W), if there is one."""
        return self._read_band(self.alpha, top, bottom)[None] if self.alpha else None

    def read_mask(self, top: int, bottom: int) -> NDArray[np.uint8] | None:
        """Read rows of the mask or alpha band as (rows, W), 0 where nothing is, if there is one."""
        if not self.profile.has_mask and not self.alpha:
            return None
        window = Window(0, top, self.width, bottom - top)
        with reading(self.source):
            mask: NDArray[np.uint8] = self._datasets[self.bands[0].href].read_masks(self.bands[0].index, window=window)
        return mask

    def valid(self, values: Array, top: int, *, blank: float | None = None) -> NDArray[np.bool_]:
        """Say which of the values just read from row `top` are data, as (C, rows, W).

        `blank` is a product's nodata value where the file declares none: a pixel is blank in all bands or in
        none.
        """
        data = np.ones(values.shape, bool)
        for plane, numbers, band in zip(data, values, self.bands, strict=True):
            if band.nodata is not None and not np.isnan(band.nodata):
                plane &= numbers != band.nodata
            if numbers.dtype.kind == "f":
                plane &= np.isfinite(numbers)
        if blank is not None and all(band.nodata is None for band in self.bands):
            data &= (values != blank).any(axis=0)
        mask = self.read_mask(top, top + values.shape[1])
        if mask is not None:
            data &= mask > 0
        return data

    def _read_band(self, band: Band, top: int, bottom: int) -> Array:
        f = band.factor
        first, last = top // f, -(-bottom // f)
        with reading(self.source):
            coarse: Array = self._datasets[band.href].read(
                band.index, window=Window(0, first, -(-self.width // f), last - first)
            )
        if f > 1:
            coarse = coarse.repeat(f, axis=0).repeat(f, axis=1)
        return coarse[top - first * f : bottom - first * f, : self.width]

    def close(self) -> None:
        """Close the files."""
        for dataset in self._datasets.values():
            dataset.close()

    def __enter__(self) -> Scene:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_scene(source: str | Path | Sequence[str | Path]) -> Scene:
    """Open a raster, a list of band files, a SAFE-like folder, or a STAC item (.json); local, http or s3."""
    if not isinstance(source, (str, Path)):
        if len(source) == 1:
            return open_scene(source[0])
        return _open_files([str(href) for href in source], " ".join(redact(str(href)) for href in source))
    text = str(source)
    if text.lower().endswith((".json", ".geojson")):
        from attcr.scenes.pystac import open_item  # here, so that a plain raster needs no pystac

        item = open_item(text)
        return _open_files(list(item.bands), redact(text), item.bands, item.companions, item.hints)
    if is_local(text) and Path(text).is_dir():
        return _open_folder(Path(text))
    return _open_raster(text)


class AlignedRaster:
    """Another raster (a mask, radar) seen on a scene's grid by nearest neighbour, rows at a time."""

    def __init__(self, href: str, profile: Profile) -> None:
        self._name = redact(href)
        self._dataset = open_dataset(href)
        self._factor = 1
        self._width = profile.width
        seen: DatasetReader | WarpedVRT = self._dataset
        size = (profile.height, profile.width)
        if profile.crs and self._dataset.crs:
            if self._dataset.shape != size or not self._dataset.transform.almost_equals(profile.transform):
                seen = self._warp(profile)
        elif self._dataset.shape != size:
            self._factor = profile.width // max(self._dataset.width, 1)
            if tuple(self._factor * n for n in self._dataset.shape) != size:
                self.close()
                raise SceneError(
                    f"{self._name} ({self._dataset.width} x {self._dataset.height}) does not fit the scene "
                    f"({profile.width} x {profile.height}), and one of them has no CRS to bring them "
                    "together: give it on the scene's grid."
                )
        self._seen = seen
        self.count: int = self._dataset.count

    def _warp(self, profile: Profile) -> WarpedVRT:
        try:
            there = transform_bounds(self._dataset.crs, profile.crs, *self._dataset.bounds)
        except RasterioError as error:
            self.close()
            raise SceneError(f"{self._name} cannot be brought to the scene's CRS: {error}") from error
        xs, ys = zip(*profile.corners(), strict=True)
        if there[0] >= max(xs) or there[2] <= min(xs) or there[1] >= max(ys) or there[3] <= min(ys):
            self.close()
            raise SceneError(f"{self._name} lies outside the scene: give the one that belongs to it.")
        return WarpedVRT(
            self._dataset,
            crs=profile.crs,
            transform=profile.transform,
            width=profile.width,
            height=profile.height,
            nodata=np.nan if self._dataset.dtypes[0].startswith("float") else self._dataset.nodata,
        )

    def read(self, top: int, bottom: int) -> Array:
        """Read rows [top, bottom) of the scene's grid as (C, rows, W)."""
        f = self._factor
        first, last = top // f, -(-bottom // f)
        with reading(self._name):
            values: Array = self._seen.read(window=Window(0, first, self._width // f, last - first))
        if f > 1:
            values = values.repeat(f, axis=1).repeat(f, axis=2)
        return values[:, top - first * f : bottom - first * f]

    def close(self) -> None:
        """Close the file."""
        self._dataset.close()


@contextmanager
def gdal() -> Iterator[None]:
    """Set GDAL up for scenes: bounded cache, damaged JPEGs are errors, masks inside the file."""
    settings = {
        "GDAL_CACHEMAX": 256,
        "GDAL_ERROR_ON_LIBJPEG_WARNING": True,
        "GDAL_PNG_WHOLE_IMAGE_OPTIM": "NO",  # it gives whatever is in memory for the lost half of a truncated file
        "GDAL_TIFF_INTERNAL_MASK": True,
        "GDAL_HTTP_MAX_RETRY": 4,
        "GDAL_HTTP_RETRY_DELAY": 1,
        "GDAL_HTTP_TIMEOUT": 120,
    }
    with rasterio.Env(**settings), warnings.catch_warnings():
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        yield


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Turn what GDAL says about a file it cannot read into one sentence."""
    try:
        yield
    except (RasterioError, OSError, ValueError, MemoryError) as error:
        if isinstance(error, SceneError):
            raise
        # GDAL's own message is the cause; rasterio's only says "Read failed. See previous exception".
        reason = str(error.__cause__ or error).splitlines()[0] if str(error.__cause__ or error) else repr(error)
        raise SceneError(
            f"{what} cannot be read: {redact_all(reason)} Check that the file is whole, for example with "
            "gdalinfo -checksum, and fetch it again if it is not."
        ) from error


def open_dataset(href: str) -> DatasetReader:
    """Open one raster for reading, or say in one sentence why not."""
    name = redact(href)
    if is_local(href):
        path = Path(href)
        if path.is_symlink() and not path.exists():
            raise SceneError(f"{name} is a link to {path.readlink()}, which does not exist: mend the link.")
        if not path.exists():
            raise SceneError(f"{name} does not exist: check the path.")
        if not path.is_file():
            raise SceneError(f"{name} is not a file: give a raster, a folder of band files or a STAC item.")
        if path.stat().st_size == 0:
            raise SceneError(f"{name} is empty (0 bytes): fetch it again.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotGeoreferencedWarning)
            dataset = DatasetReader(href, driver=list(DRIVERS))
    except (RasterioError, OSError, ValueError, MemoryError, OverflowError) as error:
        reason = redact_all(str(error).splitlines()[0] if str(error) else repr(error))
        raise SceneError(
            f"{name} cannot be opened as a raster: {reason} Expected GeoTIFF, JPEG 2000, PNG, JPEG, WebP, "
            "VRT, ENVI or Imagine; check the file with gdalinfo."
        ) from error
    try:
        _check(dataset, name)
    except SceneError:
        dataset.close()
        raise
    return dataset


def _check(dataset: DatasetReader, name: str) -> None:
    """Refuse what cannot be a scene, before a byte of pixels is read."""
    if dataset.count == 0:
        raise SceneError(f"{name} has no bands: give the raster itself, not a container of others.")
    pixels = dataset.width * dataset.height
    if pixels > BIGGEST_SCENE:
        raise SceneError(
            f"{name} declares {dataset.width} x {dataset.height} pixels, more than the {BIGGEST_SCENE:,} "
            "taken at once: cut it with gdal_translate -srcwin."
        )
    kinds = {np.dtype(kind).kind if not kind.startswith("complex_") else "c" for kind in dataset.dtypes}
    if kinds - set("iuf"):
        raise SceneError(f"{name} holds {dataset.dtypes[0]} values; expected integers or floats.")
    if len(set(dataset.dtypes)) > 1:
        raise SceneError(
            f"{name} mixes {', '.join(sorted(set(dataset.dtypes)))}: give all bands one type with gdal_translate -ot."
        )
    item = np.dtype(dataset.dtypes[0]).itemsize
    declared = pixels * dataset.count * item
    if is_local(dataset.name) and dataset.driver != "VRT" and declared > BOMB_BYTES:
        stored = Path(dataset.name).stat().st_size
        if declared > BOMB_RATIO * stored:
            raise SceneError(
                f"{name} declares {declared / 2**30:.1f} GiB of pixels in a file of {stored:,} bytes, "
                "which no real scene does: if it is meant so, expand it with gdal_translate -co "
                "COMPRESS=NONE first."
            )
    rows, cols = dataset.block_shapes[0]
    together = dataset.count if str(dataset.profile.get("interleave")) == "pixel" else 1
    block = rows * cols * item * together
    if block > BIGGEST_BLOCK:
        raise SceneError(
            f"{name} is stored in blocks of {cols} x {rows} pixels, {block / 2**30:.1f} GiB each: "
            "rewrite it with gdal_translate -co TILED=YES."
        )


def _open_raster(href: str) -> Scene:
    dataset = open_dataset(href)
    bands = [_band(dataset, href, index) for index in dataset.indexes]
    alphas = [band for band in bands if band.colour == ColorInterp.alpha]
    alpha = replace(alphas[0], name="alpha") if alphas and len(bands) > 1 else None
    kept = tuple(band for band in bands if alpha is None or band.index != alpha.index)
    hints = _hints([href], [dataset])
    return Scene(redact(href), kept, _profile(dataset), alpha, {}, hints, _identity([href]), {href: dataset})


def _open_folder(folder: Path) -> Scene:
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())
    named = [path for path in files if BAND_IN_NAME.search(path.name)]
    if not named:
        raise SceneError(
            f"{folder} holds no band files: expected names that end in a band, such as _B02_10m.jp2 or _SR_B4.TIF."
        )
    return _open_files([str(path) for path in named], str(folder))


def _open_files(
    hrefs: Sequence[str],
    source: str,
    names: dict[str, str] | None = None,
    companions: dict[str, str] | None = None,
    hints: dict[str, str] | None = None,
) -> Scene:
    """Put single-band files on the finest grid among them; of a band in several sizes, take the finest."""
    datasets: dict[str, DatasetReader] = {}
    companions = dict(companions or {})
    best: dict[str, str] = {}
    try:
        for href in hrefs:
            found = BAND_IN_NAME.search(redact(href))
            name = names[href] if names else found.group(1).upper() if found else Path(redact(href)).stem
            dataset = open_dataset(href)
            datasets[href] = dataset
            beside = name.lower()
            known = companions if beside in ("scl", "qa_pixel") else best
            key = beside if known is companions else name
            if dataset.count != 1:
                raise SceneError(
                    f"{redact(href)} has {dataset.count} bands, in a set of band files: expected one band a file."
                )
            if key not in known or dataset.width > datasets[known[key]].width:
                known[key] = href
        if not best:
            raise SceneError(f"{source} holds no image band, only {', '.join(companions)}: give the bands too.")
        return _one_grid(source, best, datasets, companions, hints)
    except SceneError:
        for dataset in datasets.values():
            dataset.close()
        raise


def _one_grid(
    source: str,
    files: dict[str, str],
    datasets: dict[str, DatasetReader],
    companions: dict[str, str],
    hints: dict[str, str] | None,
) -> Scene:
    finest = max((datasets[href] for href in files.values()), key=lambda dataset: dataset.width)
    bands: list[Band] = []
    for name, href in sorted(files.items(), key=lambda item: _band_order(item[0])):
        dataset = datasets[href]
        factor = round(finest.width / dataset.width)
        t = finest.transform
        coarse = (t.a * factor, t.b * factor, t.c, t.d * factor, t.e * factor, t.f)
        same = dataset.crs == finest.crs and np.allclose(tuple(dataset.transform)[:6], coarse, rtol=1e-9)
        if (dataset.width * factor, dataset.height * factor) != (finest.width, finest.height) or not same:
            raise SceneError(
                f"{redact(href)} ({dataset.width} x {dataset.height}) is not on the grid of "
                f"{redact(finest.name)} ({finest.width} x {finest.height}): bring the bands to one grid with "
                "gdalwarp."
            )
        if dataset.dtypes[0] != finest.dtypes[0]:
            raise SceneError(
                f"{redact(href)} is {dataset.dtypes[0]} and {redact(finest.name)} is {finest.dtypes[0]}: "
                "give all bands one type with gdal_translate -ot."
            )
        colour = ColorInterp.undefined if bands else ColorInterp.gray
        band = _band(dataset, href, 1)
        bands.append(replace(band, name=name, factor=factor, description=name, colour=colour))
    point = finest.tags().get("AREA_OR_POINT")
    profile = replace(_profile(finest), tags={"": {"AREA_OR_POINT": point} if point else {}}, has_mask=False)
    used = {href: datasets[href] for href in files.values()}
    for href, dataset in datasets.items():
        if href not in used:
            dataset.close()
    told = {**_hints(list(files.values()), list(used.values())), **(hints or {})}
    told["name"] = f"{source} {told['name']}"
    return Scene(source, tuple(bands), profile, None, companions, told, _identity(files.values()), used)


def _profile(dataset: DatasetReader) -> Profile:
    tags = {"": dataset.tags()}
    for namespace in dataset.tag_namespaces():
        if namespace not in _OWN_NAMESPACES and not namespace.startswith("xml:"):
            tags[namespace] = dataset.tags(ns=namespace)
    flags = dataset.mask_flag_enums[0]
    return Profile(
        height=dataset.height,
        width=dataset.width,
        dtype=dataset.dtypes[0],
        crs=dataset.crs,
        transform=dataset.transform,
        gcps=dataset.gcps,
        rpcs=dataset.rpcs,
        tags=tags,
        has_mask=MaskFlags.per_dataset in flags and MaskFlags.alpha not in flags,
    )


def _band(dataset: DatasetReader, href: str, index: int) -> Band:
    i = index - 1
    colour = dataset.colorinterp[i]
    tags = dataset.tags(index)
    name = dataset.descriptions[i] or tags.get("BANDNAME")
    if not name and colour in (ColorInterp.red, ColorInterp.green, ColorInterp.blue):
        name = colour.name
    return Band(
        name=name or "",
        href=href,
        index=index,
        nodata=dataset.nodatavals[i],
        description=dataset.descriptions[i],
        scale=dataset.scales[i],
        offset=dataset.offsets[i],
        unit=dataset.units[i],
        colour=colour,
        colormap=dataset.colormap(index) if colour == ColorInterp.palette else None,
        # Statistics of the cloudy pixels would be untrue of the restored ones, and QGIS stretches by them.
        tags={key: value for key, value in tags.items() if not key.startswith("STATISTICS_")},
    )


def _band_order(name: str) -> tuple[str, str]:
    return ("B08z", "") if name.upper() == "B8A" else (name, name)


def _hints(hrefs: Sequence[str], datasets: Sequence[DatasetReader]) -> dict[str, str]:
    hints = {"name": " ".join(redact(href) for href in hrefs)}
    for dataset in datasets:
        hints |= {key: value for key, value in dataset.tags().items() if key in _PRODUCT_TAGS}
    return hints


def _identity(hrefs: Iterable[str]) -> tuple[tuple[str, int, int], ...]:
    found = []
    for href in hrefs:
        stat = Path(href).stat() if is_local(href) else None
        found.append((redact(href), stat.st_size if stat else -1, stat.st_mtime_ns if stat else -1))
    return tuple(sorted(found))
