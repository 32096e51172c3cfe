"""`da.attcr.restore(model)`: the xarray accessor. Import this module to have it."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from attcr.errors import ConfigError, MissingExtraError, ShapeError
from attcr.predict import Predictor, open_predictor
from attcr.restore.array import restore_array, restore_tiles
from attcr.restore.options import RestoreOptions
from attcr.restore.walk import Array
from attcr.scenes.tiles import Part, Tile, grid

try:
    import xarray as xr
except ImportError as error:
    raise MissingExtraError("xarray", "xarray") from error

if TYPE_CHECKING:
    from torch import nn

_ROWS = ("y", "latitude", "lat", "northing", "row")
_COLS = ("x", "longitude", "lon", "easting", "col", "column")


@xr.register_dataarray_accessor("attcr")
class RestoreAccessor:
    """What attcr adds to a DataArray of bands, rows and columns."""

    def __init__(self, array: xr.DataArray) -> None:
        self._array = array

    def restore(
        self,
        model: str | Path | nn.Module | Predictor,
        *,
        clouds: xr.DataArray | None = None,
        options: RestoreOptions | None = None,
    ) -> xr.DataArray:
        """Give the array without cloud; dims, coords, attrs, encoding and type stay.

        `model` is as `attcr.restore_array` takes it. Bands are found by the names in the band coordinate
        (`["B02", "B03", ...]`); where it has none, they are those that the network takes, in its order.
        `clouds` (rows, columns) is 0 where it is clear, 1 under thin cloud, 2 under thick; True is cloud of any kind.
        No mask is made here: without one every pixel goes through the network. An array that is chunked by dask stays
        lazy and is restored chunk by chunk, each with the pixels around it that its tiles touch, so that the result
        does not depend on the chunks. Nodata is the options', else `_FillValue`.
        """
        options = options or RestoreOptions()
        band, row, col = self._dims()
        predictor = open_predictor(model, device=options.device, dtype=options.dtype, backend=options.backend)
        array = self._array.transpose(band, row, col)
        options = replace(options, nodata=_nodata(array) if options.nodata is None else options.nodata)
        cloudy = None
        if clouds is not None:
            if set(clouds.dims) != {row, col}:
                raise ShapeError(f"clouds has dims {clouds.dims}; expected {row!r} and {col!r}.")
            cloudy = clouds.transpose(row, col).data
        if hasattr(array.data, "dask"):
            data = _restore_chunks(array.data, predictor, cloudy, _names(array, band), options)
        else:
            seen = None if cloudy is None else np.asarray(cloudy)
            names = _names(array, band)
            data = restore_array(np.asarray(array.data), predictor, clouds=seen, bands=names, options=options).image
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


def _names(array: xr.DataArray, band: Hashable) -> list[str] | None:
    """Give the bands' names, if the coordinate has text."""
    values = array.coords[band].values.tolist() if band in array.coords else []
    return values if values and all(isinstance(value, str) for value in values) else None


def _nodata(array: xr.DataArray) -> float | None:
    for place in (array.attrs, array.encoding):
        if place.get("_FillValue") is not None:
            return float(place["_FillValue"])
    return None


def _restore_chunks(
    data: Any, predictor: Predictor, clouds: Any, bands: Sequence[str] | None, options: RestoreOptions
) -> Any:
    """Give the restored dask array: one task a chunk of rows and columns."""
    import dask.array as da
    from dask.delayed import delayed

    count, height, width = data.shape
    if options.confidence:
        raise ConfigError("confidence has no place in a DataArray's result: use restore_scene or restore_array.")
    tiles = grid(height, width, tile=options.tile, overlap=options.overlap)
    reach = options.dilate + options.feather
    restore = delayed(_restore_chunk, pure=False)
    shared = delayed(predictor)
    lines = []
    for top, rows in _places(data.chunks[1]):
        line = []
        for left, cols in _places(data.chunks[2]):
            part = tiles.part(Tile(top, left, rows, cols), reach=reach)
            needs = (part.needs.rows, part.needs.cols)
            near = data[:, needs[0], needs[1]].rechunk(-1)
            cloudy = None if clouds is None else da.asarray(clouds)[needs].rechunk(-1)
            task = restore(near, shared, part, cloudy, bands, options)
            line.append(da.from_delayed(task, (count, rows, cols), data.dtype))
        lines.append(line)
    return da.block(lines) if lines else data


def _places(sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Give where each chunk along an axis begins, and its size."""
    return zip(accumulate(sizes, initial=0), sizes, strict=False)


def _restore_chunk(
    image: Array,
    predictor: Predictor,
    part: Part,
    clouds: Array | None,
    bands: Sequence[str] | None,
    options: RestoreOptions,
) -> Array:
    restored = restore_tiles(np.asarray(image), predictor, part.grid, clouds=clouds, bands=bands, options=options)
    return np.asarray(restored.image[:, part.window.rows, part.window.cols])
