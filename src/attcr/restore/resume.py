"""Working folders: held by one run at a time, and taken up by `--resume` where it is the same work."""

from __future__ import annotations

import json
import os
import shutil
import stat
import sys
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from attcr.errors import AttcrWarning, SceneError
from attcr.files import write_whole
from attcr.restore.walk import QUALITY_NAMES

if sys.platform != "win32":
    import fcntl


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
    publishing: bool = False
    """Whether files have begun to get their names: those that exist are this run's own."""

    def save(self) -> None:
        """Write it into the folder, whole or not at all; what it tells of must be on the disk before."""
        told = {key: value for key, value in asdict(self).items() if key != "folder"}
        write_whole(self.folder / "state.json", json.dumps(told))

    def fits(self, strips: Collection[int], width: int) -> bool:
        """Say whether it can be the state of a scene with strips that begin at these rows, and its files are whole."""
        counts = [self.row, self.left, *self.pixels, *self.sizes.values()]
        if not all(type(count) is int and count >= 0 for count in counts) or any("/" in name for name in self.sizes):
            return False
        if self.row not in strips or len(self.pixels) != len(QUALITY_NAMES) or sum(self.pixels) != self.row * width:
            return False
        return (self.has_clouds or not self.row) and all(
            _is_whole(self.folder / name, size) for name, size in self.sizes.items()
        )


def read_state(folder: Path) -> State | None:
    """Give the state that a working folder holds; None where there is none, or it is damaged."""
    try:
        told = json.loads((folder / "state.json").read_bytes())
        if set(told) != {one.name for one in fields(State)} - {"folder"}:
            return None
        state = State(folder, **told)
        kinds = (state.fingerprint, str), (state.pixels, list), (state.sizes, dict)
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


def empty(folder: Path) -> None:
    """Remove what is in a folder; of a link the link, never what it leads to."""
    for left in folder.iterdir():
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


def take_up(folder: Path, fingerprint: str, *, resume: bool, strips: Collection[int], width: int) -> State:
    """Give the state of an interrupted run of the same work, or a new one in an empty folder."""
    if resume and (folder / "state.json").exists():
        state = read_state(folder)
        if state is not None and state.fingerprint == fingerprint and state.fits(strips, width):
            return state
        if state is None or state.fingerprint == fingerprint:
            reason = "is damaged"
        else:
            reason = "was left by other work (another input, weights, options or version)"
        warnings.warn(f"{folder} {reason}: starting anew.", AttcrWarning, stacklevel=4)
    empty(folder)
    return State(folder, fingerprint)


def _is_whole(path: Path, size: int) -> bool:
    try:
        found = path.lstat()
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size >= size
