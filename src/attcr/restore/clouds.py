"""The clouds of a scene as an array, without restoring it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from attcr.bands.products import find_bands
from attcr.bands.sensors import RGB, Sensor
from attcr.errors import ConfigError, SceneError
from attcr.restore.options import RestoreOptions
from attcr.scenes.clouds.find import choose_mask
from attcr.scenes.clouds.find import find_clouds as detect
from attcr.scenes.dataset import gdal
from attcr.scenes.open import open_scene


def find_clouds(
    source: str | Path | Sequence[str | Path],
    mask: str | None = None,
    *,
    sensor: str | Sensor | None = None,
    bands: str | Sequence[str] | None = None,
) -> NDArray[np.uint8]:
    """Give the clouds of a scene as (H, W): 0 clear, 1 thin cloud or shadow, 2 thick cloud.

    `source` is anything that `restore_scene` takes. `mask` says how: scl[=FILE], qa_pixel[=FILE], s2cloudless, csmask,
    auto, or a raster (0 is clear); None chooses as `restore_scene` does. `sensor` names the product if the
    scene does not say it, and `bands` which of its bands are red, green and blue, by name or number from 1. Give the
    result to `restore_array` as `clouds`; it does not include the rim around clouds.
    """
    options = RestoreOptions(mask=mask, sensor=sensor, bands=bands, dilate=0, feather=0)  # type: ignore[arg-type]
    if options.mask == "none":
        raise ConfigError("mask=none looks for no clouds: name a detector, such as auto, or a raster.")
    named = options.named_sensor()
    with gdal(), open_scene(source, sensor=named) as scene, TemporaryDirectory(prefix="attcr-clouds-") as folder:
        product, names = scene.product, scene.names
        rgb = find_bands(product, names, options.bands) if options.bands else None
        if options.bands and (rgb is None or len(rgb) != len(RGB)):
            has = " ".join(name or str(i) for i, name in enumerate(names, 1))
            raise SceneError(f"`bands` is {' '.join(options.bands)} and the scene has {has}: name red, green and blue.")
        by = options.mask or choose_mask(scene, rgb)
        detect(scene, by, Path(folder), rim=options.rim, rgb=rgb)
        with open_scene(Path(folder, "clouds.tif")) as made:
            classes: NDArray[np.uint8] = made.read(0, made.height)[0]
    return classes
