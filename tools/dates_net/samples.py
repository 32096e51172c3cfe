"""Pairs of dates with a gap: what a network that corrects harmonised references learns from.

ROOT holds two folders of files, pool and held, which pool.py makes.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from attcr.bands.spec import OTHER_DATES
from attcr.data import DataSet
from attcr.data.pairs import Sample, Transform, make_sample
from attcr.data.sets import ERROR_LEFT
from attcr.data.transforms import crop_sample, turn_sample
from attcr.errors import DataNotFoundError
from attcr.references.correct import BANDS, see
from attcr.references.harmonise import Float32

HOW_TO_OBTAIN = "ROOT holds the folders pool and held, which tools.dates_net.pool makes"
MOST = 6.0
"""Mean errors beyond which one counts no more: what nobody can know."""


@dataclass(frozen=True)
class Gap:
    """A pair of dates with a gap in the target; images are (C, H, W) reflectance."""

    target: Float32
    harmonised: Float32
    reference: Float32
    clear: NDArray[np.bool_]
    """Where both dates are seen."""
    gap: NDArray[np.bool_]
    """Where only the reference is."""
    bands: tuple[int, ...]
    """Their places among the 13."""

    def save(self, path: Path) -> None:
        """Write it: reflectance x 10000."""
        values = np.stack([self.target, self.harmonised, self.reference])
        numbers = np.clip(np.rint(values * 1e4), -32768, 32767).astype(np.int16)
        partial = path.with_suffix(".partial")
        with partial.open("wb") as file:
            np.savez(file, values=numbers, masks=np.stack([self.clear, self.gap]), bands=np.array(self.bands))
        partial.rename(path)

    @classmethod
    def load(cls, path: Path) -> "Gap":
        """Read it."""
        stored = np.load(path)
        target, harmonised, reference = stored["values"].astype(np.float32) / 1e4
        clear, gap = stored["masks"]
        return cls(target, harmonised, reference, clear, gap, tuple(stored["bands"].tolist()))


class OtherDates:
    """Samples of what a network sees of a gap, and of the errors there, in mean errors of what is clear."""

    spec = OTHER_DATES

    def __init__(
        self,
        root: str | os.PathLike[str],
        part: str = "train",
        *,
        transform: Transform | None = None,
        cache: bool = False,
    ) -> None:
        folder = Path(root, "held" if part == "val" else "pool")
        self.files, self.transform = sorted(folder.glob("*.npz")), transform
        if not self.files:
            raise DataNotFoundError(f"{folder}: no .npz files. {HOW_TO_OBTAIN}")
        self.names: Sequence[str] = [file.stem for file in self.files]
        self._cached = [Gap.load(file) for file in self.files] if cache else None

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Sample:
        """Sample `index`, whole."""
        pair = self._cached[index] if self._cached else Gap.load(self.files[index])
        seen = see(pair.target, pair.harmonised, pair.reference, pair.clear, pair.gap, pair.bands)
        error = np.zeros((BANDS, *pair.gap.shape), np.float32)
        error[list(pair.bands)] = ((pair.target - pair.harmonised) / seen.unit).clip(-MOST, MOST)
        return make_sample(seen.planes, error, self.names[index], self.transform, {"gap": pair.gap})

    def draw(self, size: int, generator: torch.Generator) -> Sample:
        """Draw a sample, a square of it that holds some of the gap, and one of its eight turns."""
        whole = self[int(torch.randint(len(self), (), generator=generator))]
        size = min(size, *whole["clear"].shape[-2:])
        for _ in range(20):
            cut = crop_sample(whole, size, generator=generator)
            if cut["masks"]["gap"].float().mean() > 0.1:
                break
        return turn_sample(cut, generator=generator)


GAPS = DataSet(
    "other-dates",
    "pairs of dates with a gap",
    OTHER_DATES,
    OtherDates,
    HOW_TO_OBTAIN,
    parts=("train", "val"),
    protocol=ERROR_LEFT,
)
