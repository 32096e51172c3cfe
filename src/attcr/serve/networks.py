"""The networks of a server: copied into its store, so that a job ends with the one that it began with."""

from __future__ import annotations

import json
from pathlib import Path

from attcr.addresses import redact
from attcr.files import write_whole
from attcr.fleet.run import FleetOptions, make_job
from attcr.restore.options import NO_WEIGHTS, RestoreOptions
from attcr.serve.settings import ServeSettings
from attcr.serve.store import WEIGHTS
from attcr.serve.worker import INDEX
from attcr.weights import published, restoring


def lay_out(settings: ServeSettings) -> tuple[str, ...]:
    """Copy the networks that may be asked for into the store; give their names."""
    root = settings.root
    (root / WEIGHTS).mkdir(parents=True, exist_ok=True)
    known = {}
    for weights in settings.weights or restoring():
        job = make_job(settings.store, weights, RestoreOptions(), FleetOptions())
        file = f"{job.weights_sha256}{job.suffix}"
        if not (root / WEIGHTS / file).exists():
            write_whole(root / WEIGHTS / file, job.weights)
        known[_name(weights)] = {"file": file, "sha256": job.weights_sha256}
    default = next(iter(known)) if settings.weights else None
    known[NO_WEIGHTS] = {"file": "", "sha256": NO_WEIGHTS}
    write_whole(root / INDEX, json.dumps({"default": default, "weights": known}, indent=2))
    return tuple(known)


def _name(weights: str) -> str:
    """Give what a request calls weights: their published name, or that of their file."""
    return weights if weights in published() else Path(redact(weights).partition("#")[0]).stem
