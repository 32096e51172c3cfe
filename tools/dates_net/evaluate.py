"""Score the network beside the classical method on real dates of places that it was not trained on.

    python -m tools.dates_net.evaluate OUT/s2-dates.safetensors --lmr FOLDER --roi FOLDER --cloudsen12 FOLDER

The windows and gaps of 20LMR and ROI 146 are those of `attcr evaluate --protocol gap-fill`.
"""

import argparse
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attcr.bands.sensors import S2_L1C_BANDS, SENTINEL2_L1C
from attcr.data.dates import read_date
from attcr.evaluate.gaps import (
    CLASSICAL,
    COVER,
    MOST_BLANK,
    NETWORK,
    OURS,
    WINDOW,
    Window,
    draw_gap,
    score_window,
)
from attcr.files import sha256
from attcr.references.check import Evidence
from attcr.references.correct import Corrector, Pair, open_corrector, see
from attcr.references.harmonise import Cells, Float32, regression

TEN = (1, 2, 3, 4, 5, 6, 7, 8, 11, 12)
ALL = tuple(range(len(S2_L1C_BANDS)))
_DAYS = ("02-10", "04-26", "05-31", "06-10", "06-25", "07-20", "08-09", "09-03", "09-28")
ROI_DATES = tuple(f"2018-{day}" for day in _DAYS)
"""The clear ones."""


@dataclass(frozen=True)
class Case:
    """A window with a gap."""

    name: str
    target: Float32
    reference: Float32
    clear: NDArray[np.bool_]
    gap: NDArray[np.bool_]
    bands: tuple[int, ...]


def cases_of_series(root: Path, pairs: list[tuple[str, str]], bands: tuple[int, ...], seed: int = 0) -> Iterator[Case]:
    """Give the windows of the protocol gap-fill."""
    draw = np.random.default_rng(seed)
    for target, reference in pairs:
        meant, seen = (read_date(root / f"{date}.tif")[0] for date in (target, reference))
        for row in range(0, meant.shape[1] - WINDOW + 1, WINDOW):
            for col in range(0, meant.shape[2] - WINDOW + 1, WINDOW):
                here = (slice(None), slice(row, row + WINDOW), slice(col, col + WINDOW))
                whole = [np.asarray((one[here] > 0).all(axis=0)) for one in (meant, seen)]
                if any((~one).mean() > MOST_BLANK for one in whole):
                    continue
                gap = draw_gap((WINDOW, WINDOW), draw.uniform(*COVER), draw)
                valid = np.logical_and(*whole)
                name = f"{target} {reference} {row} {col}"
                yield Case(name, meant[here], seen[here], valid & ~gap, valid & gap, bands)


def cases_of_cloudsen12(root: Path, seed: int = 0) -> Iterator[Case]:
    """Give the clear date of each place, filled from what is clear of its other dates."""
    import rasterio

    draw = np.random.default_rng(seed)

    def read(stem: str) -> tuple[Float32, NDArray[np.bool_]]:
        got: dict[str, Float32] = {}
        for suffix, names, times in (
            ("10m", "B02 B03 B04 B08", 1), ("20m", "B05 B06 B07 B8A B11 B12", 2), ("60m", "B01 B09 B10", 6),
        ):  # fmt: skip
            with rasterio.open(root / f"{stem}_{suffix}.jp2") as source:
                got |= dict(zip(names.split(), source.read().repeat(times, 1).repeat(times, 2), strict=True))
        with rasterio.open(root / f"{stem}_mask.tif") as source:
            mask = source.read(1) == 0
        return np.stack([got[name] for name in S2_L1C_BANDS]).astype(np.float32) / 1e4, mask

    for path in sorted(root.glob("*_clear_mask.tif")):
        target, sound = read(path.name.removesuffix("_mask.tif"))
        for other in sorted(root.glob(f"{path.name[:5]}_*_cloudy_mask.tif")):
            reference, clear = read(other.name.removesuffix("_mask.tif"))
            gap = draw_gap(clear.shape, draw.uniform(*COVER), draw)
            valid = sound & clear & ((target > 0) & (reference > 0)).all(axis=0)
            if min((valid & gap).mean(), (valid & ~gap).mean()) > 0.05:
                yield Case(other.name[:10], target, reference, valid & ~gap, valid & gap, ALL)


def score(network: Corrector, case: Case) -> tuple[Window, dict[str, float]]:
    """Fill a window by every method and score it; give the network's detail and how true its expected error is too."""
    valid = case.clear | case.gap
    names = [name if name in ("B04", "B8A") else "" for name in (S2_L1C_BANDS[at] for at in case.bands)]  # of the index
    window = score_window(case.target, case.reference, case.gap, valid, names, network)
    evidence = Evidence(Cells.over(*case.clear.shape), len(case.target))
    evidence.add(0, case.reference, case.target, case.clear, case.gap)
    base = Pair(0, 0, case.target, case.reference, case.clear, case.gap).harmonised(regression(evidence.seen()))
    view = see(case.target, base, case.reference, case.clear, case.gap, case.bands)
    out = network.network(view.planes[None])[0]
    better = view.corrected(out, base, case.bands)
    within = np.abs(better - case.target) <= view.expected(out, case.bands)
    truth = _detail(case.target, case.gap)
    images = {"regression": base, "network": better}
    about = {f"detail {name}": _detail(image, case.gap) / truth for name, image in images.items()}
    return window, {**about, "within": float(within[:, case.gap].mean())}


def _detail(image: Float32, inside: NDArray[np.bool_]) -> float:
    """Give the mean step between neighbours within a gap."""
    both = inside[:, 1:] & inside[:, :-1]
    return float(np.abs(np.diff(image, axis=2))[:, both].mean())


def summary(found: list[tuple[Window, dict[str, float]]]) -> dict[str, float]:
    """Give means over windows, and the worst ratios."""
    windows = [window for window, _ in found]

    def mean(values: list[float]) -> float:
        return round(float(np.mean(values)), 5)

    kinds = (CLASSICAL, NETWORK, OURS)
    told = {name: mean([one.errors[name] for one in windows]) for name in kinds}
    if all(one.ndvi for one in windows):
        told |= {f"NDVI {name}": mean([one.ndvi[name] for one in windows]) for name in kinds}
    for name in (NETWORK, OURS):
        ratios = [one.errors[name] / one.errors[CLASSICAL] for one in windows]
        told |= {f"{name} / without": round(told[name] / told[CLASSICAL], 4), f"worst {name}": round(max(ratios), 4)}
    told["foretold, off by"] = mean([abs(one.expected / one.errors[OURS] - 1) for one in windows])
    told |= {name: mean([about[name] for _, about in found]) for name in found[0][1]}
    return {"windows": len(found), "share": mean([one.share for one in windows]), **told}


def main() -> None:
    """Print and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights")
    parser.add_argument("--lmr", type=Path)
    parser.add_argument("--roi", type=Path)
    parser.add_argument("--cloudsen12", type=Path)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--scores", type=Path, help="file for tools/publish.py")
    args = parser.parse_args()
    sets: dict[str, Iterator[Case]] = {}
    if args.lmr:
        one, two = "2022-08-17", "2022-09-18"
        sets["20LMR"] = cases_of_series(args.lmr, [(one, two), (two, one)], TEN)
    if args.roi:
        pairs = list(itertools.pairwise(ROI_DATES))
        sets["ROI146"] = cases_of_series(args.roi, pairs + [pair[::-1] for pair in pairs], ALL)
    if args.cloudsen12:
        sets["CloudSEN12"] = cases_of_cloudsen12(args.cloudsen12)
    report: dict[str, dict[str, Any]] = {}
    for name, cases in sets.items():
        found = []
        for case in cases:
            names = [S2_L1C_BANDS[band] for band in case.bands]
            network = open_corrector(SENTINEL2_L1C, names, weights=args.weights, dtype=args.dtype)
            assert network is not None, "it knows all these bands"
            found.append(score(network, case))
        report[name] = {"summary": summary(found), "windows": [{**vars(one), **about} for one, about in found]}
        print(name, json.dumps(report[name]["summary"], indent=1), flush=True)
    if args.json:
        args.json.write_text(json.dumps(report, indent=1) + "\n")
    if args.scores:
        told = {
            "sha256": sha256(args.weights),
            "scores": [_score(name, one["windows"]) for name, one in report.items()],
        }
        args.scores.write_text(json.dumps(told, indent=1) + "\n")


def _score(name: str, windows: list[dict[str, Any]]) -> dict[str, Any]:
    """Give a line of the table of published weights; it compares with the other date, copied as it is."""
    ours, copied = (float(np.mean([one["errors"][kind] for one in windows])) for kind in (OURS, "copied"))
    told = {"benchmark": f"{name}, {len(windows)} windows", "protocol": "gap-fill", "metric": "MAE"}
    scores = {"value": round(ours, 5), "low": None, "high": None, "input_copied": round(copied, 5)}
    return {**told, **scores, "copied": "other date"}


if __name__ == "__main__":
    main()
