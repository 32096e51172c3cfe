"""The unit of a fleet: one scene, restored in a private folder and published, its item last.

It may be run any number of times, anywhere, by several workers at once: the first item to appear is the commit.
"""

from __future__ import annotations

import json
import shutil
import time
import urllib.request
import warnings
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import unquote, urlsplit

import obstore
import torch
from torch import nn

from attcr import weights
from attcr.addresses import error_text, hide_secrets, is_local, redact
from attcr.errors import AttcrError, AttcrWarning, ConfigError, FleetError
from attcr.fleet.ledger import Outcome, worker_name
from attcr.fleet.manifest import Work
from attcr.fleet.store import Scratch, Store, open_bucket, split_url
from attcr.restore import RestoreOptions, join_blocks, restore_block, restore_scene
from attcr.scenes.dataset import gdal
from attcr.scenes.open import open_scene

FETCH_LIMIT = 2 << 30
"""Bytes of a scene up to which it is fetched whole, ahead of the network; GDAL reads a larger one in place."""
_DETECTORS = ("csmask", "s2cloudless")
_TIMEOUT = 120


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
    """Threads of the network; 0 leaves it to torch."""


class Fetched:
    """What was read ahead of one scene: the content of each remote file, by address."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files = dict(files)


def block_key(work: Work, part: int) -> str:
    """Give the place of a block of a scene that is split."""
    return f"blocks/{work.key}-{part}-{work.parts}.zip"


def item_key(name: str) -> str:
    """Give the place of a scene's item, the one flat folder that says what is there."""
    return f"items/{name}.json"


class SceneWorker:
    """Restores scenes one after the other; the network is loaded once."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.store = Store(job.out)
        self.scratch = Scratch(self.store.scratch)
        if job.threads:
            torch.set_num_threads(job.threads)
        try:
            self.model = self.load()
        except BaseException:
            self.scratch.close()
            raise

    def load(self) -> nn.Module:
        """Load the network."""
        path = self.scratch.folder / "weights.safetensors"
        path.write_bytes(self.job.weights)
        try:
            return weights.load_model(path)
        finally:
            path.unlink()

    def close(self) -> None:
        """Remove what is unfinished."""
        self.scratch.close()

    def __enter__(self) -> SceneWorker:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def run(self, work: Work, fetched: Fetched | None = None) -> Outcome:
        """Restore and publish a scene unless it is done; say what became of it. Raises nothing but interrupts."""
        began = time.perf_counter()
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
                if work.part < work.parts:
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
        except (ValueError, KeyError, TypeError):
            return ""

    def restore(self, work: Work, fetched: Fetched | None) -> float | None:
        """Restore a scene, or a block of it; give its megapixels, or None where another worker was first."""
        folder = self.scratch.folder / work.id
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "out").mkdir(parents=True)
        try:
            options = _options_of(work, self.job.options)
            wanted = _without_unused_bands(work, options)
            fetched = fetched or fetch(wanted, options)
            source = _lay_down(wanted, fetched.files, folder / "in")
            target = folder / "out" / f"{work.id}.tif"
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", AttcrWarning)
                if work.part < work.parts:
                    self._restore_block(work, source, folder / "part.zip", options)
                    return None
                if work.parts:
                    parts = self._blocks(work, folder / "part.zip")
                    result = join_blocks(source, parts, target, self.model, options=options)
                else:
                    result = restore_scene(source, target, self.model, options=options)
            item = _item(json.loads(result.item.read_text()), work, fetched, self.job.weights_sha256)
            result.item.write_text(json.dumps(item, indent=2) + "\n")
            return sum(result.pixels.values()) / 1e6 if self.publish(work, result.item) else None
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _restore_block(self, work: Work, source: str | list[str], path: Path, options: RestoreOptions) -> None:
        key = block_key(work, work.part)
        if self.store.exists(key):
            return
        restore_block(source, path, self.model, block=(work.part, work.parts), options=options)
        self.store.put(path, key)

    def _blocks(self, work: Work, path: Path) -> Iterator[Path]:
        """Bring the blocks of a scene here, one at a time."""
        for part in range(work.parts):
            data = self.store.read(block_key(work, part))
            if data is None:
                raise FleetError(f"Block {part} of {work.parts} of {work.id} is gone: run again.")
            path.write_bytes(data)
            yield path

    def publish(self, work: Work, item: Path) -> bool:
        """Publish all files beside an item and then the item; say whether this worker was the first."""
        key = item_key(work.id)
        there = self._published(work)
        if there == work.key:
            return False
        if there is not None:
            self.store.delete(key)  # there are never new pixels under an old item
        for path in sorted(item.parent.iterdir()):
            if path != item:
                self.store.put(path, f"scenes/{work.id}/{path.name}")
        if self.store.create(item, key):
            return True
        if self.is_done(work):
            return False
        raise FleetError(f"Another run with other options is writing {work.id} to {self.store.name}: end one of them.")


def megapixels_of(work: Work) -> float | None:
    """Give a scene's size where its row or, on this machine, its file tells it."""
    if work.megapixels is not None or work.item or not all(is_local(href) for href in work.hrefs):
        return work.megapixels
    return measure(work)


def measure(work: Work) -> float | None:
    """Open a scene and give its megapixels; None where it does not open."""
    try:
        with gdal(), open_scene(list(work.hrefs)) as scene:
            return scene.height * scene.width / 1e6
    except AttcrError:
        return None


def fetch_ahead(work: Work, common: RestoreOptions) -> Fetched | None:
    """Fetch what a worker will need for a scene; None where that fails, for the worker tries again and says why."""
    try:
        options = _options_of(work, common)
        return fetch(_without_unused_bands(work, options), options)
    except Exception:
        return None


def fetch(work: Work, options: RestoreOptions) -> Fetched:
    """Read the remote files of a scene whole; what is local or too large is left where it is."""
    files: dict[str, bytes] = {}
    room = FETCH_LIMIT
    for href in _addresses(work, options):
        scheme = urlsplit(href).scheme if not is_local(href) and not href.startswith("/vsi") else ""
        if scheme in ("http", "https"):
            with urllib.request.urlopen(_request(href), timeout=_TIMEOUT) as answer:
                if int(answer.headers.get("Content-Length") or room + 1) <= room:
                    files[href] = answer.read()
        elif scheme:
            bucket, key = split_url(href)
            answer = obstore.get(open_bucket(bucket), key)
            if answer.meta["size"] <= room:
                files[href] = bytes(answer.bytes())
        room -= len(files.get(href, b""))
    return Fetched(files)


def _request(href: str) -> urllib.request.Request:
    """Give a request with the address's user and password, if it has them, in their header."""
    parts = urlsplit(href)
    user, at, host = parts.netloc.rpartition("@")
    request = urllib.request.Request(parts._replace(netloc=host).geturl())
    if at:  # for this host, not for one that it sends on to
        login = b64encode(unquote(user).encode()).decode()
        request.add_unredirected_header("Authorization", f"Basic {login}")
    return request


def _addresses(work: Work, options: RestoreOptions) -> tuple[str, ...]:
    """Give the files that a scene will surely be read from whole."""
    if not work.item:
        return tuple(href for href in work.hrefs if not redact(href).lower().endswith((".json", ".geojson")))
    # Of an item with more bands than the network takes, GDAL reads the few that it needs in place.
    return work.hrefs if options.bands and len(work.hrefs) <= len(options.bands) + 1 else ()


def _without_unused_bands(work: Work, options: RestoreOptions) -> Work:
    """Give the work with only those assets of its item that hold the named bands and the mask, if all are found."""
    if not work.item or not options.bands or options.mask in _DETECTORS:
        return work
    item = json.loads(work.item)
    bands = {name.lower() for name in options.bands}
    kept = {}
    for key, asset in item["assets"].items():
        described = asset.get("bands") or asset.get("eo:bands") or [{}]
        names = {str(described[0].get(field, "")).lower() for field in ("name", "common_name", "eo:common_name")}
        if len(described) == 1 and bands & (names | {key.lower()}):
            kept[key] = asset
    if len(kept) != len(bands):
        return work
    kept |= {key: asset for key, asset in item["assets"].items() if key.lower() in (options.mask, "qa_pixel", "qa")}
    item["assets"] = kept
    return replace(work, item=json.dumps(item), hrefs=tuple(sorted(asset["href"] for asset in kept.values())))


def _lay_down(work: Work, files: Mapping[str, bytes], folder: Path) -> str | list[str]:
    """Write what was fetched into a folder and give the source that `restore_scene` takes."""
    places = {href: _write(href, content, folder) for href, content in files.items()}
    if not work.item:
        return [places.get(href, href) for href in work.hrefs]
    item = json.loads(work.item)
    for asset in item["assets"].values():
        asset["href"] = places.get(asset["href"], asset["href"])
    item["links"] = []
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "item.json").write_text(json.dumps(item))
    return str(folder / "item.json")


def _write(href: str, content: bytes, folder: Path) -> str:
    """Write one fetched file under its whole address, for the folders' names may tell the product."""
    parts = urlsplit(redact(href))
    names = [part for part in (parts.netloc, *parts.path.split("/")) if part not in ("", ".", "..")]
    path = folder.joinpath(*names)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return str(path)


def _item(item: dict[str, Any], work: Work, fetched: Fetched, weights_sha256: str) -> dict[str, Any]:
    """Give the item as it is published: of the scene, not of the folder that this worker restored it in."""
    properties = item["properties"]
    del properties["attcr:fingerprint"]
    properties["attcr:work"] = work.key
    properties["attcr:weights_sha256"] = weights_sha256
    properties["attcr:input"] = [
        {"name": redact(href), "bytes": len(fetched.files[href]) if href in fetched.files else _size(href)}
        for href in work.hrefs
    ]
    if work.version:
        properties["attcr:input_version"] = work.version
    if properties["attcr:datetime_from"] == "file" and fetched.files:
        properties["datetime"], properties["attcr:datetime_from"] = "1970-01-01T00:00:00Z", "unknown"
    item["links"] = [{"rel": "derived_from", "href": redact(href)} for href in work.hrefs]
    for asset in item["assets"].values():
        asset["href"] = f"../scenes/{work.id}/{Path(asset['href']).name}"
    return item


def _size(href: str) -> int | None:
    return Path(href).stat().st_size if is_local(href) and Path(href).is_file() else None


def _options_of(work: Work, common: RestoreOptions) -> RestoreOptions:
    """Give the options of one scene: those of the run, with the row's own over them."""
    if not work.options:
        return common
    try:
        own = json.loads(work.options)
    except ValueError:
        own = None
    if not isinstance(own, dict):
        raise ConfigError('The row\'s options are not a JSON object such as {"mask": "scl"}.')
    return with_settings(common, own)


def with_settings(options: RestoreOptions, settings: Mapping[str, Any]) -> RestoreOptions:
    """Give options with some of them replaced, refusing names and types that they do not have."""
    known = {field.name: field for field in fields(RestoreOptions)}
    changed: dict[str, Any] = {}
    for name, value in settings.items():
        if name not in known:
            raise ConfigError(f"There is no option {name!r}; expected one of {', '.join(known)}.")
        if name == "bands" and value is not None:
            value = tuple(str(band) for band in (value.split(",") if isinstance(value, str) else value))
        expected: Any = {"int": int, "float | None": (int, float), "bool": bool}.get(
            str(known[name].type), (str, tuple)
        )
        if value is not None and (not isinstance(value, expected) or (expected is int and isinstance(value, bool))):
            raise ConfigError(f"The option {name} is {value!r}; expected {known[name].type}.")
        changed[name] = value
    return replace(options, **changed)
