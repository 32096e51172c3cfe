"""A network that corrects harmonised references inside gaps, and how much of its correction is used for a scene.

The self-check hides clear ground of the scene itself, fills it with and without the network, and takes the share of the
correction that gives the smallest error there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from attcr.bands.sensors import S2_L1C_BANDS
from attcr.errors import SceneError
from attcr.references.cells import Cells, Float32
from attcr.references.check import LEAST_PIXELS, MUCH, hidden_cells
from attcr.references.evidence import Evidence
from attcr.references.fill import Corrected, Filled, Tuned, meet_border
from attcr.references.harmonise import METHODS, Harmoniser, Seen, regression
from attcr.references.planes import see

Network = Callable[[Float32], Float32]
"""From planes (N, PLANES, h, w), as `see` gives them, to (N, 2 BANDS, h, w): corrections, then expected errors."""

TILE, OVERLAP = 256, 64
"""Side of a tile in pixels, as in training, and the pixels by which neighbours overlap and are blended."""
LEAST_CLEAR = MUCH
"""Part of a tile, and of a scene, that must be clear in both dates for the network to be used."""
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Shares of the network's correction that the self-check can choose."""
SURE = 0.98
"""The network is used where it brings the error on hidden ground below this part of the error without it."""
ROWS_CHECKED, TILES_CHECKED = 2, 4
"""Rows of tiles, and tiles in each, that are tried each time ground is hidden."""
CLASSICAL = (S2_L1C_BANDS.index("B10"),)
"""Bands that the network sees and does not correct: it was not trained on cirrus."""


@dataclass(frozen=True)
class Pair:
    """A part of both dates: images (C, h, w), and masks (h, w)."""

    row: int
    """Its first row in the scene."""
    col: int
    target: Float32
    reference: Float32
    clear: NDArray[np.bool_]
    """Clear in both dates."""
    gap: NDArray[np.bool_]
    """To be filled, and clear in the reference."""

    def cut(self, cols: slice) -> Pair:
        """Give some columns of it."""
        images = (self.target[:, :, cols], self.reference[:, :, cols])
        return Pair(self.row, self.col + cols.start, *images, self.clear[:, cols], self.gap[:, cols])

    def hide(self, here: NDArray[np.bool_]) -> Pair:
        """Give the same part with some of its clear ground marked as to be filled."""
        return replace(self, clear=self.clear & ~here, gap=self.gap | here)

    def harmonised(self, harmonise: Harmoniser) -> Float32:
        """Give the reference in the target's tones where it is clear, 0 elsewhere."""
        out = np.zeros_like(self.reference)
        rows, cols = np.nonzero(self.clear | self.gap)
        fitted = harmonise(self.reference[:, rows, cols], rows + self.row, cols + self.col)
        out[:, rows, cols] = np.clip(fitted, -0.2, 2)
        return out

    def is_enough(self) -> bool:
        """Say whether the network sees enough clear ground to tell how the dates differ."""
        return bool(self.clear.mean() >= LEAST_CLEAR)


@dataclass(frozen=True)
class Corrector:
    """A network, and where the bands of the images are among its own."""

    network: Network
    bands: tuple[int, ...]
    """Bands of the images that it knows."""
    slots: tuple[int, ...]
    """Their places among its own."""

    @property
    def corrected(self) -> list[int]:
        """Bands of the images that it corrects."""
        return [band for band, slot in zip(self.bands, self.slots, strict=True) if slot not in CLASSICAL]

    def correct(self, pairs: Sequence[Pair], bases: Sequence[Float32]) -> list[Float32]:
        """Give, for tiles of one size and their harmonised references, the corrected bands (K, h, w) of each."""
        known = list(self.bands)
        views = [
            see(pair.target[known], base[known], pair.reference[known], pair.clear, pair.gap, self.slots)
            for pair, base in zip(pairs, bases, strict=True)
        ]
        out = self.network(np.stack([view.planes for view in views]))
        if not np.isfinite(out).all():
            raise SceneError("The network that corrects references gave NaN or infinite values: compute in float32.")
        kept = [at for at, slot in enumerate(self.slots) if slot not in CLASSICAL]
        return [
            view.corrected(one, base[known], self.slots)[kept]
            for view, one, base in zip(views, out, bases, strict=True)
        ]


@dataclass(frozen=True)
class Tiles:
    """Where the tiles of a scene are."""

    rows: Sequence[slice]
    cols: Sequence[slice]
    read: Callable[[slice], Pair]
    """Gives whole rows of the scene and a reference."""


def with_network(tuned: Tuned, evidence: Evidence, corrector: Corrector, tiles: Tiles) -> Tuned:
    """Give a tuned reference with the share of the network that is best on hidden ground of the scene itself."""
    checked = tuned.checked
    if evidence.common < LEAST_CLEAR or np.isnan(checked.error) or not corrector.corrected:
        return tuned
    errors, pixels = np.zeros(len(SHARES)), 0
    for hidden in hidden_cells(evidence):
        seen = Seen.of(evidence, hidden)
        base = regression(seen)
        usual = base if checked.method == "regression" else METHODS[checked.method](seen)
        for pair, here in _checked_tiles(tiles, hidden, evidence.cells):
            errors += _errors(corrector, pair, here, base, usual)
            pixels += int(here.sum())
    if pixels < LEAST_PIXELS:
        return tuned
    best = int(errors.argmin())
    if errors[best] > SURE * errors[0]:
        best = 0
    expected = checked.error * float(errors[best] / errors[0]) if errors[0] else checked.error
    base = tuned.harmonise if checked.method == "regression" else regression(Seen.of(evidence))
    return replace(tuned, corrected=Corrected(SHARES[best], expected, base) if best else None)


def _checked_tiles(tiles: Tiles, hidden: NDArray[np.bool_], cells: Cells) -> Iterator[tuple[Pair, NDArray[np.bool_]]]:
    """Give tiles with much hidden ground, and which of it is clear; only a few rows of tiles are read."""

    def inside(rows: slice, cols: slice) -> NDArray[np.bool_]:
        down, across = (np.arange(one.start, one.stop) // cells.size for one in (rows, cols))
        found: NDArray[np.bool_] = hidden[down[:, None], across]
        return found

    counts = np.array([[inside(rows, cols).sum() for cols in tiles.cols] for rows in tiles.rows])
    best = np.argsort(-counts, axis=1, kind="stable")[:, :TILES_CHECKED]
    sums = np.take_along_axis(counts, best, axis=1).sum(axis=1)
    for row in sorted(np.argsort(-sums, kind="stable")[:ROWS_CHECKED].tolist()):
        rows = tiles.rows[row]
        whole = tiles.read(rows)
        for col in sorted(best[row].tolist()):
            cols = tiles.cols[col]
            pair = whole.cut(cols)
            here = inside(rows, cols) & pair.clear
            if here.any() and pair.hide(here).is_enough():
                yield pair.hide(here), here


def _errors(
    corrector: Corrector, pair: Pair, here: NDArray[np.bool_], base: Harmoniser, usual: Harmoniser
) -> NDArray[np.float64]:
    """Give the sum over hidden pixels of the mean error of the bands, with each share of the network."""
    fitted = pair.harmonised(base)
    filled = fitted if usual is base else pair.harmonised(usual)
    known = Filled(filled, (pair.clear | pair.gap).astype(np.int16))
    was, truth = meet_border(known, pair.target, pair.clear)[:, here], pair.target[:, here]
    (better,) = corrector.correct([pair], [fitted])
    change = np.zeros_like(was)
    change[corrector.corrected] = better[:, here] - was[corrector.corrected]
    return np.array([np.abs(was + share * change - truth).mean(axis=0, dtype=np.float64).sum() for share in SHARES])
