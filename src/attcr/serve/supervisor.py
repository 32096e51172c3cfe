"""From a request to its end: files fetched, a process found, deaths and deadlines seen to, and old jobs removed."""

import json
import shutil
import sys
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import asdict, replace

from attcr.addresses import error_text
from attcr.downloads import background
from attcr.files import cores
from attcr.fleet.ledger import Ledger, Outcome
from attcr.fleet.store import Store
from attcr.serve.inputs import Errand, prepare
from attcr.serve.limits import Hosts, Line
from attcr.serve.models import Asked, JobStatus
from attcr.serve.pool import Pool, Reply, TookTooLong, WorkerDied
from attcr.serve.problems import Problem
from attcr.serve.queue import JobQueue
from attcr.serve.quota import Quota, Reservation
from attcr.serve.settings import ServeSettings
from attcr.serve.store import INPUTS, JobState, JobStore
from attcr.serve.turns import Turns
from attcr.serve.uploads import Uploads
from attcr.serve.worker import WorkerSettings, lay_out

WORKER = (sys.executable, "-m", "attcr.serve.compute")
"""What computes."""
IN_FLIGHT = 2
"""Jobs that a worker on Ray has at once: one that runs and one that waits for it."""
BEHIND = 5
"""By how much other processes stand behind the one for short jobs, as `nice` counts."""
SHORT_BYTES = 32 << 20
"""Bytes of the files of a job that may be short; the process looks at the pixels."""
SLACK = 60.0
"""Seconds beyond a job's own limit after which its process is killed: a library may hear no signal."""
GRACE = 3.0
"""Seconds that a process has to leave a job that was dismissed, before it is killed."""
FETCHERS = 64
"""Jobs whose files are fetched at once, of all users; they wait for servers, and cost little."""
FETCHERS_OF_USER = 4
"""The same of one user, so that slow servers hold up nobody else."""
MOST_DEATHS = 3
"""Computing processes that may die at a job."""
MOST_TRIES = 20
"""Times that a job is begun, the restarts of the server included: what ends a whole machine is poison too."""


def _pools(settings: ServeSettings) -> list[Pool]:
    """Give the processes that compute, one each, or on Ray one for all actors; then the one for short jobs.

    That one is there where a core is left for it, and goes before the others where both want one.
    """
    on_ray = settings.engine == "ray"
    beside = not on_ray and settings.device == "cpu" and cores() > settings.workers
    told = WorkerSettings(
        store=str(settings.root),
        engine=settings.engine,
        workers=settings.workers + beside,
        threads=settings.threads or (1 if on_ray else 0),
        device=settings.device,
        address=settings.address,
        limits=settings.limits,
        nice=BEHIND if beside else 0,
    )
    count, capacity = (1, settings.workers * IN_FLIGHT) if on_ray else (settings.workers, 1)
    pools = [(told, count)] + [(replace(told, short=True, nice=0), 1)] * beside
    return [
        Pool(
            [*WORKER, json.dumps(asdict(one))],
            least=count,
            most=count,
            capacity=capacity,
            seconds=settings.limits.seconds + SLACK,
        )
        for one, count in pools
    ]


class Supervisor:
    """Sees every job of a store to its end."""

    def __init__(self, settings: ServeSettings) -> None:
        self.settings, self.hosts = settings, Hosts(settings.allow_hosts)
        store = Store(settings.store)
        self.quota = Quota(settings.limits.stored_bytes)
        self.store = JobStore(settings.root, self.quota)
        self.queue = JobQueue()
        self.uploads = Uploads(settings.root, settings.limits, self.quota)
        self.stopping = threading.Event()
        self.on_end: Callable[[JobState], None] = lambda _: None
        self._to_fetch: Turns[JobState] = Turns(FETCHERS_OF_USER)
        self._fetching: dict[str, Line] = {}
        self._scratch = store.open_scratch()
        self._ledger = Ledger(store, self._scratch, "serve")
        self._pools = _pools(settings)
        for pool in self._pools:
            pool.on_room = self._hand_out
        self.weights = lay_out(settings)
        """Names that requests may ask for."""

    @property
    def ready(self) -> bool:
        """Whether a process is there to compute."""
        return self._pools[0].ready

    def start(self) -> None:
        """Take up what an earlier server left, and begin to work."""
        for job in sorted(self.store.read_all(), key=lambda one: one.created):
            self.queue.add(job)
        for folder in (self.store.root / INPUTS).iterdir():
            if not self.queue.keeps_files_of(folder.name):
                shutil.rmtree(folder, ignore_errors=True)
        kept = defaultdict(list)
        for owner, path in self.uploads.kept():
            kept[owner].append(path)
        for job in self.queue.all():
            kept[job.owner] += self.store.count_files(job)
        for owner, paths in kept.items():
            self.quota.count(owner, paths)
        for pool in self._pools:
            pool.start()
        # what a server may have died at comes after the others
        for job in sorted(self.queue.unfinished(), key=lambda one: (self.store.tries(one.id), one.created)):
            self._bring(job)
        threading.Thread(target=self._tend, name="tend", daemon=True).start()

    def stop(self) -> None:
        """End the computing processes; the next server starts their jobs again."""
        self.stopping.set()
        with self.queue.lock:
            for line in self._fetching.values():
                line.cut("The server stops.")
        for pool in self._pools:
            pool.stop()
        with self.queue.lock:
            self._ledger.flush()
            self._scratch.close()
            self.store.close()

    def accept(self, owner: str, asked: Asked) -> JobState:
        """Take a job; when this returns, it is on the disk."""
        now = time.time()
        job = JobState(uuid.uuid4().hex, owner, now, title=self._title(owner, asked), updated=now)
        if self.stopping.is_set():
            raise Problem(503, "The server is about to stop: ask again.", headers={"Retry-After": "10"})
        self.queue.add(job, self.settings.limits.jobs)  # it counts while it is being written
        try:
            folder = self.store.folder(job.id)
            folder.mkdir(mode=0o700)
            for number, ref in enumerate(asked.refs):
                if ref.upload:
                    self.uploads.link(owner, ref.upload, folder / str(number))
            self.store.write_request(job, asked)
        except BaseException as error:
            self.queue.remove(job.id)
            self.store.remove(job)
            if isinstance(error, OSError):
                raise Problem(507, f"The job cannot be kept: {error.strerror}.") from error
            raise
        self._bring(job)
        return job

    def dismiss(self, owner: str, name: str) -> JobState:
        """End a job, if it has not ended, and remove its files; that it was dismissed stays known for a while."""
        job = self.queue.get(owner, name)
        with self.queue.lock:
            if job.status != "dismissed":
                self._end(job, "dismissed", "It was dismissed.")
                for pool in self._pools if name in self.queue.computed else ():
                    pool.cancel_later(name, GRACE)
            if fetching := self._fetching.get(name):
                fetching.cut("the job was dismissed")  # who fetches removes the files
            else:
                self.store.forget(job)
        return job

    def forget(self, before: float) -> None:
        """Remove jobs that ended, and uploads that came, before a time."""
        for job in self.queue.remove_older(before):
            self.store.remove(job)
        self.uploads.forget(before)

    def _title(self, owner: str, asked: Asked) -> str:
        first = asked.refs[0]
        if first.upload:
            return self.uploads.get(owner, first.upload).name
        return first.shown().rstrip("/").rpartition("/")[2][:200]

    def _bring(self, job: JobState) -> None:
        """Have a job's files brought, at once if it has them all, else when its user's turn has come."""
        try:
            here = all(ref.upload for ref in self.store.asked(job).refs)
        except (OSError, ValueError):
            here = True  # it fails with the reason
        if here:
            self._make_ready(job, Line())
            return
        with self.queue.lock:
            self._to_fetch.wait(job.owner, job)
        self._fetch_more()

    def _fetch_more(self) -> None:
        """Begin to fetch for those whose turn it is."""
        with self.queue.lock:
            while len(self._fetching) < FETCHERS and (job := self._to_fetch.next()):
                line = self._fetching[job.id] = Line()
                background(self._fetch, job, line)

    def _fetch(self, job: JobState, line: Line) -> None:
        limit = self.settings.limits.seconds
        with line.within(limit, f"it took more than the {limit:g} s that a job may take"):
            self._make_ready(job, line)
        with self.queue.lock:
            del self._fetching[job.id]
            self._to_fetch.ended(job.owner)
        if job.status == "dismissed":
            with self.queue.lock:
                self.store.forget(job)
        self._fetch_more()

    def _make_ready(self, job: JobState, line: Line) -> None:
        """Bring a job's files, then let it wait for its turn; or fail it with the reason."""
        if job.over or self.stopping.is_set():
            return
        errand = Errand(self.hosts, self.settings.limits, lambda: Reservation(self.quota, job.owner), line)
        try:
            prepare(self.store.asked(job), self.store.folder(job.id), errand)
        except Exception as error:  # whatever a request names, it stops no other
            if not self.stopping.is_set():
                kind, message = error_text(error)
                self._end(job, "failed", self.store.public(message), kind)
            return
        files = (path.stat().st_size for path in self.store.folder(job.id).rglob("*") if path.is_file())
        job.short = len(self._pools) > 1 and sum(files) <= SHORT_BYTES
        self._wait(job)

    def _wait(self, job: JobState) -> None:
        with self.queue.lock:
            if job.over:
                return
            job.status, job.stage, job.updated = "accepted", "queue", time.time()
            self.queue.wait(job)
        self._hand_out()

    def _hand_out(self) -> None:
        """Give every process that has room a job."""
        with self.queue.lock:
            for pool in self._pools:
                short = pool is not self._pools[0]
                while not self.stopping.is_set() and pool.room and (job := self.queue.next(short=short)):
                    self._give(pool, job)

    def _give(self, pool: Pool, job: JobState) -> None:
        tries = self.store.count_try(job.id)
        if tries > MOST_TRIES:
            self._end(job, "failed", f"The server ended {tries - 1} times while at it.", "WorkerDied")
            return
        self.queue.computed[job.id] = job
        future = pool.submit(job.id, {}, begun=lambda: self._begun(job))
        future.add_done_callback(lambda done: self._computed(job, done))

    def _begun(self, job: JobState) -> None:
        with self.queue.lock:
            if not job.over:
                job.status, job.stage, job.started = "running", "mask", job.started or time.time()
                job.updated = time.time()

    def _computed(self, job: JobState, done: Future[Reply]) -> None:
        """Hear what became of a job that a process had."""
        if self.stopping.is_set():
            return
        error = done.exception()
        with self.queue.lock:
            del self.queue.computed[job.id]
            answer = {} if error else done.result().told
            told = answer.get("told", {})
            job.weights, job.notes = str(told.get("weights", job.weights)), list(told.get("notes", job.notes))
            if job.over:  # dismissed meanwhile
                self.store.forget(job)
            elif isinstance(error, WorkerDied):
                self._lost(job, error)
            elif told.get("long"):
                job.short = False
                self._wait(job)
            else:
                outcome = Outcome(**answer["outcome"])
                self._ledger.add(outcome)
                if outcome.status == "quarantined":
                    self._end(job, "failed", self.store.public(outcome.message), outcome.error)
                else:
                    self._succeed(job)

    def _succeed(self, job: JobState) -> None:
        """Keep what a job made, if its user has room for it."""
        try:
            self.store.keep_results(job)
        except Problem as error:
            self._end(job, "failed", f"Its results cannot be kept. {error}", "Problem")
        else:
            self._end(job, "successful", "The scene is restored.")

    def _lost(self, job: JobState, error: WorkerDied) -> None:
        """Try a job again a few times whose process died; but not one that took too long."""
        late = isinstance(error, TookTooLong)
        limit = f"It took more than the {self.settings.limits.seconds:g} s that a job may take."
        reason = limit if late else str(error)
        job.deaths += 1
        self._ledger.add(Outcome(job.id, "0" * 64, "lost", attempts=job.deaths, error="WorkerDied", message=reason))
        if late or job.deaths >= MOST_DEATHS:
            kind = "TimeoutError" if late else "WorkerDied"
            self._end(job, "failed", f"{reason} It was tried {job.deaths} times.", kind)
        else:
            self._wait(job)

    def _end(self, job: JobState, status: JobStatus, message: str, error: str = "") -> None:
        """Write down that a job has ended; a second end changes nothing but that it was dismissed."""
        with self.queue.lock:
            if job.over and status != "dismissed":
                return
            job.status, job.message, job.error, job.finished = status, message, error, time.time()
            job.updated = job.finished
            if status == "failed":
                self.store.drop_results(job)
            self.store.write_end(job)
            self.on_end(job)

    def _tend(self) -> None:
        """Now and then write the log, and remove what is old."""
        turn = 0
        while not self.stopping.wait(5):
            turn += 1
            with self.queue.lock:
                if not self.stopping.is_set():
                    self._ledger.flush()
            if turn % 120 == 0:
                self.forget(time.time() - self.settings.limits.keep_days * 86400)
