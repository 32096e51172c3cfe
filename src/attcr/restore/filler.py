"""What is under cloud, filled from other dates: they are looked at once, then strips are filled one after the other."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attcr.bands.products import band_names, find_band
from attcr.bands.sensors import Sensor, into_dtype
from attcr.extras import needed
from attcr.references.cells import Cells, Float32
from attcr.references.check import self_check
from attcr.references.correct import Pair, Tiles, with_network
from attcr.references.corrections import Corrections, tiles_over
from attcr.references.corrector import ReferenceNetwork
from attcr.references.evidence import Evidence
from attcr.references.fill import MARGIN, REACH, Tuned, compose, meet_border, tune
from attcr.references.grow import MARGIN as GROW_MARGIN
from attcr.references.grow import Colours, Suspicion, enclosed, grow
from attcr.references.open import BLOCK, Reference
from attcr.restore.walk import CLOUD_LEFT, FROM_DATE, LOW_CONFIDENCE, NODATA, Array, Strip, avoid
from attcr.scenes.clouds.masks import CLEAR, THICK
from attcr.scenes.clouds.rim import CloudMap
from attcr.scenes.scene import Scene

UNKNOWN_DAYS = -(1 << 15)
"""Stands for no date, and for pixels that are of none, in the raster of dates."""
GROWN = 512
"""Rows in which gaps grow at once."""


def colours_of(product: Sensor, names: Sequence[str]) -> Colours | None:
    """Say where blue, red and near infrared are among a scene's bands; None where one is missing."""
    told = band_names(product, names)
    blue, red, infrared, narrow = (find_band(product, told, name) for name in ("blue", "red", "nir", "nir08"))
    infrared = narrow if infrared is None else infrared
    return None if blue is None or red is None or infrared is None else Colours(blue, red, infrared)


@dataclass(frozen=True)
class TargetRows:
    """Rows of the scene that is filled."""

    values: Float32
    """Reflectance (C, h, W)."""
    clear: NDArray[np.bool_]
    weights: Float32
    """How much of each pixel is to be filled."""
    cloud: Float32
    """The same of cloud of every kind: 0 where it is clear."""
    valid: NDArray[np.bool_]
    """What is data in some band."""


@dataclass
class Filler:
    """Fills what is under cloud from other dates, strip by strip."""

    scene: Scene
    product: Sensor
    clouds: CloudMap
    references: Sequence[Reference]
    masks: Sequence[CloudMap | None]
    thick_only: bool
    """Whether a network restores thin cloud: then only thick cloud is filled, and what the network is not sure of."""
    colours: Colours | None = None
    """Bands that tell haze and shadow which the mask missed; None: they are not looked for."""
    network: ReferenceNetwork | None = None
    """What corrects the references, where that is good for the scene."""
    batch: int = 1
    """Tiles that go through it at once."""
    tuned: tuple[Tuned, ...] = ()
    _grown: NDArray[np.uint8] | None = None
    """What gaps grew into, a bit for each pixel."""
    _corrections: Corrections | None = None

    def survey(self, on_rows: Callable[[int], None] | None = None) -> None:
        """Look at the whole scene and each reference, and choose how each is harmonised."""
        evidence = [self._evidence(i, on_rows) for i in range(len(self.references))]
        if self._grow(evidence):
            evidence = [self._evidence(i, on_rows) for i in range(len(self.references))]
        self.tuned = tuple(self._tuned(i, one) for i, one in enumerate(evidence))
        tiles = tiles_over(self.scene.height, self.scene.width)
        if self.network and tiles and any(one.corrected for one in self.tuned):
            read = (self._to_correct, self._reference)
            self._corrections = Corrections(self.network, tiles, self.tuned, *read, self.batch)

    def _evidence(self, i: int, on_rows: Callable[[int], None] | None) -> Evidence:
        cells = Cells.over(self.scene.height, self.scene.width)
        evidence = Evidence(cells, len(self.scene.bands))
        step = max(BLOCK // cells.size, 1) * cells.size
        for top in range(0, self.scene.height, step):
            bottom = min(top + step, self.scene.height)
            rows = self._target(top, bottom)
            if rows.clear.any():
                seen, sound = self._reference(i, top, bottom)
            else:
                seen, sound = rows.values, rows.clear
            evidence.add(top, seen, rows.values, rows.clear & sound, (rows.weights > 0) & rows.valid)
            if on_rows:
                on_rows(bottom)
        return evidence

    def _grow(self, evidence: Sequence[Evidence]) -> bool:
        """Let gaps grow into what the mask missed, where all references that see it agree; say whether they did."""
        if self.colours is None or not any(one.gaps.any() for one in evidence):
            return False
        doubts = [Suspicion.of(one, self_check(one, ["regression"]), self.colours) for one in evidence]
        grown = np.zeros((self.scene.height, -(-self.scene.width // 8)), np.uint8)
        for top in range(0, self.scene.height, GROWN):
            bottom = min(top + GROWN, self.scene.height)
            first, last = max(top - GROW_MARGIN, 0), min(bottom + GROW_MARGIN, self.scene.height)
            rows = self._target(first, last)
            gap = rows.weights > 0
            if not gap.any():
                continue
            thin = (rows.cloud > 0) & ~gap & rows.valid  # a network takes haze off it, and leaves shadow
            agreed, seen = rows.clear | thin, np.zeros_like(rows.clear)
            for i, doubt in enumerate(doubts):
                shown, sound = self._reference(i, first, last)
                hazy, dark = doubt(rows.values, shown, (rows.clear | thin) & sound, first)
                agreed &= ~sound | dark | (hazy & rows.clear)
                seen |= sound
            more = grow(gap, agreed & seen, thin)
            more |= enclosed(gap | more, thin & seen, rows.valid)
            grown[top:bottom] = np.packbits(more[top - first : bottom - first], axis=1)
        self._grown = grown if grown.any() else None
        return self._grown is not None

    def _tuned(self, i: int, evidence: Evidence) -> Tuned:
        tuned, tiles = tune(evidence), tiles_over(self.scene.height, self.scene.width)
        if not (self.network and tiles and evidence.gaps.any()):
            return tuned

        def read(rows: slice) -> Pair:
            values, clear, gap = self._to_correct(rows.start, rows.stop)
            shown, sound = self._reference(i, rows.start, rows.stop)
            return Pair(rows.start, 0, values, shown, clear & sound, gap & sound)

        rows = [slice(row, row + tiles.tile_height) for row in tiles.rows]
        cols = [slice(col, col + tiles.tile_width) for col in tiles.cols]
        return with_network(tuned, evidence, self.network, Tiles(rows, cols, read))

    def _to_correct(self, top: int, bottom: int) -> tuple[Float32, NDArray[np.bool_], NDArray[np.bool_]]:
        """Give the scene's reflectance, what is clear, and what is to be filled."""
        rows = self._target(top, bottom)
        return rows.values, rows.clear, (rows.weights > 0) & rows.valid

    def _target(self, top: int, bottom: int) -> TargetRows:
        came = self.scene.read(top, bottom)
        valid = self.scene.valid(came, top, blank=self.product.nodata)
        reach = self.clouds.rim.reach
        first, last = max(top - reach, 0), min(bottom + reach, self.scene.height)
        classes = self.clouds.read(first, last)
        if self._grown is not None:
            missed = np.unpackbits(self._grown[first:last], axis=1, count=self.scene.width)
            classes = np.where(missed, THICK, classes).astype(np.uint8)
        inner = slice(top - first, bottom - first)
        cloud = self.clouds.rim.weights(classes)[inner]
        filled = np.where(classes == THICK, classes, CLEAR).astype(np.uint8) if self.thick_only else classes
        weights = self.clouds.rim.weights(filled)[inner] if self.thick_only else cloud
        clear = (cloud == 0) & valid.all(axis=0)
        return TargetRows(self.product.to_reflectance(came), clear, weights, cloud, np.asarray(valid.any(axis=0)))

    def _reference(self, i: int, top: int, bottom: int) -> tuple[Float32, NDArray[np.bool_]]:
        values, valid = self.references[i].aligned.read(top, bottom)
        clouds = self.masks[i]
        if clouds is None:
            return values, valid
        reach = clouds.rim.reach
        first, last = max(top - reach, 0), min(bottom + reach, self.scene.height)
        cloudy = clouds.rim.weights(clouds.read(first, last))[top - first : bottom - first] > 0
        return values, valid & ~cloudy

    def fill(self, strip: Strip) -> Strip:
        """Give a strip with what is under cloud from other dates, and a layer that says from which.

        Beside thick cloud that is what a network restored with low confidence.
        """
        height, width = strip.quality.shape
        top, bottom = strip.top, strip.top + height
        first, last = max(top - MARGIN, 0), min(bottom + MARGIN, self.scene.height)
        rows = self._target(first, last)
        inner = slice(top - first, bottom - first)
        if not self.references:
            return self._mixed(strip, rows.values[:, inner], rows.weights[inner], np.zeros((height, width), bool), None)
        dates = np.stack([np.full((height, width), UNKNOWN_DAYS, np.int16)] * 2)
        unsure = (strip.quality == LOW_CONFIDENCE) & (rows.cloud[inner] > 0)
        weights = np.where(unsure, np.maximum(rows.cloud, rows.weights)[inner], rows.weights[inner])
        here = (weights > 0) & rows.valid[inner]
        if not here.any():
            return replace(strip, dates=dates)
        near = _within((rows.cloud > 0) & rows.valid, REACH)
        seen = [self._reference(i, first, last) for i in range(len(self.references))]
        added = self._corrections.rows(top, bottom, first) if self._corrections else ()
        shown, sound = zip(*seen, strict=True)
        filled = compose(self.tuned, shown, sound, near & rows.valid, first, added)
        new = meet_border(filled, rows.values, rows.clear)[:, inner]
        number = np.where(here, filled.number[inner], 0)
        days = np.array(
            [UNKNOWN_DAYS, *(UNKNOWN_DAYS if r.days is None else r.days for r in self.references)], np.int16
        )
        changed = number > 0
        dates[0] = days[number]
        dates[1][changed] = number[changed]
        return self._mixed(strip, new, weights, changed, dates)

    def _mixed(self, strip: Strip, new: Float32, weights: Float32, changed: Array, dates: Array | None) -> Strip:
        out, quality = strip.values.copy(), strip.quality.copy()
        valid = self.scene.valid(strip.came, strip.top, blank=self.product.nodata)
        painted = np.isin(quality, (CLOUD_LEFT, NODATA, LOW_CONFIDENCE))
        for band, described in enumerate(self.scene.bands):
            here = changed & valid[band]
            number = (new[band][here].astype(np.float64) - self.product.offset) / self.product.scale
            under = np.where(painted, strip.came[band], strip.values[band])[here].astype(np.float64)
            weight = weights[here].astype(np.float64)
            mixed = np.where(weight == 1, number, under + weight * (number - under))
            out[band][here] = avoid(into_dtype(mixed, out.dtype), described.nodata)
        was_left = int((changed & np.isin(quality, (CLOUD_LEFT, NODATA))).sum())
        quality[changed] = FROM_DATE
        spread = strip.spread
        if spread is not None and dates is not None:
            errors = np.array([np.nan, *(one.error for one in self.tuned)], np.float32)
            spread = np.where(changed, errors[np.where(changed, dates[1], 0)], spread).astype(np.float32)
        left = strip.left - was_left
        if not self.thick_only:
            alone = (weights == 1) & ~changed & valid.any(axis=0)
            quality[alone] = CLOUD_LEFT
            left = int(alone.sum())
        cloudy = None if strip.cloudy is None else strip.cloudy | changed
        return replace(strip, values=out, quality=quality, spread=spread, left=left, cloudy=cloudy, dates=dates)

    def describe(self) -> list[dict[str, Any]]:
        """Give what was chosen for each reference, as plain values."""
        return [self._described(one) for one in self.tuned]

    def _described(self, one: Tuned) -> dict[str, Any]:
        checked, how = one.checked, one.corrected
        told: dict[str, Any] = {
            "method": checked.method,
            "expected_error": None if np.isnan(checked.error) else round(checked.error, 6),
            "errors": {name: round(error, 6) for name, error in checked.errors.items()},
            "checked_on_pixels": checked.pixels,
        }
        if how is None or self.network is None:
            return told
        return told | {
            "method": "network",
            "network_share": how.share,
            "network_sha256": self.network.identity["weights_sha256"],
            "expected_error": round(how.error, 6),
            "classical_method": checked.method,
            "classical_error": told["expected_error"],
        }

    def save(self, path: Path) -> None:
        """Write what was chosen into the working folder."""
        path.write_text(json.dumps(self.describe()))


def _within(here: NDArray[np.bool_], distance: int) -> NDArray[np.bool_]:
    """Say what is at most this many pixels away."""
    with needed():
        from scipy.ndimage import distance_transform_edt
    near: NDArray[np.bool_] = distance_transform_edt(~here) <= distance
    return near
