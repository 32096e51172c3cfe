"""The `attcr` command. Thin: each command calls one function of the package and prints what it gave."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from attcr import __version__
from attcr.errors import AttcrError

app = typer.Typer(
    name="attcr",
    help="Remove clouds from satellite images with ATT-CR.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"attcr {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Remove clouds from satellite images with ATT-CR."""


@app.command()
def info(
    preset: Annotated[str, typer.Option(help="rice1, rice2, tcloud, sen12mscr, small or tiny.")] = "rice2",
    size: Annotated[int, typer.Option(min=8, help="Height and width of the image in pixels.")] = 256,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print what a network costs: parameters, multiply-adds, stages, memory."""
    from attcr.complexity import measure
    from attcr.model import ATTCRConfig

    cost = measure(ATTCRConfig.preset(preset), size, size)
    if as_json:
        typer.echo(json.dumps({"preset": preset, "size": size, **cost.to_dict()}, indent=2))
        return
    typer.echo(f"{preset} at {size} x {size}")
    typer.echo(f"  parameters      {cost.parameters:,}")
    typer.echo(f"  multiply-adds   {cost.multiply_adds_paper / 1e9:.2f} G as the paper counts (no triangular product)")
    typer.echo(f"                  {cost.multiply_adds / 1e9:.2f} G in truth")
    for number, (channels, height, width) in enumerate(cost.stages, 1):
        typer.echo(f"  stage {number}         {channels} x {height} x {width}")
    typer.echo(f"  activations     {cost.inference_bytes / 2**20:,.0f} MiB at most at once, to restore (float32)")
    typer.echo(f"                  {cost.training_bytes / 2**20:,.0f} MiB kept for one image, to train (float32)")


@app.command()
def convert(
    source: Annotated[Path, typer.Argument(help="The authors' checkpoint, .pth or .safetensors.")],
    target: Annotated[Path, typer.Argument(help="The .safetensors file to write.")],
    heads: Annotated[
        str | None, typer.Option(help="Heads of the five stages, as 2,2,8,2,2: shapes do not tell them.")
    ] = None,
) -> None:
    """Turn a checkpoint of the authors' code into weights that attcr loads."""
    from attcr.errors import ConfigError
    from attcr.weights import convert_official, sha256

    try:
        numbers = tuple(int(number) for number in heads.split(",")) if heads else None
    except ValueError:
        raise ConfigError(f"--heads {heads!r} is not a list of numbers such as 2,2,8,2,2") from None
    model = convert_official(source, target, heads=numbers)
    typer.echo(f"{target}: {sum(p.numel() for p in model.parameters()):,} parameters, sha256 {sha256(target)}")


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True}, add_help_option=False)
def train(context: typer.Context) -> None:
    """Train a network: --config RECIPE --data.root DATA, any field overridden as --model.lr 1e-4; see --help."""
    from attcr.train.run import train as run

    sys.argv = [sys.argv[0]]  # Lightning's parser warns when it sees arguments that it was not given
    run(context.args)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True}, add_help_option=False)
def ablate(context: typer.Context) -> None:
    """Train variants under one budget and compare them: --config small-cpu --data.root DATA; see --help."""
    from attcr.train.ablate import ablate as run

    typer.echo(run(context.args, say=typer.echo).read_text())


def main() -> None:
    """Run the command line; an AttcrError becomes one line on stderr and exit code 2."""
    try:
        app()
    except AttcrError as error:
        typer.echo(f"attcr: {error}", err=True)
        sys.exit(2)
