"""`da.attcr.restore(weights)`: the xarray accessor. Import this module to have it."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from attcr.errors import ConfigError, ShapeError
from attcr.extras import needed
from attcr.predict import Predictor, open_predictor
from attcr.references.correct import Corrector
from attcr.restore.array import restore_array, restore_tiles
from attcr.restore.look import clouds_of_dates, mask_band
from attcr.restore.options import RestoreOptions
from attcr.restore.walk import Array
from attcr.scenes.tiles import Part, Tile, grid

with needed():
    import xarray as xr

if TYPE_CHECKING:
    from torch import nn

_ROWS = ("y", "latitude", "lat", "northing", "row")
_COLS = ("x", "longitude", "lon", "easting", "col", "column")
NEAR = 64
"""Pixels around a chunk from which its dates are filled too."""


@xr.register_dataarray_accessor("attcr")
class RestoreAccessor:
    """What attcr adds to a DataArray of bands, rows and columns."""

    def __init__(self, array: xr.DataArray) -> None:
        self._array = array

    @overload
    def restore(
        self,
        weights: str | Path | nn.Module | Predictor,
        *,
        clouds: xr.DataArray | None = ...,
        options: RestoreOptions | None = ...,
    ) -> xr.DataArray: ...

    @overload
    def restore(
        self, *, dim: str, clouds: xr.DataArray | None = ..., options: RestoreOptions | None = ...
    ) -> xr.Dataset: ...

    def restore(
        self,
        weights: str | Path | nn.Module | Predictor | None = None,
        *,
        dim: str | None = None,
        clouds: xr.DataArray | None = None,
        options: RestoreOptions | None = None,
    ) -> xr.DataArray | xr.Dataset:
        """Give the array without cloud; dims, coords, attrs, encoding and type stay.

        `weights` is as `attcr.restore_array` takes it. Bands are found by the names in the band coordinate
        (`["B02", "B03", ...]`); where it has none, they are those that the network takes, in its order.
        `clouds` (rows, columns) is 0 where it is clear, 1 under thin cloud, 2 under thick; True is cloud of any kind.
        No mask is made here: without one every pixel goes through the network. An array that is chunked by dask stays
        lazy and is restored chunk by chunk, each with the pixels around it that its tiles touch, so that the result
        does not depend on the chunks. Nodata is the options', else `_FillValue`.

        With `dim`, the dimension of dates, each date is filled from the others, where its `clouds`
        (also along `dim`) are. Without these they are found: by a band `scl` or `qa_pixel`, which is left out of the
        result, else by the options' `mask` or a detector that the bands' names and `sensor` fit. The network that
        corrects references does so here too where the band coordinate has
        names. The result is a Dataset: the array by its own name, or "restored", its `quality` (1 original, 5 cloud
        left, 6 from another date) and `days` to the date that a pixel is from. Chunked by dask it stays lazy: one
        task for each chunk of rows and columns, which holds all its dates and is fitted on them and 64 pixels around.
        """
        options = options or RestoreOptions()
        if dim is not None:
            if weights is not None:
                raise ConfigError("`dim` fills dates from each other: give no weights.")
            return _fill_dates(self._array, dim, clouds, options)
        if weights is None:
            raise ConfigError("No weights were given: name some, or fill dates from each other with `dim`.")
        band, row, col = self._dims()
        predictor = open_predictor(weights, device=options.device, dtype=options.dtype, backend=options.backend)
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


def _fill_dates(array: xr.DataArray, dim: str, clouds: xr.DataArray | None, options: RestoreOptions) -> xr.Dataset:
    """Give each date filled from the others, with its quality and days."""
    if dim not in array.dims:
        raise ShapeError(f"The array has dims {array.dims}; there is no {dim!r} to fill along.")
    band, row, col = array.isel({dim: 0}).attcr._dims()
    stack = array.transpose(dim, band, row, col)
    options = replace(options, nodata=_nodata(array) if options.nodata is None else options.nodata)
    when = np.asarray(array[dim].values).astype("datetime64[D]").astype(np.int64).tolist()
    names = _names(stack, band) or [""] * stack.shape[1]
    if clouds is None:
        masks, own = _found(stack.data, names, options), mask_band(names)
        stack = stack.isel({band: [at for at in range(len(names)) if at != own]})
        names = [name for at, name in enumerate(names) if at != own]
    elif set(clouds.dims) == {dim, row, col}:
        masks = clouds.transpose(dim, row, col).data
    else:
        raise ShapeError(f"clouds has dims {clouds.dims}; expected {dim!r}, {row!r} and {col!r}.")
    if stack.shape[0] != masks.shape[0] or stack.shape[2:] != masks.shape[1:]:
        raise ShapeError(f"clouds has shape {masks.shape}; expected {(stack.shape[0], *stack.shape[2:])}.")
    parts = _dates_of(stack.data, masks, when, names, options)
    place = {name: array[name] for name in (dim, row, col) if name in array.coords}
    restored = stack.copy(data=parts[0]).transpose(*array.dims)
    restored.encoding = dict(array.encoding)
    beside = {
        name: xr.DataArray(data, dims=(dim, row, col), coords=place)
        for name, data in zip(("quality", "days"), parts[1:], strict=True)
    }
    return xr.Dataset({str(array.name or "restored"): restored, **beside})


def _found(stack: Any, names: Sequence[str], options: RestoreOptions) -> Any:
    """Give the clouds of all dates (T, H, W), lazily where these came so: of each chunk with the pixels around it."""
    find = partial(clouds_of_dates, names=names, options=options)
    if not hasattr(stack, "dask"):
        return find(np.asarray(stack))
    import dask.array as da

    whole = stack.rechunk({1: -1})
    return da.map_overlap(
        find, whole, depth={2: NEAR, 3: NEAR}, boundary="none", drop_axis=1, meta=np.empty((0, 0, 0), np.uint8)
    )


def _dates_of(
    stack: Any, masks: Any, when: Sequence[int], names: Sequence[str], options: RestoreOptions
) -> tuple[Any, Any, Any]:
    """Give images, qualities and days of all dates, lazily where they came so."""
    from attcr.restore.stack import open_network

    network = open_network(stack.dtype, names, options)
    everywhere = (slice(None), slice(None))
    if not hasattr(stack, "dask"):
        return _fill_block(np.asarray(stack), np.asarray(masks), when, everywhere, options, network)
    import dask.array as da
    from dask.delayed import delayed

    clouds = da.asarray(masks)
    fill = delayed(_fill_block, pure=False, nout=3)
    shared = delayed(network)
    (count, bands, height, width), kinds = stack.shape, (stack.dtype, np.uint8, np.int16)
    made: list[list[tuple[Any, ...]]] = []
    for top, rows in _places(stack.chunks[2]):
        made.append([])
        for left, cols in _places(stack.chunks[3]):
            first, west = max(top - NEAR, 0), max(left - NEAR, 0)
            near = (slice(first, min(top + rows + NEAR, height)), slice(west, min(left + cols + NEAR, width)))
            inside = (slice(top - first, top - first + rows), slice(left - west, left - west + cols))
            here, cloudy = stack[:, :, near[0], near[1]].rechunk(-1), clouds[:, near[0], near[1]].rechunk(-1)
            task = fill(here, cloudy, when, inside, options, shared)
            shapes = ((count, bands, rows, cols), (count, rows, cols), (count, rows, cols))
            made[-1].append(tuple(map(da.from_delayed, task, shapes, kinds)))
    image, quality, days = (da.block([[block[i] for block in line] for line in made]) for i in range(3))
    return image, quality, days


def _fill_block(
    images: Array,
    clouds: Array,
    when: Sequence[int],
    inside: tuple[slice, slice],
    options: RestoreOptions,
    network: Corrector | None,
) -> tuple[Array, Array, Array]:
    """Fill all dates of a block, and give what is inside its margin."""
    from attcr.restore.stack import fill_image

    every = (fill_image(list(images), list(clouds), when, at, options, network) for at in range(len(images)))
    cut = ((one.image[:, inside[0], inside[1]], one.quality[inside], one.days[inside]) for one in every)
    scenes, qualities, days = zip(*cut, strict=True)
    return np.stack(scenes), np.stack(qualities), np.stack(days)


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
