"""T-CLOUD: 256x256 RGB pairs of thin cloud from Landsat 8."""

import os
from pathlib import Path

from attcr.data.pairs import PairFolder, Transform
from attcr.data.splits import load_split
from attcr.errors import DataNotFoundError

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
            super().__init__(folder / "cloud", folder / "reference", transform, names=names, cache=cache)
        except DataNotFoundError as error:
            raise DataNotFoundError(f"tcloud {split}: {error}. {HOW_TO_OBTAIN}") from error
