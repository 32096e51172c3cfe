"""The command that writes networks for other programs: export."""

from pathlib import Path
from typing import Annotated

import typer


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
