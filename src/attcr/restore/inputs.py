"""What the files that decide a result are: a run that is resumed must find the ones that it began with."""

from __future__ import annotations

import hashlib
import os
from http.client import HTTPException
from pathlib import Path
from urllib.request import Request, urlopen

from attcr.addresses import hide_secrets, is_item, local_file, redact
from attcr.errors import SceneError

ENDS = 1 << 16
"""Bytes at each end of a file that are looked at: some file systems keep times to the second only."""
LARGEST_ITEM = 1 << 22
"""Bytes of a STAC item that are looked at."""
PATIENCE = 10.0
"""Seconds that a server has to tell of a file."""


def identity_of(href: str) -> tuple[str, ...] | None:
    """Give an identity that changes when a file does; None if its server does not say."""
    path = local_file(href)
    if path is not None:
        return (redact(href), *_of_file(path))
    url = href.removeprefix("/vsicurl/")
    told = _of_server(url) if url.startswith(("http://", "https://")) else None
    return None if told is None else (redact(href), *told)


def _of_file(path: Path) -> tuple[str, ...]:
    if not os.path.isfile(path):  # noqa: PTH113  # it may be too long for a name
        return ()
    try:
        with path.open("rb") as file:
            stat = os.fstat(file.fileno())
            digest = hashlib.sha256(file.read(ENDS))
            file.seek(max(stat.st_size - ENDS, 0))
            digest.update(file.read(ENDS))
    except OSError as error:
        raise SceneError(f"{path} cannot be read: {error.strerror}. Check its rights.") from error
    return str(stat.st_size), str(stat.st_mtime_ns), digest.hexdigest()


def _of_server(url: str) -> tuple[str, ...] | None:
    """Ask for one byte: what may be read may not always be asked about (HEAD) with a signed address.

    An item is asked for as a whole: APIs make it again each time, and do not say when it was changed.
    """
    try:
        with urlopen(Request(url, headers={} if is_item(url) else {"Range": "bytes=0-0"}), timeout=PATIENCE) as answer:
            if is_item(url):
                return _of_item(answer.read(LARGEST_ITEM))
            told = {name: answer.headers.get(name) or "" for name in ("ETag", "Last-Modified", "Content-Range")}
            size = told["Content-Range"].rpartition("/")[2] or answer.headers.get("Content-Length") or ""
    except (OSError, HTTPException, ValueError):
        return None
    if not told["ETag"] and not told["Last-Modified"]:
        return None
    return told["ETag"], told["Last-Modified"], size


def _of_item(text: bytes) -> tuple[str, ...]:
    """Give a sha256 of an item; signatures in its addresses are other ones each time."""
    return (hashlib.sha256(hide_secrets(text.decode(errors="replace")).encode()).hexdigest(),)
