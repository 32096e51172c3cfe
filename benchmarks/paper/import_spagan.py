"""SpA-GAN's published weights as a weights file of attcr's.

python -m benchmarks.paper.import_spagan RICE2.pth SpA-GAN.safetensors --data rice2
"""

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from attcr.bands.spec import InputSpec
from attcr.data import find_set
from attcr.errors import WeightsError
from attcr.files import sha256
from attcr.weights import check_fit, fill, save_model

from .official import read_checkpoint
from .spagan import SpAGAN, SpAGANConfig

PREFIX, UNUSED = "gen.gen.", ("SAM1.conv_in.", "SAM1.attention_layer.")


def import_spagan(source: str | os.PathLike[str], target: str | os.PathLike[str], spec: InputSpec) -> SpAGAN:
    """Read a checkpoint of SpA-GAN's authors, and save it with what it was trained on."""
    state, _ = read_checkpoint(Path(source))
    model = from_spagan(state)
    save_model(model, target, spec=spec, provenance={"converted_from": Path(source).name, "sha256": sha256(source)})
    return model


def from_spagan(state_dict: Mapping[str, Any]) -> SpAGAN:
    """Build the generator from its published weights; two layers that it does not use are left out."""
    if not state_dict or not all(isinstance(tensor, Tensor) for tensor in state_dict.values()):
        raise WeightsError("expected a dict of tensors, as SpA-GAN's authors published")
    named = {name.removeprefix(PREFIX): tensor for name, tensor in state_dict.items()}
    tensors = {name: tensor for name, tensor in named.items() if not name.startswith(UNUSED)}
    if "conv_in.0.weight" not in tensors:
        raise WeightsError("no tensor conv_in.0.weight; only SpA-GAN's generator can be imported")
    model = SpAGAN(SpAGANConfig(width=tensors["conv_in.0.weight"].shape[0]))
    check_fit(model, {name: tuple(tensor.shape) for name, tensor in tensors.items()}, "SpA-GAN's checkpoint")
    fill(model, tensors)
    return model.eval()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--data", required=True, help="the data it was trained on: rice1 or rice2")
    asked = parser.parse_args()
    import_spagan(asked.source, asked.target, find_set(asked.data).spec)
