"""Several witnesses of cloud by one rule: what each says adds up as logarithms of odds.

Two answers come out: where cloud is likely, which is restored, and where it is surely clear, whose statistics say what
ground looks like. What lies between is neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from attcr.scenes.clouds.masks import CLEAR, CLOUD, Classes

Float32 = NDArray[np.float32]

NETWORK = "network"
"""The witness that is the network's own change: what it takes away from the visible bands."""
SAYS = {
    "scl": (2.5, -1.3),
    "qa_pixel": (2.5, -1.3),
    "s2cloudless": (1.5, -1.3),
    "csmask": (0.7, -1.0),
    "auto": (2.0, -0.6),
}
"""Witness to what it adds where it sees cloud, and where it sees none. Measured on SEN12MS-CR's pairs and 54 clear
places; s2cloudless there calls 0.82 of thin cloud and 0.20 of clear ground beside it cloud, csmask 0.83 and 0.42."""
BLIND_TO_SHADOW = ("s2cloudless", "auto")
"""Witnesses that see no shadow: where the network brightens, it does not count that they see no cloud."""
BLIND_TO_HAZE = ("auto",)
"""Witnesses that miss haze: what they call clear does not show what the network takes away from clear ground."""
CHANGES = (0.0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.12, 0.2)
CHANGES_SAY = (-2.0, -1.0, 0.0, 1.0, 2.2, 3.0, 3.0, 0.0)
"""What the network's change (reflectance) adds. Haze that no other witness sees is cloud from 0.02 (one other) or 0.034
(two others) on. A change that no haze explains says nothing."""
DARKENING = 0.7
"""How much a brightening of shadow counts beside a darkening of cloud."""
VEILS = (0.0, 1.0, 2.0, 3.0)
VEILS_SAY = (-1.0, 0.0, 2.0, 3.3)
"""What an amount of veil adds, in standard deviations of clear ground. In 62 clear places 1.6 % of pixels have more
than 2, and 0.6 % more than 3; of moved veils 0.80 and 0.73 have (0.74 and 0.68 in places not seen before)."""
AGAINST_ALL = 4.3
"""What all others of Sentinel-2 say together where they see no cloud. An amount decides where one of them doubts; alone
it does not overrule them. Where fewer are there, it says so much less."""
DARKER_THAN_GROUND = -1.0
"""The amount of veil below which it says nothing: what is darker may be shadow."""
LIKELY = 0.0
"""Odds above which cloud is likely."""
SHADOW_SAYS, DARKER_SAYS, SHADOW_AT_FIRST = 2.0, 6.0, -2.2
"""Odds of shadow: what a witness adds that calls it shadow, what each unit adds by which the logarithm of reflectance
is below that of the scene's clear ground, and where they start. csmask calls 0.78 of shadow so, and of clear ground
beside it 0.05 (SEN12MS-CR) and 0.17 (CloudSEN12); at 0.05, darkness ranks 0.63 of CloudSEN12's as shadow, both 0.71."""
SHADES, SHADES_SAY = (1.0, 2.0, 4.0), (0.0, 1.0, 2.0)
"""What an amount of lost sunlight adds to the odds of shadow, in standard deviations of clear ground."""
LEAST_DARKER, MOST_DARKER = -0.5, 0.8
"""How much darker counts."""
NEITHER = -0.3
"""Odds of shadow above which a pixel is not surely clear."""
WATER = -3.0
"""The odds of shadow that water has at most, before lost sunlight counts: it is as dark, but greener than it is near
infrared."""
SOME_CLOUD = 0.02
"""The share of cloud in a scene below which nothing in it is shadow: dark ground is more frequent."""
CLEAR_BELOW = (-1.0, -0.5, LIKELY)
"""Odds below which it is surely clear: the first at which enough of the scene is."""
ENOUGH_CLEAR = 0.12
"""The share of a scene that is enough. The clearest part of a scene under even haze is still likely cloud, and never
counts."""
CLASS, DARK, SURE = np.uint8(0x0F), np.uint8(0x10), np.uint8(0x20)
"""Bits of a cloud map: the class, darker than the ground, and surely clear by the first of the odds; the bits above it
stand for the others."""


def tells_clear(mask: str) -> bool:
    """Whether a witness of a mask sees haze, so that what is surely clear can be told: brightness alone cannot."""
    return not set(mask.split("+")) <= {*BLIND_TO_HAZE, NETWORK}


def says(witness: str, classes: Classes) -> Float32:
    """Give what a witness adds by its classes."""
    return np.where(classes > CLEAR, *SAYS[witness]).astype(np.float32)


def change_says(change: Float32) -> Float32:
    """Give what the network's change adds: what it takes away (positive) or adds to the visible bands."""
    size = np.where(change > 0, change, -DARKENING * change)
    return np.interp(size, CHANGES, CHANGES_SAY).astype(np.float32)


def veil_says(amount: Float32, against: float) -> Float32:
    """Give what an amount of veil adds; nothing where it is not a number. The others can say `against` it at most."""
    told = np.where(np.isfinite(amount) & (amount >= DARKER_THAN_GROUND), amount, VEILS[VEILS_SAY.index(0)])
    odds = np.interp(told, VEILS, VEILS_SAY)
    return np.where(odds > 0, np.maximum(odds - max(AGAINST_ALL - against, 0), 0), odds).astype(np.float32)


def shade_says(amount: Float32) -> Float32:
    """Give what an amount of lost sunlight adds to the odds of shadow; nothing where it is not a number."""
    told = np.where(np.isfinite(amount), amount, SHADES[0])
    return np.interp(told, SHADES, SHADES_SAY).astype(np.float32)


def against(witnesses: Iterable[str]) -> float:
    """Give what witnesses say together where they see no cloud."""
    return -sum(CHANGES_SAY[0] if name == NETWORK else SAYS[name][1] for name in witnesses)


def shadow_odds(called: Float32, darker: Float32, water: NDArray[np.bool_]) -> Float32:
    """Give the odds of shadow: `called` so by a witness (0..1), `darker` than clear ground in all bands, not water."""
    odds = SHADOW_AT_FIRST + SHADOW_SAYS * called + DARKER_SAYS * np.clip(darker, LEAST_DARKER, MOST_DARKER)
    return np.where(water & (called < 0.5), np.minimum(odds, WATER), odds).astype(np.float32)


def with_shadow(odds: Float32, dark: NDArray[np.bool_], shadow: Float32) -> tuple[Float32, NDArray[np.bool_]]:
    """Give the odds of cloud or shadow, and where it is dark, from those of cloud and of shadow."""
    cloud = odds > LIKELY
    darker = dark | ((shadow > 0) & (~cloud | (shadow > odds)))
    return np.where(~cloud & (shadow > NEITHER), np.maximum(odds, shadow), odds), darker


def settled(odds: Float32, dark: NDArray[np.bool_]) -> Classes:
    """Give cloud where it is likely, and the bits that say what is dark, and clear how surely."""
    likely = odds > LIKELY
    bits = np.where(likely, CLOUD | np.where(dark, DARK, 0), CLEAR)
    for number, below in enumerate(CLEAR_BELOW):
        bits = bits | np.where(odds < below, int(SURE) << number, 0)
    return bits.astype(np.uint8)


def clear_bit(counts: Sequence[int], pixels: int) -> np.uint8:
    """Choose the bit that says what is surely clear, from how many pixels have each."""
    chosen = next((i for i, count in enumerate(counts) if count >= ENOUGH_CLEAR * pixels), len(counts) - 1)
    bit: np.uint8 = np.uint8(int(SURE) << chosen)
    return bit
