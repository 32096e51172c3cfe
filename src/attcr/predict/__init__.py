"""Predictors: what `restore` and `evaluate` run on, whatever computes it. Nothing here needs torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from attcr.errors import ConfigError
from attcr.spec import InputSpec

if TYPE_CHECKING:
    from torch import nn

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

        Where the network changes nothing, the band's plane comes back to the bit. With `spec.spread`, the planes of
        the spread follow those of the bands.
        """


def open_predictor(
    source: str | Path | nn.Module | Predictor, *, device: str = "cpu", dtype: str = "float32"
) -> Predictor:
    """Give the predictor of weights (a published name, a path, hf:// or a URL), of a module, or the one that came.

    A module says by its `spec` what it takes, as one from `load_model` does. It is never changed: where it is in
    training mode, on another device or of another type, a copy is used.
    """
    if isinstance(source, (str, Path)):
        from attcr.predict.torch import TorchPredictor

        return TorchPredictor.from_weights(source, device=device, dtype=dtype)
    if isinstance(source, Predictor) and not hasattr(source, "state_dict"):
        return source
    if hasattr(source, "state_dict"):
        from attcr.predict.torch import TorchPredictor

        return TorchPredictor(cast("nn.Module", source), device=device, dtype=dtype)
    raise ConfigError(
        f"{type(source).__name__} is no predictor: give the name or path of weights, a module, or what has a spec, an "
        "identity and can be called."
    )
