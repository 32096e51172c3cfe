"""Addresses of files, here or elsewhere, and how to show them: without user, password, token or signature."""

import ipaddress
import os
import re
import socket
from pathlib import Path
from urllib.parse import urlsplit

# Texts may come from anyone and be long: no pattern here takes time that grows with the square of their length.
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}://[^\s\"'<>]+")
_GDAL_PATH = re.compile(r"(/vsi[a-z0-9_]+)\?[^\s\"'<>]+")
_PAIR = re.compile(
    r"(?i)(\b(?:x-amz-[\w-]{1,60}|aws_?access_?key_?id|(?:aws_?)?secret_?access_?key|signature(?:provided)?|credential"
    r"|sig|password|passwd|pwd|secret|api-?_?key|sharedkey|accountkey)|token)"
    r"(\"?\s*[=:>]\s*\"?)[^\s&<>\"',;]+"
)
_HEADER = re.compile(r"(?i)\b(authorization)(\s*[:=]\s*)[^\n\"']+|\b(bearer|basic)(\s+)[\w.~+/=-]{8,}")
_USER = re.compile(r"(?<![^\s/@'\"])[^\s/@'\"]+@(?=[\w.\[])")
_ITEM = re.compile(r"(?i)\.(?:geo)?json$|^https?://.*/collections/[^/]+/items/(?![^/]*\.(?:tiff?|jp2|vrt)$)[^/]+$")
_AWS_KEY = re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{12,}\b")
_TELLING = ("SECRET", "TOKEN", "PASSWORD", "ACCESS_KEY", "ACCOUNT_KEY", "CREDENTIAL", "SAS")
_NOT_PUBLIC = tuple(
    ipaddress.ip_network(net)
    for net in (
        *("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32", "100::/64", "::/96", "168.63.129.16/32"),
        *("fec0::/10", "3fff::/20", "5f00::/16", "192.0.0.0/24", "192.88.99.0/24"),  # not all Pythons know these
    )
)
"""Addresses that stand for others (NAT64, 6to4, Teredo), lead nowhere, are a site's own, or a cloud's service."""
_SHORTEST = 8  # a shorter value of an environment variable may be a plain word


def is_public(address: str) -> bool:
    """Say whether an IP address is one of the open internet, whatever it is dressed up as."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    ip = getattr(ip, "ipv4_mapped", None) or ip
    if any(ip.version == net.version and ip in net for net in _NOT_PUBLIC):
        return False
    return ip.is_global and not ip.is_multicast and not ip.is_reserved


def is_public_host(href: str) -> bool:
    """Say whether a URL's host is on the open internet, by all addresses that it is known by."""
    host = urlsplit(href).hostname or ""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return False
    return bool(found) and all(is_public(str(one[4][0])) for one in found)


def is_local(href: str) -> bool:
    """Say whether a path is on this machine's own file system."""
    return "://" not in href and not href.startswith("/vsi")


def is_item(href: str) -> bool:
    """Say whether an address is of a STAC item: a JSON file, or what an API serves under a collection's items."""
    return bool(_ITEM.search(redact(href)))


def local_file(href: str) -> Path | None:
    """Give the file on this machine that an address leads to, also inside a file:// URL or an archive; else None."""
    if "\0" in href:
        return None
    if href.startswith("file://"):
        return Path(href.removeprefix("file://"))
    if is_local(href):
        return Path(href)
    inner = re.sub(r"^(/vsi\w+/)+", "", href).strip("{}")
    if "://" in inner or not href.startswith("/vsi"):
        return None
    path = Path(inner)
    return next((one for one in (path, *path.parents) if one.is_file()), None)


def redact(href: str) -> str:
    """Give a path or URL without user, password, or query, which may hold a signature.

    What stands before the URL stays: /vsicurl/https://..., scl=https://...
    """
    if href.startswith("/vsi") and "?" in href.partition("://")[0]:
        return href.partition("?")[0]  # /vsicurl?header.Authorization=...&url=...
    scheme, separator, rest = href.partition("://")
    if not separator:
        return href
    plain = re.split(r"[?#]", rest, maxsplit=1)[0]
    host, slash, path = plain.partition("/")
    if "@" not in host and re.search(r":(?!\d*$)(?![^\[]*\])", host) and "@" in rest:
        # What follows the colon is no port: user and password, with a slash, "?" or "#" that is not escaped.
        host, slash, path = re.split(r"[?#]", rest.rpartition("@")[2], maxsplit=1)[0].partition("/")
    return scheme + separator + host.rpartition("@")[2] + slash + path


def redact_all(text: str) -> str:
    """Give a message with every URL in it redacted and one full stop at its end."""
    return re.sub(r"(?<!\S)\S+://\S+", lambda match: redact(match.group()), text).rstrip(". ") + "."


def hide_secrets(text: str) -> str:
    """Give a text without signatures, users, passwords, tokens and keys, wherever they stand in it."""
    text = _URL.sub(lambda match: redact(match.group()), text)
    text = _GDAL_PATH.sub(r"\1", text)
    text = _HEADER.sub(lambda match: f"{match[1] or match[3]}{match[2] or match[4]}***", text)
    text = _PAIR.sub(r"\1\2***", text)
    text = _AWS_KEY.sub("***", _USER.sub("", text))
    for name, value in os.environ.items():
        if len(value) >= _SHORTEST and any(word in name.upper() for word in _TELLING):
            text = text.replace(value, "***")
    return text


def error_text(error: BaseException) -> tuple[str, str]:
    """Give an error's class and its message in one line, without secrets.

    The class is that of the first cause: a scene that could not be fetched differs from one that was refused.
    """
    first = error
    while first.__cause__ is not None:
        first = first.__cause__
    message = " ".join((str(error) or repr(error)).split())
    return type(first).__name__, hide_secrets(message)[:1000]
