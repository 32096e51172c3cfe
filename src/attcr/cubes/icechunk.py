"""Cubes on disk or in a bucket, by Icechunk: readers see a whole state, and every state stays until it is removed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from attcr.addresses import hide_secrets, is_local, redact
from attcr.cubes.dataset import TOLD, single
from attcr.errors import ConfigError, SceneError
from attcr.extras import needed
from attcr.restore.resume import empty, held

with needed():
    import icechunk
    import xarray as xr
    import zarr
    from icechunk import Repository

READERS, WORK = "main", "unfinished"
"""The branch that readers see, and that of a run that has not come to its end."""
PARTS = {"chunks", "config.yaml", "manifests", "refs", "snapshots", "transactions"}
"""What a repository consists of on disk."""


@dataclass(frozen=True)
class State:
    """A state of a cube that readers saw."""

    snapshot: str
    written: datetime
    message: str


def open_cube(target: str | Path, snapshot: str | None = None) -> xr.Dataset:
    """Open a cube that `attcr cube` wrote, or an earlier state of it, lazily."""
    with told(str(target)):
        repository = Repository.open(_storage(str(target)))
        session = repository.readonly_session(None if snapshot else READERS, snapshot_id=snapshot)
        made = _description(session.store)
        if made is None:
            raise SceneError(f"{redact(str(target))} is not finished: run the same command again.")
        there = single(xr.open_zarr(session.store, consolidated=False, decode_coords="all"))
        others = {str(name) for name in there.data_vars} - set(made["bands"])
        names = [*made["bands"], *sorted(others)]  # a store has no order
        return xr.Dataset({name: there[name] for name in names}, there.coords, there.attrs)


def history(target: str | Path) -> list[State]:
    """Give the states of a cube, the newest first; what a run committed on its way is not among them."""
    with told(str(target)):
        passed = Repository.open(_storage(str(target))).ancestry(branch=READERS)
        return [State(one.id, one.written_at, one.message) for one in passed if one.metadata.get("whole")]


@contextmanager
def opened(target: str) -> Iterator[Repository]:
    """Open a repository to write, or make it; no other run of this machine writes into a folder meanwhile.

    In a bucket the first of two commits counts, and the other run ends. A folder has no such rule, so it is held.
    """
    if is_local(target) and Path(target).is_dir() and {path.name for path in Path(target).iterdir()} - PARTS:
        raise ConfigError(f"{target} is a folder with other files: choose another name.")
    with told(target), held(Path(target), Path(target)) if is_local(target) else nullcontext():
        storage = _storage(target)
        if not Repository.exists(storage):
            if is_local(target):
                empty(Path(target))  # what a run left that was killed while it made the repository
            Repository.create(storage)
        yield Repository.open(storage)


def described(repository: Repository, branch: str) -> dict[str, Any] | None:
    """Give what the cube of a branch was made of; None where there is none."""
    if branch not in repository.list_branches():
        return None
    return _description(repository.readonly_session(branch).store)


def _description(store: Any) -> dict[str, Any] | None:
    try:
        told = zarr.open_group(store, mode="r").attrs[TOLD]
    except (FileNotFoundError, KeyError):
        return None
    made: dict[str, Any] = json.loads(str(told))
    return made


@contextmanager
def told(target: str) -> Iterator[None]:
    """Turn Icechunk's errors into ours."""
    try:
        yield
    except icechunk.ConflictError as error:
        raise SceneError(
            f"{redact(target)} was written by another run meanwhile, which was first: run the same command again."
        ) from error
    except icechunk.IcechunkError as error:
        reason = hide_secrets(str(error)).strip().lstrip("x ").splitlines()[0]
        raise SceneError(f"{redact(target)}: {reason[:300]}.") from error


def _storage(target: str) -> icechunk.Storage:
    if "ICECHUNK_LOG" not in os.environ:
        icechunk.set_logs_filter("error")  # it warns of folders, which are held
    if is_local(target):
        return icechunk.local_filesystem_storage(str(Path(target).absolute()))
    parts = urlsplit(target)
    if parts.scheme != "s3" or not parts.netloc or not parts.path.strip("/"):
        raise ConfigError(f"A cube goes into a folder or to s3://BUCKET/NAME, not to {redact(target)}.")
    endpoint = os.environ.get("AWS_ENDPOINT_URL")
    return icechunk.s3_storage(
        bucket=parts.netloc,
        prefix=parts.path.strip("/"),
        endpoint_url=endpoint,
        allow_http=bool(endpoint and endpoint.startswith("http://")),
        force_path_style=bool(endpoint),
        from_env=True,
    )
