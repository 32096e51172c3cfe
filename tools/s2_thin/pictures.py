"""Make the pictures to look at before weights are published: input and output side by side, at full resolution.

    python -m tools.s2_thin.pictures s2-thin --root ../shared/data --landsat DATA --out pictures

cirrus.png      thin cirrus on tile T33UXQ at 60 m, four bands: true colour, false colour, NDVI, expected error
cloudsen12.png  three places of CloudSEN12: input, output, clear date, classes, expected error
landsat.png     a crop of Landsat 8 or 9: true colour and false colour
safe.png        a SAFE-like folder of 13 bands at 10, 20 and 60 m: every band before and after

All but CloudSEN12 go through `attcr.restore_scene`, so that seams of tiles would show. Two minutes on a free core.
"""

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import rasterio
from PIL import Image, ImageDraw
from rasterio.transform import from_origin
from rasterio.windows import from_bounds

import attcr
from attcr.bands.sensors import S2_L1C_BANDS
from attcr.data.dates import BANDS_10M, BANDS_20M, BANDS_60M

from .measure import Array, Restorer
from .real import FOLDERS, open_set, restorations

CIRRUS_WINDOW = (633600.0, 5429220.0, 678000.0, 5453220.0)
"""West, south, east, north of the streaks of cirrus on T33UXQ, in metres."""
PLACES = ("roi02_s014_cloudy", "roi16_s083_cloudy", "roi17_s089_cloudy")
"""Thin cloud and shadow over the darker, the brighter and the mixed ground of CloudSEN12's places."""
SAFE_PLACE = "roi16_s083_cloudy"
LANDSAT = "landsat_LC08_L2SP_218074_20190114_20200829_02_T1-cropped.npz"
CLASS_COLOURS = np.array([[40, 40, 40], [255, 255, 255], [120, 180, 255], [200, 120, 0]], np.uint8)
"""Clear, thick, thin, shadow."""
GAP = 4
"""Pixels between pictures."""


def colour(bands: Array, white: float) -> Array:
    """Give (H, W, 3) in 8 bits of three bands of reflectance."""
    return np.asarray((np.clip(bands / white, 0, 1) * 255).astype(np.uint8).transpose(1, 2, 0))


def grey(values: Array, low: float, high: float) -> Array:
    """Give (H, W, 3) in 8 bits of one plane."""
    return colour(np.stack([values - low] * 3), high - low)


def ndvi(nir: Array, red: Array) -> Array:
    """Give the vegetation index as a picture."""
    return grey((nir - red) / np.maximum(nir + red, 1e-3), -0.2, 0.9)


def save_sheet(path: Path, rows: Sequence[Mapping[str, Array]]) -> None:
    """Write pictures of one size in rows, each with its title above."""
    height, width = next(iter(rows[0].values())).shape[:2]
    columns, line = max(map(len, rows)), 14
    sheet = Image.new("RGB", (columns * (width + GAP), len(rows) * (height + line + GAP)), "white")
    draw = ImageDraw.Draw(sheet)
    for i, row in enumerate(rows):
        for j, (title, picture) in enumerate(row.items()):
            left, top = j * (width + GAP), i * (height + line + GAP)
            draw.text((left + 2, top + 1), title, fill="black")
            sheet.paste(Image.fromarray(picture), (left, top + line))
    path.parent.mkdir(parents=True, exist_ok=True)
    sheet.save(path)
    print(path, flush=True)


def read(path: Path | str) -> tuple[dict[str, Array], Array]:
    """Give the planes of a raster by description, and all of them."""
    with rasterio.open(path) as file:
        values = file.read()
        return dict(zip(file.descriptions, values, strict=True)), values


def write_band(path: Path, values: Array, **profile: object) -> None:
    """Write one plane as GeoTIFF."""
    path.parent.mkdir(parents=True, exist_ok=True)
    height, width = values.shape
    with rasterio.open(path, "w", "GTiff", width, height, 1, dtype=values.dtype, **profile) as file:
        file.write(values, 1)


def run(source: Path, out: Path, weights: str, sensor: str | None = None) -> tuple[dict[str, Array], Array]:
    """Restore a scene without a mask; give its bands by name and the expected errors (N, H, W)."""
    options = attcr.RestoreOptions(mask="none", sensor=sensor)
    done = attcr.restore_scene(source, out, weights, options=options)
    spread = read(done.spread)[1] if done.spread else np.zeros((1, 1, 1), np.float32)
    return read(out)[0], spread


def cirrus(weights: str, root: Path, out: Path, work: Path) -> None:
    """Restore the window of T33UXQ that has cirrus."""
    before: dict[str, Array] = {}
    for path in sorted((root / "scenes" / "s2_l2a_60m").glob("*_B*_60m.jp2")):
        with rasterio.open(path) as file:
            window = from_bounds(*CIRRUS_WINDOW, transform=file.transform).round_offsets().round_lengths()
            name = path.stem.split("_")[2]
            before[name] = file.read(1, window=window)
            place = {"crs": file.crs, "transform": file.window_transform(window)}
        write_band(work / "cirrus" / f"S2A_MSIL2A_N0300_{path.stem}.tif", before[name], **place)
    after, spread = run(work / "cirrus", work / "cirrus.tif", weights, "s2-l2a")
    rows = []
    for title, bands in (("input", before), ("output", after)):
        values = {name: bands[name].astype(np.float32) / 1e4 for name in before}
        rows.append({
            f"{title}, true colour": colour(np.stack([values[n] for n in ("B04", "B03", "B02")]), 0.25),
            f"{title}, B8A B04 B03": colour(np.stack([values[n] for n in ("B8A", "B04", "B03")]), 0.4),
            f"{title}, NDVI": ndvi(values["B8A"], values["B04"]),
        })  # fmt: skip
    rows[1]["expected error, 0 to 0.04"] = grey(spread.astype(np.float32).mean(0), 0, 0.04)
    save_sheet(out / "cirrus.png", rows)


def places(weights: str, root: Path, out: Path) -> None:
    """Restore three places of CloudSEN12, whole, with their clear dates beside."""
    pairs = open_set(root / "s2", "cloudsen12")
    pairs.pairs = [pair for pair in pairs.pairs if pair.name in PLACES]
    rows = []
    for pair in restorations(Restorer(attcr.open_predictor(weights)), pairs):
        white = float(np.quantile(pair.clear[3], 0.98)) * 1.2
        images = {f"{pair.name}: input": pair.cloudy, "output": pair.out, "clear date": pair.clear}
        rows.append({
            **{title: colour(image[[3, 2, 1]], white) for title, image in images.items()},
            "clear, thick, thin, shadow": CLASS_COLOURS[pair.classes.clip(0, 3)],
            "expected error, 0 to 0.06": grey(pair.scale.mean(0), 0, 0.06),
        })  # fmt: skip
    save_sheet(out / "cloudsen12.png", rows)


def landsat(weights: str, file: Path, out: Path, work: Path) -> None:
    """Restore a crop of Landsat's surface reflectance: an .npz of SR_B1 to SR_B7, digital numbers."""
    with np.load(file) as planes:
        before = {name: planes[name] for name in sorted(planes) if name.startswith("SR_B")}
    for name, values in before.items():
        place = {"crs": "EPSG:32623", "transform": from_origin(600000, 7800000, 30, 30), "nodata": 0}
        write_band(work / "landsat" / f"LC08_L2SP_218074_20190114_20200829_02_T1_{name}.TIF", values, **place)
    found, _ = run(work / "landsat", work / "landsat.tif", weights, "landsat-c2-l2")
    after = dict(zip(before, found.values(), strict=True))
    rows = []
    for title, bands in (("input", before), ("output", after)):
        values = {name: np.where(band > 0, band * 2.75e-5 - 0.2, 0) for name, band in bands.items()}
        rows.append({
            f"{title}, true colour": colour(np.stack([values[n] for n in ("SR_B4", "SR_B3", "SR_B2")]), 0.25),
            f"{title}, SR_B6 SR_B5 SR_B4": colour(np.stack([values[n] for n in ("SR_B6", "SR_B5", "SR_B4")]), 0.5),
        })  # fmt: skip
    save_sheet(out / "landsat.png", rows)


def safe(weights: str, root: Path, out: Path, work: Path) -> None:
    """Restore a SAFE-like folder of 13 bands at their own sizes, and see that all come out."""
    name = "S2A_MSIL1C_20200101T100000_N0208_R022_T33UXQ_20200101T100000"
    folder, prefix = work / f"{name}.SAFE", root / "s2" / FOLDERS["cloudsen12"] / SAFE_PLACE
    before: dict[str, Array] = {}
    for size, names in ((10, BANDS_10M), (20, BANDS_20M), (60, BANDS_60M)):
        place = {"crs": "EPSG:32633", "transform": from_origin(600000, 5450040, size, size)}
        for band, values in zip(names, read(f"{prefix}_{size}m.jp2")[1], strict=True):
            write_band(folder / "IMG_DATA" / f"T33UXQ_20200101T100000_{band}.tif", values, **place)
            before[band] = values.repeat(size // 10, 0).repeat(size // 10, 1)
    after, _ = run(folder, work / "safe.tif", weights)
    absent = [band for band in S2_L1C_BANDS if band not in after]
    print(f"SAFE-like folder: {len(before)} bands in, {len(after)} out; absent: {' '.join(absent) or 'none'}")
    rows: list[dict[str, Array]] = []
    for band in S2_L1C_BANDS:
        if len(rows) == 0 or len(rows[-1]) >= 8:
            rows.append({})
        top = float(np.quantile(before[band], 0.99)) * 1.1
        rows[-1] |= {f"{band} in": grey(before[band], 0, top), f"{band} out": grey(after[band], 0, top)}
    save_sheet(out / "safe.png", rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Make all sheets that there is data for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights", help="a published name, or a file")
    parser.add_argument("--root", type=Path, required=True, help="folder that holds s2 and scenes")
    parser.add_argument("--landsat", type=Path, help=f"folder that holds {LANDSAT}")
    parser.add_argument("--out", type=Path, required=True, help="folder of the pictures")
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        safe(args.weights, args.root, args.out, work)
        places(args.weights, args.root, args.out)
        cirrus(args.weights, args.root, args.out, work)
        if args.landsat:
            landsat(args.weights, args.landsat / LANDSAT, args.out, work)


if __name__ == "__main__":
    main()
