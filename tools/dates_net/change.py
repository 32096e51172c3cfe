"""Another date of a clear image, simulated: what grows, is ploughed, floods, and how the light and the air differ.

Images are (C, H, W) in reflectance. A field (a connected piece of one kind of ground) changes as its kind does and in
its own way besides; a part of the fields becomes ground of another kind altogether.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from attcr.references.harmonise import Float32, Kinds

# Change of the logarithm of reflectance by wavelength in nm: with more green leaves, with more water in the ground,
# and brighter.
_AT = (443, 560, 665, 705, 740, 865, 945, 1375, 1610, 2190)
LEAVES = (-0.5, -0.25, -0.9, -0.35, 0.35, 0.55, 0.5, 0.0, -0.35, -0.7)
WATER = (-0.05, -0.1, -0.15, -0.15, -0.2, -0.25, -0.3, 0.0, -0.7, -1.0)
BRIGHTER = (0.9, 1.0, 1.1, 1.05, 1.0, 1.0, 1.0, 0.2, 1.0, 1.0)
FEWEST = 12
"""Pixels of a field; smaller ones change as their kind does."""


@dataclass(frozen=True)
class Strength:
    """How much one date differs from another: standard deviations of the logarithm of reflectance, and shares."""

    kind: float
    field: float
    turned: float
    """Share of the fields that become another kind of ground."""
    fine: float
    """Of what differs from pixel to pixel."""
    light: float

    @classmethod
    def drawn(cls, draw: np.random.Generator) -> "Strength":
        """Draw how much: from nearly nothing to another season; at times little more than noise."""
        if draw.random() < 0.25:
            return cls(kind=_log(draw, 0.005, 0.06), field=_log(draw, 0.003, 0.04), turned=0.0,
                fine=_log(draw, 0.02, 0.1), light=_log(draw, 0.01, 0.1))  # fmt: skip
        return cls(
            kind=_log(draw, 0.03, 0.4),
            field=_log(draw, 0.02, 0.3),
            turned=float(draw.choice([0.0, _log(draw, 0.01, 0.25)])),
            fine=_log(draw, 0.004, 0.05),
            light=_log(draw, 0.01, 0.15),
        )


def another_date(pixels: Float32, nanometres: NDArray[np.float64], draw: np.random.Generator) -> Float32:
    """Give the image of another date of the same place."""
    much = Strength.drawn(draw)
    out = _fields(pixels, nanometres, much, draw)
    if draw.random() < 0.3:
        out = _shore(out, nanometres, draw)
    if draw.random() < 0.6:  # another height of the sun: deeper or shallower shadows of trees, houses and slopes
        smooth = np.stack([ndimage.gaussian_filter(band, _log(draw, 1.5, 6)) for band in out])
        out = smooth + (out - smooth) * draw.normal(1, 0.2)
    out = _air(out, nanometres, much.light, draw)
    down, right = draw.uniform(-0.7, 0.7, 2) * (draw.random() < 0.7)
    order = int(draw.choice([1, 3]))
    out = np.stack([ndimage.shift(band, (down, right), order=order, mode="nearest") for band in out])
    noise = draw.normal(0, _log(draw, 0.0004, 0.002), out.shape)
    moved: Float32 = np.clip(out + noise, 1e-4, 1.6).astype(np.float32)
    return moved


def _fields(pixels: Float32, nanometres: NDArray[np.float64], much: Strength, draw: np.random.Generator) -> Float32:
    """Change the ground, field by field."""
    bands, height, width = pixels.shape
    soft = np.stack([ndimage.gaussian_filter(band, draw.uniform(0.5, 2.0)) for band in pixels]).astype(np.float32)
    kinds = Kinds.among(soft.reshape(bands, -1), int(draw.integers(3, 13))).of(soft.reshape(bands, -1))
    kinds = kinds.reshape(height, width)
    fields, count = _pieces(kinds)
    of_kind = _directions(nanometres, kinds.max() + 1, much.kind, draw)
    heavy = np.abs(draw.standard_t(3, count + 1)).clip(0, 5)  # most fields change little, some much
    of_field = _directions(nanometres, count + 1, much.field, draw) * heavy
    of_field[:, 0] = 0
    change = of_kind[:, kinds] + of_field[:, fields]
    change = np.stack([ndimage.gaussian_filter(band, draw.uniform(0.3, 0.9)) for band in change])
    fine = np.stack([ndimage.gaussian_filter(draw.normal(size=(height, width)), 0.5) * 2 for _ in range(3)])
    change += np.einsum("cm,mhw->chw", _axes(nanometres), fine) * much.fine
    out = pixels * np.exp(change.clip(-1.5, 1.5))
    for field in np.flatnonzero(draw.random(count + 1) < much.turned):
        if field:
            out = _turned(out, fields == field, draw)
    return out.astype(np.float32)  # type: ignore[no-any-return]


def _turned(pixels: Float32, here: NDArray[np.bool_], draw: np.random.Generator) -> Float32:
    """Give a field the mean spectrum of a place elsewhere, with its own texture."""
    height, width = here.shape
    row, col = draw.integers(0, height - 8), draw.integers(0, width - 8)
    other = pixels[:, row : row + 8, col : col + 8].mean(axis=(1, 2))
    mean = pixels[:, here].mean(axis=1)
    texture = (pixels[:, here] / np.maximum(mean, 1e-3)[:, None]).clip(0.3, 3) ** draw.uniform(0.2, 1)
    pixels[:, here] = other[:, None] * texture
    return pixels


def _pieces(kinds: NDArray[np.intp]) -> tuple[NDArray[np.intp], int]:
    """Number the connected pieces of each kind from 1; 0 is what is too small."""
    fields = np.zeros(kinds.shape, np.intp)
    count = 0
    for kind in range(kinds.max() + 1):
        pieces, found = ndimage.label(kinds == kind)
        sizes = np.bincount(pieces.ravel())
        number = np.where(sizes >= FEWEST, np.cumsum(sizes >= FEWEST), 0)
        number[0] = 0
        fields = np.where(number[pieces] > 0, number[pieces] + count, fields)
        count += found + 1
    names, numbers = np.unique(np.append(0, fields), return_inverse=True)
    return numbers[1:].reshape(kinds.shape), len(names) - 1


def _axes(nanometres: NDArray[np.float64]) -> NDArray[np.float64]:
    """Give the directions that ground changes in, (C, 3)."""
    return np.stack([np.interp(nanometres, _AT, axis) for axis in (LEAVES, WATER, BRIGHTER)], axis=1)


def _directions(
    nanometres: NDArray[np.float64], count: int, deviation: float, draw: np.random.Generator
) -> NDArray[np.float64]:
    """Draw so many changes (C, count): along the axes, and a little in any smooth direction."""
    along = _axes(nanometres) @ draw.normal(size=(3, count))
    knots = draw.normal(size=(len(_AT), count)) * 0.4
    any_way = np.stack([np.interp(nanometres, _AT, knot) for knot in knots.T], axis=1)
    changes: NDArray[np.float64] = (
        deviation * (along + any_way) + draw.normal(size=(len(nanometres), 1)) * deviation / 2
    )
    return changes


def _shore(pixels: Float32, nanometres: NDArray[np.float64], draw: np.random.Generator) -> Float32:
    """Move the shores of what is darkest in the near infrared, outwards or inwards."""
    dark = ndimage.gaussian_filter(pixels[int(np.abs(nanometres - 850).argmin())], 1.0)
    low, high = np.sort(np.quantile(dark, draw.uniform(0.02, 0.3, 2)))
    if high - low < 0.005:
        return pixels
    between = (dark > low) & (dark <= high)
    ground = dark <= low if draw.random() < 0.6 else (dark > high) & (dark < np.quantile(dark, 0.5))
    if not ground.any() or not between.any():
        return pixels
    out: Float32 = pixels.copy()
    spectrum = pixels[:, ground].mean(axis=1)[:, None]
    out[:, between] = spectrum * draw.normal(1, 0.05, (1, int(between.sum())))
    return out


def _air(pixels: Float32, nanometres: NDArray[np.float64], deviation: float, draw: np.random.Generator) -> Float32:
    """Change tone and haze, evenly and in wide forms."""
    shape = pixels.shape[1:]
    wide = ndimage.gaussian_filter(draw.normal(size=shape), _log(draw, 20, 80), mode="wrap")
    wide = (wide - wide.mean()) / max(wide.std(), 1e-9)  # in a small image nearly all of it is the mean
    gain = np.exp(draw.normal(0, deviation) + draw.normal(0, deviation / 4) * wide)
    tilt = np.exp(draw.normal(0, deviation / 3, len(nanometres)))[:, None, None]
    haze = _log(draw, 0.001, 0.06) * np.exp(0.5 * draw.random() * wide) * draw.choice([-0.3, 0, 1])
    spectral = ((nanometres / 550) ** -draw.uniform(0, 2.5))[:, None, None]
    seen: Float32 = (pixels * gain * tilt + haze * spectral * (nanometres != 1375)[:, None, None]).astype(np.float32)
    return seen


def _log(draw: np.random.Generator, low: float, high: float) -> float:
    """Draw a number of a range, all orders of magnitude equally likely."""
    return float(np.exp(draw.uniform(np.log(low), np.log(high))))
