"""Commands about weights: export, weights."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from attcr.cli.arguments import Bands, OnlyJson, Sensor, option
from attcr.cli.voice import as_flags, quiet_rasterio
from attcr.errors import ConfigError

_SCENE = "A scene: say which weights fit it, and why others do not; repeat for band files."


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
