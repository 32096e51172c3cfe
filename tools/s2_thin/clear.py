"""Clear images to train and to measure on, and the batches that the network sees. README.md tells of the files."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from attcr.bands.spec import ANY_BANDS

from .simulate import AIR, BANDS, CIRRUS, KINDS, Draw, change_ground, simulate

SCALE = ANY_BANDS.span / ANY_BANDS.bands[0].high
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


def held_out(lon: NDArray[Any], lat: NDArray[Any]) -> NDArray[np.bool_]:
    """Say which places lie in every fifth of the cells of 2 degrees: they are never trained on."""
    cell = np.floor(lon / 2) * 1000 + np.floor(lat / 2)
    return np.isin(cell, np.unique(cell)[::5])


def held_out_l1c(data: Path) -> Tensor:
    """Give the clear L1C places that are not trained on: (N, 13, 240, 240) reflectance."""
    places = np.load(data / "df.npz")
    ok = (places["cloud"] < 0.01) & (places["qa"] < 0.02) & held_out(places["lon"], places["lat"])
    return torch.from_numpy(places["a"][ok].astype(np.float32) / 1e4)


def _patches_held_out(ids: NDArray[Any]) -> NDArray[np.bool_]:
    held: NDArray[np.bool_] = (ids // 64) % 12 == 0
    return held


def held_out_l2a(data: Path) -> Tensor:
    """Give the L2A patches that are not trained on: (N, 13, 64, 64) reflectance, the cirrus band 0."""
    patches = np.load(data / "eu.npz")
    return _with_cirrus(torch.from_numpy(patches["a"][_patches_held_out(patches["ids"])].astype(np.float32) / 1e4))


def _with_cirrus(patches: Tensor) -> Tensor:
    """Give (..., 12, H, W) with a band of zeros in the place of the one that L2A does not have."""
    before, after = patches[..., :CIRRUS, :, :], patches[..., CIRRUS:, :, :]
    return torch.cat([before, torch.zeros_like(before[..., :1, :, :]), after], dim=-3)


def _int16(values: NDArray[Any]) -> Tensor:
    return torch.from_numpy(values.clip(max=32767).astype(np.int16))


class Crop(NamedTuple):
    """A clear crop, and what is known of it."""

    pixels: Tensor
    """(13, size, size) reflectance; bands that it does not have are 0, or not to be looked at."""
    have: tuple[int, ...]
    """The bands that it has."""
    surface: bool
    """Whether it is reflectance at the surface, or at the top of the atmosphere."""
    pixel: float
    """The size of its pixels in units of 10 m."""


class Batch(NamedTuple):
    """What the network sees, and what is wanted."""

    inputs: Tensor
    """(B, 27, H, W)."""
    clear: Tensor
    """(B, 13, H, W) reflectance x 2.5."""
    presence: Tensor
    """(B, 13, 1, 1): 1 for a band that is there."""


class ClearImages:
    """Clear crops of all sources."""

    def __init__(self, data: Path, draw: Draw) -> None:
        self.draw = draw
        df = np.load(data / "df.npz")
        ok = (df["cloud"] < 0.01) & (df["qa"] < 0.02) & (df["native"] > 0.9) & (df["nodata"] == 0)
        self.l1c = [_int16(pixels) for pixels in df["a"][ok & ~held_out(df["lon"], df["lat"])]]
        eu = np.load(data / "eu.npz")
        self.l2a = _int16(eu["a"][~_patches_held_out(eu["ids"])])
        lkp = np.load(data / "lkp.npz")
        self.lkp = [_int16(lkp["a"][list(lkp["dates"]).index(date)]) for date in LKP_DATES]

    def __str__(self) -> str:
        return f"{len(self.l1c)} L1C places, {len(self.l2a)} L2A patches, {len(self.lkp)} dates of 20LKP"

    def crop(self, size: int) -> Crop:
        """Give a clear crop; open water, which teaches little, less often."""
        while True:
            crop = self._crop(size)
            if crop.pixels[[7, 8]].amax(0).mean() > 0.07 or self.draw.chance(0.7):
                return crop

    def _crop(self, size: int) -> Crop:
        draw, small = self.draw, size <= 64  # an L2A patch has 64 pixels
        sources = {"l1c": 0.52, "pseudo": 0.13, "l2a": 0.25 if small else 0.0, "lkp": 0.10 if small else 0.2}
        source = draw.choice(sources)
        have, surface = ALL, False
        if source == "l2a":
            image, most, have, surface = _with_cirrus(self.l2a[draw.integer(len(self.l2a))]), 1, L2A, True
        elif source == "lkp":
            image, most, have, surface = self.lkp[draw.integer(len(self.lkp))], 6, LKP, True
        else:
            image, most = self.l1c[draw.integer(len(self.l1c))], 3
        shrink = 1 + draw.integer(min(most, min(image.shape[1:]) // size))
        i, j = (draw.integer(n - size * shrink + 1) for n in image.shape[1:])
        pixels = image[:, i : i + size * shrink, j : j + size * shrink].float() / 1e4
        if shrink > 1:
            pixels = F.avg_pool2d(pixels[None], shrink)[0]
        if source == "lkp":
            full = torch.zeros(BANDS, size, size)
            full[list(LKP)] = pixels
            pixels = full
        if source == "pseudo":  # surface reflectance of sorts: L1C less the air's light, the ten bands of 10 and 20 m
            air = (AIR * draw.uniform(0.8, 1.15))[:, None, None]
            pixels = ((pixels - air) / (1 - 1.6 * air)).clamp_min(0.002)
            have, surface = TEN, True
        if draw.chance(0.5):
            pixels = pixels.flip(2)
        return Crop(torch.rot90(pixels, draw.integer(4), (1, 2)), have, surface, float(shrink))

    def bands(self, have: tuple[int, ...]) -> list[int]:
        """Give which of the bands at hand to show: those of a product, or any."""
        draw = self.draw
        nir = 7 if draw.chance(0.5) else 8
        wanted: dict[str, tuple[int, ...]] = {
            "all": ALL, "l2a": L2A, "ten": TEN, "rgbn": (1, 2, 3, nir), "rgb": (1, 2, 3),
        }  # fmt: skip
        what = draw.choice(
            {"all": 0.30, "l2a": 0.10, "ten": 0.18, "landsat": 0.12, "rgbn": 0.10, "rgb": 0.11, "any": 0.09}
        )
        if what == "any":
            share = draw.uniform(0.3, 0.9)
            some = [band for band in have if draw.chance(share)]
        else:
            coastal = (0,) if draw.chance(0.5) else ()
            wanted["landsat"] = (*coastal, 1, 2, 3, nir, 11, 12)
            some = [band for band in have if band in wanted[what]]
        return some or list(have)

    def batch(self, count: int, size: int) -> Batch:
        """Give so many crops with simulated cloud, each with some of its bands."""
        inputs, targets, presences = [], [], []
        for _ in range(count):
            crop = self.crop(size)
            clear, alike = change_ground(crop.pixels, self.draw, surface=crop.surface)
            kinds = {"clear": 1.0} if alike and self.draw.chance(0.55) else KINDS
            cloudy, _ = simulate(clear, self.draw, surface=crop.surface, pixel=crop.pixel, kinds=kinds)
            presence = torch.zeros(BANDS, 1, 1)
            presence[self.bands(crop.have)] = 1
            inputs.append(network_input(cloudy, presence, surface=crop.surface))
            targets.append(clear * SCALE)
            presences.append(presence)
        return Batch(torch.stack(inputs), torch.stack(targets), torch.stack(presences))


def network_input(pixels: Tensor, presence: Tensor, *, surface: bool) -> Tensor:
    """Give the 27 planes of `attcr.bands.spec.ANY_BANDS` for (13, H, W) reflectance and (13, 1, 1) presence."""
    size = pixels.shape[1:]
    level = torch.full((1, *size), float(surface))
    return torch.cat([pixels * SCALE * presence, presence.expand(-1, *size), level])
