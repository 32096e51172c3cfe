"""What computes jobs: a job of the store is restored as the fleet restores a scene, and tells how far it is."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from attcr.addresses import error_text, redact
from attcr.errors import AttcrError, AttcrWarning, WeightsError
from attcr.files import memory_of_machine, write_whole
from attcr.fleet.fetch import Fetched
from attcr.fleet.ledger import Outcome, worker_name
from attcr.fleet.manifest import Work
from attcr.fleet.run import FleetOptions, make_job, recipe_of
from attcr.fleet.settings import options_of
from attcr.fleet.worker import Job, SceneWorker, item_key
from attcr.restore.look import choose_weights
from attcr.restore.options import NO_WEIGHTS, RestoreOptions
from attcr.restore.scene import Progress
from attcr.scenes.dataset import gdal, open_dataset
from attcr.scenes.open import open_scene
from attcr.serve.inputs import READY, work_of
from attcr.serve.limits import SUFFIXES, check_size
from attcr.serve.settings import Limits, ServeSettings
from attcr.serve.store import ENDED, INPUTS, PROGRESS, REQUESTS, WEIGHTS
from attcr.weights import published, restoring

INDEX = f"{WEIGHTS}/index.json"
_NO_MEMORY = ("can't allocate memory", "bad_alloc", "Cannot allocate memory", "Out of memory", "not enough memory")
_PAUSE = 0.2  # seconds between two notes of progress
SHORT_VALUES = 8 << 20
"""Values of all rasters of a short job: 1024 x 1024 pixels of eight bands."""


class TooLongError(AttcrError):
    """A job that looked short by its bytes, and is not by its pixels."""


@dataclass(frozen=True)
class WorkerSettings:
    """What a computing process needs to know."""

    store: str
    engine: str
    workers: int
    """Processes that share the machine, or actors."""
    threads: int
    device: str
    address: str | None
    limits: Limits
    short: bool = False
    """Whether it takes short jobs alone, and gives back what is longer than it looked."""
    nice: int = 0
    """By how much it stands behind other processes."""

    @staticmethod
    def of(text: str) -> WorkerSettings:
        """Read what a server wrote."""
        told = json.loads(text)
        return WorkerSettings(**{**told, "limits": Limits(**told["limits"])})


def lay_out(settings: ServeSettings) -> tuple[str, ...]:
    """Copy the networks that may be asked for into the store, for a job ends with the one that it began with.

    Gives their names.
    """
    root = settings.root
    (root / WEIGHTS).mkdir(parents=True, exist_ok=True)
    known = {}
    for weights in settings.weights or restoring():
        job = make_job(settings.store, weights, RestoreOptions(), FleetOptions())
        file = f"{job.weights_sha256}{job.suffix}"
        if not (root / WEIGHTS / file).exists():
            write_whole(root / WEIGHTS / file, job.weights)
        # a request calls weights by their published name, or by that of their file
        name = weights if weights in published() else Path(redact(weights).partition("#")[0]).stem
        known[name] = {"file": file, "sha256": job.weights_sha256}
    default = next(iter(known)) if settings.weights else None
    known[NO_WEIGHTS] = {"file": "", "sha256": NO_WEIGHTS}
    write_whole(root / INDEX, json.dumps({"default": default, "weights": known}, indent=2))
    return tuple(known)


class JobWorker(SceneWorker):
    """The fleet's worker with one network, telling how far it is."""

    notes: tuple[str, ...] = ()
    """The warnings about the scene that it is at, or was at last."""

    def progress(self, work: Work) -> Callable[[Progress], None]:
        """Give what writes progress into the store, a few times a second."""
        last = 0.0

        def tell(progress: Progress) -> None:
            nonlocal last
            if (Path(self.job.out) / ENDED / f"{work.id}.json").exists():
                raise AttcrError(f"{work.id} was dismissed")
            now = time.monotonic()
            if now - last >= _PAUSE or progress.stage == "write":
                last = now
                write_progress(Path(self.job.out), work.id, {**asdict(progress), "notes": self.notes})

        return tell

    @contextmanager
    def hearing(self, work: Work) -> Iterator[None]:
        """Keep the warnings about a scene for whoever sent it."""
        self.notes = ()
        with warnings.catch_warnings():
            warnings.simplefilter("always", AttcrWarning)
            warnings.showwarning = self._note
            yield

    def _note(self, message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
        text = " ".join(str(message).split())
        if issubclass(category, AttcrWarning) and text not in self.notes:
            self.notes = (*self.notes, text)


def write_progress(root: Path, name: str, told: dict[str, Any]) -> None:
    """Say how far a job is; a note that is lost costs nothing."""
    folder = root / PROGRESS
    folder.mkdir(exist_ok=True)
    partial = folder / f".{name}.{os.getpid()}"
    partial.write_text(json.dumps(told))
    partial.replace(folder / f"{name}.json")


def memory_of(settings: WorkerSettings) -> int:
    """Give the bytes that a computing process may have; 0: any, as where a device has memory of its own."""
    if settings.device != "cpu":
        return 0
    machine = memory_of_machine() or 0
    return settings.limits.memory or machine * 9 // 10 // (settings.workers if settings.engine == "local" else 1)


def _in_words(outcome: Outcome, most: int) -> Outcome:
    """Tell a lack of memory as such, whatever noticed it."""
    if "MemoryError" not in outcome.error and not any(words in outcome.message for words in _NO_MEMORY):
        return outcome
    message = (
        f"It needs more memory than the {most / 2**30:.1f} GiB that a job may have: use a smaller `tile` or `batch`."
    )
    return replace(outcome, error="MemoryError", message=message)


class JobRunner:
    """Runs jobs of a store one after the other; each network is loaded once."""

    def __init__(self, settings: WorkerSettings) -> None:
        self.settings, self.root = settings, Path(settings.store)
        self._workers: dict[str, JobWorker] = {}
        self.memory = memory_of(settings)

    def warm(self) -> None:
        """Load what most jobs will need, so that the first one is not slower than the others."""
        if default := self._index["default"]:
            self._worker(default)
        else:
            import_module("attcr.predict.torch")

    def run(self, name: str) -> tuple[Outcome, dict[str, Any]]:
        """Restore the scene of a job; give what became of it, and what is to be told about it."""
        found = Outcome(name, "0" * 64, "found", worker=worker_name())
        if (self.root / item_key(name)).exists():
            return found, {}
        began = time.perf_counter()
        told: dict[str, Any] = {}
        try:
            work = work_of(name, self.root / INPUTS / name)
            options = replace(options_of(work, RestoreOptions(device=self.settings.device)), vrt="never")
            self._check(work, self.root / INPUTS / name)
            request = json.loads((self.root / REQUESTS / f"{name}.json").read_bytes())
            # a job that names none gets the server's first, or the published ones that fit
            chosen = request["asked"]["weights"] or self._index["default"] or choose_weights(list(work.hrefs), options)
            told["weights"] = chosen
            write_progress(self.root, name, {"stage": "mask", "done": 0, "total": 1, **told})
            worker = self._worker(chosen)
            spent = json.loads((self.root / INPUTS / name / READY).read_bytes()).get("seconds", 0)
            worker.job = replace(worker.job, deadline=max(self.settings.limits.seconds - spent, 1.0))
            outcome = worker.run(work.keyed(recipe_of(worker.job.weights_sha256, options)), Fetched({}))
            told["notes"] = worker.notes
            write_progress(self.root, name, {"stage": "write", "done": 1, "total": 1, **told})
        except TooLongError:
            return found, {"long": True}
        except Exception as error:  # whatever a scene does, it stops no other
            kind, message = error_text(error)
            seconds = time.perf_counter() - began
            outcome = replace(found, status="quarantined", seconds=seconds, error=kind, message=message)
        return _in_words(outcome, self.memory), told

    def _check(self, work: Work, folder: Path) -> None:
        """Refuse files that are too large, whatever they are for, and a scene of too many bands in several files."""
        limits, values = self.settings.limits, 0
        with gdal():
            for path in sorted(folder.rglob("*")):
                if path.suffix.lower() in SUFFIXES and path.is_file():
                    with open_dataset(str(path), "never") as raster:
                        check_size(path.name, raster.width, raster.height, raster.count, limits)
                        values += raster.width * raster.height * raster.count
            if self.settings.short and values > SHORT_VALUES:
                raise TooLongError(f"{work.id} has {values:,} values")
            with open_scene(work.hrefs, vrt="never") as scene:
                check_size(Path(scene.source.split()[0]).name, scene.width, scene.height, len(scene.bands), limits)

    @property
    def _index(self) -> dict[str, Any]:
        """What the server wrote last about its networks."""
        index: dict[str, Any] = json.loads((self.root / INDEX).read_bytes())
        return index

    def _worker(self, weights: str) -> JobWorker:
        if weights not in self._workers:
            known = self._index["weights"].get(weights)
            if known is None:
                raise WeightsError(f"There are no weights {weights} here any more: send the job again.")
            content = (self.root / WEIGHTS / known["file"]).read_bytes() if known["file"] else b""
            settings = self.settings
            self._workers[weights] = JobWorker(
                Job(
                    out=settings.store,
                    weights=content,
                    weights_sha256=known["sha256"],
                    options=RestoreOptions(device=settings.device).on_any_machine(),
                    attempts=1,
                    threads=settings.threads,
                    deadline=settings.limits.seconds,
                    suffix=Path(known["file"]).suffix,
                )
            )
        return self._workers[weights]

    def close(self) -> None:
        """Remove what is unfinished."""
        for worker in self._workers.values():
            worker.close()
