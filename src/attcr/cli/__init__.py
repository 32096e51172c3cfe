"""The `attcr` command. Thin: each command calls one function of the package and prints what it gave."""

import sys
from typing import Annotated

import typer

from attcr import __version__
from attcr.cli.arguments import Naming
from attcr.cli.bench import bench
from attcr.cli.data import audit, evaluate
from attcr.cli.export import export
from attcr.cli.fleet import fleet
from attcr.cli.networks import convert, gates, info, weights
from attcr.cli.scenes import demo, restore
from attcr.cli.training import ablate, train
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


_PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True}

app.command()(demo)
app.command()(restore)
app.command()(weights)
app.add_typer(fleet, name="fleet")
app.command(cls=Naming)(evaluate)
app.command(cls=Naming)(audit)
app.command(context_settings=_PASSED_ON, add_help_option=False)(train)
app.command(context_settings=_PASSED_ON, add_help_option=False)(ablate)
app.command()(gates)
app.command(cls=Naming)(info)
app.command(cls=Naming)(convert)
app.command()(export)
app.command()(bench)


def main() -> None:
    """Run the command line; an AttcrError becomes one line on stderr and exit code 2."""
    try:
        app()
    except AttcrError as error:
        typer.echo(f"attcr: {' '.join(str(error).split())}", err=True)  # a file's name may hold a line break
        sys.exit(2)
