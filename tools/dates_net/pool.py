"""Make samples: pairs of dates with a gap, the reference harmonised, as files that the training reads.

python -m tools.dates_net.pool --data FOLDER --rice2 FOLDER --out FOLDER --count 3000 --seed 1
"""

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from attcr.evaluate.gaps import COVER, draw_gap
from attcr.references.check import Evidence
from attcr.references.harmonise import Cells, Float32, regression

from .pairs import Pair, Pairs
from .samples import Gap

FEWEST = 500
"""Clear pixels, and pixels to fill, of a sample."""
UNSURE = ("rice2", "hls")
"""Sources whose pairs may be of two places, or of cloud. Of others even ground that only noise tells apart counts:
the network must learn to leave it."""


def is_enough(made: Gap) -> bool:
    """Say whether there is enough to learn from."""
    return bool(min(made.clear.sum(), made.gap.sum()) >= FEWEST)


def is_one_place(made: Gap) -> bool:
    """Say whether the reference tells something of the target."""
    target, fitted = made.target[:, made.clear], made.harmonised[:, made.clear]
    spread = np.abs(target - target.mean(axis=1, keepdims=True)).mean()
    return bool(np.abs(target - fitted).mean() < 0.6 * spread)


def harmonised(target: Float32, reference: Float32, clear: NDArray[np.bool_], gap: NDArray[np.bool_]) -> Float32:
    """Give the whole reference in the target's tones, by local regression on what is clear in both."""
    evidence = Evidence(Cells.over(*clear.shape), len(target))
    evidence.add(0, reference, target, clear, gap)
    rows, cols = (index.ravel() for index in np.indices(clear.shape))
    fitted = regression(evidence.seen())(reference.reshape(len(reference), -1), rows, cols)
    return np.clip(fitted, -0.2, 2).reshape(reference.shape).astype(np.float32)


def sample(pair: Pair, draw: np.random.Generator) -> Gap:
    """Draw a gap into a pair, and harmonise its reference."""
    hidden = draw_gap(pair.valid.shape, draw.uniform(*COVER), draw)
    clear, gap = pair.valid & ~hidden, pair.valid & hidden
    fitted = harmonised(pair.target, pair.reference, clear, gap)
    return Gap(pair.target, fitted, pair.reference, clear, gap, pair.bands)


def main() -> None:
    """Write samples until there are enough."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the files that README.md names")
    parser.add_argument("--rice2", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--held", action="store_true", help="of the places that are not trained on")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(args.seed)
    pairs = Pairs(args.data, args.rice2, draw, held=args.held)
    print(pairs, flush=True)
    for number in range(args.count):
        pair = pairs.next()
        made = sample(pair, draw)
        if is_enough(made) and (pair.source not in UNSURE or is_one_place(made)):
            made.save(args.out / f"{pair.source}-{args.seed}-{number:05d}.npz")


if __name__ == "__main__":
    main()
