"""The STAC item of a cube: where and when, its axes and variables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from attcr.addresses import is_local
from attcr.cubes.dataset import variables
from attcr.cubes.plan import Plan
from attcr.extras import need
from attcr.files import write_whole

_EXTENSION = "https://stac-extensions.github.io/{}/schema.json"


def write_item(plan: Plan, target: str) -> str:
    """Write the item of a cube beside it, and say where."""
    folder, _, name = target.rstrip("/").rpartition("/")
    stem = name.rsplit(".", 1)[0]
    content = json.dumps(item_of(plan, stem, name), indent=2, allow_nan=False) + "\n"
    if is_local(target):
        write_whole(Path(folder or ("/" if target.startswith("/") else "."), f"{stem}.json"), content)
    else:
        need("obstore").put(need("obstore.store").from_url(folder), f"{stem}.json", content.encode())
    return f"{stem}.json"


def item_of(plan: Plan, name: str, href: str) -> dict[str, Any]:
    """Give the item as plain values."""
    grid, taken = plan.grid, plan.taken
    west, south, east, north = grid.box
    left, bottom, right, top = grid.bounds
    dates = [f"{taken[at]:%Y-%m-%dT%H:%M:%SZ}" for at in plan.dates]
    ring = [[west, south], [east, south], [east, north], [west, north], [west, south]]
    axis = {"type": "spatial", "step": grid.transform.a, "reference_system": grid.crs}
    axes = {
        "time": {"type": "temporal", "extent": [dates[0], dates[-1]], "values": dates},
        "y": {**axis, "axis": "y", "extent": [bottom, top]},
        "x": {**axis, "axis": "x", "extent": [left, right]},
        "acquisition": {"type": "acquisition", "values": [one.name for one in plan.acquisitions]},
    }
    return {
        "type": "Feature",
        "stac_version": "1.1.0",
        "stac_extensions": [_EXTENSION.format(one) for one in ("datacube/v2.2.0", "projection/v2.0.0")],
        "id": name,
        "geometry": {"type": "Polygon", "coordinates": [ring]},
        "bbox": [west, south, east, north],
        "properties": {
            "datetime": None,
            "start_datetime": dates[0],
            "end_datetime": dates[-1],
            "gsd": grid.transform.a,
            "proj:code": grid.crs,
            "proj:transform": list(grid.transform)[:6],
            "proj:shape": [grid.height, grid.width],
            "cube:dimensions": axes,
            "cube:variables": {
                key: {"dimensions": ["time", "y", "x"], "type": "data", "description": told["long_name"]}
                for key, (_, told) in variables(plan).items()
            },
        },
        "links": [],
        "assets": {
            "cube": {
                "href": f"./{href}",
                "type": "application/vnd.zarr; version=3",
                "title": "the cube, as an Icechunk repository",
                "roles": ["data"],
            }
        },
    }
