"""Which images are train, validation and test: lists shipped as data, each with its sha256."""

import json
from collections.abc import Iterable, Mapping, Sequence
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


def hold_out(groups: Sequence[Sequence[str]], every: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Part names in two, (kept, held out): the first of each `every` groups is held out, whole.

    Groups stand in the order of the smallest sha256 of their names, so the outcome depends on nothing else.
    Images too alike to stand on both sides share a group; every other name is a group of one.
    """
    ordered = sorted(groups, key=lambda group: min(sha256(name.encode()).digest() for name in group))
    held = {name for group in ordered[::every] for name in group}
    everything = [name for group in groups for name in group]
    kept = tuple(name for name in everything if name not in held)
    return kept, tuple(name for name in everything if name in held)


def shared_names(parts: Mapping[str, Iterable[str]]) -> dict[tuple[str, str], list[str]]:
    """Find the names that stand in two parts at once, by pair of parts; whole names are compared."""
    sets = {part: set(names) for part, names in parts.items()}
    pairs = [(one, other) for at, one in enumerate(sets) for other in list(sets)[at + 1 :]]
    return {(one, other): sorted(both) for one, other in pairs if (both := sets[one] & sets[other])}


def substring_leaks(parts: Mapping[str, Iterable[str]]) -> dict[tuple[str, str], list[str]]:
    """Find the names of a part that another would load too if its entries were sought as substrings.

    By (part, other): `ROIs1158_spring/1` is inside `ROIs1158_spring/106`, so a loader that takes every path
    with train's `spring_s2_1` in it reads test region 106 as train: that is at `("test", "train")`.
    """
    lists = {part: list(names) for part, names in parts.items()}
    leaks = {
        (part, other): [name for name in names if any(entry in name for entry in entries)]
        for part, names in lists.items()
        for other, entries in lists.items()
        if part != other
    }
    return {pair: names for pair, names in leaks.items() if names}
