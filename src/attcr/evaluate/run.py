"""Methods x images x protocols -> a report folder that says what was measured, on what, and with what.

    report.md            the tables and figures to read
    report.json          the same numbers, all of them
    images-PROTOCOL.csv  one row per image; a table never mixes two protocols
    figures/             best, median and worst image; gain of each image
    rows.jsonl           what has been scored so far: an interrupted run continues from here
    run.log              when, how long: the only file that differs between two runs

Scores are in units where 1 is the peak (8-bit 255, or digital number 10000), whatever the model's range.
"""

import csv
import importlib.metadata
import io
import itertools
import json
import math
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
from attcr.data.dates import CLASSES_MASK
from attcr.data.pairs import images_in, read_image, some
from attcr.data.sets import ALL
from attcr.data.splits import names_sha256
from attcr.errors import ConfigError, DataError, DataNotFoundError, ShapeError
from attcr.evaluate import figures
from attcr.evaluate.by_class import CLASS_PROTOCOLS, EVERY, ClassProtocol, summarise
from attcr.evaluate.protocols import PROTOCOLS, Metric, Protocol, average, named, psnr
from attcr.files import sha256 as file_sha256
from attcr.files import write_whole
from attcr.predict import Backend, Predictor, eight_views, open_predictor, read_about
from attcr.version import __version__
from attcr.weights import find_weights

CLOUDY_DIFFERENCE = 0.1
"""A pixel is called cloudy when any band of input and reference differ by more, where 1 is the peak."""
PSNR_EDGES = (15, 20, 25, 35)
"""Bins of the input's own PSNR in dB."""
COVER_EDGES = (0.1, 0.3, 0.5, 0.7)
"""Bins of the share of cloudy pixels."""
CONTRAST_EDGES = (0.02,)
"""Bins of the reference's contrast, where 1 is the peak: between its 5th and 95th percentile, bands averaged. Below
lie open sea and other even ground, which are easy."""
RESAMPLES = 2000
"""Bootstrap resamples behind each 95 % interval; their seed is 0."""

Row = dict[str, Any]


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
    data: str | DataSet, root: str | os.PathLike[str], part: str = "test", *, slots: Sequence[str] = ()
) -> Benchmark:
    """Open a part of a data set, by its name in DATASETS; `slots` are the bands of images of your own (`pairs`)."""
    chosen = (find_set(data) if isinstance(data, str) else data).told(slots=slots)
    part = part if chosen.parts else ALL
    samples = chosen.open(root, part)
    return Benchmark(samples, chosen, part, chosen.part_sha256(part, samples))


@dataclass(frozen=True)
class Method:
    """Something that restores a sample, with the name and origin for its rows."""

    name: str
    restore: Callable[[Sample, InputSpec], ArrayLike]
    """Gives (C, H, W) like the sample's `clear`, in the same range, not clamped; a tensor on the CPU, or an array. The
    spec says what the planes are."""
    source: Mapping[str, Any] = field(default_factory=dict)
    """Where it comes from: files with their sha256, settings."""
    takes: InputSpec | None = None
    """What it takes and gives; None where that is no matter."""


def _optical(sample: Sample, spec: InputSpec) -> NDArray[np.float32]:
    return np.asarray(sample["inputs"], np.float32)[spec.optical]


def _mean_colour(sample: Sample, spec: InputSpec) -> NDArray[np.float32]:
    optical = _optical(sample, spec)
    return np.broadcast_to(optical.mean((1, 2), keepdims=True), optical.shape)


COPY = Method("input copied", _optical)
"""The cloudy image itself: what doing nothing scores."""
MEAN_COLOUR = Method("input's mean colour", _mean_colour)
"""A flat image of the cloudy image's mean colour."""


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
    source: str | os.PathLike[str],
    *,
    device: str = "cpu",
    dtype: str = "float32",
    backend: Backend = "auto",
    average_views: bool = False,
) -> Method:
    """Give the network of published, exported or other weights as a method, named after the file."""
    file = find_weights(source)
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


def evaluate(
    benchmark: Benchmark,
    methods: Sequence[Method],
    protocols: Sequence[str],
    out: str | os.PathLike[str],
    *,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Score the methods and write the report folder; give what is in its `report.json`.

    The first method is the one reported on; the trivial baselines stand beside it. An interrupted run
    of the same evaluation is resumed, and the finished report is the same to the byte.
    """
    rules, class_rules = _named(protocols, benchmark)
    methods = [*methods, *(baseline for baseline in (COPY, MEAN_COLOUR) if baseline not in methods)]
    if len({method.name for method in methods}) < len(methods):
        raise ConfigError(
            f"two methods have the same name: {some([method.name for method in methods])}; rename a file."
        )
    for method in methods:
        _check_fit(method, benchmark)
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    names = list(benchmark.samples.names)
    about = _describe(benchmark, names, methods, [*rules, *class_rules])
    started = time.time()
    with _Rows(folder / "rows.jsonl", about, names) as rows:
        at = len(rows.done)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for index in range(at, len(names)):
                if progress:
                    progress(index, len(names))
                rows.append(_score(benchmark.samples[index], benchmark, methods, (rules, class_rules), pool))
    if progress:
        progress(len(names), len(names))
    report = _summarise(rows.done, benchmark, methods, (rules, class_rules), about)
    _write_figures(folder / "figures", report, rows.done, benchmark, methods[0], rules)
    for rule in rules:
        write_whole(folder / f"images-{rule.name}.csv", _table(rows.done, methods, rule))
    for class_rule in class_rules:
        write_whole(folder / f"images-{class_rule.name}.csv", _class_csv(rows.done, methods, class_rule))
    write_whole(folder / "report.json", json.dumps(report, indent=1) + "\n")
    write_whole(folder / "report.md", _markdown(report, methods, (rules, class_rules)))
    with (folder / "run.log").open("a") as log:
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(started))
        took = time.time() - started
        log.write(f"{stamp} scored images {at} to {len(names)} in {took:.1f} s, process {os.getpid()}\n")
    return report


Rules = tuple[Sequence[Protocol], Sequence[ClassProtocol]]
"""Protocols of whole images, and those by class."""


def _named(names: Sequence[str], benchmark: Benchmark) -> tuple[list[Protocol], list[ClassProtocol]]:
    """Find the protocols of these names; those by class need a mask of classes with each image."""
    names = list(dict.fromkeys(names))
    unknown = [name for name in names if name not in {*PROTOCOLS, *CLASS_PROTOCOLS}]
    if unknown:
        raise ConfigError(
            f"there is no protocol {unknown[0]!r}; there are {', '.join((*PROTOCOLS, *CLASS_PROTOCOLS))}."
        )
    by_class = [CLASS_PROTOCOLS[name] for name in names if name in CLASS_PROTOCOLS]
    if by_class and benchmark.data.protocol not in CLASS_PROTOCOLS:
        raise ConfigError(
            f"{by_class[0].name} scores pairs of two dates with a mask of classes, and {benchmark.data.name} has none: "
            f"give another protocol ({', '.join(PROTOCOLS)}), or other data."
        )
    return [named(name) for name in names if name in PROTOCOLS], by_class


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


class _Rows:
    """The rows scored so far, appended durably: the first line says what they are of, each other is an image."""

    def __init__(self, path: Path, about: Mapping[str, Any], names: Sequence[str]) -> None:
        self.path = path
        self.done: list[Row] = []
        # A run killed while writing leaves half a line, which is cut off.
        kept = path.read_bytes() if path.exists() else b""
        kept = kept[: kept.rfind(b"\n") + 1]
        lines = [json.loads(line) for line in kept.splitlines()]
        if lines:
            differing = sorted(key for key in {*lines[0], *about} if lines[0].get(key) != about.get(key))
            if differing:
                raise ConfigError(
                    f"{path.parent} holds an evaluation that differs in its {' and '.join(differing)}: "
                    "give another folder, or remove it to start again."
                )
            self.done = lines[1:]
            if [row["name"] for row in self.done] != list(names[: len(self.done)]):
                raise DataError(f"{path} does not hold the images in their order: remove it to start again.")
        self._file = path.open("r+b" if path.exists() else "w+b")
        self._file.truncate(len(kept))
        self._file.seek(len(kept))
        if not lines:
            self._line(about)

    def append(self, row: Row) -> None:
        """Add a row; when this returns it survives a power cut."""
        self._line(row)
        self.done.append(row)

    def _line(self, content: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(content).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def __enter__(self) -> "_Rows":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _describe(
    benchmark: Benchmark, names: Sequence[str], methods: Sequence[Method], rules: Sequence[Protocol | ClassProtocol]
) -> dict[str, Any]:
    """Say what is measured, on what, with what: what two runs must share to be one evaluation."""
    libraries = (
        "torch",
        "numpy",
        "scipy",
        "scikit-image",
        "torchmetrics",
        "matplotlib",
        "pillow",
        "rasterio",
    )
    about = {
        "data": {
            "name": benchmark.data.name,
            "part": benchmark.part,
            "slots": [slot.name for slot in benchmark.spec.slots],
            "split sha256": benchmark.split_sha256,
            "images": len(names),
            "names sha256": names_sha256(names),
        },
        "methods": {method.name: dict(method.source) for method in methods},
        "protocols": [rule.name for rule in rules],
        "cloudy threshold": CLOUDY_DIFFERENCE,
        "contrast edges": CONTRAST_EDGES,
        "versions": {"attcr": __version__, **dict(_versions(libraries))},
    }
    normalised: dict[str, Any] = json.loads(json.dumps(about))
    return normalised


def _versions(libraries: Sequence[str]) -> Iterator[tuple[str, str]]:
    for name in libraries:
        with suppress(importlib.metadata.PackageNotFoundError):  # torch and torchmetrics may be absent
            yield name, importlib.metadata.version(name)


def _score(
    sample: Sample,
    benchmark: Benchmark,
    methods: Sequence[Method],
    rules: Rules,
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
    waiting = {}
    for method in methods:
        restored = benchmark.unit(method.restore(sample, benchmark.spec))
        if restored.shape != reference.shape:
            raise ShapeError(
                f"{method.name} gave {restored.shape} for {sample['name']}, whose reference is {reference.shape}."
            )
        for rule in rules[0]:
            waiting[method.name, rule.name] = pool.submit(rule.score, restored, reference)
        for class_rule in rules[1]:
            classes, bands = sample["masks"][CLASSES_MASK], benchmark.spec.outputs
            by_class = row.setdefault("classes", {}).setdefault(method.name, {})
            by_class[class_rule.name] = class_rule.score(restored, reference, classes, bands)
        error = (restored.clip(0, 1) - reference).astype(np.float64)
        row["pixels"][method.name] = {
            kind: [
                int(where.sum()),
                float(abs(error[:, where]).sum()),
                float((error[:, where] ** 2).sum()),
            ]
            for kind, where in (("cloudy", cloudy), ("clear", ~cloudy))
        }
    for (method_name, rule_name), scores in waiting.items():
        row["scores"][method_name][rule_name] = scores.result()
    return row


def _contrast(reference: NDArray[np.float32]) -> float:
    low, high = np.percentile(reference.mean(0, dtype=np.float64), [5, 95])
    return float(high - low)


def _interval(values: Sequence[float]) -> dict[str, float | int]:
    """Give the mean over images and its bootstrap 95 % interval; NaN values are left out and not counted."""
    known = np.array([value for value in values if not math.isnan(value)])
    if not known.size:
        return {"mean": math.nan, "low": math.nan, "high": math.nan, "images": 0}
    generator = np.random.default_rng(0)
    means = [known[generator.integers(0, known.size, known.size)].mean() for _ in range(RESAMPLES)]
    low, high = np.percentile(means, [2.5, 97.5]) if np.isfinite(known).all() else (math.nan, math.nan)
    return {"mean": float(known.mean()), "low": float(low), "high": float(high), "images": int(known.size)}


def _bins(edges: Sequence[float], unit: str, times: float = 1) -> Iterator[tuple[str, Callable[[float], bool]]]:
    """Give a label and a test for each bin; a value on an edge belongs to the bin above it."""
    bounds = (-math.inf, *edges, math.inf)
    for low, high in itertools.pairwise(bounds):
        if low == -math.inf:
            label = f"below {high * times:g}{unit}"
        elif high == math.inf:
            label = f"{low * times:g}{unit} and above"
        else:
            label = f"{low * times:g} to {high * times:g}{unit}"
        yield label, lambda value, low=low, high=high: low <= value < high  # type: ignore[misc]


def _by(
    key: str, bins: Iterator[tuple[str, Callable[[float], bool]]], rows: Sequence[Row], rule: Protocol
) -> dict[str, Any]:
    broken_down = {}
    for label, inside in bins:
        chosen = [row for row in rows if inside(row[key])]
        means = {
            method: average(row["scores"][method][rule.name] for row in chosen)
            for method in (rows[0]["scores"] if chosen else ())
        }
        broken_down[label] = {"images": len(chosen), "methods": means}
    return broken_down


def _summarise(
    rows: Sequence[Row],
    benchmark: Benchmark,
    methods: Sequence[Method],
    rules: Rules,
    about: Mapping[str, Any],
) -> dict[str, Any]:
    subject = methods[0].name
    report: dict[str, Any] = {"subject": subject, "made with": about, "protocols": {}, "pixels": {}}
    for rule in rules[0]:
        scores = {
            method.name: {
                key: _interval([row["scores"][method.name][rule.name][key] for row in rows]) for key in rule.metrics
            }
            for method in methods
        }
        worse = [
            row["name"]
            for row in rows
            if row["scores"][subject][rule.name]["psnr"] < row["scores"][COPY.name][rule.name]["psnr"]
        ]
        report["protocols"][rule.name] = {
            "methods": scores,
            "by the input's PSNR": _by("input psnr", _bins(PSNR_EDGES, " dB"), rows, rule),
            "by cloud cover": _by("cover", _bins(COVER_EDGES, " %", 100), rows, rule),
            "by the reference's contrast": _by("contrast", _bins(CONTRAST_EDGES, ""), rows, rule),
            "worse than the input": worse,
            "notes": _notes(rows, benchmark, rule),
            "paper": _paper(benchmark, rule),
        }
    for method in methods:
        report["pixels"][method.name] = {
            kind: _pooled([row["pixels"][method.name][kind] for row in rows], rows[0]["size"][0])
            for kind in ("cloudy", "clear")
        }
    for class_rule in rules[1]:
        by_class = {method.name: [row["classes"][method.name][class_rule.name] for row in rows] for method in methods}
        report["protocols"][class_rule.name] = summarise(
            by_class, [row["name"] for row in rows], class_rule, copied=COPY.name, resamples=RESAMPLES
        )
    decibels = [_shown_psnr(row, subject, rules[0]) for row in rows]
    order = sorted(range(len(rows)), key=lambda index: decibels[index])
    shown = {"worst": order[0], "median": order[len(order) // 2], "best": order[-1]}
    report["shown"] = {
        title: {"name": rows[index]["name"], "index": index, "psnr": decibels[index]} for title, index in shown.items()
    }
    finite: dict[str, Any] = _finite(report)
    return finite


def _shown_psnr(row: Row, subject: str, rules: Sequence[Protocol]) -> float:
    """Give the PSNR that images are ordered by: the first protocol's, else that of all pixels as they are."""
    if rules:
        return float(row["scores"][subject][rules[0].name]["psnr"])
    return float(_pooled(list(row["pixels"][subject].values()), row["size"][0])["psnr"])


def _pooled(sums: Sequence[Sequence[float]], bands: int) -> dict[str, float | int]:
    pixels = sum(int(entry[0]) for entry in sums)
    if not pixels:
        return {"pixels": 0, "mae": math.nan, "psnr": math.nan}
    absolute, squared = (math.fsum(entry[at] for entry in sums) / (pixels * bands) for at in (1, 2))
    return {"pixels": pixels, "mae": absolute, "psnr": -10 * math.log10(squared) if squared else math.inf}


def _finite(content: Any) -> Any:
    """Give JSON that any reader takes: NaN and infinity become null."""
    if isinstance(content, dict):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, list):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def _paper(benchmark: Benchmark, rule: Protocol) -> Mapping[str, float] | None:
    paper = benchmark.data.paper
    return dict(paper.scores) if paper and benchmark.data.protocol == rule.name else None


def _notes(rows: Sequence[Row], benchmark: Benchmark, rule: Protocol) -> list[str]:
    """Say what a reader must know before he compares."""
    notes = []
    bands = rows[0]["size"][0]
    if rule.bands not in (None, bands):
        notes.append(f"the protocol was published for {rule.bands} bands; these images have {bands}.")
    for key, metric in rule.metrics.items():
        left_out = {
            method: sum(math.isnan(row["scores"][method][rule.name][key]) for row in rows)
            for method in rows[0]["scores"]
        }
        if any(left_out.values()):
            counts = ", ".join(f"{count} of {method}" for method, count in left_out.items() if count)
            notes.append(
                f"{metric.heading} leaves out images with a black pixel, of {len(rows)}: {counts}. "
                "Between methods it is then of different images."
            )
    paper = benchmark.data.paper
    if paper and benchmark.data.protocol == rule.name:
        if benchmark.part != "test":
            notes.append(f"the paper's row is of its test part; this is {benchmark.part}.")
        if paper.split:
            notes.append(f"the paper's row is of another split: {paper.split}.")
        sizes = sorted({f"{row['size'][1]}x{row['size'][2]}" for row in rows})
        if sizes != [f"{paper.size}x{paper.size}"]:
            notes.append(f"the paper's images are {paper.size}x{paper.size}; these are {', '.join(sizes)}.")
    return notes


def _table(rows: Sequence[Row], methods: Sequence[Method], rule: Protocol) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    columns = [(method.name, key) for method in methods for key in rule.metrics]
    writer.writerow(["name", "cloud cover", "contrast", "input psnr", *(f"{method}: {key}" for method, key in columns)])
    for row in rows:
        scores = (row["scores"][method][rule.name][key] for method, key in columns)
        writer.writerow([row["name"], row["cover"], row["contrast"], row["input psnr"], *scores])
    return text.getvalue()


def _class_csv(rows: Sequence[Row], methods: Sequence[Method], rule: ClassProtocol) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        ["name", "class", "pixels", *(f"{method.name}: {key}" for method in methods for key in rule.metrics)]
    )
    for row in rows:
        by_method = [row["classes"][method.name][rule.name] for method in methods]
        for name, first in by_method[0].items():
            scores = (of_method[name][key] for of_method in by_method for key in rule.metrics)
            writer.writerow([row["name"], name, first["pixels"], *scores])
    return text.getvalue()


def _write_figures(
    folder: Path,
    report: Mapping[str, Any],
    rows: Sequence[Row],
    benchmark: Benchmark,
    subject: Method,
    rules: Sequence[Protocol],
) -> None:
    panels = []
    for title, shown in report["shown"].items():
        sample = benchmark.samples[shown["index"]]
        images = (_optical(sample, benchmark.spec), subject.restore(sample, benchmark.spec), sample["clear"])
        arrays = [benchmark.unit(image) for image in images]
        heading = f"{title}, {shown['name']}, {_number(shown['psnr'], 2)} dB"
        panels.append(figures.Panel(heading, *arrays))
    figures.save_panels(folder / "panels.png", panels, benchmark.shown_spec)
    if subject is COPY or not rules:
        return
    rule = rules[0]
    before = [row["scores"][COPY.name][rule.name]["psnr"] for row in rows]
    after = [row["scores"][subject.name][rule.name]["psnr"] for row in rows]
    figures.save_gain(folder / "gain.png", before, after, title=f"{subject.name}, {rule.name}")


def _number(value: float | None, decimals: int) -> str:
    return "-" if value is None else f"{value:.{decimals}f}"


def _lines(heading: Sequence[str], body: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (heading, ["---"] * len(heading), *body)]


def _column(metric: Metric) -> str:
    return f"{metric.heading} {'↑' if metric.higher_is_better else '↓'}" + (f" ({metric.unit})" if metric.unit else "")


def _markdown(report: Mapping[str, Any], methods: Sequence[Method], rules: Rules) -> str:
    subject, made = report["subject"], report["made with"]
    data = made["data"]
    text = [
        f"# {subject} on {data['name']} {data['part']}, {data['images']} images",
        "",
        "Each table is of one protocol; numbers of two protocols cannot be compared. Means are over "
        f"{'images' if rules[0] else 'the pixels of a class'}, with a bootstrap 95 % interval ({RESAMPLES} resamples "
        "of images, seed 0).",
    ]
    for rule in rules[0]:
        text += ["", f"## Protocol {rule.name}", "", f"Used by {rule.who}. {rule.space}.", ""]
        text += _protocol_tables(report, methods, rule)
    for class_rule in rules[1]:
        text += [
            "",
            f"## Protocol {class_rule.name}",
            "",
            f"{class_rule.space}.",
            "",
            *_class_table(report, class_rule),
        ]
    if rules[0]:
        text += _pixel_table(report)
    order = f"PSNR under {rules[0][0].name}" if rules[0] else "PSNR of all pixels as they are"
    text += [
        "",
        "## Images",
        "",
        f"Worst, median and best by {order}; the error map ends at {figures.WORST_SHOWN:g}.",
        "",
        "![panels](figures/panels.png)",
        "",
        *(("![gain](figures/gain.png)", "") if subject != COPY.name and rules[0] else ()),
        "## What made it",
        "",
        f"- data: {data['name']} {data['part']}, split sha256 `{data['split sha256']}`",
        f"- protocols: {', '.join(made['protocols'])}",
    ]
    for name, source in made["methods"].items():
        if source:
            file = source.get("weights") or source.get("predictions") or "a predictor"
            text.append(f"- {name}: `{file}`, sha256 `{source.get('sha256') or source.get('weights_sha256')}`")
    versions = ", ".join(f"{name} {version}" for name, version in made["versions"].items())
    return "\n".join([*text, f"- versions: {versions}", ""])


def _pixel_table(report: Mapping[str, Any]) -> list[str]:
    text = [
        "",
        "## Cloudy and clear pixels",
        "",
        "A pixel is cloudy when any band of input and reference differ by more than "
        f"{CLOUDY_DIFFERENCE:g} (1 is the peak). Errors of all pixels of a kind together, prediction clamped to [0, 1];"
        " no protocol scores parts of images.",
        "",
    ]
    text += _lines(
        ["method", "cloudy: MAE ↓", "PSNR ↑ (dB)", "clear: MAE ↓", "PSNR ↑ (dB)"],
        [
            [method] + [cell for kind in kinds.values() for cell in (_number(kind["mae"], 4), _number(kind["psnr"], 2))]
            for method, kinds in report["pixels"].items()
        ],
    )
    pixels = report["pixels"][report["subject"]]
    share = pixels["cloudy"]["pixels"] / (pixels["cloudy"]["pixels"] + pixels["clear"]["pixels"])
    return [*text, "", f"{100 * share:.1f} % of all pixels are cloudy."]


def _class_table(report: Mapping[str, Any], rule: ClassProtocol) -> list[str]:
    result, subject = report["protocols"][rule.name], report["subject"]
    body = []
    for name, pixels in result["classes"].items():
        for method, classes in result["methods"].items():
            cells = [_interval_cell(classes[name][key], metric) for key, metric in rule.metrics.items()]
            told = [name, str(pixels)] if method == subject else ["", ""]
            body.append([*told, f"**{method}**" if method == subject else method, *cells])
    if result["floor"]:
        body.append(
            ["floor", "", "", *(_number(result["floor"][key], rule.metrics[key].decimals) for key in rule.metrics)]
        )
    text = _lines(["class", "pixels", "method", *(_column(metric) for metric in rule.metrics.values())], body)
    text += [""]
    if result["floor"]:
        text += [
            "- The floor is what the fitted input is still off by on the pixels that it was fitted to, those clear on "
            "both dates: what changed between the dates otherwise. Under cloud nothing can be expected to do better."
        ]
    if result["left out"]:
        text += [f"- Left out, with too few pixels clear on both dates to fit to: {', '.join(result['left out'])}."]
    if subject != COPY.name:
        worse = ", ".join(
            f"{len(names)} {name}" for name, names in result["worse than the input"].items() if name != EVERY
        )
        text += [f"- Images whose MAE is above their input's, by class: {worse}."]
    return text


def _interval_cell(entry: Mapping[str, Any], metric: Metric) -> str:
    mean, low, high = (_number(entry[at], metric.decimals) for at in ("mean", "low", "high"))
    return f"{mean} [{low}, {high}]"


def _protocol_tables(report: Mapping[str, Any], methods: Sequence[Method], rule: Protocol) -> list[str]:
    result, subject = report["protocols"][rule.name], report["subject"]

    body = [
        [
            f"**{name}**" if name == subject else name,
            *(_interval_cell(entry, rule.metrics[key]) for key, entry in entries.items()),
        ]
        for name, entries in result["methods"].items()
    ]
    if result["paper"]:
        paper = [_number(result["paper"].get(key), metric.decimals) for key, metric in rule.metrics.items()]
        body.append(["ATT-CR (paper)", *paper])
    text = _lines(["method", *(_column(metric) for metric in rule.metrics.values())], body)
    text += ["", *(f"- {note[0].upper()}{note[1:]}" for note in result["notes"])]
    worse, images = len(result["worse than the input"]), report["made with"]["data"]["images"]
    if subject != COPY.name:
        text += [f"- {worse} of {images} images score less PSNR than their input."]
    for title, first in (
        ("by the input's PSNR", "input"),
        ("by cloud cover", "cover"),
        ("by the reference's contrast", "contrast"),
    ):
        heading = [first, "images", *(method.name for method in methods)]
        body = []
        for label, entry in result[title].items():
            means = {name: scores["psnr"] for name, scores in entry["methods"].items()}
            cells = [_number(means.get(method.name), 2) for method in methods]
            before, after = means.get(COPY.name), means.get(subject)
            cells.append("-" if before is None or after is None else f"{after - before:+.2f}")
            body.append([label, str(entry["images"]), *cells])
        text += ["", f"PSNR (dB) {title}:", "", *_lines([*heading, f"gain of {subject}"], body)]
    return [
        *text,
        "",
        "Contrast is the range between the reference's 5th and 95th percentile, its bands averaged (1 is the peak); "
        f"below {CONTRAST_EDGES[0]:g} lie open sea and other even ground.",
    ]
