"""Cubes at scale: memory by area, requests by chunk, the plan of a whole tile, and the time of a real part of one.

    python -m tools.cubes.scale memory         peak memory of places of 1, 4 and 16 times the area
    python -m tools.cubes.scale requests       requests of one block, band, mask and date
    python -m tools.cubes.scale plan           --dry-run of 10,980 x 10,980 pixels and 12 dates
    python -m tools.cubes.scale part [SIDE]    a cube of SIDE x SIDE pixels (2,000) and 12 dates, as a real run

Files are drawn, in Sentinel-2's form: COGs of 512 x 512 tiles at 10 m, the mask at 20 m, over HTTP, found through a
local STAC API. Only the files that are asked for are drawn, once.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from affine import Affine
from numpy.typing import NDArray
from rasterio.io import MemoryFile
from rasterio.warp import transform_bounds

from .archive import ROOT

CRS, LEFT, TOP, PIXEL = "EPSG:32633", 600_000.0, 5_500_020.0, 10.0
BANDS = {"red": "B04", "green": "B03", "blue": "B02", "nir": "B08"}


def draw(path: Path, side: int, pixel: float, date: int, band: int) -> None:
    """Write a COG of fields under clouds that are other ones on each date; band -1 is the mask."""
    draws = np.random.default_rng(date * 10 + 7)
    coarse = draws.random((side * int(pixel) // 640 + 2,) * 2)
    zoom = int(640 // pixel)
    cloud = np.kron(coarse, np.ones((zoom, zoom), np.uint8))[:side, :side] < 0.35
    image: NDArray[Any]
    if band < 0:
        image = np.where(cloud, 9, 4).astype(np.uint8)
    else:
        fields = np.random.default_rng(band).uniform(300, 3000, (side // 32 + 2,) * 2)
        image = np.kron(fields, np.ones((32, 32), np.float32))[:side, :side] * (1 + 0.02 * date)
        image += np.random.default_rng(band + 100 * date).normal(0, 30, image.shape).astype(np.float32)
        image = np.where(cloud, 9000, image.clip(1)).astype(np.uint16)
    profile: dict[str, Any] = {"driver": "GTiff", "height": side, "width": side, "count": 1, "nodata": 0, "crs": CRS}
    with MemoryFile() as held:
        at = Affine(pixel, 0, LEFT, 0, -pixel, TOP)
        with held.open(dtype=image.dtype, transform=at, **profile) as file:
            file.write(image, 1)
        with held.open() as file:
            rasterio.shutil.copy(file, path, driver="COG", compress="deflate", blocksize=512)


def item(host: str, name: str, day: int, side: int) -> dict[str, Any]:
    """Give the item of a date."""
    metres = side * PIXEL
    box = list(transform_bounds(CRS, "EPSG:4326", LEFT, TOP - metres, LEFT + metres, TOP))
    west, south, east, north = box
    ring = [[west, south], [east, south], [east, north], [west, north], [west, south]]
    assets = {**{key: f"{band}.tif" for key, band in BANDS.items()}, "scl": "SCL.tif"}
    return {
        "type": "Feature", "stac_version": "1.0.0", "stac_extensions": [], "id": name, "collection": "sentinel-2-l2a",
        "geometry": {"type": "Polygon", "coordinates": [ring]}, "bbox": box,
        "properties": {
            "datetime": f"2024-{1 + day:02d}-10T10:00:00Z", "grid:code": "MGRS-33UXQ", "eo:cloud_cover": 35.0,
            "s2:processing_baseline": "02.08",
        },
        "links": [],
        "assets": {key: {"href": f"{host}/{name}/{file}", "type": "image/tiff"} for key, file in assets.items()},
    }  # fmt: skip


@contextmanager
def archive(folder: Path, side: int, dates: int, *, files: bool = True) -> Iterator[tuple[str, Any]]:
    """Serve an archive of a place of this size; give its API, and what its files were asked."""
    sys.path.insert(0, str(ROOT / "tests"))
    from fake_catalogs import counted, stac_api  # type: ignore[import-not-found]

    with counted(folder / "files", folder / "asked") as (host, asked):
        items = []
        for date in range(dates):
            name = f"S2A_33UXQ_2024{1 + date:02d}10"
            (folder / "files" / name).mkdir(parents=True, exist_ok=True)
            for band, key in enumerate(BANDS.values()) if files else ():
                draw(folder / "files" / name / f"{key}.tif", side, PIXEL, date, band)
            if files:
                draw(folder / "files" / name / "SCL.tif", side // 2, 2 * PIXEL, date, -1)
            items.append(item(host, name, date, side))
        with stac_api(items, folder) as api:
            yield api, asked


def command(api: str, side: int, target: Path, *more: str) -> list[str]:
    """Give the command that makes a cube of a square at the corner of the archive."""
    half = side * PIXEL / 2
    box = transform_bounds(CRS, "EPSG:4326", LEFT + half - 1, TOP - half - 1, LEFT + half + 1, TOP - half + 1)
    place = f"{(box[1] + box[3]) / 2},{(box[0] + box[2]) / 2},{side * PIXEL:g}"
    given = ["--from", "2024-01-01", "--to", "2024-12-31", "--source", f"{api}#sentinel-2-l2a"]
    bands = ["--bands", ",".join(BANDS)]
    attcr = [sys.executable, "-m", "attcr", "cube", "--json", "--progress", "none"]
    return [*attcr, *given, *bands, *more, place, str(target)]


def run(words: list[str]) -> tuple[dict[str, Any], float, float]:
    """Run it; give what it says, its seconds and its peak memory in bytes."""
    began = time.monotonic()
    code = (
        "import resource, subprocess, sys\n"
        "done = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, text=True, check=True)\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n"
        "print(done.stdout)"
    )
    told = subprocess.run([sys.executable, "-c", code, *words], stdout=subprocess.PIPE, text=True, check=True).stdout
    peak, _, result = told.partition("\n")
    return json.loads(result), time.monotonic() - began, int(peak) * 1024


def memory(folder: Path) -> None:
    """Compare the peaks of 1, 4 and 16 times the area, in blocks of one size."""
    with archive(folder, 1024, 4) as (api, _):
        for side in (256, 512, 1024):
            target = folder / f"{side}.zarr"
            (plan, _, _) = run([*command(api, side, target, "--memory", "0.75"), "--dry-run"])
            _, seconds, peak = run(command(api, side, target, "--memory", "0.75"))
            print(
                side,
                f"block {plan['block']}, told {plan['memory'] / 1e6:.0f} MB, peak {peak / 1e6:.0f} MB, {seconds:.0f} s",
                flush=True,
            )


def requests(folder: Path) -> None:
    """Count the requests for one block: by kind of file, and those of the same bytes."""
    with archive(folder, 1536, 3) as (api, asked):
        asked.clear()
        told, _, _ = run(command(api, 512, folder / "o.zarr", "--memory", "1"))
        lines = [line.split("\t") for line in asked.log.read_text().splitlines()]
        kinds = Counter("mask" if path.endswith("SCL.tif") else "band" for path, _ in lines)
        files = Counter("mask" if path.endswith("SCL.tif") else "band" for path in {path for path, _ in lines})
        again = len(lines) - len({(path, part) for path, part in lines})
        each = {f"requests a {kind}": kinds[kind] / files[kind] for kind in kinds}
        print(each, f"the same twice: {again} of {len(lines)}, of {told['dates']} dates", flush=True)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("memory", "requests", "plan", "part"))
    parser.add_argument("side", type=int, nargs="?", default=2000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if args.what == "memory":
            memory(folder)
        elif args.what == "requests":
            requests(folder)
        elif args.what == "plan":
            with archive(folder, 10_980, 12, files=False) as (api, _):
                words = [*command(api, 10_980, folder / "o.zarr"), "--dry-run"]
                subprocess.run([one for one in words if one != "--json"], check=True)
        else:
            with archive(folder, args.side, 12) as (api, _):
                told, seconds, peak = run(command(api, args.side, folder / "o.zarr"))
                pixels = args.side**2 * told["dates"] / 1e6
                cpu = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
                print(
                    told, f"{seconds:.0f} s, {cpu / pixels:.2f} s of a core a megapixel-date, peak {peak / 1e6:.0f} MB"
                )


if __name__ == "__main__":
    main()
