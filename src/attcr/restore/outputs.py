"""The files that a restore writes, named once and checked against all that it reads before any work is done."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from attcr.addresses import local_file, redact
from attcr.bands.products import BAND_IN_NAME
from attcr.errors import SceneError

LONGEST_NAME = 255
"""Bytes of a file name that every common file system takes."""
_ENDINGS = {".png": ".png", ".jpg": ".png", ".jpeg": ".png", ".webp": ".webp", ".bmp": ".png"}


@dataclass(frozen=True)
class Outputs:
    """Where everything about a restored scene goes: beside its target, named after it."""

    target: Path
    has_spread: bool = False
    overwrite: bool = False
    """Whether files of these names are replaced; inputs and folders never are."""
    has_dates: bool = False

    @property
    def rasters(self) -> dict[str, Path]:
        """Layer to its file."""
        made = {"quality": True, "spread": self.has_spread, "dates": self.has_dates}
        return {"restored": self.target, **{name: self._beside(f"_{name}.tif") for name in made if made[name]}}

    @property
    def preview(self) -> Path:
        """The picture of before and after."""
        return self._beside("_preview.png")

    @property
    def item(self) -> Path:
        """The STAC item."""
        return self._beside(".json")

    @property
    def folder(self) -> Path:
        """Where unfinished files are, beside the target so that they can be renamed to it."""
        return self.target.with_name(f".{self.target.name}.attcr")

    def _beside(self, ending: str) -> Path:
        return self.target.with_name(self.target.stem + ending)

    def __iter__(self) -> Iterator[Path]:
        """Give every file in the order in which they get their names.

        The .aux.xml that GDAL reads and writes beside a raster comes first: the raster is never without it.
        """
        for raster in self.rasters.values():
            yield aux_of(raster)
            yield raster
        yield self.preview
        yield self.item

    def check(self, inputs: Iterable[str]) -> None:
        """Refuse names that cannot be written, that are inputs, or, without `overwrite`, that are taken."""
        _check_names([*self, self.folder])
        read = {os.path.realpath(path): path for href in inputs if (path := local_file(href)) is not None}
        for path in [*self, self.folder]:
            if (source := read.get(os.path.realpath(path))) is not None or (source := _inside(path, read)) is not None:
                raise SceneError(f"{path} would be written over {source}, which is read here: choose another target.")
        for path in self:
            if path.is_dir():
                raise SceneError(
                    f"{path} is a folder, and a file of this name is to be written: choose another target."
                )
        for path in sorted(self, key=lambda path: path.suffix == ".xml"):
            if not self.overwrite and os.path.lexists(path):
                raise SceneError(f"{path} exists: choose another name, or replace it with `overwrite`.")
        owner = _owner(self.item)
        if owner is not None and owner != self.target.name and self.target.with_name(owner).exists():
            raise SceneError(f"{self.item} and the files it names belong to {owner}: choose a target of another name.")


def targets_in(folder: Path, sources: Sequence[str]) -> list[tuple[tuple[str, ...], Path]]:
    """Give each scene of these and the file in a folder that it goes to, named after it.

    Files that are named after bands are one scene; else each is one. What a format cannot store without a change, such
    as JPEG, becomes PNG; all that is no picture becomes GeoTIFF.
    """
    named = [BAND_IN_NAME.search(redact(source)) for source in sources]
    if all(named):
        starts = {Path(BAND_IN_NAME.sub("", redact(source))).name for source in sources}
        name = starts.pop() if len(starts) == 1 else ""
        return [(tuple(sources), folder / f"{name or 'restored'}.tif")]
    targets: dict[Path, str] = {}
    for source in sources:
        plain = Path(redact(source))
        target = folder / (plain.stem + _ENDINGS.get(plain.suffix.lower(), ".tif"))
        if target in targets:
            raise SceneError(
                f"{redact(targets[target])} and {redact(source)} would both be written to {target}: restore them one "
                "at a time, each with a target of its own."
            )
        targets[target] = source
    return [((source,), target) for target, source in targets.items()]


def aux_of(raster: Path) -> Path:
    """Give the file in which GDAL keeps what a raster's own format cannot hold."""
    return raster.with_name(raster.name + ".aux.xml")


def _check_names(paths: Iterable[Path]) -> None:
    for path in paths:
        if "\0" in str(path):
            raise SceneError(f"{str(path)!a} holds a NUL, which no file name can: choose another.")
        encoded = os.fsencode(path.name)
        if len(encoded) + len("..partial") > LONGEST_NAME:
            raise SceneError(
                f"{path.name[:40]}... has {len(encoded)} bytes, too many for a file name: choose a shorter one."
            )
        try:
            encoded.decode()
        except UnicodeDecodeError:
            raise SceneError(f"{path.name!a} is not UTF-8, as the names of results are: choose another.") from None


def _inside(folder: Path, read: dict[str, Path]) -> Path | None:
    """Give the input that lies in a folder, which is emptied while working."""
    if not folder.name.endswith(".attcr"):
        return None
    below = os.path.realpath(folder) + os.sep
    return next((path for real, path in read.items() if real.startswith(below)), None)


def _owner(item: Path) -> str | None:
    """Give the name of the restored file that an item of ours describes; None where there is none."""
    try:
        told = json.loads(item.read_bytes())
        if "attcr:fingerprint" not in told["properties"]:
            return None
        return Path(str(told["assets"]["restored"]["href"])).name
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None
