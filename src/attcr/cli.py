"""The `attcr` command. Thin: each command calls one function of the package and prints what it gave."""

import sys
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


def main() -> None:
    """Run the command line; an AttcrError becomes one line on stderr and exit code 2."""
    try:
        app()
    except AttcrError as error:
        typer.echo(f"attcr: {error}", err=True)
        sys.exit(2)
