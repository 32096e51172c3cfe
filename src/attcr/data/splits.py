"""Which images are train, validation and test: lists shipped as data, each with its sha256."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files

from attcr.errors import ConfigError, DataError

PARTS = ("train", "val", "test")
FOLDER = files("attcr.data") / "splits"


@cache
def shipped_splits() -> tuple[str, ...]:
    """Name the data sets whose lists are in the package."""
    return tuple(sorted(file.name.removesuffix(".json") for file in FOLDER.iterdir() if file.name.endswith(".json")))


@dataclass(frozen=True)
class Split:
    """One part of one data set. Names are file names without ending; for sen12mscr, `season/region`."""

    dataset: str
    part: str
    names: tuple[str, ...]
    sha256: str


def names_sha256(names: Iterable[str]) -> str:
    """Give the sha256 of a list of names, one a line, in the order given."""
    return sha256("".join(f"{name}\n" for name in names).encode()).hexdigest()


@cache
def load_split(dataset: str, part: str) -> Split:
    """Give the shipped list of a data set's part, checked against its sha256."""
    if dataset not in shipped_splits() or part not in PARTS:
        raise ConfigError(
            f"no split {part!r} of {dataset!r} is shipped; there are {', '.join(PARTS)} of "
            f"{', '.join(shipped_splits())}"
        )
    shipped = json.loads((FOLDER / f"{dataset}.json").read_text())["parts"][part]
    names = tuple(shipped["names"])
    found = names_sha256(names)
    if found != shipped["sha256"]:
        raise DataError(
            f"the shipped split {dataset}/{part} has sha256 {found[:12]}..., and "
            f"{shipped['sha256'][:12]}... is written beside it: the file was changed. Install attcr again"
        )
    return Split(dataset, part, names, found)
