"""Commands that train: train, ablate."""

import typer


def train(context: typer.Context) -> None:
    """Train a network: --config RECIPE --data.root DATA, any field overridden as --model.lr 1e-4; see --help."""
    from attcr.train.run import train as run

    run(context.args)


def ablate(context: typer.Context) -> None:
    """Train variants under one budget and compare them: --config small-cpu --data.root DATA; see --help."""
    from attcr.paper.ablate import ablate as run

    typer.echo(run(context.args, say=typer.echo).read_text())
