"""The engine `local`: this process, one scene after the other, reading one ahead."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice

from attcr.fleet.ledger import Outcome
from attcr.fleet.manifest import Work
from attcr.fleet.unit import Fetched, Job, SceneWorker, fetch_ahead


def run(
    works: Iterator[Work], job: Job, make: Callable[[Job], SceneWorker], ready: Callable[[], None]
) -> Generator[Outcome]:
    """Give the outcome of each work, in order; `ready` is called when the network is loaded."""
    with make(job) as worker, ThreadPoolExecutor(1) as reader:
        ready()
        ahead: deque[tuple[Work, Future[Fetched | None]]] = deque()
        while True:
            for work in islice(works, 2 - len(ahead)):
                ahead.append((work, reader.submit(fetch_ahead, work, job.options)))
            if not ahead:
                return
            work, fetched = ahead.popleft()
            yield worker.run(work, fetched.result())
