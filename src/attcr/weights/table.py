"""The published weights, and how weights are found: by a published name, a path, hf:// or a URL."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attcr.bands.spec import InputSpec
from attcr.errors import WeightsError
from attcr.files import sha256
from attcr.weights.files import WeightsHeader, load_file, read_file_header

if TYPE_CHECKING:
    import torch
    from torch import nn

FOLDER = Path(__file__).parent / "published"


@dataclass(frozen=True)
class Score:
    """What a published network reached on a list of images, and where it began."""

    benchmark: str
    """Data set, part and number of images."""
    protocol: str
    metric: str
    value: float
    low: float | None
    """Lower end of the 95 % interval over the images; None where there are too few."""
    high: float | None
    input_copied: float
    """The same metric of the network's input as it is."""
    copied: str = "input"
    """What that is: the cloudy input, or the other date that a network corrects."""

    def __str__(self) -> str:
        interval = "" if self.low is None or self.high is None else f" [{self.low:#.4g}, {self.high:#.4g}]"
        return f"{self.metric} {self.value:#.4g}{interval}, {self.copied} copied {self.input_copied:#.4g}"


@dataclass(frozen=True)
class Published:
    """A network whose weights are in the package."""

    name: str
    sha256: str
    bytes: int
    network: str
    """Its name in `NETWORKS`."""
    config: Mapping[str, Any]
    purpose: str
    sensor: str
    data: str
    """What it was trained on, and by which list."""
    scores: tuple[Score, ...]
    training: str
    """Steps, time, machine."""
    limits: tuple[str, ...]
    """What it must not be used for."""
    licence: str
    commit: str
    """With the code and the recipe that train it."""

    @property
    def path(self) -> Path:
        """Where its weights are."""
        return FOLDER / f"{self.name}.safetensors"

    @property
    def spec(self) -> InputSpec:
        """What it takes and gives, as its file says."""
        return read_file_header(self.path).spec


@cache
def published() -> Mapping[str, Published]:
    """The networks in the package, by name."""
    table = json.loads((FOLDER / "table.json").read_text())
    return {
        name: Published(
            **{
                **entry,
                "name": name,
                "scores": tuple(Score(**score) for score in entry["scores"]),
                "limits": tuple(entry["limits"]),
            }
        )
        for name, entry in table.items()
    }


def restoring() -> Mapping[str, Published]:
    """The networks in the package that restore a scene, by name; others correct references."""
    return {name: entry for name, entry in published().items() if not entry.spec.corrects_references}


def list_models() -> list[str]:
    """Give the names of the weights in the package that `restore_scene` takes, and `load_model`."""
    return list(restoring())


def find_weights(weights: str | os.PathLike[str]) -> Path:
    """The file of a published name, of hf://OWNER/NAME, of a URL, or of a path; what has a sha256 is checked.

    Files from elsewhere are kept, so that they are fetched once. A URL ends in #sha256=...
    """
    text = os.fspath(weights)
    if text in published():
        entry = published()[text]
        if not entry.path.is_file() or sha256(entry.path) != entry.sha256:
            raise WeightsError(f"{entry.path}: not the published {text}. Install attcr again")
        return entry.path
    if "://" in text:
        from attcr.weights.hub import fetch

        return fetch(text)
    try:
        there = Path(text).is_file()
    except (OSError, ValueError):  # no name of a file
        there = False
    if not there:
        raise WeightsError(
            f"{text}: no such file, and no published name. Published are {', '.join(published())}; or give the path "
            "of a .safetensors file, hf://OWNER/NAME, or a URL"
        )
    return Path(text)


def load_model(weights: str | os.PathLike[str], *, device: str | torch.device = "cpu") -> nn.Module:
    """Load a network for inference, in float32, from a published name, a path, hf:// or a URL.

    Its `config` holds its settings, and its `spec` says what it takes and gives.
    """
    return load_file(find_weights(weights), device=device)


def read_header(weights: str | os.PathLike[str]) -> WeightsHeader:
    """Read what a weights file says about itself, after checking that it is complete; no tensor is built."""
    return read_file_header(find_weights(weights))
