"""Clear Sentinel-2 images of many bands, and the samples of any bands that are drawn from them under simulated cloud.

ROOT holds df.npz (L1C, 13 bands), eu.npz (L2A patches, 12 bands) and lkp.npz (dates of an L2A tile, 7 bands);
README.md says what is in them.
"""

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from attcr.bands.spec import ANY_BANDS
from attcr.data import DataSet
from attcr.data.pairs import Sample, Transform
from attcr.data.sets import ERROR_LEFT

from .layers import AIR, BANDS, CIRRUS, KINDS, Draw, change_ground, simulate

SPEC = replace(ANY_BANDS, spread_factor=math.exp(-3.0), spread_floor=0.011)
"""What is learned here. The logarithm of the expected error is given plus 3, so that a network begins near what errors
are; by the floor two clear dates of a place differ at least, which no simulated pair teaches."""
SCALE = SPEC.span / SPEC.bands[0].high
"""The network's number for reflectance 1."""

# Bands by their place among the 13.
ALL = tuple(range(BANDS))
L2A = tuple(band for band in ALL if band != CIRRUS)
TEN = (1, 2, 3, 4, 5, 6, 7, 8, 11, 12)
"""Those of 10 and 20 m."""
LKP = (1, 2, 3, 7, 8, 11, 12)
"""Those of lkp.npz."""
LKP_DATES = ("2018-08-12", "2018-08-22", "2018-10-21", "2019-07-08", "2019-07-28")
"""Its dates without cloud, by eye."""


def places_held_out(lon: NDArray[Any], lat: NDArray[Any]) -> NDArray[np.bool_]:
    """Say which places lie in every fifth of the cells of 2 degrees: they are never trained on."""
    cell = np.floor(lon / 2) * 1000 + np.floor(lat / 2)
    return np.isin(cell, np.unique(cell)[::5])


def patches_held_out(ids: NDArray[Any]) -> NDArray[np.bool_]:
    """Say which patches of eu.npz are never trained on."""
    held: NDArray[np.bool_] = (ids // 64) % 12 == 0
    return held


def with_cirrus(patches: Tensor) -> Tensor:
    """Give (..., 12, H, W) with a band of zeros in the place of the one that L2A does not have."""
    before, after = patches[..., :CIRRUS, :, :], patches[..., CIRRUS:, :, :]
    return torch.cat([before, torch.zeros_like(before[..., :1, :, :]), after], dim=-3)


@dataclass(frozen=True)
class Crop:
    """A clear crop, and what is known of it."""

    pixels: Tensor
    """(13, size, size) reflectance; bands that it does not have are 0, or not to be looked at."""
    have: tuple[int, ...]
    """The bands that it has."""
    surface: bool
    """Whether it is reflectance at the surface, or at the top of the atmosphere."""
    pixel: float
    """The size of its pixels in units of 10 m."""


class ClearS2:
    """Samples of any bands: a clear crop, its ground changed, cloud put on it, some of its bands shown."""

    spec = SPEC
    size = 128
    """Pixels a side of the samples that are read by their index, the same each time."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        part: str = "train",
        *,
        transform: Transform | None = None,
        cache: bool = True,  # the files are read whole in any case
    ) -> None:
        self.transform, held = transform, part == "val"
        df, eu, lkp = (np.load(Path(root, name)) for name in ("df.npz", "eu.npz", "lkp.npz"))
        ok = (df["cloud"] < 0.01) & (df["qa"] < 0.02) & (df["native"] > 0.9) & (df["nodata"] == 0)
        self.l1c = [_int16(pixels) for pixels in df["a"][ok & (places_held_out(df["lon"], df["lat"]) == held)]]
        self.l2a = _int16(eu["a"][patches_held_out(eu["ids"]) == held])
        dates = () if held else LKP_DATES
        self.lkp = [_int16(lkp["a"][list(lkp["dates"]).index(date)]) for date in dates]
        self.names: Sequence[str] = [f"{part} {number}" for number in range(len(self.l1c) + len(self.l2a))]

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> Sample:
        """Sample `index`, the same each time."""
        return {**self.draw(self.size, torch.Generator().manual_seed(index)), "name": self.names[index]}

    def draw(self, size: int, generator: torch.Generator) -> Sample:
        """Draw a sample of so many pixels a side."""
        draw = Draw(generator)
        crop = self._crop(size, draw)
        while crop.pixels[[7, 8]].amax(0).mean() <= 0.07 and not draw.chance(0.7):  # open water teaches little
            crop = self._crop(size, draw)
        clear, alike = change_ground(crop.pixels, draw, surface=crop.surface)
        kinds = {"clear": 1.0} if alike and draw.chance(0.55) else KINDS
        cloudy, kind = simulate(clear, draw, surface=crop.surface, pixel=crop.pixel, kinds=kinds)
        presence = torch.zeros(BANDS, 1, 1)
        presence[shown_bands(crop.have, draw)] = 1
        inputs = network_input(cloudy, presence, surface=crop.surface)
        sample: Sample = {"inputs": inputs, "clear": clear * SCALE, "masks": {}, "name": kind}
        return self.transform(sample) if self.transform else sample

    def _crop(self, size: int, draw: Draw) -> Crop:
        small = size <= 64  # an L2A patch has 64 pixels
        lkp = (0.10 if small else 0.2) if self.lkp else 0.0
        source = draw.choice({"l1c": 0.52, "pseudo": 0.13, "l2a": 0.25 if small else 0.0, "lkp": lkp})
        have, surface = ALL, False
        if source == "l2a":
            image, most, have, surface = with_cirrus(self.l2a[draw.integer(len(self.l2a))]), 1, L2A, True
        elif source == "lkp":
            image, most, have, surface = self.lkp[draw.integer(len(self.lkp))], 6, LKP, True
        else:
            image, most = self.l1c[draw.integer(len(self.l1c))], 3
        shrink = 1 + draw.integer(min(most, min(image.shape[1:]) // size))
        i, j = (draw.integer(n - size * shrink + 1) for n in image.shape[1:])
        pixels = F.avg_pool2d(image[:, i : i + size * shrink, j : j + size * shrink].float() / 1e4, shrink)
        if source == "lkp":
            pixels = torch.zeros(BANDS, size, size).index_copy(0, torch.tensor(LKP), pixels)
        if source == "pseudo":  # surface reflectance of sorts: L1C less the air's light, the ten bands of 10 and 20 m
            air = (AIR * draw.uniform(0.8, 1.15))[:, None, None]
            pixels = ((pixels - air) / (1 - 1.6 * air)).clamp_min(0.002)
            have, surface = TEN, True
        if draw.chance(0.5):
            pixels = pixels.flip(2)
        return Crop(torch.rot90(pixels, draw.integer(4), (1, 2)), have, surface, float(shrink))


CLEAR_S2 = DataSet(
    "clear-s2",
    "clear Sentinel-2 of many bands, with cloud put on it",
    SPEC,
    ClearS2,
    "ROOT holds df.npz, eu.npz and lkp.npz, which tools/collect.py makes",
    parts=("train", "val"),
    protocol=ERROR_LEFT,
)


def _int16(values: NDArray[Any]) -> Tensor:
    return torch.from_numpy(values.clip(max=32767).astype(np.int16))


def shown_bands(have: tuple[int, ...], draw: Draw) -> list[int]:
    """Draw which of the bands at hand to show: those of a product, or any."""
    nir = 7 if draw.chance(0.5) else 8
    shares = {"all": 0.30, "l2a": 0.10, "ten": 0.18, "landsat": 0.12, "rgbn": 0.10, "rgb": 0.11, "any": 0.09}
    what = draw.choice(shares)
    if what == "any":
        share = draw.uniform(0.3, 0.9)
        some = [band for band in have if draw.chance(share)]
    else:
        landsat = (*((0,) if draw.chance(0.5) else ()), 1, 2, 3, nir, 11, 12)
        wanted: dict[str, tuple[int, ...]] = {
            "all": ALL, "l2a": L2A, "ten": TEN, "landsat": landsat, "rgbn": (1, 2, 3, nir), "rgb": (1, 2, 3),
        }  # fmt: skip
        some = [band for band in have if band in wanted[what]]
    return some or list(have)


def network_input(pixels: Tensor, presence: Tensor, *, surface: bool) -> Tensor:
    """Give the 27 planes of `attcr.bands.spec.ANY_BANDS` for (13, H, W) reflectance and (13, 1, 1) presence."""
    size = pixels.shape[1:]
    level = torch.full((1, *size), float(surface))
    return torch.cat([pixels * SCALE * presence, presence.expand(-1, *size), level])
