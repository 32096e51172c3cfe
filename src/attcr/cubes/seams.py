"""The seams between blocks: the filling of a block goes on into the next ones, and gives way to theirs over a ramp.

What a pixel comes to depends on its block and on those above, on the left and at the corner between, whatever the order
in which they are filled.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attcr.restore.walk import FROM_DATE, LARGE_ERROR, LOW_CONFIDENCE
from attcr.scenes.tiles import Tile

Array = NDArray[Any]
Step = tuple[int, int]

RAMP = 32
"""Pixels over which a filling gives way to the next one: those of the margin whose mask the rest of it decides."""
ACROSS = 32
"""The most blocks in a line, whose lower ends are kept: wider cubes are made in columns of so many."""
STEPS: tuple[Step, ...] = ((1, 1), (1, 0), (0, 1))
"""Where a block goes on: at the corner, below, and on the right."""
ERROR_STEP = 1e-4
"""Reflectance of a step of `error`."""


class Turn(NamedTuple):
    """A block that is to be filled."""

    tile: Tile
    gives: list[tuple[Step, Tile]]
    """The blocks that it goes on into and that are still to be made."""
    kept: bool
    """Whether it is written: others are filled once more for the sake of their neighbours."""


def in_order(blocks: Sequence[Tile], width: int) -> list[Tile]:
    """Put blocks of this width into columns of `ACROSS`, each line by line."""
    return sorted(blocks, key=lambda one: (one.col // (ACROSS * width), one.row, one.col))


def neighbours(blocks: Sequence[Tile]) -> dict[Tile, dict[Step, Tile]]:
    """Give the blocks that go on into each, by where they lie: above, on the left, and at the corner between."""
    height, width = blocks[0].height, blocks[0].width
    at = {(one.row, one.col): one for one in blocks}
    places = {one: {step: (one.row - step[0] * height, one.col - step[1] * width) for step in STEPS} for one in blocks}
    return {one: {step: at[place] for step, place in of.items() if place in at} for one, of in places.items()}


def turns(blocks: Sequence[Tile], finished: int) -> Iterator[Turn]:
    """Give the blocks after the first so many, each after those that go on into it, which may be filled once more."""
    column = ACROSS * blocks[0].width
    numbers = {one: number for number, one in enumerate(blocks)}
    before = neighbours(blocks)
    into: dict[Tile, list[tuple[Step, Tile]]] = defaultdict(list)
    for one, of in before.items():
        for step, other in of.items():
            into[other].append((step, one))
    given: set[tuple[Step, Tile]] = set()
    for tile in blocks[finished:]:
        lacking = [other for step, other in before[tile].items() if (step, tile) not in given]
        for one in (*lacking, tile):
            gives = [
                (step, other)
                for step, other in into[one]
                if numbers[other] >= numbers[tile] and other.col // column == tile.col // column
            ]
            given.update(gives)
            yield Turn(one, gives, one == tile)


def piece(made: Mapping[str, Array], tile: Tile, step: Step, bands: Sequence[str]) -> dict[str, Array]:
    """Give what a block goes on with below it, on its right, or both."""
    rows, cols = (
        slice(size, None) if on else slice(size) for on, size in zip(step, (tile.height, tile.width), strict=True)
    )
    return {name: made[name][:, rows, cols].copy() for name in (*bands, "error")}


def join(
    made: Mapping[str, Array], tile: Tile, pieces: Mapping[Step, Mapping[str, Array]], bands: Sequence[str]
) -> dict[str, Array]:
    """Give a block in which what goes on from its neighbours gives way to its own filling."""
    out = {name: values[:, : tile.height, : tile.width].copy() for name, values in made.items()}
    filled = np.isin(out["quality"], (FROM_DATE, LOW_CONFIDENCE))
    down, right = (
        np.clip(1 - (np.arange(size, dtype=np.float32) + 0.5) / RAMP, 0, 1) * (step in pieces)
        for size, step in ((tile.height, (1, 0)), (tile.width, (0, 1)))
    )
    for name in (*bands, "error"):
        total = out[name] * np.outer(1 - down, 1 - right)
        for (below, beside), each in pieces.items():
            there = each[name][:, : tile.height, : tile.width]
            share = np.outer(down if below else 1 - down, right if beside else 1 - right)
            rows, cols = there.shape[1:]
            total[:, :rows, :cols] += share[:rows, :cols] * there
        out[name] = np.where(filled, np.rint(total), out[name]).astype(out[name].dtype)
    unsure = out["error"] > round(LARGE_ERROR / ERROR_STEP)
    out["quality"] = np.where(filled, np.where(unsure, LOW_CONFIDENCE, FROM_DATE), out["quality"]).astype(np.uint8)
    return out
