"""Scenes: rasters, tiles, blending and cloud masks, without torch."""

from importlib.util import find_spec

from attcr.errors import MissingExtraError

for _library in ("rasterio", "rio_cogeo", "scipy", "pystac"):
    if find_spec(_library) is None:
        raise MissingExtraError(_library, "scenes")
