"""Open references: other scenes of a place on a scene's grid, with the bands that it has."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attcr.addresses import local_file, redact
from attcr.bands.sensors import Sensor
from attcr.bands.spec import PRODUCTS, InputSpec, Slot
from attcr.errors import SceneError, warn
from attcr.extras import needed
from attcr.references.harmonise import Array
from attcr.scenes.clouds.find import CLOUDS, choose_mask, find_clouds, mask_file
from attcr.scenes.clouds.masks import CLEAR, THICK, THIN, Classes
from attcr.scenes.clouds.rim import CloudMap, Rim
from attcr.scenes.dataset import reading
from attcr.scenes.open import open_scene
from attcr.scenes.scene import AlignedRaster, Band, Profile, Scene
from attcr.scenes.windows import window_beside

with needed():
    from rasterio._err import CPLE_BaseError
    from rasterio.enums import Resampling
    from rasterio.errors import RasterioError
    from rasterio.vrt import WarpedVRT
    from rasterio.warp import transform_bounds
    from rasterio.windows import Window

ROWS_LOOKED_AT = 128
"""Rows of a cloud map that are looked at together."""
SAME_NUMBER = 1e-5
"""The largest difference in reflectance of two copies of a number in different types."""
COARSER = 1.5
"""How many of the scene's pixels a reference's pixel may be wide before its lack of detail is told."""
VEILED = 0.9
"""Share of a reference under thin cloud from which all of it is taken for lying under a veil."""


@dataclass
class ReferenceScene:
    """Another scene on a scene's grid: unchanged where the grids are equal, else warped (cubic)."""

    scene: Scene
    """With all its bands, on its own grid."""
    chosen: Scene
    """With the bands that are read."""
    profile: Profile
    """Of the scene whose grid it is on."""
    mask: str
    """Where its clouds are, as for a scene."""
    days: int | None
    """Days after the scene (negative: before); None where a day is not known."""

    def __post_init__(self) -> None:
        self._warped: dict[str, WarpedVRT] = {}
        own, profile = self.scene.profile, self.profile
        if _same_grid(own, profile):
            return
        if not own.crs or not profile.crs:
            raise SceneError(
                f"{self.scene.source} ({own.width} x {own.height}) does not fit the scene ({profile.width} x "
                f"{profile.height}), and one of them has no CRS to bring them together: give it on the scene's grid."
            )
        self._check_overlap()
        for band in self.bands:
            if band.href not in self._warped:
                self._warped[band.href] = self._warp(band)

    def _check_overlap(self) -> None:
        corners = list(zip(*self.scene.profile.corners(), strict=True))
        bounds = (min(corners[0]), min(corners[1]), max(corners[0]), max(corners[1]))
        try:
            left, bottom, right, top = transform_bounds(self.scene.profile.crs, self.profile.crs, *bounds)
        except (RasterioError, CPLE_BaseError, ValueError, SystemError) as error:
            reason = " ".join(str(error).split())[:200]
            raise SceneError(f"{self.scene.source} cannot be brought to the scene's CRS: {reason}.") from error
        xs, ys = zip(*self.profile.corners(), strict=True)
        if left >= max(xs) or right <= min(xs) or bottom >= max(ys) or top <= min(ys):
            raise SceneError(f"{self.scene.source} lies outside the scene: give another date of the same place.")
        wide = (right - left) / self.scene.profile.width * self.width / (max(xs) - min(xs))
        if wide > COARSER:
            warn(f"{self.name} has pixels {wide:.1f} times as wide as the scene's: what it fills shows less detail.")

    def _warp(self, band: Band) -> WarpedVRT:
        profile = self.profile.whole or self.profile  # of a window, it is warped as for the whole
        return WarpedVRT(
            self.scene.dataset(band.href),
            crs=profile.crs,
            transform=profile.transform,
            width=profile.width,
            height=profile.height,
            resampling=Resampling.cubic,
            src_nodata=self.sensor.nodata if band.nodata is None else band.nodata,
            nodata=np.nan,
            dtype="float32",
        )

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"The reference {self.scene.source}"

    @property
    def sensor(self) -> Sensor:
        """What its values are."""
        return self.scene.product

    @property
    def height(self) -> int:
        """Rows of the scene's grid."""
        return self.profile.height

    @property
    def width(self) -> int:
        """Columns of the scene's grid."""
        return self.profile.width

    @property
    def bands(self) -> tuple[Band, ...]:
        """The bands that are read."""
        return self.chosen.bands

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values that are read."""
        return np.dtype(np.float32) if self._warped else self.scene.dtype

    @property
    def inputs(self) -> tuple[str, ...]:
        """Addresses of what it is read from."""
        mask = mask_file(self.scene, self.mask)
        return (*self.scene.files, *([mask] if mask else []))

    def read(self, top: int, bottom: int) -> Array:
        """Read rows [top, bottom) of the scene's grid as (C, rows, W); warped ones are NaN where nothing is."""
        if not self._warped:
            return self.chosen.read(top, bottom)
        row, col = self.profile.corner
        window = Window(col, row + top, self.width, bottom - top)
        seen = np.empty((len(self.bands), bottom - top, self.width), np.float32)
        with reading(self.scene.source):
            for plane, band in zip(seen, self.bands, strict=True):
                self._warped[band.href].read(band.index, window=window, out=plane)
        return seen

    def valid(self, values: Array, top: int, *, blank: float | None = None) -> NDArray[np.bool_]:
        """Say which of the values just read from row `top` on are data, as (C, rows, W)."""
        return np.isfinite(values) if self._warped else self.chosen.valid(values, top, blank=blank)

    def find_clouds(self, folder: Path, rim: Rim) -> CloudMap | None:
        """Give its clouds on the scene's grid; they are kept in a folder."""
        folder.mkdir(exist_ok=True)
        if find_clouds(self.scene, self.mask, folder, rim=rim) is None:
            return None
        raster = AlignedRaster(str(folder / CLOUDS), self.profile)
        cloud = THICK if self._is_veiled(folder / CLOUDS) else THIN
        if cloud == THICK:
            warn(
                f"{self.name} is completely under thin cloud: it is used all the same, where it "
                "is not under thick cloud."
            )

        def read(top: int, bottom: int) -> Classes:
            classes = np.asarray(raster.read(top, bottom)[0], np.uint8)
            return np.where(classes >= cloud, classes, CLEAR).astype(np.uint8)

        return CloudMap(read, self.height, rim)

    def _is_veiled(self, clouds: Path) -> bool:
        """Say whether nearly all of it is under thin cloud: harmonising takes an even veil away with the tones."""
        thin = data = 0
        first = self.scene.select([0])
        with open_scene(clouds) as made:
            for top in range(0, made.height, ROWS_LOOKED_AT):
                bottom = min(top + ROWS_LOOKED_AT, made.height)
                valid = first.valid(first.read(top, bottom), top, blank=self.sensor.nodata).any(axis=0)
                thin += int((valid & (made.read(top, bottom)[0] == THIN)).sum())
                data += int(valid.sum())
        return thin > VEILED * data

    def shows_same(self, scene: Scene) -> bool:
        """Say whether its pixels are a scene's own: three parts of it are compared."""
        height = min(ROWS_LOOKED_AT, self.height)
        compared = False
        for top in sorted({0, (self.height - height) // 2, self.height - height}):
            own, came = self.read(top, top + height), scene.read(top, top + height)
            both = self.valid(own, top, blank=self.sensor.nodata) & scene.valid(came, top, blank=scene.product.nodata)
            there, here = self.sensor.to_reflectance(own)[both], scene.product.to_reflectance(came)[both]
            if not np.allclose(there, here, rtol=0, atol=SAME_NUMBER):
                return False
            compared |= bool(len(here) and here.min() < here.max())  # two blank images tell nothing
        return compared

    def close(self) -> None:
        """Close its files."""
        for warped in self._warped.values():
            warped.close()
        self.scene.close()


def _same_grid(one: Profile, other: Profile) -> bool:
    if (one.height, one.width) != (other.height, other.width):
        return False
    if not one.crs or not other.crs:
        return True
    return bool(one.crs == other.crs and one.transform.almost_equals(other.transform))


@dataclass(frozen=True)
class Beside:
    """The scene that references are for."""

    scene: Scene
    slots: Sequence[str]
    """Its bands by the names of the network's slots."""
    wavelengths: Sequence[float | None]


def open_references(hrefs: Sequence[str], mask: str | None, beside: Beside) -> tuple[ReferenceScene, ...]:
    """Open the references of a scene with the bands that it has, each once, the nearest in time first.

    So their order makes no difference. A reference that does not say of which product it is, is of the scene's. The
    scene itself, as a pattern of file names gives it, is left out; alone, it is refused.
    """
    opened: list[ReferenceScene] = []
    try:
        once: dict[str, str] = {}
        for href in hrefs:
            once.setdefault(_file(href), href)
        opened.extend(_open_reference(href, mask, beside) for href in once.values())
        copies = [one for one in opened if one.shows_same(beside.scene)]
        if copies and len(copies) == len(opened):
            raise SceneError(f"{copies[0].name} is the scene itself and shows nothing under its clouds: give others.")
    except BaseException:
        for one in opened:
            one.close()
        raise
    for one in copies:
        warn(f"{one.name} is the scene itself: it is left out.")
        opened.remove(one)
        one.close()
    return tuple(sorted(opened, key=_order))


def _file(href: str) -> str:
    """Give a name that all addresses of one local file share."""
    path = None if href.startswith("/vsi") else local_file(href)  # an archive may hold several
    return href if path is None else os.path.realpath(path)


def _order(one: ReferenceScene) -> tuple[bool, int, int, str]:
    days = one.days or 0
    return one.days is None, abs(days), days, one.scene.source


def _open_reference(href: str, mask: str | None, beside: Beside) -> ReferenceScene:
    scene = beside.scene
    whole = open_scene(href, vrt=scene.vrt)
    try:
        if whole.known_product is None and whole.dtype == scene.dtype:
            whole = replace(whole, products=(scene.product,))
        whole = window_beside(whole, scene.profile)
        chosen = whole.select(_places(whole, whole.product, beside.slots, beside.wavelengths))
        return ReferenceScene(whole, chosen, scene.profile, mask or choose_mask(whole), _days(scene, whole))
    except SceneError as error:
        whole.close()
        raise SceneError(f"The reference {redact(href)} cannot be used: {error}") from error
    except BaseException:
        whole.close()
        raise


def _places(whole: Scene, product: Sensor, slots: Sequence[str], wavelengths: Sequence[float | None]) -> list[int]:
    """Say which of a reference's bands is each of the scene's: by name, wavelength or, where none has a name, place."""
    names = whole.names
    if (not any(names) or all(slot.startswith("band ") for slot in slots)) and len(names) == len(slots):
        return list(range(len(names)))
    wanted = tuple(Slot(name, nm) for name, nm in zip(slots, wavelengths, strict=True))
    spec = InputSpec(wanted, tuple(slots), PRODUCTS, (1.0, 1.0), ("thin",))
    try:
        places = spec.match(product, names)
    except SceneError:
        told = " ".join(name or "?" for name in names)
        raise SceneError(f"its bands are {told}, and the scene's {' '.join(slots)} are needed.") from None
    return [at for at in places if at is not None]


def _days(scene: Scene, other: Scene) -> int | None:
    from attcr.scenes.pystac import when

    (taken, source), (later, known) = when(scene), when(other)
    if {source, known} & {"file", "unknown"}:
        return None
    return (later.date() - taken.date()).days
