"""Commands about networks and weights: info, convert, export, weights."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from attcr.cli.arguments import Bands, OnlyJson, Sensor, option, read_settings
from attcr.cli.voice import as_flags, quiet_rasterio
from attcr.errors import ConfigError

_PRESET = "Of ATT-CR: rice1, rice2 (the default), tcloud, sen12mscr, small or tiny."
_SETTINGS = "A setting of the network, such as dim=16; may be repeated."
_TRAINED_ON = "The data it was trained on, which decides its bands: {datasets}."
_HEADS = "Heads of the five stages, such as 2,2,8,2,2: the shapes do not show them."
_SCENE = "A scene: say which weights fit it, and why others do not; repeat for band files."


def info(
    preset: Annotated[str | None, option("NAME", _PRESET)] = None,
    network: Annotated[str, option("NAME", "{networks}.")] = "attcr",
    settings: Annotated[list[str] | None, option("NAME=VALUE", _SETTINGS, "--set")] = None,
    size: Annotated[int, option("PIXELS", "Height and width of the image in pixels.", min=8)] = 256,
    as_json: OnlyJson = False,
) -> None:
    """Print what a network costs: parameters, multiply-adds, stages, memory."""
    from attcr.networks import NETWORKS, make_config
    from attcr.networks.attcr import ATTCRConfig
    from attcr.networks.complexity import measure

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
    from attcr.data import find_set
    from attcr.files import sha256
    from attcr.weights.official import convert_official

    try:
        numbers = tuple(int(number) for number in heads.split(",")) if heads else None
    except ValueError:
        raise ConfigError(f"--heads {heads!r} is not a list of numbers such as 2,2,8,2,2") from None
    model = convert_official(source, target, spec=find_set(data).spec, heads=numbers)
    typer.echo(f"{target}: {sum(p.numel() for p in model.parameters()):,} parameters, sha256 {sha256(target)}")


def export(
    weights: Annotated[
        str, typer.Argument(help="A published name (see attcr weights), a path, hf://OWNER/NAME or URL.")
    ],
    target: Annotated[Path, typer.Argument(help="The .onnx file to write.")],
) -> None:
    """Write a network as ONNX, checked against torch; restore and fleet run it without torch."""
    from attcr.predict.export import export as write

    made = write(weights, target)
    typer.echo(f"{made.path}: {made.bytes / 2**20:.1f} MiB, sha256 {made.sha256}")
    typer.echo(
        f"checked with onnxruntime: differs from torch by {made.error:.1e} of the result's standard deviation, "
        f"at most by {made.largest:.1e} of its largest value"
    )


def weights(
    name: Annotated[str | None, typer.Argument(help="Show everything about these weights.")] = None,
    scene: Annotated[list[str] | None, option("SCENE", _SCENE, "--for")] = None,
    sensor: Sensor = None,
    bands: Bands = None,
    as_json: OnlyJson = False,
) -> None:
    """List the weights in the package: purpose, size, scores; with a NAME everything about one of them."""
    from attcr.weights import published

    if scene:
        _which_weights(scene, sensor, bands, as_json)
        return

    table = published()
    if name is not None and name not in table:
        raise ConfigError(f"no published weights {name!r}; there are {', '.join(table)}")
    chosen = [table[name]] if name else list(table.values())
    if as_json:
        typer.echo(json.dumps([asdict(entry) for entry in chosen], indent=2))
        return
    for entry in chosen:
        typer.echo(f"{entry.name}  {entry.bytes / 2**20:.1f} MiB  {entry.purpose}")
        for score in entry.scores:
            typer.echo(f"    {score.benchmark}, {score.protocol}: {score}")
        if name:
            for field in ("sensor", "data", "training", "licence", "sha256", "commit"):
                typer.echo(f"    {field}: {getattr(entry, field)}")
            for limit in entry.limits:
                typer.echo(f"    not for: {limit}")


def _which_weights(scene: list[str], sensor: str | None, bands: str | None, as_json: bool) -> None:
    from attcr.restore.look import which_weights

    quiet_rasterio()
    fits = which_weights(scene, sensor=sensor, bands=bands)
    if as_json:
        typer.echo(json.dumps([asdict(fit) for fit in fits], indent=2))
        return
    if len({fit.reason for fit in fits}) == 1:
        typer.echo(f"No published weights fit. {as_flags(fits[0].reason)}")
        return
    for fit in fits:
        told = f"fits. {fit.reason[0].upper()}{fit.reason[1:]}" if fit.fits else f"does not fit. {fit.reason}"
        typer.echo(f"{fit.weights}: {as_flags(told)}")
