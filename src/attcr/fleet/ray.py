"""The engine `ray`: actors on this machine or on a cluster, each with its network, and readers ahead of them.

Ray places, starts and watches processes. Two things are ours, for a reason: work is handed to an actor only a
little at a time (back-pressure), and the work of an actor that died goes back to the others, because Ray would keep
it for that actor's successor, which may wait for a machine that never comes.
"""

import logging
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

from attcr.addresses import hide_secrets, is_local
from attcr.errors import AttcrError, FleetError, warn
from attcr.extras import needed
from attcr.fleet.fetch import Fetched, fetch_ahead
from attcr.fleet.ledger import Outcome
from attcr.fleet.manifest import Work
from attcr.fleet.worker import Job, SceneWorker
from attcr.restore.options import RestoreOptions

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # before the import

with needed():
    import ray
    from ray._private import ray_constants
    from ray.exceptions import GetTimeoutError, RayActorError, RayError, RayTaskError

IN_FLIGHT = 2
"""Calls that an actor has at once: one that runs and one that waits for it."""
CALL_SECONDS = 0.25
"""Scenes are handed over in calls of about this long: one scene a call, unless they are tiny."""
MOST_A_CALL = 256
_DEATHS_AT_START = 20
_WARN_AFTER = 60  # seconds without a worker


@dataclass(frozen=True)
class Cluster:
    """Which Ray, and how much of it."""

    address: str | None = None
    """Of a cluster that runs; without it RAY_ADDRESS, which `ray job submit` sets, else one on this machine."""
    workers: int = 1
    """Actors with a network each."""
    gpus: float = 0
    """GPUs of each actor."""
    readers: int = 2
    """Calls whose remote scenes are read ahead of the actors."""
    patience: float = 60
    """Seconds after which new work is looked for while calls are under way."""


class _Actor:
    """A scene worker in a process of its own."""

    def __init__(self, job: Job, make: Callable[[Job], SceneWorker]) -> None:
        self._job, self._make = job, make
        self._worker: SceneWorker | None = None

    def ready(self) -> None:
        """Load the network; what goes wrong reaches the driver as it was raised."""
        self._worker = self._make(self._job)

    def run(self, works: Sequence[Work], fetched: Sequence[Fetched | None]) -> list[Outcome]:
        assert self._worker is not None
        return [self._worker.run(work, ahead) for work, ahead in zip(works, fetched, strict=True)]

    def close(self) -> None:
        if self._worker:
            self._worker.close()


def _fetch(works: Sequence[Work], options: RestoreOptions) -> list[Fetched | None]:
    return [fetch_ahead(work, options) for work in works]


@dataclass(frozen=True)
class _Call:
    works: tuple[Work, ...]
    fetched: Any
    """What was read ahead: a list, or Ray's reference to one."""
    alone: bool = False
    """A worker died at it: it runs with nothing else on its worker, so that the next death is its own."""


@dataclass(eq=False)
class _Member:
    actor: Any
    calls: list[Any]
    """References to its calls, one that runs and one that waits."""


class _Pool:
    """The actors, what each is at, and what waits."""

    def __init__(self, works: Iterator[Work], job: Job, make: Callable[[Job], SceneWorker], cluster: Cluster) -> None:
        self._works, self._job, self._cluster = works, job, cluster
        self._shared = ray.put(job)
        self._make = make
        threads = max(job.threads, 1)
        self._needs = f"{threads} CPU" + (f" and {cluster.gpus:g} GPU" if cluster.gpus else "")
        remote: Any = ray.remote  # its types know nothing of options
        self._remote = remote(_Actor).options(
            num_cpus=threads, num_gpus=cluster.gpus, max_restarts=0, scheduling_strategy="SPREAD"
        )
        # Actors may hold all CPUs for good: readers, which wait for the network most of the time, ask for none.
        self._reader = remote(_fetch).options(num_cpus=0, max_retries=2, scheduling_strategy="SPREAD")
        self._starting: dict[Any, Any] = {}
        self._members: list[_Member] = []
        self._calls: dict[Any, tuple[_Member, _Call]] = {}
        self._ahead: deque[_Call] = deque()
        self._again: deque[Work] = deque()
        self._lost: dict[tuple[str, int], int] = {}
        self._pace = 0.0
        self._deaths = 0
        if self._prefetch():  # else there is nothing to do, and nothing to start for it
            for _ in range(cluster.workers):
                self._start()

    def _start(self) -> None:
        actor = self._remote.remote(self._shared, self._make)
        self._starting[actor.ready.remote()] = actor

    def outcomes(self, ready: Callable[[], None]) -> Iterator[Outcome]:
        """Hand out work and give what becomes of it, until there is none left."""
        told = False
        waited = 0.0
        while self._fill():
            done, _ = ray.wait([*self._starting, *self._calls], num_returns=1, timeout=self._cluster.patience)
            waited = 0.0 if done else waited + self._cluster.patience
            if waited >= _WARN_AFTER and not self._members:
                waited = 0.0
                there = ", ".join(f"{amount:g} {name}" for name, amount in _resources().items())
                warn(f"No worker has started yet. Each needs {self._needs}; the cluster has {there or 'nothing'}.")
            for ref in done:
                if ref in self._starting:
                    self._welcome(ref)
                    if self._members and not told:
                        told = True
                        ready()
                else:
                    yield from self._finish(ref)

    def _welcome(self, ref: Any) -> None:
        actor = self._starting.pop(ref)
        try:
            ray.get(ref)
        except (RayTaskError, RayActorError) as error:
            if isinstance(error, RayTaskError) and isinstance(error.cause, AttcrError):
                raise error.cause from None  # it would be the same for every worker
            ray.kill(actor)
            self._deaths += 1
            if self._deaths >= _DEATHS_AT_START:
                last = hide_secrets(str(error).strip().splitlines()[-1])
                raise FleetError(f"{self._deaths} workers failed before they had loaded the network: {last}") from None
            self._start()
            return
        self._deaths = 0
        self._members.append(_Member(actor, []))

    def _fill(self) -> bool:
        """Give every actor that has room a call; say whether anything is left to wait for."""
        for member in sorted(self._members, key=lambda one: len(one.calls)):
            while len(member.calls) < IN_FLIGHT and not any(self._calls[ref][1].alone for ref in member.calls):
                call = self._next(idle=not member.calls)
                if call is None:
                    break
                ref = member.actor.run.remote(call.works, call.fetched)
                member.calls.append(ref)
                self._calls[ref] = (member, call)
        return bool(self._calls or self._ahead or self._again or self._prefetch())

    def _next(self, *, idle: bool) -> _Call | None:
        if self._again:
            if not idle:
                return None
            work = self._again.popleft()
            return _Call((work,), [None], alone=True)
        self._prefetch()
        return self._ahead.popleft() if self._ahead else None

    def _prefetch(self) -> bool:
        while len(self._ahead) < max(self._cluster.readers, 1):
            size = min(max(int(CALL_SECONDS / self._pace), 1), MOST_A_CALL) if self._pace else 1
            works = tuple(islice(self._works, size))
            if not works:
                break
            remote = any(not is_local(href) for work in works for href in work.hrefs)
            fetched = self._reader.remote(works, self._job.options) if remote else [None] * len(works)
            self._ahead.append(_Call(works, fetched))
        return bool(self._ahead)

    def _finish(self, ref: Any) -> Iterator[Outcome]:
        member, call = self._calls.pop(ref)
        member.calls.remove(ref)
        try:
            outcomes: list[Outcome] = ray.get(ref)
        except RayError as error:
            if member in self._members and not isinstance(error, RayTaskError):
                self._members.remove(member)
                ray.kill(member.actor)
                self._start()
            yield from self._take_back(call, error)
            return
        for outcome in outcomes:
            seconds = max(outcome.seconds, 1e-4)
            self._pace = 0.9 * self._pace + 0.1 * seconds if self._pace else seconds
        yield from outcomes

    def _take_back(self, call: _Call, error: RayError) -> Iterator[Outcome]:
        """Queue the work of a worker that died again, or quarantine what was alone with too many."""
        for work in call.works:
            lost = self._lost[work.key, work.block] = self._lost.get((work.key, work.block), 0) + 1
            if lost >= self._job.attempts and call.alone:
                message = hide_secrets(f"{lost} workers died at it. The last: {str(error).splitlines()[0]}")[:1000]
                yield Outcome(work.id, work.key, "quarantined", attempts=lost, error="WorkerDied", message=message)
            else:
                self._again.append(work)

    def close(self) -> None:
        """Let the actors remove what is unfinished, and end them; those that still start are not waited for."""
        for actor in self._starting.values():
            ray.kill(actor)
        actors = [member.actor for member in self._members]
        with suppress(RayError, GetTimeoutError):  # what a dead one left is swept
            ray.get([actor.close.remote() for actor in actors], timeout=5)
        for actor in actors:
            ray.kill(actor)


def run(
    works: Iterator[Work], job: Job, make: Callable[[Job], SceneWorker], ready: Callable[[], None], cluster: Cluster
) -> Generator[Outcome]:
    """Give the outcome of each work as it comes; `ready` is called when the first network is loaded."""
    with connected(cluster, job):
        pool = _Pool(works, job, make, cluster)
        try:
            yield from pool.outcomes(ready)
        finally:
            pool.close()


@contextmanager
def connected(cluster: Cluster, job: Job) -> Iterator[None]:
    """Connect to a cluster, or start one on this machine, for as long as this lasts; a connection is used again."""
    if ray.is_initialized():
        yield
        return
    on_terminate = signal.getsignal(signal.SIGTERM)
    _connect(cluster, job)
    try:
        yield
    finally:
        ray.shutdown()
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, on_terminate)  # ray.init puts its own in place


def _resources() -> dict[str, float]:
    return {name: amount for name, amount in ray.cluster_resources().items() if name in ("CPU", "GPU")}


@contextmanager
def _on_loopback() -> Iterator[None]:
    """Let a cluster that is started here listen to this machine alone: whoever reaches one can run anything in it.

    Ray has this for desktops and decides it when it is imported, so both its switches are set, for this start alone.
    """
    switch, before = ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR, ray_constants.ENABLE_RAY_CLUSTER
    told = os.environ.get(switch)
    os.environ[switch], ray_constants.ENABLE_RAY_CLUSTER = "0", False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before
        os.environ.pop(switch)
        if told is not None:
            os.environ[switch] = told


def _connect(cluster: Cluster, job: Job) -> None:
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    address = cluster.address or os.environ.get("RAY_ADDRESS")
    try:
        if address:
            ray.init(address=address, **quiet)
            return
        # With as many logical CPUs as a small machine has, readers and actors can wait for each other for ever.
        needed = cluster.workers * max(job.threads, 1) + cluster.readers + 1
        cpus = max(8, needed, os.cpu_count() or 1)
        with _on_loopback():
            ray.init(address="local", num_cpus=cpus, include_dashboard=False, **quiet)  # whatever else runs here
        if cluster.gpus > _resources().get("GPU", 0):
            ray.shutdown()
            raise FleetError(
                f"This machine has too few GPUs for `gpus={cluster.gpus:g}`: leave it out, or give the `address` of a "
                "cluster."
            )
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise FleetError(f"Ray cannot be reached at {address or 'this machine'}: {error}") from error
