"""Write the real pairs that were not used in the development of s2-thin, from git directories of public repositories.

    python tools/untouched.py --mirror FOLDER --series SERIES --out UNTOUCHED
    python tools/untouched.py --mirror FOLDER --fresh --out FRESH

FOLDER and SERIES are as for `tools/collect.py`. UNTOUCHED/cloudsen12, UNTOUCHED/sen12mscr and the folders of
UNTOUCHED/haze come out in the layouts of `attcr evaluate`. Windows and dates of CloudSEN12 are chosen by the masks
alone; the windows of the haze are the scene's corners. UNTOUCHED/radar holds all pairs, used in development or not, of
which the source of the samples has the output of a network that takes radar too: pairs, and radar-network (predictions
of `attcr evaluate`). It takes a minute.

FRESH are places that neither s2-thin nor any rule of the plain command has seen: FRESH/cloudsen12 the two places left,
FRESH/sen12mscr the land patches of SEN12MS-CR left, and FRESH/moved those of them that have a veil, with clear places
of S1-S2-DataFusion as pairs whose two dates are the same: ground to move veils to.
"""

import argparse
import io
import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import rasterio
from collect import Repository, native_share, on_utm, pixels
from numpy.typing import NDArray
from rasterio.errors import NotGeoreferencedWarning

Array = NDArray[Any]
BANDS = 13
PLACES = (0, 4, 5, 7, 8, 9, 10, 12, 13, 14, 15, 18, 22, 23)
"""Of CloudSEN12, five dates each."""
FRESH_PLACES = (3, 11)
DATES, SIDE, COARSE = 5, 240, 6
"""Dates of a place, pixels a side of a window, and of a pixel of 60 m."""
WHOLE, NO_MASK = 516, 255
"""Pixels a side of what the repository's windows are put together to, and the mask where there is none."""
CORNER = 256
"""Pixels a side of a corner of the hazy scene."""
TEN_METRES, SIXTY_METRES = (1, 2, 3, 7), (0, 9, 10)
TWENTY_METRES = tuple(band for band in range(BANDS) if band not in TEN_METRES + SIXTY_METRES)
SAMPLES = r"data/output/residual/(\d+)_(target|input|output)\.tif$"
NEW_SAMPLES = ("2266", "3968", "4294", "5278", "6317", "7657")
PATCHES = r"imgs/cr/\w+/\w+/(ROIs\d+_(?:fall|summer))_(s2|s2_cloudy)_(85_p492|85_p753|85_p782|100_p500|100_p840)\.tif$"
FRESH_PATCHES = (
    r"imgs/cr/untagged/\w+/(ROIs\d+_[a-z]+)_(s2|s2_cloudy)_"
    r"(39_p500|39_p838|101_p505|101_p840|102_p100|102_p840|136_p100|136_p500|136_p840)\.tif$"
)
VEILED = ("39_p500", "39_p838", "101_p840", "102_p100")
"""Those of them with at least 3 % of thin cloud that can be fitted."""
GROUNDS = (
    r"sentinel2/\w+/s2_(city_9|city_99|coastline_7|coastline_9|lake_44|lake_73|river_98|"
    r"vegetation_14|vegetation_18|vegetation_25|vegetation_28|vegetation_36)\.tif$"
)
"""Clear places in cells that s2-thin was not trained on, at least 4 km from any place that rules were fitted on."""


class Date(NamedTuple):
    """One date of a place of CloudSEN12."""

    pixels: Array
    """(13, WHOLE, WHOLE)."""
    mask: Array
    """0 clear, 1 thick, 2 thin, 3 shadow, NO_MASK."""


def put_together(repository: Repository, places: Sequence[int]) -> dict[int, Date]:
    """Give the dates of places by number, from the windows of 256 pixels that the repository has of them."""
    rows = {}
    for found, blob in repository.matching(r"^qat/data/(\w+)/manifest\.json$"):
        rows.update({(found[1], row["file"]): row for row in json.loads(blob)})
    dates: dict[int, Date] = {}
    for found, blob in repository.matching(r"^qat/data/(\w+)/(patch_\d+\.npz)$"):
        row = rows[found[1], found[2]]
        number = row["sample_index"]
        if number // DATES in places:
            empty = Date(np.zeros((BANDS, WHOLE, WHOLE), np.uint16), np.full((WHOLE, WHOLE), NO_MASK, np.uint8))
            date, part = dates.setdefault(number, empty), np.load(io.BytesIO(blob))
            there = np.s_[..., row["y"] : row["y"] + 256, row["x"] : row["x"] + 256]
            date.pixels[there], date.mask[there] = part["image"], part["target"]
    return dates


def grid(date: Date) -> tuple[int, int]:
    """Give the row and column at which the pixels of 60 m begin: where most of them are of one value."""
    best, at = 0.0, (0, 0)
    count = 500 // COARSE
    for row in range(COARSE):
        for column in range(COARSE):
            cells = np.s_[row : row + count * COARSE, column : column + count * COARSE]
            parts = (a[cells].reshape(count, COARSE, count, COARSE) for a in (date.pixels[0], date.mask != NO_MASK))
            values, there = (part.transpose(0, 2, 1, 3).reshape(count, count, -1) for part in parts)
            whole = there.all(-1)
            if whole.sum() >= 50:
                equal = float((values == values[..., :1]).all(-1)[whole].mean())
                best, at = max((best, at), (equal, (row, column)), key=lambda pair: pair[0])
    return at


def choose(dates: Sequence[Date]) -> tuple[Array, int, list[int]]:
    """Give the window's upper left corner, the clear date, and at most two with cloud, by their masks."""
    grids = [grid(date) for date in dates]
    clear = max(range(DATES), key=lambda at: (dates[at].mask == 0).sum() / (dates[at].mask != NO_MASK).sum())
    best, corner, shares = 0.0, np.zeros(2, int), {}
    for top in range(grids[clear][0], 512 - SIDE + 1, COARSE):
        for left in range(grids[clear][1], 512 - SIDE + 1, COARSE):
            masks = [date.mask[top : top + SIDE, left : left + SIDE] for date in dates]
            if (masks[clear] != 0).mean() > 0.001 or (masks[clear] == NO_MASK).any():
                continue
            others = [at for at in range(DATES) if at != clear and (masks[at] != NO_MASK).all()]
            found = {
                at: (float((masks[at] == 0).mean()), float((masks[at] == 2).mean()))
                for at in others
                if grids[at] == grids[clear]
            }
            partly = sum(1 if 0.1 < share < 0.9 else 0.4 for share, _ in found.values())
            score = partly + 0.5 * max((thin for _, thin in found.values()), default=0.0)
            if found and score > best:
                best, corner, shares = score, np.array([top, left]), found
    return corner, clear, sorted(shares, key=lambda at: -(shares[at][1] + (0.1 < shares[at][0] < 0.95) * 0.5))[:2]


def write(path: Path, image: Array) -> None:
    """Write (C, H, W) without loss, as JPEG 2000 or GeoTIFF by the name, into a folder that is made if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lossless = {"QUALITY": 100, "REVERSIBLE": "YES", "YCBCR420": "NO", "YCC": "NO"}
    options = {"driver": "JP2OpenJPEG", **lossless} if path.suffix == ".jp2" else {"compress": "deflate"}
    count, height, width = image.shape
    with rasterio.open(path, "w", height=height, width=width, count=count, dtype=image.dtype, **options) as file:
        file.write(image)


def write_cloudsen12(mirror: Path, out: Path, places: Sequence[int] = PLACES) -> None:
    """Write a clear date and at most two with cloud of each place."""
    dates = put_together(Repository(mirror, "IoannouKon+cloudsen12-riscv-gemmini"), places)
    for place in places:
        numbers = range(place * DATES, place * DATES + DATES)
        (top, left), clear, cloudy = choose([dates[number] for number in numbers])
        for at in (clear, *cloudy):
            date, name = dates[numbers[at]], f"roi{place:02d}_s{numbers[at]:03d}_{'clear' if at == clear else 'cloudy'}"
            image = date.pixels[:, top : top + SIDE, left : left + SIDE]
            write(out / f"{name}_10m.jp2", image[list(TEN_METRES)])
            write(out / f"{name}_20m.jp2", image[list(TWENTY_METRES), 1::2, 1::2])
            write(out / f"{name}_60m.jp2", image[list(SIXTY_METRES), 3::COARSE, 3::COARSE])
            write(out / f"{name}_mask.tif", date.mask[None, top : top + SIDE, left : left + SIDE])


def read_samples(repository: Repository) -> dict[str, dict[str, Array]]:
    """Give the samples by number: their target, input and output, 13 bands each."""
    samples: dict[str, dict[str, Array]] = {}
    for found, blob in repository.matching(SAMPLES):  # two bands of Sentinel-1 come first in an input
        samples.setdefault(found[1], {})[found[2]] = np.round(pixels(blob)[-BANDS:].clip(0)).astype(np.uint16)
    return samples


def write_pair(out: Path, name: str, image: Array) -> None:
    """Write an image in the layout of `sen12mscr-pairs`."""
    write(out / f"{name}_10m.jp2", image[list(TEN_METRES)])
    write(out / f"{name}_rest.jp2", image[list(TWENTY_METRES + SIXTY_METRES)])


def write_sen12mscr(mirror: Path, out: Path) -> None:
    """Write the pairs, and beside them those with outputs of the network that takes radar."""
    repository = Repository(mirror, "Oriolac+cloud-removal")
    for number, sample in read_samples(repository).items():
        for folder in (*((out / "sen12mscr",) if number in NEW_SAMPLES else ()), out / "radar" / "pairs"):
            write_pair(folder, f"sample_{number}_s2", sample["target"])
            write_pair(folder, f"sample_{number}_s2_cloudy", sample["input"])
        write(out / "radar" / "radar-network" / f"sample_{number}.tif", sample["output"])
    for found, blob in repository.matching(PATCHES):
        write_pair(out / "sen12mscr", f"{found[1]}_{found[3]}_{found[2]}", pixels(blob))


def write_fresh(mirror: Path, out: Path) -> None:
    """Write the places that nothing has seen."""
    write_cloudsen12(mirror, out / "cloudsen12", FRESH_PLACES)
    for found, blob in Repository(mirror, "Oriolac+cloud-removal").matching(FRESH_PATCHES):
        for folder in ("sen12mscr", *(("moved",) if found[3] in VEILED else ())):
            write_pair(out / folder, f"{found[1]}_{found[3]}_{found[2]}", pixels(blob))
    for found, blob in Repository(mirror, "alessandrosebastianelli+S1-S2-DataFusion").matching(GROUNDS):
        at = [on_utm(blob, offset)[0] for offset in (0, -1, 1)]
        image = np.clip(np.round(max(at, key=lambda one: native_share(one[4]))[:BANDS]), 0, 65535).astype(np.uint16)
        for kind in ("s2", "s2_cloudy"):
            write_pair(out / "moved", f"{found[1]}_{kind}", image)


def write_haze(series: Path, out: Path) -> None:
    """Write the hazy date of 20LMR and the clear ones around it at the scene's four corners."""
    for date in ("2022-08-17", "2022-09-02", "2022-09-18"):
        image = pixels((series / f"{date}.tif").read_bytes())
        for row, rows in {"upper": slice(CORNER), "lower": slice(-CORNER, None)}.items():
            for column, columns in {"left": slice(CORNER), "right": slice(-CORNER, None)}.items():
                write(out / f"{row}-{column}" / f"{date}.tif", image[:, rows, columns])


def main(arguments: Sequence[str] | None = None) -> None:
    """Write all of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mirror", type=Path, required=True, help="folder of OWNER+NAME/repo")
    parser.add_argument("--series", type=Path, help="folder of the dates of 20LMR")
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args(arguments)
    warnings.simplefilter("ignore", NotGeoreferencedWarning)
    if args.fresh:
        write_fresh(args.mirror, args.out)
        return
    if not args.series:
        parser.error("--series is missing")
    write_cloudsen12(args.mirror, args.out / "cloudsen12")
    write_sen12mscr(args.mirror, args.out)
    write_haze(args.series, args.out / "haze")


if __name__ == "__main__":
    main()
