"""Methods x images x protocols -> a report folder that says what was measured, on what, and with what.

    report.md            the tables and figures to read
    report.json          the same numbers, all of them
    images-PROTOCOL.csv  one row per image; a table never mixes two protocols
    figures/             best, median and worst image; gain of each image
    rows.jsonl           what has been scored so far: an interrupted run continues from here
    run.log              when, how long: the only file that differs between two runs

Scores are in units where 1 is the peak (8-bit 255, or digital number 10000), whatever the model's range.
"""

import importlib.metadata
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attcr.bands.spec import InputSpec
from attcr.data import DataSet, Sample, Samples, find_set
from attcr.data.dates import CLASSES_MASK, ClearDates, CubeFolder, DatedPairs
from attcr.data.pairs import images_in, read_image, some
from attcr.data.sets import ALL
from attcr.data.splits import names_sha256
from attcr.errors import ConfigError, DataNotFoundError, ShapeError
from attcr.evaluate import figures
from attcr.evaluate.by_class import CLASS_PROTOCOLS, MOVED_VEIL, ClassProtocol
from attcr.evaluate.gaps import GAP_FILL, evaluate_gaps
from attcr.evaluate.moved import MovedVeils
from attcr.evaluate.protocols import CONTRAST_EDGES, IMAGE_PROTOCOLS, PAIRS, Given, Protocol, psnr
from attcr.evaluate.report import CLOUDY_DIFFERENCE, leading, markdown, summarise
from attcr.evaluate.rows import COPIED, Row, Rows, number
from attcr.evaluate.series import SERIES, evaluate_series
from attcr.evaluate.shipped import Restored, restore_as_shipped, surroundings
from attcr.files import sha256 as file_sha256
from attcr.files import write_whole
from attcr.predict import Backend, Predictor, eight_views, open_predictor, read_about
from attcr.version import __version__
from attcr.weights import find_weights

VEILS = "sen12mscr-pairs"
"""The data whose veils may be moved: those of CloudSEN12 may not be passed on."""
PROTOCOLS: dict[str, Protocol] = {**IMAGE_PROTOCOLS, **CLASS_PROTOCOLS, GAP_FILL.name: GAP_FILL, SERIES.name: SERIES}
"""All protocols by name: those of whole images first."""
LIBRARIES = (
    *("torch", "numpy", "scipy", "scikit-image", "torchmetrics", "matplotlib", "pillow", "rasterio"),
    *("s2cloudless", "ukis-csmask", "onnxruntime"),
)
"""What the numbers depend on; some may be absent."""
SHIPPED = "attcr restore"
"""The name of the method that is the plain command."""
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Benchmark:
    """The images to score on, and what a report must say of them."""

    samples: Samples
    data: DataSet
    part: str
    """Which part of it: train, val or test; `all` for a set without lists."""
    split_sha256: str
    """The sha256 of the list that names the images."""

    @property
    def spec(self) -> InputSpec:
        """What the planes of the images are."""
        return self.data.spec

    @property
    def by_class(self) -> bool:
        """Whether its samples have a mask of classes."""
        return isinstance(PROTOCOLS[self.data.protocol], ClassProtocol)

    def unit(self, image: ArrayLike) -> NDArray[np.float32]:
        """Give an image in the range of its spec as protocols want it, where 1 is the peak."""
        unit: NDArray[np.float32] = np.asarray(image, np.float32) / np.float32(self.data.peak)
        return unit

    @property
    def shown_spec(self) -> InputSpec:
        """What the planes of the images are where 1 is the peak, to show them by."""
        share = self.data.peak / self.spec.span
        return replace(self.spec, slots=tuple(replace(slot, high=slot.high * share) for slot in self.spec.slots))


def open_benchmark(
    data: str | DataSet,
    root: str | os.PathLike[str],
    part: str = "test",
    *,
    slots: Sequence[str] = (),
    pairs: Sequence[tuple[str, str]] = (),
) -> Benchmark:
    """Open a part of a data set, by its name in DATASETS.

    `slots` are the bands of images of your own (`pairs`); `pairs` are those of dates of your own (`dates`), each the
    date to fill and the one to fill from.
    """
    chosen = (find_set(data) if isinstance(data, str) else data).told(slots=slots, pairs=pairs)
    part = part if chosen.parts else ALL
    samples = chosen.open(root, part)
    return Benchmark(samples, chosen, part, chosen.part_sha256(part, samples))


@dataclass(frozen=True)
class Method:
    """Something that restores a sample, with the name and origin for its rows."""

    name: str
    restore: Callable[[Sample, InputSpec], ArrayLike | Restored]
    """Gives (C, H, W) like the sample's `clear`, in the same range, not clamped; a tensor on the CPU, or an array; or
    that with the error expected of it. The spec says what the planes are."""
    source: Mapping[str, Any] = field(default_factory=dict)
    """Where it comes from: files with their sha256, settings."""
    takes: InputSpec | None = None
    """What it takes and gives; None where that is no matter."""

    def __call__(self, sample: Sample, spec: InputSpec) -> Restored:
        """Restore a sample."""
        made = self.restore(sample, spec)
        return made if isinstance(made, Restored) else Restored(made)


def _optical(sample: Sample, spec: InputSpec) -> NDArray[np.float32]:
    return np.asarray(sample["inputs"], np.float32)[spec.optical]


def _mean_colour(sample: Sample, spec: InputSpec) -> NDArray[np.float32]:
    optical = _optical(sample, spec)
    return np.broadcast_to(optical.mean((1, 2), keepdims=True), optical.shape)


COPY = Method(COPIED, _optical)
"""The cloudy image itself: what doing nothing scores."""
MEAN_COLOUR = Method("input's mean colour", _mean_colour)
"""A flat image of the cloudy image's mean colour."""
BASELINES = {"copy": COPY, "mean-colour": MEAN_COLOUR}
SURROUNDINGS = Method("surroundings only", surroundings)
"""The clear ground around, interpolated: what a result without any detail scores, on pairs of two dates."""


def method_from_predictor(
    predictor: Predictor, name: str, source: Mapping[str, Any] | None = None, *, average_views: bool = False
) -> Method:
    """Give a predictor as a method, run on whole images; planes are picked, and bands given back, by their names.

    With `average_views` the result is the mean over the eight flips and turns of the image (a self-ensemble).
    """
    takes = predictor.spec

    def restore(sample: Sample, spec: InputSpec) -> ArrayLike:
        inputs = np.asarray(sample["inputs"])
        absent = np.zeros(inputs.shape[1:], np.float32)
        planes = [absent if at is None else inputs[at] for at in takes.pick(spec.slots)]
        x = np.stack(planes)[None]
        restored = (eight_views(predictor, x).mean(axis=0) if average_views else predictor(x))[0]
        given: ArrayLike = restored[[takes.outputs.index(band) for band in spec.outputs]]
        return given

    return Method(name, restore, {**predictor.identity, **(source or {})}, takes)


def method_from_weights(
    weights: str | os.PathLike[str],
    *,
    device: str = "cpu",
    dtype: str = "float32",
    backend: Backend = "auto",
    average_views: bool = False,
) -> Method:
    """Give the network of published, exported or other weights as a method, named after the file."""
    file = find_weights(weights)
    header = read_about(file)
    made_of: dict[str, Any] = {
        "weights": file.name,
        "sha256": file_sha256(file),
        "network": header.network,
        "config": dict(header.config),
        "device": device,
    }
    predictor = open_predictor(file, device=device, dtype=dtype, backend=backend)
    if not average_views:
        return method_from_predictor(predictor, file.stem, made_of)
    made_of["views"] = 8
    return method_from_predictor(predictor, f"{file.stem}, mean of eight views", made_of, average_views=True)


def method_as_shipped(weights: str | os.PathLike[str], name: str = SHIPPED, **how: Any) -> Method:
    """Give `attcr restore` without any option as a method: clouds found, clear ground used, clear pixels kept.

    `how` is device, dtype and backend. It takes pairs of two dates.
    """
    file = find_weights(weights)
    predictor = open_predictor(file, **how)
    source = {"weights": file.name, "sha256": file_sha256(file), "command": "attcr restore"}
    return Method(name, lambda sample, spec: restore_as_shipped(sample, spec, predictor), source, predictor.spec)


def method_from_predictions(folder: str | os.PathLike[str], benchmark: Benchmark) -> Method:
    """Give stored predictions as a method, named after their folder; files are named as the images are.

    Integers are digital numbers (8-bit: 255 is the peak), floats (TIFF) are where 1 is the peak.
    """
    files = images_in(Path(folder))
    names = list(benchmark.samples.names)
    missing = [name for name in names if name not in files]
    if missing:
        raise DataNotFoundError(
            f"{len(missing)} of {len(names)} images have no prediction in {folder}: {some(missing)}"
        )

    def restore(sample: Sample, spec: InputSpec) -> ArrayLike:
        values = read_image(files[sample["name"]])
        peak = benchmark.data.levels if values.dtype.kind in "iu" else 1.0
        scaled: ArrayLike = values.astype(np.float32) / np.float32(peak / benchmark.data.peak)
        return scaled

    digests = (f"{name} {file_sha256(files[name])}\n" for name in names)
    source = {
        "predictions": Path(folder).resolve().name,
        "sha256": sha256("".join(digests).encode()).hexdigest(),
    }
    return Method(source["predictions"], restore, source)


@dataclass(frozen=True)
class Entrants:
    """What a command names to be evaluated."""

    weights: Sequence[str] = ()
    predictions: Sequence[Path] = ()
    """Folders of stored predictions."""
    baseline: str | None = None
    """A name in BASELINES, instead of weights and predictions."""
    eight_views: bool = False
    """Whether weights are also entered as the mean over eight flips and turns."""
    device: str = "cpu"
    dtype: str = "float32"
    backend: str = "auto"

    def methods(self, benchmark: Benchmark) -> list[Method]:
        """Give those that restore images."""
        if bool(self.weights or self.predictions) == (self.baseline is not None):
            raise ConfigError(
                "give what to evaluate: `weights` or `predictions`, or else `baseline` copy or mean-colour."
            )
        if self.baseline is not None:
            if self.baseline not in BASELINES:
                raise ConfigError(f"`baseline` is {self.baseline}; expected {' or '.join(BASELINES)}.")
            return [BASELINES[self.baseline]]
        how: dict[str, Any] = {"device": self.device, "dtype": self.dtype, "backend": self.backend}
        methods = [
            method_from_weights(weights, **how, average_views=averaged)
            for weights in self.weights
            for averaged in ((False, True) if self.eight_views else (False,))
        ]
        if benchmark.by_class:
            several = bool(self.weights[1:])
            names = [f"{SHIPPED}, {find_weights(weights).stem}" if several else SHIPPED for weights in self.weights]
            shipped = [method_as_shipped(*each, **how) for each in zip(self.weights, names, strict=True)]
            methods = [*shipped, *methods]
        return [*methods, *(method_from_predictions(folder, benchmark) for folder in self.predictions)]

    def network(self) -> str | None:
        """Give the weights that correct references, for gaps; None where none are named."""
        if self.weights[1:]:
            raise ConfigError("`protocol` gap-fill takes one network that corrects references: give `weights` once.")
        return next(iter(self.weights), None)


def evaluate_entrants(
    benchmark: Benchmark,
    entrants: Entrants,
    protocols: Sequence[str],
    out: str | os.PathLike[str],
    *,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Evaluate what a command names, under the data's own protocol where none is named."""
    names = protocols or [benchmark.data.protocol]
    benchmark = with_moved_veils(benchmark, find_protocols(names, benchmark.data))
    if isinstance(benchmark.samples, CubeFolder):
        if entrants != Entrants():
            raise ConfigError("series scores the filling of the cube: give no weights, predictions or baseline.")
        return evaluate_series(benchmark.samples.root, benchmark.data, Path(out), progress=progress)
    if isinstance(benchmark.samples, ClearDates):
        dates, network = benchmark.samples, entrants.network()
        return evaluate_gaps(dates, benchmark.data, Path(out), weights=network, dtype=entrants.dtype, progress=progress)
    return evaluate(benchmark, entrants.methods(benchmark), names, out, progress=progress)


def lines_of(report: Mapping[str, Any]) -> list[str]:
    """Give what a command prints of a report."""
    results = report.get("protocols", {GAP_FILL.name: report})
    return [line for name, result in results.items() for line in PROTOCOLS[name].lines(result)]


def find_protocols(names: Sequence[str], data: DataSet) -> list[Protocol]:
    """Give the protocols of these names that can score a data set, those of whole images first."""
    for name in (*names, data.protocol):
        if name not in PROTOCOLS:
            raise ConfigError(f"there is no protocol {name!r}; there are {', '.join(PROTOCOLS)}.")
    rules = [PROTOCOLS[name] for name in dict.fromkeys(names)]
    fitting = {PROTOCOLS[data.protocol].scored, *((PAIRS,) if data.cloudy else ())}
    fitting |= {MOVED_VEIL.scored} if data.name == VEILS else set()
    for rule in rules:
        if rule.scored not in fitting:
            others = ", ".join(name for name, other in PROTOCOLS.items() if other.scored in fitting)
            raise ConfigError(
                f"{rule.name} scores {rule.scored}, and {data.name} has none: give another protocol ({others}), or "
                "other data."
            )
    return sorted(rules, key=lambda rule: rule.scored != PAIRS)


def with_moved_veils(benchmark: Benchmark, rules: Sequence[Protocol]) -> Benchmark:
    """Give the images that protocols score: `moved-veil` makes its own out of those of a benchmark."""
    if MOVED_VEIL not in rules or isinstance(benchmark.samples, MovedVeils):
        return benchmark
    if len(rules) > 1:
        raise ConfigError(f"{MOVED_VEIL.name} makes images of its own: give no other protocol beside it.")
    assert isinstance(benchmark.samples, DatedPairs)
    return replace(benchmark, samples=MovedVeils(benchmark.samples))


def evaluate(
    benchmark: Benchmark,
    methods: Sequence[Method],
    protocols: Sequence[str],
    out: str | os.PathLike[str],
    *,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Score the methods and write the report folder; give what is in its `report.json`.

    The first method is the one reported on; the trivial baselines stand beside it. An interrupted run
    of the same evaluation is resumed, and the finished report is the same to the byte.
    """
    rules = find_protocols(protocols, benchmark.data)
    benchmark = with_moved_veils(benchmark, rules)
    if isinstance(benchmark.samples, ClearDates):
        if methods:
            raise ConfigError("gap-fill scores the ways to fill that attcr knows: give no methods.")
        return evaluate_gaps(benchmark.samples, benchmark.data, Path(out), progress=progress)
    baselines = (COPY, SURROUNDINGS) if benchmark.by_class else BASELINES.values()
    methods = [*methods, *(baseline for baseline in baselines if baseline not in methods)]
    if len({method.name for method in methods}) < len(methods):
        raise ConfigError(
            f"two methods have the same name: {some([method.name for method in methods])}; rename a file."
        )
    for method in methods:
        _check_fit(method, benchmark)
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    names = list(benchmark.samples.names)
    about = _describe(benchmark, methods, rules)
    started = time.time()
    with Rows(folder / "rows.jsonl", about, names) as rows:
        at = len(rows.done)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for index in range(at, len(names)):
                if progress:
                    progress(index, len(names))
                rows.append(_score(benchmark.samples[index], benchmark, methods, rules, pool))
    if progress:
        progress(len(names), len(names))
    report = summarise(rows.done, rules, about, benchmark.data, benchmark.part)
    _write_figures(folder / "figures", report, rows.done, benchmark, methods[0], rules)
    for rule in rules:
        name, text = rule.rows_file(rows.done)
        write_whole(folder / name, text)
    write_whole(folder / "report.json", json.dumps(report, indent=1) + "\n")
    write_whole(folder / "report.md", markdown(report, rules))
    with (folder / "run.log").open("a") as log:
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(started))
        took = time.time() - started
        log.write(f"{stamp} scored images {at} to {len(names)} in {took:.1f} s, process {os.getpid()}\n")
    return report


def _check_fit(method: Method, benchmark: Benchmark) -> None:
    """Refuse weights that take other planes than the images hold, or give other bands than the references."""
    if method.takes is None:
        return
    try:
        method.takes.pick(benchmark.spec.slots)
    except ConfigError as error:
        raise ConfigError(f"{method.name} does not fit {benchmark.data.name}: {error}") from error
    absent = [band for band in benchmark.spec.outputs if band not in method.takes.outputs]
    if absent:
        raise ConfigError(
            f"{method.name} does not fit {benchmark.data.name}: the references hold {' '.join(benchmark.spec.outputs)} "
            f"and the weights give {' '.join(method.takes.outputs)}. Give weights that restore {' '.join(absent)} too"
        )


def _describe(benchmark: Benchmark, methods: Sequence[Method], rules: Sequence[Protocol]) -> dict[str, Any]:
    """Say what is measured, on what, with what: what two runs must share to be one evaluation."""
    about = {
        "data": {
            "name": benchmark.data.name,
            "part": benchmark.part,
            "slots": [slot.name for slot in benchmark.spec.slots],
            "split sha256": benchmark.split_sha256,
            "images": len(benchmark.samples.names),
            "names sha256": names_sha256(benchmark.samples.names),
        },
        "methods": {method.name: dict(method.source) for method in methods},
        "protocols": [rule.name for rule in rules],
        "cloudy threshold": CLOUDY_DIFFERENCE,
        "contrast edges": CONTRAST_EDGES,
        "versions": {"attcr": __version__, **dict(_versions())},
    }
    normalised: dict[str, Any] = json.loads(json.dumps(about))
    return normalised


def _versions() -> Iterator[tuple[str, str]]:
    for name in LIBRARIES:
        with suppress(importlib.metadata.PackageNotFoundError):
            yield name, importlib.metadata.version(name)


def _score(
    sample: Sample,
    benchmark: Benchmark,
    methods: Sequence[Method],
    rules: Sequence[Protocol],
    pool: ThreadPoolExecutor,
) -> Row:
    reference, copied = benchmark.unit(sample["clear"]), benchmark.unit(_optical(sample, benchmark.spec))
    cloudy = abs(copied - reference).max(0) > CLOUDY_DIFFERENCE
    row: Row = {
        "name": sample["name"],
        "size": list(reference.shape),
        "cover": float(cloudy.mean()),
        "contrast": _contrast(reference),
        "input psnr": psnr(copied, reference),
        "scores": {method.name: {} for method in methods},
        "pixels": {},
    }
    mask = sample["masks"].get(CLASSES_MASK)
    waiting = []
    for method in methods:
        made = method(sample, benchmark.spec)
        restored = benchmark.unit(made.image)
        given = Given(benchmark.spec.outputs, mask, copied, made.expected)
        if restored.shape != reference.shape:
            raise ShapeError(
                f"{method.name} gave {restored.shape} for {sample['name']}, whose reference is {reference.shape}."
            )
        for rule in rules:
            scores = pool.submit(rule.score, restored, reference, given)
            waiting.append((rule, method.name, scores))
        error = (restored.clip(0, 1) - reference).astype(np.float64)
        row["pixels"][method.name] = {
            kind: [int(where.sum()), float(abs(error[:, where]).sum()), float((error[:, where] ** 2).sum())]
            for kind, where in (("cloudy", cloudy), ("clear", ~cloudy))
        }
    for rule, name, scores in waiting:
        row.setdefault(rule.row_key, {}).setdefault(name, {})[rule.name] = scores.result()
    return row


def _contrast(reference: NDArray[np.float32]) -> float:
    low, high = np.percentile(reference.mean(0, dtype=np.float64), [5, 95])
    return float(high - low)


def _write_figures(
    folder: Path,
    report: Mapping[str, Any],
    rows: Sequence[Row],
    benchmark: Benchmark,
    subject: Method,
    rules: Sequence[Protocol],
) -> None:
    images = {}
    for index in {shown["index"] for shown in report["shown"].values()}:
        sample = benchmark.samples[index]
        three = _optical(sample, benchmark.spec), subject(sample, benchmark.spec).image, sample["clear"]
        images[index] = [benchmark.unit(image) for image in three]
    panels = [
        figures.Panel(f"{title}, {shown['name']}, {number(shown['psnr'], 2)} dB", *images[shown["index"]])
        for title, shown in report["shown"].items()
    ]
    figures.save_panels(folder / "panels.png", panels, benchmark.shown_spec)
    first = leading(rules)
    if first and subject is not COPY:
        before, after = (first.of(rows, name, "psnr") for name in (COPIED, subject.name))
        figures.save_gain(folder / "gain.png", before, after, title=f"{subject.name}, {first.name}")
