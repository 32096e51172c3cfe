"""`da.attcr.restore(model)`: the xarray accessor. Import this module to have it."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch import nn

from attcr.errors import ConfigError, MissingExtraError, ShapeError
from attcr.restore.array import restore_array, restore_tiles
from attcr.restore.options import RestoreOptions
from attcr.restore.walk import Array
from attcr.scenes.tiles import Grid, grid

try:
    import xarray as xr
except ImportError as error:
    raise MissingExtraError("xarray", "xarray") from error

_ROWS = ("y", "latitude", "lat", "northing", "row")
_COLS = ("x", "longitude", "lon", "easting", "col", "column")


@xr.register_dataarray_accessor("attcr")
class RestoreAccessor:
    """What attcr adds to a DataArray of bands, rows and columns."""

    def __init__(self, array: xr.DataArray) -> None:
        self._array = array

    def restore(
        self, model: nn.Module, *, clouds: xr.DataArray | None = None, options: RestoreOptions | None = None
    ) -> xr.DataArray:
        """Give the array without cloud; dims, coords, attrs, encoding and type stay.

        `clouds` (rows, columns) is 0 where it is clear, 1 under thin cloud, 2 or True under thick. An array that is
        chunked by dask stays lazy and is restored chunk by chunk, each with the pixels around it that its tiles
        touch, so that the result does not depend on the chunks. Nodata is the options', else `_FillValue`.
        """
        options = options or RestoreOptions()
        band, row, col = self._dims()
        array = self._array.transpose(band, row, col)
        options = replace(options, nodata=_nodata(array) if options.nodata is None else options.nodata)
        cloudy = None
        if clouds is not None:
            if set(clouds.dims) != {row, col}:
                raise ShapeError(f"clouds has dims {clouds.dims}; expected {row!r} and {col!r}.")
            cloudy = clouds.transpose(row, col).data
        if hasattr(array.data, "dask"):
            data = _restore_chunks(array.data, model, cloudy, options)
        else:
            seen = None if cloudy is None else np.asarray(cloudy)
            data = restore_array(np.asarray(array.data), model, clouds=seen, options=options).image
        restored: xr.DataArray = array.copy(data=data).transpose(*self._array.dims)
        restored.encoding = dict(self._array.encoding)
        return restored

    def _dims(self) -> tuple[Hashable, Hashable, Hashable]:
        dims = self._array.dims
        row = next((dim for dim in dims if str(dim).lower() in _ROWS), None)
        col = next((dim for dim in dims if str(dim).lower() in _COLS), None)
        rest = [dim for dim in dims if dim not in (row, col)]
        if row is None or col is None or len(rest) != 1:
            raise ShapeError(
                f"The array has dims {dims}; expected bands, rows and columns such as ('band', 'y', 'x'). "
                "Select one time first, or rename the dims."
            )
        return rest[0], row, col


def _nodata(array: xr.DataArray) -> float | None:
    for place in (array.attrs, array.encoding):
        if place.get("_FillValue") is not None:
            return float(place["_FillValue"])
    return None


@dataclass(frozen=True)
class _Window:
    """The pixels that a chunk needs along one axis, and the tiles among them, counted from the first."""

    first: int
    last: int
    starts: tuple[int, ...]


def _window(starts: tuple[int, ...], size: int, begin: int, end: int, reach: int, length: int) -> _Window:
    touching = [start for start in starts if start < end and start + size > begin]
    first = max(min(touching[0], begin - reach), 0)
    last = min(max(touching[-1] + size, end + reach), length)
    return _Window(first, last, tuple(start - first for start in touching))


def _restore_chunks(data: Any, model: nn.Module, clouds: Any, options: RestoreOptions) -> Any:
    """Give the restored dask array: one task a chunk of rows and columns."""
    import dask.array as da
    from dask.delayed import delayed

    count, height, width = data.shape
    if options.confidence:
        raise ConfigError("confidence has no place in a DataArray's result: use restore_scene or restore_array.")
    tiles = grid(height, width, tile=options.tile, overlap=options.overlap)
    reach = options.dilate + options.feather
    restore = delayed(_restore_chunk, pure=False)
    shared = delayed(model)
    lines = []
    top = 0
    for rows in data.chunks[1]:
        line = []
        left = 0
        for cols in data.chunks[2]:
            down = _window(tiles.rows, tiles.tile_height, top, top + rows, reach, height)
            across = _window(tiles.cols, tiles.tile_width, left, left + cols, reach, width)
            part = Grid(
                height=max(down.starts) + tiles.tile_height,
                width=across.last - across.first,
                tile_height=tiles.tile_height,
                tile_width=tiles.tile_width,
                overlap=tiles.overlap,
                rows=down.starts,
                cols=across.starts,
            )
            inside = (slice(down.first, down.last), slice(across.first, across.last))
            near = data[:, inside[0], inside[1]].rechunk(-1)
            cloudy = None if clouds is None else da.asarray(clouds)[inside].rechunk(-1)
            keep = tuple(
                slice(at - window.first, at - window.first + size)
                for at, size, window in ((top, rows, down), (left, cols, across))
            )
            task = restore(near, shared, part, cloudy, options, keep)
            line.append(da.from_delayed(task, (count, rows, cols), data.dtype))
            left += cols
        lines.append(line)
        top += rows
    return da.block([[*line] for line in lines]) if lines else data


def _restore_chunk(
    image: Array,
    model: nn.Module,
    tiles: Grid,
    clouds: Array | None,
    options: RestoreOptions,
    keep: tuple[slice, slice],
) -> Array:
    restored = restore_tiles(np.asarray(image), model, tiles, clouds=clouds, options=options)
    return np.asarray(restored.image[:, keep[0], keep[1]])
