"""A block of a cube: what all acquisitions show of it, and all its dates filled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attcr.bands.sensors import into_dtype
from attcr.cubes.fill import MARGIN, Dates, Filled, fill
from attcr.cubes.odc_stac import load
from attcr.cubes.plan import Plan
from attcr.cubes.seams import ERROR_STEP, RAMP
from attcr.cubes.search import overlaps
from attcr.restore.walk import ORIGINAL
from attcr.scenes.clouds.masks import THIN, Classes
from attcr.scenes.clouds.rim import Rim
from attcr.scenes.clouds.vote import CLASS
from attcr.scenes.tiles import Tile

Array = NDArray[Any]

UNKNOWN_DAYS = -32768
"""In `days`, where nothing is known."""
UNKNOWN_ERROR = 65535
"""In `error`, where nothing is known."""


@dataclass(frozen=True)
class Seen:
    """What acquisitions show of a block and its margin."""

    tile: Tile
    """The block in the grid, without its margin."""
    at: tuple[int, ...]
    """Which acquisitions of the plan."""
    numbers: Array
    """(T, C, h, w)."""
    classes: Classes
    """(T, h, w)."""

    @property
    def inside(self) -> tuple[slice, slice]:
        """The block's rows and columns among these."""
        return slice(MARGIN, MARGIN + self.tile.height), slice(MARGIN, MARGIN + self.tile.width)


def load_block(plan: Plan, tile: Tile, wanted: Sequence[int], *, but: Sequence[int] = ()) -> Seen:
    """Read a block and its margin from the source: of all acquisitions, but not of some.

    Those that do not reach it are left out, unless they are wanted.
    """
    part = plan.grid.part(tile.row - MARGIN, tile.col - MARGIN, tile.height + 2 * MARGIN, tile.width + 2 * MARGIN)
    box = part.box
    reach = {
        at
        for at, one in enumerate(plan.acquisitions)
        if at not in set(but) and any(overlaps(item.box, box) for item in one.items)
    }
    at = tuple(sorted(reach | set(wanted) | set(but)))
    shape = (len(at), len(plan.bands), part.height, part.width)
    numbers = np.full(shape, plan.source.nodata, plan.source.dtype)
    classes = np.zeros((shape[0], *shape[2:]), np.uint8)
    for i, one in enumerate(at):
        if one in reach:
            loaded = load(plan.acquisitions[one], plan.source, plan.bands, part, offset=plan.offset)
            near = Rim(plan.options.dilate, 0).weights(loaded.classes & CLASS) > 0
            numbers[i], classes[i] = loaded.values, np.where(near, np.maximum(loaded.classes, THIN), loaded.classes)
    return Seen(tile, at, numbers, classes)


def fill_block(plan: Plan, seen: Seen) -> Filled:
    """Fill all dates of a block and its margin; `source` counts the acquisitions of the plan."""
    sensor = plan.source.sensor(plan.offset)
    values = np.empty(seen.numbers.shape, np.float32)
    for numbers, made in zip(seen.numbers, values, strict=True):  # one at a time: less memory
        made[:] = np.where(numbers == plan.source.nodata, np.nan, sensor.to_reflectance(numbers))
    first = plan.taken[0]
    days = np.array([(plan.taken[one] - first).total_seconds() / 86400 for one in seen.at])
    filled = fill(Dates(values, seen.classes, days, plan.bands), [seen.at.index(one) for one in plan.dates])
    places = np.array([*seen.at, -1], np.int16)  # the last stands for none
    return filled._replace(source=places[filled.source])


def make_block(plan: Plan, seen: Seen) -> dict[str, Array]:
    """Give the variables of a cube for a block, and for `RAMP` pixels below and on the right, each (t, rows, columns).

    Pixels that were seen keep their numbers to the bit; so do those of which nothing is known.
    """
    filled = fill_block(plan, seen)
    rows, cols = (slice(one.start, one.stop + RAMP) for one in seen.inside)
    quality, source = filled.quality[:, rows, cols], filled.source[:, rows, cols]
    numbers = seen.numbers[[seen.at.index(one) for one in plan.dates]][..., rows, cols]
    for came, values, classes in zip(numbers, filled.values[..., rows, cols], quality, strict=True):
        made = plan.source.sensor(plan.offset).from_reflectance(np.nan_to_num(values))
        made = into_dtype(made, came.dtype)
        made[made == plan.source.nodata] += came.dtype.type(1)  # no ground is nothing
        came[:] = np.where((classes == ORIGINAL) | ~np.isfinite(values), came, made)
    error = filled.error[:, rows, cols]
    steps = np.clip(np.rint(np.nan_to_num(error) / ERROR_STEP), 0, UNKNOWN_ERROR - 1)
    days = np.clip(np.rint(filled.days[:, rows, cols]), UNKNOWN_DAYS + 1, -UNKNOWN_DAYS - 1)
    return {
        **{name: numbers[:, i] for i, name in enumerate(plan.bands)},
        "quality": quality,
        "source": source,
        "days": np.where(source < 0, UNKNOWN_DAYS, days).astype(np.int16),
        "error": np.where(np.isfinite(error), steps, UNKNOWN_ERROR).astype(np.uint16),
    }
