"""Where the features of a vector file lie: GeoJSON, GeoPackage, Shapefile and what else GDAL reads."""

from __future__ import annotations

import math
from pathlib import Path

from attcr.errors import SceneError
from attcr.extras import needed

with needed():
    import pyogrio
    from pyogrio.errors import DataSourceError


def box_of_file(path: str) -> tuple[tuple[float, ...], str]:
    """Give the box around all features of a file's first layer (west, south, east, north), and its CRS."""
    if not Path(path).is_file():
        raise SceneError(f"{path} is not a file: give one with the outline of the area, such as area.geojson.")
    try:
        told = pyogrio.read_info(path, force_total_bounds=True)
    except (DataSourceError, ValueError, OSError) as error:
        reason = " ".join(str(error).split())[:200]
        raise SceneError(f"{path} cannot be read as a vector file: {reason} Expected GeoJSON or GeoPackage.") from error
    box, crs = told["total_bounds"], told["crs"]
    if box is None or not all(map(math.isfinite, box)):
        raise SceneError(f"{path} holds no feature with a place: draw the area in it.")
    if crs is None:
        raise SceneError(f"{path} does not say its CRS: write it as GeoJSON, which is in degrees.")
    return tuple(float(edge) for edge in box), str(crs)
