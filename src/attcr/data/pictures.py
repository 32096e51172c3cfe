"""RICE1, RICE2 and T-CLOUD: pairs of 8-bit pictures in folders, with lists of their parts in the package."""

import os
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from attcr.bands.spec import RICE2 as RICE2_SPEC
from attcr.bands.spec import TRUE_COLOUR, InputSpec
from attcr.data.pairs import PairFolder, Transform
from attcr.data.splits import load_split
from attcr.errors import DataNotFoundError

OBTAIN_RICE = (
    "RICE is given by its authors at https://github.com/BUPTLdy/RICE_DATASET; unpack it so that "
    "ROOT/cloud and ROOT/label hold images of equal names (0.png, 1.png, ...; PNG, JPEG, WebP or TIFF)"
)
OBTAIN_TCLOUD = (
    "T-CLOUD is linked from its authors' page, https://github.com/haidong-Ding/Cloud-Removal; unpack it so "
    "that ROOT/train and ROOT/test (or ROOT itself) hold folders cloud and reference with images of "
    "equal names"
)


class ListedPictures(PairFolder):
    """A set of pictures whose parts are lists in the package."""

    dataset: ClassVar[str]
    planes: ClassVar[InputSpec]
    obtain: ClassVar[str] = OBTAIN_RICE
    clear: ClassVar[str] = "label"
    """The folder of the clear images, beside `cloud`."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        split: str = "train",
        transform: Transform | None = None,
        *,
        cache: bool = False,
    ) -> None:
        names, folder = load_split(self.dataset, split).names, self.folder(Path(root), split)
        try:
            super().__init__(
                folder / "cloud", folder / self.clear, transform, names=names, spec=self.planes, cache=cache
            )
        except DataNotFoundError as error:
            raise DataNotFoundError(f"{self.dataset} {split}: {error}. {self.obtain}") from error

    @staticmethod
    def folder(root: Path, split: str) -> Path:
        """Where the two folders of a part lie."""
        return root


class RICE1(ListedPictures):
    """RICE1, thin cloud over true colour: 500 pairs; `split` is `train` (360), `val` (40) or `test` (100)."""

    dataset, planes = "rice1", TRUE_COLOUR


class RICE2(ListedPictures):
    """RICE2, thick cloud over false colour: 736 pairs, 57 of which are in no part.

    Their labels look the same as a test label, and so they were taken out of train. `split` is `train` (479),
    `val` (52) or `test` (148).
    """

    dataset, planes = "rice2", RICE2_SPEC


class TCLOUD(ListedPictures):
    """T-CLOUD, 2,939 pairs; `split` is `train` (2,115), `val` (236) or `test` (588).

    Validation is part of the published train. Read from `ROOT/train/{cloud,reference}` and
    `ROOT/test/{cloud,reference}` as its authors' code does, or from `ROOT/{cloud,reference}` when both parts
    lie together.
    """

    dataset, planes, obtain, clear = "tcloud", replace(TRUE_COLOUR, gsd=(30.0, 30.0)), OBTAIN_TCLOUD, "reference"

    @staticmethod
    def folder(root: Path, split: str) -> Path:
        """Where the two folders of a part lie."""
        own = root / ("test" if split == "test" else "train")
        return own if own.is_dir() else root
