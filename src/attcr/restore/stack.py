"""Several images of one place in memory: one of them is filled from the others, as a scene is from its references."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attcr.bands.products import recognise
from attcr.bands.sensors import Sensor
from attcr.errors import SceneError, ShapeError
from attcr.references.choose import choose_references
from attcr.references.correct import Corrector, open_corrector
from attcr.references.harmonise import Float32
from attcr.restore.array import ArrayRows
from attcr.restore.filler import UNKNOWN_DAYS, Filler
from attcr.restore.options import AUTO_MOST, RestoreOptions
from attcr.restore.walk import NODATA, ORIGINAL, Array, Strip
from attcr.scenes.clouds.masks import CLEAR, THICK, THIN, Classes
from attcr.scenes.clouds.rim import CloudMap


@dataclass(frozen=True)
class FilledImage:
    """One image with its clouds filled wherever another one saw the ground."""

    image: Array
    """(C, H, W), in the type of the images given."""
    quality: NDArray[np.uint8]
    """(H, W): 0 no data, 1 original, 5 cloud left, 6 from another date."""
    days: NDArray[np.int16]
    """(H, W): days to the date that a pixel was taken from, the weighted mean of several; -32768 elsewhere."""


def fill_image(
    images: Sequence[Array],
    clouds: Sequence[Array],
    days: Sequence[int],
    at: int,
    options: RestoreOptions,
    network: Corrector | None = None,
) -> FilledImage:
    """Give one of several images, with the ground under its clouds taken from the others.

    Images are (C, H, W) on one grid, clouds (H, W) as `restore_array` takes them, and days are counted from any day.
    The three images that see most of the ground are used, or as many as `references="auto:5"` says. `network` corrects
    them (`open_network`).
    """
    given = zip(images, clouds, days, strict=True)
    others = [_CloudyArray.of(image, mask, day - days[at], options) for image, mask, day in given]
    target = others.pop(at)
    shares, away = [one.clear for one in others], [one.days for one in others]
    places = choose_references(target.classes > CLEAR, shares, away, options.searched or AUTO_MOST)
    chosen = [others[i] for i in places]
    filler = Filler(
        scene=target,
        product=target.sensor,
        clouds=target.cloud_map(options),
        references=chosen,
        masks=[one.cloud_map(options) for one in chosen],
        thick_only=False,
        network=network,
        batch=options.batch,
    )
    filler.survey()
    valid = target.valid(target.values, 0, blank=target.sensor.nodata).any(axis=0)
    quality = np.where(valid, ORIGINAL, NODATA).astype(np.uint8)
    filled = filler.fill(Strip(0, target.values, target.values.copy(), quality, None))
    none = np.full(quality.shape, UNKNOWN_DAYS, np.int16)
    return FilledImage(filled.values, filled.quality, none if filled.dates is None else filled.dates[0])


def open_network(dtype: np.dtype[Any], names: Sequence[str], options: RestoreOptions) -> Corrector | None:
    """Give the network that corrects images with these bands, or None, as `restore_scene` does for a scene."""
    product = options.named_sensor() or recognise({}, dtype, (1.0,), (0.0,))
    if product is None or options.reference_fill == "classical":
        return None
    return open_corrector(product, names, device=options.device, dtype=options.dtype, backend=options.backend)


@dataclass(frozen=True)
class _CloudyArray(ArrayRows):
    """An image in memory with its clouds and its day: a scene, or a reference of another one."""

    classes: Classes
    sensor: Sensor
    days: int

    @classmethod
    def of(cls, image: Array, clouds: Array, days: int, options: RestoreOptions) -> _CloudyArray:
        if image.ndim != 3 or clouds.shape != image.shape[1:]:
            raise ShapeError(
                f"An image of shape {image.shape} came with clouds of {clouds.shape}; expected its rows x columns."
            )
        sensor = options.named_sensor() or recognise({}, image.dtype, (1.0,), (0.0,))
        if sensor is None:
            raise SceneError(f"{image.dtype} values could come from any product: give RestoreOptions(sensor=...).")
        told = clouds * THIN if clouds.dtype == bool else np.clip(np.nan_to_num(clouds), CLEAR, THICK)
        return cls(image, options.nodata, told.astype(np.uint8), sensor, days)

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"The image {self.days:+d} days away"

    @property
    def clear(self) -> Float32:
        """Where the ground is seen clearly."""
        valid = self.valid(self.values, 0, blank=self.sensor.nodata).all(axis=0)
        return np.asarray(valid & (self.classes == CLEAR), np.float32)

    def cloud_map(self, options: RestoreOptions) -> CloudMap:
        return CloudMap(lambda top, bottom: self.classes[top:bottom], self.height, options.rim)
