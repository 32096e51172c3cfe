"""Commands about many dates of a place: cube, composite."""

from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attcr.cli.arguments import AsJson, ProgressAs, Quiet, Verbose, option, takes_options
from attcr.cli.voice import Voice, duration, speaking

if TYPE_CHECKING:
    from attcr.cubes.plan import Plan
    from attcr.cubes.write import CubeResult

Where = Annotated[
    str,
    typer.Argument(
        help="west,south,east,north or lat,lon,metres, an MGRS tile such as 33UXQ, or a GeoJSON or GeoPackage file."
    ),
]
DryRun = Annotated[bool, option("", "Print what would be done, and do nothing.", "--dry-run")]


@partial(takes_options, owner="cubes.options.CubeOptions")
def cube(
    place: Where,
    target: Annotated[str, typer.Argument(help="A folder such as field.zarr, or s3://BUCKET/NAME.")],
    *,
    update: Annotated[
        bool, option("", "Add what was taken since; earlier dates change where a new one knows more.", "--update")
    ] = False,
    dry_run: DryRun = False,
    quiet: Quiet = False,
    verbose: Verbose = 0,
    as_json: AsJson = False,
    progress: ProgressAs = "auto",
    **given: Any,
) -> None:
    """Make a cube of a place and a period without clouds: each pixel says where it is from and how far it may be off.

    A run that was stopped goes on when the same command is run again. A place that begins with - stands after --.
    """
    if_stopped = "Finished blocks are kept: run the same command again."
    with speaking(Voice("cube", quiet, verbose, as_json, progress, if_stopped)) as voice:
        from attcr.cubes.options import CubeOptions
        from attcr.cubes.plan import make_plan

        options = CubeOptions(**given)
        if dry_run:
            plan = make_plan(place, options)
            voice.result(_costs(plan, target), list(_told_by_plan(plan)))
            return
        from attcr.cubes.write import write_cube

        with voice.showing() as show:
            result = write_cube(place, target, options, update=update, progress=show)
        voice.result(asdict(result), list(_told_by_result(result)))


@partial(takes_options, owner="cubes.composite.CompositeOptions")
def composite(
    place: Where,
    target: Annotated[str, typer.Argument(help="The GeoTIFF to write, such as summer.tif.")],
    *,
    dry_run: DryRun = False,
    quiet: Quiet = False,
    verbose: Verbose = 0,
    as_json: AsJson = False,
    progress: ProgressAs = "auto",
    **given: Any,
) -> None:
    """Make one image of a period, or one of each part of it, from all dates of a place: levelled to each other first.

    After the bands come `count`, `day` (since 1970) and `error`. A run that was stopped goes on when the same command
    is run again. A place that begins with - stands after --.
    """
    if_stopped = "Finished blocks are kept: run the same command again."
    with speaking(Voice("composite", quiet, verbose, as_json, progress, if_stopped)) as voice:
        from attcr.cubes.composite import CompositeOptions, plans, write_composite

        made, lines = [], []
        with voice.showing() as show:
            for plan, path in plans(place, target, CompositeOptions(**given)):
                if dry_run:
                    made.append(_costs(plan, str(path)))
                    lines += [f"{path}:", *(f"  {line}" for line in _told_by_plan(plan))]
                    continue
                result = write_composite(plan, path, show)
                made.append(asdict(result))
                lines.append(f"{path}: {result.dates} dates, {result.seen:.2%} seen, in {duration(result.seconds)}")
        voice.result({"composites": made}, lines)


def _costs(plan: "Plan", target: str) -> dict[str, Any]:
    told = {name: getattr(plan, name) for name in ("fetched", "seconds", "memory")}
    return {"target": target, **plan.describe(), **told}


def _told_by_plan(plan: "Plan") -> Iterator[str]:
    grid, taken, (rows, cols) = plan.grid, plan.taken, plan.block
    yield f"{plan.source.name}: {len(taken)} acquisitions from {taken[0]:%Y-%m-%d} to {taken[-1]:%Y-%m-%d}"
    if plan.source.account:
        yield f"needs {plan.source.account}"
    if plan.dates:
        yield f"{len(plan.dates)} dates: {' '.join(f'{taken[at]:%Y-%m-%d}' for at in plan.dates)}"
    yield f"{grid.width} x {grid.height} pixels of {grid.transform.a:g} in {grid.crs}, bands {' '.join(plan.bands)}"
    megapixels = grid.megapixels * max(len(plan.dates), 1)
    yield f"{megapixels:,.1f} megapixels in {len(plan.blocks)} blocks of {cols} x {rows} pixels"
    yield f"about {plan.fetched / 1e9:,.2f} GB to fetch, {duration(plan.seconds)} on one core"
    yield f"about {plan.memory / 1e9:.1f} GB of memory"


def _told_by_result(result: "CubeResult") -> Iterator[str]:
    yield f"{result.target}: {result.dates} dates, {result.added} of them new, in {duration(result.seconds)}"
    total = max(sum(result.pixels.values()), 1)
    for name, count in result.pixels.items():
        if count:
            yield f"  {count / total:7.2%}  {name}"
    if result.refilled:
        yield f"  {result.refilled:,} pixels of earlier dates filled anew"
    yield f"snapshot {result.snapshot}"
