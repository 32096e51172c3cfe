"""Files that users send, streamed to disk."""

import json
import shutil
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from starlette.concurrency import run_in_threadpool

from attcr.files import to_disk, write_whole
from attcr.serve.inputs import UPLOAD_ID
from attcr.serve.limits import NotAllowedError, check_file, file_name
from attcr.serve.problems import Problem
from attcr.serve.quota import Quota, Reservation
from attcr.serve.settings import Limits


@dataclass(frozen=True)
class Upload:
    """A file that a user sent."""

    id: str
    owner: str
    name: str
    bytes: int
    created: float


class Uploads:
    """The uploads of a store: uploads/ID/NAME, and uploads/ID.json when all of it is there."""

    def __init__(self, root: Path, limits: Limits, quota: Quota) -> None:
        self._folder, self._limits, self._quota = root / "uploads", limits, quota
        self._coming: Counter[str] = Counter()
        self._known: dict[str, Upload] = {}
        for path in self._folder.glob("*.json"):
            try:
                upload = Upload(**json.loads(path.read_bytes()))
            except (OSError, ValueError, TypeError):
                continue  # not ours
            self._known[upload.id] = upload
        for folder in self._folder.iterdir():
            if folder.is_dir() and folder.name not in self._known:
                shutil.rmtree(folder, ignore_errors=True)  # its sender was cut off

    async def receive(self, owner: str, name: str, pieces: AsyncIterator[bytes], told: int = 0) -> Upload:
        """Write a file as it comes, of `told` bytes where the sender says so; refuse what is too large or no raster."""
        if self._coming[owner] >= self._limits.uploads:
            raise Problem(
                429,
                f"You are sending {self._coming[owner]} files, and no more are allowed at once: wait until one ends.",
                headers={"Retry-After": "5"},
            )
        key = uuid.uuid4().hex
        folder = self._folder / key
        path = folder / file_name(name)
        room = Reservation(self._quota, owner)
        self._coming[owner] += 1
        try:
            room.grow(told)
            await run_in_threadpool(folder.mkdir)
            size = await self._write(path, pieces, room)
            upload = Upload(key, owner, path.name, size, time.time())
            await run_in_threadpool(self._keep, path, upload)
            room.keep(size)
        except BaseException as error:
            shutil.rmtree(folder, ignore_errors=True)
            room.keep()
            if isinstance(error, NotAllowedError):
                raise Problem(415, str(error)) from error
            if isinstance(error, OSError):
                raise Problem(507, f"The file cannot be kept: {error.strerror}.") from error
            raise
        finally:
            self._coming[owner] -= 1
        return upload

    async def _write(self, path: Path, pieces: AsyncIterator[bytes], room: Reservation) -> int:
        size, most = 0, self._limits.upload_bytes
        with path.open("wb") as file:
            async for piece in pieces:
                size += len(piece)
                if size > most:
                    raise Problem(413, f"The file has more than the {most:,} bytes that are allowed.")
                room.grow(size)
                await run_in_threadpool(file.write, piece)
        if not size:
            raise Problem(400, "The file is empty: send it as the body of the request.")
        return size

    def _keep(self, path: Path, upload: Upload) -> None:
        check_file(path)
        to_disk(path)
        to_disk(path.parent)
        write_whole(self._folder / f"{upload.id}.json", json.dumps(vars(upload)))
        self._known[upload.id] = upload

    def get(self, owner: str, key: str) -> Upload:
        """Give a user's upload; another's is not there."""
        upload = self._known.get(key) if UPLOAD_ID.fullmatch(key) else None
        if upload is None or upload.owner != owner:
            raise Problem(404, f"There is no upload {key[:64]!r} of yours: send the file to /uploads.")
        return upload

    def link(self, owner: str, key: str, folder: Path) -> None:
        """Give a job its own name for a file, so that it keeps it whatever becomes of the upload."""
        upload = self.get(owner, key)
        folder.mkdir()
        try:
            self._quota.link(self._folder / key / upload.name, folder / upload.name)
        except FileNotFoundError:
            raise Problem(404, f"There is no upload {key!r} of yours any more: send the file again.") from None
        to_disk(folder)

    def remove(self, owner: str, key: str) -> None:
        """Remove an upload."""
        self.get(owner, key)
        self._remove(key)

    def _remove(self, key: str) -> None:
        upload = self._known.pop(key, None)
        (self._folder / f"{key}.json").unlink(missing_ok=True)
        if upload is not None:
            self._quota.remove(upload.owner, self._folder / key)

    def kept(self) -> list[tuple[str, Path]]:
        """Give the owner and the folder of each upload."""
        return [(upload.owner, self._folder / upload.id) for upload in self._known.values()]

    def forget(self, before: float) -> None:
        """Remove uploads that came before a time."""
        for upload in list(self._known.values()):
            if upload.created < before:
                self._remove(upload.id)
