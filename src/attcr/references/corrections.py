"""What a network adds to references inside gaps: tiles on a grid of their own, blended, given in rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attcr.references.cells import Float32
from attcr.references.correct import OVERLAP, TILE, Corrector, Pair
from attcr.references.fill import Added, Tuned
from attcr.scenes.blend import StripBlender
from attcr.scenes.tiles import Grid, Tile, grid

SMALLEST = 64
"""Pixels along a side below which a scene shows the network too little."""
LEAST_WEIGHT = 0.2
"""Weight among the references below which one is not corrected in a tile."""


def tiles_over(height: int, width: int) -> Grid | None:
    """Lay the network's tiles over a scene, always at the same places; None where it is too small."""
    return grid(height, width, tile=TILE, overlap=OVERLAP) if min(height, width) >= SMALLEST else None


Target = Callable[[int, int], tuple[Float32, NDArray[np.bool_], NDArray[np.bool_]]]
"""Gives rows of the scene: values (C, h, W), what is clear (h, W), and what is to be filled."""
Shown = Callable[[int, int, int], tuple[Float32, NDArray[np.bool_]]]
"""Gives rows of one of the references: values (C, h, W), and what is clear."""


@dataclass
class Corrections:
    """What the network adds to each reference, from the first row asked for down; a row of tiles is held."""

    corrector: Corrector
    grid: Grid
    tuned: Sequence[Tuned]
    target: Target
    reference: Shown
    batch: int

    def __post_init__(self) -> None:
        planes = len(self.corrector.corrected) + 1
        self._blenders = {i: StripBlender(self.grid, planes) for i, one in enumerate(self.tuned) if one.corrected}
        self._ready: dict[int, Float32] = {}
        self._top = self._bottom = -1

    def rows(self, top: int, bottom: int, window: int) -> list[Added | None]:
        """Give what is added in rows [top, bottom) to each reference, for rows that begin at row `window`.

        Rows are asked for downwards; from elsewhere it begins anew, with the same numbers.
        """
        if top != self._top:
            self._begin(top)
        while self._bottom < bottom:
            self._run(self._bottom)
        taken: list[Added | None] = []
        for i in range(len(self.tuned)):
            if i not in self._blenders:
                taken.append(None)
                continue
            count = bottom - self._top
            rows, self._ready[i] = self._ready[i][:, :count], self._ready[i][:, count:]
            taken.append(Added(top - window, rows[:-1], rows[-1], self.corrector.corrected))
        self._top = bottom
        return taken

    def _begin(self, top: int) -> None:
        first = next(row for row in self.grid.rows if row + self.grid.tile_height > top)
        planes = len(self.corrector.corrected) + 1
        for i, blender in self._blenders.items():
            blender.start(first)
            self._ready[i] = np.zeros((planes, 0, self.grid.width), np.float32)
        self._top = self._bottom = first
        while self._bottom <= top and self._bottom < self.grid.height:
            self._run(self._bottom)
        for i, rows in self._ready.items():
            self._ready[i] = rows[:, top - first :]
        self._top = top

    def _run(self, row: int) -> None:
        """Run the row of tiles that begins at a row, and take the rows that no later tile touches."""
        below = next((other for other in self.grid.rows if other > row), self.grid.height)
        bottom = row + self.grid.tile_height
        values, clear, gap = self.target(row, bottom)
        if gap.any():
            seen = [self.reference(i, row, bottom) for i in range(len(self.tuned))]
            weights = np.stack([sound * one.preference for (_, sound), one in zip(seen, self.tuned, strict=True)])
            counts = weights >= LEAST_WEIGHT * weights.sum(axis=0)
            for i, blender in self._blenders.items():
                shown, sound = seen[i]
                whole = Pair(row, 0, values, shown, clear & sound, gap & sound)
                self._add(i, blender, whole, whole.gap & counts[i])
        for i, blender in self._blenders.items():
            self._ready[i] = np.concatenate([self._ready[i], blender.finish(below)], axis=1)
        self._bottom = below

    def _add(self, i: int, blender: StripBlender, whole: Pair, wanted: NDArray[np.bool_]) -> None:
        """Add the tiles of one row in which something of a reference is wanted."""
        tuned = self.tuned[i]
        how = tuned.corrected
        assert how is not None, "only corrected references have a blender"
        chosen: list[tuple[Tile, Pair]] = []
        for tile in self.grid.row_of_tiles(whole.row):
            pair = whole.cut(tile.cols)
            if wanted[:, tile.cols].any() and pair.is_enough():
                chosen.append((tile, pair))
        bands = self.corrector.corrected
        for start in range(0, len(chosen), self.batch):
            together = chosen[start : start + self.batch]
            bases = [pair.harmonised(how.base) for _, pair in together]
            better = self.corrector.correct([pair for _, pair in together], bases)
            for (tile, pair), base, one in zip(together, bases, better, strict=True):
                usual = base if how.base is tuned.harmonise else pair.harmonised(tuned.harmonise)
                change = np.where(pair.gap, one - usual[bands], 0)
                planes = np.concatenate([change, pair.gap[None]]).astype(np.float32)
                blender.add(tile, np.float32(how.share) * planes)
