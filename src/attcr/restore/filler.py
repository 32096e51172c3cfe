"""What is under cloud, filled from references: they are looked at once, then strips are filled one after the other."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attcr.bands.products import band_names, find_band
from attcr.bands.sensors import Sensor, into_dtype
from attcr.errors import warn
from attcr.extras import need
from attcr.references.align import FARTHEST, Alignment, Shift
from attcr.references.check import Evidence, self_check
from attcr.references.correct import Corrections, Corrector, Pair, tiles_over, with_network
from attcr.references.fill import (
    BORDER_REACH,
    EDGE,
    FILL_MARGIN,
    GROWTH_MARGIN,
    Colours,
    Shown,
    Suspicion,
    Tuned,
    compose,
    enclosed,
    grow,
    inwards,
    meet_border,
    tune,
)
from attcr.references.harmonise import Cells, Float32, plausible
from attcr.references.joint import MARGIN, MOST_TOGETHER, Joint, Mixed
from attcr.restore.walk import CLOUD_LEFT, FROM_DATE, FROM_RADAR, LOW_CONFIDENCE, NODATA, Array, Strip, avoid
from attcr.scenes.clouds.masks import CLEAR, THICK
from attcr.scenes.clouds.rim import CloudMap
from attcr.scenes.image import Image, Reference

UNKNOWN_DAYS = -(1 << 15)
"""Stands for a day that is not known, and for pixels that are from no reference."""
WHOLE = 10_000
"""The weight of a reference that a pixel is from alone, as the raster of dates has it."""
DATES = ("days", "reference", "dates")
"""Bands of that raster before the weights: the weighted mean day, the reference that counts most, how many."""
REFERENCES = "references.json"
"""The file of a working folder that says what was chosen for each reference."""
ROWS_SURVEYED, ROWS_GROWN = 128, 512
"""Rows that are looked at together, and in which gaps grow at once."""


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

    @property
    def gap(self) -> NDArray[np.bool_]:
        """What is to be filled."""
        return (self.weights > 0) & self.valid


@dataclass
class Filler:
    """Fills what is under cloud from references, strip by strip."""

    scene: Image
    product: Sensor
    clouds: CloudMap
    references: Sequence[Reference]
    masks: Sequence[CloudMap | None]
    thick_only: bool
    """Whether a network restores thin cloud: then only thick cloud is filled, and what the network is not sure of."""
    colours: Colours | None = None
    """Bands that tell haze and shadow which the mask missed; None: they are not looked for."""
    network: Corrector | None = None
    """What corrects the references, where that is good for the scene."""
    batch: int = 1
    """Tiles that go through it at once."""
    tuned: tuple[Tuned, ...] = ()
    """Each reference, and after them all together where that is tried."""
    together: tuple[int, ...] = ()
    """References that are mixed."""
    ways: tuple[int, ...] = ()
    """Which of `tuned` fill."""
    shifts: dict[int, Shift] = field(default_factory=dict)
    """References that lie beside the scene, and by how much: they are read from there."""
    refused: set[int] = field(default_factory=set)
    """References that fill nothing."""
    _grown: NDArray[np.uint8] | None = None
    """What gaps grew into, a bit for each pixel."""
    _corrections: Corrections | None = None
    _joint: Joint | None = None

    def survey(self, on_rows: Callable[[int], None] | None = None) -> None:
        """Look at the whole scene and each reference, and choose how each is harmonised."""
        evidence = [self._aligned(i, on_rows) for i in range(len(self.references))]
        if self._grow(evidence):
            evidence = [self._evidence(i, on_rows, detail=one.detail) for i, one in enumerate(evidence)]
        self.tuned = tuple(self._tuned(i, one) for i, one in enumerate(evidence))
        self.ways = tuple(range(len(evidence)))
        if not any(one.gaps.any() for one in evidence):
            return
        if mixed := self._mixture(on_rows):
            evidence.append(mixed)
        tiles = tiles_over(self.scene.height, self.scene.width)
        if not (self.network and tiles):
            return
        tuned = list(self.tuned)
        for i in (one for one in self.ways if one not in self.refused):
            tuned[i] = with_network(tuned[i], evidence[i], self.network, tiles, lambda *rows, i=i: self._pair(i, *rows))
        self.tuned = tuple(tuned)
        if any(self.tuned[i].corrected for i in self.ways):
            chosen = [self.tuned[i] for i in self.ways]
            self._corrections = Corrections(self.network, tiles, chosen, self._pairs, self.batch)

    def _mixture(self, on_rows: Callable[[int], None] | None) -> Evidence | None:
        """Try all references together, and let them fill together where their error is smaller than of each alone."""
        known = [i for i in self.ways if i not in self.refused and not np.isnan(self.tuned[i].checked.error)]
        best = sorted(known, key=lambda i: self.tuned[i].error)[:MOST_TOGETHER]
        if len(best) < 2:
            return None
        self.together = tuple(sorted(best))
        self._joint = Joint(Cells.over(self.scene.height, self.scene.width), len(best))
        for top, bottom in self._blocks(on_rows):
            rows = self._target(top, bottom)
            if rows.clear.any():
                shown, above = self._around(top, bottom)
                self._joint.add(top, shown, rows.values, rows.clear, above)
        evidence = self._evidence(len(self.references), on_rows)
        tuned = tune(evidence)
        checked = replace(tuned.checked, error=tuned.checked.error * self._joint.optimism(evidence))
        if not checked.error < self.tuned[best[0]].error:
            self.together, self._joint = (), None
            return None
        self.tuned += (replace(tuned, checked=checked),)
        self.ways = (*(i for i in self.ways if i not in self.together), len(self.references))
        return evidence

    def _aligned(self, i: int, on_rows: Callable[[int], None] | None) -> Evidence:
        """Give the evidence of a reference, moved onto the scene where it lies beside it."""
        alignment = Alignment(len(self.scene.bands))
        evidence = self._evidence(i, on_rows, alignment)
        shift, evidence.detail = alignment.found()
        if not (any(shift) and evidence.gaps.any()):
            return evidence
        self.shifts[i] = shift
        return self._evidence(i, on_rows, detail=evidence.detail)

    def _evidence(
        self,
        i: int,
        on_rows: Callable[[int], None] | None,
        alignment: Alignment | None = None,
        detail: float = float("nan"),
    ) -> Evidence:
        cells = Cells.over(self.scene.height, self.scene.width)
        evidence = Evidence(cells, len(self.scene.bands), detail=detail)
        for top, bottom in self._blocks(on_rows):
            rows = self._target(top, bottom)
            shown = self._shown(i, top, bottom) if rows.clear.any() else Shown(rows.values, rows.clear)
            evidence.add(top, shown.values, rows.values, rows.clear & shown.clear, rows.gap)
            if alignment:
                alignment.add(shown.values, rows.values, shown.clear, rows.clear)
        return evidence

    def _blocks(self, on_rows: Callable[[int], None] | None) -> Iterator[tuple[int, int]]:
        """Give the rows that are looked at together, whole rows of cells, and say so after each."""
        size = Cells.over(self.scene.height, self.scene.width).size
        step = max(ROWS_SURVEYED // size, 1) * size
        for top in range(0, self.scene.height, step):
            bottom = min(top + step, self.scene.height)
            yield top, bottom
            if on_rows:
                on_rows(bottom)

    def _grow(self, evidence: Sequence[Evidence]) -> bool:
        """Let gaps grow into what the mask missed, where all references that see it agree; say whether they did."""
        if self.colours is None or not any(one.gaps.any() for one in evidence):
            return False
        checked = [self_check(one, ["regression"]) for one in evidence]
        doubts = {i: Suspicion.of(evidence[i], one, self.colours) for i, one in enumerate(checked) if one.earned}
        grown = np.zeros((self.scene.height, -(-self.scene.width // 8)), np.uint8)
        for top in range(0, self.scene.height, ROWS_GROWN):
            bottom = min(top + ROWS_GROWN, self.scene.height)
            first, last = max(top - GROWTH_MARGIN, 0), min(bottom + GROWTH_MARGIN, self.scene.height)
            rows = self._target(first, last)
            gap = rows.weights > 0
            if not gap.any():
                continue
            thin = (rows.cloud > 0) & ~gap & rows.valid  # a network takes haze off it, and leaves shadow
            agreed, seen = rows.clear | thin, np.zeros_like(rows.clear)
            for i, doubt in doubts.items():
                shown = self._shown(i, first, last)
                hazy, dark = doubt(rows.values, shown.values, (rows.clear | thin) & shown.clear, first)
                agreed &= ~shown.clear | dark | (hazy & rows.clear)
                seen |= shown.clear
            more = grow(gap, agreed & seen, thin)
            more |= enclosed(gap | more, thin & seen, rows.valid)
            grown[top:bottom] = np.packbits(more[top - first : bottom - first], axis=1)
        self._grown = grown if grown.any() else None
        return self._grown is not None

    def _tuned(self, i: int, evidence: Evidence) -> Tuned:
        tuned = tune(evidence)
        if not evidence.gaps.any():
            return tuned
        if not tuned.checked.earned:
            self.refused.add(i)
        self._tell(i, evidence.common, tuned)
        return tuned

    def _tell(self, i: int, common: float, tuned: Tuned) -> None:
        """Warn of a reference that fills nothing, lies beside the scene, or that nothing could be hidden for."""
        name, checked = self.references[i].name, tuned.checked
        if i in self.refused:
            told = [
                f"its fine detail agrees by {checked.detail:.2f}",
                f"its error is {checked.error:.4f} on hidden clear ground, and {checked.surroundings:.4f} without it",
            ]
            why = " and ".join(one for one in told if "nan" not in one)
            warn(
                f"{name} fills nothing: {why}. It may be of another place, lie more than "
                f"{FARTHEST} px beside the scene, or be under cloud that its mask misses: give another date."
            )
            return
        if i in self.shifts:
            warn(
                f"{name} lies {self.shifts[i]} of the scene. It is moved back by these whole pixels; where edges still "
                "look blurred, align the two."
            )
        if np.isnan(checked.error) and np.isnan(checked.detail):
            warn(
                f"{name} could not be checked: {common:.1%} of the scene is clear in both, too little to hide some "
                "of it. Its error is not known: look at the filled pixels, or give a date with more clear ground."
            )

    def _pairs(self, top: int, bottom: int) -> list[Pair]:
        """Give rows of the scene with each way of filling; none where nothing is to be filled."""
        return [self._pair(i, top, bottom) for i in self.ways] if self._target(top, bottom).gap.any() else []

    def _pair(self, i: int, top: int, bottom: int) -> Pair:
        rows, shown = self._target(top, bottom), self._shown(i, top, bottom)
        return Pair(top, 0, rows.values, shown.values, rows.clear & shown.clear, rows.gap & shown.clear)

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
        values = self.product.to_reflectance(came)
        clear = (cloud == 0) & valid.all(axis=0) & plausible(values)
        return TargetRows(values, clear, weights, cloud, np.asarray(valid.any(axis=0)))

    def _shown(self, i: int, top: int, bottom: int) -> Shown:
        """Give rows of a reference, and where it is data and not under its own cloud; nothing of a refused one.

        After the last reference come all together.
        """
        if i == len(self.references):
            return self._mixed_rows(top, bottom)
        down, across = self.shifts.get(i, Shift())
        first, last = (min(max(row + down, 0), self.scene.height) for row in (top, bottom))
        if i in self.refused or first == last:
            shape = (bottom - top, self.scene.width)
            return Shown(np.zeros((len(self.scene.bands), *shape), np.float32), np.zeros(shape, bool))
        return self._as_it_lies(i, first, last).moved(across, first - down - top, bottom + down - last)

    def _around(self, top: int, bottom: int) -> tuple[list[Shown], int]:
        """Give rows of the references that are mixed with some above and below, and how many are above."""
        first, last = max(top - MARGIN, 0), min(bottom + MARGIN, self.scene.height)
        return [self._shown(i, first, last) for i in self.together], top - first

    def _mixed_rows(self, top: int, bottom: int, wanted: NDArray[np.bool_] | None = None) -> Mixed:
        assert self._joint is not None, "nothing is mixed that was not fitted"
        every = np.ones((bottom - top, self.scene.width), bool)
        return self._joint.mix(*self._around(top, bottom), every if wanted is None else wanted)

    def _as_it_lies(self, i: int, top: int, bottom: int) -> Shown:
        reference, clouds = self.references[i], self.masks[i]
        came = reference.read(top, bottom)
        values = reference.sensor.to_reflectance(came)
        clear = reference.valid(came, top, blank=reference.sensor.nodata).all(axis=0) & plausible(values)
        if clouds is not None:
            reach = clouds.rim.reach
            first, last = max(top - reach, 0), min(bottom + reach, self.scene.height)
            clear &= clouds.rim.weights(clouds.read(first, last))[top - first : bottom - first] == 0
        return Shown(values, clear)

    def shows(self, top: int, bottom: int) -> tuple[Float32, Float32]:
        """Give rows [top, bottom) as the best reference or all together show them, and how far they do.

        Not in the scene's local tones: these are fitted to its clear ground, and look better there than under cloud.
        """
        best = min(self.ways, key=lambda i: (i in self.refused, np.nan_to_num(self.tuned[i].error, nan=1.0)))
        first, last = max(top - EDGE, 0), min(bottom + EDGE, self.scene.height)
        shown = self._shown(best, first, last)
        inner = np.s_[..., top - first : bottom - first, :]
        return np.where(shown.clear, shown.values, np.float32(0))[inner], inwards(shown.clear)[inner]

    def fill(self, strip: Strip) -> Strip:
        """Give a strip with what is under cloud from references, and a layer that says from which.

        Beside thick cloud that is what a network restored with low confidence.
        """
        height, width = strip.quality.shape
        top, bottom = strip.top, strip.top + height
        first, last = max(top - FILL_MARGIN, 0), min(bottom + FILL_MARGIN, self.scene.height)
        rows = self._target(first, last)
        inner = slice(top - first, bottom - first)
        if not self.references:
            none = np.zeros((1, height, width), np.float32)
            return self._laid_in(strip, rows.values[:, inner], rows.weights[inner], none, None)
        dates = np.full((len(DATES) + len(self.references), height, width), UNKNOWN_DAYS, np.int16)
        weights = np.where(strip.quality == LOW_CONFIDENCE, rows.cloud[inner], rows.weights[inner])
        here = (weights > 0) & rows.valid[inner]
        if not here.any():
            return replace(strip, dates=dates)
        near = _within((rows.cloud > 0) & rows.valid, BORDER_REACH) & rows.valid
        shown = [
            self._shown(i, first, last) if i < len(self.references) else self._mixed_rows(first, last, near)
            for i in self.ways
        ]
        added = self._corrections.rows(top, bottom, first) if self._corrections else ()
        filled = compose([self.tuned[i] for i in self.ways], shown, near, first, added)
        new = meet_border(filled, rows.values, rows.clear)[:, inner]
        parts = np.where(here, filled.weights[:, inner], 0)
        changed = parts.any(axis=0)
        dates[:, changed] = self._dates(self._by_reference(parts, shown, inner)[:, changed])
        return self._laid_in(strip, new, weights, parts, dates)

    def _by_reference(self, parts: Float32, shown: Sequence[Shown], inner: slice) -> Float32:
        """Give how much is from each reference (N, h, W), of how much is from each way of filling."""
        out = np.zeros((len(self.references), *parts.shape[1:]), np.float32)
        for i, part, one in zip(self.ways, parts, shown, strict=True):
            if isinstance(one, Mixed):
                out[list(self.together)] += part * one.parts[:, inner]
            else:
                out[i] += part
        return out

    def _dates(self, parts: Float32) -> NDArray[np.int16]:
        """Give what the raster of dates says of pixels that are so much from each reference (N, pixels)."""
        days = np.array([np.nan if one.days is None else one.days for one in self.references])
        counted = np.rint(parts * WHOLE).astype(np.int16)
        mean = np.where(parts > 0, parts * days[:, None], 0).sum(axis=0)
        mean = np.where(np.isnan(mean), UNKNOWN_DAYS, np.rint(mean)).astype(np.int16)
        return np.concatenate([[mean, parts.argmax(axis=0) + 1, (counted > 0).sum(axis=0)], counted]).astype(np.int16)

    def _laid_in(self, strip: Strip, new: Float32, weights: Float32, parts: Float32, dates: Array | None) -> Strip:
        """Give the strip with new values, which are by `parts` (N, h, W) from each way of filling."""
        changed = parts.any(axis=0)
        out, quality = strip.values.copy(), strip.quality.copy()
        valid = self.scene.valid(strip.came, strip.top, blank=self.product.nodata)
        painted = np.isin(quality, (CLOUD_LEFT, NODATA, LOW_CONFIDENCE, FROM_RADAR))
        for band, described in enumerate(self.scene.bands):
            here = changed & valid[band]
            number = (new[band][here].astype(np.float64) - self.product.offset) / self.product.scale
            under = np.where(painted, strip.came[band], strip.values[band])[here].astype(np.float64)
            weight = weights[here].astype(np.float64)
            mixed = np.where(weight == 1, number, under + weight * (number - under))
            out[band][here] = avoid(into_dtype(mixed, out.dtype), described.nodata)
        left = None if strip.left is None else strip.left & ~(changed & np.isin(quality, (CLOUD_LEFT, NODATA)))
        quality[changed] = FROM_DATE
        spread = strip.spread
        if spread is not None and dates is not None:
            expected = np.einsum("n,nhw->hw", [self.tuned[i].error for i in self.ways], parts)
            spread = np.where(changed, expected, spread).astype(np.float32)
        if not self.thick_only:
            alone = (weights == 1) & ~changed & valid.any(axis=0)
            quality[alone] = CLOUD_LEFT
            left = alone
        cloudy = None if strip.cloudy is None else strip.cloudy | changed
        return replace(strip, values=out, quality=quality, spread=spread, left=left, cloudy=cloudy, dates=dates)

    def describe(self) -> list[dict[str, Any]]:
        """Give what was chosen for each reference, as plain values."""
        return [self._described(i) for i in range(len(self.references))]

    def _described(self, i: int) -> dict[str, Any]:
        checked = self.tuned[i].checked
        mixed = i in self.together
        way = self.tuned[-1 if mixed else i]
        how = way.corrected
        told: dict[str, Any] = {
            "method": "refused" if i in self.refused else checked.method,
            "expected_error": _rounded(checked.error),
            "surroundings_error": _rounded(checked.surroundings),
            "detail": _rounded(checked.detail),
            "errors": {name: round(error, 6) for name, error in checked.errors.items()},
            "checked_on_pixels": checked.pixels,
            "moved": list(self.shifts.get(i, Shift())),
        }
        if mixed:
            told |= {"method": "joint", "expected_error": _rounded(way.error), "alone_error": told["expected_error"]}
        if how is None or self.network is None:
            return told
        return told | {
            "method": "joint, network" if mixed else "network",
            "network_share": how.share,
            "network_sha256": self.network.identity["weights_sha256"],
            "expected_error": round(how.error, 6),
            "classical_method": "joint" if mixed else checked.method,
            "classical_error": _rounded(way.checked.error),
        }

    def save(self, folder: Path) -> None:
        """Write what was chosen into the working folder."""
        (folder / REFERENCES).write_text(json.dumps(self.describe(), allow_nan=False))


def _within(here: NDArray[np.bool_], distance: int) -> NDArray[np.bool_]:
    """Say what is at most this many pixels away."""
    near: NDArray[np.bool_] = need("scipy.ndimage").distance_transform_edt(~here) <= distance
    return near


def _rounded(error: float) -> float | None:
    return None if np.isnan(error) else round(error, 6)
