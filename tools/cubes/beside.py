"""Composites of the archive beside S2Mosaic's medoid, on the same dates under the same masks.

    python -m tools.cubes.beside ARCHIVE --s2mosaic FOLDER --out FILE [--only roi146]

FOLDER is where `pip install --target FOLDER --no-deps --pre s2mosaic numba llvmlite` put them; of S2Mosaic its own
function runs. Of each series, MOST of the dates that are at least LEAST clear are left out, one at a time: the
composites of the others are compared with it where it is clear, in mean absolute error of reflectance over the bands,
as they are and after one line for each band. Seams: the mean step between neighbouring pixels of other days, over that
of pixels of one day.
"""

import argparse
import json
import sys
import types
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attcr.cubes import composite as composing
from attcr.cubes.block import Seen, load_block
from attcr.cubes.composite import CompositeOptions, levels_of, merged
from attcr.cubes.odc_stac import Loaded, load
from attcr.cubes.place import Grid
from attcr.cubes.plan import Plan, make_plan
from attcr.cubes.seams import ERROR_STEP
from attcr.cubes.search import Acquisition
from attcr.cubes.season import METHOD
from attcr.cubes.sources import Source
from attcr.scenes.tiles import Tile

from .archive import SERIES, Series, served

Array = NDArray[Any]
Made = tuple[Array, Array, Array]
"""Reflectance (C, h, w), day (h, w) with -1 where no date shows the pixel, and expected error (h, w)."""
LEAST, MOST = 0.2, 4
HELD: dict[tuple[str, int, int], Loaded] = {}
PART = 500
"""Pixels along the part of 20LMR that is taken."""


def open_series(series: Series, api: str) -> tuple[Plan, Seen]:
    """Search a series, and read all of it."""
    place, given = series.place, dict(zip(series.options[::2], series.options[1::2], strict=True))
    if series.name == "20lmr":
        west, south, east, north = map(float, place.split(","))
        place = f"{(south + north) / 2},{(west + east) / 2},{PART * 20}"
    more: dict[str, Any] = {"source": f"{api}#{series.collection}", "most_cloud": 100.0}
    more |= {"resolution": float(given["--resolution"]), "crs": given.get("--crs")}
    plan = make_plan(place, CompositeOptions(*series.period, **more), filled=False)
    return plan, load_block(plan, Tile(0, 0, plan.grid.height, plan.grid.width), ())


def clear_of(plan: Plan, seen: Seen) -> tuple[Array, Array]:
    """Give the numbers without the margin, and where each date is clear."""
    rows, cols = seen.inside
    numbers = seen.numbers[..., rows, cols]
    return numbers, (seen.classes[:, rows, cols] == 0) & (numbers != plan.source.nodata).all(axis=1)


def without(plan: Plan, seen: Seen, at: int) -> tuple[Plan, Seen]:
    """Leave a date out."""
    keep = [one for one in range(len(plan.acquisitions)) if one != at]
    less = replace(plan, acquisitions=tuple(plan.acquisitions[one] for one in keep))
    return less, Seen(seen.tile, tuple(range(len(keep))), seen.numbers[keep], seen.classes[keep])


def ours(plan: Plan, seen: Seen) -> dict[str, Made]:
    """Give the composites that attcr makes."""
    assert isinstance(plan.options, CompositeOptions)
    levels, sensor, told = levels_of(plan), plan.source.sensor(plan.offset), {}
    for method in METHOD:
        made = merged(replace(plan, options=replace(plan.options, method=method)), seen, levels).astype(np.float64)
        day = np.where(made[-3] > 0, made[-2], -1)
        told[f"attcr's {method}"] = (sensor.to_reflectance(made[:-3]), day, made[-1] * ERROR_STEP)
    return told


def theirs(folder: Path) -> Callable[[Plan, Seen], dict[str, Made]]:
    """Give S2Mosaic's medoid; its package is not imported as a whole, for that needs a network for clouds."""
    sys.path.insert(0, str(folder))
    package = types.ModuleType("s2mosaic")
    package.__path__ = [str(folder / "s2mosaic")]
    sys.modules["s2mosaic"] = package
    medoid = vars(import_module("s2mosaic.aggregation"))["_medoid_axis0_u16"]

    def make(plan: Plan, seen: Seen) -> dict[str, Made]:
        numbers, clear = clear_of(plan, seen)
        made, known = medoid(np.ascontiguousarray(numbers), np.ascontiguousarray(clear))
        days = np.array([one.timestamp() // 86400 for one in plan.taken])
        day = np.where(known, days[((numbers == made).all(axis=1) & clear).argmax(axis=0)], -1)
        values = plan.source.sensor(plan.offset).to_reflectance(made)
        return {"S2Mosaic's medoid": (values, day, np.full(day.shape, np.nan))}

    return make


def kept(acquisition: Acquisition, source: Source, bands: tuple[str, ...], grid: Grid, *, offset: float) -> Loaded:
    """Read the coarse image of a date; of one that is read again with other dates left out, it is held."""
    key = (acquisition.name, grid.height, grid.width)
    if key not in HELD:
        HELD[key] = load(acquisition, source, bands, grid, offset=offset)
    return HELD[key]


def seams(values: Array, day: Array) -> dict[str, float]:
    """Compare steps between neighbours."""
    steps: dict[bool, list[Array]] = {True: [], False: []}
    for axis in (0, 1):
        step = np.abs(np.diff(values, axis=axis + 1)).mean(axis=0)
        one, other = (np.delete(day, end, axis) for end in (-1, 0))
        for same in (True, False):
            steps[same].append(step[((one == other) == same) & (one >= 0) & (other >= 0)])
    inside, across = (np.concatenate(steps[same]) for same in (True, False))
    share = len(across) / (len(across) + len(inside))
    return {"seams": float(across.mean() / inside.mean()), "share of seams": share}


def errors(values: Array, expected: Array, truth: Array, where: Array) -> dict[str, float]:
    """Compare a composite with a date that it was not made of."""
    lines = [np.polyfit(x[where], y[where], 1) for x, y in zip(values, truth, strict=True)]
    fitted = np.stack([a * x + b for (a, b), x in zip(lines, values, strict=True)])
    told = {"error": values, "error after a line": fitted}
    made = {name: float(np.abs(one - truth)[:, where].mean()) for name, one in told.items()}
    return {**made, "expected": float(expected[where].mean())}


def measure(plan: Plan, seen: Seen, make: Callable[[Plan, Seen], dict[str, Made]]) -> dict[str, Any]:
    """Look at the composites of all dates, and leave out one after the other."""
    numbers, clear = clear_of(plan, seen)
    truth = plan.source.sensor(plan.offset).to_reflectance(numbers)
    told: dict[str, Any] = {}
    for name, (values, day, _) in make(plan, seen).items():
        told[name] = {"dates": len(numbers), **seams(values, day), "rows": []}
    some = np.flatnonzero(clear.mean(axis=(1, 2)) >= LEAST)
    for at in some[np.linspace(0, len(some) - 1, min(MOST, len(some))).astype(int)].tolist():
        for name, (values, day, expected) in make(*without(plan, seen, at)).items():
            told[name]["rows"].append(errors(values, expected, truth[at], clear[at] & (day >= 0)))
    for one in told.values():
        one |= {key: float(np.mean([row[key] for row in one["rows"]])) for key in one["rows"][0]}
    return told


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archive", type=Path)
    parser.add_argument("--s2mosaic", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", choices=[one.name for one in SERIES])
    args = parser.parse_args()
    told: dict[str, Any] = {}
    vars(composing)["load"] = kept
    with served(args.archive) as api:
        for series in SERIES:
            if args.only not in (None, series.name):
                continue
            plan, seen = open_series(series, api)
            made = measure(plan, seen, theirs(args.s2mosaic)) | measure(plan, seen, ours)
            for name, one in made.items():
                shown = (f"{key} {value:.4f}" for key, value in one.items() if key != "rows")
                print(series.name, name, *shown, sep="; ", flush=True)
            told[series.name] = made
            args.out.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
