"""What a predictor is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from attcr.spec import InputSpec

Float32 = NDArray[np.float32]


@runtime_checkable
class Predictor(Protocol):
    """A network ready to be asked. Several threads may call it at once."""

    @property
    def spec(self) -> InputSpec:
        """What it takes and gives."""

    @property
    def identity(self) -> Mapping[str, str]:
        """All that decides its numbers: the weights' sha256, what computes, in which type, by which operator."""

    def __call__(self, x: Float32) -> Float32:
        """Give (B, outputs, H, W) for (B, slots, H, W), both in the network's range; H and W are at least 8.

        Where the network changes nothing, the band's plane comes back to the bit. With `spec.spread`, a plane for each
        band follows: the logarithm of its expected absolute error.
        """
