"""STAC searches: items of an API, page by page."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import urljoin

from attcr.addresses import hide_secrets, redact
from attcr.errors import SceneError
from attcr.extras import needed

PAGE = 100
"""Items to request at a time; the default of many servers is ten."""
PATIENCE, PAGE_SECONDS, PAGE_BYTES = 30.0, 120.0, 64 << 20
"""Seconds without an answer, seconds for a whole page, and bytes of a page, after which a server is given up."""


def search_items(
    url: str,
    collections: Sequence[str],
    *,
    bbox: Sequence[float] | None = None,
    datetime: str | None = None,
    most: int | None = None,
    may_ask: Callable[[str], bool] = lambda href: True,
) -> Iterator[dict[str, Any]]:
    """Give the items that a STAC API finds, as plain values, at most `most`.

    `may_ask` says of each address that a page or a redirection leads to whether it may be asked.
    """
    with needed():
        from pystac_client import Client
        from pystac_client.exceptions import APIError
        from pystac_client.stac_api_io import StacApiIO
    asking = StacApiIO()
    asking.session.hooks["response"].append(lambda answer, **_: _read(answer, may_ask))
    try:
        api = Client.open(
            url,
            stac_io=asking,
            request_modifier=lambda request: _refused(str(request.url), may_ask),
            timeout=PATIENCE,
        )
        found = api.search(
            collections=list(collections),
            bbox=list(bbox) if bbox else None,
            datetime=interval_of(datetime) if datetime else None,
            limit=PAGE,
            max_items=most,
        )
        yield from found.items_as_dicts()
    except (APIError, OSError, ValueError, LookupError, TypeError, AttributeError, NotImplementedError) as error:
        raise SceneError(f"{redact(url)} cannot be searched: {hide_secrets(str(error))}") from error


def _refused(href: str, may_ask: Callable[[str], bool]) -> None:
    """Refuse an address that may not be asked."""
    if not may_ask(href):
        raise ValueError(f"it leads to {redact(href)}, which is not on the open internet")


def _read(answer: Any, may_ask: Callable[[str], bool]) -> Any:
    """Read a whole answer within limits, and look at where it sends one on to."""
    if answer.is_redirect:
        _refused(urljoin(answer.url, answer.headers["Location"]), may_ask)
    began, parts, size = time.monotonic(), [], 0
    for part in answer.iter_content(1 << 16):
        parts.append(part)
        size += len(part)
        if size > PAGE_BYTES or time.monotonic() - began > PAGE_SECONDS:
            raise ValueError(f"a page is larger than {PAGE_BYTES >> 20} MiB, or takes longer than {PAGE_SECONDS:.0f} s")
    answer._content = b"".join(parts)
    return answer


def interval_of(datetime: str) -> str:
    """Turn dates as a search takes them (2024, 2024-06/2024-07-03, ../2024-06-01) into full times, to the second."""
    with needed():
        from pystac_client import ItemSearch
    try:
        told = str(ItemSearch("", datetime=datetime).get_parameters()["datetime"])
    except Exception as error:  # it raises no kind of its own
        raise SceneError(f"{datetime!r} are not dates: write them as 2024-06-01/2024-06-30.") from error
    return told if "/" in told else f"{told}/{told}"
