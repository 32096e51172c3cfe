"""A job: a scene that was opened and fits its weights, and all that decides its result. Nothing of it changes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from attcr.addresses import redact
from attcr.bands.sensors import Sensor
from attcr.bands.spec import InputSpec
from attcr.evidence.ground import CELL, MARGIN
from attcr.predict import Predictor
from attcr.references.correct import TILE, Corrector
from attcr.references.fill import FILL_MARGIN
from attcr.references.harmonise import Cells
from attcr.references.joint import MOST_PIXELS, MOST_TOGETHER, ROWS
from attcr.references.open import ReferenceScene
from attcr.restore.options import NO_WEIGHTS, RestoreOptions
from attcr.restore.radar import Decibels
from attcr.restore.resume import identity_of
from attcr.scenes.clouds.find import is_vote, mask_file
from attcr.scenes.clouds.spectra import bytes_of_survey
from attcr.scenes.clouds.voters import COARSEST, VOTED, VOTED_MARGIN
from attcr.scenes.scene import Scene
from attcr.scenes.tiles import Grid, Tile, grid
from attcr.version import __version__

Source = str | Path | Sequence[str | Path]
"""Anything that `open_scene` takes."""


PROCESS = 480 << 20
"""Bytes of a process that has done nothing yet, with torch and GDAL."""
BYTES_PER_PIXEL = 4000
"""What a pixel of a tile takes where the network does not say."""
COPIES_OF_GROUND, COPIES_VOTED = 8.5, 12
"""How many copies of the rows that are looked at together, a float for each pixel, are held while clear ground is asked
(of each band), and while witnesses vote."""


@dataclass(frozen=True, eq=False)
class Job:
    """A scene that fits its weights."""

    whole: Scene
    """With all its bands, for the detectors."""
    scene: Scene
    """With the bands that the network takes, in the scene's own order."""
    slots: tuple[str, ...]
    """The slots that these bands go into."""
    rgb: list[int] | None
    """Where among all bands the network's red, green and blue are, if it takes these."""
    spec: InputSpec
    """What the network takes; without one, the bands as they are."""
    predictor: Predictor | None
    """None where clouds are only filled from other dates."""
    sensor: Sensor
    """The scene's product, fitted to the network."""
    radar: Decibels | None
    options: RestoreOptions
    """With the mask and the number type that are used, and the references that were found."""
    others: tuple[str, ...]
    """Addresses of what is read or came along beside the inputs: weights, masks that are not asked for."""
    references: tuple[ReferenceScene, ...] = ()
    """Other dates that what is under cloud is filled from."""
    corrector: Corrector | None = None
    """What corrects them inside gaps."""
    asked: str = ""
    """What the references were searched for, where they were: equal for equal work."""
    window: Tile | None = None
    """The part that was asked for, counted from the first pixel read; None: all of it."""
    known: Mapping[str, tuple[str, ...] | None] = field(default_factory=dict)
    """Identities of inputs that were asked for before the references were searched."""

    @property
    def mask(self) -> str:
        """The mask that is used."""
        assert self.options.mask is not None, "open_job() chooses one"
        return self.options.mask

    @property
    def identity(self) -> Mapping[str, str]:
        """What computes."""
        none = {"weights_sha256": NO_WEIGHTS, "backend": NO_WEIGHTS, "dtype": "float32"}
        return none if self.predictor is None else self.predictor.identity

    @cached_property
    def grid(self) -> Grid:
        """The tiles that the scene is restored in; of a window, those of the whole scene that touch it."""
        tile, overlap, profile = self.options.tile, self.options.overlap, self.scene.profile
        if self.window is None or profile.whole is None:
            return grid(profile.height, profile.width, tile=tile, overlap=overlap)
        (row, col), window = profile.corner, self.window
        tiles = grid(profile.whole.height, profile.whole.width, tile=tile, overlap=overlap)
        part = tiles.part(replace(window, row=window.row + row, col=window.col + col))
        down, across = part.needs.row - row, part.needs.col - col
        rows, cols = tuple(at + down for at in part.grid.rows), tuple(at + across for at in part.grid.cols)
        return replace(part.grid, rows=rows, cols=cols, height=part.grid.height + down, width=profile.width)

    @cached_property
    def target(self) -> Scene:
        """What is written: the scene with all its bands, or the window of it that was asked for."""
        return self.whole if self.window is None else self.whole.window(self.window)

    @cached_property
    def passed(self) -> list[int]:
        """Which of all bands the network does not restore: they stay unchanged."""
        pairs = zip(self.scene.bands, self.slots, strict=True)
        restored = {self.whole.bands.index(band) for band, slot in pairs if slot in self.spec.outputs}
        return [at for at in range(len(self.whole.bands)) if at not in restored]

    @property
    def has_spread(self) -> bool:
        """Whether a raster of the spread is written."""
        return self.spec.spread or self.options.confidence

    @property
    def memory(self) -> int:
        """Bytes that restoring takes at its peak: the process itself, and the step that takes most."""
        if self.predictor is None:
            return PROCESS + self._memory_of_strip
        each = getattr(self.predictor, "bytes_per_pixel", None) or BYTES_PER_PIXEL
        tile = self.grid.tile_height * self.grid.tile_width * self.options.batch
        steps = [each * tile + self._memory_of_strip]
        width = self.grid.width
        if is_vote(self.mask):
            side = (VOTED + 2 * VOTED_MARGIN) ** 2
            survey = bytes_of_survey(len(self.scene.bands), self.grid.height // COARSEST, width // COARSEST)
            steps.append(each * side + COPIES_VOTED * 4 * width * min(VOTED * COARSEST, self.grid.height) + survey)
        if self.mask != "none" and self.options.ground == "scene":
            rows = min(CELL + 2 * MARGIN, self.grid.height)
            steps.append(COPIES_OF_GROUND * 4 * len(self.scene.bands) * width * rows + self._memory_of_strip)
        return PROCESS + max(steps)

    @property
    def _memory_of_strip(self) -> int:
        """Bytes of one strip: changes, values, what is valid, and what one band's arithmetic takes."""
        pixels = self.grid.tile_height * self.grid.width
        each = 4 + 2 * self.scene.dtype.itemsize + 1
        planes = self.options.batch * len(self.spec.slots)
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
        count = len(self.references)
        together = min(count, MOST_TOGETHER) if count > 1 else 0
        mixed = 2 * bands * together * (4 * ROWS * self.grid.width + 20 * MOST_PIXELS) + 4 * rows * together
        return rows * bands * 4 * (count + 4) + fields * (20 * count + 24) + held + mixed

    @property
    def disk(self) -> int:
        """Bytes of the working files and the finished one."""
        bands = len(self.whole.bands) + bool(self.whole.alpha)
        spread = 4 if self.has_spread else 0
        dates = 15 + 6 * len(self.references) if self.references else 0
        each = 7 * bands * self.scene.dtype.itemsize // 3 + 3 + spread + dates  # a working raster, overviews, the COG
        return self.target.height * self.target.width * each

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """Addresses of what decides the result: the scene's files, its mask, radar, references."""
        beside = (mask_file(self.whole, self.mask), self.options.radar)
        references = [href for one in self.references for href in one.inputs]
        return tuple(dict.fromkeys([*self.whole.files, *(href for href in beside if href), *references]))

    @property
    def read(self) -> tuple[str, ...]:
        """Addresses of all that is read or came along, none of which is ever written over."""
        return (*self.inputs, *self.others)

    @cached_property
    def identities(self) -> dict[str, tuple[str, ...] | None]:
        """Identity of each input when this run first asked; None if its server gives none."""
        return {href: self.known[href] if href in self.known else identity_of(href) for href in self.inputs}

    @cached_property
    def fingerprint(self) -> str:
        """A sha256 of all that decides the result."""
        told = {
            "attcr": __version__,
            "input": [identity or (redact(href), "unknown") for href, identity in self.identities.items()],
            "bands": [(band.name, redact(band.href), band.index) for band in self.scene.bands],
            "passed": [(self.whole.bands[at].name, redact(self.whole.bands[at].href)) for at in self.passed],
            "slots": self.slots,
            "sensor": repr(self.sensor),
            "options": self.options.digest(),
            "predictor": dict(self.identity),
        }
        if self.window:
            told["window"] = repr((self.scene.profile.corner, self.window))
        if self.corrector:
            told["corrector"] = dict(self.corrector.identity)
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
