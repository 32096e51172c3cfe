"""Restore an image in memory: rows in, tiles through the network, blended rows out.

The network is asked for its *change*: prediction minus input, in the model's range. Changes are blended, not
pixels, so that where the network changes nothing the number that came is the one that leaves, to the bit.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from attcr.addresses import redact
from attcr.errors import ConfigError, SceneError, ShapeError
from attcr.scenes.blend import StripBlender
from attcr.scenes.clouds.masks import CLEAR, THICK
from attcr.scenes.clouds.rim import CloudMap, Rim
from attcr.scenes.tiles import Grid, Tile, grid
from attcr.sensors import SEN12MSCR_SAR, SENSORS, Sensor, check_values, into_dtype, model_range, recognise

if TYPE_CHECKING:
    from attcr.scenes.scene import AlignedRaster

Array = NDArray[Any]
Float32 = NDArray[np.float32]

NODATA, ORIGINAL, UNDER_THIN, UNDER_THICK, LOW_CONFIDENCE = range(5)
"""The classes of a quality raster."""
QUALITY_NAMES = (
    "no data",
    "original",
    "reconstructed under thin cloud",
    "reconstructed under thick cloud",
    "reconstructed with low confidence",
)
QUALITY_COLOURS: dict[int, tuple[int, ...]] = {
    NODATA: (0, 0, 0, 0),
    ORIGINAL: (190, 190, 190, 255),
    UNDER_THIN: (115, 178, 255, 255),
    UNDER_THICK: (0, 92, 230, 255),
    LOW_CONFIDENCE: (230, 76, 0, 255),
}
LOW_SPREAD = 0.05
"""Spread of the eight views, as a part of the model's range, above which a pixel counts as low confidence."""
THICK_CHANGE = 0.2
"""Without a mask, a change above this part of the model's range counts as thick cloud."""
SMALLEST_INPUT = 8


@dataclass(frozen=True)
class RestoreOptions:
    """How to restore a scene. Two scenes restored with equal options were treated alike."""

    tile: int = 256
    """Pixels along a tile; the weights were trained on about this many."""
    overlap: int = 32
    """Pixels that neighbouring tiles share and are blended over."""
    batch: int = 1
    """Tiles that go through the network at once."""
    device: str = "cpu"
    """Where the network runs, as torch names it."""
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """What the network computes in."""
    sensor: str | Sensor | None = None
    """The product, where the scene's metadata does not tell."""
    bands: tuple[str, ...] | None = None
    """Bands to give the network, by name or number from 1, in the order it takes them."""
    mask: str = "none"
    """Where clouds are: none, auto, csmask, s2cloudless, scl[=FILE], qa_pixel[=FILE], or a raster."""
    dilate: int = 8
    """Pixels around a cloud that are restored too."""
    feather: int = 8
    """Pixels beyond those over which restored fades into original."""
    sar: str | None = None
    """Radar raster (VV, VH in dB) for weights that take it."""
    nodata: float | None = None
    """The value that means no data, where the file does not declare it."""
    confidence: bool = False
    """Run all eight flips and turns of each tile and write how much they differ."""

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise ConfigError(f"batch is {self.batch} and must be at least 1.")
        if self.dilate < 0 or self.feather < 0:
            raise ConfigError(f"dilate ({self.dilate}) and feather ({self.feather}) must not be negative.")
        if self.dtype not in ("float32", "bfloat16", "float16"):
            raise ConfigError(f"dtype is {self.dtype!r}; expected float32, bfloat16 or float16.")
        if isinstance(self.sensor, str) and self.sensor not in SENSORS:
            raise ConfigError(f"There is no sensor {self.sensor!r}; --sensor is one of {', '.join(SENSORS)}.")
        grid(1, 1, tile=self.tile, overlap=self.overlap)

    def describe(self) -> dict[str, Any]:
        """Give the options that decide the result, as plain values: device and batch do not."""
        told = asdict(self)
        told["sar"] = redact(self.sar) if self.sar else None
        told["mask"] = redact(self.mask)
        return {key: value for key, value in told.items() if key not in ("device", "batch")}

    def digest(self) -> str:
        """Give a sha256 of the options that decide the result."""
        return hashlib.sha256(json.dumps(self.describe(), sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class RestoredArray:
    """An image without cloud and where it was reconstructed."""

    image: Array
    """(C, H, W) in the type that came."""
    quality: NDArray[np.uint8]
    """(H, W): 0 no data, 1 original, 2 and 3 reconstructed under thin and thick cloud, 4 unsure."""
    spread: Float32 | None
    """(H, W): how much the eight views differ, as a part of the model's range; only with `confidence`."""


def restore_array(
    image: Array,
    model: nn.Module,
    *,
    clouds: Array | None = None,
    options: RestoreOptions | None = None,
) -> RestoredArray:
    """Restore an image (C, H, W) in memory.

    `clouds` (H, W) is 0 where the image is clear, 1 under thin cloud, 2 or True under thick; without it every
    pixel goes through the network. Integers are digital numbers and floats reflectance, unless the options'
    sensor says otherwise.
    """
    options = options or RestoreOptions()
    if image.ndim != 3 or 0 in image.shape:
        raise ShapeError(f"An image is (C, H, W) with at least one pixel, got shape {image.shape}.")
    _, height, width = image.shape
    tiles = grid(height, width, tile=options.tile, overlap=options.overlap)
    return restore_tiles(image, model, tiles, clouds=clouds, options=options)


def restore_tiles(
    image: Array, model: nn.Module, tiles: Grid, *, clouds: Array | None, options: RestoreOptions
) -> RestoredArray:
    """Restore what the tiles of a grid cover of an image; its other pixels are left as they came.

    The grid may be a part of a larger one, for an image that is a part of a larger one: where all tiles that
    cover a pixel there are among these, it comes out as it would there, to the bit.
    """
    if options.mask != "none" or options.bands or options.sar:
        raise ConfigError("mask, bands and sar are for scenes: give `clouds`, and the bands in the network's order.")
    network = Network(model, options, image.shape[0])
    if image.shape[0] != network.inputs or network.auxiliary:
        raise ShapeError(
            f"The image has {image.shape[0]} channels and the network takes {network.inputs}: give those, or "
            "restore_scene with sar where some are radar."
        )
    product = named_sensor(options.sensor) or recognise({}, image.dtype, (1.0,), (0.0,))
    if product is None:
        raise SceneError(f"{image.dtype} values could be any product's: give RestoreOptions(sensor=...).")
    rows = _ArrayRows(image, options.nodata)
    check_values(product, image[:, :1024, :1024], rows.valid(image[:, :1024, :1024], 0))
    sensor = product if isinstance(options.sensor, Sensor) else model_range(product, image.shape[0])
    _, height, width = image.shape
    cloud_map = None
    if clouds is not None:
        if clouds.shape != (height, width):
            raise ShapeError(f"clouds has shape {clouds.shape}; expected the image's {(height, width)}.")
        thick = np.asarray(clouds) * THICK if clouds.dtype == bool else np.nan_to_num(clouds)
        classes = np.clip(thick, CLEAR, THICK).astype(np.uint8)
        rim = Rim(options.dilate, options.feather)
        cloud_map = CloudMap(lambda top, bottom: classes[top:bottom], height, rim)
    nodata = [options.nodata] * image.shape[0]
    walk = Walk(rows, network, sensor.unnamed(), tiles, cloud_map, nodata, options)
    restored = image.copy()
    quality = np.full((height, width), NODATA, np.uint8)
    spread = np.full((height, width), np.nan, np.float32) if options.confidence else None
    for strip in walk.strips():
        inside = slice(strip.top, strip.top + strip.values.shape[1])
        restored[:, inside] = strip.values
        quality[inside] = strip.quality
        if spread is not None:
            spread[inside] = strip.spread
    return RestoredArray(restored, quality, spread)


class Rows(Protocol):
    """Anything that gives an image's rows: a scene or an array."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values."""

    def read(self, top: int, bottom: int) -> Array:
        """Give rows as (C, rows, W)."""

    def valid(self, values: Array, top: int, *, blank: float | None = None) -> NDArray[np.bool_]:
        """Say which of those values are data."""


@dataclass(frozen=True)
class Strip:
    """Finished rows of a walk: as they came, restored, and what is known about them."""

    top: int
    came: Array
    values: Array
    quality: NDArray[np.uint8]
    spread: Float32 | None


@dataclass(frozen=True)
class _ArrayRows:
    values: Array
    nodata: float | None

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.values.dtype

    def read(self, top: int, bottom: int) -> Array:
        return self.values[:, top:bottom]

    def valid(self, values: Array, top: int, *, blank: float | None = None) -> NDArray[np.bool_]:
        data = np.isfinite(values) if values.dtype.kind == "f" else np.ones(values.shape, bool)
        if self.nodata is not None and not np.isnan(self.nodata):
            data &= values != self.nodata
        elif blank is not None and self.nodata is None:
            data &= (values != blank).any(axis=0)
        return data


class Network:
    """A model on its device, asked for changes."""

    def __init__(self, model: nn.Module, options: RestoreOptions, bands: int | None = None) -> None:
        config = getattr(model, "config", None)
        if config is not None:
            self.optical = list(config.residual)
            self.inputs = int(config.in_channels)
        else:
            self.inputs = bands or 3
            self.optical = list(range(self.inputs))
        self.auxiliary = [channel for channel in range(self.inputs) if channel not in self.optical]
        try:
            self._device = torch.device(options.device)
            self._dtype: torch.dtype = getattr(torch, options.dtype)
            if self._dtype != torch.float32:
                model = copy.deepcopy(model)  # the caller's stays as it is
            self._model = model.to(self._device, self._dtype).eval()
        except (RuntimeError, AssertionError) as error:
            first = str(error).splitlines()[0]
            raise ConfigError(f"The network cannot go to device {options.device!r}: {first}") from error
        self._confidence = options.confidence

    @torch.inference_mode()
    def changes(self, x: Float32) -> tuple[Float32, Float32 | None]:
        """Give what the network adds to the optical part of (B, C, h, w), and the spread of eight views."""
        given = torch.from_numpy(x).to(self._device, self._dtype)
        plain = self._change(given)
        if not self._confidence:
            return plain.cpu().numpy(), None
        views = [plain]
        for flip in (False, True):
            for turns in range(4):
                if not flip and not turns:
                    continue
                seen = torch.rot90(given.flip(3) if flip else given, turns, (2, 3))
                back = torch.rot90(self._change(seen), -turns, (2, 3))
                views.append(back.flip(3) if flip else back)
        spread = torch.stack(views).std(dim=0, correction=0).mean(dim=1)
        return plain.cpu().numpy(), spread.cpu().numpy()

    def _change(self, x: Tensor) -> Tensor:
        height, width = x.shape[2:]
        missing = (max(SMALLEST_INPUT - width, 0), max(SMALLEST_INPUT - height, 0))
        if any(missing):
            x = nn.functional.pad(x.float(), (0, missing[0], 0, missing[1]), mode="replicate").to(x.dtype)
        try:
            y = self._model(x)
        except torch.OutOfMemoryError as error:
            raise SceneError(
                f"A batch of {x.shape[0]} tiles of {width} x {height} does not fit into the memory of {self._device}: "
                "use a smaller --batch or --tile."
            ) from error
        wanted = (x.shape[0], len(self.optical), *x.shape[2:])
        if tuple(y.shape) != wanted:
            raise ShapeError(f"The network gave {tuple(y.shape)} for {tuple(x.shape)}; expected {wanted}.")
        change = y.float() - x[:, self.optical].float()
        if not bool(torch.isfinite(change).all()):
            raise SceneError(
                f"The network gave values that are not numbers in {self._dtype}: use --dtype float32, and "
                "check the weights if it is already."
            )
        trimmed: Tensor = change[:, :, :height, :width]
        return trimmed


@dataclass
class Walk:
    """The walk of the pixels: rows in, tiles through the network, blended rows out."""

    rows: Rows
    network: Network
    sensor: Sensor
    grid: Grid
    clouds: CloudMap | None
    nodata: Sequence[float | None]
    options: RestoreOptions
    radar: AlignedRaster | None = None
    on_tiles: Callable[[int], None] | None = None

    def tiles_to_run(self, row: int) -> list[Tile]:
        """Give the tiles at this row that have something to restore."""
        if self.clouds is None:
            return self.grid.row_of_tiles(row)
        return self.clouds.cloudy_tiles(self.grid, row)

    def strips(self, first_row: int = 0) -> Iterator[Strip]:
        """Give finished rows, top to bottom; no more than a row of tiles is held.

        `first_row` is where an earlier walk's last strip ended; the tiles that reach beyond it are run again.
        """
        tiles = self.grid
        channels = len(self.network.optical)
        blender = StripBlender(tiles, channels)
        spreads = StripBlender(tiles, 1) if self.options.confidence else None
        begin = next(row for row in tiles.rows if row + tiles.tile_height > first_row)
        for one in (blender, spreads):
            if one is not None:
                one.start(begin)
        values = self.rows.read(begin, begin)
        for row, below in zip(tiles.rows, [*tiles.rows[1:], tiles.height], strict=True):
            if row < begin:
                continue
            bottom = row + tiles.tile_height
            kept = values.shape[1]
            values = np.concatenate([values, self.rows.read(row + kept, bottom)], axis=1)
            valid = self.rows.valid(values, row, blank=self.sensor.nodata)
            radar = self.radar.read(row, bottom) if self.radar else None
            self._run(row, values, valid, radar, blender, spreads)
            done = below - row
            change = blender.finish(below)
            spread = spreads.finish(below)[0] / self.sensor.range.span if spreads else None
            if row >= first_row:
                yield self._finish(row, values[:, :done], valid[:, :done], change, spread)
            values = values[:, done:]

    def _run(
        self,
        row: int,
        values: Array,
        valid: NDArray[np.bool_],
        radar: Array | None,
        blender: StripBlender,
        spreads: StripBlender | None,
    ) -> None:
        tiles = [tile for tile in self.tiles_to_run(row) if valid[:, :, tile.cols].any()]
        for start in range(0, len(tiles), self.options.batch):
            together = tiles[start : start + self.options.batch]
            x = np.stack([self._to_model(values, valid, radar, tile) for tile in together])
            changes, spread = self.network.changes(x)
            for i, tile in enumerate(together):
                blender.add(tile, changes[i])
                if spreads is not None and spread is not None:
                    spreads.add(tile, spread[i][None])
            if self.on_tiles:
                self.on_tiles(len(together))

    def _to_model(self, values: Array, valid: NDArray[np.bool_], radar: Array | None, tile: Tile) -> Float32:
        """Give one tile's input; what is no data gets the mean of its band, in this tile only."""
        x = np.empty((self.network.inputs, tile.height, tile.width), np.float32)
        seen = self.sensor.to_model(values[:, :, tile.cols])
        x[self.network.optical] = _filled(seen, valid[:, :, tile.cols])
        if radar is not None:
            seen = SEN12MSCR_SAR.to_model(radar[:, :, tile.cols])
            x[self.network.auxiliary] = _filled(seen, np.isfinite(seen))
        return x

    def _finish(
        self,
        top: int,
        values: Array,
        valid: NDArray[np.bool_],
        change: Float32,
        spread: Float32 | None,
    ) -> Strip:
        """Give the restored rows and their quality."""
        _, height, width = values.shape
        if self.clouds is None:
            weights, classes = np.ones((height, width), np.float32), None
        else:
            classes, weights = self.clouds.rows(top, top + height)
        out = values.copy()
        touched = np.zeros((height, width), bool)
        whole = valid.all(axis=0)
        for band, nodata in enumerate(self.nodata):
            here = (change[band] != 0) & (weights > 0) & valid[band]
            touched |= here
            if here.any():
                came = values[band][here]
                sensor = self.sensor.band(band)
                x = sensor.to_model(came.reshape(1, 1, -1)).astype(np.float64) + change[band][here]
                restored = sensor.from_model(x, np.float64).ravel()
                weight = weights[here]
                mixed = np.where(weight == 1, restored, came + weight * (restored - came))
                out[band][here] = _avoid(into_dtype(mixed, values.dtype), nodata)
        quality = np.where(valid.any(axis=0), ORIGINAL, NODATA).astype(np.uint8)
        if classes is None:
            thick = np.abs(change).mean(axis=0) > THICK_CHANGE * self.sensor.range.span
        else:
            thick = classes == THICK
        quality[touched] = np.where(thick, UNDER_THICK, UNDER_THIN)[touched]
        unsure = ~whole if spread is None else ~whole | (spread > LOW_SPREAD)
        quality[touched & unsure] = LOW_CONFIDENCE
        if spread is not None:
            spread = np.where(touched, spread, np.where(quality == NODATA, np.nan, 0)).astype(np.float32)
        return Strip(top, values, out, quality, spread)


def named_sensor(sensor: str | Sensor | None) -> Sensor | None:
    """Give the sensor that an option names, or holds."""
    return SENSORS[sensor] if isinstance(sensor, str) else sensor


def _filled(x: Float32, valid: NDArray[np.bool_]) -> Float32:
    """Give x (C, h, w) with the mean of what is valid in its band wherever it is not."""
    if valid.all():
        return x
    count = valid.sum(axis=(1, 2), keepdims=True)
    total = np.where(valid, x, 0).sum(axis=(1, 2), keepdims=True, dtype=np.float64)
    mean = (total / np.maximum(count, 1)).astype(np.float32)
    return np.where(valid, x, mean)


def _avoid(values: Array, nodata: float | None) -> Array:
    """Keep restored values from becoming nodata by chance: one step aside is closer than a hole."""
    if nodata is None or np.isnan(nodata):
        return values
    hit = values == nodata
    if hit.any():
        if values.dtype.kind == "f":
            values[hit] = np.nextafter(values[hit], np.inf)
        else:
            values[hit] = nodata - 1 if nodata == np.iinfo(values.dtype).max else nodata + 1
    return values
