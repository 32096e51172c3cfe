"""Other dates of a scene, opened on its grid with the bands that it has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from attcr.addresses import redact
from attcr.bands.products import recognise
from attcr.bands.sensors import Sensor
from attcr.bands.spec import PRODUCTS, InputSpec, Slot
from attcr.errors import SceneError, warn
from attcr.references.aligned import AlignedScene
from attcr.scenes.clouds.find import CLOUDS, choose_mask, find_clouds, mask_file, sensor_of
from attcr.scenes.clouds.masks import CLEAR, THICK, THIN, Classes
from attcr.scenes.clouds.rim import CloudMap, Rim
from attcr.scenes.open import open_scene
from attcr.scenes.scene import AlignedRaster, Scene

BLOCK = 128
"""Rows that are looked at together."""
VEILED = 0.9
"""Share of a reference under thin cloud from which all of it is taken for lying under a veil."""


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
            warn(
                f"The reference {self.scene.source} is completely under thin cloud: it is used all the same, where it "
                "is not under thick cloud."
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
