"""A cube as xarray knows it: named axes, what the numbers mean, and where on the Earth it lies."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from attcr.cubes.block import UNKNOWN_DAYS, UNKNOWN_ERROR, load_block, make_block
from attcr.cubes.options import CubeOptions
from attcr.cubes.place import Place
from attcr.cubes.plan import Plan, make_plan
from attcr.cubes.seams import ERROR_STEP, join, neighbours, piece
from attcr.extras import needed
from attcr.restore.walk import QUALITY_NAMES
from attcr.scenes.tiles import Tile

with needed():
    import dask.array as da
    import xarray as xr
    from dask.delayed import delayed
    from rasterio.crs import CRS

TOLD = "attcr:cube"
"""The attribute that holds what a cube was made of."""
_CONVENTIONS = (
    ("proj:", "proj", "f17cb550-5864-4468-aeb7-f3180cfb622f"),
    ("spatial:", "spatial", "689b58e2-cf7b-45e0-9fff-9cfc0883d6b4"),
)
"""GeoZarr's: name, repository, and the identifier that readers look for."""


def variables(plan: Plan) -> dict[str, tuple[np.dtype[Any], dict[str, Any]]]:
    """Give type and attributes of each variable, as they are stored."""
    source = plan.source
    kind = np.dtype(source.dtype)
    scaled = {"scale_factor": source.scale, "add_offset": plan.offset, "_FillValue": kind.type(source.nodata)}
    bands = {name: (kind, {"long_name": f"reflectance in {name}", "units": "1", **scaled}) for name in plan.bands}
    classes = {
        "long_name": "where a pixel comes from",
        "flag_values": list(range(len(QUALITY_NAMES))),
        "flag_meanings": " ".join(name.replace(" ", "_") for name in QUALITY_NAMES),
    }
    return {
        **bands,
        "quality": (np.dtype(np.uint8), classes),
        "source": (
            np.dtype(np.int16),
            {"long_name": "acquisition that a pixel is from, as an index of `acquired`; -1 where none saw it"},
        ),
        "days": (
            np.dtype(np.int16),
            {"long_name": f"days from this date to what a pixel is from; {UNKNOWN_DAYS} where none saw it"},
        ),
        "error": (
            np.dtype(np.uint16),
            {
                "long_name": "expected absolute error in reflectance, mean over the bands",
                "units": "1",
                "scale_factor": ERROR_STEP,
                "_FillValue": np.uint16(UNKNOWN_ERROR),
            },
        ),
    }


def dataset(plan: Plan, arrays: Mapping[str, Any]) -> xr.Dataset:
    """Give a cube of these arrays, each (time, y, x), with all that belongs to it."""
    grid = plan.grid
    t, crs = grid.transform, CRS.from_user_input(grid.crs)
    unit = {"units": "degrees" if crs.is_geographic else "m"}
    kind = "longitude latitude" if crs.is_geographic else "projection_x_coordinate projection_y_coordinate"
    x_name, y_name = kind.split()
    place = {"grid_mapping": "spatial_ref", "_CRS": {"wkt": crs.to_wkt()}}
    made = {
        name: (("time", "y", "x"), arrays[name], attributes | place)
        for name, (_, attributes) in variables(plan).items()
    }
    taken = np.array([one.replace(tzinfo=None) for one in plan.taken], "datetime64[s]")
    coordinates = {
        "time": ("time", taken[list(plan.dates)], {"standard_name": "time", "axis": "T"}),
        "y": ("y", t.f + t.e * (np.arange(grid.height) + 0.5), {"standard_name": y_name, "axis": "Y", **unit}),
        "x": ("x", t.c + t.a * (np.arange(grid.width) + 0.5), {"standard_name": x_name, "axis": "X", **unit}),
        "acquired": ("acquisition", taken, {"long_name": "time of each acquisition that fills"}),
        "spatial_ref": (
            (),
            np.int64(0),
            {"crs_wkt": crs.to_wkt(), "GeoTransform": " ".join(f"{one!r}" for one in t.to_gdal())},
        ),
    }
    return single(xr.decode_cf(xr.Dataset(made, coordinates, _about(plan)), decode_coords="all"))


def single(cube: xr.Dataset) -> xr.Dataset:
    """Give reflectance and errors in single precision, which holds their numbers; they are stored as before."""
    for name, variable in cube.data_vars.items():
        if variable.dtype == np.float64:
            cube[name] = variable.astype(np.float32)
            cube[name].encoding = variable.encoding
    return cube


def _about(plan: Plan) -> dict[str, Any]:
    """Give the attributes of the whole."""
    grid = plan.grid
    address = "https://github.com/zarr-conventions/{}/blob/v0.1/README.md"
    named = grid.crs.upper().startswith("EPSG:")
    wkt = CRS.from_user_input(grid.crs).to_wkt(version="WKT2_2019")
    return {
        "Conventions": "CF-1.11",
        "title": f"{plan.source.name}, {plan.place.text}, without clouds",
        "zarr_conventions": [
            {"name": name, "uuid": uuid, "spec_url": address.format(folder)} for name, folder, uuid in _CONVENTIONS
        ],
        **({"proj:code": grid.crs.upper()} if named else {"proj:wkt2": wkt}),
        "spatial:dimensions": ["y", "x"],
        "spatial:transform": list(grid.transform)[:6],
        "spatial:shape": [grid.height, grid.width],
        "spatial:bbox": list(grid.bounds),
        TOLD: json.dumps(plan.describe()),
    }


def empty(plan: Plan) -> xr.Dataset:
    """Give a cube whose blocks are still to be written."""
    shape, chunks = (len(plan.dates), plan.grid.height, plan.grid.width), (1, *plan.block)
    return dataset(
        plan, {name: da.zeros(shape, dtype=kind, chunks=chunks) for name, (kind, _) in variables(plan).items()}
    )


def cube(place: Place | str, first: str, last: str | None = None, **options: Any) -> xr.Dataset:
    """Give the filled cube of a place and a period, as a dataset of which nothing is computed yet.

    `.compute()` or `.to_zarr()` runs it, block by block; a part that is selected runs the blocks that it touches and
    those above and on the left of them. The options are those of `attcr cube`: `source`, `bands`, `every`,
    `resolution`, `crs`, `most_cloud`, `memory`.
    """
    plan = make_plan(place, CubeOptions(first, last, **options))
    told = variables(plan)
    made = {one: delayed(_block)(plan, one) for one in plan.blocks}
    blocks = {
        (one.row, one.col): delayed(join)(
            made[one],
            one,
            {step: delayed(piece)(made[other], other, step, plan.bands) for step, other in before.items()},
            plan.bands,
        )
        for one, before in neighbours(plan.blocks).items()
    }
    rows, cols = (sorted({key[axis] for key in blocks}) for axis in (0, 1))
    sizes = {(one.row, one.col): (len(plan.dates), one.height, one.width) for one in plan.blocks}
    arrays = {
        name: da.block(
            [[da.from_delayed(blocks[row, col][name], sizes[row, col], kind) for col in cols] for row in rows]
        )
        for name, (kind, _) in told.items()
    }
    return dataset(plan, arrays)


def _block(plan: Plan, tile: Tile) -> dict[str, Any]:
    return make_block(plan, load_block(plan, tile, plan.dates))
