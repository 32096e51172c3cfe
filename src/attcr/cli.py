"""The `attcr` command. Thin: each command calls one function of the package and prints what it gave."""

import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from attcr import __version__
from attcr.errors import AttcrError, ConfigError

if TYPE_CHECKING:
    from attcr.fleet.ledger import Outcome
    from attcr.fleet.run import Tally
    from attcr.restore import Progress, RestoreOptions

app = typer.Typer(
    name="attcr",
    help="Remove clouds from satellite images with ATT-CR.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


_Paths = Annotated[
    list[str],
    typer.Argument(
        metavar="SCENE... TARGET",
        help="A raster, band files, a SAFE-like folder or a STAC item (local, http or s3), then the file to write.",
    ),
]
_Weights = Annotated[str, typer.Option(help="A published name (see attcr weights), a path, hf://OWNER/NAME or URL.")]
_WeightsThatFit = Annotated[
    str | None,
    typer.Option(
        help="A published name (see attcr weights), a path, hf://OWNER/NAME or URL.", show_default="those that fit"
    ),
]
_Mask = Annotated[
    str, typer.Option(help="none, auto, csmask, s2cloudless, scl[=FILE], qa_pixel[=FILE], or a raster (0 is clear).")
]
_Sensor = Annotated[
    str | None, typer.Option(help="The product, where the metadata does not tell: rgb8, s2-l2a, s2-l2a-n0400, ...")
]
_Bands = Annotated[str | None, typer.Option(help="Bands for the network, by name or number from 1, as B04,B03,B02.")]
_Radar = Annotated[str | None, typer.Option(help="Radar raster (VV, VH in dB) for weights that take it.")]
_Nodata = Annotated[float | None, typer.Option(help="The value that means no data, where the file does not say.")]
_Dilate = Annotated[int, typer.Option(min=0, help="Pixels around a cloud that are restored too.")]
_Feather = Annotated[int, typer.Option(min=0, help="Pixels over which restored fades into original.")]
_Confidence = Annotated[
    bool, typer.Option("--confidence", help="Write how much eight flips and turns differ (8 times the work).")
]
_Manifest = Annotated[
    str, typer.Argument(help="Scenes: Parquet, STAC (.json, .ndjson), a list (.txt), or a quoted glob.")
]
_Settings = Annotated[
    list[str] | None,
    typer.Option("--set", help="An option of `attcr restore`, as mask=scl or tile=512; may be given again."),
]


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


class _Naming(TyperCommand):
    """A command whose help names the data sets and networks; they are looked up only when help is asked for."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help with the names in the place of {datasets} and {networks}."""
        from attcr.data import DATASETS
        from attcr.networks import NETWORKS

        names = {"{datasets}": ", ".join(DATASETS), "{networks}": ", ".join(NETWORKS)}
        for param in self.params:
            for place, text in names.items():
                if getattr(param, "help", None):
                    param.help = param.help.replace(place, text)  # type: ignore[attr-defined]
        super().format_help(ctx, formatter)


@app.command(cls=_Naming)
def info(
    preset: Annotated[
        str | None, typer.Option(help="Of ATT-CR: rice1, rice2 (the default), tcloud, sen12mscr, small or tiny.")
    ] = None,
    network: Annotated[str, typer.Option(help="{networks}.")] = "attcr",
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A setting of the network, as dim=16; may be given again.")
    ] = None,
    size: Annotated[int, typer.Option(min=8, help="Height and width of the image in pixels.")] = 256,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print what a network costs: parameters, multiply-adds, stages, memory."""
    from dataclasses import asdict

    from attcr.complexity import measure
    from attcr.networks import NETWORKS, make_config
    from attcr.networks.attcr import ATTCRConfig

    chosen: dict[str, Any] = {}
    if network in NETWORKS and issubclass(NETWORKS[network].config, ATTCRConfig):
        preset = preset or "rice2"
        chosen = asdict(ATTCRConfig.preset(preset))
    elif preset is not None:
        raise ConfigError(f"--preset {preset} is of ATT-CR and has no effect on {network}: leave it out")
    cost = measure(make_config(network, {**chosen, **_read_settings(settings or [])}), size, size)
    name = " ".join([*([] if network == "attcr" else [network]), *([preset] if preset else []), *(settings or [])])
    if as_json:
        about = {"network": network, "preset": preset, "settings": settings or [], "size": size}
        typer.echo(json.dumps({**about, **cost.to_dict()}, indent=2))
        return
    typer.echo(f"{name} at {size} x {size}")
    typer.echo(f"  parameters      {cost.parameters:,}")
    if cost.multiply_adds_paper == cost.multiply_adds:
        typer.echo(f"  multiply-adds   {cost.multiply_adds / 1e9:.2f} G")
    else:
        counted = f"{cost.multiply_adds_paper / 1e9:.2f} G as the paper counts (no triangular product)"
        typer.echo(f"  multiply-adds   {counted}\n                  {cost.multiply_adds / 1e9:.2f} G in truth")
    for number, (channels, height, width) in enumerate(cost.stages, 1):
        typer.echo(f"  stage {number}         {channels} x {height} x {width}")
    typer.echo(f"  activations     {cost.inference_bytes / 2**20:,.0f} MiB at most at once, to restore (float32)")
    typer.echo(f"                  {cost.training_bytes / 2**20:,.0f} MiB kept for one image, to train (float32)")


def _read_settings(given: list[str]) -> dict[str, Any]:
    """Read NAME=VALUE options; a value is JSON, or else a text."""
    read: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(f"--set takes NAME=VALUE, got {text}")
        try:
            read[name] = json.loads(value)
        except json.JSONDecodeError:
            read[name] = value
    return read


@app.command(cls=_Naming)
def convert(
    source: Annotated[Path, typer.Argument(help="The authors' checkpoint, .pth or .safetensors.")],
    target: Annotated[Path, typer.Argument(help="The .safetensors file to write.")],
    data: Annotated[str, typer.Option(help="What it was trained on, which says what it takes and gives: {datasets}.")],
    network: Annotated[str, typer.Option(help="Whose checkpoint it is: attcr or spagan.")] = "attcr",
    heads: Annotated[
        str | None, typer.Option(help="Heads of the five stages, as 2,2,8,2,2: shapes do not tell them.")
    ] = None,
) -> None:
    """Turn a checkpoint of the authors' code, or of SpA-GAN's, into weights that attcr loads."""
    from attcr.data import find_set
    from attcr.files import sha256
    from attcr.official import convert_official

    try:
        numbers = tuple(int(number) for number in heads.split(",")) if heads else None
    except ValueError:
        raise ConfigError(f"--heads {heads!r} is not a list of numbers such as 2,2,8,2,2") from None
    model = convert_official(source, target, spec=find_set(data).spec, network=network, heads=numbers)
    typer.echo(f"{target}: {sum(p.numel() for p in model.parameters()):,} parameters, sha256 {sha256(target)}")


@app.command()
def weights(
    name: Annotated[str | None, typer.Argument(help="One of them, told in full.")] = None,
    scene: Annotated[
        list[str] | None,
        typer.Option("--for", help="A scene: which weights fit it, and why the others do not; again for band files."),
    ] = None,
    sensor: _Sensor = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the weights that came with the package: what for, size, scores; with a NAME all that is known of it."""
    from dataclasses import asdict

    from attcr.weights import published

    if scene:
        _which_weights(scene, sensor, as_json)
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


def _which_weights(scene: list[str], sensor: str | None, as_json: bool) -> None:
    from dataclasses import asdict

    from attcr.restore import which_weights

    _quiet_rasterio()
    fits = which_weights(scene, sensor=sensor)
    if as_json:
        typer.echo(json.dumps([asdict(fit) for fit in fits], indent=2))
        return
    for fit in fits:
        typer.echo(f"{fit.weights}: {'fits' if fit.fits else 'does not fit'}. {fit.reason[0].upper()}{fit.reason[1:]}")


@app.command()
def demo(
    folder: Annotated[Path, typer.Argument(help="Where to make the folder attcr-demo.")] = Path(),
) -> None:
    """Remove simulated cloud from a small drawn scene: no data, no network, under two minutes."""
    from attcr.demo import run_demo

    with _progress_bar() as show:
        shown = run_demo(folder, progress=show)
    typer.echo(f"mean error under the cloud: {shown.error_before:.3f} before, {shown.error_after:.3f} after")
    typer.echo(f"look at {shown.picture}")
    typer.echo("Now with an image of yours:")
    for command in shown.commands:
        typer.echo(f"  {command}")


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True}, add_help_option=False)
def train(context: typer.Context) -> None:
    """Train a network: --config RECIPE --data.root DATA, any field overridden as --model.lr 1e-4; see --help."""
    from attcr.train.run import train as run

    run(context.args)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True}, add_help_option=False)
def ablate(context: typer.Context) -> None:
    """Train variants under one budget and compare them: --config small-cpu --data.root DATA; see --help."""
    from attcr.train.ablate import ablate as run

    typer.echo(run(context.args, say=typer.echo).read_text())


@app.command()
def gates(
    images: Annotated[list[Path], typer.Argument(help="Cloudy RGB images.")],
    weights: _Weights,
    out: Annotated[Path, typer.Option(help="The folder for figures and gates.json.")],
) -> None:
    """Draw what the gates of a network do to images: channels, before and after, distributions."""
    from attcr.gates import draw_gates, trace_files
    from attcr.weights import load_model

    for path in draw_gates(trace_files(load_model(weights), images), out):
        typer.echo(path)


@app.command(cls=_Naming)
def audit(
    data: Annotated[str, typer.Option(help="{datasets}; pairs is cloudy/ and clear/ of your own.")],
    root: Annotated[Path, typer.Option(help="Folder of the data set, in its published layout.")],
    out: Annotated[Path | None, typer.Option(help="Folder for audit.json and the contact sheets.")] = None,
    lists: Annotated[
        list[str] | None,
        typer.Option("--list", help="PART=FILE, one name a line, instead of the shipped split; repeat it."),
    ] = None,
    within: Annotated[bool, typer.Option(help="Seek copies inside each part too.")] = False,
) -> None:
    """Find duplicates, leaks between splits, wrong pairs and bad files; exit with 1 if there are problems."""
    from attcr.data.audit import KINDS, PROBLEMS
    from attcr.data.audit import audit as audit_data
    from attcr.data.sheet import write_contact_sheets

    with typer.progressbar(length=1000, label="looking at images", file=sys.stderr) as bar:
        report = audit_data(
            data,
            root,
            lists=_read_lists(lists) if lists else None,
            within=within,
            progress=lambda done, total: bar.update(done * 1000 // total - bar.pos),
        )
    typer.echo(f"{report.dataset} at {report.root}: {report.pairs} pairs")
    for part, about in report.parts.items():
        typer.echo(f"  {part:5} {about['listed']:6} listed, {about['pairs']:6} pairs, sha256 {about['sha256']}")
    typer.echo(f"\n{'found':>7}  kind")
    for kind, meaning in KINDS.items():
        typer.echo(f"{len(report.of(kind)):7}  {kind:12} {'' if kind in PROBLEMS else '(note) '}{meaning}")
    for finding in report.of("substring"):
        typer.echo(f"\nsubstring: {finding.note}")
    for kind in ("exact", "near", "alike"):
        for part, other in (("test", "train"), ("val", "train"), ("test", "val")):
            names = report.names(kind, part, other)
            if names:
                typer.echo(f"\n{kind}: {len(names)} {part} images have one in {other}: {' '.join(names)}")
    for finding in [finding for finding in report.findings if finding.kind in PROBLEMS][:20]:
        who = ", ".join(f"{image.part} {image.name} {image.side}".strip() for image in finding.images[:4])
        typer.echo(f"\n{finding.kind}: {who}: {finding.note}")
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "audit.json").write_text(json.dumps(report.to_json(), indent=1) + "\n")
        sheets = write_contact_sheets(report, out)
        typer.echo(f"\nwrote {out / 'audit.json'} and {len(sheets)} contact sheets")
    if report.problems:
        raise typer.Exit(1)


def _read_lists(given: list[str]) -> dict[str, list[str]]:
    """Read PART=FILE options; names lose their ending, as those of shipped lists have none."""
    lists = {}
    for text in given:
        part, equals, file = text.partition("=")
        if not equals or part not in ("train", "val", "test") or not Path(file).is_file():
            raise ConfigError(f"--list takes PART=FILE with PART train, val or test and a file of names, got {text}")
        lines = Path(file).read_text().split()
        lists[part] = [line.removesuffix(Path(line).suffix) for line in lines]
    return lists


@app.command(cls=_Naming)
def evaluate(
    data: Annotated[str, typer.Option(help="{datasets}; pairs is ROOT/cloudy and ROOT/clear of your own.")],
    root: Annotated[Path, typer.Option(help="The folder that holds the data set.")],
    out: Annotated[Path, typer.Option(help="The report folder; part of the same evaluation is gone on with.")],
    weights: Annotated[
        list[str] | None, typer.Option(help="Weights to evaluate, by name, path or URL; may be given again.")
    ] = None,
    predictions: Annotated[
        list[Path] | None, typer.Option(help="A folder of restored images, named as the data's; may be given again.")
    ] = None,
    baseline: Annotated[str | None, typer.Option(help="Evaluate nothing but a baseline: copy or mean-colour.")] = None,
    split: Annotated[str, typer.Option(help="train, val or test.")] = "test",
    slots: Annotated[
        str | None, typer.Option(help="Of pairs that are not red, green and blue: their bands, as swir16,nir08,red.")
    ] = None,
    protocol: Annotated[
        list[str] | None, typer.Option(help="A protocol, may be given again; by default that of the data.")
    ] = None,
    pair: Annotated[
        list[str] | None,
        typer.Option(help="Of --protocol gap-fill: TARGET,REFERENCE, two dates of ROOT; may be given again."),
    ] = None,
    device: Annotated[str, typer.Option(help="Where networks run: cpu, cuda, cuda:1, ...")] = "cpu",
) -> None:
    """Score weights, or stored predictions, under named protocols and write a report folder.

    The first method is reported on in full; others given, and the trivial baselines, stand beside it. --protocol
    gap-fill with --data dates scores the ways to fill gaps from other dates instead: ROOT has a .tif for each date.
    """
    if protocol == ["gap-fill"]:
        _evaluate_gaps(data, root, out, pair or [])
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    from attcr import evaluate as evaluation

    baselines = {"copy": evaluation.COPY, "mean-colour": evaluation.MEAN_COLOUR}
    if bool(weights or predictions) == (baseline is not None) or (baseline and baseline not in baselines):
        raise ConfigError("give what to evaluate: --weights or --predictions, or else --baseline copy or mean-colour.")
    bands = tuple(name.strip() for name in slots.split(",")) if slots else ()
    benchmark = evaluation.open_benchmark(data, root, split, slots=bands)
    methods = [evaluation.method_from_weights(path, device=device) for path in weights or ()]
    methods += [evaluation.method_from_predictions(path, benchmark) for path in predictions or ()]
    if baseline:
        methods = [baselines[baseline]]
    names = protocol or [benchmark.data.protocol]
    columns = (TextColumn(f"{data} {benchmark.part}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Bar(*columns, console=console, disable=not console.is_terminal) as bar:
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


def _evaluate_gaps(data: str, root: Path, out: Path, given: list[str]) -> None:
    from attcr.gaps import OURS, evaluate_gaps

    if data != "dates":
        raise ConfigError(f"--protocol gap-fill takes --data dates, a folder with a .tif for each date, not {data}.")
    pairs = [(target.strip(), reference.strip()) for target, _, reference in (text.partition(",") for text in given)]
    report = evaluate_gaps(root, out, pairs=pairs)
    mae = report["mae"]
    typer.echo(f"gap-fill: MAE {OURS} {mae[OURS]:.4f}, one line a band {mae['line']:.4f}, copied {mae['copied']:.4f}")
    typer.echo(f"{out / 'report.md'}")


@app.command()
def restore(
    paths: _Paths,
    weights: _WeightsThatFit = None,
    mask: _Mask = "none",
    sensor: _Sensor = None,
    bands: _Bands = None,
    sar: _Radar = None,
    nodata: _Nodata = None,
    dilate: _Dilate = 8,
    feather: _Feather = 8,
    confidence: _Confidence = False,
    tile: Annotated[int, typer.Option(help="Pixels along a tile.")] = 256,
    overlap: Annotated[int, typer.Option(help="Pixels that neighbouring tiles share.")] = 32,
    batch: Annotated[int, typer.Option(help="Tiles through the network at once.")] = 1,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps.")] = "cpu",
    dtype: Annotated[str, typer.Option(help="float32, bfloat16 or float16.")] = "float32",
    vrt: Annotated[bool, typer.Option("--vrt", help="Take VRTs that read files and addresses elsewhere.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Keep the rows that an interrupted run left.")] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace what exists of the target and the files beside it.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")] = False,
) -> None:
    """Remove the clouds of a scene: same grid, same type, clear pixels untouched, and a layer that says what is new."""
    import warnings

    if len(paths) < 2:
        raise ConfigError("attcr restore takes a scene and the file to write: attcr restore IN.tif OUT.tif")
    *scene, target = paths
    from attcr.restore import RestoreOptions, choose_weights

    _quiet_rasterio()
    warnings.showwarning = lambda message, *_: typer.echo(f"attcr: {message}", err=True)
    named = tuple(name.strip() for name in bands.split(",")) if bands else None
    options = RestoreOptions(
        tile=tile,
        overlap=overlap,
        batch=batch,
        device=device,
        dtype=dtype,  # type: ignore[arg-type]  # checked by RestoreOptions
        sensor=sensor,
        bands=named,
        mask=mask,
        dilate=dilate,
        feather=feather,
        sar=sar,
        nodata=nodata,
        confidence=confidence,
        vrt="any" if vrt else "beside",
    )
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
    typer.echo(f"about {_duration(plan.seconds)} on {options.device}, beside reading and writing")
    typer.echo(f"{plan.memory / 2**20:,.0f} MiB of memory beside the network's own")
    typer.echo(f"{plan.disk / 2**20:,.0f} MiB of disk in {Path(target).parent}, most of it while working")


def _restore(
    scene: list[str], target: str, weights: str, options: "RestoreOptions", *, overwrite: bool, resume: bool
) -> None:
    from attcr.restore import restore_scene
    from attcr.restore.walk import LOW_CONFIDENCE, QUALITY_NAMES

    again = {"overwrite": overwrite, "resume": resume}

    with _progress_bar() as show:
        try:
            result = restore_scene(scene, target, weights, options=options, progress=show, **again)
        except KeyboardInterrupt:
            typer.echo("attcr: stopped. Finished rows are kept: run the same command with --resume.", err=True)
            sys.exit(130)
    total = max(sum(result.pixels.values()), 1)
    typer.echo(f"{result.target}: {result.tiles_run} of {result.tiles} tiles in {_duration(result.seconds)}")
    for name, count in result.pixels.items():
        unmeasured = name == QUALITY_NAMES[LOW_CONFIDENCE] and result.spread is None and not count
        typer.echo(f"  {'?' if unmeasured else format(count / total, '.2%'):>7}  {name}")
    if result.spread is None:
        typer.echo("  confidence was not measured: these weights predict no error (--confidence compares eight views)")
    sides = [result.quality, result.spread, result.preview, result.item]
    typer.echo("beside it: " + ", ".join(path.name for path in sides if path))


@contextmanager
def _progress_bar() -> "Iterator[Callable[[Progress], None]]":
    """Tiles, megapixels per second and time left, on stderr, where that is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}")]
    names = {"mask": "finding clouds (rows)", "restore": "restoring (tiles)", "write": "writing"}
    with Bar(*columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal) as bar:
        tasks: dict[str, Any] = {}
        began: dict[str, float] = {}

        def show(progress: "Progress") -> None:
            stage = progress.stage
            if stage not in tasks:
                tasks[stage] = bar.add_task(names[stage], total=progress.total, rate="")
                began[stage] = time.perf_counter()
            elapsed = time.perf_counter() - began[stage]
            rate = f"{progress.megapixels / elapsed:.2f} MP/s" if progress.megapixels and elapsed else ""
            bar.update(tasks[stage], completed=progress.done, total=progress.total, rate=rate)

        yield show


fleet = typer.Typer(
    help="Restore any number of scenes, here or on Ray; started again after any kind of end, it goes on.",
    no_args_is_help=True,
)
app.add_typer(fleet, name="fleet")
QUARANTINED = 3


@fleet.command("plan")
def fleet_plan(
    source: Annotated[str, typer.Argument(help="A STAC API (with --collection), a folder, or a bucket's prefix.")],
    manifest: Annotated[Path, typer.Argument(help="The Parquet file to write.")],
    collection: Annotated[list[str] | None, typer.Option(help="Of a STAC API; may be given again.")] = None,
    bbox: Annotated[str | None, typer.Option(help="west,south,east,north in degrees.")] = None,
    datetime: Annotated[str | None, typer.Option(help="2024-06-01/2024-06-30.")] = None,
    weights: Annotated[str | None, typer.Option(help="Measure the rate of these weights here.")] = None,
    rate: Annotated[float | None, typer.Option(help="Megapixels a second of one worker, instead of measuring.")] = None,
    price: Annotated[float | None, typer.Option(help="Of one worker for an hour, in your currency.")] = None,
    settings: _Settings = None,
) -> None:
    """Turn a STAC search or a prefix into a manifest; print megapixels, machine-hours and cost."""
    from attcr.fleet.plan import list_prefix, measure_rate, search, write_plan
    from attcr.fleet.settings import with_settings
    from attcr.restore import RestoreOptions

    try:
        box = [float(number) for number in bbox.split(",")] if bbox else None
    except ValueError:
        raise ConfigError(f"--bbox takes west,south,east,north, got {bbox!r}") from None
    works = search(source, collection, box, datetime) if collection else list_prefix(source)
    plan = write_plan(works, manifest)
    typer.echo(f"{manifest}: {plan.scenes:,} scenes, {plan.megapixels:,.1f} megapixels")
    if plan.estimated:
        typer.echo(f"  of {plan.estimated:,} scenes the size is the mean of a few that were opened")
    if plan.refused:
        typer.echo(f"  {plan.refused:,} rows cannot be run; a run says why of each")
    if rate is None and weights is not None:
        rate = measure_rate(weights, with_settings(RestoreOptions(), _settings(settings or [])))
    if rate is None:
        typer.echo("give --weights or --rate for machine-hours and cost")
        return
    hours = plan.worker_hours(rate)
    typer.echo(f"{hours:,.2f} machine-hours of one worker at {rate:.4g} megapixels a second, without a mask")
    typer.echo(f"cost {hours * price:,.2f}" if price is not None else "give --price for the cost")


def _fleet_reporter() -> "Callable[[Outcome, Tally], None]":
    """Give what tells of quarantined scenes at once, and every ten seconds how far a run is."""
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


@fleet.command("run")
def fleet_run(
    manifest: _Manifest,
    out: Annotated[str, typer.Argument(help="Folder or bucket prefix (s3://, gs://, az://) for the results.")],
    weights: _Weights,
    settings: _Settings = None,
    engine: Annotated[str, typer.Option(help="local: this process. ray: actors, here or on a cluster.")] = "local",
    workers: Annotated[int, typer.Option(min=1, help="Processes with a network each (ray).")] = 1,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads of each network; 1 on Ray.")] = None,
    gpus: Annotated[float, typer.Option(min=0, help="GPUs of each worker (ray); give --set device=cuda too.")] = 0,
    readers: Annotated[int, typer.Option(min=1, help="Reads ahead of the workers (ray).")] = 2,
    address: Annotated[
        str | None, typer.Option(help="Of a Ray cluster; else RAY_ADDRESS, else one is started.")
    ] = None,
    shard: Annotated[str, typer.Option(help="Part i of n, from 0, for a job array: 3/100.")] = "0/1",
    attempts: Annotated[int, typer.Option(min=1, help="Tries before a scene is quarantined.")] = 3,
    split_over: Annotated[
        float | None, typer.Option(help="Split scenes of more megapixels into blocks of rows for several workers.")
    ] = None,
    deadline: Annotated[float | None, typer.Option(help="Seconds a scene may take, else it is quarantined.")] = None,
) -> None:
    """Restore every scene of a manifest that is not restored yet.

    Exit code 0: every scene has its result. 3: the others have, and some are quarantined; see `attcr fleet status`.
    2: the run could not go on.
    """
    from attcr.fleet.run import FleetOptions, run_fleet
    from attcr.fleet.settings import with_settings
    from attcr.fleet.stop import end_on_signals
    from attcr.restore.options import RestoreOptions

    end_on_signals()  # a machine that is taken away says so first
    _quiet_rasterio()
    try:
        tally = run_fleet(
            manifest,
            out,
            weights,
            options=with_settings(RestoreOptions(), _settings(settings or [])),
            fleet=FleetOptions(
                engine=engine,  # type: ignore[arg-type]  # checked by FleetOptions
                workers=workers,
                threads=threads,
                gpus=gpus,
                readers=readers,
                address=address,
                attempts=attempts,
                shard=_shard(shard),
                split_over=split_over,
                deadline=deadline,
            ),
            on_outcome=_fleet_reporter(),
        )
    except KeyboardInterrupt:
        typer.echo("attcr: stopped. Run the same command to go on.", err=True)
        sys.exit(130)
    typer.echo(_told(tally))
    typer.echo(f"{_duration(tally.startup_seconds)} to start, {_duration(tally.seconds)} of work")
    if not tally.complete:
        sys.exit(QUARANTINED)


@fleet.command("status")
def fleet_status(
    out: Annotated[str, typer.Argument(help="The output of a run.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show how far a run is: progress, rate, failures by class, time left."""
    from dataclasses import asdict

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
        when = "unknown: nothing was done of late" if told.seconds_left is None else _duration(told.seconds_left)
        typer.echo(f"{summary.scenes_per_second:.2f} scenes a second of late, time left {when}")
    for kind, count in summary.quarantined.items():
        typer.echo(f"  {count:8}  {kind}")
    if quarantined:
        typer.echo(f"try them again: attcr fleet retry {out} --class {next(iter(summary.quarantined))}")


@fleet.command("retry")
def fleet_retry(
    out: Annotated[str, typer.Argument(help="The output of a run.")],
    classes: Annotated[list[str], typer.Option("--class", help="A class of error, or all; may be given again.")],
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


def _settings(given: list[str]) -> dict[str, Any]:
    """Read NAME=VALUE options; a value is JSON where it can be, else text."""
    settings: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(f"--set takes NAME=VALUE, such as mask=scl, got {text!r}")
        try:
            settings[name] = json.loads(value)
        except ValueError:
            settings[name] = value
    return settings


def _shard(text: str) -> tuple[int, int]:
    index, _, count = text.partition("/")
    if not (index.isdecimal() and count.isdecimal()):
        raise ConfigError(f"--shard takes i/n, such as 3/100, got {text!r}")
    return int(index), int(count)


def _quiet_rasterio() -> None:
    import logging

    logging.getLogger("rasterio").setLevel(logging.CRITICAL)  # its errors reach the user as ours


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def main() -> None:
    """Run the command line; an AttcrError becomes one line on stderr and exit code 2."""
    try:
        app()
    except AttcrError as error:
        typer.echo(f"attcr: {' '.join(str(error).split())}", err=True)  # a file's name may hold a line break
        sys.exit(2)
