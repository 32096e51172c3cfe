"""Commands about data sets: audit, evaluate."""

import json
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from attcr.cli.arguments import Backend
from attcr.errors import ConfigError


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
    backend: Backend = "auto",
) -> None:
    """Score weights, or stored predictions, under named protocols and write a report folder.

    The first method is reported on in full; others given, and the trivial baselines, stand beside it. --protocol
    gap-fill with --data dates scores the ways to fill gaps from other dates instead: ROOT has a .tif for each date.
    """
    if protocol == ["gap-fill"]:
        _evaluate_gaps(data, root, out, pair or [])
        return
    from attcr import evaluate as evaluation

    baselines = {"copy": evaluation.COPY, "mean-colour": evaluation.MEAN_COLOUR}
    if bool(weights or predictions) == (baseline is not None) or (baseline and baseline not in baselines):
        raise ConfigError("give what to evaluate: --weights or --predictions, or else --baseline copy or mean-colour.")
    bands = tuple(name.strip() for name in slots.split(",")) if slots else ()
    benchmark = evaluation.open_benchmark(data, root, split, slots=bands)
    computes = {"device": device, "backend": backend}
    methods = [evaluation.method_from_weights(path, **computes) for path in weights or ()]  # type: ignore[arg-type]
    methods += [evaluation.method_from_predictions(path, benchmark) for path in predictions or ()]
    if baseline:
        methods = [baselines[baseline]]
    names = protocol or [benchmark.data.protocol]
    with _bar(f"{data} {benchmark.part}") as show:
        report = evaluation.evaluate(benchmark, methods, names, out, progress=show)
    for name, result in report["protocols"].items():
        if "classes" in result:
            for kind in result["classes"]:
                means = {method: classes[kind]["mae"]["mean"] for method, classes in result["methods"].items()}
                typer.echo(f"{name}: MAE {kind} " + ", ".join(f"{method} {mean:.4f}" for method, mean in means.items()))
            continue
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
    with _bar(root.name) as show:
        report = evaluate_gaps(root, out, pairs=pairs, progress=show)
    mae = report["mae"]
    typer.echo(f"gap-fill: MAE {OURS} {mae[OURS]:.4f}, one line a band {mae['line']:.4f}, copied {mae['copied']:.4f}")
    typer.echo(f"{out / 'report.md'}")


@contextmanager
def _bar(label: str) -> Iterator[Callable[[int, int], None]]:
    """Give what shows how much is done of how much, where someone looks on."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn(label), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Bar(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
