"""How many RICE2 test tiles touch a train tile: python -m benchmarks.rice2_neighbours ROOT.

Two tiles touch where the last row or column of one correlates above 0.9 with the first of the other; edges of
plain sea, with less than 2 grey levels of contrast, say nothing and are left out.
"""

import sys
from pathlib import Path

import numpy as np

from attcr.data.pairs import read_image
from attcr.data.splits import load_split


def main(root: Path) -> None:
    names = [str(number) for number in range(736)]
    images = [read_image(next((root / "label").glob(f"{name}.*"))).astype(np.float32) for name in names]
    touching = np.zeros((len(names), len(names)), bool)
    for before, after in (((..., -1), (..., 0)), ((..., -1, slice(None)), (..., 0, slice(None)))):
        last, first = (np.stack([image[edge] for image in images]) for edge in (before, after))
        last, first = (edges - edges.mean(2, keepdims=True) for edges in (last, first))
        textured = (last.std(2).mean(1) > 2)[:, None] & (first.std(2).mean(1) > 2)
        last, first = (edges.reshape(len(names), -1) for edges in (last, first))
        norms = np.linalg.norm(last, axis=1)[:, None] * np.linalg.norm(first, axis=1)
        touching |= (last @ first.T / np.maximum(norms, 1e-6) > 0.9) & textured
    np.fill_diagonal(touching, False)
    touching |= touching.T
    test = {names.index(name) for name in load_split("rice2", "test").names}
    for text, rest in (
        ("published train", set(range(len(names))) - test),
        ("our train", {names.index(name) for name in load_split("rice2", "train").names}),
    ):
        count = sum(touching[tile, sorted(rest)].any() for tile in test)
        print(f"{count} of {len(test)} test tiles touch a tile of {text}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
