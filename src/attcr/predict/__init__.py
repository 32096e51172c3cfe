"""Predictors: what `restore` and `evaluate` run on, whatever computes it. Nothing here needs torch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from attcr.errors import ConfigError
from attcr.predict.predictor import Float32, Predictor

if TYPE_CHECKING:
    from torch import nn

__all__ = ["Float32", "Predictor", "open_predictor"]


def open_predictor(
    source: str | Path | nn.Module | Predictor, *, device: str = "cpu", dtype: str = "float32", threads: int = 0
) -> Predictor:
    """Give the predictor of weights (a published name, a path, hf:// or a URL), of a module, or the one that came.

    A module says by its `spec` what it takes, as one from `load_model` does. It is never changed: where it is in
    training mode, on another device or of another type, a copy is used. `threads` are those of this process; 0 leaves
    them to the library.
    """
    if isinstance(source, (str, Path)):
        from attcr.predict.torch import TorchPredictor

        return TorchPredictor.from_weights(source, device=device, dtype=dtype, threads=threads)
    if isinstance(source, Predictor) and not hasattr(source, "state_dict"):
        return source
    if hasattr(source, "state_dict"):
        from attcr.predict.torch import TorchPredictor

        return TorchPredictor(cast("nn.Module", source), device=device, dtype=dtype, threads=threads)
    raise ConfigError(
        f"{type(source).__name__} is no predictor: give the name or path of weights, a module, or what has a spec, an "
        "identity and can be called."
    )
