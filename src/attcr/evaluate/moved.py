"""The images of the protocol `moved-veil`: real veils on real clear ground of another place, so the truth is exact.

A veil is what thin cloud of a pair adds to its clear date, in the tones of the cloudy one. Thick cloud goes with it as
it is: without its core, a rim is no cloud that anyone has seen. Only veils of SEN12MS-CR are moved: those of CloudSEN12
may not be passed on.
"""

import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attcr.data import Sample
from attcr.data.dates import CLASS_NUMBERS, CLASSES_MASK, NOT_SCORED, ONE_REFLECTANCE, DatedPairs
from attcr.data.pairs import Dataset, make_sample
from attcr.errors import DataError
from attcr.evaluate.by_class import FEWEST, Float64, in_tones_of
from attcr.extras import need

TIMES = 3
"""Places that each veil is moved to."""
SEED = 0
SMOOTH = 1.0
"""Pixels (standard deviation) over which a veil is smoothed: finer are the changes of the ground."""
GAP = 2
"""Pixels around a veil that are not scored."""


class Veil(NamedTuple):
    """Cloud of a pair."""

    added: Float64
    """What thin cloud adds (C, H, W), where it is."""
    seen: Float64
    """The cloudy date (C, H, W)."""
    classes: NDArray[np.uint8]
    """(H, W)."""


class MovedVeils(Dataset[Sample]):
    """Each veil of the pairs on the clear images of TIMES other places; the same each time."""

    def __init__(self, pairs: DatedPairs) -> None:
        self.pairs, self.spec = pairs, pairs.spec
        rng = np.random.default_rng(SEED)
        self._moves: list[tuple[int, int]] = []
        for at, name in enumerate(pairs.names):
            others = [to for to, other in enumerate(pairs.names) if place_of(other) != place_of(name)]
            chosen = rng.permutation(others)[:TIMES]
            if self._veil(at) is not None:
                self._moves += [(at, int(to)) for to in chosen]
        if not self._moves:
            raise DataError("no pair has a veil that can be moved: thin cloud, clear ground around it, another place.")
        self.names = [f"{pairs.names[at]} on {pairs.names[to]}" for at, to in self._moves]

    def __len__(self) -> int:
        return len(self._moves)

    def __getitem__(self, index: int) -> Sample:
        """Veil `index` on its ground."""
        at, to = self._moves[index]
        veil, place = self._veil(at), self.pairs[to]
        assert veil is not None
        clear = np.asarray(place["clear"], np.float32)
        ground = clear.astype(np.float64) / ONE_REFLECTANCE
        height, width = (min(sides) for sides in zip(ground.shape[1:], veil.classes.shape, strict=True))
        classes = np.full(ground.shape[1:], CLASS_NUMBERS["clear"], np.uint8)
        added, seen = np.zeros_like(ground), np.zeros_like(ground)
        classes[:height, :width] = veil.classes[:height, :width]
        added[:, :height, :width], seen[:, :height, :width] = (one[:, :height, :width] for one in veil[:2])
        thin, thick = (classes == CLASS_NUMBERS[name] for name in ("thin", "thick"))
        thin &= added.any(axis=0)
        classes = np.where(thin | thick, classes, CLASS_NUMBERS["clear"]).astype(np.uint8)
        near = need("scipy.ndimage").binary_dilation(thin | thick, iterations=GAP)
        classes[near & ~thin & ~thick] = NOT_SCORED
        classes[np.asarray(place["masks"][CLASSES_MASK]) == NOT_SCORED] = NOT_SCORED
        planes = np.asarray(place["inputs"], np.float32).copy()
        veiled = np.where(thin, (ground + added * (1 - ground)) * ONE_REFLECTANCE, clear)
        planes[self.spec.optical] = np.where(thick, seen * ONE_REFLECTANCE, veiled)
        return make_sample(planes, clear, self.names[index], None, {CLASSES_MASK: classes})

    def _veil(self, at: int) -> Veil | None:
        """Give a pair's cloud; None where it has no thin cloud, or cannot be fitted."""
        sample = self.pairs[at]
        classes = np.asarray(sample["masks"][CLASSES_MASK], np.uint8)
        seen = np.asarray(sample["inputs"], np.float64)[self.spec.optical] / ONE_REFLECTANCE
        clear = np.asarray(sample["clear"], np.float64) / ONE_REFLECTANCE
        thin = classes == CLASS_NUMBERS["thin"]
        truth, wrong = in_tones_of(seen, clear, classes == CLASS_NUMBERS["clear"], self.spec.outputs)
        if wrong or thin.mean() < FEWEST:
            return None
        smooth = need("scipy.ndimage").gaussian_filter(seen - truth, (0, SMOOTH, SMOOTH))
        return Veil(np.maximum(smooth, 0), seen, classes)


def place_of(name: str) -> str:
    """Give the place of a pair: patches of one region (`..._p492`) lie side by side."""
    return re.sub(r"_p\d+$", "", name)
