"""The `attcr` command. Thin: each command calls one function of the package and prints what it gave."""

import sys
from typing import Annotated

import typer

from attcr.cli.arguments import Naming, NamingGroup
from attcr.cli.cubes import composite, cube
from attcr.cli.data import evaluate
from attcr.cli.fleet import fleet
from attcr.cli.scenes import demo, restore
from attcr.cli.serve import serve
from attcr.cli.threads import keep_memory, spare_the_cores
from attcr.cli.training import train
from attcr.cli.voice import exit_code, one_line
from attcr.cli.weights import export, weights
from attcr.errors import AttcrError
from attcr.extras import missing
from attcr.version import __version__

app = typer.Typer(
    name="attcr",
    help="Remove clouds from satellite images with ATT-CR.",
    no_args_is_help=True,
    cls=NamingGroup,
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

for command in (demo, restore, cube, composite, weights, evaluate, export, serve):
    app.command(cls=Naming)(command)
app.command(cls=Naming, context_settings=_PASSED_ON, add_help_option=False)(train)
app.add_typer(fleet, name="fleet")

NO_TORCH = (
    "torch is not installed, and this needs it: pip install torch. `restore`, `fleet`, `serve` and `evaluate` run "
    "without it, except for the protocol standard."
)


def main() -> None:
    """Run the command line; an AttcrError becomes one line on stderr and exit code 2, or 4 where all is cloud."""
    spare_the_cores()
    keep_memory()
    fleet_asked = sys.argv[1:2] == ["fleet"]
    try:
        app()
    except AttcrError as error:
        typer.echo(f"attcr: {one_line(error, fleet=fleet_asked)}", err=True)
        sys.exit(exit_code(error))
    except ModuleNotFoundError as error:
        told = NO_TORCH if error.name == "torch" else missing(error.name or "")
        if told is None:
            raise
        typer.echo(f"attcr: {told}", err=True)
        sys.exit(2)
