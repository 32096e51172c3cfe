"""Commands about scenes: restore, demo."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attcr.cli.arguments import (
    Backend,
    Bands,
    Confidence,
    Dilate,
    Feather,
    Mask,
    Nodata,
    Paths,
    Radar,
    ReferenceMask,
    References,
    Sensor,
    Unseen,
    WeightsThatFit,
)
from attcr.cli.voice import duration, progress_bar, quiet_rasterio
from attcr.errors import ConfigError

if TYPE_CHECKING:
    from attcr.restore import RestoreOptions


def demo(
    folder: Annotated[Path, typer.Argument(help="Where to make the folder attcr-demo.")] = Path(),
) -> None:
    """Remove simulated cloud from a small drawn scene: no data, no network, under two minutes."""
    from attcr.demo import run_demo

    with progress_bar() as show:
        shown = run_demo(folder, progress=show)
    typer.echo(f"mean error under the cloud: {shown.error_before:.3f} before, {shown.error_after:.3f} after")
    typer.echo(f"look at {shown.picture}")
    typer.echo("Now with an image of yours:")
    for command in shown.commands:
        typer.echo(f"  {command}")


def restore(
    paths: Paths,
    weights: WeightsThatFit = None,
    mask: Mask = None,
    unseen: Unseen = "keep",
    sensor: Sensor = None,
    bands: Bands = None,
    sar: Radar = None,
    nodata: Nodata = None,
    dilate: Dilate = 8,
    feather: Feather = 8,
    confidence: Confidence = False,
    reference: References = None,
    reference_mask: ReferenceMask = None,
    tile: Annotated[int, typer.Option(help="Pixels along a tile.")] = 256,
    overlap: Annotated[int, typer.Option(help="Pixels that neighbouring tiles share.")] = 32,
    batch: Annotated[int, typer.Option(help="Tiles through the network at once.")] = 1,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps.")] = "cpu",
    dtype: Annotated[str, typer.Option(help="float32, bfloat16 or float16.")] = "float32",
    backend: Backend = "auto",
    vrt: Annotated[bool, typer.Option("--vrt", help="Take VRTs that read files and addresses elsewhere.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Keep the rows that an interrupted run left.")] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace what exists of the target and the files beside it.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")] = False,
) -> None:
    """Remove the clouds of a scene: same grid, same type, clear pixels untouched, and a layer that says what is new.

    Exit code 0: the scene is restored. 4: all of it is under cloud that the weights do not remove, and nothing was
    written. 2: anything else went wrong.
    """
    import warnings

    if len(paths) < 2:
        raise ConfigError("attcr restore takes a scene and the file to write: attcr restore IN.tif OUT.tif")
    *scene, target = paths
    from attcr.restore import RestoreOptions, choose_weights

    quiet_rasterio()
    warnings.showwarning = lambda message, *_: typer.echo(f"attcr: {message}", err=True)
    named = tuple(name.strip() for name in bands.split(",")) if bands else None
    numbers: dict[str, Any] = {"tile": tile, "overlap": overlap, "batch": batch, "dilate": dilate, "feather": feather}
    kinds: dict[str, Any] = {"device": device, "dtype": dtype, "backend": backend, "sensor": sensor, "unseen": unseen}
    places: dict[str, Any] = {"bands": named, "mask": mask, "sar": sar, "reference_mask": reference_mask}
    places |= {"references": tuple(reference or ()), "vrt": "any" if vrt else "beside"}
    options = RestoreOptions(**numbers, **kinds, **places, nodata=nodata, confidence=confidence)
    if weights is None:
        weights = choose_weights(scene, options)
        typer.echo(f"weights: {weights}", err=True)
    if dry_run:
        _plan(scene, target, weights, options)
    else:
        _restore(scene, target, weights, options, overwrite=overwrite, resume=resume)


def _plan(scene: list[str], target: str, weights: str, options: "RestoreOptions") -> None:
    from attcr.restore import plan_scene

    plan = plan_scene(scene, target, weights, options=options)
    typer.echo(f"{plan.width} x {plan.height} pixels, bands {' '.join(plan.bands)}, {plan.dtype}, {plan.sensor}")
    typer.echo(f"mask {plan.mask}: {plan.tiles_to_run} of {plan.tiles} tiles go through the network")
    typer.echo(f"about {duration(plan.seconds)} on {options.device}, beside reading and writing")
    typer.echo(f"{plan.memory / 2**20:,.0f} MiB of memory beside the network's own")
    typer.echo(f"{plan.disk / 2**20:,.0f} MiB of disk in {Path(target).parent}, most of it while working")


def _restore(
    scene: list[str], target: str, weights: str, options: "RestoreOptions", *, overwrite: bool, resume: bool
) -> None:
    from attcr.restore import restore_scene
    from attcr.restore.walk import LOW_CONFIDENCE, QUALITY_NAMES

    again = {"overwrite": overwrite, "resume": resume}

    with progress_bar() as show:
        try:
            result = restore_scene(scene, target, weights, options=options, progress=show, **again)
        except KeyboardInterrupt:
            typer.echo("attcr: stopped. Finished rows are kept: run the same command with --resume.", err=True)
            sys.exit(130)
    total = max(sum(result.pixels.values()), 1)
    tiles = f"{result.tiles_run} of {result.tiles} tiles in {duration(result.seconds)}"
    typer.echo(f"{result.target}: mask {result.mask}, {tiles}")
    for name, count in result.pixels.items():
        unmeasured = name == QUALITY_NAMES[LOW_CONFIDENCE] and result.spread is None and not count
        typer.echo(f"  {'?' if unmeasured else format(count / total, '.2%'):>7}  {name}")
    if result.spread is None:
        typer.echo("  confidence was not measured: these weights predict no error (--confidence compares eight views)")
    for told in result.references:
        days = "at an unknown date" if told["days"] is None else f"{told['days']:+d} days"
        error = "" if told["expected_error"] is None else f", expected error {told['expected_error']:.4f}"
        typer.echo(f"  {told['share']:7.2%}  from {told['name']} ({days}; {told['method']}{error})")
    sides = [result.quality, result.spread, result.dates, result.preview, result.item]
    typer.echo("beside it: " + ", ".join(path.name for path in sides if path))
