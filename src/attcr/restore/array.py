"""Restore an image in memory, as numpy, torch or Pillow have it. Needs neither rasterio nor, by itself, torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attcr.bands.products import could_be_picture, recognise
from attcr.bands.sensors import RGB, Sensor, check_floats, check_values
from attcr.bands.spec import InputSpec
from attcr.errors import ConfigError, SceneError, ShapeError
from attcr.predict import Float32, Predictor, open_predictor
from attcr.restore.options import RestoreOptions
from attcr.restore.walk import NODATA, Array, Walk
from attcr.scenes.clouds.masks import CLEAR, CLOUD, THICK, THIN
from attcr.scenes.clouds.opaque import is_opaque, settle
from attcr.scenes.clouds.rim import CloudMap
from attcr.scenes.tiles import Grid, grid

if TYPE_CHECKING:
    from torch import nn

Layout = Literal["chw", "hwc"]


@dataclass(frozen=True)
class RestoredArray:
    """An image without cloud and where it was reconstructed."""

    image: Any
    """In the kind, layout and type that came."""
    quality: NDArray[np.uint8]
    """(H, W): 0 no data, 1 original, 2 and 3 reconstructed under thin and thick cloud, 4 unsure, 5 cloud left."""
    spread: Float32 | None
    """(H, W): the expected error in reflectance where the network predicts it; else, with `confidence`, how much eight
    views differ, as a part of the network's range."""


def restore_array(
    image: Any,
    weights: str | Path | nn.Module | Predictor,
    *,
    clouds: Any | None = None,
    bands: Sequence[str] | None = None,
    options: RestoreOptions | None = None,
    layout: Layout = "chw",
) -> RestoredArray:
    """Restore an image in memory.

    The image is a numpy array (C, H, W), or (H, W, C) with `layout="hwc"`; a torch tensor (C, H, W) or
    (1, C, H, W); or a Pillow image. `bands` names its bands, in their order (`("B02", "B03", ...)`): those that the
    network takes are restored, and the others stay. Without `bands`, the image must have the network's bands in its
    order (`spec.bands`). `weights` is the name or path of weights, a module that has a `spec`, or a predictor.

    `clouds` (H, W) is 0 where the image is clear, 1 under thin cloud, 2 under thick; True is cloud of either kind. No
    clouds are searched for here: without `clouds` every pixel goes through the network. Cloud that is opaque in red,
    green and blue counts as thick; thick cloud that the network does not remove stays, unless `unseen` of the options
    says otherwise. Integers are digital numbers and floats are reflectance, unless `sensor` of the options says
    otherwise.
    """
    options = options or RestoreOptions()
    array, wrap = _unwrapped(image, layout)
    if array.ndim != 3 or 0 in array.shape:
        raise ShapeError(f"An image has bands, rows and columns and at least one pixel, got shape {array.shape}.")
    tiles = grid(*array.shape[1:], tile=options.tile, overlap=options.overlap)
    mask = None if clouds is None else np.asarray(clouds)
    restored = restore_tiles(array, weights, tiles, clouds=mask, bands=bands, options=options)
    return RestoredArray(wrap(restored.image), restored.quality, restored.spread)


def _unwrapped(image: Any, layout: Layout) -> tuple[Array, Callable[[Array], Any]]:
    """Give an image as (C, H, W), and what turns such an array back into what came."""
    if layout not in ("chw", "hwc"):
        raise ConfigError(f"layout={layout!r}; choose 'chw' or 'hwc'.")
    library = type(image).__module__.partition(".")[0]
    if library == "torch":
        one = image[0] if image.dim() == 4 and image.shape[0] == 1 else image
        if one.dim() != 3:
            raise ShapeError(f"A tensor is (C, H, W) or (1, C, H, W), got shape {tuple(image.shape)}.")
        return one.detach().cpu().numpy(), lambda array: image.new_tensor(array).reshape(image.shape)
    if library == "PIL":
        return _unwrapped_picture(image)
    if layout == "hwc" and image.ndim == 3:
        return np.ascontiguousarray(image.transpose(2, 0, 1)), lambda array: array.transpose(1, 2, 0)
    return image, lambda array: array


def _unwrapped_picture(picture: Any) -> tuple[Array, Callable[[Array], Any]]:
    """Give a Pillow image's colours as (3, H, W); what is opaque stays aside."""
    from PIL import Image

    if picture.mode not in ("RGB", "RGBA"):
        raise ShapeError(f"A picture has the mode RGB or RGBA, got {picture.mode}: use picture.convert('RGB').")
    planes = np.asarray(picture).transpose(2, 0, 1)

    def wrap(array: Array) -> Any:
        return Image.fromarray(np.ascontiguousarray(np.concatenate([array, planes[3:]]).transpose(1, 2, 0)))

    return np.ascontiguousarray(planes[:3]), wrap


def restore_tiles(
    image: Array,
    weights: str | Path | nn.Module | Predictor,
    tiles: Grid,
    *,
    clouds: Array | None,
    bands: Sequence[str] | None = None,
    options: RestoreOptions,
) -> RestoredArray:
    """Restore what the tiles of a grid cover of an image; its other pixels stay unchanged.

    The grid may be a part of a larger one, for an image that is a part of a larger one: where all tiles that
    cover a pixel there are among these, it comes out as it would there, to the bit.
    """
    if options.references or options.bbox or options.aoi:
        raise ConfigError("references, bbox and aoi are for scenes: use restore_scene.")
    if options.mask not in (None, "none") or options.bands or options.radar:
        raise ConfigError("mask, bands and sar of the options are for scenes: give `clouds`, and `bands` by name.")
    predictor = open_predictor(weights, device=options.device, dtype=options.dtype, backend=options.backend)
    product = options.named_sensor() or recognise({}, image.dtype, (1.0,), (0.0,))
    if product is None:
        raise SceneError(f"{image.dtype} values could come from any product: give RestoreOptions(sensor=...).")
    places = _places(image, predictor.spec, product, bands)
    slots = [slot for slot in predictor.spec.bands if slot.name in places]
    names = [slot.name for slot in slots]
    chosen = [places[name] for name in names]
    seen = image if chosen == list(range(image.shape[0])) else image[chosen]
    rows = ArrayRows(seen, options.nodata)
    corner = seen[:, :1024, :1024]
    check_values(product, corner, rows.valid(corner, 0))
    if options.sensor is None and could_be_picture(product, {}, names):
        check_floats(corner, rows.valid(corner, 0))
    _, height, width = image.shape
    cloud_map = None if clouds is None else _cloud_map(clouds, seen, names, predictor.spec, product, options)
    nodata = [options.nodata] * len(chosen)
    spec, sensor = predictor.spec, predictor.spec.fit(product, slots)
    walk = Walk(rows, spec, predictor, sensor, tiles, cloud_map, nodata, options, names)
    restored = image.copy()
    quality = np.full((height, width), NODATA, np.uint8)
    spread = np.full((height, width), np.nan, np.float32) if walk.has_spread else None
    for strip in walk.strips():
        inside = slice(strip.top, strip.top + strip.values.shape[1])
        restored[chosen, inside] = strip.values
        quality[inside] = strip.quality
        if spread is not None:
            spread[inside] = strip.spread
    return RestoredArray(restored, quality, spread)


def _places(image: Array, spec: InputSpec, product: Sensor, bands: Sequence[str] | None) -> dict[str, int]:
    """Say which of the image's bands goes into each of the network's slots, by the slot's name."""
    wanted = [slot.name for slot in spec.bands]
    needed = [slot.name for slot in spec.slots if slot.kind not in ("band", "present", "level") and not slot.optional]
    if needed or (bands is None and image.shape[0] != len(wanted)):
        raise ShapeError(
            f"The image has {image.shape[0]} bands and the network takes {len(wanted)} ({' '.join(wanted)})"
            f"{' and ' + ' '.join(needed) if needed else ''}: give those in this order, name yours with `bands`, or "
            "use restore_scene."
        )
    if isinstance(bands, str) or (bands is not None and len(bands) != image.shape[0]):
        raise ShapeError(f"`bands` is {bands!r} and the image has {image.shape[0]} bands: name each of them, in order.")
    if bands is None and not spec.of_kind("level"):
        return {name: at for at, name in enumerate(wanted)}
    places = spec.match(product, wanted if bands is None else bands)
    return {name: at for name, at in zip(wanted, places, strict=True) if at is not None}


def _cloud_map(
    clouds: Array, image: Array, names: Sequence[str], spec: InputSpec, product: Sensor, options: RestoreOptions
) -> CloudMap:
    _, height, width = image.shape
    if clouds.shape != (height, width):
        raise ShapeError(f"clouds has shape {clouds.shape}; expected the image's {(height, width)}.")
    told = clouds * CLOUD if clouds.dtype == bool else np.clip(np.nan_to_num(clouds), CLEAR, THICK)
    colours = [names.index(name) for name in RGB] if set(RGB) <= set(names) else None
    opaque = is_opaque(image[colours], product) if colours else None
    classes = settle(told.astype(np.uint8), opaque, untold=THICK if "thick" in spec.removes else THIN)
    return CloudMap(lambda top, bottom: classes[top:bottom], height, options.rim)


class ArrayBand(NamedTuple):
    """One band of an image in memory."""

    name: str
    nodata: float | None


@dataclass(frozen=True)
class ArrayRows:
    """Rows of an image in memory, read as a scene's are."""

    values: Array
    nodata: float | None

    @property
    def height(self) -> int:
        """Rows."""
        return int(self.values.shape[1])

    @property
    def width(self) -> int:
        """Columns."""
        return int(self.values.shape[2])

    @property
    def bands(self) -> Sequence[ArrayBand]:
        """Its bands; nothing says their names."""
        return [ArrayBand("", self.nodata)] * len(self.values)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values."""
        return self.values.dtype

    def read(self, top: int, bottom: int) -> Array:
        """Give rows [top, bottom) as (C, rows, W)."""
        return self.values[:, top:bottom]

    def valid(self, values: Array, top: int, *, blank: float | None = None) -> NDArray[np.bool_]:
        """Say which of the values are data; `blank` is a product's value for none."""
        data = np.isfinite(values) if values.dtype.kind == "f" else np.ones(values.shape, bool)
        if self.nodata is not None and not np.isnan(self.nodata):
            data &= values != self.nodata
        elif blank is not None and self.nodata is None:
            data &= (values != blank).any(axis=0)
        return data
