"""Commands about scenes: restore, demo."""

from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attcr.addresses import redact
from attcr.cli.arguments import AsJson, Paths, ProgressAs, Quiet, Verbose, WeightsThatFit, option, takes_options
from attcr.cli.voice import Voice, duration, of_restore, one_line, speaking
from attcr.errors import AttcrError, ConfigError

if TYPE_CHECKING:
    from attcr.restore.options import RestoreOptions
    from attcr.restore.scene import RestoreResult, ScenePlan

_Told = tuple[dict[str, Any], list[str]]
"""What a scene gave: for programs, and as lines for people."""
SOME_FAILED = 3


def demo(
    folder: Annotated[Path, typer.Argument(help="Where to make the folder attcr-demo.")] = Path(),
    quiet: Quiet = False,
    verbose: Verbose = 0,
    as_json: AsJson = False,
    progress: ProgressAs = "auto",
) -> None:
    """Remove thin cloud from a small Sentinel-2 scene that comes with the package; needs no data and no internet."""
    with speaking(Voice("demo", quiet, verbose, as_json, progress)) as voice:
        from attcr.demo import run_demo

        with voice.showing() as show:
            shown = run_demo(folder, progress=of_restore(show))
        voice.result(
            asdict(shown),
            [
                "mean difference from a clear date, in reflectance, where the scene was restored: "
                f"{shown.error_before:.4f} before, {shown.error_after:.4f} after",
                f"look at {shown.picture}",
                "What to try next:",
                *(f"  {command}" for command in shown.commands),
            ],
        )


@takes_options
def restore(
    paths: Paths,
    weights: WeightsThatFit = None,
    *,
    resume: Annotated[bool, option("", "Continue an interrupted run.", "--resume")] = False,
    overwrite: Annotated[
        bool, option("", "Replace the target and the files beside it if they exist.", "--overwrite")
    ] = False,
    dry_run: Annotated[bool, option("", "Print what would be done, and do nothing.", "--dry-run")] = False,
    quiet: Quiet = False,
    verbose: Verbose = 0,
    as_json: AsJson = False,
    progress: ProgressAs = "auto",
    **given: Any,
) -> None:
    """Remove the clouds from a scene. Clear pixels, grid and type stay; a quality layer says what changed.

    Exit codes: 0 the scene is restored; 3 some of several scenes failed; 4 the whole scene is under cloud that the
    weights do not remove, and nothing was written; 2 any other error.
    """
    if_stopped = "Finished rows are kept: run the same command with --resume."
    with speaking(Voice("restore", quiet, verbose, as_json, progress, if_stopped)) as voice:
        from attcr.restore.options import RestoreOptions

        options = RestoreOptions(**given)
        again = {"overwrite": overwrite, "resume": resume}
        work = _plan if dry_run else partial(_restore, again=again)
        _each(voice, _scenes(paths), lambda scene, target: work(voice, scene, target, weights, options))


def _each(voice: Voice, scenes: list[tuple[list[str], str]], work: "Callable[[list[str], str], _Told]") -> None:
    """Work on one scene after another; of several, one that fails stops no other, and the exit code says so."""
    if len(scenes) == 1:
        voice.result(*work(*scenes[0]))
        return
    done: list[dict[str, Any]] = []
    failed: dict[str, str] = {}
    for scene, target in scenes:
        try:
            told, lines = work(scene, target)
        except AttcrError as error:
            failed[redact(scene[0])] = one_line(error)
            voice.warn(f"{redact(scene[0])}: {one_line(error)}")
            continue
        done.append(told)
        for line in lines:
            voice.say(line)
    voice.result(
        {"scenes": done, "failed": failed},
        [f"{len(done)} of {len(scenes)} scenes restored" + (f", {len(failed)} failed" if failed else "")],
    )
    if failed:
        raise typer.Exit(SOME_FAILED)


def _scenes(paths: list[str]) -> list[tuple[list[str], str]]:
    """Give each scene and its target; a folder as target takes a scene's own name, or those of several pictures."""
    if len(paths) < 2:
        raise ConfigError("attcr restore takes a scene and the file to write: attcr restore IN.tif OUT.tif")
    from attcr.restore.publish import targets_in

    *scene, target = paths
    if not (Path(target).is_dir() or target.endswith(("/", "\\"))):
        return [(scene, target)]
    return [(list(source), str(path)) for source, path in targets_in(Path(target), scene)]


def _chosen(voice: Voice, scene: list[str], weights: str | None, options: "RestoreOptions") -> str:
    if weights is not None:
        return weights
    from attcr.restore.look import choose_weights

    chosen = choose_weights(scene, options)
    voice.note(f"weights: {chosen}")
    return chosen


def _plan(voice: Voice, scene: list[str], target: str, weights: str | None, options: "RestoreOptions") -> _Told:
    from attcr.restore.scene import plan_scene

    chosen = _chosen(voice, scene, weights, options)
    plan = plan_scene(scene, target, chosen, options=options)
    return {"target": target, "weights": chosen, **asdict(plan)}, list(_told_by_plan(plan, target, options))


def _told_by_plan(plan: "ScenePlan", target: str, options: "RestoreOptions") -> Iterator[str]:
    if plan.read != (plan.height, plan.width):
        yield f"a window, for which {plan.read[1]} x {plan.read[0]} pixels are read"
    yield f"{plan.width} x {plan.height} pixels, bands {' '.join(plan.bands)}, {plan.dtype}, {plan.sensor}"
    yield f"mask {plan.mask}: {plan.tiles_to_run} of {plan.tiles} tiles go through the network"
    for reference in plan.references:
        yield f"filled from {reference}"
    yield f"about {duration(plan.seconds)} on {options.device}, plus reading and writing"
    yield f"{plan.memory / 2**20:,.0f} MiB of memory, plus the network's own"
    yield f"{plan.disk / 2**20:,.0f} MiB of disk in {Path(target).parent}, most of it only while working"


def _restore(
    voice: Voice,
    scene: list[str],
    target: str,
    weights: str | None,
    options: "RestoreOptions",
    *,
    again: dict[str, bool],
) -> _Told:
    from attcr.restore.scene import restore_scene

    chosen = _chosen(voice, scene, weights, options)
    with voice.showing() as show:
        result = restore_scene(scene, target, chosen, options=options, progress=of_restore(show), **again)
    return {"weights": chosen, **asdict(result)}, list(_told_by_restore(result, chosen))


def _told_by_classes(pixels: "list[int]") -> Iterator[str]:
    """Say what to try where nothing was found, or where most of what was made is not to be believed."""
    from attcr.restore.walk import CLOUD_LEFT, LOW_CONFIDENCE, NODATA, ORIGINAL

    changed = sum(pixels) - pixels[NODATA] - pixels[ORIGINAL] - pixels[CLOUD_LEFT]
    if not changed and not pixels[CLOUD_LEFT]:
        yield "  no cloud was found. If you see some: draw a mask and give it with --mask, or use --mask none"
    elif 2 * pixels[LOW_CONFIDENCE] > changed:
        yield (
            "  more than half of what was reconstructed has low confidence: look at the preview, check the product "
            "(--sensor), or fill from another date (--reference)"
        )


def _told_by_restore(result: "RestoreResult", weights: str) -> Iterator[str]:
    from attcr.restore.options import NO_WEIGHTS
    from attcr.restore.walk import LOW_CONFIDENCE, QUALITY_NAMES

    total = max(sum(result.pixels.values()), 1)
    unmeasured = result.spread is None and weights != NO_WEIGHTS
    tiles = f"{result.tiles_run} of {result.tiles} tiles in {duration(result.seconds)}"
    yield f"{result.target}: mask {result.mask}, {tiles}"
    for name, count in result.pixels.items():
        unknown = unmeasured and name == QUALITY_NAMES[LOW_CONFIDENCE] and not count
        yield f"  {'?' if unknown else format(count / total, '.2%'):>7}  {name}"
    yield from _told_by_classes(list(result.pixels.values()))
    if unmeasured:
        yield "  confidence was not measured: these weights predict no error (--confidence compares eight views)"
    for told in result.references:
        days = "at an unknown date" if told["days"] is None else f"{told['days']:+d} days"
        error = "" if told["expected_error"] is None else f", expected error {told['expected_error']:.4f}"
        yield f"  {told['share']:7.2%}  from {told['name']} ({days}; {told['method']}{error})"
    sides = [result.quality, result.spread, result.dates, result.preview, result.item]
    yield "beside it: " + ", ".join(path.name for path in sides if path)
