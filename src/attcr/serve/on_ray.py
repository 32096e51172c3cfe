"""The engine `ray` of a server: one driver that hands jobs to the fleet's actors as they come."""

import queue
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from attcr.fleet import ray
from attcr.fleet.fetch import Fetched
from attcr.fleet.ledger import Outcome
from attcr.fleet.manifest import Work
from attcr.fleet.worker import Job, SceneWorker
from attcr.restore.options import RestoreOptions
from attcr.serve.pool import hold_memory
from attcr.serve.store import PROGRESS, read_object
from attcr.serve.worker import JobRunner, WorkerSettings

PATIENCE = 1.0
"""Seconds after which new jobs are looked for while others run."""


class RunnerInActor(SceneWorker):
    """What computes jobs, in an actor; it loads the network of each job when the job comes."""

    def __init__(self, job: Job, settings: WorkerSettings) -> None:
        self.job, self._runner = job, JobRunner(settings)
        if self._runner.memory:
            hold_memory(self._runner.memory)

    def run(self, work: Work, fetched: Fetched | None = None) -> Outcome:
        """Restore the scene of a job; its files are in the store."""
        return self._runner.run(work.id)[0]

    def close(self) -> None:
        """Remove what is unfinished."""
        self._runner.close()


class Coming:
    """Jobs as they come: dry while others run, and waiting where none does."""

    def __init__(self, requests: queue.SimpleQueue[dict[str, Any]], begun: Callable[[str], None]) -> None:
        self._requests, self._begun = requests, begun
        self.running = 0

    def __iter__(self) -> Iterator[Work]:
        return self

    def __next__(self) -> Work:
        try:
            name = self._requests.get(block=not self.running)["id"]
        except queue.Empty:
            raise StopIteration from None
        self.running += 1
        self._begun(name)
        return Work(name, (name,), key=name)


def run_ray(
    settings: WorkerSettings, requests: queue.SimpleQueue[dict[str, Any]], tell: Callable[[dict[str, Any]], None]
) -> None:
    """Run jobs on actors until the server ends."""
    job = Job(settings.store, b"", "", RestoreOptions(device=settings.device), threads=settings.threads)
    gpus = 1.0 if settings.device.startswith("cuda") else 0.0
    cluster = ray.Cluster(settings.address, settings.workers, gpus, patience=PATIENCE)
    coming = Coming(requests, lambda name: tell({"at": name}))
    with ray.connected(cluster, job):  # no job is handed over, and none is lost, while Ray is not there
        tell({"ready": True})
        for outcome in ray.run(coming, job, partial(RunnerInActor, settings=settings), lambda: None, cluster):
            coming.running -= 1
            noted = read_object(Path(settings.store) / PROGRESS / f"{outcome.id}.json")
            told = {key: noted[key] for key in ("weights", "notes") if key in noted}
            tell({"id": outcome.id, "outcome": asdict(outcome), "told": told})
