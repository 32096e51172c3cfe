"""The protocol `series`: clear ground of a cube, hidden under real masks of its other dates, and filled again.

Every date is hidden once under the clouds of another one and once as a whole, a few dates at a time, so that the others
show what they showed. All methods fill the same pixels: those that another date saw. Errors are mean absolute ones of
reflectance, means over pixels.
"""

from __future__ import annotations

import itertools
import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attcr.cubes.fill import Bool, Dates, Float64, fill
from attcr.data import DataSet
from attcr.errors import AttcrWarning, DataError
from attcr.evaluate.protocols import NOTHING, Given, Metric, Protocol, Scores, mean_absolute_error
from attcr.evaluate.rows import interval
from attcr.evidence.pyramid import Float32
from attcr.restore.options import RestoreOptions
from attcr.restore.stack import fill_image
from attcr.restore.walk import FROM_DATE, ORIGINAL
from attcr.scenes.clouds.masks import CLEAR, THICK
from attcr.scenes.tiles import grid

if TYPE_CHECKING:
    from xarray import Dataset

Places = NDArray[np.intp]

OURS, TWO = "attcr cube", "two dates"
"""The cube's own filling, and `attcr restore` from the two dates that show most (without its network)."""
ROUNDS = 5
"""One date in so many is hidden at a time."""
COVER = (0.1, 0.9)
"""The least and the largest part of a date under cloud whose mask hides others."""
LEAST = 500
"""Clear pixels below which a date is not scored."""
GAP_EDGES = (15, 30, 60)
"""Bins of days."""
SIDE, MOST_WINDOWS = 256, 4
"""Pixels along a window, and how many of them, spread over a cube, are scored."""
YEAR, DAMPED = 365.25, 0.1
"""Days of the harmonic's period, and what keeps its amplitude down where sights are few."""
PARTS, WHOLE = "parts", "whole dates"


@dataclass(frozen=True)
class Hidden:
    """What was hidden of one date, for gaps of one length, and how far off each method was."""

    date: str
    what: str
    """PARTS or WHOLE."""
    gap: str
    """Days from the last sight before to the first one after."""
    pixels: int
    errors: dict[str, float]
    """Of each method, where it fills."""
    expected: float
    """What the cube said how far off it may be."""
    holes: dict[str, tuple[int, float]] = field(default_factory=dict)
    """Of methods that leave some: how many pixels they fill, and the error of the cube on these."""


@dataclass(frozen=True)
class SeriesProtocol(Protocol):
    """Scores the filling of a cube; a row is what was hidden of a date."""

    name: str
    space: str
    metrics: Mapping[str, Metric]
    scored = "the dates of a cube"
    row_key = "errors"

    def score(self, predicted: ArrayLike, reference: ArrayLike, given: Given = NOTHING) -> Scores:
        """Give the mean absolute error of reflectance."""
        return {"mae": mean_absolute_error(predicted, reference)}

    def summarise(self, rows: Sequence[Hidden], data: DataSet, part: str) -> dict[str, Any]:
        """Give the means over pixels, of all and by length of gap, and how true the expected error was."""
        told: dict[str, Any] = {}
        for what in (PARTS, WHOLE):
            some = [row for row in rows if row.what == what]
            by_gap = {name: [row for row in some if row.gap == name] for name in _bins()}
            told[what] = {name: _means(each) for name, each in {"all": some, **by_gap}.items() if each}
        return told

    def table(self, result: Mapping[str, Any]) -> list[str]:
        """Give a table for parts of dates and one for whole ones."""
        lines = [f"{self.space}."]
        for what, by_gap in result.items():
            if not by_gap:
                continue
            methods = list(by_gap["all"]["mae"])
            lines += ["", f"Hidden: {what}.", ""]
            lines += [f"| days of the gap | pixels | {' | '.join(methods)} | expected / true |"]
            lines += ["|" + "---|" * (len(methods) + 3)]
            for name, each in by_gap.items():
                errors = " | ".join(f"{error:.4f}" for error in each["mae"].values())
                lines += [f"| {name} | {each['pixels']:,} | {errors} | {each['expected / true']:.2f} |"]
            low, high = by_gap["all"]["interval"]
            for name, (filled, beside) in by_gap["all"]["holes"].items():
                lines += ["", f"{name} fills {filled:,} pixels, where {OURS} is off by {beside:.4f}."]
            lines += ["", f"95 % interval of {OURS} over {by_gap['all']['dates']} dates: {low:.4f} to {high:.4f}."]
        return lines

    def rows_file(self, rows: Sequence[Hidden]) -> tuple[str, str]:
        """Give the rows as they are."""
        return "hidden.json", json.dumps([vars(row) for row in rows], indent=1) + "\n"

    def lines(self, result: Mapping[str, Any]) -> Iterator[str]:
        """Give the error of each method."""
        for what, by_gap in result.items():
            if by_gap:
                told = by_gap["all"]
                errors = ", ".join(f"{name} {error:.4f}" for name, error in told["mae"].items())
                yield f"{self.name}, {what}: MAE {errors}; expected / true {told['expected / true']:.2f}"


SERIES = SeriesProtocol(
    "series",
    "Mean absolute error of reflectance where clear ground was hidden under the real clouds of other dates, or as a "
    "whole; means over pixels",
    {"mae": Metric("MAE", "", False, 4)},
)


def _bins() -> dict[str, tuple[float, float]]:
    """Give the lengths of gaps by name; one without an end has no sight before, or none after."""
    closed = {f"up to {high}" if not low else f"{low} to {high}": (low, high) for low, high in _pairs()}
    return {**closed, f"over {GAP_EDGES[-1]}": (GAP_EDGES[-1], 1e6), "without an end": (1e6, np.inf)}


def _pairs() -> Iterator[tuple[int, int]]:
    return itertools.pairwise((0, *GAP_EDGES))


def _means(rows: Sequence[Hidden]) -> dict[str, Any]:
    pixels = np.array([row.pixels for row in rows], np.float64)
    errors, holes = {}, {}
    for name in dict.fromkeys(name for row in rows for name in row.errors):
        some = [row for row in rows if name in row.errors]
        filled, beside = zip(*(row.holes.get(name, (row.pixels, row.errors[OURS])) for row in some), strict=True)
        errors[name] = float(np.average([row.errors[name] for row in some], weights=filled))
        if sum(filled) < pixels.sum():
            holes[name] = (sum(filled), float(np.average(beside, weights=filled)))
    by_date = {row.date: [one for one in rows if one.date == row.date] for row in rows}
    means = (
        np.average([one.errors[OURS] for one in some], weights=[one.pixels for one in some])
        for some in by_date.values()
    )
    told = interval([float(one) for one in means])
    return {
        "dates": len(by_date),
        "pixels": int(pixels.sum()),
        "mae": errors,
        "holes": holes,
        "interval": [told["low"], told["high"]],
        "expected / true": float(np.average([row.expected for row in rows], weights=pixels) / errors[OURS]),
    }


def evaluate_series(
    root: Path, data: DataSet, out: Path, *, seed: int = 0, progress: Callable[[int, int], None] | None = None
) -> dict[str, Any]:
    """Score the filling of a cube, and write a report folder."""
    from attcr.cubes.icechunk import open_cube

    cube = open_cube(root)
    draw = np.random.default_rng(seed)
    rows: list[Hidden] = []
    height, width = (cube.sizes[axis] // SIDE * SIDE or cube.sizes[axis] for axis in "yx")  # no pixel counts twice
    windows = [*grid(height, width, tile=SIDE, overlap=0)]
    windows = windows[:: -(-len(windows) // MOST_WINDOWS)]
    for at, tile in enumerate(windows):
        dates, names = _dates_of(cube.isel(y=tile.rows, x=tile.cols))
        shown = (lambda done, at=at: progress(at * 2 * ROUNDS + done, len(windows) * 2 * ROUNDS)) if progress else None
        rows += score_dates(dates, names, draw, shown)
    if not rows:
        raise DataError(f"{root} has no date with {LEAST} clear pixels that another date saw too.")
    result = SERIES.summarise(rows, data, "test")
    out.mkdir(parents=True, exist_ok=True)
    name, text = SERIES.rows_file(rows)
    (out / name).write_text(text)
    (out / "report.json").write_text(json.dumps(result, indent=1) + "\n")
    title = f"# {SERIES.name} on {root.name}, {cube.sizes['time']} dates"
    (out / "report.md").write_text("\n".join([title, "", *SERIES.table(result), ""]))
    return {"protocols": {SERIES.name: result}}


def _dates_of(cube: Dataset) -> tuple[Dates, list[str]]:
    """Give what was seen in a part of a cube."""
    bands = [str(name) for name in cube.data_vars if name not in ("quality", "source", "days", "error")]
    values = np.stack([cube[name].values for name in bands], axis=1).astype(np.float32)
    classes = np.where(cube["quality"].values == ORIGINAL, CLEAR, THICK).astype(np.uint8)
    taken = cube["time"].values.astype("datetime64[s]")
    days = (taken - taken[0]).astype(np.float64) / 86400
    return Dates(values, classes, days, tuple(bands)), [str(one)[:10] for one in taken]


def score_dates(
    dates: Dates, names: Sequence[str], draw: np.random.Generator, progress: Callable[[int], None] | None = None
) -> list[Hidden]:
    """Hide and fill every date of a block."""
    seen = dates.seen
    rows: list[Hidden] = []
    masks = [~one for one in seen if COVER[0] <= (~one).mean() <= COVER[1]]
    for at, (what, first) in enumerate(itertools.product((PARTS, WHOLE), range(ROUNDS))):
        hidden = np.zeros_like(seen)
        for date in range(first, len(seen), ROUNDS):
            others = [one for one in masks if (one & seen[date]).sum() >= LEAST and (seen[date] & ~one).any()]
            if what == WHOLE:
                hidden[date] = seen[date]
            elif others:
                hidden[date] = seen[date] & others[draw.integers(len(others))]
        rows += _score(dates, names, hidden, what)
        if progress:
            progress(at + 1)
    return rows


def _score(dates: Dates, names: Sequence[str], hidden: Bool, what: str) -> Iterator[Hidden]:
    wanted = [at for at, one in enumerate(hidden) if one.sum() >= LEAST]
    if not wanted:
        return
    left = Dates(dates.values, np.where(hidden, THICK, dates.classes).astype(np.uint8), dates.days, dates.names)
    seen = left.seen
    made = fill(left, wanted)
    for i, at in enumerate(wanted):
        others = seen.copy()
        others[at] = False
        where = hidden[at] & others.any(axis=0)
        known, shown = left.values[:, :, where], others[:, where]
        before, after = sights(shown, at)
        ways = {OURS: made.values[i][:, where], **baselines(known, shown, dates.days, at)}
        if what == PARTS and _two_fit(seen, at):
            ways[TWO] = _from_two(left, at)[:, where]
        length = np.where((before >= 0) & (after >= 0), dates.days[after] - dates.days[before], np.inf)
        for gap, (low, high) in _bins().items():
            here = (length > low) & (length <= high)
            if here.any():
                errors: dict[str, float] = {}
                holes: dict[str, tuple[int, float]] = {}
                for name, way in ways.items():
                    some = here & np.isfinite(way).all(axis=0)
                    if some.any():
                        errors[name], beside = (
                            SERIES.score(one[:, some], known[at][:, some])["mae"] for one in (way, ways[OURS])
                        )
                        if (some != here).any():
                            holes[name] = (int(some.sum()), beside)
                expected = float(made.error[i][where][here].mean())
                yield Hidden(names[at], what, gap, int(here.sum()), errors, expected, holes)


def sights(seen: Bool, at: int) -> tuple[Places, Places]:
    """Give which date saw each pixel (T, n) last before a date, and first after it; -1 where none did."""
    count = len(seen)
    numbers = np.arange(count)[:, None]
    last = np.where(seen & (numbers < at), numbers, -1).max(axis=0)
    first = np.where(seen & (numbers > at), numbers, count).min(axis=0)
    return last, np.where(first == count, -1, first)


def baselines(values: Float32, seen: Bool, days: Float64, at: int) -> dict[str, Float32]:
    """Fill pixels (T, C, n) of a date by what others do: the nearest sight, a line in time, a harmonic, the median."""
    before, after = sights(seen, at)
    to_last = np.where(before < 0, np.inf, days[at] - days[before])
    to_first = np.where(after < 0, np.inf, days[after] - days[at])
    pixels = np.arange(values.shape[2])
    last, first = (values[which, :, pixels].T for which in (before, after))
    both = (before >= 0) & (after >= 0)
    share = np.where(both, to_last / np.where(both, to_last + to_first, 1), np.where(after < 0, 0, 1))
    line = np.where(share == 0, last, np.where(share == 1, first, last + share * (first - last)))
    ordered = np.sort(np.where(seen[:, None], values, np.inf), axis=0)
    count = seen.sum(axis=0)
    low, high = (ordered[which, :, pixels].T for which in ((count - 1) // 2, count // 2))
    made = {
        "copy of the nearest": np.where(to_first < to_last, first, last),
        "linear in time": line,
        "harmonic": harmonic(values, seen, days, days[at]),
        "median": (low + high) / 2,
    }
    return {name: way.astype(np.float32) for name, way in made.items()}


def harmonic(values: Float32, seen: Bool, days: Float64, day: float) -> Float32:
    """Give a mean and a wave of a year, fitted to each pixel's sights, on a day."""
    turn = 2 * np.pi * np.append(days, day) / YEAR
    *basis, asked = np.stack([np.ones_like(turn), np.cos(turn), np.sin(turn)], axis=1)
    square = np.einsum("ti,tj,tn->nij", basis, basis, seen) + np.diag([1e-9, DAMPED, DAMPED])
    common = np.einsum("ti,tcn->nic", basis, np.where(seen[:, None], values, 0))
    made: Float32 = np.einsum("i,nic->cn", asked, np.linalg.solve(square, common)).astype(np.float32)
    return made


def _two_fit(seen: Bool, at: int) -> bool:
    """Say whether two other dates show some of a date's gaps."""
    return sum(bool((one & ~seen[at]).any()) for i, one in enumerate(seen) if i != at) >= 2


def _from_two(dates: Dates, at: int) -> Float32:
    """Fill a date as `attcr restore` does from two others; NaN where neither shows the ground."""
    options = RestoreOptions(sensor="reflectance", references="auto:2", reference_fill="classical", dilate=0, feather=0)
    days = [round(one) for one in dates.days]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AttcrWarning)  # of dates that show too little, one for each
        made = fill_image(list(dates.values), list(dates.classes), days, at, options)
    return np.where(made.quality == FROM_DATE, made.image, np.float32(np.nan))
