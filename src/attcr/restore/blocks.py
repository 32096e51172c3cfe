"""Blocks: whole rows of tiles of a scene, restored by several workers and put together to the same bytes."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np

from attcr.errors import ConfigError
from attcr.predict import Predictor
from attcr.restore.filler import REFERENCES
from attcr.restore.job import Source
from attcr.restore.options import RestoreOptions
from attcr.restore.publish import Outputs, Preview, check_target
from attcr.restore.resume import empty, held, make_folder
from attcr.restore.scene import (
    FinishedRows,
    RestoreResult,
    clouds_of,
    filler_of,
    finished_rows,
    open_job,
    take_up_work,
    walk_of,
    write_scene,
    written,
)
from attcr.restore.walk import Array
from attcr.scenes import write
from attcr.scenes.dataset import gdal

if TYPE_CHECKING:
    from torch import nn


def restore_block(
    source: Source,
    part: Path,
    weights: nn.Module | str | Path | Predictor,
    *,
    block: tuple[int, int],
    options: RestoreOptions | None = None,
) -> None:
    """Restore block i of n of a scene, whole rows of tiles, into a file that `join_blocks` takes.

    Tiles that reach into a block from above are run for it too, so that its rows have the bits of a whole run.
    """
    options = _settled(options)
    index, count = block
    folder = Outputs(part).folder
    with gdal(), open_job(source, weights, options) as job, write.writing(part):
        rows = job.grid.rows
        first, last = (len(rows) * i // count for i in (index, index + 1))
        make_folder(folder)
        empty(folder)
        try:
            preview = Preview(folder / "preview.tif", job.target, job.slots)
            with ZipFile(part, "w", ZIP_DEFLATED, compresslevel=1) as file:
                if first < last:
                    clouds = clouds_of(job, folder)
                    walk = walk_of(job, clouds, filler_of(job, folder, clouds))
                    if (folder / REFERENCES).exists():
                        file.write(folder / REFERENCES, REFERENCES)
                    for strip in written(job, islice(walk.strips(rows[first]), last - first)):
                        _save_rows(file, finished_rows(job, preview, strip))
        finally:
            shutil.rmtree(folder)


def join_blocks(
    source: Source,
    parts: Iterable[Path],
    target: str | Path,
    weights: nn.Module | str | Path | Predictor,
    *,
    options: RestoreOptions | None = None,
    overwrite: bool = False,
) -> RestoreResult:
    """Put the blocks of a scene together, in order, and write what `restore_scene` would have, to the byte."""
    options = _settled(options)
    target = Path(target)
    began = time.perf_counter()
    with gdal(), open_job(source, weights, options) as job:
        outputs = check_target(job, target, overwrite=overwrite)
        with write.writing(target), held(outputs.folder, target):
            try:
                rows = (one for part in parts for one in _load_rows(part, outputs.folder))
                result = write_scene(job, outputs, take_up_work(job, outputs.folder, False), None, rows)
            finally:
                shutil.rmtree(outputs.folder, ignore_errors=True)
    return replace(result, seconds=time.perf_counter() - began)


def _settled(options: RestoreOptions | None) -> RestoreOptions:
    """Let all machines compute the blocks alike, and refuse references that each would search for by itself."""
    options = (options or RestoreOptions()).on_any_machine()
    if options.searched:
        raise ConfigError("Blocks are filled from references that are named: search for them with plan_scene first.")
    return options


def _save_rows(file: ZipFile, rows: FinishedRows) -> None:
    for name, array in {**rows.layers, "preview": rows.preview, "pixels": rows.pixels}.items():
        with file.open(f"{rows.top}/{name}", "w", force_zip64=True) as member:
            np.lib.format.write_array(member, array, allow_pickle=False)


def _load_rows(part: Path, folder: Path) -> Iterator[FinishedRows]:
    """Give the rows of a block; what was found out about the references goes into the working folder."""
    with ZipFile(part) as file:
        if REFERENCES in file.namelist():
            file.extract(REFERENCES, folder)
        arrays_of_rows = [name for name in file.namelist() if name != REFERENCES]
        for top, names in groupby(arrays_of_rows, key=lambda name: name.partition("/")[0]):
            arrays: dict[str, Array] = {}
            for name in names:
                with file.open(name) as member:
                    arrays[name.partition("/")[2]] = np.lib.format.read_array(member, allow_pickle=False)
            preview, pixels = arrays.pop("preview"), arrays.pop("pixels")
            yield FinishedRows(int(top), arrays, preview, pixels)
