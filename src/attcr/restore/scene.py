"""The walk of a scene: open -> match weights -> choose mask -> open references -> check -> walk strips -> publish."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from attcr.addresses import redact
from attcr.bands.sensors import RGB
from attcr.bands.spec import InputSpec
from attcr.errors import AllCloudError, ConfigError, SceneError, warn
from attcr.files import memory_of_machine
from attcr.predict import Predictor, open_predictor
from attcr.references.choose import search_references
from attcr.references.correct import open_corrector
from attcr.references.open import Beside, open_references
from attcr.restore.filler import Filler, colours_of
from attcr.restore.job import Job, Source
from attcr.restore.look import check_scene, fitting
from attcr.restore.options import NO_WEIGHTS, Dtype, RestoreOptions
from attcr.restore.publish import Outputs, Preview, check_target, html_of, layers_of, publish, told_references
from attcr.restore.radar import Decibels
from attcr.restore.resume import (
    State,
    checksum_of,
    checksum_of_file,
    held,
    keep_references,
    kept_references,
    read_state,
    remove,
    remove_leftover,
    take_up,
)
from attcr.restore.walk import CLOUD_LEFT, NODATA, ORIGINAL, QUALITY_NAMES, Array, Strip, Walk, blank_of
from attcr.scenes import write
from attcr.scenes.clouds.find import CLOUDS, choose_mask, find_clouds, mask_file
from attcr.scenes.clouds.masks import THICK, THIN
from attcr.scenes.clouds.rim import CloudMap
from attcr.scenes.clouds.vote import tells_clear
from attcr.scenes.clouds.voters import Network
from attcr.scenes.dataset import gdal
from attcr.scenes.open import open_scene
from attcr.scenes.scene import AlignedRaster, Scene
from attcr.scenes.tiles import Tile, grid
from attcr.scenes.windows import surroundings, tile_of_box

if TYPE_CHECKING:
    from torch import nn

MEMORY_SHARE, UNKNOWN_MEMORY = 0.75, 8 << 30
"""The part of the machine's memory that restoring may take, and what that is where the system does not say."""
MOST_NAMED = 13
"""Bands that a note names; it says no more of others than that there are."""
MOST_RADAR = 2
"""Bands of radar: VV and VH."""

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
    read: tuple[int, int]
    """Rows and columns that are read: of a window, its surroundings too."""
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
    weights: nn.Module | str | Path | Predictor,
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
    folder = Outputs(target).folder
    with gdal(), open_job(source, weights, options, folder if resume else None) as job:
        if resume and Outputs(target).item.exists():
            remove_leftover(folder, target)
        outputs = check_target(job, target, overwrite=overwrite or (resume and was_publishing(job, folder)))
        _log.info(
            "%s: %d x %d pixels of %s, %s into %s; weights %s; %d tiles; mask %s",
            *(job.scene.source, job.target.width, job.target.height, job.sensor.name),
            *([band.name or band.index for band in job.scene.bands], list(job.slots)),
            *(job.identity["weights_sha256"][:12], len(job.grid), redact(job.mask)),
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
    weights: nn.Module | str | Path | Predictor,
    *,
    options: RestoreOptions | None = None,
) -> ScenePlan:
    """Say what `restore_scene` would do, how long it would take and how much memory, and write nothing."""
    options = options or RestoreOptions()
    target = Path(target)
    with gdal(), open_job(source, weights, options) as job:
        check_target(job, target, overwrite=True)
        with write.writing(target), TemporaryDirectory(prefix=".attcr-plan-", dir=target.parent) as folder:
            walk = walk_of(job, clouds_of(job, Path(folder)))
            to_run = sum(len(walk.tiles_to_run(row)) for row in job.grid.rows)
        seconds = _seconds_of_tile(walk) * to_run
        return ScenePlan(
            height=job.target.height,
            width=job.target.width,
            read=(job.scene.height, job.scene.width),
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


def _seconds_of_tile(walk: Walk) -> float:
    """Run one tile through the network; none takes no time."""
    if walk.predictor is None:
        return 0.0
    x = np.zeros((1, len(walk.spec.slots), walk.grid.tile_height, walk.grid.tile_width), np.float32)
    walk.changes(x)  # the first one also warms up
    began = time.perf_counter()
    walk.changes(x)
    return time.perf_counter() - began


@contextmanager
def open_job(
    source: Source, weights: nn.Module | str | Path | Predictor, options: RestoreOptions, kept: Path | None = None
) -> Iterator[Job]:
    """Open a scene and all that it is restored with, or refuse it, saying why and what to do.

    `kept` is the working folder of an interrupted run whose references are taken again, where they were searched for.
    Everything that was opened is closed in the end, also where a later step refuses.
    """
    with ExitStack() as opened:
        whole = open_scene(source, vrt=options.vrt, sensor=options.named_sensor(), nodata=options.nodata)
        opened.callback(whole.close)
        whole, window = _window_of(whole, options)
        predictor = _open_network(weights, options)
        spec = predictor.spec if predictor else InputSpec.of_bands(whole.product, whole.names, options.bands)
        if any(band.colormap for band in whole.bands):
            raise SceneError(
                f"{whole.source} holds indices into a colour table, not colours: expand it with "
                "gdal_translate -expand rgb."
            )
        every = predictor is None and options.bands is None
        scene, slots = (whole, spec.outputs) if every else _matched(whole, spec, options)
        radar = _open_radar(scene, spec, predictor, options)
        if radar:
            opened.callback(radar.close)
        colours = [whole.bands.index(scene.bands[slots.index(name)]) for name in RGB if name in slots]
        rgb = colours if len(colours) == len(RGB) else None
        mask = options.mask or choose_mask(whole, rgb, network=_votes(spec, predictor))
        options = replace(options, mask=mask, dtype=_dtype(predictor, options))
        named = {slot.name: slot for slot in spec.bands}
        sensor = spec.fit(whole.product, [named[slot] for slot in slots])
        sources = [source] if isinstance(source, (str, Path)) else source
        file = [str(weights)] if isinstance(weights, (str, Path)) else []
        others = (*map(str, sources), *whole.companions.values(), *file)
        job = Job(whole, scene, slots, rgb, spec, predictor, sensor, radar, options, others, window=window)
        if options.references:
            job = _with_references(job, str(sources[0]), kept, opened)
        while job.memory > _memory_limit() and job.options.batch > 1:  # decides nothing but the speed
            job = replace(job, options=replace(job.options, batch=job.options.batch // 2))
        _check(job)
        yield job


def _window_of(whole: Scene, options: RestoreOptions) -> tuple[Scene, Tile | None]:
    """Give what is read of a scene, and where in it the window is that the options ask for; None for all of it."""
    box: Sequence[float]
    if options.aoi is not None:
        from attcr.scenes.pyogrio import box_of_file

        box, crs = box_of_file(options.aoi)
        asked = tile_of_box(whole, box, crs)
    elif isinstance(options.bbox, tuple):
        asked = tile_of_box(whole, options.bbox)
    else:
        return whole, None
    needs = grid(whole.height, whole.width, tile=options.tile, overlap=options.overlap).part(asked).needs
    near = surroundings(asked, needs, whole.height, whole.width)
    return whole.window(near), replace(asked, row=asked.row - near.row, col=asked.col - near.col)


def _open_network(weights: nn.Module | str | Path | Predictor, options: RestoreOptions) -> Predictor | None:
    """Open the weights; None where none are wanted."""
    if weights != NO_WEIGHTS:
        return open_predictor(weights, device=options.device, dtype=options.dtype, backend=options.backend)
    if not options.references:
        raise ConfigError(
            "`weights=none` fills clouds from other dates, and none was given: give them with `references`."
        )
    return None


def _matched(whole: Scene, spec: InputSpec, options: RestoreOptions) -> tuple[Scene, tuple[str, ...]]:
    """Give the scene with the bands that the network takes, in its own order, and the slots that they go into."""
    try:
        places = spec.match(whole.product, whole.names, options.bands)
    except SceneError as error:
        others = fitting(whole.product, whole.names) if options.bands is None else []
        hint = f" Published weights that fit this scene: {', '.join(others)}." if others else ""
        raise SceneError(f"{error}{hint}") from error
    taken = [(slot.name, at) for slot, at in zip(spec.bands, places, strict=True) if at is not None]
    taken.sort(key=lambda pair: pair[1])  # what comes out is in the order of what came
    return whole.select([at for _, at in taken]), tuple(name for name, _ in taken)


def _open_radar(scene: Scene, spec: InputSpec, predictor: Predictor | None, options: RestoreOptions) -> Decibels | None:
    """Open the radar that the weights take, or that says what is under cloud that they leave, on the scene's grid."""
    wanted = spec.of_kind("sar")
    if options.radar and not wanted and (predictor is None or "thick" in spec.removes or options.mask == "none"):
        warn("`radar` has no effect here: it needs a mask, and a network that leaves thick cloud.")
        return None
    names = " ".join(slot.name.partition(":")[2].upper() for slot in wanted)
    if options.radar is None:
        if all(slot.optional for slot in wanted):
            return None
        raise SceneError(
            f"These weights take radar ({names} in dB) beside the optical bands, and none was given: give it with "
            "`radar`, or use weights without radar."
        )
    name = redact(options.radar)
    with ExitStack() as opened:
        raster = AlignedRaster(options.radar, scene.profile, scene.vrt)
        opened.callback(raster.close)
        if wanted and raster.count != len(wanted):
            raise SceneError(f"{name} has {raster.count} bands and the weights take {len(wanted)} ({names}).")
        if raster.count > MOST_RADAR:
            raise SceneError(f"{name} has {raster.count} bands: give the ones of radar alone, VV and VH.")
        radar = Decibels(raster, scene.profile, name)
        opened.pop_all()
    return radar


def _votes(spec: InputSpec, predictor: Predictor | None) -> bool:
    """Say whether the network is a witness of cloud: of thin cloud only, and without radar."""
    return predictor is not None and "thick" not in spec.removes and all(s.optional for s in spec.of_kind("sar"))


def _dtype(predictor: Predictor | None, options: RestoreOptions) -> Dtype:
    """Give the type that is computed in, also where it was left to the machine."""
    kind = predictor.identity.get("dtype") if predictor else "float32"
    settled = next((one for one in get_args(Dtype) if one == kind), options.dtype)
    return settled if options.dtype == "auto" else options.dtype


def _with_references(job: Job, source: str, kept: Path | None, opened: ExitStack) -> Job:
    """Give the job with its references, those that are named or found, and the network that corrects them."""
    options, hrefs, asked = job.options, job.options.references, ""
    if job.mask == "none":
        raise SceneError("References fill what is under cloud, and no mask says where that is: choose one with `mask`.")
    if options.searched:
        asked = f"{job.fingerprint} {options.reference_days}"
        found = kept_references(kept, asked) if kept else None
        if found is None:
            found = search_references(
                source,
                job.whole,
                job.mask,
                thick_only=job.predictor is not None,
                most=options.searched,
                days=options.reference_days,
            )
        hrefs = found
    centres = {slot.name: slot.wavelength for slot in job.spec.bands}
    beside = Beside(job.scene, job.slots, [centres[name] for name in job.slots])
    references = open_references(hrefs, options.reference_mask, beside)
    for reference in references:
        opened.callback(reference.close)
    corrector = None
    if references and options.reference_fill != "classical":
        computes = job.predictor.identity["backend"] if job.predictor else options.backend
        corrector = open_corrector(
            job.whole.product, job.scene.names, device=options.device, dtype=options.dtype, backend=computes
        )
    return replace(
        job,
        options=replace(options, references=hrefs),
        references=references,
        corrector=corrector,
        asked=asked,
        known=job.identities if asked else {},
    )


def _memory_limit() -> float:
    """Give the bytes of memory that restoring may take."""
    return MEMORY_SHARE * (memory_of_machine() or UNKNOWN_MEMORY)


def _check(job: Job) -> None:
    """Refuse a scene that takes too much memory, or whose values cannot be what they should."""
    scene = job.scene
    if job.options.unseen == "nodata":
        for band in scene.bands:
            blank_of(band.nodata, job.sensor, scene.dtype)
    limit = _memory_limit()
    if job.memory > limit:
        needed, allowed = (f"{size / 2**30:.1f} GiB" for size in (job.memory, limit))
        raise SceneError(
            f"{scene.source} ({scene.width} pixels wide, {len(scene.bands)} bands), in tiles of {job.options.tile}, "
            f"takes {needed} of memory and {allowed} are allowed: use a smaller `tile`."
        )
    check_scene(scene, job.slots, job.options)
    _tell(job)


def _tell(job: Job) -> None:
    """Warn of what is restored without a mask, of an option without effect, and of bands that stay."""
    unmasked = job.mask == "none"
    if unmasked:
        warn(
            "There is no mask: every pixel is restored, cloud or not, and the quality raster cannot say what was clear."
        )
    if job.options.unseen != "keep" and (unmasked or "thick" in job.spec.removes):
        why = "there is no mask" if unmasked else "these weights remove thick cloud too"
        warn(f"`unseen={job.options.unseen}` has no effect: {why}.")
    if job.passed:
        named = [job.whole.bands[at].name or str(at + 1) for at in job.passed]
        listed = " ".join(named[:MOST_NAMED]) + (" ..." if named[MOST_NAMED:] else "")
        warn(
            f"These weights do not restore {listed}: these bands stay unchanged, and the second band of the "
            "quality raster says where it is still under cloud."
        )


def clouds_of(job: Job, folder: Path, on_rows: Callable[[int], None] | None = None) -> CloudMap | None:
    """Give the scene's cloud map, kept in the working folder; None where no mask was asked for."""
    untold = THICK if "thick" in job.spec.removes else THIN
    network = Network(walk_of(job, None).veil, job.scene) if job.predictor else None
    return find_clouds(
        job.whole,
        job.mask,
        folder,
        rim=job.options.rim,
        rgb=job.rgb,
        untold=untold,
        network=network,
        on_rows=on_rows,
    )


def filler_of(
    job: Job, folder: Path, clouds: CloudMap | None, on_rows: Callable[[int], None] | None = None
) -> Filler | None:
    """Look at the references and the scene, and give what fills the one from the others; None without any.

    Where there is no network either, it says what cloud is left. What was found out about the references is written to
    references.json in the working folder.
    """
    if clouds is None or not (job.references or job.predictor is None):
        return None
    masks = []
    for i, reference in enumerate(job.references, 1):
        beside = folder / f"reference-{i}"
        shutil.rmtree(beside, ignore_errors=True)  # found again: an interrupted run may have left a part
        masks.append(reference.find_clouds(beside, job.options.rim))
    own = mask_file(job.whole, job.mask) == job.mask  # a raster of the user's is taken at its word
    filler = Filler(
        job.scene,
        job.whole.product,
        clouds,
        job.references,
        masks,
        thick_only=job.predictor is not None,
        colours=None if own else colours_of(job.whole.product, job.scene.names),
        network=job.corrector,
        batch=job.options.batch,
    )
    filler.survey(on_rows)
    filler.save(folder)
    return filler


def walk_of(
    job: Job, clouds: CloudMap | None, filler: Filler | None = None, on_tiles: Callable[[int], None] | None = None
) -> Walk:
    """Give the walk of the scene's pixels."""
    walk = Walk(
        rows=job.scene,
        spec=job.spec,
        predictor=job.predictor,
        sensor=job.sensor,
        grid=job.grid,
        clouds=clouds if job.predictor else None,
        nodata=[band.nodata for band in job.scene.bands],
        options=job.options,
        slots=job.slots,
        radar=job.radar if job.spec.of_kind("sar") else None,
        on_tiles=on_tiles,
        fill=filler.fill if filler else None,
    )
    unsure = job.whole.product.picture and not tells_clear(job.mask)
    if job.options.ground == "scene" and "thick" not in job.spec.removes and not unsure:
        walk.ask_the_ground(filler.shows if filler and filler.ways else None)
    if job.radar and clouds is not None and not walk.radar:
        walk.ask_the_radar(job.radar)
    return walk


@dataclass(frozen=True)
class FinishedRows:
    """Finished rows of every file of a scene."""

    top: int
    layers: dict[str, Array]
    """Layer to (C, rows, W)."""
    preview: Array
    pixels: Array
    """Pixels of each quality class, and last those of cloud that the weights do not remove."""


def finished_rows(job: Job, preview: Preview, strip: Strip) -> FinishedRows:
    """Give a strip of what is written as rows of every file."""
    bottom = strip.top + strip.values.shape[1]
    values, quality = strip.values, strip.quality[None]
    if job.passed:
        values = job.target.read(strip.top, bottom)
        values[[job.whole.bands.index(band) for band in job.scene.bands]] = strip.values
        quality = np.stack([strip.quality, _quality_of_passed(job, strip, values[job.passed])])
    alpha = job.target.read_alpha(strip.top, bottom)
    layers = {"restored": values if alpha is None else np.concatenate([values, alpha]), "quality": quality}
    if strip.spread is not None:
        layers["spread"] = strip.spread[None]
    if strip.dates is not None:
        layers["dates"] = strip.dates
    left = 0 if strip.left is None else np.count_nonzero(strip.left)
    pixels = np.append(np.bincount(strip.quality.ravel(), minlength=len(QUALITY_NAMES)), left)
    return FinishedRows(strip.top, layers, preview.rows(strip.top, strip.came, strip.values), pixels)


def _quality_of_passed(job: Job, strip: Strip, values: Array) -> Array:
    """Give the classes of bands that are not restored: cloud stays wherever the others lost it."""
    assert strip.cloudy is not None, "a walk says it of every strip"
    seen = job.target.select(job.passed).valid(values, strip.top, blank=job.whole.product.nodata).any(axis=0)
    return np.where(seen, np.where(strip.cloudy, CLOUD_LEFT, ORIGINAL), NODATA).astype(np.uint8)


def was_publishing(job: Job, folder: Path) -> bool:
    """Say whether an interrupted run of this job had started to give files their names: they are its own."""
    state = read_state(folder)
    return state is not None and state.publishing and state.fingerprint == job.fingerprint


def take_up_work(job: Job, folder: Path, resume: bool) -> State:
    """Give the state of an interrupted run of this job, or a new one in an empty folder."""
    untold = [redact(href) for href, identity in job.identities.items() if identity is None]
    if resume and untold:
        warn(f"{untold[0]} may have changed, and its server does not say: starting again.")
    preview = Preview(folder / "preview.tif", job.target, job.slots)

    def checksum(top: int, bottom: int) -> int | None:
        try:
            layers = (write.read_rows(folder / f"{name}.tif", top, bottom) for name in layers_of(job))
            return checksum_of([*layers, preview.read(top, bottom)])
        except SceneError:
            return None

    return take_up(
        folder,
        job.fingerprint,
        resume=resume and not untold,
        strips={0, *(min(max(row - first_row(job), 0), job.target.height) for row in job.grid.rows), job.target.height},
        width=job.target.width,
        checksum=checksum,
        publishing=resume and was_publishing(job, folder),
    )


def write_scene(
    job: Job,
    outputs: Outputs,
    state: State,
    progress: Callable[[Progress], None] | None,
    ready: Iterator[FinishedRows] | None = None,
) -> RestoreResult:
    """Write every file of a scene from rows that are ready, or that the network gives now."""
    report = progress or (lambda _: None)
    layers = layers_of(job)
    preview = Preview(state.folder / "preview.tif", job.target, job.slots)
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
    if state.row != job.target.height:
        raise SceneError(f"Of {job.target.height} rows {state.row} came: run it again.")
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


def _tell_of_cloud_left(job: Job, state: State) -> None:
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

    def __init__(self, job: Job, report: Callable[[Progress], None]) -> None:
        self.done = self.total = 0
        self._report = report
        self._megapixels = job.grid.tile_height * job.grid.tile_width / 1e6

    def __call__(self, tiles: int) -> None:
        self.done += tiles
        self._report(Progress("restore", self.done, self.total, self.done * self._megapixels))


def _restored_rows(
    job: Job, state: State, preview: Preview, count: _TileCount, report: Callable[[Progress], None]
) -> Iterator[FinishedRows]:
    """Find the clouds now, and give the rows from the state's on as they are asked for."""

    def on_rows(rows: int) -> None:
        report(Progress("mask", rows, job.scene.height))

    clouds = clouds_of(job, state.folder, on_rows)
    walk = walk_of(job, clouds, filler_of(job, state.folder, clouds, on_rows), count)
    begin = first_row(job) + state.row if state.row else 0
    ahead = [row for row in job.grid.rows if row + job.grid.tile_height > begin]
    count.total = sum(len(walk.tiles_to_run(row)) for row in ahead)
    report(Progress("restore", 0, count.total))
    strips = written(job, walk.strips(begin)) if state.row < job.target.height else iter(())
    return (finished_rows(job, preview, strip) for strip in strips)


def first_row(job: Job) -> int:
    """Give the first row of what is written, among those that are read."""
    return job.window.row if job.window else 0


def written(job: Job, strips: Iterator[Strip]) -> Iterator[Strip]:
    """Give what of these strips is written, counted from its first row."""
    if job.window is None:
        return strips
    cut = (strip.cut(job.window) for strip in strips)
    return (strip for strip in cut if strip.values.shape[1])


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
