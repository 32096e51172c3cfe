"""The remote files of a scene, read whole ahead of the network and laid down as local ones."""

import io
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import obstore

from attcr.addresses import is_local, redact
from attcr.downloads import PIECE, copy, open_http, seconds_for
from attcr.fleet.manifest import Work, prune_item
from attcr.fleet.settings import options_of
from attcr.fleet.store import open_bucket, split_url
from attcr.restore.options import RestoreOptions

FETCH_LIMIT = 2 << 30
"""Bytes of a scene up to which it is fetched whole, ahead of the network; GDAL reads a larger one in place."""
MEMORY_LIMIT = 256 << 20
"""The same where it is held in memory, on its way to a worker elsewhere; a larger one is the worker's to fetch."""


@dataclass(frozen=True)
class Fetched:
    """What was read ahead of one scene."""

    files: Mapping[str, bytes | Path] = field(repr=False)
    """Address of each remote file to its content, or to the local file that holds it."""

    def size(self, href: str) -> int | None:
        """Give the bytes of a file; None where it was not fetched."""
        content = self.files.get(href)
        return content.stat().st_size if isinstance(content, Path) else None if content is None else len(content)


def fetch_ahead(
    work: Work, common: RestoreOptions, folder: Path | None = None, stop: threading.Event | None = None
) -> Fetched | None:
    """Fetch what a worker will need for a scene; None where that fails, for the worker tries again and says why."""
    try:
        options = options_of(work, common)
        return fetch(prune_item(work, bands=options.bands, mask=options.mask), options, folder, stop)
    except Exception:
        return None


def fetch(
    work: Work, options: RestoreOptions, folder: Path | None = None, stop: threading.Event | None = None
) -> Fetched | None:
    """Read the remote files of a scene whole, into a folder where one is given; what is local or too large stays.

    Without a folder they are held in memory, and None is given where that would be too much.
    """
    files: dict[str, bytes | Path] = {}
    room = FETCH_LIMIT
    for href in _addresses(work, options):
        if is_local(href) or href.startswith("/vsi"):
            continue
        with _opened(href) as (size, pieces):
            if size is None or size > room:
                continue
            if stop is not None and stop.is_set():
                raise InterruptedError("the scene was given up")
            room -= size
            if folder is None and FETCH_LIMIT - room > MEMORY_LIMIT:
                return None
            with _place(href, folder).open("wb") if folder else io.BytesIO() as file:
                copy(pieces, file, most=size, seconds=seconds_for(size), stop=stop)
                files[href] = file.getvalue() if isinstance(file, io.BytesIO) else Path(file.name)
    return Fetched(files)


def lay_down(work: Work, fetched: Fetched, folder: Path) -> str | list[str]:
    """Write what was fetched into a folder and give the source that `restore_scene` takes."""
    places = {}
    for href, content in fetched.files.items():
        path = content if isinstance(content, Path) else _place(href, folder)
        if isinstance(content, bytes):
            path.write_bytes(content)
        places[href] = str(path)
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


@contextmanager
def _opened(href: str) -> Iterator[tuple[int | None, Iterator[bytes]]]:
    """Give the size of a file, if it is known, and its pieces as they come."""
    if urlsplit(href).scheme in ("http", "https"):
        with open_http(href) as answer:
            yield answer
        return
    bucket, key = split_url(href)
    found = obstore.get(open_bucket(bucket), key)
    yield found.meta["size"], (bytes(piece) for piece in found.stream(min_chunk_size=PIECE))


def _place(href: str, folder: Path) -> Path:
    """Give a new file's path: its whole address, for the folders' names may tell the product.

    Addresses may differ in their query alone: those that come later get a folder of their own.
    """
    address = urlsplit(redact(href))
    names = [name for name in (address.netloc, *address.path.split("/")) if name not in ("", ".", "..")]
    path, count = folder.joinpath(*names), 0
    while path.exists():
        count += 1
        path = folder.joinpath(f"{count}", *names)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
