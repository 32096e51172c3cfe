"""Two real series as an archive that `attcr cube` can search: COGs over HTTP, and items as Earth Search gives them.

    python -m tools.cubes.archive --mirror FOLDER --out ARCHIVE

FOLDER holds OWNER+NAME/repo, a git directory, of e-sensing/sitsdata and Oriolac/cloud-removal. 20LMR are the 19 dates
of 2022 with at most 70 % of gaps, L2A, ten bands at 20 m; ROI 146 are 30 dates of 2018, L1C, 13 bands on a grid in
degrees. Neither came with a scene classification: `scl` is what attcr's detectors say, and cloud in the gaps of 20LMR.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from numpy.typing import NDArray
from rasterio.io import MemoryFile
from rasterio.warp import transform_bounds

from attcr.bands.sensors import S2_COMMON, S2_L1C_BANDS, SENTINEL2_L1C, SENTINEL2_L2A
from attcr.scenes.clouds.find import choose_mask, find_clouds
from attcr.scenes.clouds.masks import THICK, THIN
from attcr.scenes.clouds.rim import Rim
from attcr.scenes.clouds.vote import DARK
from attcr.scenes.open import open_scene

ROOT = Path(__file__).resolve().parents[2]
MOST_GAPS = 0.7
COMMON = dict(zip(S2_L1C_BANDS, S2_COMMON, strict=True))
"""Earth Search calls its assets by the bands' common names."""


@dataclass(frozen=True)
class Series:
    """A series of one place."""

    name: str
    collection: str
    repository: str
    pattern: str
    bands: tuple[str, ...]
    tile: str
    place: str
    """As `attcr cube` takes it."""
    period: tuple[str, str]
    options: tuple[str, ...]
    """Further ones of `attcr cube`."""


SERIES = (
    Series(
        "20lmr", "sentinel-2-l2a", "e-sensing+sitsdata", r"Rondonia-20LMR/\w+-2_MSI_20LMR_B02_(\d{4}-\d\d-\d\d)\.tif$",
        ("B02", "B03", "B04", "B05", "B06", "B07", "B08", "B8A", "B11", "B12"), "20LMR",
        "-63.636,-8.627,-63.420,-8.412", ("2022-01-01", "2022-12-31"), ("--resolution", "20"),
    ),
    Series(
        "roi146", "sentinel-2-l1c", "Oriolac+cloud-removal", r"ts/sample_imgs/s2_\w+_(\d{4}-\d\d-\d\d)_patch_0\.tif$",
        S2_L1C_BANDS, "33TTG", "12.712510,42.052475,12.735504,42.075469", ("2018-01-01", "2018-12-31"),
        ("--resolution", "8.983152841195215e-05", "--crs", "EPSG:4326", "--most-cloud", "100"),
    ),
)  # fmt: skip


def dates_of(series: Series, mirror: Path) -> Iterator[tuple[str, NDArray[Any], dict[str, Any]]]:
    """Give each day, its numbers (C, H, W) with 0 for nothing, and where they lie."""
    git = ["git", "--git-dir", str(mirror / series.repository / "repo")]
    listed = subprocess.run([*git, "ls-tree", "-r", "HEAD"], capture_output=True, check=True, text=True).stdout
    objects = {path: told.split()[2] for told, _, path in (line.partition("\t") for line in listed.splitlines())}

    def read(path: str) -> tuple[NDArray[Any], dict[str, Any]]:
        blob = subprocess.run([*git, "cat-file", "blob", objects[path]], capture_output=True, check=True).stdout
        with MemoryFile(blob) as file, file.open() as raster:
            return raster.read().astype(np.int32), {"crs": raster.crs, "transform": raster.transform}

    for path in sorted(objects):
        found = re.search(series.pattern, path)
        if not found:
            continue
        image, place = read(path)
        if len(image) == 1:
            if (image == -9999).mean() > MOST_GAPS:
                continue
            image = np.concatenate([read(path.replace("_B02_", f"_{band}_"))[0] for band in series.bands])
            image = np.where((image == -9999).any(axis=0), 0, image.clip(1))
        yield found[1], image.astype(np.uint16), place


def classify(image: NDArray[Any], series: Series, place: dict[str, Any], l1c: bool) -> NDArray[np.uint8]:
    """Give a scene classification in ESA's numbers, by attcr's detectors: 4, thick 9, thin 10, shadow 3."""
    profile = {"driver": "GTiff", "height": image.shape[1], "width": image.shape[2], "count": len(image)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"S2A_MSI{'L1C' if l1c else 'L2A'}_20180101T100000_T{series.tile}.tif")
        with rasterio.open(path, "w", dtype="uint16", nodata=0, **profile, **place) as file:
            file.write(image)
            file.descriptions = series.bands
        with open_scene(path, sensor=SENTINEL2_L1C if l1c else SENTINEL2_L2A) as scene:
            found = find_clouds(scene, choose_mask(scene), Path(folder), rim=Rim(0, 0))
            assert found is not None
            classes = found.read(0, scene.height)
    told = np.full(classes.shape, 4, np.uint8)
    told[(classes & 3) == THIN], told[(classes & 3) == THICK], told[(classes & DARK) > 0] = 10, 9, 3
    told[(image == 0).any(axis=0)] = 9
    return told


def write_cog(path: Path, image: NDArray[Any], place: dict[str, Any]) -> None:
    """Write one band as Earth Search does: deflate, tiles, overviews."""
    with MemoryFile() as held:
        profile = {"driver": "GTiff", "height": image.shape[0], "width": image.shape[1], "count": 1, "nodata": 0}
        with held.open(dtype=image.dtype, **profile, **place) as file:
            file.write(image, 1)
        with held.open() as file:
            rasterio.shutil.copy(file, path, driver="COG", compress="deflate", predictor="yes", blocksize=256)


def make(mirror: Path, out: Path) -> None:
    """Write files and items of both series; those that are there are not made again."""
    for series in SERIES:
        folder = out / "files" / series.name
        if (folder / "items.json").exists():
            continue
        l1c = series.collection.endswith("l1c")
        for day, image, place in dates_of(series, mirror):
            name = f"S2A_{series.tile}_{day.replace('-', '')}_0_{'L1C' if l1c else 'L2A'}"
            if (folder / f"{name}.json").exists():
                continue
            (folder / name).mkdir(parents=True, exist_ok=True)
            scl = classify(image, series, place, l1c)
            for band, plane in zip(series.bands, image, strict=True):
                write_cog(folder / name / f"{band}.tif", plane, place)
            write_cog(folder / name / "SCL.tif", scl, place)
            keys = {COMMON[band]: band for band in series.bands} | {"scl": "SCL"}
            bounds = rasterio.transform.array_bounds(scl.shape[0], scl.shape[1], place["transform"])
            box = list(transform_bounds(place["crs"], "EPSG:4326", *bounds))
            told = item(series, name, day, box, scl, {key: f"{name}/{band}.tif" for key, band in keys.items()})
            (folder / f"{name}.json").write_text(json.dumps(told))
            print(name, f"{(scl != 4).mean():.3f} cloud", flush=True)
        items = [json.loads(path.read_text()) for path in sorted(folder.glob("S2A*.json"))]
        (folder / "items.json").write_text(json.dumps(items))


def item(
    series: Series, name: str, day: str, box: list[float], scl: NDArray[Any], assets: dict[str, str]
) -> dict[str, Any]:
    """Give an item of Earth Search's form; addresses of files begin with HOST."""
    west, south, east, north = box
    ring = [[west, south], [east, south], [east, north], [west, north], [west, south]]
    l1c = series.collection.endswith("l1c")
    return {
        "type": "Feature",
        "stac_version": "1.0.0",
        "stac_extensions": [],
        "id": name,
        "collection": series.collection,
        "geometry": {"type": "Polygon", "coordinates": [ring]},
        "bbox": box,
        "properties": {
            "datetime": f"{day}T10:00:00Z",
            "platform": "sentinel-2a",
            "grid:code": f"MGRS-{series.tile}",
            "eo:cloud_cover": float((scl != 4).mean() * 100),
            "s2:processing_baseline": "02.06" if l1c else "04.00",
            **({} if l1c else {"earthsearch:boa_offset_applied": True}),
        },
        "links": [],
        "assets": {key: {"href": f"HOST/{series.name}/{path}", "type": "image/tiff"} for key, path in assets.items()},
    }


@contextmanager
def served(out: Path) -> Iterator[str]:
    """Serve the archive, files by HTTP and items by rustac, and give the API's address."""
    sys.path.insert(0, str(ROOT / "tests"))
    from fake_catalogs import counted, stac_api  # type: ignore[import-not-found]

    with counted(out / "files", out / "asked") as (host, _):
        lists = [path for one in SERIES if (path := out / "files" / one.name / "items.json").exists()]
        told = "".join(path.read_text()[1:-1] + "," for path in lists)
        with stac_api(json.loads(f"[{told[:-1]}]".replace("HOST", host)), out) as api:
            yield api


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mirror", type=Path, required=True, help="folder of OWNER+NAME/repo")
    parser.add_argument("--out", type=Path, required=True, help="folder of the archive")
    args = parser.parse_args()
    make(args.mirror, args.out)


if __name__ == "__main__":
    main()
