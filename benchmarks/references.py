"""What references cost: a scene filled from other dates beside the same without, and its memory at two heights.

python benchmarks/references.py [--width 4096] [--references 3] [--folder /tmp]

One run prints seconds of computing and peak memory of four restores with `--weights none`, each in a process of its
own: with and without references, of as many rows as columns and of half as many. 30 % of the scene is under cloud, in
squares.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import ClassVar

import numpy as np
import rasterio
from rasterio.transform import from_origin

BANDS = ("B02", "B03", "B04", "B08")
COMMON = ("blue", "green", "red", "nir")
PLACE = {"crs": "EPSG:32633", "transform": from_origin(600000, 5500020, 10, 10)}


def write(path: Path, values: np.ndarray) -> None:
    count, height, width = values.shape
    shape = {"count": count, "height": height, "width": width, "dtype": values.dtype, "tiled": True}
    with rasterio.open(path, "w", driver="GTiff", **shape, **PLACE) as file:
        file.write(values)
        if count > 1:
            file.descriptions = BANDS
            file.update_tags(PROCESSING_LEVEL="Level-2A", PROCESSING_BASELINE="02.08")


def make(folder: Path, rows: int, width: int, references: int) -> None:
    """Write a scene, its mask, and other dates of it in other tones."""
    rng = np.random.default_rng(0)
    ground = rng.integers(300, 3000, (len(BANDS), -(-rows // 16), -(-width // 16)))
    ground = ground.repeat(16, 1).repeat(16, 2)[:, :rows, :width] + rng.integers(0, 200, (len(BANDS), rows, width))
    row, col = np.indices((rows, width))
    cloud = ((row % 512 < 280) & (col % 512 < 280))[None]
    write(folder / "mask.tif", cloud.astype(np.uint8))
    write(folder / "S2_20200601.tif", np.where(cloud, 9000, ground).astype(np.uint16))
    for i in range(references):
        write(folder / f"S2_2020061{i}.tif", (ground * (0.9 + 0.1 * i) + 50).astype(np.uint16))


def restore(folder: Path) -> None:
    """Restore what the folder holds, and print seconds of computing and peak memory in MiB."""
    from attcr.bands.spec import InputSpec, band_slots
    from attcr.restore import RestoreOptions, restore_scene

    class Unchanged:
        """A network that gives what came."""

        spec = InputSpec(band_slots(COMMON), COMMON, ("s2-l2a",), (10.0, 10.0), ("thin",))
        identity: ClassVar = {"weights_sha256": "none", "backend": "none", "dtype": "float32"}

        def __call__(self, x: np.ndarray) -> np.ndarray:
            return x

    references = tuple(str(path) for path in sorted(folder.glob("S2_2020061*.tif")))
    options = RestoreOptions(mask=str(folder / "mask.tif"), references=references, reference_mask="none")
    model = "none" if references else Unchanged()
    began = time.process_time()
    restore_scene(folder / "S2_20200601.tif", folder / "out.tif", model, options=options)
    lines = Path("/proc/self/status").read_text().splitlines()
    peak = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    print(time.process_time() - began, peak / 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=4096)
    parser.add_argument("--references", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--restore", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.restore:
        restore(args.restore)
        return
    for rows in (args.width // 2, args.width):
        for references in (0, args.references):
            with tempfile.TemporaryDirectory(dir=args.folder) as name:
                make(Path(name), rows, args.width, references)
                command = [sys.executable, __file__, "--restore", name]
                seconds, peak = map(float, subprocess.check_output(command, text=True).split())
            print(f"{args.width} x {rows}, {references} references: {seconds:7.1f} s, {peak:6.0f} MiB", flush=True)


if __name__ == "__main__":
    main()
