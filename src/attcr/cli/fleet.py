"""Commands about many scenes: fleet plan, run, status, retry."""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attcr.cli.arguments import (
    Manifest,
    Naming,
    NamingGroup,
    OnlyJson,
    ReferenceDays,
    Settings,
    Weights,
    option,
    read_settings,
    takes_options,
)
from attcr.cli.voice import duration, quiet_rasterio
from attcr.errors import ConfigError

if TYPE_CHECKING:
    from attcr.fleet.ledger import Outcome
    from attcr.fleet.run import Tally


fleet = typer.Typer(
    help="Restore any number of scenes, here, in a job array or on Ray; the same command resumes.",
    no_args_is_help=True,
    cls=NamingGroup,
)


QUARANTINED = 3
_REFERENCES = "For each scene of a STAC API, find up to this many other dates that see the ground under its clouds."
_RATE = "Megapixels per second of one worker, instead of measuring."


@fleet.command("plan", cls=Naming)
def fleet_plan(
    source: Annotated[str, typer.Argument(help="A STAC API (with --collection), a folder, or a bucket's prefix.")],
    manifest: Annotated[Path, typer.Argument(help="The Parquet file to write.")],
    collection: Annotated[list[str] | None, option("NAME", "Of a STAC API; may be repeated.")] = None,
    bbox: Annotated[str | None, option("BOX", "west,south,east,north in degrees.")] = None,
    datetime: Annotated[str | None, option("DATES", "2024-06-01/2024-06-30.")] = None,
    references: Annotated[int, option("NUMBER", _REFERENCES, min=0, max=99)] = 0,
    reference_days: ReferenceDays = 60,
    weights: Annotated[str | None, option("WEIGHTS", "Measure the speed of these weights on this machine.")] = None,
    rate: Annotated[float | None, option("NUMBER", _RATE)] = None,
    price: Annotated[float | None, option("NUMBER", "Price of one worker for one hour, in your currency.")] = None,
    settings: Settings = None,
) -> None:
    """Turn a STAC search or a prefix into a manifest; print megapixels, machine-hours and cost."""
    from attcr.fleet.plan import list_prefix, measure_rate, search, search_with_references, write_plan
    from attcr.fleet.settings import with_settings
    from attcr.restore.options import RestoreOptions

    try:
        box = [float(number) for number in bbox.split(",")] if bbox else None
    except ValueError:
        raise ConfigError(f"--bbox takes west,south,east,north, got {bbox!r}") from None
    if references and not collection:
        raise ConfigError("--references searches a STAC API: give --collection, or write references into the manifest.")
    if references and collection:
        works = search_with_references(source, collection, box, datetime, references, reference_days)
    else:
        works = search(source, collection, box, datetime) if collection else list_prefix(source)
    plan = write_plan(works, manifest)
    typer.echo(f"{manifest}: {plan.scenes:,} scenes, {plan.megapixels:,.1f} megapixels")
    if plan.estimated:
        typer.echo(f"  the size of {plan.estimated:,} scenes is an estimate: the mean of a few that were opened")
    if plan.refused:
        typer.echo(f"  {plan.refused:,} rows cannot be run; a run reports why")
    if rate is None and weights is not None:
        rate = measure_rate(weights, with_settings(RestoreOptions(), read_settings(settings or [])))
    if rate is None:
        typer.echo("give --weights or --rate for machine-hours and cost")
        return
    hours = plan.worker_hours(rate)
    typer.echo(f"{hours:,.2f} machine-hours of one worker at {rate:.4g} megapixels per second, without a mask")
    typer.echo(f"cost {hours * price:,.2f}" if price is not None else "give --price for the cost")


def _fleet_reporter() -> "Callable[[Outcome, Tally], None]":
    """Give a function that reports quarantined scenes at once, and the progress every ten seconds."""
    from attcr.addresses import hide_secrets
    from attcr.fleet.manifest import as_utf8

    last = time.monotonic()

    def show(outcome: "Outcome", tally: "Tally") -> None:
        nonlocal last
        if outcome.status == "quarantined":
            name = as_utf8(hide_secrets(outcome.id)[:200])
            typer.echo(f"quarantined {name}: {outcome.error}: {outcome.message}", err=True)
        if time.monotonic() - last > 10:
            last = time.monotonic()
            typer.echo(f"{_told(tally)} ...", err=True)

    return show


@fleet.command("run", cls=Naming)
@partial(takes_options, owner="fleet.options.FleetOptions")
def fleet_run(
    manifest: Manifest,
    out: Annotated[str, typer.Argument(help="Folder or bucket prefix (s3://, gs://, az://) for the results.")],
    weights: Weights,
    settings: Settings = None,
    shard: Annotated[str, option("I/N", "Part i of n, from 0, for a job array: 3/100.")] = "0/1",
    **given: Any,
) -> None:
    """Restore every scene of a manifest that is not restored yet.

    Exit codes: 0 every scene has its result; 3 some scenes are quarantined (see `attcr fleet status`), all others
    have theirs; 2 the run could not start or continue.
    """
    from attcr.fleet.options import FleetOptions
    from attcr.fleet.run import run_fleet
    from attcr.fleet.settings import with_settings
    from attcr.fleet.stop import end_on_signals
    from attcr.restore.options import RestoreOptions

    end_on_signals()  # a machine that is taken away says so first
    quiet_rasterio()
    try:
        tally = run_fleet(
            manifest,
            out,
            weights,
            options=with_settings(RestoreOptions(), read_settings(settings or [])),
            fleet=FleetOptions(shard=_shard(shard), **given),
            on_outcome=_fleet_reporter(),
        )
    except KeyboardInterrupt:
        typer.echo("attcr: stopped. Run the same command to continue.", err=True)
        sys.exit(130)
    typer.echo(_told(tally))
    typer.echo(f"{duration(tally.startup_seconds)} to start, {duration(tally.seconds)} of work")
    if not tally.complete:
        sys.exit(QUARANTINED)


@fleet.command("status", cls=Naming)
def fleet_status(
    out: Annotated[str, typer.Argument(help="The output of a run.")],
    as_json: OnlyJson = False,
) -> None:
    """Show how far a run is: progress, rate, failures by class, time left."""
    from attcr.fleet.run import read_status

    told = read_status(out)
    if as_json:
        typer.echo(json.dumps(asdict(told), indent=2))
        return
    summary = told.summary
    quarantined = sum(summary.quarantined.values())
    typer.echo(f"{summary.done} of {told.rows} scenes done, {quarantined} quarantined, {told.left} left")
    typer.echo(f"{summary.megapixels:,.1f} megapixels in {summary.worker_seconds / 3600:,.2f} worker-hours")
    if told.left:
        when = "unknown: nothing was done recently" if told.seconds_left is None else duration(told.seconds_left)
        typer.echo(f"{summary.scenes_per_second:.2f} scenes per second recently, time left {when}")
    for kind, count in summary.quarantined.items():
        typer.echo(f"  {count:8}  {kind}")
    if quarantined:
        typer.echo(f"try them again: attcr fleet retry {out} --class {next(iter(summary.quarantined))}")


@fleet.command("retry", cls=Naming)
def fleet_retry(
    out: Annotated[str, typer.Argument(help="The output of a run.")],
    classes: Annotated[list[str], option("CLASS", "A class of error, or all; may be repeated.", "--class")],
) -> None:
    """Let the next run try quarantined scenes of chosen classes again."""
    from attcr.fleet.run import requeue

    typer.echo(f"{requeue(out, classes)} scenes will be tried again by the next run")


def _told(tally: "Tally") -> str:
    done = tally.done + tally.found + tally.skipped
    rate = f", {tally.megapixels:,.1f} megapixels" if tally.megapixels else ""
    return (
        f"{done} of {tally.rows} scenes done ({tally.done} now, {tally.skipped + tally.found} before)"
        f", {tally.quarantined} quarantined{rate}"
    )


def _shard(text: str) -> tuple[int, int]:
    index, _, count = text.partition("/")
    if not (index.isdecimal() and count.isdecimal()):
        raise ConfigError(f"--shard takes i/n, such as 3/100, got {text!r}")
    return int(index), int(count)
