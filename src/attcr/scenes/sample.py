"""The sample that comes with the package: a real Sentinel-2 scene under thin cloud, and a clear date of its place."""

from pathlib import Path

import numpy as np
import rasterio

from attcr.bands.sensors import S2_L1C_BANDS

SAMPLE = Path(__file__).parents[1] / "sample"
FILES = {
    "scene": ("cloudy_10m.jp2", "cloudy_rest.tif"),
    "clear_date": ("clear_10m.jp2", "clear_rest.jp2"),
}
"""The dates, and the files that each is made of."""
BANDS = ("B02", "B03", "B04", "B08", "B05", "B06", "B07", "B8A", "B11", "B12", "B01", "B09", "B10")
"""The order of the bands in these."""


def write_sample(name: str, target: Path) -> Path:
    """Write a date of the sample as one GeoTIFF, its bands in the product's order."""
    values = []
    for file in FILES[name]:
        with rasterio.open(SAMPLE / file) as source:
            values.append(source.read())
            if len(values) == 1:
                profile = {n: getattr(source, n) for n in ("crs", "transform", "height", "width")}
    profile |= {"driver": "GTiff", "dtype": "uint16", "count": len(BANDS), "nodata": 0, "compress": "deflate"}
    with rasterio.open(target, "w", predictor=2, **profile) as dataset:
        dataset.write(np.concatenate(values)[[BANDS.index(band) for band in S2_L1C_BANDS]])
        dataset.descriptions = S2_L1C_BANDS
        dataset.update_tags(PROCESSING_LEVEL="Level-1C", PROCESSING_BASELINE="02.06")
    return target
