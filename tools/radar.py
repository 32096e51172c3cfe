"""Write how well radar says what is under thick cloud, on clear places with the shapes of real cloud, as a table.

    python tools/radar.py --places S2/train_l1c --masks S2/pairs_cloudsen12 --work NEW --page PAGE --block radar

PLACES are clear places with NAME_10m.jp2, NAME_20m.jp2, NAME_60m.jp2 and NAME_s1_20m.tif (dB = value * 0.2 - 40). Each
gets opaque white where one of the masks (NAME_mask.tif: 1 thick, 2 thin cloud) has cloud, and goes through
`attcr restore --mask RASTER --radar FILE`. Errors are those of the hidden ground. An interrupted run continues in NEW.
"""

import argparse
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from defaults import replace_block
from masks import Counts, kept
from numpy.typing import NDArray

from attcr.bands.sensors import RGB, S2_COMMON, S2_L1C_BANDS, SENTINEL2_L1C
from attcr.data.dates import (
    BANDS_10M,
    BANDS_20M,
    BANDS_60M,
    CLASS_NUMBERS,
    CLASSES_MASK,
    L1C_SPEC,
    ONE_REFLECTANCE,
    DatedImage,
)
from attcr.data.pairs import read_raster
from attcr.evaluate.by_class import detail
from attcr.evaluate.rows import as_markdown
from attcr.evaluate.shipped import surroundings, write_scene
from attcr.predict import Predictor, open_predictor
from attcr.restore import RestoreOptions, restore_scene
from attcr.restore.walk import FROM_RADAR

WHITE = 0.7
"""Reflectance of the cloud that is drawn."""
LEAST, MOST = 0.05, 0.5
"""Share of a mask that is cloud."""
WORSE = 0.001


def shapes(folder: Path) -> list[NDArray[np.bool_]]:
    """Give the shapes of cloud, those with enough of it and enough beside it."""
    every = [np.isin(np.squeeze(read_raster(path)), (1, 2)) for path in sorted(folder.glob("*_mask.tif"))]
    return [one for one in every if LEAST <= one.mean() <= MOST]


def of_places(root: Path, clouds: Sequence[NDArray[np.bool_]], predictor: Predictor) -> Iterator[
    tuple[str, Callable[[], Counts]]
]:  # fmt: skip
    """Give, for each place, its name and what scores it."""

    def count(name: str, cloud: NDArray[np.bool_]) -> Counts:
        sizes = ((10, BANDS_10M), (20, BANDS_20M), (60, BANDS_60M))
        image = DatedImage(tuple((root / f"{name}_{size}m.jp2", bands) for size, bands in sizes)).read(S2_L1C_BANDS)
        truth = SENTINEL2_L1C.to_reflectance(image)
        came = np.where(cloud, np.float32(WHITE), truth)
        with tempfile.TemporaryDirectory() as kept_in, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            folder = Path(kept_in)
            scene = write_scene(folder, came, L1C_SPEC)
            radar, mask = folder / "radar.tif", folder / "mask.tif"
            with rasterio.open(scene) as file:
                place = {"crs": file.crs, "driver": "GTiff"}
                fine, coarse = file.transform, file.transform * file.transform.scale(2, 2)
            decibels = read_raster(root / f"{name}_s1_20m.tif").astype(np.float32) * 0.2 - 40
            for path, planes, grid in ((radar, decibels, coarse), (mask, cloud[None].astype(np.uint8), fine)):
                size = {"count": len(planes), "height": planes.shape[1], "width": planes.shape[2]}
                with rasterio.open(path, "w", **place, **size, dtype=planes.dtype, transform=grid) as file:
                    file.write(planes)
            options = RestoreOptions(mask=str(mask), radar=str(radar))
            result = restore_scene(scene, folder / "out.tif", predictor, options=options)
            assert result.spread is not None
            made, quality = (read_raster(path).astype(np.float32) for path in (result.target, result.quality))
            expected = np.squeeze(read_raster(result.spread))
        used = np.squeeze(quality) == FROM_RADAR
        inside = used if used.any() else cloud
        classes = np.where(inside, CLASS_NUMBERS["thick"], CLASS_NUMBERS["clear"])
        sample: Any = {"inputs": truth * ONE_REFLECTANCE, "masks": {CLASSES_MASK: classes}}
        around = surroundings(sample, L1C_SPEC) / ONE_REFLECTANCE
        made = np.where(used, made / 1e4, around)
        visible = [S2_COMMON.index(band) for band in RGB]

        def told(one: NDArray[np.float32]) -> tuple[float, float]:
            fine = detail(one.astype(np.float64), truth.astype(np.float64), visible, inside)
            return float(np.abs(one - truth)[:, inside].mean()), fine

        (radar_error, radar_detail), (around_error, around_detail) = told(made), told(around)
        return {
            "used": float(used.any()), "radar": radar_error, "around": around_error, "radar detail": radar_detail,
            "around detail": around_detail, "expected": float(expected[used].mean()) if used.any() else np.nan,
            "within": float((np.abs(made - truth).mean(axis=0) <= expected)[used].mean()) if used.any() else np.nan,
        }  # fmt: skip

    for at, path in enumerate(sorted(root.glob("*_s1_20m.tif"))):
        name = path.name.removesuffix("_s1_20m.tif")
        yield name, partial(count, name, clouds[at % len(clouds)])


def table(rows: dict[str, Counts]) -> list[str]:
    """Give a row for each kind of place and one for all: what radar and the surroundings alone are off by."""
    kinds: dict[str, list[Counts]] = {}
    for name, row in rows.items():
        for kind in (name.split("_")[0], "all"):
            kinds.setdefault(kind, []).append(row)
    body = []
    for kind in sorted(kinds, key=lambda one: (one == "all", one)):

        def mean(key: str, some: Sequence[Counts] = kinds[kind]) -> float:
            return float(np.nanmean([row[key] for row in some]))

        told = [f"{mean(key):.4f}" for key in ("around", "radar")]
        fine = [f"{mean(key):.2f}" for key in ("around detail", "radar detail")]
        worse = sum(row["radar"] > row["around"] + WORSE for row in kinds[kind])
        used = sum(row["used"] > 0 for row in kinds[kind])
        sure = [f"{mean('expected'):.4f}", f"{mean('within'):.0%}"]
        body.append([kind, f"{used} of {len(kinds[kind])}", *told, *fine, str(worse), *sure])
    heading = ["places", "radar used", "surroundings", "radar", "detail", "with radar", "worse", "expected", "within"]
    return as_markdown(heading, body)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--places", type=Path, required=True)
    parser.add_argument("--masks", type=Path, required=True)
    parser.add_argument("--weights", default="s2-thin")
    parser.add_argument("--work", type=Path, required=True, help="a new folder, for the scores")
    parser.add_argument("--page", type=Path, required=True)
    parser.add_argument("--block", required=True)
    args = parser.parse_args()
    replace_block(args.page.read_text(), args.block, "")
    args.work.mkdir(parents=True, exist_ok=True)
    predictor = open_predictor(args.weights, dtype="float32")
    rows = kept(args.work / "places.jsonl", of_places(args.places, shapes(args.masks), predictor))
    text = "\n".join(table(rows)) + "\n"
    print(text)
    args.page.write_text(replace_block(args.page.read_text(), args.block, text))


if __name__ == "__main__":
    main()
