"""The engine `local`: this process, one scene after the other, reading one ahead."""

import shutil
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from itertools import count, islice
from pathlib import Path

from attcr.downloads import background
from attcr.fleet.fetch import Fetched, fetch_ahead
from attcr.fleet.ledger import Outcome, worker_name
from attcr.fleet.manifest import Work
from attcr.fleet.worker import Job, SceneWorker


def run(
    works: Iterator[Work], job: Job, make: Callable[[Job], SceneWorker], ready: Callable[[], None], mark: str
) -> Generator[Outcome]:
    """Give the outcome of each work, in order; `ready` is called when the network is loaded.

    Under the key `mark` the store records which scene this process is working on, in case it dies.
    """
    stop = threading.Event()
    with make(job) as worker, ExitStack() as last:
        last.callback(stop.set)
        ready()
        ahead: deque[tuple[Work, Path, Future[Fetched | None]]] = deque()
        folders = (worker.scratch.folder / f"ahead-{number}" for number in count())
        while True:
            for work, folder in zip(islice(works, 2 - len(ahead)), folders, strict=False):
                ahead.append((work, folder, background(fetch_ahead, work, job.options, folder, stop)))
            if not ahead:
                return
            work, folder, fetched = ahead.popleft()
            if not work.problem:
                at = worker.scratch.folder / "at"
                at.write_text(f"{worker_name()} {work.id}")
                with suppress(OSError):  # it only helps whoever comes after us
                    worker.store.put(at, mark)
            yield worker.run(work, fetched.result())
            shutil.rmtree(folder, ignore_errors=True)
