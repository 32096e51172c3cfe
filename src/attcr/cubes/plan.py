"""What a cube will be, before anything of it is computed: its grid, dates and blocks, and what they cost."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np

from attcr.addresses import redact
from attcr.cubes.fill import MARGIN
from attcr.cubes.options import CubeOptions
from attcr.cubes.place import Grid, Place
from attcr.cubes.seams import ACROSS, RAMP, in_order
from attcr.cubes.search import Acquisition, Found, search, steps
from attcr.cubes.sources import Source, open_source
from attcr.errors import ConfigError, SceneError
from attcr.scenes.tiles import Tile

FORMAT = 2
"""Counts changes of what is computed: a cube is not continued by another version."""
SIDES = (1024, 768, 512, 256, 192, 128, 64)
"""Pixels along a block at most, of which the memory chooses."""
AT_REST = 0.5e9
"""Bytes of the process before it works."""
PACKED = 0.6
"""Bytes of a file for a byte of its pixels: Sentinel-2 in deflate."""
SECONDS, BYTES_A_SECOND = 2.0, 20e6
"""Seconds of one core for a megapixel of a date in one band, and what a network gives a second."""


_MAY_CHANGE = {"place", "api", "acquisitions"}
"""Of what a cube was made of: what may be called otherwise later, and what is looked at by itself."""


@dataclass(frozen=True)
class Plan:
    """A cube that is to be made. It never changes."""

    place: Place
    options: CubeOptions
    source: Source
    bands: tuple[str, ...]
    grid: Grid
    acquisitions: tuple[Acquisition, ...]
    """All that fill, in order of time."""
    dates: tuple[int, ...]
    """Which of them are dates of the cube."""
    offset: float
    """Reflectance of number 0."""
    block: tuple[int, int]
    """Rows and columns of a block."""

    @property
    def taken(self) -> list[datetime]:
        """When each acquisition began."""
        return [one.taken for one in self.acquisitions]

    @property
    def blocks(self) -> list[Tile]:
        """The blocks in the order in which they are made."""
        (height, width), grid = self.block, self.grid
        made = [
            Tile(row, col, min(height, grid.height - row), min(width, grid.width - col))
            for row in range(0, grid.height, height)
            for col in range(0, grid.width, width)
        ]
        return in_order(made, width)

    @property
    def fetched(self) -> float:
        """Bytes that are read from the source, about: every block with its margin, once for each acquisition."""
        pixels = sum((one.height + 2 * MARGIN) * (one.width + 2 * MARGIN) for one in self.blocks)
        each = np.dtype(self.source.dtype).itemsize * len(self.bands) + bool(self.source.mask[1])
        return PACKED * pixels * each * len(self.acquisitions)

    @property
    def seconds(self) -> float:
        """Seconds that it takes, about: of computing or of fetching, for one goes on beside the other."""
        computed = SECONDS * self.grid.megapixels * len(self.dates) * len(self.bands)
        return max(computed, self.fetched / BYTES_A_SECOND)

    @property
    def memory(self) -> float:
        """Bytes of memory, about."""
        return memory_of(self.block, self.source, self.bands, len(self.acquisitions), len(self.dates))

    def describe(self) -> dict[str, Any]:
        """Give it as plain values, without addresses of files, which may hold signatures and change."""
        grid = self.grid
        return {
            "format": FORMAT,
            "place": self.place.text,
            "api": redact(self.source.api),
            "collection": self.source.collection,
            "options": self.options.describe(),
            "bands": self.bands,
            "grid": {"crs": grid.crs, "transform": list(grid.transform)[:6], "shape": [grid.height, grid.width]},
            "offset": self.offset,
            "block": self.block,
            "dates": self.dates,
            "acquisitions": [
                {"id": one.name, "datetime": one.taken.isoformat(), "cloud": _told(one.cloudy)}
                for one in self.acquisitions
            ],
        }

    def continued(self, told: Mapping[str, Any], kept: int = 0) -> Plan:
        """Give the work that was begun as `told` describes it, with the addresses that were found now.

        Of the first `kept` acquisitions a cube holds the pixels: the catalog may have forgotten them.
        """
        by_name = {one.name: one for one in self.acquisitions}
        stored = [_stored(one) for one in told["acquisitions"]]
        lost = [one.name for one in stored[kept:] if one.name not in by_name]
        if lost:
            raise SceneError(
                f"The catalog no longer has {len(lost)} of the cube's {len(stored)} acquisitions, {lost[0]} among "
                "them: make a new cube."
            )
        same = replace(
            self,
            acquisitions=tuple(by_name.get(one.name, one) for one in stored),
            dates=tuple(told["dates"]),
            offset=told["offset"],
            block=tuple(told["block"]),
        )
        ours = json.loads(json.dumps(same.describe()))
        other = [name for name in ours if name not in _MAY_CHANGE and ours[name] != told.get(name)]
        if other:
            there, here = (json.dumps(one.get(other[0]))[:150] for one in (told, ours))
            raise ConfigError(
                f"The cube there has another {other[0]}: {there} and not {here}. Give what it was made with, or choose "
                "another name."
            )
        return same

    def grown(self, told: Mapping[str, Any]) -> Plan:
        """Give the cube that `told` describes with the acquisitions since then; what came late is left out."""
        count = len(told["acquisitions"])
        same = self.continued(told, kept=count)
        whole = (*same.acquisitions, *(one for one in self.acquisitions if one.taken > same.taken[-1]))
        return replace(
            same,
            acquisitions=whole,
            dates=(*same.dates, *(at for at in chosen(whole, self.options) if at >= count)),
        )


def _stored(told: Mapping[str, Any]) -> Acquisition:
    """Give an acquisition that a cube was made of, without addresses."""
    taken = datetime.fromisoformat(told["datetime"])
    return Acquisition((Found(told["id"], taken, {}, 0.0, "", (0.0, 0.0, 0.0, 0.0), float("nan"), ""),))


def _told(cloudy: float) -> float | None:
    return round(cloudy, 4) if math.isfinite(cloudy) else None


def make_plan(place: Place | str, options: CubeOptions, *, filled: bool = True) -> Plan:
    """Search a place and a period, and say what the cube of it will be; without `filled`, one of no dates."""
    place = Place.parse(place) if isinstance(place, str) else place
    source = open_source(options.source)
    bands = source.choose(options.bands or ())
    grid = Grid.over(place, options.resolution, options.crs)
    found = search(source, grid.box, *options.period, bands, cloud=options.most_cloud / 100)
    dates = chosen(found, options) if filled else ()
    side = side_for(options.memory * 1e9, source, bands, len(found), len(dates))
    return Plan(
        place,
        options,
        source,
        bands,
        grid,
        tuple(found),
        dates,
        min(one.offset for one in found),
        (even(grid.height, side), even(grid.width, side)),
    )


def even(size: int, side: int) -> int:
    """Give the length of blocks of about one size that cover so many pixels, at most `side` each."""
    return -(-size // -(-size // side) // 16) * 16


def chosen(found: Sequence[Acquisition], options: CubeOptions) -> tuple[int, ...]:
    """Say which acquisitions are dates: all, or of a regular axis those nearest to each step, none twice.

    A step from which every acquisition is more than half a step away has no date.
    """
    if options.step is None:
        return tuple(range(len(found)))
    picked = set()
    for moment in steps(*options.period, options.step):
        apart = [abs(one.taken - moment) for one in found]
        nearest = min(range(len(found)), key=apart.__getitem__)
        if apart[nearest] <= options.step / 2:
            picked.add(nearest)
    return tuple(sorted(picked))


def bytes_a_pixel(source: Source, bands: Sequence[str], acquisitions: int, dates: int) -> int:
    """Give the bytes that a pixel of a block takes: the block itself, the next one, and what is made of it."""
    size = np.dtype(source.dtype).itemsize
    return acquisitions * (len(bands) * (2 * size + 12) + 4) + dates * (len(bands) * (size + 16) + 24)


def memory_of(block: tuple[int, int], source: Source, bands: Sequence[str], acquisitions: int, dates: int) -> float:
    """Give the bytes that it takes to make a cube in such blocks, with the ends that are kept for the next ones."""
    pixels = (block[0] + 2 * MARGIN) * (block[1] + 2 * MARGIN)
    ends = (ACROSS + 2) * RAMP * (max(block) + RAMP) * dates * (len(bands) * np.dtype(source.dtype).itemsize + 2)
    return AT_REST + pixels * bytes_a_pixel(source, bands, acquisitions, dates) + ends


def side_for(memory: float, source: Source, bands: Sequence[str], acquisitions: int, dates: int) -> int:
    """Give the side of the largest block that fits into so much memory, however large the place is."""
    needs = {side: memory_of((side, side), source, bands, acquisitions, dates) for side in SIDES}
    for side in SIDES:
        if needs[side] <= memory:
            return side
    raise ConfigError(
        f"{acquisitions} acquisitions of {len(bands)} bands need `memory` of at least "
        f"{math.ceil(needs[SIDES[-1]] / 1e7) / 100:g} GB, not {memory / 1e9:g}: take fewer bands or a shorter period."
    )
