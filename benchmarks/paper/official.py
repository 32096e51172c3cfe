"""Checkpoints of the authors' code: their key names to ours, the config read off the shapes."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attcr.bands.spec import InputSpec
from attcr.errors import ConfigError, WeightsError
from attcr.files import sha256
from attcr.weights import check_fit, fill, read_metadata, save_model

if TYPE_CHECKING:
    from torch import Tensor

    from attcr.networks.attcr import ATTCR, ATTCRConfig

OFFICIAL_HEADS = (2, 2, 8, 2, 2)
"""Heads of the authors' networks: the one setting that leaves no trace in the shapes."""

_OFFICIAL_STAGES = ("encoder_level1", "encoder_level2", "encoder_level3", "decoder_level3", "decoder_level1")
_OFFICIAL_NAMES = {
    "patch_embed.proj": "embed",
    "down1_2.body.0": "down.0",
    "down2_3.body.0": "down.1",
    "up3_2.body.0": "up.0",
    "up2_1.body.0": "up.1",
    "reduce_chan_level3": "fuse",
    "output": "output",
}
_OFFICIAL_BLOCK_NAMES = {
    "norm1.body": "norm1",
    "norm2.body": "norm2",
    "ffn.project_in": "feed.expand",
    "ffn.dwconv": "feed.spread",
    "ffn.project_out": "feed.shrink",
    "gloabl_attn.query": "attention.query",  # so misspelt in the authors' checkpoints
    "gloabl_attn.proj": "attention.merge",
    "gloabl_attn.output_linear": "attention.out",
    "gloabl_attn.gate.0": "attention.gate.shrink",
    "gloabl_attn.gate.2": "attention.gate.look",
    "gloabl_attn.gate.4": "attention.gate.expand",
}
_OFFICIAL_SCALE = re.compile(r"gloabl_attn\.aggreg\.(\d+)\.([01])")


def from_official(state_dict: Mapping[str, Any], *, heads: tuple[int, ...] = OFFICIAL_HEADS) -> ATTCR:
    """Build the network from a state dict of the authors' code, bare or as {'params': ...}.

    The config is read off the shapes; only the heads cannot be. Every key must be known and every tensor used.
    """
    from torch import Tensor

    from attcr.networks.attcr import ATTCR

    params = state_dict.get("params", state_dict)
    if not isinstance(params, Mapping) or not params or not all(isinstance(t, Tensor) for t in params.values()):
        raise WeightsError("expected a dict of tensors, or {'params': a dict of tensors}, from the authors' code")
    tensors: dict[str, Tensor] = {}
    for key, tensor in params.items():
        tensors[_our_name(key)] = tensor
    model = ATTCR(_infer_config(tensors, heads))
    check_fit(model, {name: tuple(tensor.shape) for name, tensor in tensors.items()}, "the authors' checkpoint")
    fill(model, tensors)
    return model.eval()


def _our_name(key: str) -> str:
    """Our name of one of the authors' keys."""
    place, _, kind = key.removeprefix("module.").rpartition(".")
    stage, _, rest = place.partition(".")
    if place in _OFFICIAL_NAMES and kind == "weight":
        return f"{_OFFICIAL_NAMES[place]}.{kind}"
    if stage in _OFFICIAL_STAGES and kind in ("weight", "bias"):
        block, _, inner = rest.partition(".")
        prefix = f"stages.{_OFFICIAL_STAGES.index(stage)}.{block}"
        if block.isdigit() and inner in _OFFICIAL_BLOCK_NAMES:
            return f"{prefix}.{_OFFICIAL_BLOCK_NAMES[inner]}.{kind}"
        if block.isdigit() and (scale := _OFFICIAL_SCALE.fullmatch(inner)):
            return f"{prefix}.attention.scales.{scale[1]}.{'spread' if scale[2] == '1' else 'project'}.{kind}"
    raise WeightsError(f"key {key!r} is not of the authors' ATT-CR network; only its checkpoints can be converted")


def _infer_config(tensors: Mapping[str, Tensor], heads: tuple[int, ...]) -> ATTCRConfig:
    """Read the config off names and shapes."""
    from attcr.networks.attcr import ATTCRConfig

    try:
        dim, in_channels = tensors["embed.weight"].shape[:2]
        out_channels = tensors["output.weight"].shape[0]
    except (KeyError, ValueError) as error:
        raise WeightsError("the checkpoint has no embedding or output convolution; it is not whole") from error
    blocks, scales = [], []
    for stage in range(len(heads)):
        numbers = {int(name.split(".")[2]) for name in tensors if name.startswith(f"stages.{stage}.")}
        blocks.append(max(numbers, default=-1) + 1)
        prefix = f"stages.{stage}.0.attention.scales."
        count = max(
            (int(name.removeprefix(prefix).split(".")[0]) for name in tensors if name.startswith(prefix)), default=-1
        )
        spreads = (tensors.get(f"{prefix}{i}.spread.weight") for i in range(count + 1))
        scales.append(tuple(1 if kernel is None else kernel.shape[-1] for kernel in spreads))
    try:
        return ATTCRConfig(
            in_channels=in_channels,
            out_channels=out_channels,
            residual=tuple(range(in_channels - out_channels, in_channels)),  # the authors add to the last channels
            dim=dim,
            blocks=tuple(blocks),
            heads=heads,
            scales=tuple(scales),
            gate="stages.0.0.attention.gate.look.weight" in tensors,
        )
    except ConfigError as error:
        raise WeightsError(f"the checkpoint's shapes give no ATT-CR network: {error}") from error


def convert_official(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    spec: InputSpec,
    heads: tuple[int, ...] | None = None,
) -> ATTCR:
    """Read a checkpoint of the authors' code and save it as ours.

    `source` is .pth or safetensors with their key names. `spec` says what it was trained on, which the checkpoint does
    not: `attcr.data.DATASETS[name].spec`. Heads are taken from the call, from a `config` in the file's metadata, or are
    the authors' own, in this order.
    """
    path = Path(source)
    state, metadata = read_checkpoint(path)
    try:
        model = from_official(state, heads=heads or _heads_in(metadata))
    except WeightsError as error:
        raise WeightsError(f"{path}: {error}") from error
    save_model(model, target, spec=spec, provenance={"converted_from": path.name, "sha256": sha256(path)})
    model.spec = spec  # type: ignore[assignment]
    return model


def read_checkpoint(path: Path) -> tuple[Mapping[str, Any], dict[str, str]]:
    """Read a checkpoint's tensors, and its metadata where it has some; nothing in it is run."""
    import safetensors.torch
    import torch

    if not path.is_file():
        raise WeightsError(f"{path}: no such file")
    if path.suffix == ".safetensors":
        metadata = read_metadata(path)
        return safetensors.torch.load_file(path), metadata
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises UnpicklingError, RuntimeError, EOFError, ... for a bad file
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise WeightsError(f"{path}: not a checkpoint that torch loads with weights_only=True ({reason})") from error
    if not isinstance(state, Mapping):
        raise WeightsError(f"{path}: holds a {type(state).__name__}; expected a dict of tensors")
    return state, {}


def _heads_in(metadata: Mapping[str, str]) -> tuple[int, ...]:
    try:
        return tuple(json.loads(metadata.get("config", "{}")).get("heads", OFFICIAL_HEADS))
    except (json.JSONDecodeError, AttributeError, TypeError):
        return OFFICIAL_HEADS
