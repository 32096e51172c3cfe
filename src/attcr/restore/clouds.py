"""Find a scene's clouds: the product's own mask, the user's, or a detector on its reflectance."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from attcr.addresses import is_local
from attcr.errors import SceneError
from attcr.products import find_bands, recognise
from attcr.restore.options import RestoreOptions
from attcr.scenes import write
from attcr.scenes.io import AlignedRaster, Band, Scene, open_scene
from attcr.scenes.masks import (
    CLEAR,
    Classes,
    CloudMap,
    classes_of_brightness,
    classes_of_qa_pixel,
    classes_of_raster,
    classes_of_scl,
)
from attcr.sensors import PICTURE_RANGE, RGB, RGB_RANGE, SENSORS, Sensor

Array = NDArray[Any]


def find_clouds(
    scene: Scene,
    options: RestoreOptions,
    folder: Path,
    *,
    on_rows: Callable[[int], None],
    keep: bool = False,
) -> CloudMap | None:
    """Give the scene's cloud map, made once as clouds.tif in the working folder; None stands for no mask.

    The scene comes with all its bands, for a detector may look at others than the network.
    """
    if options.mask == "none":
        return None
    path = folder / "clouds.tif"
    profile = scene.profile
    if not keep:
        plain = replace(profile, dtype="uint8", tags={}, gcps=([], None), rpcs=None, has_mask=False)
        write.create(path, plain, [Band("clouds", "", 1)])
        for top, classes in _detect(scene, options):
            write.write_rows(path, top, classes[None])
            on_rows(top + classes.shape[0])

    def read(top: int, bottom: int) -> Classes:
        with open_scene(path) as made:
            return made.read(top, bottom)[0]  # type: ignore[no-any-return]

    return CloudMap(read, profile.height, options.dilate, options.feather)


def _detect(scene: Scene, options: RestoreOptions) -> Iterator[tuple[int, Classes]]:
    """Give cloud classes in blocks of rows, from the product's mask, the user's, or a detector."""
    readers = {"scl": classes_of_scl, "qa_pixel": classes_of_qa_pixel}
    height = scene.height
    name, _, given = options.mask.partition("=")
    if name in ("auto", "csmask", "s2cloudless"):
        yield from _run_detector(scene, options)
        return
    if name in readers:
        href = given or scene.companions.get(name)
        if not href:
            raise SceneError(
                f"{scene.source} brings no {name.upper()} file: give it with --mask {name}=FILE, or "
                "choose another mask."
            )
        read: Callable[[Array], Classes] = readers[name]
    else:
        href, read = options.mask, classes_of_raster
        if is_local(href) and not Path(href).exists():
            raise SceneError(
                f"There is no mask {href!r}: --mask is none, auto, csmask, s2cloudless, scl, qa_pixel, or a raster."
            )
    mask = AlignedRaster(href, scene.profile)
    try:
        for top in range(0, height, 512):
            yield top, read(mask.read(top, min(top + 512, height))[0])
    finally:
        mask.close()


def _run_detector(whole: Scene, options: RestoreOptions) -> Iterator[tuple[int, Classes]]:
    sensor = sensor_of(whole, options)
    detect, scene = _detector(whole, sensor, options.mask)
    height, width = scene.height, scene.width
    block, margin = 1024, 64  # pixels beyond the block that the detector may look at
    for top in range(0, height, block):
        first, last = max(top - margin, 0), min(top + block + margin, height)
        values = scene.read(first, last)
        valid = scene.valid(values, first, blank=sensor.nodata).any(axis=0)
        classes = np.zeros(valid.shape, np.uint8)
        for left in range(0, width, block):
            near = slice(max(left - margin, 0), min(left + block + margin, width))
            found = detect(values[:, :, near])
            right = min(left + block, width)
            classes[:, left:right] = found[:, left - near.start : right - near.start]
        classes[~valid] = CLEAR
        yield top, classes[top - first : min(top + block, height) - first]


def _detector(scene: Scene, sensor: Sensor, name: str) -> tuple[Callable[[Array], Classes], Scene]:
    """Give a detector and the scene with the bands it looks at."""
    names = [band.name for band in scene.bands]
    if name == "auto":
        at = find_bands(sensor, names, RGB) or (list(range(3)) if len(names) == 3 else None)
        if at is None:
            raise SceneError(f"--mask auto looks at red, green and blue, which {scene.source} has not.")
        three = sensor.into(PICTURE_RANGE if sensor.picture else RGB_RANGE).unnamed()
        return lambda values: classes_of_brightness(three.to_model(values)), scene.select(at)
    if name == "s2cloudless":
        from attcr.scenes import s2cloudless

        at = find_bands(sensor, names, s2cloudless.BANDS)
        if at is None or not sensor.name.startswith("s2-l1c"):
            raise SceneError(
                f"--mask s2cloudless takes Sentinel-2 L1C with bands {' '.join(s2cloudless.BANDS)}, and "
                f"{scene.source} is {sensor.name}: use --mask csmask or scl."
            )
        return lambda values: s2cloudless.find_clouds(sensor.to_reflectance(values)), scene.select(at)
    from attcr.scenes import ukis_csmask

    for count, nir in ((6, "nir"), (6, "nir08"), (4, "nir"), (4, "nir08")):
        called = ukis_csmask.BANDS[:count]
        at = find_bands(sensor, names, [nir if band == "nir" else band for band in called])
        if at is not None:
            break
    if at is None or sensor.name in ("rgb8", "picture"):
        raise SceneError(
            "--mask csmask takes reflectance with at least blue, green, red and near infrared, and "
            f"{scene.source} has not all four: use --mask auto or a raster."
        )
    level: Literal["l1c", "l2a"] = "l1c" if "l1" in sensor.name else "l2a"
    seen = scene.select(at)
    return lambda values: ukis_csmask.find_clouds(sensor.to_reflectance(values), called, level), seen


def sensor_of(scene: Scene, options: RestoreOptions) -> Sensor:
    """Give the scene's product: the one named, else the one its metadata tells, else refuse."""
    scales, offsets = [band.scale for band in scene.bands], [band.offset for band in scene.bands]
    sensor = options.named_sensor() or recognise(scene.hints, scene.dtype, scales, offsets)
    if sensor is None:
        raise SceneError(
            f"{scene.source} holds {scene.dtype} values and nothing says of which product: name it with "
            f"--sensor, one of {', '.join(SENSORS)} (n0400 for Sentinel-2 of processing baseline 04.00 "
            "and later)."
        )
    return sensor
