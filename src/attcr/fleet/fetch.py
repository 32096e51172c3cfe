"""The remote files of a scene, read whole ahead of the network and laid down as local ones."""

from __future__ import annotations

import json
import urllib.request
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

import obstore

from attcr.addresses import is_local, redact
from attcr.fleet.manifest import Work, prune_item
from attcr.fleet.settings import options_of
from attcr.fleet.store import open_bucket, split_url
from attcr.restore.options import RestoreOptions

FETCH_LIMIT = 2 << 30
"""Bytes of a scene up to which it is fetched whole, ahead of the network; GDAL reads a larger one in place."""
_TIMEOUT = 120


@dataclass(frozen=True)
class Fetched:
    """What was read ahead of one scene."""

    files: Mapping[str, bytes] = field(repr=False)
    """Address of each remote file to its content."""


def fetch_ahead(work: Work, common: RestoreOptions) -> Fetched | None:
    """Fetch what a worker will need for a scene; None where that fails, for the worker tries again and says why."""
    try:
        options = options_of(work, common)
        return fetch(prune_item(work, bands=options.bands, mask=options.mask), options)
    except Exception:
        return None


def fetch(work: Work, options: RestoreOptions) -> Fetched:
    """Read the remote files of a scene whole; what is local or too large is left where it is."""
    files: dict[str, bytes] = {}
    room = FETCH_LIMIT
    for href in _addresses(work, options):
        if is_local(href) or href.startswith("/vsi"):
            continue
        web = urlsplit(href).scheme in ("http", "https")
        content = _read_http(href, room) if web else _read_bucket(href, room)
        if content is not None:
            files[href] = content
            room -= len(content)
    return Fetched(files)


def lay_down(work: Work, fetched: Fetched, folder: Path) -> str | list[str]:
    """Write what was fetched into a folder and give the source that `restore_scene` takes."""
    places = {href: _write(href, content, folder) for href, content in fetched.files.items()}
    if not work.item:
        return [places.get(href, href) for href in work.hrefs]
    item = json.loads(work.item)
    for asset in item["assets"].values():
        asset["href"] = places.get(asset["href"], asset["href"])
    item["links"] = []
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "item.json").write_text(json.dumps(item))
    return str(folder / "item.json")


def _addresses(work: Work, options: RestoreOptions) -> tuple[str, ...]:
    """Give the files that a scene will surely be read from whole."""
    if not work.item:
        return tuple(href for href in work.hrefs if not redact(href).lower().endswith((".json", ".geojson")))
    # Of an item with more bands than the network takes, GDAL reads the few that it needs in place.
    return work.hrefs if options.bands and len(work.hrefs) <= len(options.bands) + 1 else ()


def _read_http(href: str, room: int) -> bytes | None:
    """Read a file of at most `room` bytes; None where it is larger or does not say how large it is."""
    with urllib.request.urlopen(_request(href), timeout=_TIMEOUT) as answer:
        size = answer.headers.get("Content-Length")
        return answer.read() if size is not None and int(size) <= room else None


def _read_bucket(href: str, room: int) -> bytes | None:
    """Read an object of at most `room` bytes; None where it is larger."""
    bucket, key = split_url(href)
    answer = obstore.get(open_bucket(bucket), key)
    return bytes(answer.bytes()) if answer.meta["size"] <= room else None


def _request(href: str) -> urllib.request.Request:
    """Give a request with the address's user and password, if it has them, in their header."""
    parts = urlsplit(href)
    user, at, host = parts.netloc.rpartition("@")
    request = urllib.request.Request(parts._replace(netloc=host).geturl())
    if at:  # for this host, not for one that it sends on to
        login = b64encode(unquote(user).encode()).decode()
        request.add_unredirected_header("Authorization", f"Basic {login}")
    return request


def _write(href: str, content: bytes, folder: Path) -> str:
    """Write one fetched file under its whole address, for the folders' names may tell the product."""
    address = urlsplit(redact(href))
    names = [name for name in (address.netloc, *address.path.split("/")) if name not in ("", ".", "..")]
    path = folder.joinpath(*names)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return str(path)
