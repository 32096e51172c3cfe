"""Small networks with weights on disk, for the tests of what runs them."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attcr import ATTCR, ATTCRConfig
from attcr.bands.spec import TRUE_COLOUR, InputSpec
from attcr.weights import save_model

SETTINGS: dict[str, Any] = {
    "dim": 8,
    "blocks": (1, 2, 1, 1, 1),
    "heads": (2, 2, 4, 2, 2),
    "scales": ((3, 5), (1,), (1, 3), (3,), (1,)),
}


def save_small(folder: Path, *, spec: InputSpec = TRUE_COLOUR, **settings: Any) -> Path:
    """Write a network of random numbers, large enough to matter, and give its file."""
    torch.manual_seed(0)
    planes = {"in_channels": len(spec.slots), "out_channels": len(spec.outputs) * (2 if spec.spread else 1)}
    network = ATTCR(ATTCRConfig(**{**SETTINGS, **planes, **settings}))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(parameter + 0.1 * torch.randn(parameter.shape))
    path = folder / "small.safetensors"
    save_model(network, path, spec=spec, provenance={"made": "by a test"})
    return path


WITH_SPREAD = replace(TRUE_COLOUR, spread=True)


def image(planes: int = 3, height: int = 21, width: int = 34, batch: int = 1) -> np.ndarray:
    return np.random.default_rng(height).random((batch, planes, height, width), np.float32)


def relative(got: np.ndarray, expected: np.ndarray) -> float:
    """Root mean square of the difference over the expected's standard deviation."""
    return float(np.sqrt(((got - expected.astype(np.float64)) ** 2).mean()) / expected.std())


@dataclass(frozen=True)
class BlendConfig:
    """A network of one layer."""

    in_channels: int = 4
    out_channels: int = 3


class Blend(nn.Module):
    """Each pixel from its own planes."""

    def __init__(self, config: BlendConfig) -> None:
        super().__init__()
        self.config = config
        self.layer = nn.Conv2d(config.in_channels, config.out_channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        return x[:, : self.config.out_channels] + self.layer(x)
