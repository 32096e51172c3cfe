"""Let all witnesses of cloud look at a scene together, in blocks of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attcr.bands.products import band_names, find_band, find_bands
from attcr.evidence.pyramid import expand
from attcr.extras import need
from attcr.scenes.clouds.masks import CLEAR, THIN, Classes
from attcr.scenes.clouds.spectra import FEWEST_BANDS, NEAR, VEIL, ClearGround, Survey
from attcr.scenes.clouds.vote import (
    BLIND_TO_HAZE,
    BLIND_TO_SHADOW,
    CLEAR_BELOW,
    ENOUGH_CLEAR,
    LIKELY,
    SOME_CLOUD,
    change_says,
    says,
    settled,
    shade_says,
    shadow_odds,
    veil_says,
    with_shadow,
)
from attcr.scenes.scene import AlignedRaster, Scene

Array = NDArray[Any]

VOTED, VOTED_MARGIN = 256, 32
"""Side, in pixels of the voters' resolution, of the block that they see at once, and what they see beyond it."""
VOTED_METRES, COARSEST = 40.0, 4
"""Size of a pixel that voters look at, and how many pixels of the scene are one of them at most."""
METRES = {"landsat": 30.0}
"""Size of a pixel of products whose files do not say it, by the first word of their names; of others it is 10."""

SHORE = 5
"""Pixels of theirs over which water makes the ground dark."""
MOST_ASKED = 3
"""Rows of blocks that are asked before all others, for what the network takes away from clear ground."""
SEEN_BY_OTHERS, LEAST_BIAS, LEAST_DARK = 0.05, 0.015, 0.01
"""The least share of cloud, and of none, that other witnesses must see; the least change that is a bias, and the least
brightening that is shadow."""
DARK_IN_SHADOW = ("red", "swir16", "swir22")
"""Bands besides the near infrared that are darker in shadow, as far as a scene has them."""

ODDS_OF_ONE, NO_SHADOW = 1024, -9.0
"""What odds of 1 are kept as; the odds of shadow where nothing tells it."""

Look = Callable[[Array, NDArray[np.bool_]], NDArray[np.float32]]
"""What a voter makes of values (C, h, w) that are data here: (.., h, w)."""


class Network(NamedTuple):
    """The network as a witness of cloud."""

    change: Look
    """Says what it takes away from the visible bands (h, w), in reflectance, of values (C, h, w) that are data here."""
    scene: Scene
    """With the bands that it takes."""


class _Said(NamedTuple):
    """What was said about the rows of a block, each (h, w)."""

    odds: NDArray[np.float32]
    """Of cloud or shadow, by detectors and masks together."""
    shadow: NDArray[np.float32]
    """How far one of them calls it shadow."""
    blind: NDArray[np.float32]
    """What of the odds is said against cloud by those that see no shadow."""
    change: NDArray[np.float32] | None
    """The network's."""
    logs: NDArray[np.float32]
    """Logarithms of reflectance (n, h, w) in the voters' resolution, not a number where there is no data: green, near
    infrared, and others that are dark in shadow; none where a scene lacks these."""

    def cloud(self, bias: float) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Give the odds with what the network says, and where it is dark."""
        dark = self.shadow > 0.5
        if self.change is None:
            return self.odds, dark
        change = self.change - np.float32(bias)
        odds = self.odds + change_says(change) - np.where(change < -LEAST_BIAS, self.blind, 0)
        return odds, dark | (change < -LEAST_DARK)


class Usual(NamedTuple):
    """What is usual in a scene."""

    bias: float
    """What the network takes away from clear ground too, as bright deserts: 0 unless it is much."""
    logs: NDArray[np.float64] | None
    """The medians (n,) of clear ground; None where nothing can be told to be shadow."""
    clear_below: float
    """Odds below which it is surely clear."""


class Votes(NamedTuple):
    """What all have said about the rows of a block but for the scene's own clear ground, each (h, w)."""

    odds: NDArray[np.float32]
    """Of cloud."""
    shadow: NDArray[np.float32]
    """Odds of shadow."""
    dark: NDArray[np.bool_]
    data: NDArray[np.bool_]
    """Where there is any."""

    def packed(self) -> NDArray[np.int16]:
        """Give all of it as whole numbers (3, h, w)."""
        odds, shadow = np.rint(self.odds * ODDS_OF_ONE), np.rint(self.shadow * ODDS_OF_ONE)
        return np.stack([odds, shadow, self.dark * 1 + self.data * 2]).astype(np.int16)

    @classmethod
    def unpacked(cls, packed: NDArray[np.int16]) -> Votes:
        """Give what was packed."""
        odds, shadow = packed[:2].astype(np.float32) / ODDS_OF_ONE
        return cls(odds, shadow, packed[2] & 1 > 0, packed[2] & 2 > 0)


class Voters:
    """All witnesses of a scene, which look at blocks of rows together; they say `against` cloud at most."""

    def __init__(
        self,
        scene: Scene,
        times: int,
        detectors: Mapping[str, tuple[Callable[[Array], Classes], Scene]],
        network: Network | None,
        against: float,
    ) -> None:
        self.scene, self.times, self.detectors, self.network = scene, times, detectors, network
        self.against = against
        self.step, self.margin = VOTED * times, VOTED_MARGIN * times
        self.masks: list[Callable[[int, int], NDArray[np.float32]]] = []
        self.coloured = _coloured(scene)
        self.veiled, bands = _veiled(scene)
        self.survey = Survey(bands, *(-(-side // times) for side in (scene.height, scene.width)))
        self.ask = lru_cache(maxsize=1)(self._ask)  # a scene of one block is looked at once

    def _ask(self, top: int) -> _Said:
        """Ask all about a block's rows."""
        first, last = max(top - self.margin, 0), min(top + self.step + self.margin, self.scene.height)
        inner = np.s_[top - first : min(top + self.step, self.scene.height) - first, : self.scene.width]
        odds = np.zeros((last - first, self.scene.width), np.float32)
        blind, shadow = np.zeros_like(odds), np.zeros_like(odds)
        for name, (detect, bands) in self.detectors.items():
            said, seen = self._across(bands, first, last, odds_of(name, detect))
            odds += said
            shadow += seen
            if name in BLIND_TO_SHADOW:
                blind += np.minimum(said, 0)
        for mask in self.masks:
            said, seen = mask(first, last)
            odds += said
            shadow += seen
        blur = need("scipy.ndimage").gaussian_filter
        odds, blind, shadow = (blur(one, 1.5)[inner] for one in (odds, blind, np.minimum(shadow, 1)))
        change = self._across(self.network.scene, first, last, self.network.change)[inner] if self.network else None
        begin, end = (top - first) // self.times, -(-(inner[0].stop) // self.times)
        return _Said(odds, shadow, blind, change, self._logs(first, last)[:, begin:end])

    def _logs(self, first: int, last: int) -> NDArray[np.float32]:
        rows, columns = (-(-size // self.times) for size in (last - first, self.scene.width))
        if self.coloured is None:
            return np.zeros((0, rows, columns), np.float32)
        small, there = self._small(self.coloured, first, last)
        data = there.all(axis=0).astype(np.float32)
        seen = np.log(np.maximum(self.coloured.product.to_reflectance(small), 0) + np.float32(0.01)) * data
        blur = need("scipy.ndimage").gaussian_filter
        share = np.maximum(blur(data, 0.7), np.float32(1e-6))  # beside no data it is not dark
        seen = blur(seen, (0, 0.7, 0.7)) / share
        logs: NDArray[np.float32] = np.where(data > 0, seen, np.float32(np.nan))[:, :rows, :columns]
        return logs

    def _reflectance(self, top: int, rows: int) -> NDArray[np.float32]:
        """Give what shows veils (n, h, w) in a block's rows, in the voters' resolution; not a number without data."""
        assert self.veiled is not None
        small, there = self._small(self.veiled, top, top + rows)
        height, width = (-(-size // self.times) for size in (rows, self.scene.width))
        seen = np.where(there.all(axis=0), self.veiled.product.to_reflectance(small), np.float32(np.nan))
        return seen[:, :height, :width].astype(np.float32)

    def usual(self) -> Usual:
        """Look at some blocks, and give what is usual in the scene.

        The network's bias is known where other witnesses, of which one sees haze, see cloud in one part and none in
        another. Where none sees any, it is haze. What is shadow is known where there is some cloud, and enough
        that is surely clear.
        """
        blocks = range(0, self.scene.height, self.step)
        asked = [self.ask(top) for top in blocks[:: max(len(blocks) // MOST_ASKED, 1)]]
        bias, sees_haze = 0.0, bool(self.masks) or not set(self.detectors) <= set(BLIND_TO_HAZE)
        if self.network is not None:
            odds = np.concatenate([one.odds.ravel() for one in asked])
            change = np.concatenate([one.change.ravel() for one in asked if one.change is not None])
            cloudy = odds > LIKELY
            if sees_haze and SEEN_BY_OTHERS <= cloudy.mean() <= 1 - SEEN_BY_OTHERS:
                least = float(np.quantile(change[~cloudy], 0.1))
                bias = least if least > LEAST_BIAS else 0.0
        odds = np.concatenate([one.cloud(bias)[0][:: self.times, :: self.times] for one in asked])
        logs = np.concatenate([one.logs for one in asked], axis=1)
        there = np.isfinite(logs).all(axis=0)
        cloud, clear = (one & there for one in (odds > LIKELY, odds < CLEAR_BELOW[0]))
        told = len(logs) > 0 and cloud.sum() >= SOME_CLOUD * there.sum() and clear.sum() >= ENOUGH_CLEAR * there.sum()
        enough = (below for below in CLEAR_BELOW if (odds < below).mean() >= ENOUGH_CLEAR)
        return Usual(
            bias,
            np.median(logs[:, clear], axis=1) if told and clear.any() else None,
            next(enough, CLEAR_BELOW[-1]),
        )

    def votes(self, top: int, usual: Usual) -> Votes:
        """Give what all say of a block's rows, and survey its clear ground."""
        said = self.ask(top)
        odds, dark = said.cloud(usual.bias)
        shadow = np.full_like(odds, NO_SHADOW)
        if usual.logs is not None:
            rows, columns = odds.shape
            logs = np.where(np.isfinite(said.logs), said.logs, usual.logs[:, None, None])
            darker = (usual.logs[:, None, None] - logs)[1:].min(axis=0)
            water = need("scipy.ndimage").maximum_filter(logs[0] - logs[1], SHORE)
            darker, water = self._expanded(np.stack([darker, water]))[:, :rows, :columns]
            shadow = shadow_odds(said.shadow, darker, water > 0)
        if self.veiled is not None:
            seen = self._reflectance(top, len(odds))
            sure = with_shadow(odds, dark, shadow)[0] < usual.clear_below
            clear = sure[:: self.times, :: self.times] & np.isfinite(seen).all(axis=0)
            self.survey.add(seen, clear, top // self.times)
        values = self.scene.read(top, top + len(odds))
        return Votes(odds, shadow, dark, np.any(self.scene.valid(values, top, blank=self.scene.product.nodata), axis=0))

    def classes(self, top: int, votes: Votes, ground: ClearGround | None) -> Classes:
        """Give the classes of a block's rows with their bits, by what all said and the scene's clear ground."""
        odds, shadow = votes.odds, votes.shadow
        if ground is not None:
            rows, columns = odds.shape
            first = max(top - NEAR * self.times, 0)
            seen = self._reflectance(first, min(top + rows + NEAR * self.times, self.scene.height) - first)
            begin = (top - first) // self.times
            amounts = (one[begin : begin - (-rows // self.times)] for one in ground.amounts(seen, first // self.times))
            said = np.stack([rule(one) for rule, one in zip((self._veil_says, shade_says), amounts, strict=True)])
            veil, shade = self._expanded(said)[:, :rows, :columns]
            odds = odds + np.where(votes.dark, np.maximum(veil, 0), veil)
            shadow = shadow + shade
        found = settled(*with_shadow(odds, votes.dark, shadow))
        found[~votes.data] = CLEAR
        return found

    def _veil_says(self, amount: NDArray[np.float32]) -> NDArray[np.float32]:
        return veil_says(amount, self.against)

    def _small(self, scene: Scene, first: int, last: int) -> tuple[Array, NDArray[np.bool_]]:
        """Read rows in the voters' resolution, and where they are data."""
        values = scene.read(first, last)
        valid = scene.valid(values, first, blank=scene.product.nodata)
        _, height, width = values.shape
        pad = [(0, 0), (0, -height % COARSEST), (0, -width % COARSEST)]
        return _coarser(np.pad(values, pad, mode="edge"), np.pad(valid, pad), self.times)

    def _expanded(self, small: NDArray[np.float32]) -> NDArray[np.float32]:
        for _ in range(self.times.bit_length() - 1):
            small = expand(small)
        return small

    def _across(self, scene: Scene, first: int, last: int, look: Look) -> NDArray[np.float32]:
        """Let a voter look at blocks of rows in its own resolution; give what it says in the scene's."""
        small, there = self._small(scene, first, last)
        parts = []
        for left in range(0, small.shape[2], VOTED):
            near = slice(max(left - VOTED_MARGIN, 0), min(left + VOTED + VOTED_MARGIN, small.shape[2]))
            right = min(left + VOTED, small.shape[2])
            parts.append(look(small[:, :, near], there[:, :, near])[..., left - near.start : right - near.start])
        return self._expanded(np.concatenate(parts, axis=-1))[..., : last - first, : self.scene.width]


def odds_of(name: str, detect: Callable[[Array], Classes]) -> Look:
    """Give what looks with a detector: its odds, and what it calls shadow, which no other than csmask knows."""

    def look(values: Array, _: NDArray[np.bool_]) -> NDArray[np.float32]:
        classes = detect(values)
        return np.stack([says(name, classes), classes == THIN]).astype(np.float32)

    return look


def odds_of_file(
    name: str, read: Callable[[Array], Classes], raster: AlignedRaster
) -> Callable[[int, int], NDArray[np.float32]]:
    """Give what reads a product's own mask: its odds, and what it calls shadow."""

    def look(top: int, bottom: int) -> NDArray[np.float32]:
        values = raster.read(top, bottom, band=1)[0]
        shadow = values == 3 if name == "scl" else (values.astype(np.uint16) & 0b10000) > 0
        return np.stack([says(name, read(values)), shadow]).astype(np.float32)

    return look


def _coloured(scene: Scene) -> Scene | None:
    """Give the scene with the bands that tell shadow: green, near infrared, and others; None where it lacks these."""
    if scene.product.picture:
        return None
    for infrared in ("nir", "nir08"):
        at = find_bands(scene.product, scene.names, ["green", infrared])
        if at is not None:
            others = [find_bands(scene.product, scene.names, [name]) for name in DARK_IN_SHADOW]
            return scene.select([*at, *(i for found in others if found is not None for i in found)])
    return None


def _veiled(scene: Scene) -> tuple[Scene | None, list[str]]:
    """Give the scene with the bands that show veils, and their names; None where it has too few."""
    at = {find_band(scene.product, band_names(scene.product, scene.names), name): name for name in VEIL}
    found = {i: name for i, name in at.items() if i is not None}
    if scene.product.picture or len(found) < FEWEST_BANDS:
        return None, []
    return scene.select(list(found)), list(found.values())


def times_of(scene: Scene) -> int:
    """Say how many pixels of the scene, along a side, are one pixel of the voters."""
    crs, metres = scene.profile.crs, METRES.get(scene.product.name.partition("-")[0], VOTED_METRES / COARSEST)
    if crs is not None and crs.is_projected:
        metres = abs(scene.profile.transform.a) or VOTED_METRES
    return next(n for n in (COARSEST, 2, 1) if n * metres <= VOTED_METRES or n == 1)


def _coarser(values: Array, valid: NDArray[np.bool_], times: int) -> tuple[Array, NDArray[np.bool_]]:
    """Give means of squares of pixels that are data, and where there are any."""
    if times == 1:
        return values, valid
    bands, height, width = values.shape
    shape = (bands, height // times, times, width // times, times)
    count = valid.reshape(shape).sum(axis=(2, 4))
    total = np.where(valid, values, 0).reshape(shape).sum(axis=(2, 4), dtype=np.float64)
    return (total / np.maximum(count, 1)).astype(np.float32), count > 0
