"""The command about data sets: evaluate."""

from pathlib import Path
from typing import Annotated

from attcr.cli.arguments import AsJson, Backend, Device, ProgressAs, Quiet, Verbose, option
from attcr.cli.voice import Voice, speaking

_Data = Annotated[str, option("NAME", "{datasets}, or MODULE:NAME; pairs: your own, in ROOT/cloudy and ROOT/clear.")]
_Root = Annotated[Path, option("FOLDER", "Folder of the data set, in its published layout.")]
_OUT = "The report folder; the same command resumes an interrupted run."
_PREDICTIONS = "A folder of restored images with the names of the data's images; may be repeated."
_SLOTS = "Bands of pairs that are not red, green and blue, such as swir16,nir08,red."
_PAIRS = "For gap-fill: TARGET,REFERENCE, two dates in ROOT; may be repeated."
_EIGHT_VIEWS = "Also score the mean over eight flips and turns of each image, in a row of its own."


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
