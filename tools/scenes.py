"""Write what the plain command makes of single scenes of two dates, before and after, as a table with a row for each.

    python tools/scenes.py --pairs NAME=FOLDER[:IMAGE,IMAGE] ... --work NEW --page PAGE --block scenes

NAME is a data set of two dates of `attcr evaluate`. The other date is fitted, by a line for each band, on what the
command calls original (class 1) where that is more than 5 % of an image; otherwise it is taken as it is. Errors are
those under cloud, as the command found it (classes 2 to 5). An interrupted run continues in NEW.
"""

import argparse
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from defaults import replace_block
from masks import Counts, kept
from numpy.typing import NDArray

from attcr.data import find_set
from attcr.data.dates import ONE_REFLECTANCE
from attcr.errors import AllCloudError
from attcr.evaluate.by_class import HARM, lines_to
from attcr.evaluate.rows import as_markdown
from attcr.evaluate.shipped import write_scene
from attcr.predict import Predictor, open_predictor
from attcr.restore import restore_scene
from attcr.restore.walk import CLOUD_LEFT, NODATA, ORIGINAL

Float64 = NDArray[np.float64]
ENOUGH = 0.05
"""Share of class 1 to fit the other date on."""
FEWEST = 0.01
"""Share of an image that must be under cloud for its errors to be told."""


def restored(scene: Path, predictor: Predictor) -> tuple[Float64, NDArray[np.uint8]]:
    """Give reflectance (C, H, W) by the plain command and its classes (H, W); all left where all is thick cloud."""
    with warnings.catch_warnings(), rasterio.open(scene) as source:
        warnings.simplefilter("ignore")
        try:
            result = restore_scene(scene, scene.with_name("out.tif"), predictor)
        except AllCloudError:
            return source.read() / 1e4, np.full(source.shape, CLOUD_LEFT, np.uint8)
    with rasterio.open(result.target) as image, rasterio.open(result.quality) as quality:
        return image.read() / 1e4, quality.read(1)


def errors(image: Float64, truth: Float64, at: tuple[int, int]) -> tuple[Float64, Float64]:
    """Give the absolute errors of reflectance and of NDVI, each (H, W)."""

    def index(values: Float64) -> Float64:
        nir, red = values[list(at)].clip(0)
        ratio: Float64 = (nir - red) / np.maximum(nir + red, 0.02)
        return ratio

    return abs(image - truth).mean(0), abs(index(image) - index(truth))


def of_scenes(
    name: str, root: Path, wanted: set[str], predictor: Predictor
) -> Iterator[tuple[str, Callable[[], Counts]]]:
    """Give, for each image, its name and what tells its errors before and after."""
    pairs = find_set(name).open(root)
    bands = list(pairs.spec.outputs)
    at = (bands.index("nir"), bands.index("red"))

    def told(number: int) -> Counts:
        sample = pairs[number]
        seen = np.asarray(sample["inputs"], np.float64)[pairs.spec.optical] / ONE_REFLECTANCE
        truth = np.asarray(sample["clear"], np.float64) / ONE_REFLECTANCE
        with tempfile.TemporaryDirectory() as folder:
            made, quality = restored(write_scene(Path(folder), seen.astype(np.float32), pairs.spec), predictor)
        same = quality == ORIGINAL
        if same.mean() > ENOUGH:
            slopes, offsets = lines_to(truth, seen, same)
            truth = truth * slopes[:, None, None] + offsets[:, None, None]
        row = {"original": float(same.mean()), "left": float((quality == CLOUD_LEFT).mean())}
        before, after = errors(seen, truth, at), errors(made, truth, at)
        for place, where in (("cloud", ~same & (quality != NODATA)), ("all", quality != NODATA)):
            for when, two in (("before", before), ("after", after)) if where.mean() >= FEWEST else ():
                row |= {f"{place} {key} {when}": float(one[where].mean()) for key, one in zip(HARM, two, strict=True)}
        return row

    for number, image in enumerate(pairs.names):
        if not wanted or image in wanted:
            yield image, partial(told, number)


def table(rows: dict[str, Counts]) -> list[str]:
    """Give a row for each image, and how many are worse."""
    body: list[list[Any]] = []
    worse: dict[str, list[str]] = {key: [] for key in HARM}
    for name, row in rows.items():
        cells = []
        for key, least in HARM.items():
            before, after = (row.get(f"cloud {key} {when}") for when in ("before", "after"))
            cells.append("-" if before is None or after is None else f"{before:.4f} → {after:.4f}")
            if before is not None and after is not None and after > before + least:
                worse[key].append(name)
        before, after = row["all mae before"], row["all mae after"]
        body.append([name, f"{row['original']:.0%}", f"{row['left']:.0%}", *cells, f"{before:.4f} → {after:.4f}"])
    heading = ["image", "original", "left as cloud", "MAE under cloud", "NDVI error under cloud", "MAE of all"]
    told = (f"by more than {HARM[key]:g} in {label}: {', '.join(worse[key]) or 'none'}"
            for key, label in (("mae", "MAE"), ("ndvi", "NDVI")))  # fmt: skip
    under = sum("cloud mae after" in row for row in rows.values())
    return [*as_markdown(heading, body), "", f"Worse under cloud, of {under} images that have any: {'; '.join(told)}."]


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", action="append", required=True, metavar="NAME=FOLDER[:IMAGES]")
    parser.add_argument("--weights", default="s2-thin")
    parser.add_argument("--work", type=Path, required=True, help="a new folder, for the figures")
    parser.add_argument("--page", type=Path, required=True)
    parser.add_argument("--block", required=True)
    args = parser.parse_args()
    replace_block(args.page.read_text(), args.block, "")
    args.work.mkdir(parents=True, exist_ok=True)
    predictor, rows = open_predictor(args.weights, dtype="float32"), dict[str, Counts]()
    for number, given in enumerate(args.pairs):
        name, _, place = given.partition("=")
        folder, _, images = place.partition(":")
        scenes = of_scenes(name, Path(folder), set(images.split(",")) if images else set(), predictor)
        rows |= kept(args.work / f"{number}.jsonl", scenes)
    text = "\n".join(table(rows)) + "\n"
    print(text)
    args.page.write_text(replace_block(args.page.read_text(), args.block, text))


if __name__ == "__main__":
    main()
