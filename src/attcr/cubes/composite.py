"""Composites: one image of a period from all dates of a place, written as a raster."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from attcr.bands.sensors import into_dtype
from attcr.cubes.block import Array, Seen, load_block
from attcr.cubes.odc_stac import load
from attcr.cubes.options import CubeOptions
from attcr.cubes.place import Grid, Place
from attcr.cubes.plan import Plan, make_plan
from attcr.cubes.seams import ERROR_STEP
from attcr.cubes.search import NothingFoundError
from attcr.cubes.season import FAR, METHOD, TOGETHER, Levels, Merged, Shown, level, merge
from attcr.cubes.write import Show, ahead
from attcr.errors import ConfigError, warn
from attcr.extras import needed
from attcr.files import to_disk, write_whole
from attcr.restore.options import Option
from attcr.restore.resume import held, remove
from attcr.scenes import write
from attcr.scenes.clouds.masks import CLEAR
from attcr.scenes.clouds.rim import Rim
from attcr.scenes.clouds.vote import CLASS
from attcr.scenes.dataset import open_dataset
from attcr.scenes.scene import Band, Profile

with needed():
    from affine import Affine
    from rasterio.crs import CRS
    from rasterio.windows import Window

COARSE = 256
"""Pixels along the image of the whole place that dates are levelled on, at most."""
TOLD = "ATTCR_COMPOSITE"
"""The tag that holds what a composite was made of."""


@dataclass(frozen=True)
class CompositeOptions(CubeOptions):
    """How to make composites."""

    # fmt: off
    every: Annotated[str | None, Option(
        "A file for each such part of the period: 1mo, or 10d. Its first day is added to the name.",
        "", "PERIOD", "one for all", decides=False)] = None
    method: Annotated[str, Option(
        f"What a pixel is made of: {', '.join(METHOD)}.",
        "", "METHOD", choices=tuple(METHOD))] = "medoid"
    # fmt: on

    def __post_init__(self) -> None:
        if self.method not in METHOD:
            raise ConfigError(f"`method` is {self.method!r}; expected {', '.join(METHOD)}.")
        super().__post_init__()

    @property
    def step(self) -> timedelta | None:
        """A part of the period, about."""
        told = re.fullmatch(r"([1-9]\d{0,2})(d|mo)?", self.every or "")
        return timedelta(days=int(told[1]) * (30 if told[2] == "mo" else 1)) if told else None

    @property
    def parts(self) -> Iterator[CompositeOptions]:
        """The options of each composite."""
        first, last = self.period
        while first <= last:
            following = last + timedelta(seconds=1) if self.every is None else self._after(first)
            end = min(following - timedelta(days=1), last)
            yield replace(self, first=f"{first:%Y-%m-%d}", last=f"{end:%Y-%m-%d}", every=None)
            first = following

    def _after(self, first: datetime) -> datetime:
        assert self.step is not None
        if not str(self.every).endswith("mo"):
            return first + self.step
        months = first.month - 1 + self.step.days // 30
        day = min(first.day, 28)
        return first.replace(year=first.year + months // 12, month=months % 12 + 1, day=day)


@dataclass(frozen=True)
class CompositeResult:
    """A composite that was written."""

    target: str
    dates: int
    """Dates that it was made of."""
    seen: float
    """Part of its pixels that any date shows."""
    seconds: float


def composite(
    place: Place | str,
    target: str | Path,
    first: str,
    last: str | None = None,
    *,
    progress: Show = lambda stage, done, total, megapixels: None,
    **options: Any,
) -> list[CompositeResult]:
    """Write one image of a period, or with `every` one of each part of it, and say what is in them.

    The options are those of `attcr composite`: `method`, `every`, and those of `attcr.cube`. A GeoTIFF has the bands of
    the source, then `count`, the dates that show the pixel, `day`, its day since 1970-01-01, and `error`, how far other
    dates are from it. A run that was stopped goes on; composites that are there are not made again.
    """
    return [
        write_composite(plan, path, progress)
        for plan, path in plans(place, target, CompositeOptions(first, last, **options))
    ]


def plans(place: Place | str, target: str | Path, options: CompositeOptions) -> Iterator[tuple[Plan, Path]]:
    """Give each composite and its file; a part of a series of which there is nothing is left out."""
    target = Path(target)
    write.check_target(target, "uint16", 4)
    if target.suffix.lower() not in (".tif", ".tiff"):
        raise ConfigError(f"{target} is no .tif: a composite has more bands than other formats hold.")
    parts = list(options.parts)
    for part in parts:
        path = target if options.every is None else target.with_stem(f"{target.stem}_{part.first}")
        try:
            yield make_plan(place, part, filled=False), path
        except NothingFoundError as error:
            if options.every is None:
                raise
            warn(f"{path.name} is left out: {error}")


def write_composite(plan: Plan, target: Path, progress: Show) -> CompositeResult:
    """Make a composite, or go on with it."""
    began, folder = time.monotonic(), target.with_name(f".{target.name}.attcr")
    state, work, made = folder / "state.json", folder / "work.tif", folder / f"made{target.suffix}"
    if target.exists():
        with open_dataset(str(target)) as there:
            told = there.tags().get(TOLD)
        if told is None:
            raise ConfigError(f"{target} is there, and no composite: choose another name.")
        return _result(plan.continued(json.loads(told)), target, began)
    with held(folder, target):
        begun = json.loads(state.read_text()) if state.exists() else None
        plan, done = (plan.continued(begun["plan"]), begun["done"]) if begun else (plan, 0)
        profile, bands = _described(plan)
        if not begun:
            write.create(work, profile, bands)
        levels = levels_of(plan) if done < len(plan.blocks) else None
        for tile, seen in ahead(plan.blocks[done:], lambda tile: load_block(plan, tile, ())):
            assert levels is not None
            write.write_rows(work, tile.row, merged(plan, seen, levels), tile.col)
            done += 1
            write_whole(state, json.dumps({"plan": plan.describe(), "done": done}))
            progress("composite", done, len(plan.blocks), plan.grid.megapixels * done / len(plan.blocks))
        write.finish(work, made, profile, bands)
        made.replace(target)
        to_disk(target.parent)
        remove(folder)
    return _result(plan, target, began)


def _result(plan: Plan, target: Path, began: float) -> CompositeResult:
    """Look at a composite that was written."""
    with open_dataset(str(target)) as there:
        counts = (
            there.read(len(plan.bands) + 1, window=Window(tile.col, tile.row, tile.width, tile.height))
            for tile in plan.blocks
        )
        seen = sum(int((count != plan.source.nodata).sum()) for count in counts)
    share = seen / (plan.grid.height * plan.grid.width)
    return CompositeResult(str(target), len(plan.acquisitions), share, time.monotonic() - began)


def levels_of(plan: Plan) -> Levels:
    """Level all dates of a composite to each other, on a coarse image of the whole place."""
    grid, sensor = plan.grid, plan.source.sensor(plan.offset)
    step = max(-(-max(grid.height, grid.width) // COARSE), 1)
    coarse = Grid(grid.crs, grid.transform @ Affine.scale(step), -(-grid.height // step), -(-grid.width // step))
    rim = Rim(-(-plan.options.dilate // step), 0)
    values = np.full((len(plan.acquisitions), len(plan.bands), coarse.height, coarse.width), np.nan, np.float32)
    for one, into in zip(plan.acquisitions, values, strict=True):
        loaded = load(one, plan.source, plan.bands, coarse, offset=plan.offset)
        clear = (rim.weights(loaded.classes & CLASS) == 0) & (loaded.values != plan.source.nodata).all(axis=0)
        into[:] = np.where(clear, sensor.to_reflectance(loaded.values), np.nan)
    return level(values, step)


def merged(plan: Plan, seen: Seen, levels: Levels) -> Array:
    """Give a block of a composite as it is stored, (bands, rows, columns)."""
    assert isinstance(plan.options, CompositeOptions)
    at, method, sensor = list(seen.at), plan.options.method, plan.source.sensor(plan.offset)
    days = np.array([plan.taken[one].timestamp() / 86400 for one in at])
    rows, cols = seen.inside
    numbers = seen.numbers[..., rows, cols]
    clear = (seen.classes[:, rows, cols] == CLEAR) & (numbers != plan.source.nodata).all(axis=1)
    inside = 1 - np.stack([Rim(0, FAR).weights(one)[rows, cols] for one in seen.classes & CLASS])
    down, across = np.indices(clear.shape[1:]).reshape(2, -1)
    flat: list[Array] = [one.reshape(*one.shape[:-2], -1) for one in (numbers, clear, inside)]
    parts = []
    for first in range(0, len(down), TOGETHER):
        here = slice(first, first + TOGETHER)
        places = down[here] + seen.tile.row, across[here] + seen.tile.col
        came = sensor.to_reflectance(flat[0][..., here])
        values = np.stack([levels(one, then, *places) for one, then in zip(at, came, strict=True)])
        parts.append(merge(Shown(came, values, flat[1][:, here], flat[2][:, here], levels.spread[at]), days, method))
    joined = Merged(*(np.concatenate(some, axis=-1) for some in zip(*parts, strict=True)))
    stored = _numbers(plan, joined)
    return stored.reshape(len(stored), *clear.shape[1:])


def _numbers(plan: Plan, made: Merged) -> Array:
    """Give numbers of the source's type, nodata in all bands where no date shows the ground."""
    dtype, nodata = np.dtype(plan.source.dtype), plan.source.nodata
    known = made.dates > 0
    values = plan.source.sensor(plan.offset).from_reflectance(np.where(known, made.values, 0))
    beside = np.stack([made.dates, np.floor(made.days), made.error / ERROR_STEP])
    numbers = into_dtype(np.concatenate([values, np.where(known, beside, 0)]), dtype)
    numbers[(numbers == nodata) & known] += dtype.type(1)
    return np.where(known, numbers, dtype.type(nodata))


def _described(plan: Plan) -> tuple[Profile, list[Band]]:
    """Give what the file says about itself."""
    grid, source = plan.grid, plan.source
    tags = {"": {TOLD: json.dumps(plan.describe()), "AREA_OR_POINT": "Area"}}
    crs = CRS.from_user_input(grid.crs)
    profile = Profile(grid.height, grid.width, source.dtype, crs, grid.transform, ([], None), None, tags)
    meant = dict.fromkeys(plan.bands, (source.scale, plan.offset, "reflectance")) | {
        "count": (1.0, 0.0, "dates that show the ground"),
        "day": (1.0, 0.0, "days since 1970-01-01"),
        "error": (ERROR_STEP, 0.0, "mean distance of the other dates, in reflectance"),
    }
    more: dict[str, Any] = {"nodata": source.nodata, "counted": True}
    return profile, [
        Band(name, "", i, description=name, scale=scale, offset=offset, tags={"long_name": told}, **more)
        for i, (name, (scale, offset, told)) in enumerate(meant.items(), 1)
    ]
