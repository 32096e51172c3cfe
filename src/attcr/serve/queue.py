"""The jobs that a server knows, and whose turn it is."""

import threading

from attcr.serve.problems import NO_SUCH_JOB, Problem
from attcr.serve.store import OVER, JobState
from attcr.serve.turns import Turns


class JobQueue:
    """Jobs by id, and those that wait: users take turns."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        """Held by whoever changes a job."""
        self.computed: dict[str, JobState] = {}
        """Those that a process has, by id."""
        self._jobs: dict[str, JobState] = {}
        self._waiting: Turns[JobState] = Turns()
        self._short: Turns[JobState] = Turns()

    def add(self, job: JobState, most: int | None = None) -> None:
        """Take a job, unless its owner has `most` unfinished ones."""
        with self.lock:
            mine = sum(one.owner == job.owner for one in self.unfinished())
            if most is not None and mine >= most:
                raise Problem(
                    429,
                    f"You have {mine} unfinished jobs and {most} are allowed: wait until one ends, or dismiss one.",
                    headers={"Retry-After": "10"},
                )
            self._jobs[job.id] = job

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

    def all(self) -> list[JobState]:
        """Give every job."""
        return list(self._jobs.values())

    def unfinished(self) -> list[JobState]:
        """Give the jobs that have not ended."""
        return [job for job in self.all() if not job.over]

    def counts(self) -> dict[str, int]:
        """Give how many jobs there are in each status."""
        states = [job.status for job in self.all()]
        return {status: sum(one == status for one in states) for status in ("accepted", "running", *OVER)}

    def wait(self, job: JobState) -> None:
        """Let a job wait for its turn, behind the others of its owner."""
        with self.lock:
            self._waiting.wait(job.owner, job)
            if job.short:
                self._short.wait(job.owner, job)

    def next(self, *, short: bool = False) -> JobState | None:
        """Give the job whose turn it is; the users' turns go round.

        With `short` a short one, of a user who has no other short one in a process: so nobody fills both kinds.
        """
        with self.lock:
            mine, others = (self._short, self._waiting) if short else (self._waiting, self._short)
            busy = {job.owner for job in self.computed.values() if job.short} if short else ()
            while job := mine.next(busy):
                mine.ended(job.owner)
                others.drop(job.owner, job)
                if not job.over and job.id in self._jobs:
                    return job
        return None

    def remove(self, name: str) -> None:
        """Forget a job."""
        with self.lock:
            del self._jobs[name]

    def remove_older(self, before: float) -> list[JobState]:
        """Forget the jobs that ended before a time; give them."""
        with self.lock:
            old = [job for job in self._jobs.values() if job.over and (job.finished or 0) < before]
            for job in old:
                del self._jobs[job.id]
        return old

    def keeps_files_of(self, name: str) -> bool:
        """Say whether a job of this id is known and was not dismissed."""
        return name in self._jobs and self._jobs[name].status != "dismissed"
