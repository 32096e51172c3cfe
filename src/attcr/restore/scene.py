"""Restore a whole scene: open -> grid -> read -> to_model -> predict -> from_model -> blend -> write."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from attcr.addresses import redact
from attcr.errors import AllCloudError, SceneError, warn
from attcr.predict import Predictor
from attcr.restore.display import html_of
from attcr.restore.options import RestoreOptions
from attcr.restore.outputs import Outputs
from attcr.restore.prepare import Prepared, Source, check_target, prepare
from attcr.restore.publish import Preview, layers_of, publish, told_references
from attcr.restore.resume import (
    State,
    checksum_of,
    checksum_of_file,
    held,
    keep_references,
    read_state,
    remove,
    remove_leftover,
    take_up,
)
from attcr.restore.walk import CLOUD_LEFT, NODATA, ORIGINAL, QUALITY_NAMES, Array, Strip
from attcr.scenes import write
from attcr.scenes.clouds.find import CLOUDS
from attcr.scenes.dataset import gdal

if TYPE_CHECKING:
    from torch import nn

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RestoreResult:
    """What was written for a scene, and what it took."""

    target: Path
    quality: Path
    spread: Path | None
    item: Path
    preview: Path
    tiles: int
    """Tiles of the scene."""
    tiles_run: int
    """Tiles that went through the network in this run."""
    resumed_row: int
    """The row at which this run began; 0 unless an earlier one was taken up."""
    pixels: dict[str, int]
    """Pixels of each quality class."""
    left: int
    """Pixels of cloud that the weights do not remove, whatever became of it."""
    mask: str
    """Where the clouds were taken from."""
    dates: Path | None
    """Days to the date that each pixel is from, and the number of the reference."""
    references: list[dict[str, Any]]
    """What of the scene is from each reference, and how."""
    seconds: float

    def _repr_html_(self) -> str:
        return html_of(self.target, self.preview, [self.pixels.get(name, 0) for name in QUALITY_NAMES])


@dataclass(frozen=True)
class ScenePlan:
    """What restoring a scene would do."""

    height: int
    width: int
    bands: tuple[str, ...]
    dtype: str
    sensor: str
    mask: str
    references: tuple[str, ...]
    """Other dates that what is under cloud is filled from."""
    tiles: int
    tiles_to_run: int
    seconds: float
    """Expected, from one tile run through the network here."""
    memory: int
    """Bytes of the strip and the tiles, beside the network's own."""
    disk: int
    """Bytes of working files beside the target."""


@dataclass(frozen=True)
class Progress:
    """How far a restore is."""

    stage: Literal["mask", "restore", "write"]
    done: int
    """Tiles done ("restore") or rows done ("mask")."""
    total: int
    megapixels: float = 0.0
    """Megapixels of tiles through the network so far."""


def restore_scene(
    source: Source,
    target: str | Path,
    model: nn.Module | str | Path | Predictor,
    *,
    options: RestoreOptions | None = None,
    overwrite: bool = False,
    resume: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> RestoreResult:
    """Restore a scene and write it with its own grid, type and metadata.

    Beside `target` it writes a quality raster, a preview, the spread if there is one, and last a STAC item that
    says how the scene was made. Each file appears complete or not at all. Existing files are refused before any work
    starts, unless `overwrite` is set; inputs are never replaced. With `resume`, the finished rows of an interrupted
    run of the same work are kept. The same input, weights and options give the same bytes.
    """
    options = options or RestoreOptions()
    target = Path(target)
    began = time.perf_counter()
    with gdal(), prepare(source, model, options, Outputs(target).folder if resume else None) as job:
        folder = Outputs(target).folder
        if resume and Outputs(target).item.exists():
            remove_leftover(folder, target)
        outputs = check_target(job, target, overwrite=overwrite or (resume and was_publishing(job, folder)))
        _log.info(
            "%s: %d x %d pixels of %s, %s into %s; weights %s; %d tiles; mask %s",
            *(job.scene.source, job.scene.width, job.scene.height, job.sensor.name),
            *([band.name or band.index for band in job.scene.bands], list(job.slots)),
            *(job.predictor.identity["weights_sha256"][:12], len(job.grid), redact(job.mask)),
        )
        with write.writing(target), held(folder, target):
            try:
                state = take_up_work(job, folder, resume)
                if job.asked:
                    keep_references(folder, job.asked, job.options.references)
                result = write_scene(job, outputs, state, progress)
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                if not resume or isinstance(error, AllCloudError):
                    shutil.rmtree(folder, ignore_errors=True)
                raise
            remove(folder)
    return replace(result, seconds=time.perf_counter() - began)


def plan_scene(
    source: Source,
    target: str | Path,
    model: nn.Module | str | Path | Predictor,
    *,
    options: RestoreOptions | None = None,
) -> ScenePlan:
    """Say what `restore_scene` would do, how long it would take and how much memory, and write nothing."""
    options = options or RestoreOptions()
    target = Path(target)
    with gdal(), prepare(source, model, options) as job:
        check_target(job, target, overwrite=True)
        with write.writing(target), TemporaryDirectory(prefix=".attcr-plan-", dir=target.parent) as folder:
            walk = job.walk(job.find_clouds(Path(folder)), None)
            rows = job.grid.rows
            to_run = sum(len(walk.tiles_to_run(row)) for row in rows)
        x = np.zeros((1, len(job.predictor.spec.slots), job.grid.tile_height, job.grid.tile_width), np.float32)
        walk.changes(x)  # the first one also warms up
        began = time.perf_counter()
        walk.changes(x)
        seconds = (time.perf_counter() - began) * to_run
        return ScenePlan(
            height=job.scene.height,
            width=job.scene.width,
            bands=tuple(band.name or str(band.index) for band in job.scene.bands),
            dtype=str(job.scene.dtype),
            sensor=job.sensor.name,
            mask=redact(job.mask),
            references=tuple(reference.scene.source for reference in job.references),
            tiles=len(job.grid),
            tiles_to_run=to_run,
            seconds=seconds,
            memory=job.memory,
            disk=job.disk,
        )


@dataclass(frozen=True)
class FinishedRows:
    """Finished rows of every file of a scene."""

    top: int
    layers: dict[str, Array]
    """Layer to (C, rows, W)."""
    preview: Array
    pixels: Array
    """Pixels of each quality class, and last those of cloud that the weights do not remove."""


def finished_rows(job: Prepared, preview: Preview, strip: Strip) -> FinishedRows:
    """Give a strip as rows of every file."""
    bottom = strip.top + strip.values.shape[1]
    values, quality = strip.values, strip.quality[None]
    if job.passed:
        values = job.whole.read(strip.top, bottom)
        values[[job.whole.bands.index(band) for band in job.scene.bands]] = strip.values
        quality = np.stack([strip.quality, _quality_of_passed(job, strip, values[job.passed])])
    alpha = job.whole.read_alpha(strip.top, bottom)
    layers = {"restored": values if alpha is None else np.concatenate([values, alpha]), "quality": quality}
    if strip.spread is not None:
        layers["spread"] = strip.spread[None]
    if strip.dates is not None:
        layers["dates"] = strip.dates
    pixels = np.append(np.bincount(strip.quality.ravel(), minlength=len(QUALITY_NAMES)), strip.left)
    return FinishedRows(strip.top, layers, preview.rows(strip.top, strip.came, strip.values), pixels)


def _quality_of_passed(job: Prepared, strip: Strip, values: Array) -> Array:
    """Give the classes of bands that are not restored: cloud stays wherever the others lost it."""
    assert strip.cloudy is not None, "a walk says it of every strip"
    seen = job.whole.select(job.passed).valid(values, strip.top, blank=job.product.nodata).any(axis=0)
    return np.where(seen, np.where(strip.cloudy, CLOUD_LEFT, ORIGINAL), NODATA).astype(np.uint8)


def was_publishing(job: Prepared, folder: Path) -> bool:
    """Say whether an interrupted run of this job had started to give files their names: they are its own."""
    state = read_state(folder)
    return state is not None and state.publishing and state.fingerprint == job.fingerprint()


def take_up_work(job: Prepared, folder: Path, resume: bool) -> State:
    """Give the state of an interrupted run of this job, or a new one in an empty folder."""
    untold = [redact(href) for href, identity in job.identities.items() if identity is None]
    if resume and untold:
        warn(f"{untold[0]} may have changed, and its server does not say: starting again.")
    preview = Preview(folder / "preview.tif", job.scene, job.slots)

    def checksum(top: int, bottom: int) -> int | None:
        try:
            layers = (write.read_rows(folder / f"{name}.tif", top, bottom) for name in layers_of(job))
            return checksum_of([*layers, preview.read(top, bottom)])
        except SceneError:
            return None

    return take_up(
        folder,
        job.fingerprint(),
        resume=resume and not untold,
        strips={0, *job.grid.rows, job.scene.height},
        width=job.scene.width,
        checksum=checksum,
        publishing=resume and was_publishing(job, folder),
    )


def write_scene(
    job: Prepared,
    outputs: Outputs,
    state: State,
    progress: Callable[[Progress], None] | None,
    ready: Iterator[FinishedRows] | None = None,
) -> RestoreResult:
    """Write every file of a scene from rows that are ready, or that the network gives now."""
    report = progress or (lambda _: None)
    layers = layers_of(job)
    preview = Preview(state.folder / "preview.tif", job.scene, job.slots)
    resumed, count = state.row, _TileCount(job, report)
    if ready is None:
        ready = _restored_rows(job, state, preview, count, report)
    if not state.has_clouds:
        for name, (profile, described) in layers.items():
            write.create(state.folder / f"{name}.tif", profile, described)
        preview.create()
        state.has_clouds = True
        state.sizes = {path.name: path.stat().st_size for path in state.folder.glob("*.tif")}
        state.clouds = checksum_of_file(state.folder / CLOUDS)
        state.save()
    for rows in ready:
        _keep(rows, state, preview)
    if state.row != job.scene.height:
        raise SceneError(f"Of {job.scene.height} rows {state.row} came: run it again.")
    _tell_of_cloud_left(job, state)
    report(Progress("write", 0, 1))
    publish(job, outputs, layers, state, preview)
    report(Progress("write", 1, 1))
    return RestoreResult(
        target=outputs.target,
        quality=outputs.rasters["quality"],
        spread=outputs.rasters.get("spread"),
        item=outputs.item,
        preview=outputs.preview,
        tiles=len(job.grid),
        tiles_run=count.done,
        resumed_row=resumed,
        pixels=dict(zip(QUALITY_NAMES, state.pixels, strict=True)),
        left=state.left,
        mask=redact(job.mask),
        dates=outputs.rasters.get("dates"),
        references=told_references(job, state.folder),
        seconds=0.0,
    )


def _tell_of_cloud_left(job: Prepared, state: State) -> None:
    """Warn of cloud that the weights do not remove; refuse a scene in which there is nothing else."""
    if not state.left:
        return
    if not any(count for value, count in enumerate(state.pixels) if value not in (NODATA, CLOUD_LEFT)):
        raise AllCloudError(
            f"All of {job.scene.source} is under cloud that these weights do not remove, so nothing was written: take "
            "another date, or weights that remove thick cloud; `unseen=fill` lets the network paint over it."
        )
    total = sum(state.pixels) - state.pixels[NODATA] + (state.left if job.options.unseen == "nodata" else 0)
    became = {
        "keep": "stays in the image (class 5 of the quality raster)",
        "fill": "was painted by the network all the same (class 4, low confidence)",
        "nodata": "became no data",
    }[job.options.unseen]
    warn(f"{state.left / total:.1%} of the scene is under cloud that these weights do not remove; it {became}.")


class _TileCount:
    """Counts tiles as they go through the network, and reports them."""

    def __init__(self, job: Prepared, report: Callable[[Progress], None]) -> None:
        self.done = self.total = 0
        self._report = report
        self._megapixels = job.grid.tile_height * job.grid.tile_width / 1e6

    def __call__(self, tiles: int) -> None:
        self.done += tiles
        self._report(Progress("restore", self.done, self.total, self.done * self._megapixels))


def _restored_rows(
    job: Prepared, state: State, preview: Preview, count: _TileCount, report: Callable[[Progress], None]
) -> Iterator[FinishedRows]:
    """Find the clouds now, and give the rows from the state's on as they are asked for."""
    clouds = job.find_clouds(state.folder, lambda rows: report(Progress("mask", rows, job.scene.height)))
    filler = job.find_filler(state.folder, clouds, lambda rows: report(Progress("mask", rows, job.scene.height)))
    walk = job.walk(clouds, count, filler)
    ahead = [row for row in job.grid.rows if row + job.grid.tile_height > state.row]
    count.total = sum(len(walk.tiles_to_run(row)) for row in ahead)
    report(Progress("restore", 0, count.total))
    strips = walk.strips(state.row) if state.row < job.scene.height else iter(())
    return (finished_rows(job, preview, strip) for strip in strips)


def _keep(rows: FinishedRows, state: State, preview: Preview) -> None:
    """Write rows into the working files, and then that they are there."""
    if rows.top != state.row:
        raise SceneError(f"Rows from {rows.top} came where those from {state.row} were expected: run it again.")
    for name, values in rows.layers.items():
        write.write_rows(state.folder / f"{name}.tif", rows.top, values)
    preview.add(rows.top, rows.preview)
    state.row = rows.top + rows.layers["quality"].shape[1]
    state.checksums.append(checksum_of([*rows.layers.values(), rows.preview]))
    *pixels, left = rows.pixels.tolist()
    state.pixels = [before + now for before, now in zip(state.pixels, pixels, strict=True)]
    state.left += left
    state.save()
