"""The protocol `gap-fill`: real clear dates of one place, gaps drawn into one, filled from another.

Errors are mean absolute ones of reflectance inside the gaps alone, first of each window, then over windows.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attcr.bands.sensors import SENTINEL2_L1C
from attcr.data import DataSet
from attcr.data.dates import ClearDates
from attcr.errors import DataError
from attcr.evaluate.protocols import NOTHING, Given, Metric, Protocol, Scores
from attcr.extras import needed
from attcr.references.check import Evidence
from attcr.references.correct import SHARES, Corrector, Pair, open_corrector, with_network
from attcr.references.fill import Shown, Tuned, compose, meet_border, tune
from attcr.references.harmonise import METHODS, Cells, Float32, window_fit
from attcr.scenes.tiles import grid

WINDOW = 256
"""Pixels along a window."""
COVER = (0.15, 0.6)
"""The smallest and the largest part of a window that a gap covers."""
MOST_BLANK = 0.02
"""Part of a window that may be without data."""
OURS = "attcr"
"""What restore does: the method that is best on the scene itself, borders that meet, and as much of the network as is
best on the scene itself."""
CLASSICAL = "attcr without the network"
NETWORK = "the network alone"
GAP_EDGES = (0.3, 0.45)
DAYS_EDGES = (16, 60)


@dataclass(frozen=True)
class Window:
    """One window with a gap, and what each method made of it."""

    target: str
    reference: str
    days: int | None
    cover: float
    errors: dict[str, float]
    """Method to its mean absolute error in the gap."""
    ndvi: dict[str, float]
    """The same of the vegetation index; empty where the bands are not known."""
    method: str
    """What the self-check chose."""
    expected: float
    """The error that it foretold."""
    share: float
    """How much of the network it took."""


def draw_gap(shape: tuple[int, int], cover: float, draw: np.random.Generator) -> NDArray[np.bool_]:
    """Draw a gap like a field of clouds, wide forms with finer edges, that covers this part of an image."""
    with needed():
        from scipy.ndimage import gaussian_filter
    wide = gaussian_filter(draw.normal(size=shape), shape[0] / 14)
    noise = wide + gaussian_filter(draw.normal(size=shape), shape[0] / 40)
    gap: NDArray[np.bool_] = noise > np.quantile(noise, 1 - cover)
    return gap


@dataclass(frozen=True)
class GapFill(Protocol):
    """Scores filled gaps of clear dates; a row is a window."""

    name: str
    space: str
    metrics: Mapping[str, Metric]
    scored = "clear dates of one place"
    row_key = "errors"

    def score(self, predicted: ArrayLike, reference: ArrayLike, given: Given = NOTHING) -> Scores:
        """Give the mean absolute error of reflectance (C, N), and of the vegetation index where its bands are there."""
        image, truth, bands = np.asarray(predicted), np.asarray(reference), given.bands
        scores = {"mae": float(np.abs(image - truth).mean())}
        nir = next((bands.index(name) for name in ("B08", "B8A") if name in bands), None)
        if nir is not None and "B04" in bands:
            red = bands.index("B04")
            scores["ndvi"] = float(np.abs(_ndvi(image[nir], image[red]) - _ndvi(truth[nir], truth[red])).mean())
        return scores

    def summarise(self, rows: Sequence[Window], data: DataSet, part: str) -> dict[str, Any]:
        """Give the means over windows, by gap size and days too, and how true what the self-check foretold was."""
        methods = list(rows[0].errors)
        known = [window for window in rows if np.isfinite(window.expected)]
        best = [min(window.errors[name] for name in METHODS) for window in rows]
        off = [abs(window.expected / window.errors[OURS] - 1) for window in known]

        def means(some: Sequence[Window]) -> dict[str, float]:
            return {name: float(np.mean([window.errors[name] for window in some])) for name in methods}

        def by(key: Callable[[Window], float], edges: Sequence[float]) -> dict[str, Any]:
            parts: dict[str, Any] = {}
            for low, high in itertools.pairwise((0, *edges, np.inf)):
                some = [window for window in rows if low <= key(window) < high]
                if some:
                    parts[f"{low:g} to {high:g}"] = {"windows": len(some), **means(some)}
            return parts

        vegetated = [window for window in rows if window.ndvi]
        dated = all(window.days is not None for window in rows)
        return {
            "windows": len(rows),
            "mae": means(rows),
            "ndvi": {name: float(np.mean([one.ndvi[name] for one in vegetated])) for name in methods if vegetated},
            "by part covered": by(lambda window: window.cover, GAP_EDGES),
            "by days apart": by(lambda window: abs(window.days or 0), DAYS_EDGES) if dated else {},
            "self-check": {
                "expected": float(np.mean([window.expected for window in known])) if known else None,
                "true": float(np.mean([window.errors[OURS] for window in known])) if known else None,
                "mean difference of a window": float(np.mean(off)) if off else None,
                "largest ratio to the best method": max(
                    window.errors[OURS] / least for window, least in zip(rows, best, strict=True)
                ),
                "chosen": {name: sum(window.method == name for window in rows) for name in METHODS},
            },
            "network": _about_network(rows),
        }

    def table(self, result: Mapping[str, Any]) -> list[str]:
        """Give a table of the methods, the best one by kind of window, and what the self-check and network did."""
        ndvi = result["ndvi"]
        lines = [f"{self.space}.", "", "| method | MAE | NDVI |", "|---|---|---|"]
        for name, error in sorted(result["mae"].items(), key=lambda pair: pair[1]):
            shown = f"**{name}**" if name == OURS else name
            lines.append(f"| {shown} | {error:.4f} | {f'{ndvi[name]:.4f}' if ndvi else '-'} |")
        for title in ("by part covered", "by days apart"):
            for label, part in result[title].items():
                best = min(METHODS, key=lambda name: part[name])
                lines += [
                    "",
                    f"{title}, {label} ({part['windows']} windows): {OURS} {part[OURS]:.4f}, {best} {part[best]:.4f}",
                ]
        check = result["self-check"]
        if check["expected"] is not None:
            lines += [
                "",
                f"The self-check expected {check['expected']:.4f}, and {check['true']:.4f} it was; in a window the two "
                f"differ by {check['mean difference of a window']:.0%} on average. {OURS} has at most "
                f"{check['largest ratio to the best method']:.3f} of the error of the best single method of a window.",
            ]
        if network := result["network"]:
            lines += [
                "",
                f"With the network the error is {network['share of the error without']:.3f} of that without, and in "
                f"the worst window {network['worst window']:.3f} (the network alone: "
                f"{network['worst window of the network alone']:.3f}).",
            ]
        return lines

    def rows_file(self, rows: Sequence[Window]) -> tuple[str, str]:
        """Give the windows as they are."""
        return "windows.json", json.dumps([vars(window) for window in rows], indent=1) + "\n"

    def lines(self, result: Mapping[str, Any]) -> Iterator[str]:
        """Give the error beside those of the two simplest methods."""
        mae = result["mae"]
        yield f"{self.name}: MAE {OURS} {mae[OURS]:.4f}, one line a band {mae['line']:.4f}, copied {mae['copied']:.4f}"


GAP_FILL = GapFill(
    "gap-fill",
    "Mean absolute error inside the gaps, in reflectance; the mean over windows",
    {"mae": Metric("MAE", "", False, 4), "ndvi": Metric("NDVI", "", False, 4)},
)


def evaluate_gaps(
    dates: ClearDates,
    data: DataSet,
    out: Path,
    *,
    weights: str | None = None,
    dtype: str = "float32",
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Score every method of filling on pairs of clear dates and write a report folder.

    `weights` are a network that corrects references, by default the package's where the bands have names; "none" is
    none.
    """
    draw = np.random.default_rng(seed)
    network = None if weights == "none" else open_corrector(SENTINEL2_L1C, dates.bands, weights=weights, dtype=dtype)
    windows: list[Window] = []
    for at in range(len(dates)):
        if progress:
            progress(at, len(dates))
        windows += _score_pair(dates, at, draw, network)
    if not windows:
        raise DataError(f"No pair of dates of {dates.root} has a window of {WINDOW} pixels without holes.")
    report = GAP_FILL.summarise(windows, data, "test")
    title = f"# {GAP_FILL.name} on {dates.root.name}, {len(windows)} windows of {WINDOW} px"
    out.mkdir(parents=True, exist_ok=True)
    name, text = GAP_FILL.rows_file(windows)
    (out / name).write_text(text)
    (out / "report.json").write_text(json.dumps(report, indent=1) + "\n")
    (out / "report.md").write_text("\n".join([title, "", *GAP_FILL.table(report), ""]))
    return report


def _score_pair(dates: ClearDates, at: int, draw: np.random.Generator, network: Corrector | None) -> Iterator[Window]:
    sample = dates[at]
    meant, seen = (np.asarray(sample[side], np.float32) for side in ("clear", "inputs"))
    target, reference = dates.pairs[at]
    _, height, width = meant.shape
    for row in range(0, height - WINDOW + 1, WINDOW):
        for col in range(0, width - WINDOW + 1, WINDOW):
            here = (slice(None), slice(row, row + WINDOW), slice(col, col + WINDOW))
            whole: list[NDArray[np.bool_]] = [np.asarray((one[here] > 0).all(axis=0)) for one in (meant, seen)]
            if any((~one).mean() > MOST_BLANK for one in whole):
                continue
            gap = draw_gap((WINDOW, WINDOW), draw.uniform(*COVER), draw)
            scored = score_window(meant[here], seen[here], gap, np.logical_and(*whole), dates.bands, network)
            yield replace(scored, target=target, reference=reference, days=dates.days_apart(at))


def score_window(
    target: Float32,
    reference: Float32,
    gap: NDArray[np.bool_],
    valid: NDArray[np.bool_],
    bands: Sequence[str] = (),
    network: Corrector | None = None,
) -> Window:
    """Fill the gap of one window (C, H, W) of these bands by every method and score it against the truth."""
    inside, clear = gap & valid, ~gap & valid
    evidence = Evidence(Cells.over(*gap.shape), len(target))
    evidence.add(0, reference, target, clear, inside)
    rows, cols = np.nonzero(inside)
    here, seen = reference[:, inside], evidence.seen()
    filled = {name: method(seen)(here, rows, cols) for name, method in METHODS.items()}
    filled["window of 65 px"] = window_fit(reference, target, clear)[:, inside]
    filled["mean of the clear part"] = np.broadcast_to(target[:, clear].mean(axis=1)[:, None], here.shape)
    tuned = tune(evidence)
    composed = compose([tuned], [Shown(reference, valid)], valid, 0)
    filled[OURS] = meet_border(composed, target, clear)[:, inside]
    if network:
        filled[CLASSICAL] = filled[OURS]
        tuned, filled[NETWORK] = _corrected(tuned, evidence, Pair(0, 0, target, reference, clear, inside), network)
        share = tuned.corrected.share if tuned.corrected else 0
        filled[OURS] = filled[CLASSICAL] + share * (filled[NETWORK] - filled[CLASSICAL])
    scores = {name: GAP_FILL.score(one, target[:, inside], Given(bands)) for name, one in filled.items()}
    errors = {name: each["mae"] for name, each in scores.items()}
    ndvi = {name: each["ndvi"] for name, each in scores.items() if "ndvi" in each}
    share = tuned.corrected.share if tuned.corrected else 0.0
    return Window("", "", None, float(inside.mean()), errors, ndvi, tuned.checked.method, tuned.error, share)


def _corrected(tuned: Tuned, evidence: Evidence, pair: Pair, network: Corrector) -> tuple[Tuned, Float32]:
    """Give a reference with what the self-check says of the network, and the gap as the network fills it."""
    whole = grid(*pair.gap.shape, tile=max(pair.gap.shape), overlap=0)
    base = pair.harmonised(METHODS["regression"](evidence.seen()))
    (better,) = network.correct([pair], [base])
    base[network.corrected] = better
    return with_network(tuned, evidence, network, whole, lambda top, bottom: pair), base[:, pair.gap]


def _ndvi(nir: Float32, red: Float32) -> Float32:
    nir, red = nir.clip(0.001), red.clip(0.001)
    index: Float32 = (nir - red) / (nir + red)
    return index


def _about_network(windows: Sequence[Window]) -> dict[str, Any]:
    """Give how the network, as the self-check takes it, stands beside the same without it; nothing without one."""
    if CLASSICAL not in windows[0].errors:
        return {}
    ratios = {name: [one.errors[name] / one.errors[CLASSICAL] for one in windows] for name in (OURS, NETWORK)}
    without = np.mean([one.errors[CLASSICAL] for one in windows])
    return {
        "share of the error without": float(np.mean([one.errors[OURS] for one in windows]) / without),
        "worst window": max(ratios[OURS]),
        "worst window of the network alone": max(ratios[NETWORK]),
        "taken": {str(share): sum(one.share == share for one in windows) for share in SHARES},
    }
