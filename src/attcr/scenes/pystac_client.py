"""STAC searches: items of an API, page by page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from attcr.addresses import hide_secrets, redact
from attcr.errors import SceneError
from attcr.extras import needed

PAGE = 100
"""Items to request at a time; the default of many servers is ten."""


def search_items(
    url: str,
    collections: Sequence[str],
    *,
    bbox: Sequence[float] | None = None,
    datetime: str | None = None,
    most: int | None = None,
) -> Iterator[dict[str, Any]]:
    """Give the items that a STAC API finds, as plain values, at most `most`."""
    with needed():
        from pystac_client import Client
        from pystac_client.exceptions import APIError
    try:
        found = Client.open(url).search(
            collections=list(collections),
            bbox=list(bbox) if bbox else None,
            datetime=interval_of(datetime) if datetime else None,
            limit=PAGE,
            max_items=most,
        )
        yield from found.items_as_dicts()
    except (APIError, OSError, ValueError, LookupError, TypeError, NotImplementedError) as error:
        raise SceneError(f"{redact(url)} cannot be searched: {hide_secrets(str(error))}") from error


def interval_of(datetime: str) -> str:
    """Turn dates as a search takes them (2024, 2024-06/2024-07-03, ../2024-06-01) into full times, to the second."""
    with needed():
        from pystac_client import ItemSearch
    try:
        told = str(ItemSearch("", datetime=datetime).get_parameters()["datetime"])
    except Exception as error:  # it raises no kind of its own
        raise SceneError(f"{datetime!r} are not dates: write them as 2024-06-01/2024-06-30.") from error
    return told if "/" in told else f"{told}/{told}"
