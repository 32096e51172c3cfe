"""The jobs of a store: stored on disk before they are confirmed, and finished after any restart.

requests/ID.json   what was asked for, by whom: a job is accepted once this is on the disk
inputs/ID/         its files
items/ID.json      the fleet's item: the job is successful
ended/ID.json      how and when it ended; alone, that it failed or was dismissed
ledger/            the fleet's log
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import shutil
import threading
import time
import uuid
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import IO, Any, Literal

from attcr.addresses import error_text
from attcr.errors import FleetError
from attcr.files import write_whole
from attcr.fleet.ledger import Ledger, Outcome
from attcr.fleet.store import Store
from attcr.fleet.worker import item_key
from attcr.serve.crew import Crew
from attcr.serve.inputs import Asked, prepare
from attcr.serve.limits import Hosts
from attcr.serve.problems import NO_SUCH_JOB, Problem
from attcr.serve.settings import ServeSettings
from attcr.serve.uploads import Uploads
from attcr.serve.worker import INPUTS, PROGRESS, REQUESTS

_log = logging.getLogger("attcr.serve")
ENDED, TRIES = "ended", "tries"
Status = Literal["accepted", "running", "successful", "failed", "dismissed"]
OVER = ("successful", "failed", "dismissed")
FETCHERS = 4
"""Jobs whose files are fetched at once."""
MOST_DEATHS = 3
"""Computing processes that may die at a job."""
MOST_TRIES = 20
"""Times that a job is begun, the restarts of the server included: what ends a whole machine is poison too."""


@dataclass
class JobState:
    """One job, as it is known without looking at its files."""

    id: str
    owner: str
    created: float
    title: str = ""
    status: Status = "accepted"
    message: str = ""
    started: float | None = None
    finished: float | None = None
    error: str = ""
    """Class of the error of a failed one."""
    weights: str = ""
    notes: list[str] = field(default_factory=list)
    stage: str = "fetch"
    updated: float = 0.0
    deaths: int = 0

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self.status in OVER

    def ending(self) -> dict[str, Any]:
        """Give what is kept of its end."""
        return {name: getattr(self, name) for name in _KEPT}


_KEPT = ("status", "message", "started", "finished", "error", "weights", "notes")
assert set(_KEPT) <= {one.name for one in fields(JobState)}


class Jobs:
    """All jobs of a store, and who computes them."""

    def __init__(self, settings: ServeSettings) -> None:
        self.settings, self.root = settings, settings.root
        self.store = Store(settings.store)
        self.hosts = Hosts(settings.allow_hosts)
        for name in (REQUESTS, INPUTS, ENDED, TRIES, PROGRESS, "items", "uploads"):
            (self.root / name).mkdir(exist_ok=True)
        self._held = _hold(self.root / "serve.lock")
        self.lock = threading.RLock()
        self.uploads = Uploads(self.root, settings.limits)
        self._jobs: dict[str, JobState] = {}
        self._waiting: OrderedDict[str, deque[str]] = OrderedDict()
        self._fetching = ThreadPoolExecutor(FETCHERS, "fetch")
        self._scratch = self.store.open_scratch()
        self._ledger = Ledger(self.store, self._scratch, "serve")
        self.stopping = threading.Event()
        self.on_end: Callable[[JobState], None] = lambda _: None
        self.crew = Crew(settings, self)

    def start(self) -> None:
        """Take up what an earlier server left, and begin to work."""
        for job in sorted(self._read_all(), key=lambda one: one.created):
            self._jobs[job.id] = job
        self._sweep_orphans()
        self.crew.start()
        tried = sorted(self._unfinished(), key=lambda one: (self._tries(one.id), one.created))
        for job in tried:  # what a server may have died at comes after the others
            self._fetching.submit(self._make_ready, job.id)
        threading.Thread(target=self._tend, name="tend", daemon=True).start()

    def stop(self) -> None:
        """End the computing processes; the next server starts their jobs again."""
        self.stopping.set()
        self._fetching.shutdown(wait=False, cancel_futures=True)
        self.crew.stop()
        with self.lock:
            self._ledger.flush()
            self._scratch.close()
            self._held.close()

    def accept(self, owner: str, asked: Asked) -> JobState:
        """Take a job; when this returns, it is on the disk."""
        limit = self.settings.limits.jobs
        name = uuid.uuid4().hex
        job = JobState(name, owner, time.time(), title=self._title(owner, asked), updated=time.time())
        with self.lock:
            if self.stopping.is_set():
                raise Problem(503, "The server is about to stop: ask again.", headers={"Retry-After": "10"})
            mine = sum(one.owner == owner and not one.over for one in self._jobs.values())
            if mine >= limit:
                raise Problem(
                    429,
                    f"You have {mine} unfinished jobs and {limit} are allowed: wait until one ends, or dismiss one.",
                    headers={"Retry-After": "10"},
                )
            self._jobs[name] = job  # counts while it is being written
        try:
            self._write_request(job, asked)
        except BaseException as error:
            with self.lock:
                del self._jobs[name]
            (self.root / REQUESTS / f"{name}.json").unlink(missing_ok=True)
            shutil.rmtree(self.root / INPUTS / name, ignore_errors=True)
            if isinstance(error, OSError):
                raise Problem(507, f"The job cannot be kept: {error.strerror}.") from error
            raise
        self._fetching.submit(self._make_ready, name)
        return job

    def _write_request(self, job: JobState, asked: Asked) -> None:
        folder = self.root / INPUTS / job.id
        folder.mkdir(mode=0o700)
        for number, ref in enumerate(asked.refs):
            if ref.upload:
                self.uploads.link(job.owner, ref.upload, folder / str(number))
        told = {"id": job.id, "owner": job.owner, "created": job.created, "title": job.title, "asked": asked.to_json()}
        write_whole(self.root / REQUESTS / f"{job.id}.json", json.dumps(told))

    def _title(self, owner: str, asked: Asked) -> str:
        first = asked.refs[0]
        if first.upload:
            return self.uploads.get(owner, first.upload).name
        return first.shown().rstrip("/").rpartition("/")[2][:200]

    def get(self, owner: str, name: str) -> JobState:
        """Give a user's job; another's is not there."""
        job = self._jobs.get(name)  # without the lock: nobody who looks waits for a disk
        if job is None or job.owner != owner:
            raise Problem(404, f"There is no job {name[:64]!r} of yours.", NO_SUCH_JOB)
        return job

    def of(self, owner: str) -> list[JobState]:
        """Give a user's jobs, newest first."""
        mine = [job for job in list(self._jobs.values()) if job.owner == owner]
        return sorted(mine, key=lambda job: job.created, reverse=True)

    def asked(self, job: JobState) -> Asked:
        """Give what a job's request was."""
        return Asked.from_json(json.loads((self.root / REQUESTS / f"{job.id}.json").read_bytes())["asked"])

    def progress(self, job: JobState) -> dict[str, Any]:
        """Give how far a running job is, as its process told last."""
        try:
            told = json.loads((self.root / PROGRESS / f"{job.id}.json").read_bytes())
        except (OSError, ValueError):
            return {}
        return told if isinstance(told, dict) else {}

    def counts(self) -> dict[str, int]:
        """Give how many jobs there are in each status."""
        states = [job.status for job in list(self._jobs.values())]
        return {status: states.count(status) for status in ("accepted", "running", *OVER)}  # type: ignore[arg-type]

    def dismiss(self, owner: str, name: str) -> JobState:
        """End a job, if it has not ended, and remove its files; that it was dismissed stays known for a while."""
        job = self.get(owner, name)
        with self.lock:
            if job.status != "dismissed":
                self._end(job, "dismissed", "It was dismissed.")
                self.crew.drop(name)
        self._remove_files(name)
        return job

    def next_job(self) -> str | None:
        """Give the id of the next job to compute: users take turns. Called with the lock held."""
        while self._waiting:
            owner, names = self._waiting.popitem(last=False)
            name = names.popleft()
            if names:
                self._waiting[owner] = names  # at the end of the line
            job = self._jobs.get(name)
            if job is None or job.over:
                continue
            tries = self._tries(name) + 1
            (self.root / TRIES / name).write_text(str(tries))
            if tries > MOST_TRIES:
                self._end(job, "failed", f"The server ended {tries - 1} times while at it.", "WorkerDied")
                continue
            return name
        return None

    def begun(self, name: str) -> None:
        """Hear that a job is being computed."""
        with self.lock:
            job = self._jobs.get(name)
            if job and not job.over:
                job.status, job.stage, job.started = "running", "mask", job.started or time.time()
                job.updated = time.time()

    def ended(self, outcome: Outcome, told: dict[str, Any]) -> None:
        """Hear what became of a job."""
        with self.lock:
            job = self._jobs.get(outcome.id)
            if job is None:
                return
            job.weights, job.notes = str(told.get("weights", "")), list(told.get("notes", []))
            if job.over:  # dismissed meanwhile
                self._remove_files(job.id)
                return
            self._ledger.add(outcome)
            if outcome.status == "quarantined":
                self._end(job, "failed", self.public(outcome.message), outcome.error)
            else:
                self._end(job, "successful", "The scene is restored.")

    def died(self, name: str, reason: str) -> None:
        """Hear that the process died that was at a job; it is tried again a few times."""
        with self.lock:
            job = self._jobs.get(name)
            if job is None:
                return
            if job.over:
                self._remove_files(name)
                return
            job.deaths += 1
            told = Outcome(name, "0" * 64, "lost", attempts=job.deaths, error="WorkerDied", message=reason)
            self._ledger.add(told)
            if job.deaths >= MOST_DEATHS or reason.startswith("It took more"):
                kind = "TimeoutError" if reason.startswith("It took more") else "WorkerDied"
                self._end(job, "failed", f"{reason} It was tried {job.deaths} times.", kind)
            else:
                self._queue(job)

    def public(self, text: str) -> str:
        """Give a text without the places of files in the store: their names alone."""
        for folder in (INPUTS, "uploads", ".scratch"):
            start = f"{self.root / folder}/"
            while start in text:
                before, _, after = text.partition(start)
                path, space, rest = after.partition(" ")
                text = before + path.rpartition("/")[2] + space + rest
        return text.replace(str(self.root), "")

    def results(self, job: JobState) -> dict[str, Path]:
        """Give the files of a successful job by output."""
        item_path = self.root / item_key(job.id)
        item = json.loads(item_path.read_bytes())
        files = {name: (item_path.parent / asset["href"]).resolve() for name, asset in item["assets"].items()}
        return {**files, "item": item_path}

    def stored_bytes(self, owner: str) -> int:
        """Give the bytes of a user's uploads."""
        return self.uploads.bytes_of(owner)

    def _queue(self, job: JobState) -> None:
        with self.lock:
            if job.over:
                return
            job.status, job.stage, job.updated = "accepted", "queue", time.time()
            self._waiting.setdefault(job.owner, deque()).append(job.id)
        self.crew.hand_out()

    def _make_ready(self, name: str) -> None:
        """Fetch a job's files, then let it wait for its turn; or fail it with the reason."""
        with self.lock:
            job = self._jobs.get(name)
        if job is None or job.over or self.stopping.is_set():
            return
        try:
            prepare(self.asked(job), self.root / INPUTS / name, self.hosts, self.settings.limits)
        except Exception as error:  # whatever a request names, it stops no other
            if self.stopping.is_set():
                return
            kind, message = error_text(error)
            with self.lock:
                if not job.over:
                    self._end(job, "failed", self.public(message), kind)
            return
        self._queue(job)

    def _end(self, job: JobState, status: Status, message: str, error: str = "") -> None:
        """Write down that a job has ended. Called with the lock held."""
        job.status, job.message, job.error, job.finished = status, message, error, time.time()
        job.updated = job.finished
        try:
            write_whole(self.root / ENDED / f"{job.id}.json", json.dumps(job.ending()))
        except OSError:  # a full disk: the item tells of a success, and anything else is tried again
            _log.exception("the end of a job cannot be written", extra={"job": job.id})
        for folder, suffix in ((PROGRESS, ".json"), (TRIES, "")):
            (self.root / folder / f"{job.id}{suffix}").unlink(missing_ok=True)
        self.on_end(job)

    def _tries(self, name: str) -> int:
        try:
            return int((self.root / TRIES / name).read_text())
        except (OSError, ValueError):
            return 0

    def _unfinished(self) -> list[JobState]:
        return [job for job in self._jobs.values() if not job.over]

    def _read_all(self) -> Iterator[JobState]:
        """Read the jobs that are on the disk."""
        for path in (self.root / REQUESTS).glob("*.json"):
            try:
                told = json.loads(path.read_bytes())
                job = JobState(told["id"], told["owner"], told["created"], told["title"], updated=told["created"])
            except (OSError, ValueError, KeyError, TypeError):
                continue  # not ours
            try:
                for name, value in json.loads((self.root / ENDED / path.name).read_bytes()).items():
                    setattr(job, name, value)
                job.updated = job.finished or job.created
            except (OSError, ValueError):
                item = self.root / item_key(job.id)
                if item.exists():  # committed, and the server died before it heard
                    job.finished = job.updated = item.stat().st_mtime
                    job.started, job.status, job.message = job.finished, "successful", "The scene is restored."
            yield job

    def _sweep_orphans(self) -> None:
        """Remove the files of requests that were never accepted, and of jobs that were dismissed."""
        for folder in (self.root / INPUTS).iterdir():
            job = self._jobs.get(folder.name)
            if job is None or job.status == "dismissed":
                shutil.rmtree(folder, ignore_errors=True)

    def _remove_files(self, name: str) -> None:
        (self.root / item_key(name)).unlink(missing_ok=True)
        for path in (self.root / "scenes" / name, self.root / INPUTS / name):
            shutil.rmtree(path, ignore_errors=True)

    def _tend(self) -> None:
        """Now and then write the log, end what takes too long, and remove what is old."""
        turn = 0
        while not self.stopping.wait(1):
            turn += 1
            self.crew.watch()
            with self.lock:
                if turn % 5 == 0 and not self.stopping.is_set():
                    self._ledger.flush()
            if turn % 600 == 0:
                self.forget(time.time() - self.settings.limits.keep_days * 86400)

    def forget(self, before: float) -> None:
        """Remove jobs that ended, and uploads that came, before a time."""
        with self.lock:
            old = [job for job in self._jobs.values() if job.over and (job.finished or 0) < before]
            for job in old:
                del self._jobs[job.id]
        for job in old:
            (self.root / REQUESTS / f"{job.id}.json").unlink(missing_ok=True)
            self._remove_files(job.id)
            (self.root / ENDED / f"{job.id}.json").unlink(missing_ok=True)
        self.uploads.forget(before)


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
