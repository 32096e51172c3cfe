"""What a network of any bands makes of an image, as it ships, and how good that is."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attcr.bands.sensors import S2_COMMON
from attcr.predict import Float32, Predictor

Figures = dict[str, dict[str, float]]
"""What was measured, by name: each some numbers with their own names."""
Array = NDArray[Any]


class Restored(NamedTuple):
    """An image without cloud, and how far it may be off."""

    image: Float32
    """(13, H, W) reflectance; bands that were not there are meaningless."""
    scale: Float32
    """(13, H, W): within it 68 % of the absolute errors are to lie."""


class Restorer:
    """Images of any of the 13 bands, in reflectance, through a predictor."""

    def __init__(self, predictor: Predictor) -> None:
        spec = predictor.spec
        if spec.outputs != S2_COMMON or not spec.spread or not spec.of_kind("present"):
            raise SystemExit(
                f"the weights give {' '.join(spec.outputs)}: weights of attcr.bands.spec.ANY_BANDS are expected"
            )
        self.predictor = predictor
        self._bands = spec.positions(S2_COMMON)
        self._present = spec.positions(f"present:{name}" for name in S2_COMMON)
        self._level = spec.positions(["level:surface"])
        self._unit = (spec.bands[0].high - spec.bands[0].low) / spec.span  # reflectance of the network's 1

    def __call__(self, pixels: Array, have: Sequence[int], *, surface: bool) -> Restored:
        """Restore (13, H, W) reflectance of which the bands `have` are there."""
        spec, some = self.predictor.spec, list(have)
        x = np.zeros((1, len(spec.slots), *pixels.shape[1:]), np.float32)
        low, high = spec.bands[0].low, spec.bands[0].high
        x[0, [self._bands[band] for band in some]] = (np.clip(pixels[some], low, high) - low) / self._unit
        x[0, [self._present[band] for band in some]] = 1
        x[0, self._level] = float(surface)
        y = self.predictor(x)[0]
        count = len(S2_COMMON)
        scale = np.exp(np.clip(y[count:], -20, 5)) * np.float32(self._unit * spec.spread_factor)
        scale = np.hypot(scale, np.float32(spec.spread_floor))
        return Restored(y[:count] * np.float32(self._unit) + np.float32(low), scale)


def decibels(a: Array, b: Array) -> float:
    """Give the PSNR of reflectance, whose peak is 1."""
    return float(-10 * np.log10(np.mean((a - b) ** 2)))


def distance(a: Array, b: Array) -> float:
    """Give the mean absolute error."""
    return float(np.abs(a - b).mean())


class Certainty:
    """Whether the predicted scale can be believed, over several images."""

    def __init__(self) -> None:
        self._values: list[Array] = []
        self._errors: list[Array] = []
        self._scales: list[Array] = []

    def add(self, error: Array, scale: Array) -> None:
        """Take in the absolute errors and scales of an image: (bands, pixels) each."""
        self._values.append(np.stack([error.ravel()[::7], scale.ravel()[::7]]))
        self._errors.append(error.mean(axis=0).ravel())
        self._scales.append(scale.mean(axis=0).ravel())

    @property
    def ratios(self) -> Array:
        """Errors in units of the scale, every seventh."""
        errors, scales = np.concatenate(self._values, axis=1)
        return np.asarray(errors / scales)

    def figures(self) -> dict[str, float]:
        """Give the share of errors within the scale, and how much less the error is without the least certain fifth."""
        return {"within": float((self.ratios < 1).mean()), "less": 1 - float(self.without([0.2])[0])}

    def without(self, shares: Sequence[float]) -> Array:
        """Give the mean error without these shares of the pixels, the least certain, as a share of that of all."""
        errors, scales = np.concatenate(self._errors), np.concatenate(self._scales)
        kept = [errors[scales <= np.quantile(scales, 1 - share)].mean() for share in shares]
        return np.asarray(np.array(kept) / errors.mean())

    def curve(self, bins: int = 12) -> Array:
        """Give (2, bins) of the values ordered by scale: the mean scale, and the error that 68 % are within."""
        errors, scales = np.concatenate(self._values, axis=1)
        parts = np.array_split(np.argsort(scales), bins)
        pairs = [[scales[part].mean(), np.quantile(errors[part], 0.68)] for part in parts]
        return np.asarray(np.array(pairs).T)
