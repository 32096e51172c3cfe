"""The protocol `gap-fill`: real clear dates of one place, gaps drawn into one, filled from another.

Errors are mean absolute ones of reflectance inside the gaps alone, first of each window, then over windows.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attcr.bands.sensors import SENTINEL2_L1C
from attcr.errors import DataError, DataNotFoundError
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
COVER_EDGES = (0.3, 0.45)
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


def evaluate_gaps(
    root: Path,
    out: Path,
    *,
    pairs: Sequence[tuple[str, str]] = (),
    weights: str | None = None,
    dtype: str = "float32",
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Score every method on a folder of clear dates (one raster a date, on one grid) and write a report folder.

    `pairs` are file names without their ending, target and reference; by default each date with the next one, both
    ways. Numbers above 10 are digital numbers of 1/10000 reflectance; 0 is no data. `weights` are a network that
    corrects references, by default the package's where the bands have names; "none" is none.
    """
    files = {path.stem: path for path in sorted(root.glob("*.tif"))}
    if len(files) < 2:
        raise DataNotFoundError(f"{root} holds {len(files)} dates: expected at least two .tif, one for each date.")
    chosen = list(pairs) or [pair for two in itertools.pairwise(files) for pair in (two, two[::-1])]
    missing = {name for pair in chosen for name in pair} - set(files)
    if missing:
        raise DataNotFoundError(f"{root} holds no {', '.join(sorted(missing))}.tif: name dates that are there.")
    draw = np.random.default_rng(seed)
    names = read_date(files[chosen[0][0]])[1]
    how = {"weights": weights, "dtype": dtype}
    network = None if weights == "none" else open_corrector(SENTINEL2_L1C, names, **how)  # type: ignore[arg-type]
    windows: list[Window] = []
    for done, (target, reference) in enumerate(chosen):
        if progress:
            progress(done, len(chosen))
        windows += _score_pair(files[target], files[reference], draw, network)
    if not windows:
        raise DataError(f"No pair of dates of {root} has a window of {WINDOW} pixels without holes.")
    report = summarise(windows)
    out.mkdir(parents=True, exist_ok=True)
    (out / "windows.json").write_text(json.dumps([vars(window) for window in windows], indent=1) + "\n")
    (out / "report.json").write_text(json.dumps(report, indent=1) + "\n")
    (out / "report.md").write_text(_markdown(root, report))
    return report


def _score_pair(
    target: Path, reference: Path, draw: np.random.Generator, network: Corrector | None
) -> Iterator[Window]:
    (meant, names), (seen, _) = read_date(target), read_date(reference)
    if meant.shape != seen.shape:
        raise DataError(f"{target} is {meant.shape} and {reference} {seen.shape}: bring the dates to one grid.")
    told = [_date(path) for path in (target, reference)]
    days = (told[1] - told[0]).days if told[0] and told[1] else None
    nir = next((names.index(name) for name in ("B08", "B8A") if name in names), None)
    red = names.index("B04") if "B04" in names else None
    pair = None if nir is None or red is None else (nir, red)
    _, height, width = meant.shape
    for row in range(0, height - WINDOW + 1, WINDOW):
        for col in range(0, width - WINDOW + 1, WINDOW):
            here = (slice(None), slice(row, row + WINDOW), slice(col, col + WINDOW))
            whole: list[NDArray[np.bool_]] = [np.asarray((one[here] > 0).all(axis=0)) for one in (meant, seen)]
            if any((~one).mean() > MOST_BLANK for one in whole):
                continue
            gap = draw_gap((WINDOW, WINDOW), draw.uniform(*COVER), draw)
            scored = score_window(meant[here], seen[here], gap, np.logical_and(*whole), pair, network)
            yield replace(scored, target=target.stem, reference=reference.stem, days=days)


def score_window(
    target: Float32,
    reference: Float32,
    gap: NDArray[np.bool_],
    valid: NDArray[np.bool_],
    nir_red: tuple[int, int] | None = None,
    network: Corrector | None = None,
) -> Window:
    """Fill the gap of one window (C, H, W) by every method and score it against what is there in truth."""
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
    truth = target[:, inside]
    ndvi = {}
    if nir_red:
        ndvi = {name: float(np.abs(_ndvi(one, nir_red) - _ndvi(truth, nir_red)).mean()) for name, one in filled.items()}
    errors = {name: float(np.abs(one - truth).mean()) for name, one in filled.items()}
    told = (tuned.checked.method, tuned.error, tuned.corrected.share if tuned.corrected else 0.0)
    return Window("", "", None, float(inside.mean()), errors, ndvi, *told)


def _corrected(tuned: Tuned, evidence: Evidence, pair: Pair, network: Corrector) -> tuple[Tuned, Float32]:
    """Give a reference with what the self-check says of the network, and the gap as the network fills it."""
    whole = grid(*pair.gap.shape, tile=max(pair.gap.shape), overlap=0)
    base = pair.harmonised(METHODS["regression"](evidence.seen()))
    (better,) = network.correct([pair], [base])
    base[network.corrected] = better
    return with_network(tuned, evidence, network, whole, lambda top, bottom: pair), base[:, pair.gap]


def _ndvi(values: Float32, nir_red: tuple[int, int]) -> Float32:
    nir, red = values[nir_red[0]].clip(0.001), values[nir_red[1]].clip(0.001)
    index: Float32 = (nir - red) / (nir + red)
    return index


def summarise(windows: Sequence[Window]) -> dict[str, Any]:
    """Give the means over windows, by gap size and days too, and how true what the self-check foretold was."""
    methods = list(windows[0].errors)
    known = [window for window in windows if np.isfinite(window.expected)]
    best = [min(window.errors[name] for name in METHODS) for window in windows]
    off = [abs(window.expected / window.errors[OURS] - 1) for window in known]

    def means(some: Sequence[Window]) -> dict[str, float]:
        return {name: float(np.mean([window.errors[name] for window in some])) for name in methods}

    def by(key: Callable[[Window], float], edges: Sequence[float]) -> dict[str, Any]:
        parts: dict[str, Any] = {}
        for low, high in itertools.pairwise((0, *edges, np.inf)):
            some = [window for window in windows if low <= key(window) < high]
            if some:
                parts[f"{low:g} to {high:g}"] = {"windows": len(some), **means(some)}
        return parts

    vegetated = [window for window in windows if window.ndvi]
    dated = all(window.days is not None for window in windows)
    return {
        "windows": len(windows),
        "mae": means(windows),
        "ndvi": {name: float(np.mean([one.ndvi[name] for one in vegetated])) for name in methods} if vegetated else {},
        "by part covered": by(lambda window: window.cover, COVER_EDGES),
        "by days apart": by(lambda window: abs(window.days or 0), DAYS_EDGES) if dated else {},
        "self-check": {
            "expected": float(np.mean([window.expected for window in known])) if known else None,
            "true": float(np.mean([window.errors[OURS] for window in known])) if known else None,
            "mean difference of a window": float(np.mean(off)) if off else None,
            "largest ratio to the best method": max(
                window.errors[OURS] / least for window, least in zip(windows, best, strict=True)
            ),
            "chosen": {name: sum(window.method == name for window in windows) for name in METHODS},
        },
        "network": _about_network(windows),
    }


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


def _markdown(root: Path, report: dict[str, Any]) -> str:
    ndvi = report["ndvi"]
    lines = [
        f"# gap-fill on {root.name}, {report['windows']} windows of {WINDOW} px",
        "",
        "Mean absolute error inside the gaps, in reflectance; the mean over windows.",
        "",
        "| method | MAE | NDVI |",
        "|---|---|---|",
    ]
    for name, error in sorted(report["mae"].items(), key=lambda pair: pair[1]):
        shown = f"**{name}**" if name == OURS else name
        lines.append(f"| {shown} | {error:.4f} | {f'{ndvi[name]:.4f}' if ndvi else '-'} |")
    for title in ("by part covered", "by days apart"):
        for label, part in report[title].items():
            best = min(METHODS, key=lambda name: part[name])
            lines += [
                "",
                f"{title}, {label} ({part['windows']} windows): {OURS} {part[OURS]:.4f}, {best} {part[best]:.4f}",
            ]
    check = report["self-check"]
    if check["expected"] is not None:
        lines += [
            "",
            f"The self-check expected {check['expected']:.4f}, and {check['true']:.4f} it was; in a window the two "
            f"differ by {check['mean difference of a window']:.0%} on average. {OURS} has at most "
            f"{check['largest ratio to the best method']:.3f} of the error of the best single method of a window.",
        ]
    if network := report["network"]:
        lines += [
            "",
            f"With the network the error is {network['share of the error without']:.3f} of that without, and in the "
            f"worst window {network['worst window']:.3f} (the network alone: "
            f"{network['worst window of the network alone']:.3f}).",
        ]
    return "\n".join([*lines, ""])


def read_date(path: Path) -> tuple[Float32, list[str]]:
    """Give a raster as reflectance (C, H, W), and the names of its bands."""
    with needed():
        import rasterio
    with rasterio.open(path) as source:
        values = source.read()
        names = [name or "" for name in source.descriptions]
    return (values / (10_000 if values.max() > 10 else 1)).astype(np.float32), names


def _date(path: Path) -> date | None:
    found = re.search(r"(\d{4})-?(\d\d)-?(\d\d)", path.stem)
    return date(*map(int, found.groups())) if found else None
