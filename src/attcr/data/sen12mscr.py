"""SEN12MS-CR: 256x256 patches of Sentinel-1, cloudy Sentinel-2 and clear Sentinel-2 from 175 regions."""

import os
import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from attcr.bands.sensors import SENTINEL2_L1C
from attcr.bands.spec import SEN12MSCR as SPEC
from attcr.data.pairs import Array, Dataset, Sample, Transform, make_sample, read_raster, some
from attcr.data.splits import load_split
from attcr.errors import ConfigError, DataError, DataNotFoundError, warn

KINDS = ("s1", "s2_cloudy", "s2")
HOW_TO_OBTAIN = (
    "SEN12MS-CR (about 270 GB, CC BY 4.0) is at https://mediatum.ub.tum.de/1554803; unpack its archives in "
    "one folder so that files are at "
    "ROOT/ROIs1158_spring_s2_cloudy/s2_cloudy_1/ROIs1158_spring_s2_cloudy_1_p30.tif "
    "and likewise for s1 and s2"
)


def patch_path(root: Path, region: str, kind: str, patch: int) -> Path:
    """Where the published layout has patch `patch` of a region `season/number`, kind s1, s2_cloudy or s2."""
    season, number = region.split("/")
    return root / f"{season}_{kind}" / f"{kind}_{number}" / f"{season}_{kind}_{number}_p{patch}.tif"


def find_patches(root: Path, regions: Sequence[str]) -> tuple[list[NDArray[np.int32]], dict[str, int]]:
    """Give the numbers of the patches that have all three files, ordered, one array for each region.

    The second are the regions of which some patches lack a file, and how many do.
    """
    found, incomplete = [], {}
    for region in regions:
        some = [_numbers(root, region, kind) for kind in KINDS]
        whole = set.intersection(*some)
        if missing := len(set.union(*some)) - len(whole):
            incomplete[region] = missing
        found.append(np.array(sorted(whole), np.int32))
    return found, incomplete


def _numbers(root: Path, region: str, kind: str) -> set[int]:
    """Give the numbers of a region's files of one kind."""
    season, number = region.split("/")
    name, folder = re.compile(rf"{season}_{kind}_{number}_p(\d+)\.tif"), patch_path(root, region, kind, 0).parent
    try:
        with os.scandir(folder) as entries:
            return {int(match[1]) for entry in entries if (match := name.fullmatch(entry.name))}
    except OSError as error:
        raise DataNotFoundError(f"looked for the folder {folder}, which is not there. {HOW_TO_OBTAIN}") from error


class SEN12MSCR(Dataset[Sample]):
    """SEN12MS-CR by region: `split` is `train` (155 regions), `val` (10) or `test` (10), matched exactly.

    `inputs` is (15, 256, 256): VV and VH scaled to 0..2, then 13 optical bands, digital numbers / 2000;
    `clear` is the 13 optical bands. NaN is filled with the mean of its patch.
    The root is listed when first needed.
    """

    spec = SPEC

    def __init__(self, root: str | os.PathLike[str], split: str = "train", transform: Transform | None = None) -> None:
        self.root = Path(root)
        self.transform = transform
        self.regions = load_split("sen12mscr", split).names
        if not self.root.is_dir():
            raise DataNotFoundError(f"looked for the folder {self.root}, which is not there. {HOW_TO_OBTAIN}")

    @cached_property
    def _patches(self) -> tuple[NDArray[np.int16], NDArray[np.int32]]:
        """Region (place in `regions`) and patch number of each item: 6 bytes, nothing to copy at a fork."""
        numbers, incomplete = find_patches(self.root, self.regions)
        if incomplete:
            warn(
                f"{sum(incomplete.values())} patches lack one of s1, s2_cloudy, s2 and are left out: {some(incomplete)}"
            )
        regions = np.repeat(np.arange(len(numbers), dtype=np.int16), [len(part) for part in numbers])
        return regions, np.concatenate(numbers)

    @property
    def names(self) -> list[str]:
        """The patches in order, e.g. `ROIs1158_spring_1_p30`."""
        starts = [region.replace("/", "_") for region in self.regions]
        return [f"{starts[region]}_p{patch}" for region, patch in zip(*self._patches, strict=True)]

    def __len__(self) -> int:
        return len(self._patches[0])

    def __getitem__(self, index: int) -> Sample:
        """Patch `index`, its three files read once each."""
        region, patch = self.regions[self._patches[0][index]], int(self._patches[1][index])
        sar, cloudy, clear = (read_patch(patch_path(self.root, region, kind, patch), kind) for kind in KINDS)
        optical = SPEC.fit(SENTINEL2_L1C)
        return make_sample(
            np.concatenate([SPEC.radar().to_model(sar), optical.to_model(cloudy)]),
            optical.to_model(clear),
            f"{region.replace('/', '_')}_p{patch}",
            self.transform,
        )


def open_patches(
    root: str | os.PathLike[str], split: str, *, transform: Transform | None = None, cache: bool = False
) -> SEN12MSCR:
    """Open a part of SEN12MS-CR; it is too large to be held in memory."""
    if cache:
        raise ConfigError("sen12mscr is about 270 GB and not held in memory: leave out cache")
    return SEN12MSCR(root, split, transform)


def read_patch(path: Path, kind: str) -> Array:
    """Read the bands of one file, (C, H, W), NaN filled with the mean of the patch."""
    bands = read_raster(path)
    wanted = len(SPEC.of_kind("sar") if kind == "s1" else SPEC.bands)
    if bands.shape[0] != wanted:
        raise DataError(f"{path} has {bands.shape[0]} bands; {kind} has {wanted}")
    if bands.dtype.kind == "f":
        empty = np.isnan(bands)
        if empty.all():
            raise DataError(f"{path} holds nothing but NaN: take the patch out, or download it again")
        if empty.any():
            bands[empty] = bands[~empty].mean(dtype=np.float64)
    return bands
