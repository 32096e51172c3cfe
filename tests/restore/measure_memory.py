"""Restore a made scene with a cheap network and print the peak memory: python measure_memory.py H W BANDS FOLDER."""

import json
import sys
import time
from pathlib import Path

import numpy as np
import rasterio
from rasterio.windows import Window

import attcr.scenes.dataset as dataset
from attcr.bands.spec import SEN12MSCR_OPTICAL
from attcr.restore import RestoreOptions, restore_scene
from fake_scenes import UTM, Counting, peak_bytes


def make_large(path: Path, height: int, width: int, bands: int) -> None:
    """Write a scene of noise, block by block."""
    rng = np.random.default_rng(0)
    options = {"driver": "GTiff", "dtype": "uint16", "count": bands, "height": height, "width": width}
    with rasterio.open(
        path, "w", tiled=True, blockxsize=512, blockysize=512, bigtiff="IF_SAFER", **options, **UTM
    ) as file:
        noise = rng.integers(1, 10000, (bands, 512, width), dtype=np.uint16)
        for top in range(0, height, 512):
            rows = min(512, height - top)
            file.write(np.roll(noise, top // 512, axis=2)[:, :rows], window=Window(0, top, width, rows))


def main() -> None:
    dataset.CACHE = 1 << 20  # GDAL's cache has a bound of its own, and would fill while the scene is read
    height, width, bands = map(int, sys.argv[1:4])
    folder = Path(sys.argv[4])
    make_large(folder / "in.tif", height, width, bands)
    made = peak_bytes()
    began = time.perf_counter()
    model = Counting(0.9, spec=SEN12MSCR_OPTICAL)
    restore_scene(
        folder / "in.tif",
        folder / "out.tif",
        model,
        options=RestoreOptions(sensor="s2-l1c", mask="none", dtype="float32"),
    )
    peak = peak_bytes()
    with rasterio.open(folder / "in.tif") as came, rasterio.open(folder / "out.tif") as out:
        window = Window(0, height // 2, 512, 16)
        error = np.abs(out.read(window=window) - came.read(window=window) * 0.9).max()
    seconds = time.perf_counter() - began
    print(json.dumps({"peak": peak, "made": made, "seconds": seconds, "error": float(error)}))


if __name__ == "__main__":
    main()
