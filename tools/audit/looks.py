"""How alike two images look: thumbnails, a perceptual hash, correlation, and the 8 flips and turns."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attcr.data.pairs import Array

Floats = NDArray[np.float32]

VIEW = 128  # pixels of the small image that everything is derived from
THUMB = 32  # pixels of a thumbnail
CELLS = 8  # cells of the coarse grid: colours, and the brightness that is taken out
WAVES = 8  # cosine waves each way whose signs are the hash
HASH_BITS = WAVES**2 - 1  # all but the mean
REACH = 4  # pixels of the small image by which a block may lie aside: 8 of a 256-pixel image

SYMMETRIES = (
    "as it is", "flipped left-right", "flipped top-bottom", "turned by 180 degrees",
    "flipped along the diagonal", "turned right", "turned left", "flipped along the other diagonal",
)  # fmt: skip


def levels(image: Array, colours: Sequence[int]) -> Floats:
    """Give the bands at `colours` in grey levels 0..255: an integer of 10000 and a float of 1 are white.

    Where an image has fewer bands its last one stands in: that it is odd is found elsewhere.
    """
    bands = image[[min(at, len(image) - 1) for at in colours]].astype(np.float32)
    if image.dtype == np.uint8:
        return np.asarray(bands)
    white = 10000 if image.dtype.kind in "iu" else 1
    return np.asarray(np.nan_to_num(bands * np.float32(255 / white)).clip(0, 255))


def shrink(image: Array, colours: Sequence[int]) -> Floats:
    """Give the means over VIEW x VIEW cells of an image of any size, (3, VIEW, VIEW) in grey levels."""
    from PIL import Image

    bands = [Image.fromarray(band).resize((VIEW, VIEW), Image.Resampling.BOX) for band in levels(image, colours)]
    return np.stack([np.asarray(band) for band in bands])


def cells(image: Floats, size: int) -> Floats:
    """Take the means of (..., H, W) over size x size cells."""
    side = image.shape[-1] // size
    return np.asarray(image.reshape(*image.shape[:-2], size, side, size, side).mean((-3, -1)))


def detail(grey: Floats, coarse: int = CELLS) -> Floats:
    """Take out what coarse x coarse cells hold, which says where it is light and not what is there."""
    from PIL import Image

    blurred = Image.fromarray(cells(grey, coarse)).resize(grey.shape[::-1], Image.Resampling.BICUBIC)
    return np.asarray(grey - np.asarray(blurred))


def thumbnail(small: Floats) -> NDArray[np.int8]:
    """Give the detail of a shrunk image at THUMB x THUMB, 32 for a standard deviation."""
    fine = detail(cells(small.mean(0), THUMB))
    return np.asarray((fine / max(float(fine.std()), 1e-6) * 32).clip(-127, 127).astype(np.int8))


def hash_signs(small: Floats) -> NDArray[np.int8]:
    """Give the perceptual hash of a shrunk image: the signs of its lowest cosine waves, (WAVES, WAVES)."""
    waves = np.cos(np.pi * np.arange(WAVES)[:, None] * (np.arange(THUMB) + 0.5) / THUMB)
    return np.where(waves @ cells(small.mean(0), THUMB) @ waves.T > 0, 1, -1).astype(np.int8)


def turn(image: NDArray[Any], symmetry: int) -> NDArray[Any]:
    """Turn (..., H, W) by one of SYMMETRIES."""
    if symmetry & 4:
        image = image.swapaxes(-1, -2)
    if symmetry & 2:
        image = image[..., ::-1, :]
    if symmetry & 1:
        image = image[..., ::-1]
    return image


def turn_hash(signs: NDArray[np.int8], symmetry: int) -> NDArray[np.int8]:
    """Give the hash of the turned image: a flip changes the sign of the odd waves."""
    odd = (1 - 2 * (np.arange(WAVES) % 2)).astype(np.int8)
    if symmetry & 4:
        signs = signs.swapaxes(-1, -2)
    if symmetry & 2:
        signs = signs * odd[:, None]
    if symmetry & 1:
        signs = signs * odd
    return signs


def hash_distances(one: NDArray[np.int8], other: NDArray[np.int8]) -> Floats:
    """Count the bits in which hashes (N, WAVES, WAVES) and (M, WAVES, WAVES) differ, (N, M)."""
    rows, cols = (signs.reshape(len(signs), -1)[:, 1:].astype(np.float32) for signs in (one, other))
    return np.asarray((HASH_BITS - rows @ cols.T) / 2)


def correlate(one: NDArray[Any], other: NDArray[Any]) -> Floats:
    """Correlate (N, ...) with (N, ...), item by item; 0 where one of them is level."""
    rows, cols = (items.reshape(len(items), -1).astype(np.float32) for items in (one, other))
    rows, cols = rows - rows.mean(1, keepdims=True), cols - cols.mean(1, keepdims=True)
    energy = (rows**2).sum(1) * (cols**2).sum(1)
    return np.where(energy > 1e-9, (rows * cols).sum(1) / np.sqrt(np.maximum(energy, 1e-9)), 0)


def blocks(image: Floats, side: int) -> Floats:
    """Cut (..., H, W) into blocks, (..., blocks, side * side)."""
    *before, height, width = image.shape
    cut = image.reshape(*before, height // side, side, width // side, side).swapaxes(-3, -2)
    return np.asarray(cut.reshape(*before, -1, side * side))


def shows_through(cloudy: Floats, clear: Floats) -> float:
    """Correlate two shrunk images block by block; the ninth decile, since cloud hides most blocks of many."""
    one, other = (blocks(detail(small.mean(0), 2 * CELLS), 16) for small in (cloudy, clear))
    return float(np.percentile(correlate(one, other), 90))


def aligned_correlation(one: Floats, other: Floats, side: int = 30) -> float:
    """Correlate the detail of two images (VIEW, VIEW) block by block, each where it fits best within REACH.

    Blocks weigh by the lesser contrast of the two, up to twice the median, so that one bright corner in a plain
    sea does not speak for all of it. A copy cropped by a few pixels fits in every block, a little aside.
    """
    count = (VIEW - 2 * REACH) // side

    def sums(image: Floats) -> Floats:
        return np.asarray(image.reshape(count, side, count, side).sum((1, 3)))

    still = one[REACH:-REACH, REACH:-REACH]
    mean = sums(still) / side**2
    energy = sums(still**2) - mean**2 * side**2
    best = np.zeros((count, count), np.float32)
    for row in range(2 * REACH + 1):
        for col in range(2 * REACH + 1):
            moved = other[row : row + count * side, col : col + count * side]
            total = sums(moved)
            spread = sums(moved**2) - total**2 / side**2
            product = sums(still * moved) - mean * total
            best = np.maximum(best, product / np.sqrt(np.maximum(energy * spread, 1e-6)))
    contrast = np.sqrt(np.maximum(np.minimum(energy, sums(other[REACH:-REACH, REACH:-REACH] ** 2)), 0))
    weight = np.minimum(contrast, 2 * np.median(contrast))
    return float((best * weight).sum() / max(float(weight.sum()), 1e-6))
