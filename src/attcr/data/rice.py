"""RICE1 (thin cloud) and RICE2 (thick cloud): 512x512 RGB pairs in `cloud/` and `label/`."""

import os
from pathlib import Path

from attcr.bands.spec import RICE2 as RICE2_SPEC
from attcr.bands.spec import TRUE_COLOUR, InputSpec
from attcr.data.listing import Listing, Lists, list_folders
from attcr.data.pairs import PairFolder, Transform
from attcr.data.splits import load_split
from attcr.errors import DataNotFoundError

RICE1_SPEC = TRUE_COLOUR

HOW_TO_OBTAIN = (
    "RICE is given by its authors at https://github.com/BUPTLdy/RICE_DATASET; unpack it so that "
    "ROOT/cloud and ROOT/label hold images of equal names (0.png, 1.png, ...; PNG, JPEG, WebP or TIFF)"
)


class _RICE(PairFolder):
    dataset: str
    planes: InputSpec

    def __init__(
        self,
        root: str | os.PathLike[str],
        split: str = "train",
        transform: Transform | None = None,
        *,
        cache: bool = False,
    ) -> None:
        names = load_split(self.dataset, split).names
        try:
            super().__init__(
                Path(root, "cloud"), Path(root, "label"), transform, names=names, spec=self.planes, cache=cache
            )
        except DataNotFoundError as error:
            raise DataNotFoundError(f"{self.dataset} {split}: {error}. {HOW_TO_OBTAIN}") from error


class RICE1(_RICE):
    """RICE1, thin cloud over true colour: 500 pairs; `split` is `train` (360), `val` (40) or `test` (100)."""

    dataset, planes = "rice1", RICE1_SPEC


class RICE2(_RICE):
    """RICE2, thick cloud over false colour: 736 pairs, 57 of which are in no part.

    Their labels look the same as a test label, and so they were taken out of train. `split` is `train` (479),
    `val` (52) or `test` (148).
    """

    dataset, planes = "rice2", RICE2_SPEC


def list_files(root: Path, lists: Lists) -> Listing:
    """List the images of ROOT/cloud and ROOT/label."""
    return list_folders([(root / "cloud", root / "label")], lists)
