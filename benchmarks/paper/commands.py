"""The commands of the paper's tables: what a network costs, and the authors' checkpoints."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from attcr.cli.arguments import OnlyJson, option, read_settings
from attcr.data import find_set
from attcr.errors import ConfigError
from attcr.files import sha256
from attcr.networks import NETWORKS, make_config
from attcr.networks.attcr import ATTCRConfig

from .complexity import measure
from .official import convert_official

_PRESET = "Of ATT-CR: rice1, rice2 (the default), tcloud, sen12mscr, small or tiny."
_SETTINGS = "A setting of the network, such as dim=16; may be repeated."
_TRAINED_ON = "The data it was trained on, which decides its bands: {datasets}."
_HEADS = "Heads of the five stages, such as 2,2,8,2,2: the shapes do not show them."


def info(
    preset: Annotated[str | None, option("NAME", _PRESET)] = None,
    network: Annotated[str, option("NAME", "{networks}.")] = "attcr",
    settings: Annotated[list[str] | None, option("NAME=VALUE", _SETTINGS, "--set")] = None,
    size: Annotated[int, option("PIXELS", "Height and width of the image in pixels.", min=8)] = 256,
    as_json: OnlyJson = False,
) -> None:
    """Print what a network costs: parameters, multiply-adds, stages, memory."""
    chosen: dict[str, Any] = {}
    if network in NETWORKS and issubclass(NETWORKS[network].config, ATTCRConfig):
        preset = preset or "rice2"
        chosen = asdict(ATTCRConfig.preset(preset))
    elif preset is not None:
        raise ConfigError(f"--preset {preset} is of ATT-CR and has no effect on {network}: leave it out")
    cost = measure(make_config(network, {**chosen, **read_settings(settings or [])}), size, size)
    name = " ".join([*([] if network == "attcr" else [network]), *([preset] if preset else []), *(settings or [])])
    if as_json:
        about = {"network": network, "preset": preset, "settings": settings or [], "size": size}
        typer.echo(json.dumps({**about, **asdict(cost)}, indent=2))
        return
    typer.echo(f"{name} at {size} x {size}")
    typer.echo(f"  parameters      {cost.parameters:,}")
    if cost.multiply_adds_paper == cost.multiply_adds:
        typer.echo(f"  multiply-adds   {cost.multiply_adds / 1e9:.2f} G")
    else:
        counted = f"{cost.multiply_adds_paper / 1e9:.2f} G as the paper counts (no triangular product)"
        typer.echo(
            f"  multiply-adds   {counted}\n"
            f"                  {cost.multiply_adds / 1e9:.2f} G with the triangular product"
        )
    for number, (channels, height, width) in enumerate(cost.stages, 1):
        typer.echo(f"  stage {number}         {channels} x {height} x {width}")
    typer.echo(f"  activations     {cost.inference_bytes / 2**20:,.0f} MiB at the peak, to restore (float32)")
    typer.echo(f"                  {cost.training_bytes / 2**20:,.0f} MiB kept for one image, to train (float32)")


def convert(
    source: Annotated[Path, typer.Argument(help="The authors' checkpoint, .pth or .safetensors.")],
    target: Annotated[Path, typer.Argument(help="The .safetensors file to write.")],
    data: Annotated[str, option("NAME", _TRAINED_ON)],
    heads: Annotated[str | None, option("NUMBERS", _HEADS)] = None,
) -> None:
    """Turn a checkpoint of the authors' code into weights that attcr loads."""
    try:
        numbers = tuple(int(number) for number in heads.split(",")) if heads else None
    except ValueError:
        raise ConfigError(f"--heads {heads!r} is not a list of numbers such as 2,2,8,2,2") from None
    model = convert_official(source, target, spec=find_set(data).spec, heads=numbers)
    typer.echo(f"{target}: {sum(p.numel() for p in model.parameters()):,} parameters, sha256 {sha256(target)}")
