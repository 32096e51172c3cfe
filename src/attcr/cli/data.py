"""Commands about data sets: audit, evaluate."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attcr.cli.arguments import AsJson, Backend, Device, ProgressAs, Quiet, Verbose, option
from attcr.cli.voice import Voice, speaking
from attcr.errors import ConfigError

if TYPE_CHECKING:
    from attcr.data.audit import Audit

_Data = Annotated[str, option("NAME", "{datasets}; pairs: your own, in ROOT/cloudy and ROOT/clear.")]
_Root = Annotated[Path, option("FOLDER", "Folder of the data set, in its published layout.")]
_LISTS = "A file with one name per line, instead of the list in the package; may be repeated."
_OUT = "The report folder; the same command resumes an interrupted run."
_PREDICTIONS = "A folder of restored images with the names of the data's images; may be repeated."
_SLOTS = "Bands of pairs that are not red, green and blue, such as swir16,nir08,red."
_PAIRS = "For gap-fill: TARGET,REFERENCE, two dates in ROOT; may be repeated."
_EIGHT_VIEWS = "Also score the mean over eight flips and turns of each image, in a row of its own."


def audit(
    data: _Data,
    root: _Root,
    out: Annotated[Path | None, option("FOLDER", "Folder for audit.json and the contact sheets.")] = None,
    lists: Annotated[list[str] | None, option("PART=FILE", _LISTS, "--list")] = None,
    within: Annotated[bool, option("", "Look for copies inside each part too.", "--within")] = False,
    quiet: Quiet = False,
    verbose: Verbose = 0,
    as_json: AsJson = False,
    progress: ProgressAs = "auto",
) -> None:
    """Find duplicates, leaks between splits, wrong pairs and bad files; exits with 1 if there are problems."""
    with speaking(Voice("audit", quiet, verbose, as_json, progress)) as voice:
        from attcr.data.audit import audit as audit_data
        from attcr.data.sheet import write_contact_sheets

        with voice.showing() as show:
            report = audit_data(
                data,
                root,
                lists=_read_lists(lists) if lists else None,
                within=within,
                progress=lambda done, total: show("audit", done, total),
            )
        lines = list(_told_by_audit(report))
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
            (out / "audit.json").write_text(json.dumps(report.to_json(), indent=1) + "\n")
            sheets = write_contact_sheets(report, out)
            lines.append(f"\nwrote {out / 'audit.json'} and {len(sheets)} contact sheets")
        voice.result({**report.to_json(), "problems": report.problems}, lines)
        if report.problems:
            raise typer.Exit(1)


def _told_by_audit(report: "Audit") -> Iterator[str]:
    from attcr.data.audit import KINDS, PROBLEMS

    yield f"{report.dataset} at {report.root}: {report.pairs} pairs"
    for part, about in report.parts.items():
        yield f"  {part:5} {about['listed']:6} listed, {about['pairs']:6} pairs, sha256 {about['sha256']}"
    yield f"\n{'found':>7}  kind"
    for kind, meaning in KINDS.items():
        yield f"{len(report.of(kind)):7}  {kind:12} {'' if kind in PROBLEMS else '(note) '}{meaning}"
    for finding in report.of("substring"):
        yield f"\nsubstring: {finding.note}"
    for kind in ("exact", "near", "alike"):
        for part, other in (("test", "train"), ("val", "train"), ("test", "val")):
            names = report.names(kind, part, other)
            if names:
                yield f"\n{kind}: {len(names)} {part} images have one in {other}: {' '.join(names)}"
    for finding in [finding for finding in report.findings if finding.kind in PROBLEMS][:20]:
        who = ", ".join(f"{image.part} {image.name} {image.side}".strip() for image in finding.images[:4])
        yield f"\n{finding.kind}: {who}: {finding.note}"


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
    data: _Data,
    root: _Root,
    out: Annotated[Path, option("FOLDER", _OUT)],
    weights: Annotated[
        list[str] | None, option("WEIGHTS", "Weights to evaluate, by name, path or URL; may be repeated.")
    ] = None,
    predictions: Annotated[list[Path] | None, option("FOLDER", _PREDICTIONS)] = None,
    baseline: Annotated[str | None, option("NAME", "Evaluate only a baseline: copy or mean-colour.")] = None,
    split: Annotated[str, option("PART", "train, val or test.")] = "test",
    slots: Annotated[str | None, option("BANDS", _SLOTS)] = None,
    protocol: Annotated[list[str] | None, option("NAME", "A protocol; may be repeated.")] = None,
    pair: Annotated[list[str] | None, option("DATES", _PAIRS)] = None,
    device: Device = "cpu",
    dtype: Annotated[str, option("TYPE", "Number type of the network: float32, bfloat16 or float16.")] = "float32",
    backend: Backend = "auto",
    eight_views: Annotated[bool, option("", _EIGHT_VIEWS, "--eight-views")] = False,
    quiet: Quiet = False,
    verbose: Verbose = 0,
    as_json: AsJson = False,
    progress: ProgressAs = "auto",
) -> None:
    """Score weights, or stored predictions, under named protocols and write a report folder.

    The report describes the first method in full, and lists the others and the trivial baselines beside it. --protocol
    gap-fill with --data dates scores ways to fill gaps from other dates instead: ROOT has a .tif for each date, and
    --weights names a network that corrects the filled values (none: no network).
    """
    if_stopped = "The images that were scored are kept: run the same command to continue."
    with speaking(Voice("evaluate", quiet, verbose, as_json, progress, if_stopped)) as voice:
        from attcr.evaluate.run import Entrants, evaluate_entrants, lines_of, open_benchmark

        bands = tuple(name.strip() for name in slots.split(",")) if slots else ()
        pairs = [(target.strip(), other.strip()) for target, _, other in (text.partition(",") for text in pair or [])]
        benchmark = open_benchmark(data, root, split, slots=bands, pairs=pairs)
        entrants = Entrants(weights or (), predictions or (), baseline, eight_views, device, dtype, backend)
        with voice.showing() as show:
            shown = lambda done, total: show("evaluate", done, total)  # noqa: E731
            report = evaluate_entrants(benchmark, entrants, protocol or (), out, progress=shown)
        voice.result({"folder": out, **report}, [*lines_of(report), str(out / "report.md")])
