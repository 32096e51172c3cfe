"""Make a cube and keep it up to date: block by block, committed on the way, shown to readers when it is whole."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from attcr.addresses import redact
from attcr.cubes.block import Array, Seen, load_block, make_block
from attcr.cubes.dataset import empty
from attcr.cubes.fill import MARGIN
from attcr.cubes.icechunk import READERS, WORK, described, opened
from attcr.cubes.item import write_item
from attcr.cubes.options import CubeOptions
from attcr.cubes.place import Place
from attcr.cubes.plan import Plan, make_plan
from attcr.cubes.seams import Step, join, piece, turns
from attcr.errors import ConfigError
from attcr.extras import needed
from attcr.restore.walk import CLOUD_LEFT, FROM_DATE, NODATA, ORIGINAL, QUALITY_NAMES
from attcr.scenes.clouds.masks import CLEAR, THICK
from attcr.scenes.tiles import Tile

with needed():
    import zarr

if TYPE_CHECKING:
    from icechunk import Repository

Todo = TypeVar("Todo")
Show = Callable[[str, int, int, float], None]
"""What hears how far a stage is: its name, blocks done, all blocks, megapixels of dates done."""
COMMIT_SECONDS = 60.0
"""Seconds of work that a run which is killed loses at most, beside the block it was at. Those before the next ones are
filled once more, as far as these go on from them."""


@dataclass(frozen=True)
class CubeResult:
    """A cube that was written or brought up to date."""

    target: str
    dates: int
    """Dates that it has."""
    added: int
    """Those of them that this run added."""
    refilled: int
    """Pixels of earlier dates that a new date changed."""
    pixels: dict[str, int]
    """Pixels of the dates that were added, by quality class."""
    snapshot: str
    """What Icechunk calls this state."""
    seconds: float


@dataclass
class _Tally:
    """What is done so far; every commit holds it."""

    finished: int = 0
    refilled: int = 0
    classes: list[int] = field(default_factory=lambda: [0] * len(QUALITY_NAMES))


def write_cube(
    place: Place | str,
    target: str | Path,
    options: CubeOptions,
    *,
    update: bool = False,
    progress: Show = lambda stage, done, total, megapixels: None,
) -> CubeResult:
    """Make a cube, or go on with one that a run left unfinished; with `update`, add what was taken since.

    `target` is a folder or s3://BUCKET/NAME. Until all is written readers see the cube as it was before. A STAC item
    is written beside it.
    """
    began, target = time.monotonic(), str(target)
    plan = make_plan(place, options)
    with opened(target) as repository:
        plan, old = _work(repository, plan, target, update=update)
        tally = _Tally()
        if old is None or len(plan.acquisitions) > len(old.acquisitions):
            tally = _write(repository, plan, old, progress)
        write_item(plan, target)
        return CubeResult(
            redact(target),
            len(plan.dates),
            len(plan.dates) - (len(old.dates) if old else 0),
            tally.refilled,
            dict(zip(QUALITY_NAMES, tally.classes, strict=True)),
            repository.lookup_branch(READERS),
            time.monotonic() - began,
        )


def _work(repository: Repository, plan: Plan, target: str, *, update: bool) -> tuple[Plan, Plan | None]:
    """Give the cube that is to be there, and the one that readers see now."""
    if WORK in repository.list_branches() and repository.lookup_branch(WORK) == repository.lookup_branch(READERS):
        repository.delete_branch(WORK)  # nothing was committed there, or all is shown
    there, begun = described(repository, READERS), described(repository, WORK)
    kept = len(there["acquisitions"]) if there else 0
    old = plan.continued(there, kept) if there else None
    if begun is not None:
        return plan.continued(begun, kept), old
    if there is None:
        return plan, None
    if not update:
        raise ConfigError(f"{redact(target)} has a cube already: `update` adds what was taken since; or give another.")
    return plan.grown(there), old


def _write(repository: Repository, plan: Plan, old: Plan | None, progress: Show) -> _Tally:
    """Write the blocks that are missing, and show the cube to readers."""
    base = repository.lookup_branch(READERS)
    begun = WORK in repository.list_branches()
    if not begun:
        repository.create_branch(WORK, base)
    session = repository.writable_session(WORK)
    tally = _Tally(**next(iter(repository.ancestry(branch=WORK))).metadata["done"]) if begun else _Tally()
    if not begun:
        _lay_out(session.store, plan, old)
    blocks = plan.blocks
    before = zarr.open_group(repository.readonly_session(READERS).store, mode="r") if old else None
    since = time.monotonic()
    ends: dict[Tile, dict[Step, dict[str, Array]]] = defaultdict(dict)
    """Of blocks before, for each to come."""
    todo = [*turns(blocks, tally.finished)]
    for (tile, gives, kept), seen in ahead(todo, lambda turn: _load(plan, turn.tile, old, before)):
        made = make_block(plan, seen)
        for step, other in gives:
            ends[other][step] = piece(made, tile, step, plan.bands)
        if not kept:
            continue
        made = join(made, tile, ends.pop(tile, {}), plan.bands)
        group = zarr.open_group(session.store, mode="r+")
        if old is None or before is None:
            _store(group, tile, slice(None), made)
        else:
            made = _update(plan, seen, made, group, before, old, tally)
        counts = np.bincount(made["quality"].ravel(), minlength=len(QUALITY_NAMES))
        tally.classes = [one + int(more) for one, more in zip(tally.classes, counts, strict=True)]
        tally.finished += 1
        whole = tally.finished == len(blocks)
        if whole or time.monotonic() - since > COMMIT_SECONDS:
            session.commit(_message(plan, old, tally, whole=whole), {"done": vars(tally).copy(), "whole": whole})
            session, since = repository.writable_session(WORK), time.monotonic()
        done = sum(one.height * one.width for one in blocks[: tally.finished]) / 1e6
        progress("cube", tally.finished, len(blocks), done * len(plan.dates))
    repository.reset_branch(READERS, repository.lookup_branch(WORK), from_snapshot_id=base)
    repository.delete_branch(WORK)
    return tally


def _message(plan: Plan, old: Plan | None, tally: _Tally, *, whole: bool) -> str:
    """Say in a commit what it brings."""
    new = [f"{plan.taken[one]:%Y-%m-%d}" for one in plan.dates[len(old.dates) if old else 0 :]]
    days = ", ".join(new) if len(new) < 4 else f"{new[0]} to {new[-1]}"
    told = f"{len(new)} date{'s' * (len(new) != 1)} {'added' if old else 'filled'}: {days}"
    if old:
        told += f"; {tally.refilled:,} pixels of earlier dates filled anew"
    return told if whole else f"unfinished, {tally.finished} of {len(plan.blocks)} blocks of: {told}"


def ahead(todo: Sequence[Todo], load: Callable[[Todo], Seen]) -> Iterator[tuple[Todo, Seen]]:
    """Give each block as it was read; the next one is read while this one is worked on."""
    with ThreadPoolExecutor(1) as reader:
        coming = reader.submit(load, todo[0]) if todo else None
        for at, one in enumerate(todo):
            assert coming is not None
            seen = coming.result()
            coming = reader.submit(load, todo[at + 1]) if at + 1 < len(todo) else None
            yield one, seen


def _lay_out(store: Any, plan: Plan, old: Plan | None) -> None:
    """Write all that a cube has but its pixels, or lengthen it."""
    made = empty(plan)
    if old is None:
        made.to_zarr(store, compute=False, mode="w", zarr_format=3, consolidated=False)
        return
    group: Any = zarr.open_group(store, mode="r+")
    for name in made.data_vars:
        group[name].resize((len(plan.dates), plan.grid.height, plan.grid.width))
    axes = ["time", "acquired"]
    for name in axes:
        del group[name]
    made.drop_vars([name for name in made.variables if name not in axes]).to_zarr(store, mode="a", consolidated=False)


def _store(group: Any, tile: Tile, at: Any, made: dict[str, Array]) -> None:
    for name, values in made.items():
        group[name][at, tile.rows, tile.cols] = values


def _load(plan: Plan, tile: Tile, old: Plan | None, before: Any) -> Seen:
    """Read a block: all of it from the source, or what is new from there and the rest from the cube."""
    if old is None:
        return load_block(plan, tile, plan.dates)
    seen = load_block(plan, tile, plan.dates, but=old.dates)
    top, left = tile.row - MARGIN, tile.col - MARGIN
    rows, cols = (
        slice(max(start, 0), min(start + size, whole))
        for start, size, whole in (
            (top, seen.numbers.shape[2], plan.grid.height),
            (left, seen.numbers.shape[3], plan.grid.width),
        )
    )
    inside = (slice(rows.start - top, rows.stop - top), slice(cols.start - left, cols.stop - left))
    places = [seen.at.index(one) for one in old.dates]
    quality = before["quality"][:, rows, cols]
    seen.classes[places, inside[0], inside[1]] = np.where(quality == ORIGINAL, CLEAR, THICK)
    for i, name in enumerate(plan.bands):
        numbers = before[name][:, rows, cols]
        shown = np.isin(quality, (ORIGINAL, CLOUD_LEFT))
        for place, values in zip(places, np.where(shown, numbers, plan.source.nodata), strict=True):
            seen.numbers[place, i, inside[0], inside[1]] = values
    return seen


def _update(
    plan: Plan, seen: Seen, made: dict[str, Array], group: Any, before: Any, old: Plan, tally: _Tally
) -> dict[str, Array]:
    """Write the new dates of a block, and of earlier ones the pixels for which a nearer date is known now."""
    tile, count = seen.tile, len(old.dates)
    rows, cols = seen.inside
    days = np.array([(one - plan.taken[0]).total_seconds() for one in plan.taken])
    new = [one for one in seen.at if one >= len(old.acquisitions)]
    shows = {
        one: (seen.classes[i, rows, cols] == CLEAR) & (seen.numbers[i][:, rows, cols] != plan.source.nodata).all(axis=0)
        for i, one in enumerate(seen.at)
        if one in set(new)
    }
    for at, date in enumerate(old.dates):
        source, quality = (before[name][at, tile.rows, tile.cols] for name in ("source", "quality"))
        apart = np.where(source < 0, np.inf, np.abs(days[source] - days[date]))
        nearest = np.full(apart.shape, np.inf)
        for one, where in shows.items():
            nearest = np.where(where, np.minimum(nearest, abs(days[one] - days[date])), nearest)
        changed = np.isin(quality, (FROM_DATE, CLOUD_LEFT, NODATA)) & (nearest < apart)
        tally.refilled += int(changed.sum())
        for name in made if changed.any() else ():
            there = group[name][at, tile.rows, tile.cols]
            group[name][at, tile.rows, tile.cols] = np.where(changed, made[name][at], there)
    added = {name: values[count:] for name, values in made.items()}
    _store(group, tile, slice(count, None), added)
    return added
