"""The engine `local`: this process, one scene after the other, reading one ahead."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import islice

from attcr.fleet.fetch import Fetched, fetch_ahead
from attcr.fleet.ledger import Outcome, worker_name
from attcr.fleet.manifest import Work
from attcr.fleet.worker import Job, SceneWorker


def run(
    works: Iterator[Work], job: Job, make: Callable[[Job], SceneWorker], ready: Callable[[], None], mark: str
) -> Generator[Outcome]:
    """Give the outcome of each work, in order; `ready` is called when the network is loaded.

    Under the key `mark` the store is told which scene this process is at, for whoever comes after its death.
    """
    with make(job) as worker, ThreadPoolExecutor(1) as reader:
        ready()
        ahead: deque[tuple[Work, Future[Fetched | None]]] = deque()
        while True:
            for work in islice(works, 2 - len(ahead)):
                ahead.append((work, reader.submit(fetch_ahead, work, job.options)))
            if not ahead:
                return
            work, fetched = ahead.popleft()
            if not work.problem:
                at = worker.scratch.folder / "at"
                at.write_text(f"{worker_name()} {work.id}")
                with suppress(OSError):  # it only helps whoever comes after us
                    worker.store.put(at, mark)
            yield worker.run(work, fetched.result())
