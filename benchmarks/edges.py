"""Does the edge of what was filled show? Pairs of SEN12MS-CR, each filled from its own clear date without a network.

python benchmarks/edges.py SEN12MSCR --out FOLDER [NAME...]

SEN12MSCR holds `s2_cloudy` and `s2` with files of the same names. Printed for each pair: the part that was filled, the
mean step between neighbours across its edge beside that among original pixels, and the same ratio of the clear date,
which says how much rougher the ground is at these places.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
import rasterio

from attcr.restore import RestoreOptions, restore_scene
from attcr.restore.walk import FROM_DATE, ORIGINAL


def ratio(values: np.ndarray, filled: np.ndarray, original: np.ndarray) -> float:
    """Give the mean step across the edge beside that among original pixels; NaN where one of them is missing."""
    edge, elsewhere = [], []
    for image, inside, outside in ((values, filled, original), (values.transpose(0, 2, 1), filled.T, original.T)):
        step = np.abs(np.diff(image, axis=1)).mean(axis=0)
        edge.append(step[inside[1:] != inside[:-1]])
        elsewhere.append(step[outside[1:] & outside[:-1]])
    edges, others = np.concatenate(edge), np.concatenate(elsewhere)
    return float(edges.mean() / others.mean()) if edges.size and others.size else float("nan")


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--mask", default="auto")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    args.out.mkdir(parents=True, exist_ok=True)
    for name in args.names or sorted(path.stem for path in (args.root / "s2_cloudy").glob("*.tif")):
        clear = args.root / "s2" / f"{name}.tif"
        options = RestoreOptions(
            references=(str(clear),), reference_mask="none", reference_fill="classical", sensor="s2-l1c", mask=args.mask
        )
        target = args.out / f"{name}.tif"
        made = restore_scene(args.root / "s2_cloudy" / f"{name}.tif", target, "none", options=options, overwrite=True)
        result, truth, quality = (rasterio.open(path).read() / 1.0 for path in (target, clear, made.quality))
        filled, original = quality[0] == FROM_DATE, quality[0] == ORIGINAL
        ratios = f"{ratio(result, filled, original):.2f}, of the clear date {ratio(truth, filled, original):.2f}"
        print(f"{name}: filled {filled.mean():.0%}, step {ratios} ({made.references[0]['method']})", flush=True)


if __name__ == "__main__":
    main()
