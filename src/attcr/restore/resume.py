"""Working folders: held by one run at a time, and taken up by `--resume` where it is the same work."""

from __future__ import annotations

import json
import os
import shutil
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
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

    def save(self) -> None:
        """Write it into the folder, whole or not at all."""
        told = {key: value for key, value in asdict(self).items() if key != "folder"}
        write_whole(self.folder / "state.json", json.dumps(told))


@contextmanager
def held(folder: Path, target: Path) -> Iterator[None]:
    """Make a working folder and keep other runs off it meanwhile; one that is killed lets go of it."""
    folder.mkdir(exist_ok=True)
    if sys.platform == "win32":  # has no lock that goes with its process
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            ours = folder.is_dir() and folder.stat().st_ino == os.fstat(handle).st_ino  # not removed meanwhile
        except BlockingIOError:
            ours = False
        if not ours:
            raise SceneError(f"{target} is being written by another run: wait for it, or choose another name.")
        yield
    finally:
        os.close(handle)


def take_up(folder: Path, fingerprint: str, resume: bool) -> State:
    """Give the state of an interrupted run of the same work, or a new one in an empty folder."""
    if resume and (folder / "state.json").is_file():
        state = State(folder, **json.loads((folder / "state.json").read_text()))
        if state.fingerprint == fingerprint:
            return state
        warnings.warn(
            f"{folder} was left by other work (another input, weights, options or version): starting anew.",
            AttcrWarning,
            stacklevel=3,
        )
    for left in folder.iterdir():
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    return State(folder, fingerprint)
