"""A scene that fits its weights, opened and checked: what a restore, a plan or a block begins with."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import numpy as np

from attcr.addresses import is_local, redact
from attcr.bands.products import band_names, could_be_picture, find_band
from attcr.bands.sensors import RGB, Sensor, check_floats, check_values
from attcr.errors import ConfigError, SceneError, warn
from attcr.predict import Predictor, open_predictor
from attcr.references.choose import search_references
from attcr.references.correct import TILE, Corrector, open_corrector
from attcr.references.fill import FILL_MARGIN
from attcr.references.harmonise import Cells
from attcr.references.open import Beside, ReferenceScene, open_references
from attcr.restore.filler import Filler, colours_of
from attcr.restore.fit import fitting
from attcr.restore.inputs import identity_of
from attcr.restore.no_network import NO_WEIGHTS, NoNetwork
from attcr.restore.options import Dtype, RestoreOptions
from attcr.restore.outputs import Outputs
from attcr.restore.resume import kept_references
from attcr.restore.walk import Walk, blank_of
from attcr.scenes import write
from attcr.scenes.clouds.find import choose_mask, find_clouds, mask_file
from attcr.scenes.clouds.masks import THICK, THIN
from attcr.scenes.clouds.rim import CloudMap
from attcr.scenes.open import open_scene
from attcr.scenes.scene import AlignedRaster, Scene
from attcr.scenes.tiles import Grid, grid
from attcr.version import __version__

if TYPE_CHECKING:
    from torch import nn

MEMORY_LIMIT = 4 << 30
"""Bytes that one strip of rows may take; a scene that needs more is refused."""

MOST_NAMED = 13
"""Bands that a note names; it says no more of others than that there are."""

_NO_MASK = "References fill what is under cloud, and no mask says where that is: choose one with `mask`."

Source = str | Path | Sequence[str | Path]
"""Anything that `open_scene` takes."""


@dataclass
class Prepared:
    """A scene that fits its weights."""

    whole: Scene
    """With all its bands, for the detectors."""
    scene: Scene
    """With the bands that the network takes, in the scene's own order."""
    slots: tuple[str, ...]
    """The slots that these bands go into."""
    product: Sensor
    """What its values are."""
    sensor: Sensor
    """The same, fitted to the network."""
    predictor: Predictor
    radar: AlignedRaster | None
    grid: Grid
    options: RestoreOptions
    """With the mask that is used, chosen where none was named."""
    inputs: tuple[str, ...]
    """Addresses of what decides the result: the scene's files, its mask, radar."""
    others: tuple[str, ...]
    """Addresses of what is read or came along beside those: weights, masks that are not asked for."""
    references: tuple[ReferenceScene, ...] = ()
    """Other dates that what is under cloud is filled from."""
    corrector: Corrector | None = None
    """What corrects them inside gaps."""
    asked: str = ""
    """What the references were searched for, where they were: equal for equal work."""
    _known: dict[str, tuple[str, ...] | None] = field(default_factory=dict)

    def __enter__(self) -> Prepared:
        return self

    def __exit__(self, *_: object) -> None:
        self.whole.close()
        if self.radar:
            self.radar.close()
        for reference in self.references:
            reference.close()

    @property
    def mask(self) -> str:
        """The mask that is used."""
        assert self.options.mask is not None, "prepare() chooses one"
        return self.options.mask

    @cached_property
    def passed(self) -> list[int]:
        """Which of all bands the network does not restore: they stay unchanged."""
        outputs = self.predictor.spec.outputs
        pairs = zip(self.scene.bands, self.slots, strict=True)
        restored = {self.whole.bands.index(band) for band, slot in pairs if slot in outputs}
        return [at for at in range(len(self.whole.bands)) if at not in restored]

    @property
    def has_spread(self) -> bool:
        """Whether a raster of the spread is written."""
        return self.predictor.spec.spread or self.options.confidence

    @property
    def memory(self) -> int:
        """Bytes of one strip: changes, values, what is valid, and what one band's arithmetic takes."""
        pixels = self.grid.tile_height * self.grid.width
        each = 4 + 2 * self.scene.dtype.itemsize + 1
        planes = self.options.batch * len(self.predictor.spec.slots)
        tile = self.grid.tile_height * self.grid.tile_width * planes * 4
        passed = len(self.passed) * (2 * self.scene.dtype.itemsize + 1)
        return pixels * (len(self.scene.bands) * each + passed + 64) + 4 * tile + self._memory_of_references

    @property
    def _memory_of_references(self) -> int:
        """Bytes of the rows of all dates with their margin, and of what was learnt about each."""
        if not self.references:
            return 0
        bands, cells = len(self.scene.bands), Cells.over(self.scene.height, self.scene.width)
        rows = (self.grid.tile_height + 2 * FILL_MARGIN) * self.grid.width
        fields = cells.shape[0] * cells.shape[1] * bands * bands
        held = 2 * TILE * self.grid.width * (bands + 1) * 4 * len(self.references) if self.corrector else 0
        return rows * bands * 4 * (len(self.references) + 4) + fields * (20 * len(self.references) + 24) + held

    @property
    def disk(self) -> int:
        """Bytes of the working files and the finished one."""
        bands = len(self.whole.bands) + bool(self.whole.alpha)
        spread = 4 if self.has_spread else 0
        dates = 10 + len(self.references) if self.references else 0
        each = 7 * bands * self.scene.dtype.itemsize // 3 + 3 + spread + dates  # a working raster, overviews, the COG
        return self.scene.height * self.scene.width * each

    @property
    def read(self) -> tuple[str, ...]:
        """Addresses of all that is read or came along, none of which is ever written over."""
        return (*self.inputs, *self.others)

    @property
    def identities(self) -> dict[str, tuple[str, ...] | None]:
        """Identity of each input when this run first asked; None if its server gives none."""
        self._known |= {href: identity_of(href) for href in self.inputs if href not in self._known}
        return {href: self._known[href] for href in self.inputs}

    def fingerprint(self) -> str:
        """Give a sha256 of all that decides the result."""
        told = {
            "attcr": __version__,
            "input": [identity or (redact(href), "unknown") for href, identity in self.identities.items()],
            "bands": [(band.name, redact(band.href), band.index) for band in self.scene.bands],
            "passed": [(self.whole.bands[at].name, redact(self.whole.bands[at].href)) for at in self.passed],
            "slots": self.slots,
            "sensor": repr(self.sensor),
            "options": self.options.digest(),
            "predictor": dict(self.predictor.identity),
        }
        if self.corrector:
            told["corrector"] = dict(self.corrector.identity)
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()

    def find_clouds(self, folder: Path, on_rows: Callable[[int], None] | None = None) -> CloudMap | None:
        """Give the scene's cloud map, kept in the working folder; None where no mask was asked for."""
        return find_clouds(
            self.whole,
            self.mask,
            folder,
            rim=self.options.rim,
            rgb=_colours(self.whole, self.scene, self.slots),
            untold=THICK if "thick" in self.predictor.spec.removes else THIN,
            on_rows=on_rows,
        )

    def find_filler(
        self, folder: Path, clouds: CloudMap | None, on_rows: Callable[[int], None] | None = None
    ) -> Filler | None:
        """Look at the references and the scene, and give what fills the one from the others; None without any.

        Where there is no network either, it says what cloud is left.

        What was found out about them is written to references.json in the working folder.
        """
        if clouds is None or not (self.references or isinstance(self.predictor, NoNetwork)):
            return None
        masks = []
        for i, reference in enumerate(self.references, 1):
            beside = folder / f"reference-{i}"
            shutil.rmtree(beside, ignore_errors=True)  # found again: an interrupted run may have left a part
            masks.append(reference.find_clouds(beside, self.options.rim))
        thick_only = not isinstance(self.predictor, NoNetwork)
        own = mask_file(self.whole, self.mask) == self.mask  # a raster of the user's is taken at its word
        colours = None if own else colours_of(self.product, [band.name for band in self.scene.bands])
        how = (thick_only, colours, self.corrector, self.options.batch)
        filler = Filler(self.scene, self.product, clouds, self.references, masks, *how)
        filler.survey(on_rows)
        filler.save(folder / "references.json")
        return filler

    def walk(
        self, clouds: CloudMap | None, on_tiles: Callable[[int], None] | None, filler: Filler | None = None
    ) -> Walk:
        """Give the walk of the scene's pixels."""
        if clouds is not None and isinstance(self.predictor, NoNetwork):
            clouds = replace(clouds, read=lambda top, bottom: np.zeros((bottom - top, self.scene.width), np.uint8))
        return Walk(
            fill=filler.fill if filler else None,
            rows=self.scene,
            predictor=self.predictor,
            sensor=self.sensor,
            grid=self.grid,
            clouds=clouds,
            nodata=[band.nodata for band in self.scene.bands],
            options=self.options,
            slots=self.slots,
            radar=self.radar,
            on_tiles=on_tiles,
        )


def prepare(
    source: Source, model: nn.Module | str | Path | Predictor, options: RestoreOptions, kept: Path | None = None
) -> Prepared:
    """Open a scene and refuse it, saying why and what to do, unless it fits the weights.

    `kept` is the working folder of an interrupted run whose references are taken again, where they were searched for.
    """
    whole = open_scene(source, vrt=options.vrt, sensor=options.named_sensor())
    radar: AlignedRaster | None = None
    try:
        if options.nodata is not None:
            whole = whole.with_nodata(options.nodata)
        predictor = _predictor(model, whole, options)
        options = _with_dtype(options, predictor)
        if any(band.colormap for band in whole.bands):
            raise SceneError(
                f"{whole.source} holds indices into a colour table, not colours: expand it with "
                "gdal_translate -expand rgb."
            )
        product = whole.product
        scene, slots = _matched(whole, product, predictor, options)
        tiles = grid(scene.height, scene.width, tile=options.tile, overlap=options.overlap)
        radar = _open_radar(scene, predictor, options)
        named = {slot.name: slot for slot in predictor.spec.bands}
        sensor = predictor.spec.fit(product, [named[slot] for slot in slots])
        options = _with_mask(whole, slots, scene, options, predictor)
        if options.unseen == "nodata":
            for band in scene.bands:
                blank_of(band.nodata, sensor, scene.dtype)
        inputs = _inputs(whole, options)
        others = _others(source, whole, model)
        prepared = Prepared(whole, scene, slots, product, sensor, predictor, radar, tiles, options, inputs, others)
        _settle_references(prepared, source, kept)
        prepared.references = _references(prepared)
        prepared.corrector = _corrector(prepared) if prepared.references else None
        prepared.inputs = tuple(dict.fromkeys([*inputs, *(href for one in prepared.references for href in one.inputs)]))
        limit = min(MEMORY_LIMIT, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2)
        if prepared.memory > limit:
            raise SceneError(
                f"One strip of {scene.source} ({scene.width} pixels wide, {len(scene.bands)} bands) takes "
                f"{prepared.memory / 2**30:.1f} GiB and {limit / 2**30:.1f} GiB are allowed: use a smaller `tile`."
            )
        _check_values(scene, product, options)
        _tell_of_passed(prepared)
    except BaseException:
        whole.close()
        if radar:
            radar.close()
        raise
    return prepared


def _tell_of_passed(job: Prepared) -> None:
    """Say which bands stay unchanged."""
    if not job.passed:
        return
    named = [job.whole.bands[at].name or str(at + 1) for at in job.passed]
    listed = " ".join(named[:MOST_NAMED]) + (" ..." if named[MOST_NAMED:] else "")
    warn(
        f"These weights do not restore {listed}: these bands stay unchanged, and the second band of the "
        "quality raster says where it is still under cloud."
    )


def _with_mask(
    whole: Scene,
    slots: Sequence[str],
    scene: Scene,
    options: RestoreOptions,
    predictor: Predictor,
) -> RestoreOptions:
    """Give the options with the mask that is used, and say what of them has no effect."""
    mask = options.mask or choose_mask(whole, _colours(whole, scene, slots))
    if mask == "none":
        warn(
            "There is no mask: every pixel is restored, cloud or not, and the quality raster cannot say what was clear."
        )
    if options.unseen != "keep" and (mask == "none" or "thick" in predictor.spec.removes):
        why = "there is no mask" if mask == "none" else "these weights remove thick cloud too"
        warn(f"`unseen={options.unseen}` has no effect: {why}.")
    return replace(options, mask=mask)


def _colours(whole: Scene, scene: Scene, slots: Sequence[str]) -> list[int] | None:
    """Say where among all bands the network's red, green and blue are, if it takes these."""
    if not set(RGB) <= set(slots):
        return None
    return [whole.bands.index(scene.bands[slots.index(name)]) for name in RGB]


def _predictor(model: nn.Module | str | Path | Predictor, whole: Scene, options: RestoreOptions) -> Predictor:
    """Open the weights, or what stands for none."""
    if model != NO_WEIGHTS:
        return open_predictor(model, device=options.device, dtype=options.dtype, backend=options.backend)
    if not options.references:
        raise ConfigError(
            "`weights=none` fills clouds from other dates, and none was given: give them with `references`."
        )
    product, names = whole.product, whole.names
    if options.bands:
        told = band_names(product, names)
        found = [find_band(product, told, name) for name in options.bands]
        names = [told[at] if at is not None else name for at, name in zip(found, options.bands, strict=True)]
    return NoNetwork(product, names)


def _with_dtype(options: RestoreOptions, predictor: Predictor) -> RestoreOptions:
    """Give the options with the type that is computed in, where it was left to the machine."""
    kind = predictor.identity.get("dtype")
    settled = next((one for one in get_args(Dtype) if one == kind), options.dtype)
    return replace(options, dtype=settled) if options.dtype == "auto" else options


def _settle_references(job: Prepared, source: Source, kept: Path | None) -> None:
    """Put the references that are found in the place of `auto`."""
    options = job.options
    if not options.searched:
        return
    if job.mask == "none":
        raise SceneError(_NO_MASK)
    job.asked = f"{job.fingerprint()} {options.reference_days}"
    found = kept_references(kept, job.asked) if kept else None
    if found is None:
        named = [source] if isinstance(source, (str, Path)) else source
        found = search_references(
            str(named[0]),
            job.whole,
            job.mask,
            thick_only=not isinstance(job.predictor, NoNetwork),
            most=options.searched,
            days=options.reference_days,
        )
    job.options = replace(options, references=found)


def _references(job: Prepared) -> tuple[ReferenceScene, ...]:
    """Open the other dates that the options name."""
    options = job.options
    if not options.references:
        return ()
    if job.mask == "none":
        raise SceneError(_NO_MASK)
    centres = {slot.name: slot.wavelength for slot in job.predictor.spec.bands}
    beside = Beside(job.scene, job.slots, [centres[name] for name in job.slots])
    return open_references(options.references, options.reference_mask, beside)


def _corrector(job: Prepared) -> Corrector | None:
    """Open the network that corrects references, unless that is not wanted."""
    options = job.options
    if options.reference_fill == "classical":
        return None
    names = [band.name for band in job.scene.bands]
    computes = options.backend if isinstance(job.predictor, NoNetwork) else job.predictor.identity["backend"]
    return open_corrector(job.product, names, device=options.device, dtype=options.dtype, backend=computes)


def _inputs(whole: Scene, options: RestoreOptions) -> tuple[str, ...]:
    beside = (mask_file(whole, options.mask or "none"), options.sar)
    return tuple(dict.fromkeys([*whole.files, *(href for href in beside if href)]))


def _others(source: Source, whole: Scene, model: nn.Module | str | Path | Predictor) -> tuple[str, ...]:
    named = [source] if isinstance(source, (str, Path)) else source
    weights = [str(model)] if isinstance(model, (str, Path)) else []
    return (*map(str, named), *whole.companions.values(), *weights)


def _matched(
    whole: Scene, product: Sensor, predictor: Predictor, options: RestoreOptions
) -> tuple[Scene, tuple[str, ...]]:
    """Give the scene with the bands that the network takes, in its own order, and the slots that they go into."""
    names = [band.name for band in whole.bands]
    if isinstance(predictor, NoNetwork) and options.bands is None:
        return whole, predictor.spec.outputs
    try:
        places = predictor.spec.match(product, names, options.bands)
    except SceneError as error:
        others = fitting(product, names) if options.bands is None else []
        hint = f" Published weights that fit this scene: {', '.join(others)}." if others else ""
        raise SceneError(f"{error}{hint}") from error
    taken = [(slot.name, at) for slot, at in zip(predictor.spec.bands, places, strict=True) if at is not None]
    taken.sort(key=lambda pair: pair[1])  # what comes out is in the order of what came
    return whole.select([at for _, at in taken]), tuple(name for name, _ in taken)


def _open_radar(scene: Scene, predictor: Predictor, options: RestoreOptions) -> AlignedRaster | None:
    wanted = predictor.spec.of_kind("sar")
    if not wanted:
        if options.sar:
            warn("These weights take no radar: `sar` has no effect.")
        return None
    names = " ".join(slot.name.partition(":")[2].upper() for slot in wanted)
    if options.sar is None:
        if all(slot.optional for slot in wanted):
            return None
        raise SceneError(
            f"These weights take radar ({names} in dB) beside the optical bands, and none was given: give it with "
            "`sar`, or use weights without radar."
        )
    radar = AlignedRaster(options.sar, scene.profile, scene.vrt)
    if radar.count != len(wanted):
        radar.close()
        raise SceneError(f"{redact(options.sar)} has {radar.count} bands and the weights take {len(wanted)} ({names}).")
    return radar


def _check_values(scene: Scene, sensor: Sensor, options: RestoreOptions) -> None:
    """Look at a few strips of the scene for values that cannot be what the sensor says."""
    height = min(64, scene.height)
    tops = sorted({0, (scene.height - height) // 2, scene.height - height})
    strips = [scene.read(top, top + height) for top in tops]
    seen = [scene.valid(strip, top, blank=sensor.nodata) for strip, top in zip(strips, tops, strict=True)]
    values, valid = np.concatenate(strips, axis=1), np.concatenate(seen, axis=1)
    check_values(sensor, values, valid)
    if options.sensor is None and could_be_picture(sensor, scene.hints, [band.name for band in scene.bands]):
        check_floats(values, valid)


def check_target(job: Prepared, target: Path, *, overwrite: bool) -> Outputs:
    """Name all files of a result, or refuse: what cannot be written, is an input, or exists already."""
    if not is_local(str(target)):
        raise SceneError(f"{redact(str(target))} is not a local file: write to disk and copy it up.")
    count = len(job.whole.bands) + bool(job.whole.alpha)
    write.check_target(target, job.scene.profile.dtype, count)
    write.check_space(target.parent, job.disk)
    outputs = Outputs(target, job.has_spread, overwrite, bool(job.references))
    outputs.check(job.read)
    if target.suffix.lower() in (".jpg", ".jpeg"):
        warn(
            f"{target.name} is JPEG, which changes every pixel a little: write .tif or .png to keep clear "
            "pixels unchanged."
        )
    return outputs
