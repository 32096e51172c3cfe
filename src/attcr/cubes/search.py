"""The acquisitions of a place and a period: items of a STAC API, with those of one pass put together."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from attcr.addresses import hide_secrets, is_public_host, local_file, redact
from attcr.cubes.place import Box
from attcr.cubes.sources import Source
from attcr.errors import SceneError, warn
from attcr.references.choose import SAME_PASS, tile_of
from attcr.scenes.pystac_client import search_items

MOST_ITEMS = 10_000
"""Items of one search; a larger place or a longer period is several cubes."""
READS = ("http://", "https://", "s3://")
"""How addresses of files begin that an API may name."""


class NothingFoundError(SceneError):
    """A place and a period of which a catalog has nothing."""


@dataclass(frozen=True)
class Found:
    """One item, with what is needed of it."""

    id: str
    taken: datetime
    assets: Mapping[str, str]
    """Address of each asset that the source needs, by the asset's name."""
    offset: float
    """Reflectance of number 0."""
    tile: str
    """Empty where the item does not say."""
    box: Box
    cloudy: float
    """Part under cloud, 0 to 1; NaN where the item does not say."""
    processed: str
    """What sorts after an earlier processing of the same."""


@dataclass(frozen=True)
class Acquisition:
    """One pass over the place: items that were taken within an hour, which may overlap."""

    items: tuple[Found, ...]

    @property
    def taken(self) -> datetime:
        """When it began."""
        return min(one.taken for one in self.items)

    @property
    def name(self) -> str:
        """The ids of its items."""
        return " ".join(one.id for one in self.items)

    @property
    def offset(self) -> float:
        """Reflectance of number 0."""
        return self.items[0].offset

    @property
    def cloudy(self) -> float:
        """Mean part under cloud, of the items that say it; NaN where none does."""
        told = [one.cloudy for one in self.items if one.cloudy == one.cloudy]
        return sum(told) / len(told) if told else float("nan")


def search(
    source: Source, box: Box, first: datetime, last: datetime, bands: Sequence[str] = (), *, cloud: float = 1.0
) -> list[Acquisition]:
    """Give the acquisitions of a place from `first` up to `last`, in order.

    Items that lack a band or the mask are left out with a warning. `cloud` is the largest part under cloud that an item
    may have by what it says. Of an API on the open internet no item may lead to this machine or a private network.
    """
    if last < first:
        raise SceneError(f"The period ends on {last:%Y-%m-%d}, before it begins on {first:%Y-%m-%d}.")
    private = not is_public_host(source.api)

    def may_ask(href: str) -> bool:
        return private or is_public_host(href)

    told = search_items(
        source.api,
        [source.collection],
        bbox=box,
        datetime="/".join(f"{one.astimezone(timezone.utc):%Y-%m-%dT%H:%M:%SZ}" for one in (first, last)),
        most=MOST_ITEMS + 1,
        may_ask=may_ask,
    )
    items, count = {}, 0
    hosts: dict[str, bool] = {}
    left: dict[str, int] = {}
    for item in told:
        count += 1
        try:
            one = found_of(item, source, bands)
            if not (first <= one.taken <= last and overlaps(one.box, box)):
                raise SceneError("is of another place or time than was asked for")
            for href in one.assets.values():
                host = re.match(r"\w+://[^/]*", href)
                if href.startswith("http") and host and not hosts.setdefault(host[0], may_ask(href)):
                    raise SceneError(f"leads to {redact(host[0])}, which is not on the open internet")
        except SceneError as error:
            left[str(error)] = left.get(str(error), 0) + 1
            continue
        if not one.cloudy > cloud:
            items[one.id] = one
    if count > MOST_ITEMS:
        raise SceneError(
            f"{redact(source.api)} gives more than {MOST_ITEMS:,} items: take a smaller place or a shorter period."
        )
    for why, number in left.items():
        warn(f"Left out, {number} of {count} items: an item {why}.")
    if not items:
        raise NothingFoundError(
            f"{source.name} has nothing of {', '.join(f'{one:.4f}' for one in box)} between {first:%Y-%m-%d} and "
            f"{last:%Y-%m-%d}: look at the place, the period and the collection {source.collection!r}."
        )
    return merged(items.values())


def overlaps(one: Box, other: Box) -> bool:
    """Say whether two boxes share more than an edge."""
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def found_of(item: Mapping[str, Any], source: Source, bands: Sequence[str] = ()) -> Found:
    """Read an item that comes from anyone; say in the error what is wrong with it."""
    try:
        properties, assets = dict(item.get("properties") or {}), dict(item.get("assets") or {})
        taken = datetime.fromisoformat(
            str(properties.get("datetime") or properties.get("start_datetime")).replace("Z", "+00:00")
        )
        west, south, east, north = (float(one) for one in _flat(item["bbox"]))
        box = (west, south, east, north)
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise SceneError(f"has no date, no box or no assets ({hide_secrets(str(error))[:80]})") from error
    if not (-180 <= box[0] <= box[2] <= 180 and -90 <= box[1] <= box[3] <= 90):
        raise SceneError("has a box that is none: swapped, or over the 180th meridian")
    wanted = {source.bands[name].partition("/")[0] for name in source.choose(bands)} | ({source.mask[0]} - {""})
    hrefs: dict[str, str] = {}
    for name in sorted(wanted):
        asset = assets.get(name)
        href = asset.get("href") if isinstance(asset, Mapping) else None
        if not isinstance(href, str) or not href:
            raise SceneError(f"has no asset {name!r}")
        if not href.startswith(READS) or local_file(href) is not None or re.search(r"[\s\x00-\x1f]", href):
            raise SceneError(f"names {redact(href)[:100]!r} as its {name}, which is no address of a file elsewhere")
        hrefs[name] = href
    cloudy = properties.get("eo:cloud_cover")
    return Found(
        id=str(item.get("id")),
        taken=taken if taken.tzinfo else taken.replace(tzinfo=timezone.utc),
        assets=hrefs,
        offset=source.offset_of(properties),
        tile=tile_of(properties),
        box=box,
        cloudy=min(max(float(cloudy) / 100, 0.0), 1.0) if isinstance(cloudy, int | float) else float("nan"),
        processed=f"{properties.get('s2:processing_baseline') or properties.get('processing:version') or ''}",
    )


def _flat(box: Sequence[Any]) -> Sequence[Any]:
    """Give a box without its heights."""
    return box if len(box) == 4 else [box[0], box[1], box[3], box[4]]


def merged(items: Iterable[Found]) -> list[Acquisition]:
    """Put items of one pass together, in order of time; of two processings of one image the later one counts."""
    newest: dict[tuple[str, datetime], Found] = {}
    for one in sorted(items, key=lambda one: (one.processed, one.id)):
        newest[(one.tile or one.id, one.taken.replace(microsecond=0))] = one
    passes: list[list[Found]] = []
    for one in sorted(newest.values(), key=lambda one: (one.taken, one.id)):
        if passes and one.taken - passes[-1][0].taken <= SAME_PASS and one.offset == passes[-1][0].offset:
            passes[-1].append(one)
        else:
            passes.append([one])
    return [Acquisition(tuple(some)) for some in passes]


def steps(first: datetime, last: datetime, every: timedelta) -> list[datetime]:
    """Give the moments of a regular axis from `first` up to `last`."""
    count = int((last - first) / every) + 1
    return [first + i * every for i in range(count)]


def period(first: str, last: str) -> tuple[datetime, datetime]:
    """Read a period as people write it: its days belong to it whole."""
    return _day(first), _day(last) + timedelta(days=1) - timedelta(seconds=1)


def _day(text: str) -> datetime:
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=timezone.utc)
    except ValueError:
        raise SceneError(f"{text!r} is no day: write it as 2024-05-01.") from None
