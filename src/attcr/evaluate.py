"""Methods x images x protocols -> a report folder that says what was measured, on what, and with what.

    report.md            the tables and figures to read
    report.json          the same numbers, all of them
    images-PROTOCOL.csv  one row per image; a table never mixes two protocols
    figures/             best, median and worst image; gain of each image
    rows.jsonl           what has been scored so far: an interrupted run goes on from here
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
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attcr import __version__, viz
from attcr.data import RICE1, RICE2, SEN12MSCR, TCLOUD, Pair, PairFolder, load_split
from attcr.data.pairs import images_in, read_image, some
from attcr.data.splits import names_sha256
from attcr.errors import ConfigError, DataError, DataNotFoundError, ShapeError
from attcr.files import sha256 as file_sha256
from attcr.files import write_whole
from attcr.protocols import Metric, Protocol, average, named, psnr
from attcr.sensors import SEN12MSCR_RANGE
from attcr.weights import find_weights, load_model

CLOUDY = 0.1
"""A pixel is called cloudy when any band of input and reference differ by more, where 1 is the peak."""
PSNR_EDGES = (15, 20, 25, 35)
"""Bins of the input's own PSNR in dB."""
COVER_EDGES = (0.1, 0.3, 0.5, 0.7)
"""Bins of the share of cloudy pixels."""
RESAMPLES = 2000
"""Bootstrap resamples behind each 95 % interval; their seed is 0."""

Row = dict[str, Any]
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Published:
    """The paper's row for a data set, and what must be said when ours is put beside it."""

    protocol: str
    scores: Mapping[str, float]
    size: int
    """Pixels a side of the images as published."""
    split: str
    """How the paper's test images relate to ours; empty when they are the same."""


PUBLISHED = {
    "rice1": Published(
        "att-cr",
        {"psnr": 36.83, "ssim": 0.9629, "mae": 0.0135, "sam": 0.91},
        512,
        "the paper names no list; SpA-GAN's, which is used here, is very probably the one it used",
    ),
    "rice2": Published(
        "att-cr",
        {"psnr": 36.72, "ssim": 0.9183, "mae": 0.0149, "sam": 1.16},
        512,
        "the paper's 588/147 split was not published: this is another random split of the same images",
    ),
    "tcloud": Published("att-cr", {"psnr": 31.12, "ssim": 0.8908, "mae": 0.0226, "sam": 2.31}, 256, ""),
    "sen12mscr": Published("att-cr-sen12", {"psnr": 29.97, "ssim": 0.902, "mae": 0.024, "sam": 7.484}, 256, ""),
}


@dataclass(frozen=True)
class Benchmark:
    """The images to score on, and what a report must say of them."""

    pairs: PairFolder | SEN12MSCR
    data: str
    """The data set's name."""
    part: str
    """Which part of it: train, val or test; `all` for any two folders."""
    split_sha256: str
    """The sha256 of the list that names the images."""
    span: float = 1.0
    """The model's value where a protocol's is 1."""
    levels: float = 255.0
    """The digital number where a protocol's value is 1: how predictions stored as integers are read."""

    def unit(self, image: Tensor) -> Tensor:
        """Give an image in the model's range as protocols want it, where 1 is the peak."""
        return image / self.span


def open_benchmark(data: str, root: str | os.PathLike[str], part: str = "test") -> Benchmark:
    """Open `rice1`, `rice2`, `tcloud` or `sen12mscr` at a root; `pairs` is ROOT/cloudy and ROOT/clear."""
    if data == "pairs":
        folder = PairFolder(Path(root, "cloudy"), Path(root, "clear"))
        return Benchmark(folder, data, "all", names_sha256(folder.names))
    split = load_split(data, part)
    if data == "sen12mscr":
        return Benchmark(SEN12MSCR(root, part), data, part, split.sha256, SEN12MSCR_RANGE.span, 10000.0)
    kind = {"rice1": RICE1, "rice2": RICE2, "tcloud": TCLOUD}[data]
    return Benchmark(kind(root, part), data, part, split.sha256)


@dataclass(frozen=True)
class Method:
    """Something that restores a pair's cloudy image, with the name and origin its rows will bear."""

    name: str
    restore: Callable[[Pair], Tensor]
    """Gives (C, H, W) like the pair's `clear`, in the model's range, not clamped."""
    source: Mapping[str, Any] = field(default_factory=dict)
    """Where it comes from: files with their sha256, settings."""


def _optical(pair: Pair) -> Tensor:
    return pair["cloudy"][-pair["clear"].shape[0] :]


def _mean_colour(pair: Pair) -> Tensor:
    optical = _optical(pair)
    return optical.mean((1, 2), keepdim=True).expand_as(optical)


COPY = Method("input copied", _optical)
"""The cloudy image itself: what doing nothing scores."""
MEAN_COLOUR = Method("input's mean colour", _mean_colour)
"""A flat image of the cloudy image's mean colour."""


def method_from_weights(source: str | os.PathLike[str], *, device: str = "cpu") -> Method:
    """Give the network of published or other weights as a method, run on whole images, named after the file."""
    file = find_weights(source)
    model = load_model(file).to(device)

    def restore(pair: Pair) -> Tensor:
        with torch.inference_mode():
            restored: Tensor = model(pair["cloudy"][None].to(device))[0]
        return restored.float().cpu()

    made_of = {
        "weights": file.name,
        "sha256": file_sha256(file),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "config": asdict(model.config),
        "device": device,
    }
    return Method(file.stem, restore, made_of)


def method_from_predictions(folder: str | os.PathLike[str], benchmark: Benchmark) -> Method:
    """Give stored predictions as a method, named after their folder; files are named as the images are.

    Integers are digital numbers (8-bit: 255 is the peak), floats (TIFF) are where 1 is the peak.
    """
    files = images_in(Path(folder))
    names = list(benchmark.pairs.names)
    missing = [name for name in names if name not in files]
    if missing:
        raise DataNotFoundError(
            f"{len(missing)} of {len(names)} images have no prediction in {folder}: {some(missing)}"
        )

    def restore(pair: Pair) -> Tensor:
        values = read_image(files[pair["name"]])
        peak = benchmark.levels if values.dtype.kind in "iu" else 1.0
        return torch.from_numpy(values.astype(np.float32)) / (peak / benchmark.span)

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
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Score the methods and write the report folder; give what is in its `report.json`.

    The first method is the one reported on; the trivial baselines stand beside it. A folder with part of the
    same evaluation is gone on with, and the finished report is the same to the byte.
    """
    rules = [named(name) for name in dict.fromkeys(protocols)]
    methods = [*methods, *(baseline for baseline in (COPY, MEAN_COLOUR) if baseline not in methods)]
    if len({method.name for method in methods}) < len(methods):
        raise ConfigError(f"two methods bear one name: {some([method.name for method in methods])}; rename a file.")
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    names = list(benchmark.pairs.names)
    about = _describe(benchmark, names, methods, rules)
    started = time.time()
    with _Rows(folder / "rows.jsonl", about, names) as rows:
        at = len(rows.done)
        with ThreadPoolExecutor(torch.get_num_threads()) as pool:
            for index in range(at, len(names)):
                if progress:
                    progress(index, len(names))
                rows.append(_score(benchmark.pairs[index], benchmark, methods, rules, pool))
    if progress:
        progress(len(names), len(names))
    report = _summarise(rows.done, benchmark, methods, rules, about)
    _write_figures(folder / "figures", report, rows.done, benchmark, methods[0], rules[0])
    for rule in rules:
        write_whole(folder / f"images-{rule.name}.csv", _table(rows.done, methods, rule))
    write_whole(folder / "report.json", json.dumps(report, indent=1) + "\n")
    write_whole(folder / "report.md", _markdown(report, methods, rules))
    with (folder / "run.log").open("a") as log:
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(started))
        took = time.time() - started
        log.write(f"{stamp} scored images {at} to {len(names)} in {took:.1f} s, process {os.getpid()}\n")
    return report


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
                    "give another folder, or remove it to begin anew."
                )
            self.done = lines[1:]
            if [row["name"] for row in self.done] != list(names[: len(self.done)]):
                raise DataError(f"{path} does not hold the images in their order: remove it to begin anew.")
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
    benchmark: Benchmark, names: Sequence[str], methods: Sequence[Method], rules: Sequence[Protocol]
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
            "name": benchmark.data,
            "part": benchmark.part,
            "split sha256": benchmark.split_sha256,
            "images": len(names),
            "names sha256": names_sha256(names),
        },
        "methods": {method.name: dict(method.source) for method in methods},
        "protocols": [rule.name for rule in rules],
        "cloudy threshold": CLOUDY,
        "versions": {"attcr": __version__, **{name: importlib.metadata.version(name) for name in libraries}},
    }
    normalised: dict[str, Any] = json.loads(json.dumps(about))
    return normalised


def _score(
    pair: Pair,
    benchmark: Benchmark,
    methods: Sequence[Method],
    rules: Sequence[Protocol],
    pool: ThreadPoolExecutor,
) -> Row:
    reference, copied = benchmark.unit(pair["clear"]), benchmark.unit(_optical(pair))
    cloudy = (copied - reference).abs().amax(0) > CLOUDY
    row: Row = {
        "name": pair["name"],
        "size": list(reference.shape),
        "cover": float(cloudy.float().mean()),
        "input psnr": psnr(copied, reference),
        "scores": {},
        "pixels": {},
    }
    waiting = {}
    for method in methods:
        restored = method.restore(pair)
        if restored.shape != reference.shape:
            raise ShapeError(
                f"{method.name} gave {tuple(restored.shape)} for {pair['name']}, "
                f"whose reference is {tuple(reference.shape)}."
            )
        restored = benchmark.unit(restored)
        for rule in rules:
            waiting[method.name, rule.name] = pool.submit(rule.score, restored, reference)
        error = (restored.clamp(0, 1) - reference).double()
        row["pixels"][method.name] = {
            kind: [
                int(where.sum()),
                float(error[:, where].abs().sum()),
                float(error[:, where].square().sum()),
            ]
            for kind, where in (("cloudy", cloudy), ("clear", ~cloudy))
        }
    for (method_name, rule_name), scores in waiting.items():
        row["scores"].setdefault(method_name, {})[rule_name] = scores.result()
    return row


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
    rules: Sequence[Protocol],
    about: Mapping[str, Any],
) -> dict[str, Any]:
    subject = methods[0].name
    report: dict[str, Any] = {"subject": subject, "made with": about, "protocols": {}, "pixels": {}}
    for rule in rules:
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
            "worse than the input": worse,
            "notes": _notes(rows, benchmark, rule),
            "paper": _paper(benchmark, rule),
        }
    for method in methods:
        report["pixels"][method.name] = {
            kind: _pooled([row["pixels"][method.name][kind] for row in rows], rows[0]["size"][0])
            for kind in ("cloudy", "clear")
        }
    first = rules[0].name
    order = sorted(range(len(rows)), key=lambda index: rows[index]["scores"][subject][first]["psnr"])
    shown = {"worst": order[0], "median": order[len(order) // 2], "best": order[-1]}
    report["shown"] = {
        title: {
            "name": rows[index]["name"],
            "index": index,
            "psnr": rows[index]["scores"][subject][first]["psnr"],
        }
        for title, index in shown.items()
    }
    finite: dict[str, Any] = _finite(report)
    return finite


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
    published = PUBLISHED.get(benchmark.data)
    return dict(published.scores) if published and published.protocol == rule.name else None


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
    published = PUBLISHED.get(benchmark.data)
    if published and published.protocol == rule.name:
        if benchmark.part != "test":
            notes.append(f"the paper's row is of its test part; this is {benchmark.part}.")
        if published.split:
            notes.append(f"the paper's row is of another split: {published.split}.")
        sizes = sorted({f"{row['size'][1]}x{row['size'][2]}" for row in rows})
        if sizes != [f"{published.size}x{published.size}"]:
            notes.append(f"the paper's images are {published.size}x{published.size}; these are {', '.join(sizes)}.")
    return notes


def _table(rows: Sequence[Row], methods: Sequence[Method], rule: Protocol) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    columns = [(method.name, key) for method in methods for key in rule.metrics]
    writer.writerow(["name", "cloud cover", "input psnr", *(f"{method}: {key}" for method, key in columns)])
    for row in rows:
        scores = (row["scores"][method][rule.name][key] for method, key in columns)
        writer.writerow([row["name"], row["cover"], row["input psnr"], *scores])
    return text.getvalue()


def _write_figures(
    folder: Path,
    report: Mapping[str, Any],
    rows: Sequence[Row],
    benchmark: Benchmark,
    subject: Method,
    rule: Protocol,
) -> None:
    panels = []
    for title, shown in report["shown"].items():
        pair = benchmark.pairs[shown["index"]]
        images = (_optical(pair), subject.restore(pair), pair["clear"])
        arrays = [benchmark.unit(image).numpy() for image in images]
        heading = f"{title}, {shown['name']}, {_number(shown['psnr'], 2)} dB"
        panels.append(viz.Panel(heading, *arrays))
    viz.save_panels(folder / "panels.png", panels)
    if subject is COPY:
        return
    before = [row["scores"][COPY.name][rule.name]["psnr"] for row in rows]
    after = [row["scores"][subject.name][rule.name]["psnr"] for row in rows]
    viz.save_gain(folder / "gain.png", before, after, title=f"{subject.name}, {rule.name}")


def _number(value: float | None, decimals: int) -> str:
    return "-" if value is None else f"{value:.{decimals}f}"


def _lines(heading: Sequence[str], body: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (heading, ["---"] * len(heading), *body)]


def _column(metric: Metric) -> str:
    return f"{metric.heading} {'↑' if metric.higher_is_better else '↓'}" + (f" ({metric.unit})" if metric.unit else "")


def _markdown(report: Mapping[str, Any], methods: Sequence[Method], rules: Sequence[Protocol]) -> str:
    subject, made = report["subject"], report["made with"]
    data = made["data"]
    text = [
        f"# {subject} on {data['name']} {data['part']}, {data['images']} images",
        "",
        "Each table is of one protocol; numbers of two protocols cannot be compared. Means are over images, with "
        f"a bootstrap 95 % interval ({RESAMPLES} resamples, seed 0).",
    ]
    for rule in rules:
        text += ["", f"## Protocol {rule.name}", "", f"Used by {rule.who}. {rule.space}.", ""]
        text += _protocol_tables(report, methods, rule)
    text += [
        "",
        "## Cloudy and clear pixels",
        "",
        f"A pixel is cloudy when any band of input and reference differ by more than {CLOUDY:g} (1 is the peak). "
        "Errors of all pixels of a kind together, prediction clamped to [0, 1]; no protocol scores parts of images.",
        "",
    ]
    text += _lines(
        ["method", "cloudy: MAE ↓", "PSNR ↑ (dB)", "clear: MAE ↓", "PSNR ↑ (dB)"],
        [
            [method] + [cell for kind in kinds.values() for cell in (_number(kind["mae"], 4), _number(kind["psnr"], 2))]
            for method, kinds in report["pixels"].items()
        ],
    )
    pixels = report["pixels"][subject]
    share = pixels["cloudy"]["pixels"] / (pixels["cloudy"]["pixels"] + pixels["clear"]["pixels"])
    text += [
        "",
        f"{100 * share:.1f} % of all pixels are cloudy.",
        "",
        "## Images",
        "",
        f"Worst, median and best by PSNR under {rules[0].name}; the error map ends at {viz.WORST_SHOWN:g}.",
        "",
        "![panels](figures/panels.png)",
        "",
        *(("![gain](figures/gain.png)", "") if subject != COPY.name else ()),
        "## What made it",
        "",
        f"- data: {data['name']} {data['part']}, split sha256 `{data['split sha256']}`",
        f"- protocols: {', '.join(made['protocols'])}",
    ]
    for name, source in made["methods"].items():
        if source:
            file = source.get("weights") or source.get("predictions")
            text.append(f"- {name}: `{file}`, sha256 `{source['sha256']}`")
    versions = ", ".join(f"{name} {version}" for name, version in made["versions"].items())
    return "\n".join([*text, f"- versions: {versions}", ""])


def _protocol_tables(report: Mapping[str, Any], methods: Sequence[Method], rule: Protocol) -> list[str]:
    result, subject = report["protocols"][rule.name], report["subject"]

    def cell(key: str, entry: Mapping[str, Any]) -> str:
        mean, low, high = (_number(entry[at], rule.metrics[key].decimals) for at in ("mean", "low", "high"))
        return f"{mean} [{low}, {high}]"

    body = [
        [f"**{name}**" if name == subject else name, *(cell(key, entry) for key, entry in entries.items())]
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
    for title in ("by the input's PSNR", "by cloud cover"):
        heading = ["input" if "PSNR" in title else "cover", "images", *(method.name for method in methods)]
        body = []
        for label, entry in result[title].items():
            means = {name: scores["psnr"] for name, scores in entry["methods"].items()}
            cells = [_number(means.get(method.name), 2) for method in methods]
            before, after = means.get(COPY.name), means.get(subject)
            cells.append("-" if before is None or after is None else f"{after - before:+.2f}")
            body.append([label, str(entry["images"]), *cells])
        text += ["", f"PSNR (dB) {title}:", "", *_lines([*heading, f"gain of {subject}"], body)]
    return text
