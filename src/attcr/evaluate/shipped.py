"""What users get: a sample written as they have scenes, restored with default options; and its clear surroundings."""

import tempfile
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attcr.bands.sensors import S2_COMMON, S2_L1C_BANDS, SENTINEL2_L2A
from attcr.bands.spec import InputSpec
from attcr.data import Sample
from attcr.data.dates import CLASS_NUMBERS, CLASSES_MASK, ONE_REFLECTANCE
from attcr.errors import AllCloudError
from attcr.evidence.ground import LEVELS, STEP, interpolate
from attcr.evidence.pyramid import Pyramid, expand
from attcr.predict import Predictor
from attcr.restore import restore_scene

NAME = "S2A_MSI{}_20190715T101031_N0208_R022_T33UXQ_20190715T120000.tif"
"""As ESA names products: the level is all that the command learns from it."""


class Restored(NamedTuple):
    """What came of a sample."""

    image: ArrayLike
    """(C, H, W) like the sample's `clear`."""
    expected: ArrayLike | None = None
    """The absolute error of reflectance (H, W) that is expected; 0 where none is."""


def restore_as_shipped(sample: Sample, spec: InputSpec, predictor: Predictor) -> Restored:
    """Restore the bands of a pair of two dates by the command without any option."""
    seen = _optical(sample, spec)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        # What a scene's warnings say is for who looks at that scene.
        warnings.simplefilter("ignore")
        source, target = write_scene(Path(folder), seen / ONE_REFLECTANCE, spec), Path(folder, "out.tif")
        try:
            result = restore_scene(source, target, predictor)
        except AllCloudError:
            return Restored(seen)
        expected = None if result.spread is None else np.nan_to_num(_read(result.spread)[0])
        return Restored(_read(target) / 1e4 * np.float32(ONE_REFLECTANCE), expected)


def write_scene(folder: Path, image: NDArray[np.float32], spec: InputSpec) -> Path:
    """Write reflectance (C, H, W) as a GeoTIFF of digital numbers whose name and bands say what it is."""
    import rasterio
    from rasterio.transform import from_origin

    path = folder / NAME.format("L2A" if SENTINEL2_L2A.name in spec.products else "L1C")
    count, height, width = image.shape
    place = {"crs": "EPSG:32633", "transform": from_origin(500_000, 5_000_000, spec.gsd[0], spec.gsd[0])}
    profile = {"driver": "GTiff", "height": height, "width": width, "count": count, "dtype": "uint16", "nodata": 0}
    with rasterio.open(path, "w", **profile, **place) as file:
        file.write(np.clip(np.rint(image * 1e4), 1, 65535).astype(np.uint16))
        file.descriptions = [S2_L1C_BANDS[S2_COMMON.index(name)] for name in spec.outputs]
    return path


def surroundings(sample: Sample, spec: InputSpec) -> NDArray[np.float32]:
    """Give the clear ground of a pair of two dates, interpolated to where it is not clear: no detail at all."""
    seen, classes = _optical(sample, spec), np.asarray(sample["masks"][CLASSES_MASK])
    clear = classes == CLASS_NUMBERS["clear"]
    if not clear.any():
        return seen
    height, width = clear.shape
    pad = [(0, -height % STEP), (0, -width % STEP)]
    pyramid = Pyramid(np.pad(seen, [(0, 0), *pad]), np.pad(clear.astype(np.float32), pad), LEVELS)
    made, _ = interpolate(pyramid.coarsest, pyramid.weights[-1])
    for _ in range(LEVELS):
        made = expand(made)
    return np.where(clear, seen, made[:, :height, :width])


def _optical(sample: Sample, spec: InputSpec) -> NDArray[np.float32]:
    return np.asarray(sample["inputs"], np.float32)[spec.optical]


def _read(path: Path) -> NDArray[np.float32]:
    import rasterio

    with rasterio.open(path) as file:
        values: NDArray[np.float32] = file.read().astype(np.float32)
    return values
