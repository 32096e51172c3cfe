"""Write what the plain command takes for cloud, on real pairs by their classes and on clear places, as tables.

    python tools/masks.py --pairs TITLE=NAME=FOLDER ... --clear FOLDER ... --work NEW --page PAGE --block masks

A set has a title, a data set of `attcr evaluate`, and its folder; folders of one title count together. A folder of
clear places holds NAME_10m.jp2, NAME_20m.jp2 and NAME_60m.jp2, or dates of CloudSEN12, of which those whose mask is
clear are taken; the word before the first underscore is the kind of a place. An interrupted run continues in NEW.
"""

import argparse
import json
import math
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from defaults import replace_block
from numpy.typing import NDArray

from attcr.bands.sensors import S2_L1C_BANDS, SENTINEL2_L1C
from attcr.data import find_set
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
from attcr.evaluate.rows import as_markdown
from attcr.evaluate.shipped import write_scene
from attcr.predict import Predictor, open_predictor
from attcr.restore import RestoreOptions
from attcr.restore.scene import clouds_of, open_job

Counts = dict[str, float]
SHOWN = ("thin", "thick", "shadow", "clear")
CLEAR_ENOUGH = 0.001
"""Share of a date of CloudSEN12 that may be other than clear."""


def found_clouds(scene: Path, predictor: Predictor, folder: Path) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Give what the plain command takes for cloud or shadow (H, W), and what it may change."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with open_job(scene, predictor, RestoreOptions()) as job:
            rows = job.scene.height
            clouds = clouds_of(job, folder)
            assert clouds is not None
            return clouds.read(0, rows) > 0, clouds.rows(0, rows).weights > 0


def of_pairs(name: str, root: Path, predictor: Predictor) -> Iterator[tuple[str, Callable[[], Counts]]]:
    """Give, for each pair, its name and what counts the pixels of its classes that are found."""
    pairs = find_set(name).open(root)

    def count(at: int) -> Counts:
        sample = pairs[at]
        classes = np.asarray(sample["masks"][CLASSES_MASK])
        seen = np.asarray(sample["inputs"], np.float32)[pairs.spec.optical] / ONE_REFLECTANCE
        with tempfile.TemporaryDirectory() as folder:
            found, _ = found_clouds(write_scene(Path(folder), seen, pairs.spec), predictor, Path(folder))
        told = {kind: classes == number for kind, number in CLASS_NUMBERS.items()}
        return {f"{kind} {what}": float((one & where).sum()) for kind, one in told.items()
                for what, where in (("pixels", np.ones_like(found)), ("found", found))}  # fmt: skip

    for at, pair in enumerate(pairs.names):
        yield pair, partial(count, at)


def of_clear(root: Path, predictor: Predictor) -> Iterator[tuple[str, Callable[[], Counts]]]:
    """Give, for each clear place, its name and what tells the shares of it that are found and that may change."""

    def count(name: str) -> Counts:
        sizes = ((10, BANDS_10M), (20, BANDS_20M), (60, BANDS_60M))
        image = DatedImage(tuple((root / f"{name}_{size}m.jp2", bands) for size, bands in sizes)).read(S2_L1C_BANDS)
        with tempfile.TemporaryDirectory() as folder:
            scene = write_scene(Path(folder), SENTINEL2_L1C.to_reflectance(image), L1C_SPEC)
            found, touched = found_clouds(scene, predictor, Path(folder))
        return {"found": float(found.mean()), "touched": float(touched.mean())}

    for path in sorted(root.glob("*_10m.jp2")):
        name, mask = path.name.removesuffix("_10m.jp2"), path.with_name(path.name.replace("_10m.jp2", "_mask.tif"))
        if not mask.exists() or (read_raster(mask) != CLASS_NUMBERS["clear"]).mean() <= CLEAR_ENOUGH:
            yield name, partial(count, name)


def kept(file: Path, counts: Iterator[tuple[str, Callable[[], Counts]]]) -> dict[str, Counts]:
    """Count what was not counted in an earlier run; a line of the file is an image."""
    rows: dict[str, Counts] = {}
    if file.exists():
        rows = {row.pop("name"): row for row in map(json.loads, file.read_text().splitlines())}
    for name, count in counts:
        if name not in rows:
            rows[name] = count()
            with file.open("a") as out:
                out.write(json.dumps({"name": name, **rows[name]}) + "\n")
    return rows


def table_of_pairs(sets: dict[str, list[Counts]]) -> list[str]:
    """Give recall, false alarms and F1 of cloud of each set, all its pixels together."""
    body = []
    for title, rows in sets.items():
        pixels, found = ({kind: sum(row[f"{kind} {what}"] for row in rows) for kind in CLASS_NUMBERS}
                         for what in ("pixels", "found"))  # fmt: skip
        hit, there = (sum(one[kind] for kind in ("thin", "thick")) for one in (found, pixels))
        f1 = 2 * hit / (hit + found["clear"] + there) if hit else 0.0
        told = (found[kind] / pixels[kind] if pixels[kind] else math.nan for kind in SHOWN)
        body.append([title, str(len(rows)), *(f"{share:.2f}" for share in told), f"{f1:.2f}"])
    heading = ["set", "images", *(f"{kind} called cloud" for kind in SHOWN), "F1 of cloud"]
    return as_markdown(heading, body)


def table_of_clear(rows: dict[str, Counts]) -> list[str]:
    """Give the shares of each kind of place, and of the worst of it."""
    kinds: dict[str, list[Counts]] = {}
    for name, row in rows.items():
        kind = name.split("_")[0]
        kinds.setdefault("desert" if kind.startswith("roi") else kind, []).append(row)
    body: list[list[Any]] = []
    for kind, told in sorted(kinds.items()):
        found, touched = (np.array([row[key] for row in told]) for key in ("found", "touched"))
        body.append(
            [kind, str(len(told)), *(f"{share:.2%}" for share in (found.mean(), touched.mean(), touched.max()))]
        )
    return as_markdown(["clear places", "images", "called cloud", "may change", "in the worst"], body)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", action="append", default=[], metavar="TITLE=NAME=FOLDER")
    parser.add_argument("--clear", action="append", default=[], type=Path, metavar="FOLDER")
    parser.add_argument("--weights", default="s2-thin")
    parser.add_argument("--work", type=Path, required=True, help="a new folder, for the counts")
    parser.add_argument("--page", type=Path, required=True)
    parser.add_argument("--block", required=True)
    args = parser.parse_args()
    replace_block(args.page.read_text(), args.block, "")
    args.work.mkdir(parents=True, exist_ok=True)
    predictor = open_predictor(args.weights, dtype="float32")
    sets: dict[str, list[Counts]] = {}
    for number, (title, name, folder) in enumerate(one.split("=", 2) for one in args.pairs):
        rows = kept(args.work / f"pairs-{number}.jsonl", of_pairs(name, Path(folder), predictor))
        sets.setdefault(title, []).extend(rows.values())
    clear: dict[str, Counts] = {}
    for number, folder in enumerate(args.clear):
        clear |= kept(args.work / f"clear-{number}.jsonl", of_clear(folder, predictor))
    parts = ([*table_of_pairs(sets), ""] if sets else []) + (table_of_clear(clear) if clear else [])
    text = "\n".join(parts) + "\n"
    print(text)
    args.page.write_text(replace_block(args.page.read_text(), args.block, text))


if __name__ == "__main__":
    main()
