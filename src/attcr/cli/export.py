"""The command that writes networks for other runtimes: export."""

from pathlib import Path
from typing import Annotated

import typer


def export(
    weights: Annotated[
        str, typer.Argument(help="A published name (see attcr weights), a path, hf://OWNER/NAME or URL.")
    ],
    target: Annotated[Path, typer.Argument(help="The file to write: .onnx, or .xml for OpenVINO (with its .bin).")],
) -> None:
    """Write a network as ONNX or for OpenVINO, checked against torch; restore and fleet run it without torch."""
    from attcr.predict.export import export as write

    made = write(weights, target)
    typer.echo(f"{made.path}: {made.bytes / 2**20:.1f} MiB, sha256 {made.sha256}")
    typer.echo(
        f"checked with {made.backend}: differs from torch by {made.error:.1e} of the result's standard deviation, "
        f"at most by {made.largest:.1e} of its largest value"
    )
