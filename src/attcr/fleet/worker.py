"""The worker of a fleet: it restores one scene in a private folder and publishes it, its item last.

A scene may be run any number of times, anywhere, by several workers at once: the first item to appear is the commit.
"""

import json
import shutil
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from attcr.addresses import error_text, hide_secrets, is_local, redact
from attcr.downloads import background
from attcr.errors import AttcrWarning, FleetError
from attcr.fleet.fetch import Fetched, fetch, lay_down
from attcr.fleet.ledger import Outcome, worker_name
from attcr.fleet.manifest import Work, prune_item
from attcr.fleet.settings import options_of
from attcr.fleet.stop import DeadlineOver, within
from attcr.fleet.store import Store
from attcr.predict import Predictor, open_predictor
from attcr.restore.blocks import join_blocks, restore_block
from attcr.restore.options import NO_WEIGHTS, RestoreOptions
from attcr.restore.scene import Progress, restore_scene


@dataclass(frozen=True)
class Job:
    """All that a worker needs to know to restore scenes of one run."""

    out: str
    """Folder or bucket prefix of the results."""
    weights: bytes
    """The weights file."""
    weights_sha256: str
    options: RestoreOptions
    attempts: int = 3
    """Tries before a scene is quarantined."""
    threads: int = 0
    """Threads of the network; 0 leaves it to what computes."""
    deadline: float | None = None
    """Seconds that a scene may take, all its tries together."""
    suffix: str = ".safetensors"
    """How the name of the weights file ends, which says what computes it."""


def block_key(work: Work, block: int) -> str:
    """Give the place of a block of a scene that is split."""
    return f"blocks/{work.key}-{block}-{work.blocks}.zip"


def item_key(name: str) -> str:
    """Give the place of a scene's item, the one flat folder that says what is there."""
    return f"items/{name}.json"


def scene_folder(work: Work) -> str:
    """Give the place of a scene's rasters: by id and work, so that none lies under the item of other work."""
    return f"scenes/{work.id}/{work.key[:16]}"


class SceneWorker(AbstractContextManager["SceneWorker"]):
    """Restores scenes one after the other; the network is loaded once."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.store = Store(job.out)
        self.scratch = self.store.open_scratch()
        self._predictors: dict[tuple[str, str, str], Predictor | str] = {}
        try:
            self.predictor(job.options)
        except BaseException:
            self.scratch.close()
            raise

    def predictor(self, options: RestoreOptions) -> Predictor | str:
        """Give the network on the device, in the type and by what the options name, loaded once for each."""
        key = (options.device, options.dtype, options.backend)
        if key not in self._predictors:
            self._predictors[key] = self.load(options)
        return self._predictors[key]

    def load(self, options: RestoreOptions) -> Predictor | str:
        """Load the network; where the job has none, its name stands for it, as `restore_scene` takes it."""
        if not self.job.weights:
            return NO_WEIGHTS
        path = self.scratch.folder / f"weights{self.job.suffix}"
        path.write_bytes(self.job.weights)
        try:
            return open_predictor(
                path, device=options.device, dtype=options.dtype, threads=self.job.threads, backend=options.backend
            )
        finally:
            path.unlink()

    def close(self) -> None:
        """Remove what is unfinished."""
        self.scratch.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, work: Work, fetched: Fetched | None = None) -> Outcome:
        """Restore and publish a scene unless it is done; say what became of it. Raises nothing but interrupts."""
        began = time.perf_counter()
        try:
            with within(self.job.deadline):
                return self._try(work, fetched, began)
        except DeadlineOver:
            message = f"It took more than the {self.job.deadline:g} s that a scene may take."
            seconds, name = time.perf_counter() - began, worker_name()
            return Outcome(work.id, work.key, "quarantined", seconds, 0.0, 1, "TimeoutError", message, name)

    def _try(self, work: Work, fetched: Fetched | None, began: float) -> Outcome:
        found = Outcome(work.id, work.key, "found", worker=worker_name())
        kind = message = ""
        attempt = 0
        for attempt in range(1, self.job.attempts + 1):
            try:
                if work.problem:
                    kind, message = "ManifestError", hide_secrets(work.problem)
                    break
                if self.is_done(work):
                    return found
                megapixels = self.restore(work, fetched)
                seconds = time.perf_counter() - began
                if work.block < work.blocks:
                    return replace(found, status="block", seconds=seconds, attempts=attempt)
                if megapixels is None:
                    return found
                return replace(found, status="done", seconds=seconds, megapixels=megapixels, attempts=attempt)
            except Exception as error:  # whatever a scene does, it stops no other
                kind, message = error_text(error)
                fetched = None
        seconds = time.perf_counter() - began
        return replace(found, status="quarantined", seconds=seconds, attempts=attempt, error=kind, message=message)

    def is_done(self, work: Work) -> bool:
        """Say whether the scene's item is there and of the same input, weights and options."""
        return self._published(work) == work.key

    def _published(self, work: Work) -> str | None:
        """Give the key of the work whose item is there; "" where it does not tell, None where there is none."""
        data = self.store.read(item_key(work.id))
        if data is None:
            return None
        try:
            return str(json.loads(data)["properties"]["attcr:work"])
        except (ValueError, KeyError, TypeError, RecursionError):
            return ""

    def restore(self, work: Work, fetched: Fetched | None) -> float | None:
        """Restore a scene, or a block of it; give its megapixels, or None where another worker was first."""
        folder = self.scratch.folder / work.id
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "out").mkdir(parents=True)
        try:
            options = replace(options_of(work, self.job.options), vrt="never")  # rows come from anywhere
            wanted = prune_item(work, bands=options.bands, mask=options.mask)
            fetched = self._fetch(wanted, options, folder / "in") if fetched is None else fetched
            source = lay_down(wanted, fetched, folder / "in")
            target = folder / "out" / f"{work.id}.tif"
            with self.hearing(work):
                if work.block < work.blocks:
                    self._restore_block(work, source, folder / "block.zip", options)
                    return None
                if work.blocks:
                    blocks = self._fetch_blocks(work, folder / "block.zip")
                    result = join_blocks(source, blocks, target, self.predictor(options), options=options)
                else:
                    told = self.progress(work)
                    result = restore_scene(source, target, self.predictor(options), options=options, progress=told)
            item = _item(json.loads(result.item.read_text()), work, fetched, self.job.weights_sha256)
            result.item.write_text(json.dumps(item, indent=2) + "\n")
            return sum(result.pixels.values()) / 1e6 if self.publish(work, result.item) else None
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def progress(self, work: Work) -> Callable[[Progress], None] | None:
        """Give what hears how far a scene is; None where nobody asks."""
        return None

    @contextmanager
    def hearing(self, work: Work) -> Iterator[None]:
        """Hear the warnings about a scene: a fleet's are nobody's to read."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AttcrWarning)
            yield

    def _fetch(self, work: Work, options: RestoreOptions, folder: Path) -> Fetched:
        stop = threading.Event()
        try:
            fetched = background(fetch, work, options, folder, stop).result()
        finally:
            stop.set()
        assert fetched is not None, "into a folder all is fetched that fits"
        return fetched

    def _restore_block(self, work: Work, source: str | list[str], path: Path, options: RestoreOptions) -> None:
        key = block_key(work, work.block)
        if self.store.exists(key):
            return
        restore_block(source, path, self.predictor(options), block=(work.block, work.blocks), options=options)
        self.store.put(path, key)

    def _fetch_blocks(self, work: Work, path: Path) -> Iterator[Path]:
        """Bring the blocks of a scene here, one at a time."""
        for block in range(work.blocks):
            data = self.store.read(block_key(work, block))
            if data is None:
                raise FleetError(f"Block {block} of {work.blocks} of {work.id} is gone: run again.")
            path.write_bytes(data)
            yield path

    def publish(self, work: Work, item: Path) -> bool:
        """Publish all files beside an item and then the item; say whether this worker was the first."""
        key = item_key(work.id)
        there = self._published(work)
        if there == work.key:
            return False
        if there is not None:
            self.store.delete(key)  # of other weights, options or input: its rasters stay in their own folder
        for path in sorted(item.parent.iterdir()):
            if path != item:
                self.store.put(path, f"{scene_folder(work)}/{path.name}")
        if self.store.create(item, key):
            return True
        if self.is_done(work):
            return False
        raise FleetError(f"Another run with other options is writing {work.id} to {self.store.name}: end one of them.")


def _item(item: dict[str, Any], work: Work, fetched: Fetched, weights_sha256: str) -> dict[str, Any]:
    """Give the item as it is published: of the scene, not of the folder that this worker restored it in."""
    properties = item["properties"]
    del properties["attcr:fingerprint"]
    properties["attcr:work"] = work.key
    properties["attcr:weights_sha256"] = weights_sha256
    properties["attcr:input"] = [
        {"name": redact(href), "bytes": fetched.size(href) if href in fetched.files else _size(href)}
        for href in work.hrefs
    ]
    if work.version:
        properties["attcr:input_version"] = work.version
    if properties["attcr:datetime_from"] == "file" and fetched.files:
        properties["datetime"], properties["attcr:datetime_from"] = "1970-01-01T00:00:00Z", "unknown"
    item["links"] = [{"rel": "derived_from", "href": redact(href)} for href in work.hrefs]
    for asset in item["assets"].values():
        asset["href"] = f"../{scene_folder(work)}/{Path(asset['href']).name}"
    return item


def _size(href: str) -> int | None:
    return Path(href).stat().st_size if is_local(href) and Path(href).is_file() else None
