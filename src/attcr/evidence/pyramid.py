"""Pyramids of images of which only a part counts: every level has half the resolution of the one before.

Each pixel has a weight; a coarser level is the weighted mean of the finer one. What has no weight changes nothing, so a
scene may be cut anywhere as long as the pixels around the cut are there.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Float32 = NDArray[np.float32]


def reduce(image: NDArray[Any]) -> Float32:
    """Halve the last two axes (even numbers of pixels) by the weights 1 3 3 1 along each; nothing lies beyond."""
    planes = image.reshape(-1, *image.shape[-2:])
    out = np.empty((len(planes), image.shape[-2] // 2, image.shape[-1] // 2), np.float32)
    for plane, half in zip(planes, out, strict=True):  # a plane at a time stays in the processor's cache
        _reduce_rows(_reduce_rows(plane).T, half.T)
    return out.reshape(*image.shape[:-2], *out.shape[1:])


def _reduce_rows(image: NDArray[Any], out: Float32 | None = None) -> Float32:
    even, odd = image[0::2], image[1::2]
    out = np.add(even, odd, out=out)
    out *= np.float32(0.375)
    out[1:] += odd[:-1] * np.float32(0.125)
    out[:-1] += even[1:] * np.float32(0.125)
    return out


def expand(image: Float32) -> Float32:
    """Double the last two axes by linear interpolation; beyond the edge the last pixel goes on."""
    planes = image.reshape(-1, *image.shape[-2:])
    out = np.empty((len(planes), 2 * image.shape[-2], 2 * image.shape[-1]), np.float32)
    for plane, double in zip(planes, out, strict=True):
        _expand_rows(_expand_rows(plane).T, double.T)
    return out.reshape(*image.shape[:-2], *out.shape[1:])


def _expand_rows(image: Float32, out: Float32 | None = None) -> Float32:
    out = np.empty((2 * image.shape[0], image.shape[1]), np.float32) if out is None else out
    own, other = image * np.float32(0.75), image * np.float32(0.25)
    np.add(own[1:], other[:-1], out=out[2::2])
    np.add(own[:-1], other[1:], out=out[1:-1:2])
    out[0], out[-1] = image[0], image[-1]
    return out


def mean_of(total: Float32, weight: Float32) -> Float32:
    """Give the weighted mean; 0 where there is no weight at all."""
    mean: Float32 = total / np.maximum(weight, np.float32(1e-6))
    return mean


class Pyramid:
    """The levels of an image (C, H, W) where it has weight (H, W): means, and what each level adds to the next."""

    def __init__(self, image: Float32, weight: Float32, levels: int) -> None:
        total, means, weights = image * weight, [image], [weight]
        for _ in range(levels):
            total, weight = reduce(total), reduce(weight)
            means.append(mean_of(total, weight))
            weights.append(weight)
        self.coarsest = total
        """Sums of the coarsest level: divided by its weight they are its mean."""
        self.weights = weights
        self.details = [_apart(fine, expand(coarse)) for fine, coarse in pairwise(means)]


def _apart(fine: Float32, made: Float32) -> Float32:
    """Give the difference in the place of what was made."""
    return np.subtract(fine, made, out=made)
