"""A run: what the manifest asks for, less what is done, through an engine, into the ledger."""

import hashlib
import json
import math
import os
import re
import socket
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import numpy as np
import obstore
from obstore.exceptions import BaseError

from attcr.addresses import hide_secrets, redact
from attcr.downloads import LIMIT_VARIABLE, download_limit
from attcr.errors import FleetError, ManifestError, WeightsError
from attcr.fleet import local
from attcr.fleet.ledger import (
    Ledger,
    Outcome,
    Summary,
    contains,
    quarantined_rows,
    read_standing,
    short_key,
    summarise,
)
from attcr.fleet.manifest import ROWS_AT_ONCE, Survey, Work, in_shard, read_manifest, survey
from attcr.fleet.options import FleetOptions as FleetOptions
from attcr.fleet.plan import megapixels_of
from attcr.fleet.store import Scratch, Store, open_bucket, split_url, sweep
from attcr.fleet.worker import Job, SceneWorker, block_key
from attcr.predict import EXPORTED
from attcr.references.correct import network_sha256
from attcr.restore.options import RestoreOptions
from attcr.weights import find_weights

RUN = "run.json"
MOST_BLOCKS = 4096
"""Of a scene: the size in a row may be wrong, and a block is at least a row of tiles."""


_ENDING = 10  # seconds in which a process that Ray was told to kill is dead, also on a busy machine
_MARK = re.compile(r"(?P<host>.*):(?P<pid>[1-9][0-9]{0,8}) (?P<name>.+)")  # no process has a larger number


@dataclass
class Tally:
    """What a run did so far."""

    rows: int = 0
    """Of the manifest, or of its shard so far."""
    skipped: int = 0
    """Done before, by ledger and item."""
    done: int = 0
    found: int = 0
    """Done before, by their item alone."""
    quarantined: int = 0
    """In this run or an earlier one."""
    megapixels: float = 0.0
    startup_seconds: float = 0.0
    """Until the first network was loaded."""
    seconds: float = 0.0
    """From then on."""

    @property
    def complete(self) -> bool:
        """Every scene has its result."""
        return self.quarantined == 0

    def count(self, outcome: Outcome) -> None:
        """Take an outcome in."""
        self.done += outcome.status == "done"
        self.found += outcome.status == "found"
        self.quarantined += outcome.status == "quarantined"
        self.megapixels += outcome.megapixels


def run_fleet(
    manifest: str,
    out: str,
    weights: str,
    *,
    options: RestoreOptions | None = None,
    fleet: FleetOptions | None = None,
    on_outcome: Callable[[Outcome, Tally], None] | None = None,
    make: Callable[[Job], SceneWorker] = SceneWorker,
) -> Tally:
    """Restore every scene of a manifest that is not restored yet, and count what was done.

    `out` is a folder or a bucket's prefix: `items/ID.json` are the STAC items, each of which marks its scene as done,
    `scenes/ID/WORK/` the rasters, `ledger/` the log. Run it again to continue after any interruption.
    """
    options, fleet = options or RestoreOptions(), fleet or FleetOptions()
    began = time.perf_counter()
    store = Store(out)
    mark = f"at-{fleet.shard[0]}-of-{fleet.shard[1]}"
    crashed = _died_at(store, mark) if fleet.engine == "local" else set()
    job = make_job(out, weights, options, fleet)
    recipe = recipe_of(job.weights_sha256, job.options)
    tally = Tally()
    try:
        with store.open_scratch() as scratch:
            ledger = Ledger(store, scratch, recipe)
            todo = _Todo(manifest, recipe, fleet, store, tally, ledger)
            todo.crashed = crashed
            _describe(store, scratch, manifest, todo.about, job, recipe)

            def ready() -> None:
                nonlocal began
                tally.startup_seconds = time.perf_counter() - began
                began = time.perf_counter()

            try:
                with closing(_engine(todo, job, make, ready, fleet, mark)) as outcomes:
                    for one in outcomes:
                        outcome = todo.settle(one)
                        if outcome is None:
                            continue
                        tally.count(outcome)
                        ledger.add(outcome)
                        if on_outcome:
                            on_outcome(outcome, tally)
            finally:
                ledger.flush()
                if fleet.engine == "local":
                    with suppress(OSError):  # not ours to remove
                        store.delete(mark)
    finally:
        sweep(store.scratch, wait=_ENDING if fleet.engine == "ray" else 0)
    tally.seconds = time.perf_counter() - began
    return tally


def make_job(out: str, weights: str, options: RestoreOptions, fleet: FleetOptions) -> Job:
    """Gather what the workers need; the weights travel with it, so that only this process must see their file."""
    suffix = Path(weights.partition("#")[0]).suffix.lower()
    content = _read(weights)
    threads = fleet.threads or (1 if fleet.engine == "ray" else 0)
    digest = hashlib.sha256(content).hexdigest()
    kind = suffix if suffix == EXPORTED else ".safetensors"
    return Job(out, content, digest, options.on_any_machine(), fleet.attempts, threads, fleet.deadline, kind)


def recipe_of(weights_sha256: str, options: RestoreOptions) -> str:
    """Give a sha256 that stands for weights and options."""
    network = network_sha256() if options.references else ""
    return hashlib.sha256(f"{weights_sha256} {options.digest()}{network}".encode()).hexdigest()


def _engine(
    works: Iterator[Work],
    job: Job,
    make: Callable[[Job], SceneWorker],
    ready: Callable[[], None],
    fleet: FleetOptions,
    mark: str,
) -> Generator[Outcome]:
    if fleet.engine == "local":
        return local.run(works, job, make, ready, mark)
    from attcr.fleet import ray

    cluster = ray.Cluster(fleet.address, fleet.workers, fleet.gpus, fleet.readers)
    return ray.run(works, job, make, ready, cluster)


class _Todo:
    """The work of a manifest that is still to do, found a batch of rows at a time.

    It may run dry and give more later: the blocks of a split scene are joined when the last of them is restored.
    """

    def __init__(
        self, manifest: str, recipe: str, fleet: FleetOptions, store: Store, tally: Tally, ledger: Ledger
    ) -> None:
        self._recipe, self._fleet, self._store, self._tally, self._ledger = recipe, fleet, store, tally, ledger
        self.about = survey(manifest)
        if not self.about.rows:
            raise ManifestError(f"There is no scene in {redact(manifest)}: check the name, or the pattern.")
        self.crashed: set[str] = set()
        """Ids of scenes at which an earlier process died."""
        standing = read_standing(store)
        ledger.follow(standing.latest)
        # After a run with other weights or options, killed before its ledger was written, only the items tell.
        data = store.read(RUN)
        trusted = data is None or _parse_about(data).get("recipe") == recipe
        self._standing = standing if trusted else replace(standing, done=standing.done[:0])
        # Eight bytes for each item that is there, and a request for a thousand.
        there = store.names("items") if self._standing.done.size else ()
        self._items = np.sort(np.fromiter((hash(name.removesuffix(".json")) for name in there), np.int64))
        self._block_files: dict[str, list[str]] = {}
        for name in store.names("blocks"):
            self._block_files.setdefault(name.partition("-")[0], []).append(name)
        self._split: dict[str, tuple[Work, int]] = {}
        self._told: set[str] = set()  # split scenes whose end was told: what their other blocks do is no news
        self._joins: deque[Work] = deque()
        rows = (work for work in read_manifest(manifest) if in_shard(work, fleet.shard))
        self._works = self._left(rows)

    def __iter__(self) -> Iterator[Work]:
        return self

    def __next__(self) -> Work:
        return self._joins.popleft() if self._joins else next(self._works)

    def settle(self, outcome: Outcome) -> Outcome | None:
        """Give the outcome as one of a scene, or None while blocks of it are under way or it was reported already."""
        if outcome.work in self._split:
            work, left = self._split[outcome.work]
            if outcome.status == "block":
                self._split[outcome.work] = (work, left - 1)
                if left == 1:
                    self._joins.append(replace(work, block=work.blocks))
                return None
            del self._split[outcome.work]  # joined, found, or one block of it cannot be restored
            self._told.add(outcome.work)
            if outcome.status != "quarantined":
                self._drop_blocks(outcome.work, [block_key(work, block) for block in range(work.blocks)])
        elif outcome.status == "block" or outcome.work in self._told:
            return None
        return outcome

    def _left(self, rows: Iterator[Work]) -> Iterator[Work]:
        """Give the rows that are neither done nor quarantined."""
        standing = self._standing
        seen: set[str] = set()
        while batch := [self._refuse_repeated(work.keyed(self._recipe), seen) for work in islice(rows, ROWS_AT_ONCE)]:
            self._tally.rows += len(batch)
            keys = np.array([short_key(work.key) for work in batch], np.uint64)
            there = contains(self._items, np.array([hash(work.id) for work in batch], np.int64))
            done = contains(standing.done, keys) & there & np.array([not work.problem for work in batch])
            kept_out = contains(standing.quarantined, keys) & ~done
            self._tally.skipped += int(done.sum())
            self._tally.quarantined += int(kept_out.sum())
            if self._block_files:
                for i in np.flatnonzero(done):
                    self._drop_blocks(batch[i].key, [])
            for i in np.flatnonzero(~done & ~kept_out):
                work = batch[i]
                if work.id not in self.crashed or self._try_after_crash(work):
                    yield from self._blocks_of(work)

    def _blocks_of(self, work: Work) -> Iterator[Work]:
        """Give the work, or the blocks that it is split into."""
        limit = self._fleet.split_over
        size = megapixels_of(work) if limit and not work.problem else None
        if not limit or not size or size <= limit:
            yield work
            return
        work = replace(work, blocks=min(math.ceil(size / limit), MOST_BLOCKS))
        self._split[work.key] = (work, work.blocks)
        for block in range(work.blocks):
            if work.key in self._split:  # else it was found done, or a block of it failed
                yield replace(work, block=block)

    def _drop_blocks(self, key: str, known: list[str]) -> None:
        for block in {*known, *(f"blocks/{name}" for name in self._block_files.pop(key, ()))}:
            self._store.delete(block)

    def _refuse_repeated(self, work: Work, seen: set[str]) -> Work:
        if work.problem or hash(work.id) not in self.about.repeated:
            return work
        if work.id not in seen:
            seen.add(work.id)
            return work
        problem = f"The id {work.id!r} occurs more than once in the manifest: make ids unique."
        return replace(work, problem=problem).keyed(self._recipe)

    def _try_after_crash(self, work: Work) -> bool:
        """Write a crash down; say whether the scene may be tried again. What kills its process is poison too."""
        self.crashed.discard(work.id)
        lost = self._standing.lost.get(short_key(work.key), 0) + 1
        outcome = Outcome(work.id, work.key, "lost", attempts=lost, error="WorkerDied", message="The process died.")
        self._ledger.add(outcome)
        self._ledger.flush()  # before it happens again
        if lost < self._fleet.attempts:
            return True
        self._ledger.add(replace(outcome, status="quarantined", message=f"{lost} processes died at it."))
        self._tally.quarantined += 1
        return False


@dataclass(frozen=True)
class FleetStatus:
    """How far the work on an output is."""

    rows: int
    """Of the manifest that was run last."""
    summary: Summary
    left: int
    seconds_left: float | None
    """At the recent rate; None if there is none."""


def read_status(out: str) -> FleetStatus:
    """Say how far the last run into an output is, from its ledger."""
    store = Store(out)
    about = _about(store)
    summary = summarise(store, about["recipe"])
    left = max(about["rows"] - summary.done - sum(summary.quarantined.values()), 0)
    rate = summary.scenes_per_second
    return FleetStatus(about["rows"], summary, left, left / rate if rate and left else (0.0 if not left else None))


def requeue(out: str, classes: Sequence[str]) -> int:
    """Let the next run try quarantined scenes again whose error is of these classes; say how many."""
    store = Store(out)
    _about(store)
    rows = [row for row in quarantined_rows(store) if row["error"] in classes or "all" in classes]
    latest = read_standing(store).latest
    with store.open_scratch() as scratch:
        for recipe, group in groupby(sorted(rows, key=lambda row: str(row["recipe"])), key=lambda row: row["recipe"]):
            ledger = Ledger(store, scratch, recipe)
            ledger.follow(latest)
            for row in group:
                ledger.add(Outcome(row["id"], row["work"], "requeued"))
            ledger.flush()
    return len(rows)


def _died_at(store: Store, mark: str) -> set[str]:
    """Give the scene at which an earlier process with this mark died, unless it is still alive on this machine."""
    try:
        told = store.read(mark) or b""
    except OSError:  # a folder, or another user's: it tells us nothing
        return set()
    found = _MARK.fullmatch(told.decode(errors="replace"))
    if not found:
        return set()
    pid = int(found["pid"])
    if found["host"] == socket.gethostname() and pid != os.getpid():  # a container's processes all have one number
        with suppress(ProcessLookupError):
            with suppress(PermissionError):  # it is alive, and another user's
                os.kill(pid, 0)
            return set()
    return {found["name"]}


def _describe(store: Store, scratch: Scratch, manifest: str, about: Survey, job: Job, recipe: str) -> None:
    told = {
        "manifest": redact(manifest),
        "rows": about.rows,
        "megapixels": about.megapixels,
        "recipe": recipe,
        "weights_sha256": job.weights_sha256,
        "options": job.options.describe(),
    }
    made = scratch.folder / RUN
    made.write_text(json.dumps(told, indent=2, default=str) + "\n")
    store.put(made, RUN)


def _about(store: Store) -> dict[str, Any]:
    data = store.read(RUN)
    if data is None:
        raise FleetError(f"{store.name} holds no {RUN}: give the output of an `attcr fleet run`.")
    about = _parse_about(data)
    if not isinstance(about.get("recipe"), str) or not isinstance(about.get("rows"), int):
        raise FleetError(f"{store.name}/{RUN} is damaged: start `attcr fleet run` again, which writes a new one.")
    return about


def _parse_about(data: bytes) -> dict[str, Any]:
    """Give what a run.json says; nothing where it is damaged."""
    try:
        about = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return about if isinstance(about, dict) else {}


def _read(href: str) -> bytes:
    """Read weights by anything that `find_weights` takes, or from a bucket."""
    if "://" not in href or href.startswith(("hf://", "http://", "https://")):
        return find_weights(href).read_bytes()
    address, _, due = href.partition("#sha256=")
    bucket, key = split_url(address)
    try:
        found = obstore.get(open_bucket(bucket), key)
        if found.meta["size"] > download_limit():
            told = f"has {found.meta['size']:,} bytes: if that is right, set {LIMIT_VARIABLE} to more GiB."
            raise WeightsError(f"{redact(address)} {told}")
        content = bytes(found.bytes())
    except BaseError as error:
        raise WeightsError(f"{redact(address)} cannot be read: {hide_secrets(str(error))}") from error
    if due and hashlib.sha256(content).hexdigest() != due.lower():
        raise WeightsError(f"{redact(address)} does not have the expected sha256: check both.")
    return content
