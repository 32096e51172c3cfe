"""Who may ask, for what, from where: API keys, hosts and addresses that are allowed, files that are taken."""

import http.client
import re
import socket
import ssl
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import quote, unquote, urljoin, urlsplit

from attcr.addresses import is_public, redact
from attcr.downloads import PIECE, copy
from attcr.errors import SceneError
from attcr.serve.settings import Limits

SUFFIXES = (".tif", ".tiff", ".jp2", ".png", ".jpg", ".jpeg", ".webp")
"""How the names of files end that are taken: a raster with pixels of its own, no archive and no list of others."""
PRIVATE = "private:"
"""Before an allowed host: it may be at an address inside a private network."""
MOST_REDIRECTS = 5
_CONNECT = 20.0  # seconds
_MAGIC = (
    (b"II*\0", "TIFF"), (b"MM\0*", "TIFF"), (b"II+\0", "TIFF"), (b"MM\0+", "TIFF"),
    (b"\x89PNG\r\n\x1a\n", "PNG"), (b"\xff\xd8\xff", "JPEG"),
    (b"\0\0\0\x0cjP  \r\n\x87\n", "JPEG 2000"), (b"\xff\x4f\xff\x51", "JPEG 2000"),
)  # fmt: skip
_HEAD = 16
_ASCII = "".join(map(chr, range(33, 127)))


def as_ascii(host: str) -> str:
    """Give a host as name servers know it: bücher.example is xn--bcher-kva.example."""
    return host if host.isascii() else host.encode("idna").decode()


def check_size(name: str, width: int, height: int, bands: int, limits: Limits) -> None:
    """Refuse a raster that is too large, before a pixel is read."""
    if width * height > limits.pixels:
        raise SceneError(
            f"{name} has {width} x {height} pixels and this server takes {limits.pixels:,}: cut it with "
            "gdal_translate -srcwin."
        )
    if bands > limits.bands:
        raise SceneError(f"{name} has {bands} bands and this server takes {limits.bands}: leave some out.")


class NotAllowedError(SceneError):
    """An address that is not to be read from here."""


def sniff(head: bytes) -> str | None:
    """Give the format that a file's first bytes are of, if it is one that is taken."""
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "WebP"
    return next((kind for magic, kind in _MAGIC if head.startswith(magic)), None)


def check_file(path: Path) -> None:
    """Refuse what is no raster by its first bytes: a VRT, an archive, text."""
    with path.open("rb") as file:
        head = file.read(_HEAD)
    if sniff(head) is None:
        raise NotAllowedError(
            f"{path.name} begins with {head[:8]!r}, which is none of the accepted formats: send GeoTIFF, "
            "JPEG 2000, PNG, JPEG or WebP; no VRT and no archive."
        )


def file_name(text: str) -> str:
    """Give a name that a file of the store can have; what does not end like a raster gets an ending."""
    last = re.split(r"[/\\]", text)[-1]
    name = re.sub(r"[^A-Za-z0-9._-]", "_", last).lstrip(".-")[-120:].lstrip(".-") or "scene"
    return name if name.lower().endswith(SUFFIXES) else f"{name}.tif"


@dataclass(frozen=True)
class Hosts:
    """The hosts that files may be fetched from."""

    allowed: Sequence[str]

    def rule(self, host: str, port: int | None) -> str | None:
        """Give the rule that allows a host, if one does."""
        for rule in self.allowed:
            name, _, wanted = as_ascii(rule.removeprefix(PRIVATE).lower()).partition(":")
            below = name.startswith("*.") and host.endswith(name[1:]) and host != name[1:]
            if (host == name or below) and (port is None if not wanted else str(port) == wanted):
                return rule
        return None

    def check(self, href: str) -> tuple[str, str, int | None, bool]:
        """Give scheme, host, port and whether it may be private; refuse an address that is not allowed."""
        shown = redact(href)[:200]
        try:
            parts = urlsplit(href)
            host, port = as_ascii((parts.hostname or "").rstrip(".").lower()), parts.port
        except ValueError:  # a host that has no form in ASCII too
            raise NotAllowedError(f"{shown!r} is no address: give https://HOST/PATH.") from None
        if parts.scheme not in ("http", "https") or not host or re.search(r"[\s\\\x00-\x1f]", href):
            raise NotAllowedError(
                f"{shown!r} cannot be fetched: give an http or https address, or send the file to /uploads."
            )
        if port is not None and port == {"http": 80, "https": 443}[parts.scheme]:
            port = None
        rule = self.rule(host, port)
        if rule is None:
            known = ", ".join(one.removeprefix(PRIVATE) for one in self.allowed) or "none"
            raise NotAllowedError(
                f"The host of {shown!r} is not among those that this server reads from ({known}): send the file to "
                "/uploads, or ask its operator to allow the host."
            )
        return parts.scheme, host, port, rule.startswith(PRIVATE)


def resolve(host: str, port: int, *, private: bool) -> str:
    """Give an IP address of a host; refuse one any of whose addresses is inside a private network."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise OSError(f"the host {host} cannot be found: {error}") from error
    addresses = [str(one[4][0]) for one in found]
    if not private and not all(map(is_public, addresses)):
        raise NotAllowedError(f"The host {host} is at an address that is not public, which is never read from.")
    return addresses[0]


class Line:
    """What a fetch hangs on: cut where its time is over, or where nobody wants the file any more."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: socket.socket | None = None
        self.reason = ""
        """Why it was cut."""

    def hold(self, connection: socket.socket | None) -> None:
        """Take a connection, to be ended when the line is cut; one at a time."""
        with self._lock:
            self._held = connection
            if self.reason and connection:
                raise OSError(self.reason)

    def cut(self, reason: str) -> None:
        """End the connection, whatever waits for it, and any that comes later."""
        with self._lock:
            self.reason = self.reason or reason
            if self._held is not None:
                with suppress(OSError):
                    self._held.shutdown(socket.SHUT_RDWR)

    @contextmanager
    def within(self, seconds: float, reason: str) -> Iterator[None]:
        """Cut the line after so many seconds by the clock on the wall."""
        timer = threading.Timer(seconds, self.cut, (reason,))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


@contextmanager
def _asked(href: str, hosts: Hosts, login: str | None, line: Line) -> Iterator[http.client.HTTPResponse]:
    """Ask the very address that was checked: a second look-up could give another."""
    scheme, host, port, private = hosts.check(href)
    number = port or {"http": 80, "https": 443}[scheme]
    address = resolve(host, number, private=private)
    parts = urlsplit(href)
    path = quote((parts.path or "/") + (f"?{parts.query}" if parts.query else ""), safe=_ASCII)  # é goes as %C3%A9
    headers = {"Host": host if port is None else f"{host}:{port}", "Accept-Encoding": "identity", "User-Agent": "attcr"}
    if login:
        headers["Authorization"] = login
    connection = http.client.HTTPConnection(host, number)
    with closing(connection), socket.create_connection((address, number), timeout=_CONNECT) as plain:
        plain.settimeout(60)
        with closing(plain.dup()) as handle:
            line.hold(handle)
            try:
                encrypt = ssl.create_default_context().wrap_socket
                connection.sock = encrypt(plain, server_hostname=host) if scheme == "https" else plain
                connection.request("GET", path, headers=headers)
                yield connection.getresponse()
            finally:
                line.hold(None)


def _login(href: str) -> str | None:
    user, at, _ = urlsplit(href).netloc.rpartition("@")
    return f"Basic {b64encode(unquote(user).encode()).decode()}" if at else None


def fetch_file(
    href: str,
    file: IO[bytes],
    hosts: Hosts,
    most: int,
    *,
    line: Line | None = None,
    room: Callable[[int], None] = lambda size: None,
) -> int:
    """Write what is at an address into a file and give its bytes; every redirect is checked like the address itself.

    `room` is told how many bytes it will have, or has so far, before they are written, and may refuse them.
    """
    login, at = _login(href), href
    for _ in range(MOST_REDIRECTS):
        try:
            with _asked(at, hosts, login, line or Line()) as answer:
                if answer.status in (301, 302, 303, 307, 308):
                    onward = urljoin(at, answer.headers.get("Location", ""))
                    if urlsplit(onward).netloc != urlsplit(at).netloc:
                        login = None
                    at = onward
                    continue
                return _copied(answer, file, most, room)
        except http.client.HTTPException as error:
            raise OSError(f"{redact(at)}: the server's answer cannot be read: {type(error).__name__}") from error
    raise NotAllowedError(f"{redact(href)} leads on more than {MOST_REDIRECTS} times: give the file's own address.")


def _copied(answer: http.client.HTTPResponse, file: IO[bytes], most: int, room: Callable[[int], None]) -> int:
    if answer.status != 200:
        raise OSError(f"the server answers {answer.status} {answer.reason}"[:200])
    if answer.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise NotAllowedError(
            "The file comes compressed in transport, which is not taken: give one that comes as it is."
        )
    told = answer.headers.get("Content-Length", "").strip()
    size = int(told) if told.isdecimal() else None
    if size is not None and size > most:
        raise NotAllowedError(f"The file has {size:,} bytes, and at most {most:,} are allowed: give a smaller one.")
    room(size or 0)

    def pieces() -> Iterator[bytes]:
        came = 0
        while piece := answer.read1(PIECE):
            came += len(piece)
            room(min(came, most))
            yield piece

    came = copy(pieces(), file, most=most, seconds=float("inf"))
    if size is not None and came != size:
        raise OSError(f"it ended after {came:,} of {size:,} bytes")
    return came
