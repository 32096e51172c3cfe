"""The bytes that each user's files take: counted before they are on the disk, whatever they are for."""

import os
import shutil
import threading
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from attcr.serve.problems import Problem


class Quota:
    """Uploads, requests, inputs, fetched files and results of each user; a file with two names counts once."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._used: Counter[str] = Counter()
        self._lock = threading.Lock()

    def take(self, owner: str, size: int) -> None:
        """Count bytes that are about to be written; refuse what there is no room for."""
        with self._lock:
            if self._used[owner] + size > self._most:
                raise Problem(
                    507,
                    f"Your files take {self._used[owner]:,} of the {self._most:,} bytes that you may have, and there "
                    f"is no room for {size:,} more: delete uploads or jobs.",
                )
            self._used[owner] += size

    def give_back(self, owner: str, size: int) -> None:
        """Count bytes no more that are not there."""
        with self._lock:
            self._used[owner] -= size

    def used(self, owner: str) -> int:
        """Give the bytes that are counted of a user."""
        return self._used[owner]

    def count(self, owner: str, paths: Iterable[Path]) -> None:
        """Count the files that an earlier server left of a user, whether or not there is room for them."""
        sizes = {(told.st_dev, told.st_ino): told.st_size for told in map(os.lstat, _files(paths))}
        with self._lock:
            self._used[owner] += sum(sizes.values())

    def link(self, source: Path, target: Path) -> None:
        """Give a file another name, under which it stays counted."""
        with self._lock:
            os.link(source, target)

    def remove(self, owner: str, *paths: Path) -> None:
        """Remove files and folders; what has another name, as a job's of an upload, counts on."""
        with self._lock:  # of two names of a file that go at once, one is the last
            for path in _files(paths):
                try:
                    told = path.lstat()
                    path.unlink()
                except OSError:
                    continue  # another removed it
                if told.st_nlink == 1 and not path.name.endswith(".partial"):  # that one has a reservation
                    self._used[owner] -= told.st_size
        for path in paths:
            shutil.rmtree(path, ignore_errors=True)


class Reservation:
    """Bytes of files that are being written: given back unless they are kept."""

    def __init__(self, quota: Quota, owner: str) -> None:
        self._quota, self._owner = quota, owner
        self.bytes = 0

    def grow(self, size: int) -> None:
        """Take so many bytes in all, if they are more than were taken."""
        if size > self.bytes:
            self._quota.take(self._owner, size - self.bytes)
            self.bytes = size

    def keep(self, size: int = 0) -> None:
        """Keep what was written, `size` bytes of it, and give the rest back."""
        self._quota.give_back(self._owner, self.bytes - size)
        self.bytes = 0


def _files(paths: Iterable[Path]) -> list[Path]:
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            found += [Path(folder, name) for folder, _, names in os.walk(path) for name in names]
        elif path.is_file():
            found.append(path)
    return found
