"""Files on disk: one way to write them whole or not at all, one sha256, one place for what is kept between runs."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give the name to write a file under; it takes the place of `path` in one step once it is on the disk.

    A full disk, an error or a killed process leaves what was at `path` as it was.
    """
    target = Path(path)
    partial = target.with_name(f".{target.name}.partial")  # one name: what a killed run left is written over
    try:
        yield partial
        to_disk(partial)
        partial.replace(target)
        to_disk(target.parent)
    finally:
        partial.unlink(missing_ok=True)


def write_whole(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Write a file whole or not at all; it survives a power cut once this returns."""
    with replacing(path) as partial:
        partial.write_bytes(content.encode() if isinstance(content, str) else content)


def to_disk(path: Path) -> None:
    """Wait until a file, or a folder's list of names, is on the disk."""
    if os.name == "nt" and path.is_dir():  # Windows opens no folders
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sha256(path: str | os.PathLike[str]) -> str:
    """Give the sha256 of a file, read block by block."""
    digest = hashlib.sha256()
    with Path(path).open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def cache_folder() -> Path:
    """Give the folder for what is kept between runs: attcr in XDG_CACHE_HOME, else in ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "attcr")


CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")
"""Where Linux says what a container may use: a number, or `max`."""


def cores() -> int:
    """Give the cores that this process may use, by its affinity."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory_of_machine() -> int | None:
    """Give the bytes of memory of this machine or container; None where the system does not say, as on Windows."""
    try:
        page, pages = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
    if min(page, pages) <= 0:
        return None
    try:
        allowed = int(CONTAINER_LIMIT.read_text())
    except (OSError, ValueError):
        allowed = page * pages
    return min(page * pages, allowed)
