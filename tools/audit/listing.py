"""The files of a data set, pair by pair, whether or not a list names them; and what may be wrong with its lists."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attcr.data.pairs import Array, images_in, read_image
from attcr.data.pictures import RICE1, RICE2, TCLOUD, ListedPictures
from attcr.data.sen12mscr import find_patches, patch_path
from attcr.data.sets import find_set
from attcr.data.splits import PARTS
from attcr.errors import ConfigError, DataNotFoundError

Lists = Mapping[str, Sequence[str]]
"""Names by part."""

SIDES = ("cloudy", "clear", "sar")
CLOUDY_SIDE, CLEAR_SIDE = 0, 1


@dataclass(frozen=True)
class Listing:
    """The pairs of a data set, and where their files are."""

    names: Sequence[str]
    part_of: NDArray[np.int8]
    """The part of each pair, a place in PARTS; -1 is in no list."""
    path: Callable[[int, int], Path | None]
    """Where the image (pair, side) is; None is nowhere."""
    sides: int = 2
    incomplete: Mapping[str, int] = field(default_factory=dict)
    """Regions, and how many of their patches lack a file."""

    def read(self, index: int, side: int) -> Array:
        """Read one image that is there."""
        path = self.path(index, side)
        assert path is not None, "only images that were seen are read again"
        return read_image(path)


def list_folders(folders: Sequence[tuple[Path, Path]], lists: Lists) -> Listing:
    """List the images of folders (cloudy, clear), those in the lists first."""
    files: tuple[dict[str, Path], dict[str, Path]] = ({}, {})
    for cloudy, clear in folders:
        files[CLOUDY_SIDE].update(images_in(cloudy))
        files[CLEAR_SIDE].update(images_in(clear))
    part_of = {name: PARTS.index(part) for part, names in lists.items() for name in names}
    names = list(dict.fromkeys([*part_of, *files[CLOUDY_SIDE], *files[CLEAR_SIDE]]))
    parts = np.array([part_of.get(name, -1) for name in names], np.int8)
    return Listing(names, parts, lambda index, side: files[side].get(names[index]))


class PatchNames(Sequence[str]):
    """Patch names made when asked for: as strings they would take most of the memory."""

    def __init__(self, regions: Sequence[str], region_of: NDArray[Any], patches: NDArray[Any]) -> None:
        self.regions, self.region_of, self.patches = regions, region_of, patches

    def __len__(self) -> int:
        return len(self.patches)

    def __getitem__(self, index: Any) -> Any:
        return f"{self.regions[self.region_of[index]]}_p{self.patches[index]}"


def list_patches(root: Path, lists: Lists) -> Listing:
    """List the patches of the regions in the lists."""
    regions = [region for names in lists.values() for region in names]
    found, incomplete = find_patches(root, regions)
    counts = [len(numbers) for numbers in found]
    region_of, patches = np.repeat(np.arange(len(regions)), counts), np.concatenate(found)
    parts = np.repeat([PARTS.index(part) for part, names in lists.items() for _ in names], counts)

    def path(pair: int, side: int) -> Path:
        kind = ("s2_cloudy", "s2", "s1")[side]
        return patch_path(root, regions[region_of[pair]], kind, int(patches[pair]))

    names = PatchNames([region.replace("/", "_") for region in regions], region_of, patches)
    return Listing(names, parts.astype(np.int8), path, 3, incomplete)


def list_pictures(kind: type[ListedPictures], root: Path, lists: Lists) -> Listing:
    """List the images of all parts of a set of pictures."""
    folders = dict.fromkeys(kind.folder(root, split) for split in ("train", "test"))
    return list_folders([(folder / "cloud", folder / kind.clear) for folder in folders], lists)


LISTINGS: dict[str, Callable[[Path, Lists], Listing]] = {
    **{kind.dataset: partial(list_pictures, kind) for kind in (RICE1, RICE2, TCLOUD)},
    "sen12mscr": list_patches,
    "pairs": lambda root, lists: list_folders([(root / "cloudy", root / "clear")], lists),
}
"""How the files of each data set are listed, by its name in DATASETS."""


def list_files(dataset: str, root: Path, lists: Lists) -> Listing:
    """Give the files of a data set; where its folders are missing, say how to obtain it."""
    data = find_set(dataset)
    if dataset not in LISTINGS:
        raise ConfigError(f"{dataset} is not audited; there are {', '.join(LISTINGS)}")
    try:
        return LISTINGS[dataset](root, lists)
    except DataNotFoundError as error:
        if data.obtain in str(error):
            raise
        raise DataNotFoundError(f"{data.name}: {error}. {data.obtain}") from error


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
