"""The files of a data set, pair by pair, whether or not a list names them: what an audit looks at."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attcr.data.pairs import Array, images_in, read_image
from attcr.data.splits import PARTS

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
