"""T-CLOUD: 256x256 RGB pairs of thin cloud from Landsat 8."""

import os
from dataclasses import replace
from pathlib import Path

from attcr.bands.spec import TRUE_COLOUR
from attcr.data.listing import Listing, Lists, list_folders
from attcr.data.pairs import PairFolder, Transform
from attcr.data.splits import load_split
from attcr.errors import DataNotFoundError

TCLOUD_SPEC = replace(TRUE_COLOUR, gsd=(30.0, 30.0))

HOW_TO_OBTAIN = (
    "T-CLOUD is linked from its authors' page, https://github.com/haidong-Ding/Cloud-Removal; unpack it so "
    "that ROOT/train and ROOT/test (or ROOT itself) hold folders cloud and reference with images of "
    "equal names"
)


class TCLOUD(PairFolder):
    """T-CLOUD, 2,939 pairs; `split` is `train` (2,115), `val` (236) or `test` (588).

    Validation is part of the published train. Read from `ROOT/train/{cloud,reference}` and
    `ROOT/test/{cloud,reference}` as its authors' code does, or from `ROOT/{cloud,reference}` when both parts
    lie together.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        split: str = "train",
        transform: Transform | None = None,
        *,
        cache: bool = False,
    ) -> None:
        names = load_split("tcloud", split).names
        folder = Path(root, "test" if split == "test" else "train")
        if not folder.is_dir():
            folder = Path(root)
        try:
            super().__init__(
                folder / "cloud", folder / "reference", transform, names=names, spec=TCLOUD_SPEC, cache=cache
            )
        except DataNotFoundError as error:
            raise DataNotFoundError(f"tcloud {split}: {error}. {HOW_TO_OBTAIN}") from error


def list_files(root: Path, lists: Lists) -> Listing:
    """List the images of both parts, or of the one folder that holds them together."""
    parts = [root / "train", root / "test"] if (root / "train").is_dir() else [root]
    return list_folders([(part / "cloud", part / "reference") for part in parts], lists)
