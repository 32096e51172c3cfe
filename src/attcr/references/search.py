"""Search for references: other dates of a STAC item that see the ground under its clouds."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import timedelta

import numpy as np
from numpy.typing import NDArray

from attcr.addresses import redact
from attcr.errors import SceneError, warn
from attcr.references.candidates import (
    Candidate,
    Wanted,
    box_around,
    candidate_of,
    choose,
    coarse_shape,
    rank,
    read_mask,
    tile_of,
)
from attcr.scenes.clouds.find import mask_file
from attcr.scenes.clouds.masks import CLEAR, THIN
from attcr.scenes.pystac import COMPANIONS, footprint, origin_of, when
from attcr.scenes.pystac_client import search_items
from attcr.scenes.scene import Scene

MOST_FOUND = 500
"""The most items that are taken from a search."""

_log = logging.getLogger(__name__)


def search_references(
    source: str, scene: Scene, mask: str, *, thick_only: bool, most: int, days: int
) -> tuple[str, ...]:
    """Give the addresses of other dates that see the ground under a scene's clouds best, the best one first.

    They come from the item's own collection and lie within `days` of it, `most` at most. Where the scene's mask shows
    no cloud to fill, the list is empty.
    """
    origin = origin_of(source)
    cloud = _cloud(scene, mask, thick_only)
    if not cloud.any():
        return ()
    taken, told_by = when(scene)
    _, box = footprint(scene.profile)
    if told_by != "item" or box is None:
        raise SceneError(
            f"{redact(source)} has no date or no location, so attcr cannot search for other dates: name them with "
            "`references`."
        )
    first, last = (taken + timedelta(days=shift) for shift in (-days, days))
    items = search_items(
        origin.api,
        [origin.collection],
        bbox=box_around(cloud, box),
        datetime="/".join(f"{day:%Y-%m-%dT%H:%M:%SZ}" for day in (first, last)),
        most=MOST_FOUND,
    )
    found = [one for one in (candidate_of(item, origin.api) for item in items) if one is not None]
    wanted = Wanted(origin.id, taken, tile_of(origin.properties), scene.profile, cloud)
    ranked = rank(wanted, found, days)
    chosen = choose(wanted, ranked, most)
    _tell(source, found, chosen, days)
    return tuple(one.href for one in chosen)


def _tell(source: str, found: Sequence[Candidate], chosen: Sequence[Candidate], days: int) -> None:
    _log.info("%d items found, references: %s", len(found), " ".join(redact(one.href) for one in chosen) or "none")
    if not chosen:
        warn(
            f"No date within {days} days sees the ground under the clouds of {redact(source)} ({len(found)} were "
            "found): allow more with `reference_days`, or name references."
        )


def _cloud(scene: Scene, mask: str, thick_only: bool) -> NDArray[np.bool_]:
    """Give the cells to be filled; all cells where only a detector could say which."""
    name = mask.partition("=")[0]
    href = mask_file(scene, mask)
    if href is None:
        name, href = next(((key, scene.companions[key]) for key in COMPANIONS if key in scene.companions), ("", None))
    if href is None:
        return np.ones(coarse_shape(scene.profile), bool)
    data, classes = read_mask(name, href, scene.profile)
    cloudy = (classes > THIN) if thick_only else (classes > CLEAR)
    return np.asarray(data & cloudy)
