"""Working folders: held by one run at a time, and taken up by `--resume` where it is the same work."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import sys
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from http.client import HTTPException
from itertools import pairwise
from pathlib import Path
from urllib.request import Request, urlopen

import numpy as np

from attcr.addresses import hide_secrets, is_item, local_file, redact
from attcr.errors import SceneError, warn
from attcr.files import write_whole
from attcr.restore.walk import QUALITY_NAMES, Array
from attcr.scenes.clouds.find import CLOUDS

if sys.platform != "win32":
    import fcntl

FOUND = "found.json"
"""References that were searched for, in a working folder: a resumed run takes the same ones."""
ENDS = 1 << 16
"""Bytes at each end of a file that are looked at: some file systems keep times to the second only."""
LARGEST_ITEM = 1 << 22
"""Bytes of a STAC item that are looked at."""
PATIENCE = 10.0
"""Seconds that a server has to tell of a file."""


@dataclass
class State:
    """What a working folder holds, kept in state.json after each strip."""

    folder: Path
    fingerprint: str
    has_clouds: bool = False
    row: int = 0
    pixels: list[int] = field(default_factory=lambda: [0] * len(QUALITY_NAMES))
    left: int = 0
    """Pixels of cloud that the weights do not remove."""
    sizes: dict[str, int] = field(default_factory=dict)
    """Working file to its bytes once it was made: it does not shrink."""
    checksums: list[int] = field(default_factory=list)
    """Of each finished strip: a disk that lost power may give zeros for rows that were written."""
    clouds: int = 0
    """Checksum of the cloud map; 0 where there is none."""
    publishing: bool = False
    """Whether files have started to get their names: those that exist are this run's own."""

    def save(self) -> None:
        """Write it into the folder, complete or not at all; what it describes must be on the disk before."""
        told = {key: value for key, value in asdict(self).items() if key != "folder"}
        write_whole(self.folder / "state.json", json.dumps(told))

    def fits(self, strips: Sequence[int], width: int, checksum: Checksum) -> bool:
        """Say whether it can be the state of a scene whose strips begin and end at these rows, and its files are whole.

        `checksum` gives that of a strip as it is in the working files now.
        """
        counts = [self.row, self.clouds, self.left, *self.pixels, *self.sizes.values(), *self.checksums]
        if not all(type(count) is int and count >= 0 for count in counts) or any("/" in name for name in self.sizes):
            return False
        if self.row not in strips or len(self.pixels) != len(QUALITY_NAMES) or sum(self.pixels) != self.row * width:
            return False
        if self.row and not self.has_clouds:
            return False
        if not all(_is_whole(self.folder / name, size) for name, size in self.sizes.items()):
            return False
        done = list(pairwise(strips[: strips.index(self.row) + 1]))
        return (
            len(done) == len(self.checksums)
            and checksum_of_file(self.folder / CLOUDS) == self.clouds
            and all(checksum(*rows) == due for rows, due in zip(done, self.checksums, strict=True))
        )


Checksum = Callable[[int, int], int | None]
"""Gives the checksum of rows [top, bottom) of the working files; None where they cannot be read."""


def checksum_of(arrays: Iterable[Array]) -> int:
    """Give the CRC-32 of some arrays, one after the other."""
    checksum = 0
    for array in arrays:
        checksum = zlib.crc32(np.ascontiguousarray(array).data, checksum)
    return checksum


def checksum_of_file(path: Path) -> int:
    """Give the CRC-32 of a file; 0 where there is none."""
    checksum = 0
    try:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                checksum = zlib.crc32(block, checksum)
    except OSError:
        return 0
    return checksum


def read_state(folder: Path) -> State | None:
    """Give the state that a working folder holds; None where there is none, or it is damaged."""
    try:
        told = json.loads((folder / "state.json").read_bytes())
        if set(told) != {one.name for one in fields(State)} - {"folder"}:
            return None
        state = State(folder, **told)
        kinds = (state.fingerprint, str), (state.pixels, list), (state.sizes, dict), (state.checksums, list)
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    return state if all(isinstance(value, kind) for value, kind in kinds) else None


def make_folder(folder: Path) -> None:
    """Make a working folder; what is not a folder, or leads elsewhere, is left alone and refused."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        kind = "a link" if folder.is_symlink() else "a file"
        raise SceneError(
            f"{folder} is {kind}, and a folder for unfinished files of this name is needed: remove it, or choose "
            "another target."
        )
    folder.mkdir(exist_ok=True)


def empty(folder: Path, but: str = "") -> None:
    """Remove what is in a folder, except for one name; of a link the link, never what it leads to."""
    for left in folder.iterdir():
        if left.name == but:
            continue
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left)
        else:
            left.unlink()


@contextmanager
def held(folder: Path, target: Path) -> Iterator[None]:
    """Make a working folder and keep other runs off it meanwhile; one that is killed lets go of it."""
    make_folder(folder)
    if sys.platform == "win32":  # has no lock that goes with its process
        yield
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            ours = folder.is_dir() and folder.lstat().st_ino == os.fstat(handle).st_ino  # not removed meanwhile
        except BlockingIOError:
            ours = False
        if not ours:
            raise SceneError(f"{target} is being written by another run: wait for it, or choose another name.")
        yield
    finally:
        os.close(handle)


def remove(folder: Path) -> None:
    """Remove a working folder, its state last: as long as that is there, a run that is killed meanwhile is taken up."""
    empty(folder, but="state.json")
    shutil.rmtree(folder)


def remove_leftover(folder: Path, target: Path) -> None:
    """Remove what a run that was killed while it removed its folder left of it: a folder without a state."""
    if folder.is_dir() and not folder.is_symlink() and not (folder / "state.json").exists():
        with held(folder, target):
            shutil.rmtree(folder)


def take_up(
    folder: Path,
    fingerprint: str,
    *,
    resume: bool,
    strips: Collection[int],
    width: int,
    checksum: Checksum,
    publishing: bool = False,
) -> State:
    """Give the state of an interrupted run of the same work, or a new one in an empty folder.

    With `publishing`, files that have their names already are the interrupted run's own: a new state says so too.
    """
    if resume and (folder / "state.json").exists():
        state = read_state(folder)
        if state is not None and state.fingerprint == fingerprint and state.fits(sorted(strips), width, checksum):
            return state
        if state is None or state.fingerprint == fingerprint:
            reason = "is damaged"
        else:
            reason = "was left by other work (another input, weights, options or version)"
        warn(f"{folder} {reason}: starting again.")
    state = State(folder, fingerprint, publishing=publishing)
    if publishing:
        state.save()  # before the rest goes: a run that is killed now must not take its own files for another's
    empty(folder, but="state.json" if publishing else "")
    return state


def kept_references(folder: Path, asked: str) -> tuple[str, ...] | None:
    """Give what an interrupted run of the same work had found; None where there is none."""
    try:
        told = json.loads((folder / FOUND).read_bytes())
        hrefs = told["references"] if told["asked"] == asked else None
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None
    return tuple(hrefs) if isinstance(hrefs, list) and all(isinstance(one, str) for one in hrefs) else None


def keep_references(folder: Path, asked: str, hrefs: Sequence[str]) -> None:
    """Write what was found into the working folder; not where an address is signed, for it would not keep."""
    if all(redact(href) == href for href in hrefs):
        write_whole(folder / FOUND, json.dumps({"asked": asked, "references": list(hrefs)}))


def _is_whole(path: Path, size: int) -> bool:
    try:
        found = path.lstat()
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size >= size


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
