"""Score the network beside the classical method on real dates of places that it was not trained on.

    python -m tools.dates_net.evaluate OUT/last.pt --lmr FOLDER --roi FOLDER --cloudsen12 FOLDER --kept FOLDER

The windows and gaps of 20LMR and ROI 146 are those of `attcr evaluate --protocol gap-fill`.
"""

import argparse
import itertools
import json
import pickle
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

from .planes import BANDS, see
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


@dataclass(frozen=True)
class Hidden:
    """Clear ground of a case that was hidden for the self-check."""

    here: NDArray[np.bool_]
    base: Float32
    """The whole reference, harmonised without it."""
    usual: Float32
    """(C, N): what the classical method makes of it."""


@dataclass(frozen=True)
class Ready:
    """A case with all that needs no network."""

    case: Case
    base: Float32
    """The reference, harmonised by regression."""
    classical: Float32
    """As restore fills it."""
    hidden: tuple[Hidden, ...]

    @classmethod
    def of(cls, case: Case) -> "Ready":
        """Fill a case classically, and hide clear cells of it in the shape of its gap."""
        evidence = Evidence(Cells.over(*case.clear.shape), len(case.target))
        evidence.add(0, case.reference, case.target, case.clear, case.gap)
        tuned = tune(evidence)
        valid = case.clear | case.gap
        classical = meet_border(compose([tuned], [case.reference], [valid], valid, 0), case.target, case.clear)
        size, (height, width) = evidence.cells.size, case.clear.shape
        clear = evidence.sums[0] >= 0.5 * np.maximum(evidence.sums[0].max(), 1)
        gap = evidence.gaps > 0.5 * size**2
        parts = []
        for down, across in SHIFTS:
            cells = _moved(gap, clear, down, across)
            if not cells.any() or not (clear & ~cells).any():
                continue
            here = np.kron(cells, np.ones((size, size), bool))[:height, :width] & case.clear
            seen = Seen.of(evidence, cells)
            base = _whole("regression", seen, case)
            usual = base if tuned.checked.method == "regression" else _whole(tuned.checked.method, seen, case)
            usual = meet_border(Filled(usual, valid.astype(np.int16)), case.target, case.clear & ~here)
            parts.append(Hidden(here, base, usual[:, here]))
        return cls(case, _whole("regression", Seen.of(evidence), case), classical, tuple(parts))


def _whole(method: str, seen: Seen, case: Case) -> Float32:
    """Give the whole reference, harmonised."""
    rows, cols = (index.ravel() for index in np.indices(case.clear.shape))
    flat = case.reference.reshape(len(case.reference), -1)
    return np.clip(METHODS[method](seen)(flat, rows, cols), -0.2, 2).reshape(case.reference.shape).astype(np.float32)


def ready(cases: Iterator[Case], kept: Path) -> Iterator[Ready]:
    """Give cases with what needs no network, which is slow and so kept in a folder from one run to the next."""
    kept.mkdir(parents=True, exist_ok=True)
    for number, case in enumerate(cases):
        path = kept / f"{number:03d}.pickle"
        if not path.exists():
            path.write_bytes(pickle.dumps(Ready.of(case)))
        yield pickle.loads(path.read_bytes())


def run(network: ATTCR, planes: Float32, turns: int) -> Float32:
    """Give what the network says of planes; the mean over so many quarter turns of the image."""
    total = np.zeros((2 * BANDS, *planes.shape[1:]), np.float32)
    for turn in range(turns):
        turned = np.ascontiguousarray(np.rot90(planes, turn, (1, 2)))
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
            out = network(torch.from_numpy(turned)[None])[0].float().numpy()
        total += np.rot90(out, -turn, (1, 2))
    return np.asarray(total / turns, np.float32)


def score(network: ATTCR, made: Ready, turns: int) -> dict[str, float | str]:
    """Fill a window by the network, and by what the self-check chooses; give the errors beside the classical ones."""
    case, inside = made.case, made.case.gap
    seen = see(case.target, made.base, case.reference, case.clear, case.gap, case.bands)
    out = run(network, seen.planes, turns)
    better = seen.corrected(out, made.base, case.bands)
    weight, ratio, foretold = check(network, made, turns)
    images = {
        "classical": made.classical,
        "regression": made.base,
        "network": better,
        "bordered": meet_border(Filled(better, (case.clear | inside).astype(np.int16)), case.target, case.clear),
        "chosen": made.classical + weight * (better - made.classical),
    }
    truth = case.target[:, inside]
    found: dict[str, float | str] = {"name": case.name, "weight": weight, "checked": ratio, "foretold": foretold}
    found |= {name: float(np.abs(image[:, inside] - truth).mean()) for name, image in images.items()}
    if {8, 3} <= set(case.bands):
        nir_red = (case.bands.index(8), case.bands.index(3))
        index = _ndvi(truth, nir_red)
        for name, image in images.items():
            found[f"ndvi {name}"] = float(np.abs(_ndvi(image[:, inside], nir_red) - index).mean())
    for name in ("classical", "network"):
        found[f"detail {name}"] = _detail(images[name], inside) / _detail(case.target, inside)
    expected = seen.expected(out, case.bands)[:, inside]
    found["within"] = float((np.abs(better[:, inside] - truth) <= expected).mean())
    return found


def _detail(image: Float32, inside: NDArray[np.bool_]) -> float:
    """Give the mean step between neighbours within a gap."""
    both = inside[:, 1:] & inside[:, :-1]
    return float(np.abs(np.diff(image, axis=2))[:, both].mean())


def check(network: ATTCR, made: Ready, turns: int) -> tuple[float, float, float]:
    """Fill hidden ground; give the weight of the network that is best there, what it gains, and the expected error."""
    case, errors, count = made.case, np.zeros(len(WEIGHTS)), 0
    for part in made.hidden:
        left, filled = case.clear & ~part.here, case.gap | part.here
        seen = see(case.target, part.base, case.reference, left, filled, case.bands)
        better = seen.corrected(run(network, seen.planes, turns), part.base, case.bands)[:, part.here]
        truth, was = case.target[:, part.here], part.usual
        errors += [float(np.abs(was + weight * (better - was) - truth).mean(axis=0).sum()) for weight in WEIGHTS]
        count += int(part.here.sum())
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
    parser.add_argument("--kept", type=Path, required=True, help="folder for what needs no network")
    parser.add_argument("--turns", type=int, default=1, help="quarter turns that are averaged")
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
        sets["ROI146"] = cases_of_series(args.roi, pairs + [pair[::-1] for pair in pairs], ALL)
    if args.cloudsen12:
        sets["CloudSEN12"] = cases_of_cloudsen12(args.cloudsen12)
    report = {}
    for name, cases in sets.items():
        found = [score(network, made, args.turns) for made in ready(cases, args.kept / name)]
        report[name] = {"summary": summary(found), "windows": found}
        print(name, json.dumps(report[name]["summary"], indent=1), flush=True)
    if args.json:
        args.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
