"""What a predictor is, and what all of them do to images around their networks."""

from collections.abc import Callable, Mapping
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from attcr.bands.spec import InputSpec
from attcr.errors import SceneError, ShapeError
from attcr.weights import WeightsHeader

Float32 = NDArray[np.float32]
MULTIPLE = 4
"""What the height and width of images that go into a graph are multiples of."""
SMALLEST = 8
"""Pixels along an image, at least."""
NEIGHBOURHOOD = 129
"""Pixels along the square over which the rules of `as_a_veil` look."""
EVEN, TEXTURED = 1.5 / 255, 2.5 / 255
"""Standard deviation, of the network's range, up to which a neighbourhood has no texture, and from which it has."""


@runtime_checkable
class Predictor(Protocol):
    """A network that is ready to run. Several threads may call it at once."""

    @property
    def spec(self) -> InputSpec:
        """What it takes and gives."""

    @property
    def identity(self) -> Mapping[str, str]:
        """Everything that decides its results: sha256 of the weights, backend, number type, operator."""

    def __call__(self, x: Float32) -> Float32:
        """Give (B, outputs, H, W) for (B, slots, H, W), both in the network's range; H and W are at least 8.

        Where the network changes nothing, the band's plane comes back to the bit. With `spec.spread`, a plane for each
        band follows: the logarithm of its expected absolute error.
        """


def eight_views(predict: Callable[[Float32], Float32], x: Float32) -> Float32:
    """Give what `predict` makes of `x` (B, C, H, W) and of its seven other flips and turns, each turned back.

    The first of the (8, B, C, H, W) is that of `x` as it is.
    """
    views = []
    for flip in (False, True):
        for turns in range(4):
            seen = np.rot90(x[..., ::-1] if flip else x, turns, (2, 3))
            back = np.rot90(predict(np.ascontiguousarray(seen)), -turns, (2, 3))
            views.append(back[..., ::-1] if flip else back)
    return np.stack(views)


def run_padded(x: Float32, header: WeightsHeader, run: Callable[[Float32], Float32]) -> Float32:
    """Give (B, outputs, H, W) for (B, slots, H, W) by `run`, which gives the change for sizes of whole multiples.

    The rest is filled by reflection, as the network itself does. The change is added here, in float32, so that where
    it is 0 the input comes back to the bit in whatever type the network computes.
    """
    planes = len(header.spec.slots)
    if x.ndim != 4 or x.shape[1] != planes or min(x.shape[2:]) < SMALLEST:
        raise ShapeError(f"input came as {x.shape}; expected (B, {planes}, H, W) with H, W >= {SMALLEST}")
    height, width = x.shape[2:]
    margins = ((0, 0), (0, 0), (0, -height % MULTIPLE), (0, -width % MULTIPLE))
    change = run(np.ascontiguousarray(np.pad(x, margins, mode="reflect"), np.float32))
    y: Float32 = np.array(change[:, :, :height, :width], np.float32)
    expected = (x.shape[0], len(header.spec.outputs) * (2 if header.spec.spread else 1), height, width)
    if y.shape != expected:
        raise ShapeError(f"The network gave {y.shape} for {x.shape}; expected {expected}.")
    residual = list(header.config["residual"])
    y[:, : len(residual)] += x[:, residual]
    return as_a_veil(header.spec, x, y)


class GraphPredictor:
    """What predictors of ONNX models have in common; `_change` gives what the network adds to its input."""

    def __init__(self, header: WeightsHeader, identity: Mapping[str, str]) -> None:
        self._header, self.identity = header, identity
        self.spec: InputSpec = header.spec

    def __call__(self, x: Float32) -> Float32:
        """Give (B, outputs, H, W) for (B, slots, H, W)."""
        return run_padded(x, self._header, self._change)

    def _change(self, x: Float32) -> Float32:
        raise NotImplementedError


def gave_up(library: str, x: Float32, error: Exception) -> SceneError:
    """Give the error of a run that a library did not finish."""
    return SceneError(
        f"{library} gave up on {x.shape[0]} tiles of {x.shape[3]} x {x.shape[2]}: {first_line(error)}. "
        "If memory ran out, use a smaller batch or tile."
    )


def as_a_veil(spec: InputSpec, x: Float32, y: Float32) -> Float32:
    """Give the predictor's result `y` for `x`, where only light is removed, by two rules of what a veil can be.

    A veil adds light, of one colour. What is brighter than the veil (a desert's red) may rise as the veil goes, but
    not all bands at once. So of the mean changes over a neighbourhood the least is taken off all bands where it is
    above 0.

    A veil shows by the contrast that it takes away. A neighbourhood without texture (open sea) has none to tell it
    from the ground's own colour, and stays as it is. The rest stays as predicted, to the bit.
    """
    if not spec.only_light:
        return y
    bands, seen = len(spec.outputs), x[:, spec.optical]
    gain = np.maximum(_box_mean(y[:, :bands] - seen).min(axis=1, keepdims=True), 0)
    lowered = y[:, :bands] - gain
    contrast = np.sqrt(np.maximum(_box_mean(seen**2) - _box_mean(seen) ** 2, 0)).max(axis=1, keepdims=True)
    share = np.clip((contrast - EVEN) / (TEXTURED - EVEN), 0, 1)
    result: Float32 = y.copy()
    result[:, :bands] = np.where(share < 1, seen + share * (lowered - seen), lowered)
    return result


def _box_mean(planes: Float32) -> Float32:
    """Give the mean over NEIGHBOURHOOD x NEIGHBOURHOOD pixels around each; the image's edge is repeated outside."""
    for axis in (2, 3):
        reach = [(0, 0)] * planes.ndim
        reach[axis] = (NEIGHBOURHOOD // 2 + 1, NEIGHBOURHOOD // 2)
        sums = np.cumsum(np.pad(planes, reach, mode="edge"), axis=axis, dtype=np.float64)
        size = planes.shape[axis]
        last = np.take(sums, range(NEIGHBOURHOOD, NEIGHBOURHOOD + size), axis)
        planes = ((last - np.take(sums, range(size), axis)) / NEIGHBOURHOOD).astype(np.float32)
    return planes


def first_line(error: Exception) -> str:
    """Give what a library says in one line, without the places in its own code."""
    lines = [line.strip() for line in str(error).splitlines()]
    return next((line for line in lines if line and not line.startswith("Exception from")), type(error).__name__)[:300]
