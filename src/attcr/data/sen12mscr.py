"""SEN12MS-CR: 256x256 patches of Sentinel-1, cloudy Sentinel-2 and clear Sentinel-2 from 175 regions."""

import json
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attcr.bands.sensors import SENTINEL2_L1C
from attcr.bands.spec import SEN12MSCR as SPEC
from attcr.data.pairs import Array, Dataset, Sample, Transform, make_sample, read_raster, some
from attcr.data.splits import load_split
from attcr.errors import ConfigError, DataError, DataNotFoundError, warn
from attcr.files import cache_folder, write_whole

KINDS = ("s1", "s2_cloudy", "s2")
INDEX = "attcr-index.json"
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


class PatchIndex:
    """Which patches a root holds, by region. A region is listed when first asked for, and remembered on disk.

    The memory is `ROOT/attcr-index.json`, or a file in the user's cache folder where ROOT cannot be written;
    an entry is good as long as the region's three folders have the modification times written beside it.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.incomplete: dict[str, int] = {}

    def patches(self, regions: Sequence[str]) -> list[NDArray[np.int32]]:
        """Give the numbers of the patches that have all three files, ordered, one array for each region."""
        known, found, new = self._load(), [], False
        for region in regions:
            folders = [patch_path(self.root, region, kind, 0).parent for kind in KINDS]
            times = [_modified(folder) for folder in folders]
            entry = known.get(region)
            if entry is None or entry["modified"] != times:
                entry = self._scan(region, folders) | {"modified": times}
                known[region], new = entry, True
            if entry["incomplete"]:
                self.incomplete[region] = entry["incomplete"]
            found.append(np.array(entry["patches"], np.int32))
        if new:
            self._save(known)
        return found

    def _scan(self, region: str, folders: Sequence[Path]) -> dict[str, Any]:
        season, number = region.split("/")
        sets = []
        for kind, folder in zip(KINDS, folders, strict=True):
            name = re.compile(rf"{season}_{kind}_{number}_p(\d+)\.tif")
            with os.scandir(folder) as entries:
                sets.append({int(match[1]) for entry in entries if (match := name.fullmatch(entry.name))})
        whole = set.intersection(*sets)
        return {"patches": sorted(whole), "incomplete": len(set.union(*sets)) - len(whole)}

    @property
    def _files(self) -> list[Path]:
        of_root = sha256(str(self.root.resolve()).encode()).hexdigest()[:16]
        return [self.root / INDEX, cache_folder() / f"{of_root}-{INDEX}"]

    def _load(self) -> dict[str, Any]:
        for file in self._files:
            with suppress(OSError, ValueError, KeyError, TypeError):  # absent or damaged: it is made again
                return dict(json.loads(file.read_text())["regions"])
        return {}

    def _save(self, regions: dict[str, Any]) -> None:
        for file in self._files:
            try:
                file.parent.mkdir(parents=True, exist_ok=True)
                write_whole(file, json.dumps({"regions": regions}))
            except OSError:
                continue
            return
        warn(
            f"the index of {self.root} could be written neither there nor in {self._files[1].parent}: "
            "it will be made again each time"
        )


def _modified(folder: Path) -> int:
    try:
        return folder.stat().st_mtime_ns
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
        index = PatchIndex(self.root)
        numbers = index.patches(self.regions)
        if index.incomplete:
            warn(
                f"{sum(index.incomplete.values())} patches lack one of s1, s2_cloudy, s2 and are left out: "
                f"{some(index.incomplete)}"
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
