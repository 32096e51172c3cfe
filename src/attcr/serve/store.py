"""The files of jobs on the disk: what was asked for, how it ended, and what it made.

requests/ID.json   what was asked for, by whom: a job is accepted once this is on the disk
inputs/ID/         its files
progress/ID.json   how far the process is that computes it
tries/ID           how often it was begun
items/ID.json      the fleet's item: the job is successful
ended/ID.json      how and when it ended; alone, that it failed or was dismissed
"""

import json
import logging
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from attcr.errors import FleetError
from attcr.extras import locks
from attcr.files import write_whole
from attcr.fleet.manifest import as_utf8
from attcr.fleet.worker import item_key
from attcr.serve.models import Asked, JobStatus
from attcr.serve.problems import Problem
from attcr.serve.quota import Quota, Reservation

fcntl = locks()
_log = logging.getLogger("attcr.serve")
REQUESTS, INPUTS, PROGRESS, ENDED, TRIES, WEIGHTS = "requests", "inputs", "progress", "ended", "tries", "weights"
"""Folders of the store, beside the fleet's own."""
OVER = ("successful", "failed", "dismissed")


@dataclass
class JobState:
    """One job, as it is known without looking at its files."""

    id: str
    owner: str
    created: float
    title: str = ""
    status: JobStatus = "accepted"
    message: str = ""
    started: float | None = None
    finished: float | None = None
    error: str = ""
    """Class of the error of a failed one."""
    weights: str = ""
    notes: list[str] = field(default_factory=list)
    stage: str = "fetch"
    kept: bool = False
    """Whether its results are counted."""
    percent: int = 0
    """The most that was told of its progress."""
    updated: float = 0.0
    deaths: int = 0
    short: bool = False
    """Whether the process for short jobs may take it."""

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self.status in OVER


_KEPT = ("status", "message", "started", "finished", "error", "weights", "notes")  # of its end


class JobStore:
    """The jobs in a folder; one server at a time holds it."""

    def __init__(self, root: Path, quota: Quota) -> None:
        self.root, self._quota = root, quota
        for name in (REQUESTS, INPUTS, ENDED, TRIES, PROGRESS, "items", "uploads"):
            (root / name).mkdir(exist_ok=True)
        self._held = _hold(root / "serve.lock")

    def close(self) -> None:
        """Let another server have it."""
        self._held.close()

    def write_request(self, job: JobState, asked: Asked) -> None:
        """Write down what a job is asked to do; when this returns, it is on the disk."""
        told = {name: getattr(job, name) for name in ("id", "owner", "created", "title")}
        text = json.dumps({**told, "asked": asked.model_dump()})
        room = Reservation(self._quota, job.owner)
        room.grow(len(text))
        try:
            write_whole(self.root / REQUESTS / f"{job.id}.json", text)
            room.keep(room.bytes)
        finally:
            room.keep()

    def asked(self, job: JobState) -> Asked:
        """Give what a job's request was."""
        return Asked.model_validate(json.loads((self.root / REQUESTS / f"{job.id}.json").read_bytes())["asked"])

    def read_all(self) -> Iterator[JobState]:
        """Read the jobs that are on the disk."""
        for path in (self.root / REQUESTS).glob("*.json"):
            try:
                told = json.loads(path.read_bytes())
                title = as_utf8(told["title"])
                job = JobState(told["id"], told["owner"], told["created"], title, updated=told["created"])
            except (OSError, ValueError, KeyError, TypeError, AttributeError):
                continue  # not ours
            try:
                for name, value in json.loads((self.root / ENDED / path.name).read_bytes()).items():
                    setattr(job, name, value)
                job.updated = job.finished or job.created
            except (OSError, ValueError):
                item = self.root / item_key(job.id)
                if item.exists():  # published, and the server died before it heard
                    job.finished = job.updated = item.stat().st_mtime
                    job.started, job.status, job.message = job.finished, "successful", "The scene is restored."
            yield job

    def folder(self, name: str) -> Path:
        """Give the folder of a job's input files."""
        return self.root / INPUTS / name

    def progress(self, name: str) -> dict[str, Any]:
        """Give how far a running job is, as its process told last."""
        return read_object(self.root / PROGRESS / f"{name}.json")

    def tries(self, name: str) -> int:
        """Give how often a job was begun."""
        try:
            return int((self.root / TRIES / name).read_text())
        except (OSError, ValueError):
            return 0

    def count_try(self, name: str) -> int:
        """Write down that a job is begun once more; give how often it was."""
        tries = self.tries(name) + 1
        (self.root / TRIES / name).write_text(str(tries))
        return tries

    def write_end(self, job: JobState) -> None:
        """Write down how a job ended."""
        try:
            write_whole(self.root / ENDED / f"{job.id}.json", json.dumps({name: getattr(job, name) for name in _KEPT}))
        except OSError:  # a full disk: the item tells of a success, and anything else is tried again
            _log.exception("the end of a job cannot be written", extra={"job": job.id})
        for folder, suffix in ((PROGRESS, ".json"), (TRIES, "")):
            (self.root / folder / f"{job.id}{suffix}").unlink(missing_ok=True)

    def results(self, job: JobState) -> dict[str, Path]:
        """Give the files of a successful job by output."""
        item_path = self.root / item_key(job.id)
        item = json.loads(item_path.read_bytes())
        files = {name: (item_path.parent / asset["href"]).resolve() for name, asset in item["assets"].items()}
        return {**files, "item": item_path}

    def count_files(self, job: JobState) -> list[Path]:
        """Name what a job keeps; what a killed process left unfinished is removed."""
        if not job.over:
            self.drop_results(job)
        job.kept = job.status == "successful"
        for partial in self.folder(job.id).rglob(".*.partial"):
            partial.unlink(missing_ok=True)
        return [self.root / REQUESTS / f"{job.id}.json", self.folder(job.id), *self._made(job)]

    def keep_results(self, job: JobState) -> None:
        """Count what a job made; where there is no room for it, remove it and say so."""
        sizes = [path.stat().st_size for made in self._made(job) for path in (made, *made.rglob("*")) if path.is_file()]
        try:
            self._quota.take(job.owner, sum(sizes))
        except Problem:
            self.drop_results(job)
            raise
        job.kept = True

    def drop_results(self, job: JobState) -> None:
        """Remove what a job made before it is counted."""
        item, folder = self._made(job)
        item.unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)

    def _made(self, job: JobState) -> tuple[Path, Path]:
        return self.root / item_key(job.id), self.root / "scenes" / job.id

    def remove_files(self, job: JobState) -> None:
        """Remove what a job was given and what it made."""
        if not job.kept:
            self.drop_results(job)
        self._quota.remove(job.owner, *self._made(job), self.folder(job.id))
        (self.root / PROGRESS / f"{job.id}.json").unlink(missing_ok=True)

    def forget(self, job: JobState) -> None:
        """Keep nothing of a dismissed job but that it was there."""
        self.remove_files(job)
        self._quota.remove(job.owner, self.root / REQUESTS / f"{job.id}.json")
        self.write_request(job, Asked(refs=()))

    def remove(self, job: JobState) -> None:
        """Remove all of a job."""
        self._quota.remove(job.owner, self.root / REQUESTS / f"{job.id}.json")
        self.remove_files(job)
        (self.root / ENDED / f"{job.id}.json").unlink(missing_ok=True)

    def public(self, text: str) -> str:
        """Give a text that can be sent, without the places of files in the store: their names alone."""
        text = as_utf8(text)
        for folder in (INPUTS, "uploads", ".scratch"):
            start = f"{self.root / folder}/"
            while start in text:
                before, _, after = text.partition(start)
                path, space, rest = after.partition(" ")
                text = before + path.rpartition("/")[2] + space + rest
        return text.replace(str(self.root), "")


def read_object(path: Path) -> dict[str, Any]:
    """Read a JSON object; an empty one where there is none."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _hold(path: Path) -> IO[bytes]:
    """Hold a store for this process; the system lets it go when the process ends, however it ends."""
    file = path.open("ab")
    until = time.monotonic() + 5  # a server that was told to stop may be a moment from its end
    while True:
        with suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(file.fileno(), 0)
            return file
        if time.monotonic() > until:
            file.close()
            raise FleetError(f"{path.parent} is served by another process: stop it, or give another store.")
        time.sleep(0.1)
