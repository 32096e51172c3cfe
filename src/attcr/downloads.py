"""Downloads: streamed in pieces, bounded in size and time, and given up when asked."""

import os
import threading
import time
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from http.client import HTTPResponse
from typing import IO, ParamSpec, TypeVar
from urllib.parse import unquote, urlsplit

PIECE = 1 << 20
"""Bytes that are held at most of a download that goes to a file."""
_STALL = 60  # seconds without a byte
_SLACK, _SLOWEST = 120, 16 << 10  # seconds for any file, and bytes a second beyond

LIMIT_VARIABLE = "ATTCR_DOWNLOAD_GIB"
"""The environment variable that says how many GiB of weights are taken, where 2 are too few."""

P = ParamSpec("P")
R = TypeVar("R")


def seconds_for(size: int) -> float:
    """Give how long a download of so many bytes may take: a server that drips is no server."""
    return _SLACK + size / _SLOWEST


def download_limit() -> int:
    """Give how many bytes of weights are taken from elsewhere: 2 GiB unless the environment asks for more."""
    asked = os.environ.get(LIMIT_VARIABLE, "").strip()
    return (int(asked) if asked.isdecimal() else 2) << 30


def copy(
    pieces: Iterable[bytes], file: IO[bytes], *, most: int, seconds: float, stop: threading.Event | None = None
) -> int:
    """Write pieces to a file and give their bytes; OSError past `most` of them, TimeoutError past so many seconds."""
    until = time.monotonic() + seconds
    copied = 0
    for piece in pieces:
        copied += len(piece)
        if stop is not None and stop.is_set():
            raise InterruptedError("the download was given up")
        if copied > most:
            raise OSError(f"it holds more than the {most:,} bytes that are taken")
        if time.monotonic() > until:
            raise TimeoutError(f"it arrived too slowly: {copied:,} bytes in {seconds:.0f} s")
        file.write(piece)
    return copied


@contextmanager
def open_http(href: str) -> Iterator[tuple[int | None, Iterator[bytes]]]:
    """Ask a web server for a file; give how long it says that it is, and its pieces as they come."""
    with urllib.request.urlopen(_request(href), timeout=_STALL) as answer:
        told = answer.headers.get("Content-Length")
        size = int(told) if told is not None and told.strip().isdecimal() else None
        yield size, _pieces(answer, size)


def _pieces(answer: HTTPResponse, size: int | None) -> Iterator[bytes]:
    came = 0
    while piece := answer.read1(PIECE):
        came += len(piece)
        yield piece
    if size is not None and came != size:
        raise OSError(f"it ended after {came:,} of {size:,} bytes")


def _request(href: str) -> urllib.request.Request:
    """Give a request with the address's user and password, if it has them, in their header."""
    parts = urlsplit(href)
    user, at, host = parts.netloc.rpartition("@")
    request = urllib.request.Request(parts._replace(netloc=host).geturl())
    if at:  # for this host, not for one that it sends on to
        login = b64encode(unquote(user).encode()).decode()
        request.add_unredirected_header("Authorization", f"Basic {login}")
    return request


def background(call: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> Future[R]:
    """Call in a thread that the end of the process does not wait for, so that a signal is heard meanwhile."""
    future: Future[R] = Future()

    def run() -> None:
        try:
            future.set_result(call(*arguments, **named))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future
