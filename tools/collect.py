"""Collect the training data of tools/s2_thin and tools/dates_net from git directories of public repositories.

    python tools/collect.py --mirror FOLDER --out DATA

FOLDER holds OWNER+NAME/repo, a git directory with its history, of each repository in `tools/s2_thin/README.md` and
`tools/dates_net/README.md`, which say what the files hold. It takes a quarter of an hour on one core; a file that
is there is not made again. `--series` also writes the 20LMR series as one GeoTIFF for each date.
"""

import argparse
import io
import re
import subprocess
import tarfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from numpy.typing import NDArray
from rasterio.enums import Resampling
from rasterio.errors import NotGeoreferencedWarning
from rasterio.io import MemoryFile
from rasterio.transform import from_origin
from rasterio.warp import reproject, transform, transform_bounds

SIDE = 240
ABSENT = -1e9
LKP_BANDS = ("B02", "B03", "B04", "B08", "B8A", "B11", "B12")
LANDSAT = "LC08_L2SP_218074_20190114_20200829_02_T1-cropped"
LMR_BANDS = ("B02", "B03", "B04", "B05", "B06", "B07", "B08", "B8A", "B11", "B12")


class Repository:
    """The files of a git directory, those of its history too."""

    def __init__(self, mirror: Path, name: str) -> None:
        self.git = ["git", "--git-dir", str(mirror / name / "repo")]
        listed = subprocess.run(
            [*self.git, "rev-list", "--objects", "--all", "--missing=allow-any"], capture_output=True, check=True
        ).stdout.decode(errors="replace")
        rows = (line.split(" ", 1) for line in listed.splitlines() if " " in line)
        self.files: dict[str, str] = {}
        for object_id, path in rows:
            self.files.setdefault(path, object_id)  # the newest first

    def matching(self, pattern: str) -> Iterator[tuple[re.Match[str], bytes]]:
        """Give what a pattern finds, by name, with its bytes."""
        for path in sorted(self.files):
            found = re.search(pattern, path)
            if found:
                blob = subprocess.run([*self.git, "cat-file", "blob", self.files[path]], capture_output=True)
                if blob.returncode == 0:
                    yield found, blob.stdout


def pixels(blob: bytes) -> NDArray[Any]:
    """Read all bands of an image."""
    with MemoryFile(blob) as file, file.open() as image:
        return np.asarray(image.read())


def on_utm(blob: bytes, zone_offset: int) -> tuple[NDArray[Any], float, float]:
    """Bring an image in degrees back to Sentinel-2's grid; also give the longitude and latitude of its middle."""
    with MemoryFile(blob) as file, file.open() as image:
        left, bottom, right, top = image.bounds
        lon, lat = (left + right) / 2, (top + bottom) / 2
        crs = f"EPSG:{(32600 if lat >= 0 else 32700) + int((lon + 180) // 6) + 1 + zone_offset}"
        west, south, east, north = transform_bounds(image.crs, crs, *image.bounds)
        x = round(((west + east) / 2 - SIDE * 5) / 60) * 60
        y = round(((south + north) / 2 + SIDE * 5) / 60) * 60
        out = np.full((image.count, SIDE, SIDE), ABSENT)
        reproject(
            image.read(), out, src_transform=image.transform, src_crs=image.crs, dst_crs=crs,
            dst_transform=from_origin(x, y, 10, 10), resampling=Resampling.nearest, src_nodata=None,
            dst_nodata=ABSENT, init_dest_nodata=True,
        )  # fmt: skip
        middle = transform(crs, "EPSG:4326", [x + SIDE * 5], [y - SIDE * 5])
        return out, float(middle[0][0]), float(middle[1][0])


def native_share(band: NDArray[Any]) -> float:
    """Give the share of cells of 20 m whose four pixels are equal."""
    cells = band.reshape(SIDE // 2, 2, SIDE // 2, 2)
    return float((cells == cells[:, :1, :, :1]).all(axis=(1, 3)).mean())


def data_fusion(mirror: Path) -> dict[str, Any]:
    """500 places of L1C."""
    from s2cloudless import S2PixelCloudDetector  # type: ignore[attr-defined]

    detector = S2PixelCloudDetector(threshold=0.4, average_over=4, dilation_size=2, all_bands=True)
    rows: dict[str, list[Any]] = {key: [] for key in ("a", "name", "lon", "lat", "cloud", "qa", "native", "nodata")}
    repository = Repository(mirror, "alessandrosebastianelli+S1-S2-DataFusion")
    for found, blob in repository.matching(r"^dataset/\w+/sentinel2/\w+/s2_(\w+)_(\d+)\.tif$"):
        best: tuple[float, NDArray[Any], float, float] | None = None
        for zone_offset in (0, -1, 1):
            image, lon, lat = on_utm(blob, zone_offset)
            share = native_share(image[4])
            if best is None or share > best[0]:
                best = (share, image, lon, lat)
            if share > 0.9:
                break
        assert best is not None
        share, image, lon, lat = best
        digital = np.clip(np.round(image[:13]), 0, 65535).astype(np.uint16)
        small = (digital[:, 1::3, 1::3].transpose(1, 2, 0)[None] / 10000.0).astype(np.float32)
        cloud = detector.get_mask_from_prob(detector.get_cloud_probability_maps(small))
        for key, value in (
            ("a", digital), ("name", f"{found[1]}_{int(found[2]):03d}"), ("lon", lon), ("lat", lat),
            ("cloud", float(cloud.mean())), ("qa", float((image[15] > 0).mean())), ("native", share),
            ("nodata", int((image < ABSENT / 10).any(axis=0).sum())),
        ):  # fmt: skip
            rows[key].append(value)
    return {key: np.array(values) for key, values in rows.items()}


def europe(mirror: Path) -> dict[str, Any]:
    """4,160 patches of L2A."""
    from io import BytesIO

    ids, patches = [], []
    for found, blob in Repository(mirror, "rbngz+submission_dataset").matching(r"^testset/test_(\d+)\.npy$"):
        patch = np.load(BytesIO(blob)).transpose(2, 0, 1)
        if patch.any() and np.percentile(patch[1], 99) < 4500:
            ids.append(int(found[1]))
            patches.append(patch.astype(np.uint16))
    order = np.argsort(ids)
    return {"a": np.stack(patches)[order], "ids": np.array(ids)[order]}


def dates_of(mirror: Path, name: str, pattern: str, bands: tuple[str, ...]) -> dict[str, Any]:
    """A series with a file for each band and date, which the pattern's groups `band` and `date` name."""
    found_bands: dict[str, dict[str, NDArray[Any]]] = {}
    for found, blob in Repository(mirror, name).matching(pattern):
        found_bands.setdefault(found["date"], {})[found["band"]] = pixels(blob)[0]
    dates = sorted(date for date, images in found_bands.items() if set(bands) <= set(images))
    return {
        "a": np.stack([np.stack([found_bands[date][band] for band in bands]) for date in dates]),
        "dates": np.array(dates), "bands": np.array(bands),
    }  # fmt: skip


def rondonia(mirror: Path, tile: str, bands: tuple[str, ...]) -> dict[str, Any]:
    """A tile of e-sensing/sitsdata."""
    pattern = rf"Rondonia-{tile}/SENTINEL-2_MSI_{tile}_(?P<band>B\w\w)_(?P<date>[\d-]+)\.tif$"
    return dates_of(mirror, "e-sensing+sitsdata", pattern, bands)


def kept_20lkp(mirror: Path) -> dict[str, Any]:
    """36 dates of 20LKP at 10 m."""
    pattern = r"Sentinel-2/S2A_MSIL2A_T20LKP_(?P<date>[\d-]+)_(?P<band>B\w\w)_10m\.tif$"
    return dates_of(mirror, "rolfsimoes+sitsdata", pattern, LKP_BANDS)


def hls(mirror: Path) -> dict[str, Any]:
    """Patches of Landsat 8."""
    repository = Repository(mirror, "Hassouna9+Water-Segmentation")
    by_number = {int(found[1]): pixels(blob) for found, blob in repository.matching(r"train_images/(\d+)\.tif$")}
    return {"a": np.stack([by_number[number] for number in sorted(by_number)])}


def landsat(mirror: Path) -> dict[str, Any]:
    """Surface reflectance of one crop of Landsat 8 by band, digital numbers, for pictures."""
    ((_, blob),) = Repository(mirror, "compgeolab+xlandsat").matching(rf"data/{LANDSAT}\.tar\.gz$")
    with tarfile.open(fileobj=io.BytesIO(blob)) as archive:
        images = {name[-9:-4]: archive.extractfile(name) for name in archive.getnames() if name.endswith(".TIF")}
        return {band: pixels(file.read())[0] for band, file in images.items() if file}


def write_20lmr(mirror: Path, out: Path) -> None:
    """Write a GeoTIFF for each date of 20LMR with at most 70 % of gaps."""
    repository = Repository(mirror, "e-sensing+sitsdata")
    pattern = r"Rondonia-20LMR/\w+-2_MSI_20LMR_B02_([\d-]+)\.tif$"
    for found, blob in repository.matching(pattern):
        images = [
            pixels(next(repository.matching(re.escape(found.string.replace("_B02_", f"_{b}_"))))[1])[0]
            for b in LMR_BANDS
        ]
        image = np.stack(images)
        gaps = (image == -9999).any(axis=0)
        if gaps.mean() > 0.7:
            continue
        image = np.where(gaps, 0, image.clip(0)).astype(np.uint16)
        out.mkdir(parents=True, exist_ok=True)
        with MemoryFile(blob) as file, file.open() as first:
            profile = {"driver": "GTiff", "height": first.height, "width": first.width, "count": len(image)}
            profile |= {"dtype": "uint16", "crs": first.crs, "transform": first.transform, "nodata": 0}
        with rasterio.open(out / f"{found[1]}.tif", "w", compress="deflate", **profile) as written:
            written.write(image)
            written.descriptions = LMR_BANDS


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mirror", type=Path, required=True, help="folder of OWNER+NAME/repo")
    parser.add_argument("--out", type=Path, required=True, help="folder of the .npz files")
    parser.add_argument("--series", type=Path, help="folder for the dates of 20LMR")
    args = parser.parse_args()
    warnings.simplefilter("ignore", NotGeoreferencedWarning)
    args.out.mkdir(parents=True, exist_ok=True)
    made: dict[str, Callable[[], dict[str, Any]]] = {
        "eu": lambda: europe(args.mirror), "lkp": lambda: kept_20lkp(args.mirror),
        "20LLQ_20m": lambda: rondonia(args.mirror, "20LLQ", ("B02", "B03", "B04", "B11", "B12", "B8A")),
        "20LKP_20m": lambda: rondonia(args.mirror, "20LKP", ("B02", "B11", "B8A")),
        "hls": lambda: hls(args.mirror), "df": lambda: data_fusion(args.mirror),
        f"landsat_{LANDSAT}": lambda: landsat(args.mirror),
    }  # fmt: skip
    for name, make in made.items():
        if not (args.out / f"{name}.npz").exists():
            arrays = make()
            np.savez(args.out / f"{name}.npz", **arrays)
            print(name, *(f"{key} {values.shape}" for key, values in arrays.items()), flush=True)
    if args.series:
        write_20lmr(args.mirror, args.series)


if __name__ == "__main__":
    main()
