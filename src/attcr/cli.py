"""The `attcr` command. Thin: each command calls one function of the package and prints what it gave."""

import math
import sys
from pathlib import Path
from typing import Annotated

import typer

from attcr import __version__
from attcr.errors import AttcrError, ConfigError

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
def evaluate(
    data: Annotated[str, typer.Option(help="rice1, rice2, tcloud, sen12mscr, or pairs (ROOT/cloudy, ROOT/clear).")],
    root: Annotated[Path, typer.Option(help="The folder that holds the data set.")],
    out: Annotated[Path, typer.Option(help="The report folder; part of the same evaluation is gone on with.")],
    weights: Annotated[list[Path] | None, typer.Option(help="Weights to evaluate; may be given again.")] = None,
    predictions: Annotated[
        list[Path] | None, typer.Option(help="A folder of restored images, named as the data's; may be given again.")
    ] = None,
    baseline: Annotated[str | None, typer.Option(help="Evaluate nothing but a baseline: copy or mean-colour.")] = None,
    split: Annotated[str, typer.Option(help="train, val or test.")] = "test",
    protocol: Annotated[
        list[str] | None, typer.Option(help="A protocol, may be given again; by default the paper's for this data.")
    ] = None,
    device: Annotated[str, typer.Option(help="Where networks run: cpu, cuda, cuda:1, ...")] = "cpu",
) -> None:
    """Score weights, or stored predictions, under named protocols and write a report folder.

    The first method is reported on in full; others given, and the trivial baselines, stand beside it.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from attcr import evaluate as evaluation

    baselines = {"copy": evaluation.COPY, "mean-colour": evaluation.MEAN_COLOUR}
    if bool(weights or predictions) == (baseline is not None) or (baseline and baseline not in baselines):
        raise ConfigError("give what to evaluate: --weights or --predictions, or else --baseline copy or mean-colour.")
    benchmark = evaluation.open_benchmark(data, root, split)
    methods = [evaluation.method_from_weights(path, device=device) for path in weights or ()]
    methods += [evaluation.method_from_predictions(path, benchmark) for path in predictions or ()]
    if baseline:
        methods = [baselines[baseline]]
    published = evaluation.PUBLISHED.get(data)
    names = protocol or [published.protocol if published else "standard"]
    columns = (TextColumn(f"{data} {split}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns) as bar:
        task = bar.add_task("", total=None)
        report = evaluation.evaluate(
            benchmark, methods, names, out, progress=lambda done, total: bar.update(task, completed=done, total=total)
        )
    for name, result in report["protocols"].items():
        means = {method: entries["psnr"]["mean"] for method, entries in result["methods"].items()}
        typer.echo(
            f"{name}: PSNR " + ", ".join(f"{method} {mean or math.inf:.2f} dB" for method, mean in means.items())
        )
    typer.echo(f"{out / 'report.md'}")


def main() -> None:
    """Run the command line; an AttcrError becomes one line on stderr and exit code 2."""
    try:
        app()
    except AttcrError as error:
        typer.echo(f"attcr: {error}", err=True)
        sys.exit(2)
