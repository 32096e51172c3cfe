"""Choose references: which other images see the ground under a scene's clouds.

A greedy cover, near days before far ones. In a STAC API only the overviews of masks are read for it, with a few
requests each, and no bands. What works on arrays alone needs neither rasterio nor pystac.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attcr.addresses import local_file, redact
from attcr.errors import SceneError, warn
from attcr.extras import need
from attcr.references.harmonise import Float32
from attcr.scenes.clouds.masks import CLEAR, THIN, Classes, classes_of_qa_pixel, classes_of_raster, classes_of_scl

if TYPE_CHECKING:
    from attcr.scenes.scene import Profile, Scene

HALF_LIFE = 60
"""Days after which a reference counts half."""
OTHER_SIDE, AGAIN = 0.25, 0.05
"""What a cell is still worth once a reference sees it: to one on the other side in time, and on the same side."""
LEAST_ADDED = 0.01
"""The smallest part of the cloud that a reference must add to be taken."""
COARSE = 256
"""Number of cells along the longer side of a scene; clouds are compared on these cells."""
LOOKED_AT = 4
"""How many candidates are looked at for each one that may be taken."""
SAME_PASS = timedelta(hours=1)
"""Images no further apart in time are from one pass, with the same clouds."""
MOST_FOUND = 500
"""The most items that are taken from a search."""

_log = logging.getLogger(__name__)


def nearness(days: float) -> float:
    """Give what a reference so many days away is worth, 1 on the same day."""
    return 1 / (1 + abs(days) / HALF_LIFE)


def choose_references(
    cloud: NDArray[np.bool_], shares: Sequence[Float32], days: Sequence[float], most: int
) -> list[int]:
    """Give the positions of the references, `most` at most, that together see the most ground under cloud (h, w).

    `shares` (h, w) say how much of each cell a reference sees clearly, and `days` how many days after the scene it is.
    The one that sees most of the cloud comes first, then each time the one that adds most. Where a chosen reference
    already sees the ground, one on the other side in time still adds a little, and one on the same side less.
    """
    left = {i: np.where(cloud, share, 0).astype(np.float32) for i, share in enumerate(shares)}
    unseen = {side: cloud.astype(np.float32) for side in ("before", "after")}
    cells = max(int(cloud.sum()), 1)
    chosen: list[int] = []
    while left and len(chosen) < most:
        worth = {i: _adds(share, unseen, days[i]) / cells for i, share in left.items()}
        best = max(worth, key=lambda i: (worth[i], -i))
        if worth[best] < LEAST_ADDED:
            break
        chosen.append(best)
        unseen[_side(days[best])] *= 1 - left.pop(best)
    return chosen


def _side(days: float) -> str:
    return "after" if days > 0 else "before"


def _adds(share: Float32, unseen: Mapping[str, Float32], days: float) -> float:
    """Give how many cells a reference adds, each weighted by what it is worth."""
    own = unseen[_side(days)]
    other = unseen["before" if days > 0 else "after"]
    cells = share * (own * other + OTHER_SIDE * own * (1 - other) + AGAIN * (1 - own))
    return float(cells.sum(dtype=np.float64)) * nearness(days)


@dataclass(frozen=True)
class Candidate:
    """An item that may be a reference, by what its metadata says."""

    id: str
    href: str
    """Where the item is."""
    taken: datetime
    tile: str
    """The product's tile, or path and row; empty where the item does not say."""
    cloudy: float
    """Part of it under cloud, from 0 to 1; 0.5 where the item does not say."""
    mask: tuple[str, str] | None
    """ "scl" or "qa_pixel", and where it is."""

    def days_from(self, taken: datetime) -> float:
        """Days after a day; negative before it."""
        return (self.taken - taken).total_seconds() / 86400


def candidate_of(item: Mapping[str, Any], api: str) -> Candidate | None:
    """Turn an item that an API found into a candidate; None where it cannot be one.

    An item from elsewhere must not name a file of this machine.
    """
    from attcr.scenes.pystac import COMPANIONS

    properties, assets = item.get("properties") or {}, item.get("assets") or {}
    taken = _time_of(properties.get("datetime") or properties.get("start_datetime"))
    hrefs = {key.lower(): str(asset.get("href") or "") for key, asset in assets.items()}
    if taken is None or not hrefs or any(local_file(href) is not None for href in hrefs.values()):
        return None
    links = {str(link.get("rel")): str(link.get("href") or "") for link in item.get("links") or ()}
    href = links.get("self") or f"{api.rstrip('/')}/collections/{item.get('collection')}/items/{item.get('id')}"
    if local_file(href) is not None:
        return None
    masks = [(COMPANIONS[key], href) for key, href in hrefs.items() if key in COMPANIONS]
    cloudy = properties.get("eo:cloud_cover")
    return Candidate(
        id=str(item.get("id")),
        href=href,
        taken=taken,
        tile=tile_of(properties),
        cloudy=min(max(float(cloudy) / 100, 0.0), 1.0) if isinstance(cloudy, int | float) else 0.5,
        mask=masks[0] if masks else None,
    )


def tile_of(properties: Mapping[str, Any]) -> str:
    """Give the tile that an item names; empty where it names none."""
    for keys in (
        ("grid:code",),
        ("s2:mgrs_tile",),
        ("mgrs:utm_zone", "mgrs:latitude_band", "mgrs:grid_square"),
        ("landsat:wrs_path", "landsat:wrs_row"),
    ):
        told = [properties.get(key) for key in keys]
        if all(one is not None for one in told):
            return f"{keys[0]} {' '.join(map(str, told))}"
    return ""


def _time_of(text: object) -> datetime | None:
    try:
        taken = datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    except ValueError:
        return None
    return taken if taken.tzinfo else taken.replace(tzinfo=timezone.utc)


@dataclass(frozen=True)
class Wanted:
    """What is looked for: the ground under a scene's clouds."""

    id: str
    taken: datetime
    tile: str
    profile: Profile
    cloud: NDArray[np.bool_]
    """(h, w) cells of the coarse grid that are under cloud."""


def coarse_shape(profile: Profile) -> tuple[int, int]:
    """Give the rows and columns of the coarse grid of a scene."""
    step = max(max(profile.height, profile.width) / COARSE, 1)
    return max(round(profile.height / step), 1), max(round(profile.width / step), 1)


def rank(wanted: Wanted, candidates: Iterable[Candidate], days: float) -> list[Candidate]:
    """Give the candidates that may see the scene's ground, the most promising by their metadata first.

    They are from another pass, within `days` of the scene, and from its tile where both name one.
    """

    def may(one: Candidate) -> bool:
        apart = abs(one.taken - wanted.taken)
        same_tile = not wanted.tile or not one.tile or one.tile == wanted.tile
        return one.id != wanted.id and SAME_PASS < apart <= timedelta(days=days) and same_tile

    unique = {one.href: one for one in candidates if may(one)}

    def promise(one: Candidate) -> float:
        return (1 - one.cloudy) * nearness(one.days_from(wanted.taken))

    return sorted(unique.values(), key=lambda one: (-promise(one), one.taken, one.id))


def few_requests() -> Any:
    """Keep GDAL from requesting files that may lie beside a file."""
    return need("rasterio").Env(GDAL_DISABLE_READDIR_ON_OPEN="EMPTY_DIR")


def read_mask(kind: str, href: str, profile: Profile) -> tuple[NDArray[np.bool_], Classes]:
    """Read a mask's overview on a scene's coarse grid: where it has data, and the classes there, (h, w) each.

    `kind` is scl or qa_pixel; anything else stands for a raster that is 0 where the ground is clear.
    """
    from attcr.scenes.dataset import open_dataset, reading

    blank = 1 if kind == "qa_pixel" else 0
    nearest = need("rasterio.enums").Resampling.nearest
    with (
        few_requests(),
        reading(redact(href)),
        open_dataset(href, "never") as dataset,
        _on_grid(dataset, profile, blank) as seen,
    ):
        values = seen.read(1, out_shape=coarse_shape(profile), resampling=nearest)
    if kind == "scl":
        return values > 1, classes_of_scl(values)  # 0 is no data, 1 defective
    if kind == "qa_pixel":
        return (values.astype(np.uint16) & 1) == 0, classes_of_qa_pixel(values)
    return np.ones(values.shape, bool), classes_of_raster(values)


def _on_grid(dataset: Any, profile: Profile, blank: int) -> Any:
    """Give a dataset on a scene's grid; a dataset with the same extent keeps its own pixels."""
    if not dataset.crs or not profile.crs:
        return dataset
    t, own = profile.transform, dataset.transform
    scale = profile.width / dataset.width
    same = (t.a * scale, t.b * scale, t.c, t.d * scale, t.e * scale, t.f)
    if (
        dataset.crs == profile.crs
        and dataset.height * scale == profile.height
        and np.allclose(tuple(own)[:6], same, rtol=1e-9, atol=1e-6)
    ):
        return dataset
    return need("rasterio.vrt").WarpedVRT(
        dataset,
        crs=profile.crs,
        transform=profile.transform,
        width=profile.width,
        height=profile.height,
        src_nodata=blank,
        nodata=blank,
    )


def look(candidate: Candidate, profile: Profile) -> Float32 | None:
    """Give how much of each cell a candidate sees clearly; None where its mask cannot be read.

    A candidate without a mask is taken to see the same share of every cell, the one its metadata gives for the whole.
    """
    if candidate.mask is None:
        return np.full(coarse_shape(profile), 1 - candidate.cloudy, np.float32)
    try:
        data, classes = read_mask(*candidate.mask, profile)
    except SceneError as error:
        _log.info("%s is no reference: %s", redact(candidate.href), error)
        return None
    return np.asarray(data & (classes == CLEAR), np.float32)


def choose_candidates(
    wanted: Wanted,
    ranked: Sequence[Candidate],
    most: int,
    look_at: Callable[[Candidate, Profile], Float32 | None] = look,
) -> list[Candidate]:
    """Give the candidates, `most` at most, that together see the most ground under a scene's clouds.

    A few times as many are looked at, beginning with the most promising.
    """
    seen: dict[Candidate, Float32] = {}
    for one in ranked:
        share = look_at(one, wanted.profile)
        if share is not None:
            seen[one] = share
        if len(seen) >= LOOKED_AT * most:
            break
    looked = list(seen)
    days = [one.days_from(wanted.taken) for one in looked]
    return [looked[i] for i in choose_references(wanted.cloud, list(seen.values()), days, most)]


def box_around(cloud: NDArray[np.bool_], footprint: Sequence[float]) -> tuple[float, ...]:
    """Give a small box in degrees around the middle of the cloud: an image that sees most of the cloud covers it."""
    west, south, east, north = footprint
    rows, cols = np.nonzero(cloud)
    down, across = (float(np.median(at) + 0.5) / size for at, size in zip((rows, cols), cloud.shape, strict=True))
    lon, lat = west + across * (east - west), north - down * (north - south)
    near = [abs(size) / 50 for size in (east - west, north - south)]
    return tuple(math.floor(one * 1e6) / 1e6 for one in (lon - near[0], lat - near[1], lon + near[0], lat + near[1]))


def search_references(
    source: str, scene: Scene, mask: str, *, thick_only: bool, most: int, days: int
) -> tuple[str, ...]:
    """Give the addresses of the references that see the ground under a scene's clouds best, the best one first.

    They come from the item's own collection and lie within `days` of it, `most` at most. Where the scene's mask shows
    no cloud to fill, the list is empty.
    """
    from attcr.scenes.pystac import footprint, origin_of, when
    from attcr.scenes.pystac_client import search_items

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
    chosen = choose_candidates(wanted, rank(wanted, found, days), most)
    _log.info("%d items found, references: %s", len(found), " ".join(redact(one.href) for one in chosen) or "none")
    if not chosen:
        warn(
            f"No date within {days} days sees the ground under the clouds of {redact(source)} ({len(found)} were "
            "found): allow more with `reference_days`, or name references."
        )
    return tuple(one.href for one in chosen)


def _cloud(scene: Scene, mask: str, thick_only: bool) -> NDArray[np.bool_]:
    """Give the cells to be filled; all cells where only a detector could say which."""
    from attcr.scenes.clouds.find import mask_file
    from attcr.scenes.pystac import COMPANIONS

    name = mask.partition("=")[0]
    href = mask_file(scene, mask)
    if href is None:
        name, href = next(((key, scene.companions[key]) for key in COMPANIONS if key in scene.companions), ("", None))
    if href is None:
        return np.ones(coarse_shape(scene.profile), bool)
    data, classes = read_mask(name, href, scene.profile)
    cloudy = (classes > THIN) if thick_only else (classes > CLEAR)
    return np.asarray(data & cloudy)
