"""The command that trains: train."""

import typer


def train(context: typer.Context) -> None:
    """Train a network: --config RECIPE --data.root DATA; change any field, such as --model.lr 1e-4 (see --help)."""
    from attcr.train.run import train as run

    run(context.args)
