"""Where results go: a folder, or a bucket through obstore. Files appear whole, commits happen once."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError
from obstore.store import ObjectStore, from_url

from attcr.addresses import hide_secrets, is_local, redact
from attcr.errors import FleetError
from attcr.extras import locks
from attcr.files import to_disk

fcntl = locks()
ABSENT: tuple[type[Exception], ...] = (FileNotFoundError, NotFoundError)
"""What obstore raises, by its version, where nothing is found."""
TAKEN: tuple[type[Exception], ...] = (FileExistsError, AlreadyExistsError)
"""The same where a key is taken."""
UPLOAD_PART = 64 << 20
"""Bytes that go up in one request. Of a larger file killed half way, the bucket's life-cycle rule removes the parts."""


class Store:
    """A folder or a bucket's prefix (s3://, gs://, az://), with the few verbs that a fleet needs."""

    def __init__(self, url: str) -> None:
        self.name = redact(url)
        self.root: Path | None = None
        if is_local(url):
            self.root = Path(url).absolute()
            self.scratch = self.root / ".scratch"
            """Where unfinished files go: for a folder, on its own disk, so that a rename publishes them."""
            try:
                self.root.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise FleetError(f"{self.name} cannot be made: {error.strerror}. Choose another folder.") from error
        else:
            self._objects = open_bucket(url)
            self.scratch = Path(tempfile.gettempdir()) / f"attcr-fleet-{os.getuid()}"

    def open_scratch(self) -> Scratch:
        """Make a private folder for unfinished files; that of a bucket is in the system's, where others write too."""
        return Scratch(self.scratch, private=self.root is None)

    @contextmanager
    def _told(self, *, expected: tuple[type[Exception], ...] = ()) -> Iterator[None]:
        """Turn what goes wrong with a bucket into an error of ours: obstore's may contain keys and signatures.

        An answer that is `expected` passes. Nothing is found where one writes or lists only if there is no bucket.
        """
        try:
            yield
        except expected:
            raise
        except (FileNotFoundError, BaseError) as error:
            if isinstance(error, ABSENT) or "NoSuchBucket" in str(error):
                raise FleetError(f"{self.name}: there is no such bucket. Make it, or give another output.") from error
            raise FleetError(f"{self.name}: {hide_secrets(' '.join(str(error).split()))[:1000]}") from error

    def put(self, path: Path, key: str) -> None:
        """Publish a file of the scratch folder under a key, whole or not at all; it replaces what was there."""
        if self.root:
            target = self.root / key
            target.parent.mkdir(parents=True, exist_ok=True)
            to_disk(path)  # the item that says that it is there must not outlive it
            path.replace(target)
        else:
            with self._told():
                obstore.put(self._objects, key, path, chunk_size=UPLOAD_PART, max_concurrency=4)
            path.unlink()

    def create(self, path: Path, key: str) -> bool:
        """Publish a file unless the key is taken; say whether this was the one that did it."""
        try:
            if self.root:
                target = self.root / key
                target.parent.mkdir(parents=True, exist_ok=True)
                to_disk(path)
                os.link(path, target)
            else:
                with self._told(expected=TAKEN):
                    obstore.put(self._objects, key, path, mode="create")
        except TAKEN:
            return False
        finally:
            path.unlink()
        return True

    def read(self, key: str) -> bytes | None:
        """Give what is under a key, or None."""
        try:
            if self.root:
                return (self.root / key).read_bytes()
            with self._told(expected=ABSENT):
                return bytes(obstore.get(self._objects, key).bytes())
        except ABSENT:
            return None

    def exists(self, key: str) -> bool:
        """Say whether anything is under a key."""
        if self.root:
            return (self.root / key).exists()
        with suppress(*ABSENT), self._told(expected=ABSENT):
            obstore.head(self._objects, key)
            return True
        return False

    def delete(self, key: str) -> None:
        """Remove what is under a key, if anything is."""
        if self.root:
            (self.root / key).unlink(missing_ok=True)
            return
        with suppress(*ABSENT), self._told(expected=ABSENT):
            obstore.delete(self._objects, key)

    def names(self, folder: str) -> Iterator[str]:
        """Give the names of the files in a folder, in no order."""
        if self.root:
            if (self.root / folder).is_dir():
                with os.scandir(self.root / folder) as entries:
                    yield from (entry.name for entry in entries)
            return
        with self._told():
            for batch in obstore.list(self._objects, folder, chunk_size=1000):
                yield from (entry["path"].rpartition("/")[2] for entry in batch)


def open_bucket(url: str) -> ObjectStore:
    """Open a bucket's prefix; credentials come from the environment, as obstore finds them."""
    try:
        return from_url(redact(url))
    except (BaseError, ValueError) as error:
        raise FleetError(f"{redact(url)} cannot be opened: {hide_secrets(str(error))}") from error


def split_url(url: str) -> tuple[str, str]:
    """Give a bucket's address and the key in it: s3://bucket/a/b.tif is s3://bucket and a/b.tif."""
    parts = urlsplit(redact(url))
    return f"{parts.scheme}://{parts.netloc}", parts.path.lstrip("/")


class Scratch(AbstractContextManager["Scratch"]):
    """A private folder of this process for unfinished files. Those of processes that died are swept away."""

    def __init__(self, root: Path, *, private: bool = False) -> None:
        """Make one under a root, which others may know the name of: where it is `private`, it must be ours alone."""
        if private:
            _make_private(root)
        sweep(root)
        while True:
            if private:
                _make_private(root)
            root.mkdir(parents=True, exist_ok=True)
            self.folder = root / uuid.uuid4().hex
            self._lock = self.folder.with_suffix(".lock")
            try:
                self._file = self._lock.open("w")
            except FileNotFoundError:  # another process swept the empty root in between
                continue
            fcntl.flock(self._file, fcntl.LOCK_EX)
            if self._lock.exists():  # else it was swept between opening and locking
                break
            self._file.close()
        self.folder.mkdir()

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self._lock.unlink(missing_ok=True)
        self._file.close()
        _remove_empty(self.folder.parent)

    def __exit__(self, *_: object) -> None:
        self.close()


def _make_private(folder: Path) -> None:
    """Make a folder that only this user can enter; refuse one that another user made or could write to."""
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    try:
        found = folder.lstat()
    except FileNotFoundError:  # another process of ours swept it just now
        _make_private(folder)
        return
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    if not ours or found.st_mode & 0o022:
        raise FleetError(
            f"{folder} is not this user's own folder, or others may write to it: remove it, or set TMPDIR to a folder "
            "of yours."
        )
    if found.st_mode & 0o077:
        folder.chmod(0o700)


def sweep(root: Path, *, wait: float = 0) -> None:
    """Remove what dead processes left under a scratch root; give those that are about to end `wait` seconds for it.

    Each process holds a lock on its own folder, which the system lets go when the process ends, however it ends.
    """
    end = time.monotonic() + wait
    while True:
        for lock in sorted(root.glob("*.lock")):
            # Else it is alive, or swept by another process just now.
            with suppress(BlockingIOError, FileNotFoundError), lock.open("r+") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
                lock.unlink(missing_ok=True)
        _remove_empty(root)
        if not root.exists() or time.monotonic() >= end:
            return
        time.sleep(0.05)


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):  # not empty, or not there
        folder.rmdir()
