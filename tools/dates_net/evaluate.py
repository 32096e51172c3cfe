"""Score the network beside the classical method on real dates of places that it was not trained on.

    python -m tools.dates_net.evaluate OUT/last.pt --lmr FOLDER --roi FOLDER --cloudsen12 FOLDER --json figures.json

The windows and gaps of 20LMR and ROI 146 are those of `attcr evaluate --protocol gap-fill`.
"""

import argparse
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from attcr import ATTCR
from attcr.dates.cells import Cells, Float32
from attcr.dates.check import SHIFTS, _moved
from attcr.dates.evidence import Evidence
from attcr.dates.fill import Filled, compose, meet_border, tune
from attcr.dates.harmonise import METHODS, Seen
from attcr.gaps import COVER, MOST_BLANK, WINDOW, _ndvi, _read, draw_gap
from attcr.sensors import S2_L1C_BANDS

from .planes import see
from .train import CONFIG

TEN = (1, 2, 3, 4, 5, 6, 7, 8, 11, 12)
ALL = tuple(range(len(S2_L1C_BANDS)))
_DAYS = ("02-10", "04-26", "05-31", "06-10", "06-25", "07-20", "08-09", "09-03", "09-28")
ROI_DATES = tuple(f"2018-{day}" for day in _DAYS)
"""The clear ones."""
WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""How much of the network's correction the self-check may choose."""
SURE = 0.98
"""What the error of the hidden pixels must be at most, beside the classical method's, for the network to be used."""


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
        meant, seen = (_read(root / f"{date}.tif")[0] for date in (target, reference))
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


def run(network: ATTCR, planes: Float32) -> Float32:
    """Give what the network says of planes."""
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        out: Float32 = network(torch.from_numpy(planes)[None])[0].float().numpy()
    return out


def whole(method: str, seen: Seen, case: Case) -> Float32:
    """Give the whole reference, harmonised."""
    rows, cols = (index.ravel() for index in np.indices(case.clear.shape))
    flat = case.reference.reshape(len(case.reference), -1)
    return np.clip(METHODS[method](seen)(flat, rows, cols), -0.2, 2).reshape(case.reference.shape).astype(np.float32)


def score(network: ATTCR, case: Case) -> dict[str, float | str]:
    """Fill a window classically, by the network, and by what the self-check chooses; give the errors."""
    evidence = Evidence(Cells.over(*case.clear.shape), len(case.target))
    evidence.add(0, case.reference, case.target, case.clear, case.gap)
    tuned = tune(evidence)
    valid = case.clear | case.gap
    classical = meet_border(compose([tuned], [case.reference], [valid], valid, 0), case.target, case.clear)
    base = whole("regression", Seen.of(evidence), case)
    seen = see(case.target, base, case.reference, case.clear, case.gap, case.bands)
    out = run(network, seen.planes)
    better = seen.corrected(out, base, case.bands)
    bordered = meet_border(Filled(better, valid.astype(np.int16)), case.target, case.clear)
    weight, ratio, foretold = check(network, case, evidence, tuned.checked.method)
    chosen = classical + weight * (better - classical) if weight else classical
    inside = case.gap
    expected = seen.expected(out, case.bands)[:, inside]
    images = {"classical": classical, "network": better, "bordered": bordered, "chosen": chosen}
    truth = case.target[:, inside]
    found: dict[str, float | str] = {"name": case.name, "weight": weight, "checked": ratio, "foretold": foretold}
    found |= {name: float(np.abs(image[:, inside] - truth).mean()) for name, image in images.items()}
    nir_red = (case.bands.index(8), case.bands.index(3)) if {8, 3} <= set(case.bands) else None
    if nir_red:
        index = _ndvi(truth, nir_red)
        found |= {
            f"ndvi {name}": float(np.abs(_ndvi(i[:, inside], nir_red) - index).mean()) for name, i in images.items()
        }
    found["within"] = float((np.abs(better[:, inside] - truth) <= expected).mean())
    return found


def check(network: ATTCR, case: Case, evidence: Evidence, method: str) -> tuple[float, float, float]:
    """Hide clear cells, fill them both ways; give the network's best weight, what it gains, and the expected error."""
    size = evidence.cells.size
    clear = evidence.sums[0] >= 0.5 * np.maximum(evidence.sums[0].max(), 1)
    gap = evidence.gaps > 0.5 * size**2
    errors, count = np.zeros(len(WEIGHTS)), 0
    for down, across in SHIFTS:
        hidden = _moved(gap, clear, down, across)
        if not hidden.any() or not (clear & ~hidden).any():
            continue
        height, width = case.clear.shape
        here = np.kron(hidden, np.ones((size, size), bool))[:height, :width] & case.clear
        seen = Seen.of(evidence, hidden)
        left = case.clear & ~here
        valid = (case.clear | case.gap).astype(np.int16)
        base = whole("regression", seen, case)
        usual = base if method == "regression" else whole(method, seen, case)
        usual = meet_border(Filled(usual, valid), case.target, left)
        looked = see(case.target, base, case.reference, left, case.gap | here, case.bands)
        better = looked.corrected(run(network, looked.planes), base, case.bands)[:, here]
        truth, was = case.target[:, here], usual[:, here]
        errors += [float(np.abs(was + weight * (better - was) - truth).mean(axis=0).sum()) for weight in WEIGHTS]
        count += int(here.sum())
    if not count:
        return 0.0, 1.0, float("nan")
    best = int(errors.argmin())
    if errors[best] > SURE * errors[0]:
        best = 0
    return WEIGHTS[best], float(errors[best] / errors[0]), float(errors[best] / count)


def summary(found: list[dict[str, float | str]]) -> dict[str, float]:
    """Give means over windows, and the worst ratios."""

    def mean(name: str) -> float:
        return round(float(np.mean([float(one[name]) for one in found if name in one])), 5)

    names = [name for name in found[0] if name != "name"]
    ratios = [float(one["chosen"]) / float(one["classical"]) for one in found]
    alone = [float(one["network"]) / float(one["classical"]) for one in found]
    return {
        "windows": len(found),
        **{name: mean(name) for name in names},
        "network / classical": round(mean("network") / mean("classical"), 4),
        "bordered / classical": round(mean("bordered") / mean("classical"), 4),
        "chosen / classical": round(mean("chosen") / mean("classical"), 4),
        "worst chosen": round(max(ratios), 4),
        "worst network": round(max(alone), 4),
    }


def main() -> None:
    """Print and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("state", type=Path)
    parser.add_argument("--lmr", type=Path)
    parser.add_argument("--roi", type=Path)
    parser.add_argument("--cloudsen12", type=Path)
    parser.add_argument("--every", type=int, default=1, help="take every n-th window")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    network = ATTCR(CONFIG)
    network.load_state_dict(torch.load(args.state, weights_only=True)["ema"])
    network.eval()
    sets: dict[str, Iterator[Case]] = {}
    if args.lmr:
        one, two = "2022-08-17", "2022-09-18"
        sets["20LMR"] = cases_of_series(args.lmr, [(one, two), (two, one)], TEN)
    if args.roi:
        pairs = list(itertools.pairwise(ROI_DATES))
        sets["ROI 146"] = cases_of_series(args.roi, pairs + [pair[::-1] for pair in pairs], ALL)
    if args.cloudsen12:
        sets["CloudSEN12"] = cases_of_cloudsen12(args.cloudsen12)
    report = {}
    for name, cases in sets.items():
        found = [score(network, case) for case in itertools.islice(cases, 0, None, args.every)]
        report[name] = {"summary": summary(found), "windows": found}
        print(name, json.dumps(report[name]["summary"], indent=1), flush=True)
    if args.json:
        args.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
