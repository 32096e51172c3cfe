"""Other dates of a scene: opened on its grid, harmonised by what both show, and filled in where it is under cloud."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attcr.addresses import redact
from attcr.dates.cells import Cells, Float32
from attcr.dates.evidence import Evidence
from attcr.dates.fill import MARGIN, REACH, Tuned, compose, meet_border, tune
from attcr.errors import AttcrWarning, MissingExtraError, SceneError
from attcr.products import recognise
from attcr.restore.walk import CLOUD_LEFT, FROM_DATE, NODATA, Array, Strip, avoid
from attcr.scenes.aligned import AlignedScene
from attcr.scenes.clouds.find import CLOUDS, choose_mask, find_clouds, mask_file, sensor_of
from attcr.scenes.clouds.masks import CLEAR, THICK, THIN, Classes
from attcr.scenes.clouds.rim import CloudMap, Rim
from attcr.scenes.open import open_scene
from attcr.scenes.scene import AlignedRaster, Scene
from attcr.sensors import Sensor, into_dtype
from attcr.spec import PRODUCTS, InputSpec, Slot

BLOCK = 128
"""Rows that are looked at together before anything is filled, about."""
VEILED = 0.9
"""Share of a reference under thin cloud from which all of it is taken for lying under a veil."""
UNKNOWN_DAYS = -(1 << 15)
"""Stands for no date, and for pixels that are of none, in the raster of dates."""


@dataclass
class Reference:
    """Another date of a scene."""

    scene: Scene
    sensor: Sensor
    aligned: AlignedScene
    mask: str
    """Where its clouds are, as for a scene."""
    days: int | None
    """Days after the scene (negative: before); None where a date is not known."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """Addresses of what it is read from."""
        mask = mask_file(self.scene, self.mask)
        return (*self.scene.files, *([mask] if mask else []))

    def find_clouds(self, folder: Path, scene: Scene, rim: Rim) -> CloudMap | None:
        """Give its clouds on the scene's grid; they are kept in a folder."""
        folder.mkdir(exist_ok=True)
        if find_clouds(self.scene, self.mask, folder, sensor=self.sensor, rim=rim) is None:
            return None
        raster = AlignedRaster(str(folder / CLOUDS), scene.profile)
        cloud = THICK if self._is_veiled(folder / CLOUDS) else THIN
        if cloud == THICK:
            warnings.warn(
                f"The reference {self.scene.source} is completely under thin cloud: it is used all the same, where it "
                "is not under thick cloud.",
                AttcrWarning,
                stacklevel=6,
            )

        def read(top: int, bottom: int) -> Classes:
            classes = np.asarray(raster.read(top, bottom)[0], np.uint8)
            return np.where(classes >= cloud, classes, CLEAR).astype(np.uint8)

        return CloudMap(read, scene.height, rim)

    def _is_veiled(self, clouds: Path) -> bool:
        """Say whether nearly all of it is under thin cloud: harmonising takes an even veil away with the tones."""
        thin = data = 0
        first = self.scene.select([0])
        with open_scene(clouds) as made:
            for top in range(0, made.height, BLOCK):
                bottom = min(top + BLOCK, made.height)
                valid = first.valid(first.read(top, bottom), top, blank=self.sensor.nodata).any(axis=0)
                thin += int((valid & (made.read(top, bottom)[0] == THIN)).sum())
                data += int(valid.sum())
        return thin > VEILED * data

    def close(self) -> None:
        """Close its files."""
        self.aligned.close()
        self.scene.close()


@dataclass(frozen=True)
class Beside:
    """The scene that references are for."""

    scene: Scene
    product: Sensor
    slots: Sequence[str]
    """Its bands by the names of the network's slots."""
    wavelengths: Sequence[float | None]


def open_references(hrefs: Sequence[str], mask: str | None, beside: Beside) -> tuple[Reference, ...]:
    """Open other dates of a scene with the bands that it has.

    A reference that does not say of which product it is, is of the scene's.
    """
    opened: list[Reference] = []
    try:
        opened.extend(_open_reference(href, mask, beside) for href in hrefs)
    except BaseException:
        for one in opened:
            one.close()
        raise
    return tuple(opened)


def _open_reference(href: str, mask: str | None, beside: Beside) -> Reference:
    scene = beside.scene
    whole = open_scene(href, vrt=scene.vrt)
    try:
        scales, offsets = [band.scale for band in whole.bands], [band.offset for band in whole.bands]
        told = recognise(whole.hints, whole.dtype, scales, offsets)
        sensor = told or sensor_of(whole, beside.product if whole.dtype == scene.dtype else None)
        places = _places(whole, sensor, beside.slots, beside.wavelengths)
        aligned = AlignedScene(whole, places, sensor, scene.profile)
        return Reference(whole, sensor, aligned, mask or choose_mask(whole, sensor), _days(scene, whole))
    except SceneError as error:
        whole.close()
        raise SceneError(f"The reference {redact(href)} cannot be used: {error}") from error
    except BaseException:
        whole.close()
        raise


def _places(whole: Scene, sensor: Sensor, slots: Sequence[str], wavelengths: Sequence[float | None]) -> list[int]:
    """Say which of a reference's bands is each of the scene's: by name, wavelength or, where none has a name, place."""
    names = [band.name for band in whole.bands]
    if (not any(names) or all(slot.startswith("band ") for slot in slots)) and len(names) == len(slots):
        return list(range(len(names)))
    wanted = tuple(Slot(name, nm) for name, nm in zip(slots, wavelengths, strict=True))
    spec = InputSpec(wanted, tuple(slots), PRODUCTS, (1.0, 1.0), ("thin",))
    try:
        places = spec.match(sensor, names)
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


@dataclass
class Filler:
    """Fills what is under cloud from other dates, strip by strip."""

    scene: Scene
    product: Sensor
    clouds: CloudMap
    references: Sequence[Reference]
    masks: Sequence[CloudMap | None]
    thick_only: bool
    """Whether only thick cloud is filled, or all."""
    tuned: tuple[Tuned, ...] = ()

    def survey(self, on_rows: Callable[[int], None] | None = None) -> None:
        """Look at the whole scene and each reference once, and choose how each is harmonised."""
        self.tuned = tuple(tune(self._evidence(i, on_rows)) for i in range(len(self.references)))

    def _evidence(self, i: int, on_rows: Callable[[int], None] | None) -> Evidence:
        cells = Cells.over(self.scene.height, self.scene.width)
        evidence = Evidence(cells, len(self.scene.bands))
        step = max(BLOCK // cells.size, 1) * cells.size
        for top in range(0, self.scene.height, step):
            bottom = min(top + step, self.scene.height)
            values, clear, weights, valid = self._target(top, bottom)
            gap = (weights > 0) & valid
            if clear.any():
                seen, sound = self._reference(i, top, bottom)
            else:
                seen, sound = values, clear
            evidence.add(top, seen, values, clear & sound, gap)
            if on_rows:
                on_rows(bottom)
        return evidence

    def _target(self, top: int, bottom: int) -> tuple[Float32, Array, Float32, Array]:
        """Give the scene's reflectance, what is clear, how much of each pixel is to be filled, and what is data."""
        came = self.scene.read(top, bottom)
        valid = self.scene.valid(came, top, blank=self.product.nodata)
        reach = self.clouds.rim.reach
        first, last = max(top - reach, 0), min(bottom + reach, self.scene.height)
        classes = self.clouds.read(first, last)
        inner = slice(top - first, bottom - first)
        clear = (self.clouds.rim.weights(classes)[inner] == 0) & valid.all(axis=0)
        filled = np.where(classes == THICK, classes, CLEAR).astype(np.uint8) if self.thick_only else classes
        weights = self.clouds.rim.weights(filled)[inner]
        return self.product.to_reflectance(came), clear, weights, np.asarray(valid.any(axis=0))

    def _reference(self, i: int, top: int, bottom: int) -> tuple[Float32, NDArray[np.bool_]]:
        values, valid = self.references[i].aligned.read(top, bottom)
        clouds = self.masks[i]
        if clouds is None:
            return values, valid
        reach = clouds.rim.reach
        first, last = max(top - reach, 0), min(bottom + reach, self.scene.height)
        cloudy = clouds.rim.weights(clouds.read(first, last))[top - first : bottom - first] > 0
        return values, valid & ~cloudy

    def fill(self, strip: Strip) -> Strip:
        """Give a strip with what is under cloud from other dates, and a layer that says from which."""
        height, width = strip.quality.shape
        top, bottom = strip.top, strip.top + height
        first, last = max(top - MARGIN, 0), min(bottom + MARGIN, self.scene.height)
        values, clear, weights, valid = self._target(first, last)
        inner = slice(top - first, bottom - first)
        if not self.references:
            return self._mixed(strip, values[:, inner], weights[inner], np.zeros((height, width), bool), None)
        dates = np.stack([np.full((height, width), UNKNOWN_DAYS, np.int16)] * 2)
        here = (weights > 0) & valid
        if not here[inner].any():
            return replace(strip, dates=dates)
        near = _within(here, REACH)
        seen = [self._reference(i, first, last) for i in range(len(self.references))]
        filled = compose(self.tuned, [one for one, _ in seen], [sound for _, sound in seen], near & valid, first)
        new = meet_border(filled, values, clear)[:, inner]
        number = np.where(here, filled.number, 0)[inner]
        days = np.array(
            [UNKNOWN_DAYS, *(UNKNOWN_DAYS if r.days is None else r.days for r in self.references)], np.int16
        )
        changed = number > 0
        dates[0] = days[number]
        dates[1][changed] = number[changed]
        return self._mixed(strip, new, weights[inner], changed, dates)

    def _mixed(self, strip: Strip, new: Float32, weights: Float32, changed: Array, dates: Array | None) -> Strip:
        out, quality = strip.values.copy(), strip.quality.copy()
        valid = self.scene.valid(strip.came, strip.top, blank=self.product.nodata)
        painted = np.isin(quality, (CLOUD_LEFT, NODATA))
        for band, described in enumerate(self.scene.bands):
            here = changed & valid[band]
            number = (new[band][here].astype(np.float64) - self.product.offset) / self.product.scale
            under = np.where(painted, strip.came[band], strip.values[band])[here].astype(np.float64)
            weight = weights[here].astype(np.float64)
            mixed = np.where(weight == 1, number, under + weight * (number - under))
            out[band][here] = avoid(into_dtype(mixed, out.dtype), described.nodata)
        was_left = int((changed & painted).sum())
        quality[changed] = FROM_DATE
        spread = strip.spread
        if spread is not None and dates is not None:
            errors = np.array([np.nan, *(one.error for one in self.tuned)], np.float32)
            spread = np.where(changed, errors[np.where(changed, dates[1], 0)], spread).astype(np.float32)
        left = strip.left - was_left
        if not self.thick_only:
            alone = (weights == 1) & ~changed & valid.any(axis=0)
            quality[alone] = CLOUD_LEFT
            left = int(alone.sum())
        return replace(strip, values=out, quality=quality, spread=spread, left=left, dates=dates)

    def describe(self) -> list[dict[str, Any]]:
        """Give what was chosen for each reference, as plain values."""
        return [
            {
                "method": one.checked.method,
                "expected_error": None if np.isnan(one.checked.error) else round(one.checked.error, 6),
                "errors": {name: round(error, 6) for name, error in one.checked.errors.items()},
                "checked_on_pixels": one.checked.pixels,
            }
            for one in self.tuned
        ]

    def save(self, path: Path) -> None:
        """Write what was chosen into the working folder."""
        path.write_text(json.dumps(self.describe()))


def _within(here: NDArray[np.bool_], distance: int) -> NDArray[np.bool_]:
    """Say what is at most this many pixels away."""
    try:
        from scipy.ndimage import distance_transform_edt
    except ImportError as error:
        raise MissingExtraError("scipy", "scenes") from error
    near: NDArray[np.bool_] = distance_transform_edt(~here) <= distance
    return near
