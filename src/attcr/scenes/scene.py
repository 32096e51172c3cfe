"""A scene: bands on one grid, read one window at a time, and other rasters laid on that grid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attcr.addresses import redact
from attcr.bands.sensors import SENSORS, Sensor
from attcr.errors import SceneError
from attcr.extras import needed
from attcr.scenes.dataset import open_dataset, reading
from attcr.scenes.tiles import Tile
from attcr.scenes.vrt import VrtRule

with needed():
    from rasterio._err import CPLE_BaseError
    from rasterio.enums import ColorInterp
    from rasterio.errors import RasterioError
    from rasterio.io import DatasetReader
    from rasterio.vrt import WarpedVRT
    from rasterio.warp import transform_bounds
    from rasterio.windows import Window
    from rasterio.windows import transform as transform_of

Array = NDArray[Any]


@dataclass(frozen=True)
class Band:
    """One band of a scene: where its pixels are, and all that its file says about them."""

    name: str
    """The product's name for it; empty where nothing says."""
    href: str
    index: int
    """Band number in its file, from 1."""
    factor: int = 1
    """Scene pixels along one of its own pixels: 1 on the scene's grid, 2 for a 20 m band in a 10 m scene."""
    nodata: float | None = None
    description: str | None = None
    scale: float = 1.0
    offset: float = 0.0
    unit: str | None = None
    colour: ColorInterp = ColorInterp.undefined
    colormap: dict[int, tuple[int, ...]] | None = None
    tags: dict[str, str] = field(default_factory=dict)
    counted: bool = False
    """Whether its values number things (classes, dates) and must not be averaged in overviews."""


@dataclass(frozen=True)
class Profile:
    """What a raster says about itself as a whole; the restored raster says the same."""

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
    whole: Profile | None = None
    """The raster that it is a window of."""
    corner: tuple[int, int] = (0, 0)
    """Row and column of its first pixel there."""

    def window(self, tile: Tile) -> Profile:
        """Give what the part in a window says: it lies where it lay."""
        row, col = self.corner
        return replace(
            self,
            height=tile.height,
            width=tile.width,
            transform=transform_of(Window(tile.col, tile.row, tile.width, tile.height), self.transform),
            gcps=([], None),  # of no use beside a transform
            rpcs=None,
            whole=self.whole or self,
            corner=(row + tile.row, col + tile.col),
        )

    @property
    def metres(self) -> float | None:
        """The size of a pixel where the CRS counts in metres."""
        if self.crs is None or not self.crs.is_projected or self.crs.linear_units not in ("metre", "meter", "m"):
            return None
        size = float(abs(self.transform.a))
        return size if 0 < size < math.inf else None

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
    """Mask files that came with it: "scl" or "qa_pixel", to its address."""
    hints: dict[str, str] = field(default_factory=dict)
    """What file names and metadata say about the product and the day."""
    identity: tuple[tuple[str, int, int], ...] = ()
    """Name, size and time of each file: the same input gives the same identity."""
    files: tuple[str, ...] = ()
    """Addresses of all files it was read from: the named ones, those behind a VRT, and those that GDAL found beside."""
    vrt: VrtRule = "beside"
    """Which VRTs are accepted for it, and for rasters laid on it."""
    _datasets: dict[str, DatasetReader] = field(default_factory=dict, repr=False)
    products: tuple[Sensor, ...] = ()
    """What its values may be: the product named when it was opened, else all that fit what it says of itself."""

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

    @property
    def known_product(self) -> Sensor | None:
        """What its values are, if it says so."""
        return self.products[0] if len(self.products) == 1 else None

    @property
    def product(self) -> Sensor:
        """What its values are; a scene of which nothing says it is refused."""
        if self.known_product is None:
            choices = [product.name for product in self.products] or list(SENSORS)
            added = " (n0400: of processing baseline 04.00 and later, with 1000 added to the values)"
            raise SceneError(
                f"{self.source} holds {self.dtype} values and does not name its product: name it with "
                f"`sensor`, one of {', '.join(choices)}{added if '0400' in str(choices) else ''}."
            )
        return self.known_product

    @property
    def names(self) -> list[str]:
        """The bands' names; empty where nothing names one."""
        return [band.name for band in self.bands]

    def select(self, positions: Sequence[int]) -> Scene:
        """Give the same scene with only the bands at these positions, in this order; files are shared."""
        return replace(self, bands=tuple(self.bands[i] for i in positions))

    def window(self, tile: Tile) -> Scene:
        """Give the part of the scene in a window: all that is read of it lies there; files are shared."""
        return replace(self, profile=self.profile.window(tile))

    def read(self, top: int, bottom: int, *, left: int = 0, right: int | None = None) -> Array:
        """Read rows [top, bottom) and columns [left, right) as (C, rows, columns), values untouched."""
        window = self._window(top, bottom, left, right)
        out = np.empty((len(self.bands), window.height, window.width), self.dtype)
        if len({band.href for band in self.bands}) == 1 and all(band.factor == 1 for band in self.bands):
            indexes = [band.index for band in self.bands]
            with reading(self.source):
                self._datasets[self.bands[0].href].read(indexes, window=window, out=out)
            return out
        for plane, band in zip(out, self.bands, strict=True):
            plane[:] = self._read_band(band, window)
        return out

    def read_alpha(self, top: int, bottom: int, *, left: int = 0, right: int | None = None) -> Array | None:
        """Read the alpha band as (1, rows, columns), if there is one."""
        return self._read_band(self.alpha, self._window(top, bottom, left, right))[None] if self.alpha else None

    def read_mask(self, top: int, bottom: int, *, left: int = 0, right: int | None = None) -> NDArray[np.uint8] | None:
        """Read the mask or alpha band as (rows, columns), 0 where nothing is, if there is one."""
        if not self.profile.has_mask and not self.alpha:
            return None
        window = self._window(top, bottom, left, right)
        with reading(self.source):
            mask: NDArray[np.uint8] = self._datasets[self.bands[0].href].read_masks(self.bands[0].index, window=window)
        return mask

    def valid(self, values: Array, top: int, *, left: int = 0, blank: float | None = None) -> NDArray[np.bool_]:
        """Say which of the values just read from row `top` and column `left` are data, as (C, rows, columns).

        `blank` is the product's nodata value for files that declare none: a pixel is blank only if all bands have it.
        """
        data = np.ones(values.shape, bool)
        for plane, numbers, band in zip(data, values, self.bands, strict=True):
            if band.nodata is not None and not np.isnan(band.nodata):
                plane &= numbers != band.nodata
            if numbers.dtype.kind == "f":
                plane &= np.isfinite(numbers)
        if blank is not None and all(band.nodata is None for band in self.bands):
            data &= (values != blank).any(axis=0)
        _, rows, cols = values.shape
        mask = self.read_mask(top, top + rows, left=left, right=left + cols)
        if mask is not None:
            data &= mask > 0
        return data

    def _window(self, top: int, bottom: int, left: int, right: int | None) -> Window:
        return _window_inside(self.profile, self.source, top, bottom, left, right)

    def _read_band(self, band: Band, window: Window) -> Array:
        with reading(self.source):
            values: Array = _read_enlarged(self._datasets[band.href], window, band.factor, band.index)[0]
        return values

    def dataset(self, href: str) -> DatasetReader:
        """Give the open file of a band."""
        return self._datasets[href]

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


class AlignedRaster:
    """Another raster (a mask, radar) seen on a scene's grid by nearest neighbour, rows at a time.

    For a window of a scene it is laid on the whole scene's grid, so that it shows there what it shows in the whole.
    """

    def __init__(self, href: str, profile: Profile, vrt: VrtRule = "beside") -> None:
        self._name = redact(href)
        self._dataset = open_dataset(href, vrt)
        self._factor = 1
        seen: DatasetReader | WarpedVRT = self._dataset
        if profile.whole and not self._is_on(profile):
            self._profile, profile = profile, profile.whole
        else:
            self._profile = replace(profile, corner=(0, 0))
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

    def _is_on(self, profile: Profile) -> bool:
        """Say whether it covers exactly what a profile does."""
        same = self._dataset.shape == (profile.height, profile.width)
        return same and bool(self._dataset.transform.almost_equals(profile.transform))

    def _warp(self, profile: Profile) -> WarpedVRT:
        try:
            there = transform_bounds(self._dataset.crs, profile.crs, *self._dataset.bounds)
        except (RasterioError, CPLE_BaseError, ValueError, SystemError) as error:
            self.close()
            reason = " ".join(str(error).split())[:200]
            raise SceneError(
                f"{self._name} cannot be brought to the scene's CRS: {reason}. Give it on the scene's grid."
            ) from error
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

    def read(self, top: int, bottom: int, *, left: int = 0, right: int | None = None, band: int | None = None) -> Array:
        """Read rows [top, bottom) and columns [left, right) of the scene's grid as (C, rows, columns), or one band."""
        window = _window_inside(self._profile, self._name, top, bottom, left, right)
        with reading(self._name):
            return _read_enlarged(self._seen, window, self._factor, band)

    def close(self) -> None:
        """Close the file."""
        self._dataset.close()


def _window_inside(profile: Profile, name: str, top: int, bottom: int, left: int, right: int | None) -> Window:
    """Give rasterio's window, or refuse one that reaches beyond the grid: rasterio would read less than asked for."""
    right = profile.width if right is None else right
    if not (0 <= top <= bottom <= profile.height and 0 <= left <= right <= profile.width):
        raise SceneError(
            f"Rows {top} to {bottom} and columns {left} to {right} of {name} were asked for, and the scene has "
            f"{profile.height} rows and {profile.width} columns: ask for a window inside it."
        )
    row, col = profile.corner
    return Window(col + left, row + top, right - left, bottom - top)


def _read_enlarged(dataset: DatasetReader | WarpedVRT, window: Window, factor: int, index: int | None = None) -> Array:
    """Read a window of a grid that is `factor` times finer than the dataset's, as (C, rows, columns).

    Each pixel of the dataset is laid on the `factor` x `factor` pixels that it covers, wherever the window begins.
    """
    f = factor
    row, col = window.row_off // f, window.col_off // f
    below, beyond = (-(-end // f) for end in (window.row_off + window.height, window.col_off + window.width))
    values: Array = dataset.read(None if index is None else [index], window=Window(col, row, beyond - col, below - row))
    if f == 1:
        return values
    top, left = window.row_off - row * f, window.col_off - col * f
    large = values.repeat(f, axis=1).repeat(f, axis=2)
    return large[:, top : top + window.height, left : left + window.width]
