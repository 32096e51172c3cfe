"""Several dates of one place in memory: one of them is filled from the others, as a scene is from its references."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from attcr.bands.products import recognise
from attcr.bands.sensors import Sensor
from attcr.errors import SceneError, ShapeError
from attcr.references.cells import Float32
from attcr.references.choose import choose_dates
from attcr.references.corrector import ReferenceNetwork, open_corrector
from attcr.references.open import Reference
from attcr.restore.array import ArrayRows
from attcr.restore.filler import UNKNOWN_DAYS, Filler
from attcr.restore.options import AUTO_MOST, RestoreOptions
from attcr.restore.walk import NODATA, ORIGINAL, Array, Strip
from attcr.scenes.clouds.masks import CLEAR, THICK, THIN, Classes
from attcr.scenes.clouds.rim import CloudMap
from attcr.scenes.scene import Band, Scene


@dataclass(frozen=True)
class FilledDate:
    """One date with its clouds filled wherever another date saw the ground."""

    image: Array
    """(C, H, W), in the type of the images given."""
    quality: NDArray[np.uint8]
    """(H, W): 0 no data, 1 original, 5 cloud left, 6 from another date."""
    days: NDArray[np.int16]
    """(H, W): days to the date that a pixel was taken from; -32768 elsewhere."""


def fill_date(
    images: Sequence[Array],
    clouds: Sequence[Array],
    days: Sequence[int],
    at: int,
    options: RestoreOptions,
    network: ReferenceNetwork | None = None,
) -> FilledDate:
    """Give one of several dates, with the ground under its clouds taken from the others.

    Images are (C, H, W) on one grid, clouds (H, W) as `restore_array` takes them, and days are counted from any day.
    The three dates that see most of the ground are used, or as many as `references="auto:5"` says. `network` corrects
    them (`open_network`).
    """
    dates = [_Date.of(image, mask, options) for image, mask in zip(images, clouds, strict=True)]
    target = dates[at]
    others = [i for i in range(len(dates)) if i != at]
    away = [days[i] - days[at] for i in others]
    cloud = target.classes > CLEAR
    chosen = choose_dates(cloud, [dates[i].clear for i in others], away, options.searched or AUTO_MOST)
    filler = Filler(
        scene=cast(Scene, target),
        product=target.product,
        clouds=target.cloud_map(options),
        references=[cast(Reference, _Other(dates[others[i]], away[i])) for i in chosen],
        masks=[dates[others[i]].cloud_map(options) for i in chosen],
        thick_only=False,
        network=network,
        batch=options.batch,
    )
    filler.survey()
    valid = target.valid(target.values, 0, blank=target.product.nodata).any(axis=0)
    quality = np.where(valid, ORIGINAL, NODATA).astype(np.uint8)
    filled = filler.fill(Strip(0, target.values, target.values.copy(), quality, None))
    none = np.full(quality.shape, UNKNOWN_DAYS, np.int16)
    return FilledDate(filled.values, filled.quality, none if filled.dates is None else filled.dates[0])


def open_network(dtype: np.dtype[Any], names: Sequence[str], options: RestoreOptions) -> ReferenceNetwork | None:
    """Give the network that corrects dates with these bands, or None, as `restore_scene` does for a scene."""
    product = options.named_sensor() or recognise({}, dtype, (1.0,), (0.0,))
    if product is None or options.reference_fill == "classical":
        return None
    how = {"device": options.device, "dtype": options.dtype, "backend": options.backend}
    return open_corrector(product, names, **how)


@dataclass(frozen=True)
class _Date(ArrayRows):
    """An image in memory with its clouds, as a filler reads a scene."""

    classes: Classes
    product: Sensor
    bands: Sequence[Band]

    @classmethod
    def of(cls, image: Array, clouds: Array, options: RestoreOptions) -> _Date:
        if image.ndim != 3 or clouds.shape != image.shape[1:]:
            raise ShapeError(
                f"An image of shape {image.shape} came with clouds of {clouds.shape}; expected its rows x columns."
            )
        product = options.named_sensor() or recognise({}, image.dtype, (1.0,), (0.0,))
        if product is None:
            raise SceneError(f"{image.dtype} values could come from any product: give RestoreOptions(sensor=...).")
        told = clouds * THIN if clouds.dtype == bool else np.clip(np.nan_to_num(clouds), CLEAR, THICK)
        bands = [Band("", "", i, nodata=options.nodata) for i in range(1, image.shape[0] + 1)]
        return cls(image, options.nodata, told.astype(np.uint8), product, bands)

    @property
    def height(self) -> int:
        return int(self.values.shape[1])

    @property
    def width(self) -> int:
        return int(self.values.shape[2])

    @property
    def clear(self) -> Float32:
        """Where the ground is seen clearly."""
        valid = self.valid(self.values, 0, blank=self.product.nodata).all(axis=0)
        return np.asarray(valid & (self.classes == CLEAR), np.float32)

    def cloud_map(self, options: RestoreOptions) -> CloudMap:
        return CloudMap(lambda top, bottom: self.classes[top:bottom], self.height, options.rim)


@dataclass(frozen=True)
class _Other:
    """Another date on the same grid, as a filler reads a reference."""

    date: _Date
    days: int

    @property
    def aligned(self) -> _Other:
        return self

    def read(self, top: int, bottom: int) -> tuple[Float32, Any]:
        values = self.date.read(top, bottom)
        valid = self.date.valid(values, top, blank=self.date.product.nodata).all(axis=0)
        return self.date.product.to_reflectance(values), valid
