"""What is asked of a scene before it is restored: which weights fit it, and where its clouds are."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from affine import Affine
from numpy.typing import NDArray

from attcr.bands.products import band_names, could_be_picture, find_bands
from attcr.bands.sensors import RGB, Sensor, check_floats, check_level, check_values
from attcr.bands.spec import InputSpec
from attcr.errors import AttcrWarning, ConfigError, SceneError
from attcr.restore.options import RestoreOptions
from attcr.scenes.clouds.find import choose_mask
from attcr.scenes.clouds.find import find_clouds as detect
from attcr.scenes.dataset import gdal
from attcr.scenes.open import open_scene
from attcr.scenes.scene import Band, Profile, Scene
from attcr.scenes.write import create, write_rows
from attcr.weights import restoring


@dataclass(frozen=True)
class Fit:
    """Whether weights fit a scene."""

    weights: str
    """Their published name."""
    fits: bool
    reason: str
    """What they would do to it, or why they cannot be used."""


def which_weights(
    source: str | Path | Sequence[str | Path], *, sensor: str | None = None, bands: str | Sequence[str] | None = None
) -> list[Fit]:
    """Say for all published weights whether they fit a scene, and why; those that fit come first.

    `sensor` and `bands` are as in `RestoreOptions`. Weights that fit are those that `restore_scene` takes with them.
    """
    options = RestoreOptions(sensor=sensor, bands=bands)  # type: ignore[arg-type]
    with gdal(), open_scene(source, sensor=options.named_sensor()) as scene:
        fits = [_fit(name, entry.spec, scene, options) for name, entry in restoring().items()]
    return sorted(fits, key=lambda fit: not fit.fits)


def choose_weights(source: str | Path | Sequence[str | Path], options: RestoreOptions) -> str:
    """Give the name of the published weights for a scene: the first in the package's list that fit it."""
    with gdal(), open_scene(source, vrt=options.vrt, sensor=options.named_sensor()) as scene:
        reasons = {
            name: _misfit(entry.spec, scene.product, scene.names, options.bands) for name, entry in restoring().items()
        }
    for name, misfit in reasons.items():
        if misfit is None:
            return name
    told = " ".join(f"{name}: {misfit}" for name, misfit in reasons.items())
    raise SceneError(f"No published weights fit {scene.source}. {told}")


def fitting(product: Sensor, names: Sequence[str]) -> list[str]:
    """Name the published weights that fit a scene of this product with these bands."""
    return [name for name, entry in restoring().items() if _misfit(entry.spec, product, names) is None]


def _misfit(spec: InputSpec, product: Sensor, names: Sequence[str], asked: Sequence[str] | None = None) -> str | None:
    try:
        spec.match(product, names, asked)
    except SceneError as error:
        return str(error)
    return None


def _fit(weights: str, spec: InputSpec, scene: Scene, options: RestoreOptions) -> Fit:
    try:
        product = scene.product
        places = spec.match(product, scene.names, options.bands)
        taken = [(slot.name, at) for slot, at in zip(spec.bands, places, strict=True) if at is not None]
        check_scene(scene.select([at for _, at in taken]), [name for name, _ in taken], options, quiet=True)
    except SceneError as error:
        return Fit(weights, False, str(error))
    told = band_names(product, scene.names)
    bands = [f"{name} ({told[at] or at + 1})" for name, at in taken]
    reason = f"removes {_clouds(spec.removes)} from {', '.join(bands)}."
    metres = scene.profile.metres
    if metres and not spec.gsd[0] / 1.5 <= metres <= spec.gsd[1] * 1.5:
        trained = "-".join(f"{distance:g}" for distance in dict.fromkeys(spec.gsd))
        reason += f" It was trained on pixels of {trained} m; these have {metres:g} m."
    return Fit(weights, True, reason)


def check_scene(scene: Scene, slots: Sequence[str], options: RestoreOptions, *, quiet: bool = False) -> None:
    """Refuse a scene whose values cannot be of its product, and warn where they hardly can, unless `quiet`.

    `slots` are the common names of its bands.
    """
    product, height = scene.product, min(64, scene.height)
    tops = sorted({0, (scene.height - height) // 2, scene.height - height})
    strips = [scene.read(top, top + height) for top in tops]
    seen = [scene.valid(strip, top, blank=product.nodata) for strip, top in zip(strips, tops, strict=True)]
    values, valid = np.concatenate(strips, axis=1), np.concatenate(seen, axis=1)
    check_values(product, values, valid)
    with warnings.catch_warnings():
        if quiet:
            warnings.simplefilter("ignore", AttcrWarning)
        if options.sensor is None and could_be_picture(product, scene.hints, scene.names):
            check_floats(values, valid)
        if "blue" in slots and "red" in slots:
            check_level(product, *(values[at][valid[at]] for at in (slots.index("blue"), slots.index("red"))))


def _clouds(removes: Sequence[str]) -> str:
    """Give thin, thick and shadow in words."""
    return " and ".join("shadow" if kind == "shadow" else f"{kind} cloud" for kind in removes)


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
        made = detect(scene, by, Path(folder), rim=options.rim, rgb=rgb)
        assert made is not None, "no mask was refused above"
        return made.read(0, scene.height)


def clouds_of_dates(images: NDArray[Any], names: Sequence[str], options: RestoreOptions) -> NDArray[np.uint8]:
    """Give the clouds (T, H, W) of images (T, C, H, W) in memory: by a mask among their bands, else as for a scene."""
    own, found = mask_band(names), []
    with TemporaryDirectory(prefix="attcr-dates-") as folder:
        paths = {"date": Path(folder, "date.tif"), "mask": Path(folder, "mask.tif")}
        mask = options.mask if own is None else f"{names[own].lower()}={paths['mask']}"
        for image in images:
            bands = [Band(name, "", 1, nodata=options.nodata, description=name) for name in names]
            height, width = image.shape[1:]
            profile = Profile(height, width, str(image.dtype), None, Affine.scale(10, -10), ([], None), None, {})
            for what, path in paths.items():
                some = [at for at in range(len(names)) if (at == own) == (what == "mask")]
                if some:
                    create(path, profile, [bands[at] for at in some])
                    write_rows(path, 0, image[some])
            try:
                found.append(find_clouds(paths["date"], mask, sensor=options.sensor, bands=options.bands))
            except SceneError as error:
                raise SceneError(f"Give `clouds`, for none can be found: {error}".replace(folder, "")) from error
    return np.stack(found)


def mask_band(names: Sequence[str]) -> int | None:
    """Say which of an image's bands is the mask of its product."""
    return next((at for at, name in enumerate(names) if name.lower() in ("scl", "qa_pixel")), None)
