"""Restore a whole scene: open -> grid -> read -> to_model -> predict -> from_model -> blend -> write."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby, islice
from pathlib import Path
from typing import Any, Literal
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

import attcr
from attcr import weights
from attcr.addresses import is_local, redact
from attcr.errors import AttcrWarning, MissingExtraError, SceneError
from attcr.files import sha256, write_whole
from attcr.restore.array import (
    NODATA,
    QUALITY_COLOURS,
    QUALITY_NAMES,
    Network,
    RestoreOptions,
    Strip,
    Walk,
)
from attcr.scenes import write
from attcr.scenes.clouds.find import find_clouds, sensor_of
from attcr.scenes.clouds.rim import CloudMap, Rim
from attcr.scenes.dataset import gdal
from attcr.scenes.open import open_scene
from attcr.scenes.scene import AlignedRaster, Band, Profile, Scene
from attcr.scenes.tiles import Grid, grid
from attcr.sensors import S2_L1C_BANDS, Sensor, check_values, model_range, pick_bands

try:
    from rasterio.enums import ColorInterp
except ImportError as error:
    raise MissingExtraError("rasterio", "scenes") from error

if sys.platform != "win32":
    import fcntl

Array = NDArray[Any]

MEMORY_LIMIT = 4 << 30
"""Bytes that one strip of rows may take; a scene that needs more is refused."""


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
    seconds: float


@dataclass(frozen=True)
class ScenePlan:
    """What restoring a scene would do."""

    height: int
    width: int
    bands: tuple[str, ...]
    dtype: str
    sensor: str
    mask: str
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
    source: str | Path | Sequence[str | Path],
    target: str | Path,
    model: nn.Module | str | Path,
    *,
    options: RestoreOptions | None = None,
    resume: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> RestoreResult:
    """Restore a scene and write it with the grid, type and metadata that it came with.

    Beside `target` go its quality raster, a preview, with `confidence` the spread, and last a STAC item that
    says how it was made. Each file appears whole or not at all. With `resume`, rows that an interrupted run
    of the same work left behind are kept. The same input, weights and options give the same bytes.
    """
    options = options or RestoreOptions()
    target = Path(target)
    began = time.perf_counter()
    with gdal(), _open(source, model, options) as job:
        _check_target(job, source, target)
        folder = target.with_name(f".{target.name}.attcr")
        with _held(folder, target):
            state = _take_up(folder, job.fingerprint(), resume)
            try:
                result = _restore(job, target, state, progress)
            except KeyboardInterrupt:
                raise
            except BaseException:
                if not resume:
                    shutil.rmtree(folder, ignore_errors=True)
                raise
            shutil.rmtree(folder)
    return replace(result, seconds=time.perf_counter() - began)


def restore_block(
    source: str | Path | Sequence[str | Path],
    part: Path,
    model: nn.Module | str | Path,
    *,
    block: tuple[int, int],
    options: RestoreOptions | None = None,
) -> None:
    """Restore block i of n of a scene, whole rows of tiles, into a file that `join_blocks` takes.

    Tiles that reach into a block from above are run for it too, so that its rows have the bits of a whole run.
    """
    options = options or RestoreOptions()
    index, count = block
    folder = part.with_name(f".{part.name}.attcr")
    with gdal(), _open(source, model, options) as job:
        rows = job.grid.rows
        first, last = (len(rows) * i // count for i in (index, index + 1))
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        try:
            preview = _Preview(folder / "preview.tif", job.scene)
            with ZipFile(part, "w", ZIP_DEFLATED, compresslevel=1) as file:
                if first < last:
                    walk = job.walk(job.find_clouds(folder), None)
                    for strip in islice(walk.strips(rows[first]), last - first):
                        _save_rows(file, _rows_of(job.scene, preview, strip))
        finally:
            shutil.rmtree(folder)


def join_blocks(
    source: str | Path | Sequence[str | Path],
    parts: Iterable[Path],
    target: str | Path,
    model: nn.Module | str | Path,
    *,
    options: RestoreOptions | None = None,
) -> RestoreResult:
    """Put the blocks of a scene together, in order, and write what `restore_scene` would have, to the byte."""
    options = options or RestoreOptions()
    target = Path(target)
    began = time.perf_counter()
    with gdal(), _open(source, model, options) as job:
        _check_target(job, source, target)
        folder = target.with_name(f".{target.name}.attcr")
        with _held(folder, target):
            try:
                rows = (one for part in parts for one in _load_rows(part))
                result = _restore(job, target, _take_up(folder, job.fingerprint(), False), None, rows)
            finally:
                shutil.rmtree(folder)
    return replace(result, seconds=time.perf_counter() - began)


def plan_scene(
    source: str | Path | Sequence[str | Path],
    target: str | Path,
    model: nn.Module | str | Path,
    *,
    options: RestoreOptions | None = None,
) -> ScenePlan:
    """Say what `restore_scene` would do, how long it would take and how much memory, and write nothing."""
    options = options or RestoreOptions()
    target = Path(target)
    with gdal(), _open(source, model, options) as job:
        _check_target(job, source, target)
        folder = target.with_name(f".{target.name}.plan")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        try:
            walk = job.walk(job.find_clouds(folder), None)
            rows = job.grid.rows
            to_run = sum(len(walk.tiles_to_run(row)) for row in rows)
        finally:
            shutil.rmtree(folder)
        x = np.zeros((1, job.network.inputs, job.grid.tile_height, job.grid.tile_width), np.float32)
        job.network.changes(x)  # the first one also warms up
        began = time.perf_counter()
        job.network.changes(x)
        seconds = (time.perf_counter() - began) * to_run
        return ScenePlan(
            height=job.scene.height,
            width=job.scene.width,
            bands=tuple(band.name or str(band.index) for band in job.scene.bands),
            dtype=str(job.scene.dtype),
            sensor=job.sensor.name,
            mask=redact(options.mask),
            tiles=len(job.grid),
            tiles_to_run=to_run,
            seconds=seconds,
            memory=job.memory,
            disk=job.disk,
        )


@dataclass
class _Job:
    """A scene that fits its weights."""

    whole: Scene
    """With all its bands, for the detectors."""
    scene: Scene
    """With the bands that the network takes, in its order."""
    sensor: Sensor
    network: Network
    radar: AlignedRaster | None
    grid: Grid
    options: RestoreOptions
    weights_sha256: str

    def __enter__(self) -> _Job:
        return self

    def __exit__(self, *_: object) -> None:
        self.whole.close()
        if self.radar:
            self.radar.close()

    @property
    def memory(self) -> int:
        """Bytes of one strip: changes, values, what is valid, and what one band's arithmetic takes."""
        pixels = self.grid.tile_height * self.grid.width
        each = 4 + 2 * self.scene.dtype.itemsize + 1
        tile = self.grid.tile_height * self.grid.tile_width * self.options.batch * self.network.inputs * 4
        return pixels * (len(self.scene.bands) * each + 64) + 4 * tile

    @property
    def disk(self) -> int:
        """Bytes of the working files and the finished one."""
        bands = len(self.scene.bands) + bool(self.scene.alpha)
        spread = 4 if self.options.confidence else 0
        each = 7 * bands * self.scene.dtype.itemsize // 3 + 3 + spread  # a working raster, its overviews, the COG
        return self.scene.height * self.scene.width * each

    def fingerprint(self) -> str:
        """Give a sha256 of all that decides the result."""
        told = {
            "attcr": attcr.__version__,
            "input": self.scene.identity,
            "bands": [(band.name, redact(band.href), band.index) for band in self.scene.bands],
            "sensor": repr(self.sensor),
            "options": self.options.digest(),
            "weights": self.weights_sha256,
        }
        return _sha256(json.dumps(told, sort_keys=True).encode())

    def find_clouds(self, folder: Path, on_rows: Callable[[int], None] | None = None) -> CloudMap | None:
        sensor = sensor_of(self.whole, self.options.sensor)
        rim = Rim(self.options.dilate, self.options.feather)
        return find_clouds(self.whole, self.options.mask, folder, sensor=sensor, rim=rim, on_rows=on_rows)

    def walk(self, clouds: CloudMap | None, on_tiles: Callable[[int], None] | None) -> Walk:
        nodata = [band.nodata for band in self.scene.bands]
        return Walk(
            self.scene,
            self.network,
            self.sensor,
            self.grid,
            clouds,
            nodata,
            self.options,
            self.radar,
            on_tiles,
        )


def _open(source: str | Path | Sequence[str | Path], model: nn.Module | str | Path, options: RestoreOptions) -> _Job:
    """Open a scene and refuse it, saying why and what to do, unless it fits the weights."""
    whole = open_scene(source)
    try:
        if options.nodata is not None:
            whole = whole.with_nodata(options.nodata)
        if isinstance(model, nn.Module):
            network, digest = Network(model, options, len(whole.bands)), _state_sha256(model)
        else:
            file = weights.find_weights(model)
            network, digest = Network(weights.load_model(file), options, len(whole.bands)), sha256(file)
        channels = len(network.optical)
        if any(band.colormap for band in whole.bands) and channels == 3:
            raise SceneError(
                f"{whole.source} holds indices into a colour table, not colours: expand it with "
                "gdal_translate -expand rgb."
            )
        product = sensor_of(whole, options.sensor)
        names = [band.name for band in whole.bands]
        scene = whole.select(pick_bands(product, names, channels, options.bands))
        sensor = product if isinstance(options.sensor, Sensor) else model_range(product, channels)
        radar = _open_radar(scene, network, options)
        tiles = grid(scene.height, scene.width, tile=options.tile, overlap=options.overlap)
        job = _Job(whole, scene, sensor.unnamed(), network, radar, tiles, options, digest)
        limit = min(MEMORY_LIMIT, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2)
        if job.memory > limit:
            raise SceneError(
                f"One strip of {scene.source} ({scene.width} pixels wide, {len(scene.bands)} bands) takes "
                f"{job.memory / 2**30:.1f} GiB and {limit / 2**30:.1f} GiB are allowed: use a smaller --tile."
            )
        _check_values(scene, product)
    except BaseException:
        whole.close()
        raise
    return job


def _open_radar(scene: Scene, network: Network, options: RestoreOptions) -> AlignedRaster | None:
    if not network.auxiliary:
        if options.sar:
            warnings.warn("These weights take no radar: --sar has no effect.", AttcrWarning, stacklevel=5)
        return None
    if options.sar is None:
        raise SceneError(
            f"These weights take {len(network.auxiliary)} radar channels (Sentinel-1 VV and VH in dB) "
            f"beside the {len(network.optical)} optical ones and none came: give them with --sar FILE, or "
            "use weights without radar."
        )
    radar = AlignedRaster(options.sar, scene.profile)
    if radar.count != len(network.auxiliary):
        radar.close()
        raise SceneError(
            f"{redact(options.sar)} has {radar.count} bands and the weights take {len(network.auxiliary)} (VV, VH)."
        )
    return radar


def _check_values(scene: Scene, sensor: Sensor) -> None:
    """Look at a few strips of the scene for values that cannot be what the sensor says."""
    height = min(64, scene.height)
    tops = sorted({0, (scene.height - height) // 2, scene.height - height})
    strips = [scene.read(top, top + height) for top in tops]
    seen = [scene.valid(strip, top, blank=sensor.nodata) for strip, top in zip(strips, tops, strict=True)]
    check_values(sensor, np.concatenate(strips, axis=1), np.concatenate(seen, axis=1))


def _check_target(job: _Job, source: object, target: Path) -> None:
    if not is_local(str(target)):
        raise SceneError(f"{redact(str(target))} is not a local file: write to disk and copy it up.")
    count = len(job.scene.bands) + bool(job.scene.alpha)
    write.check_target(target, job.scene.profile.dtype, count)
    write.check_space(target.parent, job.disk)
    if any(is_local(band.href) and Path(band.href).resolve() == target.resolve() for band in job.whole.bands):
        raise SceneError(f"{target} is the scene itself: write to another file.")
    if target.suffix.lower() in (".jpg", ".jpeg"):
        warnings.warn(
            f"{target.name} is JPEG, which changes every pixel a little: write .tif or .png to keep clear "
            "pixels as they came.",
            AttcrWarning,
            stacklevel=4,
        )


@dataclass
class _State:
    """What a working folder holds, kept in state.json after each strip."""

    folder: Path
    fingerprint: str
    has_clouds: bool = False
    row: int = 0
    pixels: list[int] = field(default_factory=lambda: [0] * len(QUALITY_NAMES))

    def save(self) -> None:
        told = {key: value for key, value in asdict(self).items() if key != "folder"}
        write_whole(self.folder / "state.json", json.dumps(told))


@contextmanager
def _held(folder: Path, target: Path) -> Iterator[None]:
    """Make a working folder and keep other runs off it meanwhile; one that is killed lets go of it."""
    folder.mkdir(exist_ok=True)
    if sys.platform == "win32":  # has no lock that goes with its process
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            ours = folder.is_dir() and folder.stat().st_ino == os.fstat(handle).st_ino  # not removed meanwhile
        except BlockingIOError:
            ours = False
        if not ours:
            raise SceneError(f"{target} is being written by another run: wait for it, or choose another name.")
        yield
    finally:
        os.close(handle)


def _take_up(folder: Path, fingerprint: str, resume: bool) -> _State:
    """Give the state of an interrupted run of the same work, or a new one in an empty folder."""
    if resume and (folder / "state.json").is_file():
        state = _State(folder, **json.loads((folder / "state.json").read_text()))
        if state.fingerprint == fingerprint:
            return state
        warnings.warn(
            f"{folder} was left by other work (another input, weights, options or version): starting anew.",
            AttcrWarning,
            stacklevel=3,
        )
    for left in folder.iterdir():
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    return _State(folder, fingerprint)


@dataclass(frozen=True)
class _Rows:
    """Finished rows of every file of a scene."""

    top: int
    layers: dict[str, Array]
    """Layer to (C, rows, W)."""
    preview: Array
    pixels: Array
    """Pixels of each quality class."""


def _rows_of(scene: Scene, preview: _Preview, strip: Strip) -> _Rows:
    alpha = scene.read_alpha(strip.top, strip.top + strip.values.shape[1])
    values = strip.values if alpha is None else np.concatenate([strip.values, alpha])
    layers = {"restored": values, "quality": strip.quality[None]}
    if strip.spread is not None:
        layers["spread"] = strip.spread[None]
    pixels = np.bincount(strip.quality.ravel(), minlength=len(QUALITY_NAMES))
    return _Rows(strip.top, layers, preview.rows(strip.top, strip.came, strip.values), pixels)


def _save_rows(file: ZipFile, rows: _Rows) -> None:
    for name, array in {**rows.layers, "preview": rows.preview, "pixels": rows.pixels}.items():
        with file.open(f"{rows.top}/{name}", "w", force_zip64=True) as member:
            np.lib.format.write_array(member, array, allow_pickle=False)


def _load_rows(part: Path) -> Iterator[_Rows]:
    with ZipFile(part) as file:
        for top, names in groupby(file.namelist(), key=lambda name: name.partition("/")[0]):
            arrays: dict[str, Array] = {}
            for name in names:
                with file.open(name) as member:
                    arrays[name.partition("/")[2]] = np.lib.format.read_array(member, allow_pickle=False)
            preview, pixels = arrays.pop("preview"), arrays.pop("pixels")
            yield _Rows(int(top), arrays, preview, pixels)


def _restore(
    job: _Job,
    target: Path,
    state: _State,
    progress: Callable[[Progress], None] | None,
    ready: Iterator[_Rows] | None = None,
) -> RestoreResult:
    """Write every file of a scene from rows that are ready, or that the network gives now."""
    scene, folder = job.scene, state.folder
    report = progress or (lambda _: None)
    bands = [*scene.bands, *([scene.alpha] if scene.alpha else [])]
    layers = {"restored": (scene.profile, bands), **_side_layers(job)}
    preview = _Preview(folder / "preview.tif", scene)
    resumed = state.row
    done = 0
    size = job.grid.tile_height * job.grid.tile_width / 1e6

    def count(tiles: int) -> None:
        nonlocal done
        done += tiles
        report(Progress("restore", done, total, done * size))

    if ready is None:
        clouds = job.find_clouds(folder, lambda rows: report(Progress("mask", rows, scene.height)))
        walk = job.walk(clouds, count)
        ahead = [row for row in job.grid.rows if row + job.grid.tile_height > resumed]
        total = sum(len(walk.tiles_to_run(row)) for row in ahead)
        report(Progress("restore", 0, total))
        strips = walk.strips(resumed) if resumed < scene.height else iter(())
        ready = (_rows_of(scene, preview, strip) for strip in strips)
    if not state.has_clouds:
        for name, (profile, described) in layers.items():
            write.create(folder / f"{name}.tif", profile, described)
        state.has_clouds = True
        state.save()
    if not state.row:
        preview.create()
    for rows in ready:
        if rows.top != state.row:
            raise SceneError(f"Rows from {rows.top} came where those from {state.row} were expected: run it again.")
        for name, values in rows.layers.items():
            write.write_rows(folder / f"{name}.tif", rows.top, values)
        preview.add(rows.top, rows.preview)
        state.row = rows.top + rows.layers["quality"].shape[1]
        state.pixels = [before + now for before, now in zip(state.pixels, rows.pixels.tolist(), strict=True)]
        state.save()
    if state.row != scene.height:
        raise SceneError(f"Of {scene.height} rows {state.row} came: run it again.")

    report(Progress("write", 0, 1))
    files = _publish(job, target, layers, state, preview)
    report(Progress("write", 1, 1))
    return RestoreResult(
        target=target,
        quality=files["quality"],
        spread=files.get("spread"),
        item=files["item"],
        preview=files["preview"],
        tiles=len(job.grid),
        tiles_run=done,
        resumed_row=resumed,
        pixels=dict(zip(QUALITY_NAMES, state.pixels, strict=True)),
        seconds=0.0,
    )


def _side_layers(job: _Job) -> dict[str, tuple[Profile, list[Band]]]:
    """Describe the rasters that go beside the restored one."""
    plain = replace(job.scene.profile, tags={}, has_mask=False)
    classes = {f"CLASS_{value}": name for value, name in enumerate(QUALITY_NAMES)}
    quality = Band(
        "quality",
        "",
        1,
        nodata=NODATA,
        description="quality",
        colour=ColorInterp.palette,
        colormap=QUALITY_COLOURS,
        tags=classes,
    )
    layers = {"quality": (replace(plain, dtype="uint8"), [quality])}
    if job.options.confidence:
        spread = Band("spread", "", 1, nodata=float("nan"), description="spread of eight views")
        layers["spread"] = (replace(plain, dtype="float32"), [replace(spread, colour=ColorInterp.gray)])
    return layers


def _publish(
    job: _Job,
    target: Path,
    layers: dict[str, tuple[Profile, list[Band]]],
    state: _State,
    preview: _Preview,
) -> dict[str, Path]:
    """Give every file its name, the item last: where it is, all is there."""
    from attcr.scenes.pystac import item_of

    scene, folder = job.scene, state.folder
    if scene.profile.has_mask:
        for top in range(0, scene.height, 1024):
            mask = scene.read_mask(top, min(top + 1024, scene.height))
            if mask is not None:
                write.write_mask_rows(folder / "restored.tif", top, mask)
    files = {name: _beside(target, f"_{name}.tif") for name in layers}
    files["restored"] = target
    files["preview"] = _beside(target, "_preview.png")
    files["item"] = _beside(target, ".json")
    files["item"].unlink(missing_ok=True)
    for name, (profile, bands) in layers.items():
        write.publish(folder / f"{name}.tif", files[name], profile, bands)
    write.write_png(files["preview"], preview.picture())
    titles = {
        "restored": "The scene without cloud",
        "quality": "; ".join(f"{value} {name}" for value, name in enumerate(QUALITY_NAMES)),
        "spread": "Standard deviation over eight flips and turns, as a part of the model's range",
        "preview": "Before and after",
    }
    assets = {name: (path, titles[name]) for name, path in files.items() if name != "item"}
    properties = {
        "processing:software": {"attcr": attcr.__version__},
        "attcr:weights_sha256": job.weights_sha256,
        "attcr:sensor": job.sensor.name,
        "attcr:options": job.options.describe(),
        "attcr:options_sha256": job.options.digest(),
        "attcr:input": [{"name": name, "bytes": size} for name, size, _ in scene.identity],
        "attcr:fingerprint": state.fingerprint,
        "attcr:pixels": dict(zip(QUALITY_NAMES, state.pixels, strict=True)),
    }
    write_whole(files["item"], item_of(scene, target, assets, properties))
    return files


def _beside(target: Path, ending: str) -> Path:
    return target.with_name(target.stem + ending)


class _Preview:
    """A small picture of before and after, gathered as rows come by: JPEG 2000 shrinks in minutes only."""

    def __init__(self, path: Path, scene: Scene) -> None:
        count = len(scene.bands)
        self._bands = [3, 2, 1] if count == len(S2_L1C_BANDS) else [0, 1, 2] if count >= 3 else [0, 0, 0]
        self._step = -(-max(scene.height, scene.width) // 768)
        height, width = (-(-size // self._step) for size in (scene.height, scene.width))
        self._path = path
        self._profile = replace(
            scene.profile, height=height, width=width, tags={}, gcps=([], None), rpcs=None, has_mask=False
        )

    def create(self) -> None:
        write.create(self._path, self._profile, [Band("", "", i) for i in range(6)])

    def rows(self, top: int, before: Array, after: Array) -> Array:
        """Give what of these rows is in the picture, as (6, rows, W): before and after."""
        first = -top % self._step
        return np.concatenate([one[self._bands, first :: self._step, :: self._step] for one in (before, after)])

    def add(self, top: int, rows: Array) -> None:
        if rows.shape[1]:
            write.write_rows(self._path, (top + -top % self._step) // self._step, rows)

    def picture(self) -> NDArray[np.uint8]:
        """Give (3, H, W): before at the left, after at the right, stretched alike."""
        with open_scene(self._path) as small:
            both = small.read(0, small.height).astype(np.float64)
        before, after = both[:3], both[3:]
        seen = after[:, np.isfinite(after).all(axis=0) & (after != 0).any(axis=0)]
        low, high = np.percentile(seen, [1, 99]) if seen.size else (0.0, 1.0)
        gap = np.full((3, both.shape[1], 4), high)
        joined = np.concatenate([before, gap, after], axis=2)
        scaled = np.nan_to_num((joined - low) / max(high - low, 1e-9), posinf=1, neginf=0)
        picture: NDArray[np.uint8] = (np.clip(scaled, 0, 1) * 255).astype(np.uint8)
        return picture


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _state_sha256(model: nn.Module) -> str:
    """Give a sha256 of a model's parameters by name, where no file's is known."""
    whole = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        whole.update(name.encode())
        whole.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes() if tensor.numel() else b"")
    return whole.hexdigest()
