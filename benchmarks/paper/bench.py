"""What networks cost on this machine: time, memory and arithmetic, side by side in one run.

All that is compared at a size runs in turn, round after round, so that the machine's moods meet all alike. Beside each
network runs the same one without its attention product: the ratio of the two is what the attention costs.

python -m benchmarks.paper.bench --sizes "[64, 128]" --plot time.svg
"""

import copy
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib.metadata import version
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from jsonargparse import ArgumentParser
from torch import Tensor, nn

from attcr.bands.spec import TRUE_COLOUR, InputSpec, band_slots
from attcr.errors import AttcrError, ConfigError
from attcr.extras import needed
from attcr.files import memory_of_machine
from attcr.networks import build_network, make_config, name_of
from attcr.networks.attcr import ATTCRConfig, Attention
from attcr.ops import TRITON, triangular_attention, using
from attcr.predict import Float32, Predictor, open_graph
from attcr.predict.torch import TorchPredictor
from attcr.version import __version__
from attcr.weights import WeightsHeader, load_model, published

from .ablations import Kind, Replacement
from .complexity import Complexity, measure
from .restormer import ChannelAttention

PRESETS = ("rice1", "rice2", "tcloud", "sen12mscr", "small", "tiny")
ABLATIONS = ("linear", *get_args(Kind))
RIVALS = ("restormer", "spagan")
BACKENDS = ("torch", "torch-chunked", "torch-plain", "torch-naive", "onnxruntime", "openvino")
"""What may compute; those named torch-... are other implementations of the triangular product."""
DTYPES = ("float32", "bfloat16", "float16")
HEADINGS = (
    *("network", "backend", "dtype", "operator", "batch x size", "M params", "G mul-adds"),
    *("ms", "best", "cpu ms", "MiB", "ratio", "cpu ratio", "Mpx/s"),
)


@dataclass(frozen=True)
class BenchOptions:
    """What to measure, and how."""

    networks: tuple[str, ...] = ("rice2", "restormer")
    """Presets of ATT-CR, ablations (at the size of rice2), restormer, spagan, published weights, paths of weights."""
    sizes: tuple[int, ...] = (64, 128, 256)
    """Pixels along a square image."""
    backends: tuple[str, ...] = ("torch",)
    dtypes: tuple[str, ...] = ("float32",)
    batch: int = 1
    rounds: int = 5
    """Rounds that count, after one that warms up."""
    device: str = "cpu"
    threads: int = 0
    """Of each network; 0 leaves it to what computes."""
    most_seconds: float = 30.0
    """What one run may take: a size that would take longer, by the size before, is left out."""
    memory: bool = True
    """Whether peak memory is measured, each in a process of its own."""

    def __post_init__(self) -> None:
        for name, given, known in (("backend", self.backends, BACKENDS), ("dtype", self.dtypes, DTYPES)):
            unknown = [one for one in given if one not in known]
            if unknown or not given:
                raise ConfigError(f"{name} {', '.join(unknown) or 'missing'}; expected some of {', '.join(known)}.")
        if not self.networks or not self.sizes or min(self.sizes) < 8:
            raise ConfigError(f"networks={self.networks} and sizes={self.sizes}: at least one of each, of 8 pixels.")
        if min(self.batch, self.rounds) < 1 or self.threads < 0:
            raise ConfigError(f"batch={self.batch} and rounds={self.rounds} must be at least 1, threads at least 0.")


@dataclass(frozen=True)
class Contender:
    """A network, what computes it, and in which type."""

    network: str
    backend: str
    dtype: str

    def __str__(self) -> str:
        return f"{self.network} {self.backend} {self.dtype}"


@dataclass(frozen=True)
class Measured(Contender):
    """What one network cost at one size."""

    size: int
    batch: int
    parameters: int
    multiply_adds: int
    """Of the whole batch, products included."""
    multiply_adds_paper: int
    """The same as the paper counts: without the triangular product."""
    wall_ms: tuple[float, ...]
    """Each round's time, in milliseconds."""
    cpu_ms: tuple[float, ...]
    """Each round's time of all processors together."""
    without_product_ms: tuple[float, ...]
    """Each round's time of the same network without its attention product; none where it has none."""
    without_product_cpu_ms: tuple[float, ...]
    peak_mib: float | None
    """Memory at the peak, above what there was before the run; None where it was not measured."""
    load: tuple[float, ...]
    """Processes that wanted to run, the last minute's mean, at each round."""
    operator: str = ""
    """The implementation of the triangular product that torch ran; empty where there is none."""

    @property
    def median_ms(self) -> float:
        """The middle of the rounds."""
        return statistics.median(self.wall_ms)

    @property
    def ratio(self) -> float | None:
        """Time over that of the same network without its product: the middle of the rounds' own ratios."""
        return _median_ratio(self.wall_ms, self.without_product_ms)

    @property
    def cpu_ratio(self) -> float | None:
        """The same of the processors' time, which a busy machine disturbs less."""
        return _median_ratio(self.cpu_ms, self.without_product_cpu_ms)

    @property
    def megapixels_per_second(self) -> float:
        """Pixels of the batch over the middle time."""
        return self.batch * self.size**2 / 1e3 / self.median_ms

    def cells(self) -> tuple[str, ...]:
        """Give it as a line of a table, under HEADINGS."""
        return (
            *(self.network, self.backend, self.dtype, self.operator or "-", f"{self.batch} x {self.size}"),
            f"{self.parameters / 1e6:.2f}",
            f"{self.multiply_adds / 1e9:.2f}",
            f"{self.median_ms:.1f}",
            f"{min(self.wall_ms):.1f}",
            f"{statistics.median(self.cpu_ms):.1f}",
            "?" if self.peak_mib is None else f"{self.peak_mib:.0f}",
            "-" if self.ratio is None else f"{self.ratio:.2f}",
            "-" if self.cpu_ratio is None else f"{self.cpu_ratio:.2f}",
            f"{self.megapixels_per_second:.3f}",
        )

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it, with what is computed from the rounds."""
        told = {name: getattr(self, name) for name in ("ratio", "cpu_ratio", "megapixels_per_second")}
        return {**asdict(self), "median_ms": self.median_ms, "best_ms": min(self.wall_ms), **told}


def _median_ratio(times: Sequence[float], bare: Sequence[float]) -> float | None:
    return statistics.median(a / b for a, b in zip(times, bare, strict=True)) if bare else None


@dataclass(frozen=True)
class BenchReport:
    """All that a run measured, what it left out and why, and on what machine."""

    machine: dict[str, Any]
    options: BenchOptions
    rows: tuple[Measured, ...]
    left_out: tuple[str, ...]

    def to_json(self) -> str:
        """Give it as JSON, raw samples included."""
        told = {
            "machine": self.machine,
            "options": asdict(self.options),
            "rows": [row.to_dict() for row in self.rows],
            "left_out": list(self.left_out),
        }
        return json.dumps(told, indent=1)

    def table(self) -> str:
        """Give it to read, one line a network and size."""
        lines = [HEADINGS, *(row.cells() for row in self.rows)]
        widths = [max(len(line[at]) for line in lines) for at in range(len(lines[0]))]
        text = ["  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
        loads = [load for row in self.rows for load in row.load]
        busy = f", load {min(loads):.1f} to {max(loads):.1f}" if loads else ""
        about = " ".join(f"{name} {value}" for name, value in self.machine.items())
        return "\n".join([*text, f"{about}{busy}", *(f"left out: {reason}" for reason in self.left_out)])


def run_bench(options: BenchOptions, *, on_size: Callable[[str], None] | None = None) -> BenchReport:
    """Measure every network by every backend in every type at every size."""
    rows: list[Measured] = []
    left_out: list[str] = []
    contenders = [Contender(*each) for each in product(options.networks, options.backends, options.dtypes)]
    for network in options.networks:
        _config(network)  # a name that is not known is the user's mistake, and no reason to leave it out
    running: dict[Contender, tuple[Predictor, Predictor | None]] = {}
    for contender in contenders:
        try:
            running[contender] = open_contender(contender, options)
        except AttcrError as error:  # noqa: PERF203
            left_out.append(f"{contender}: {error}")
    if not running:
        raise ConfigError(f"nothing can be measured. {' '.join(left_out)}")
    for size in sorted(options.sizes):
        if on_size:
            on_size(f"{size} x {size}")
        for contender in list(running):
            reason = _too_much(contender, size, options, rows)
            if reason:
                left_out.append(f"{contender} from {size} x {size} on: {reason}")
                del running[contender]
        rows += _race(running, size, options)
    return BenchReport(machine(options), options, tuple(rows), tuple(left_out))


def _race(
    running: dict[Contender, tuple[Predictor, Predictor | None]], size: int, options: BenchOptions
) -> Iterator[Measured]:
    """Run all at one size in turn; the first round warms up and does not count."""
    walls: dict[Predictor, list[float]] = {}
    cpus: dict[Predictor, list[float]] = {}
    loads: list[float] = []
    for number in range(options.rounds + 1):
        load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
        for pair in running.values():
            for predictor in filter(None, pair):
                wall, cpu = _timed(predictor, size, options.batch)
                if number:
                    walls.setdefault(predictor, []).append(wall)
                    cpus.setdefault(predictor, []).append(cpu)
        if number:
            loads.append(load)
    for contender, (whole, without) in running.items():
        cost = _cost(contender.network, size)
        yield Measured(
            contender.network,
            contender.backend,
            contender.dtype,
            size,
            options.batch,
            cost.parameters,
            cost.multiply_adds * options.batch,
            cost.multiply_adds_paper * options.batch,
            tuple(walls[whole]),
            tuple(cpus[whole]),
            tuple(walls[without]) if without else (),
            tuple(cpus[without]) if without else (),
            peak_memory(contender, size, options) if options.memory else None,
            tuple(loads),
            _operator(contender, whole),
        )


def _operator(contender: Contender, predictor: Predictor) -> str:
    """Name the implementation of the triangular product, where there is one."""
    triangular = getattr(_config(contender.network), "attention", None) == "triangular"
    return str(predictor.identity.get("operator", "")) if triangular else ""


def _timed(predictor: Predictor, size: int, batch: int) -> tuple[float, float]:
    """Give the milliseconds of one run: by the clock, and of all processors together.

    A predictor gives an array in the CPU's memory, so a GPU has finished when it returns, and had before it began.
    """
    x = _image(predictor.spec, size, batch)
    wall, cpu = time.perf_counter(), time.process_time()
    predictor(x)
    return 1e3 * (time.perf_counter() - wall), 1e3 * (time.process_time() - cpu)


def _image(spec: InputSpec, size: int, batch: int) -> Float32:
    return np.random.default_rng(0).random((batch, len(spec.slots), size, size), np.float32)


def _too_much(contender: Contender, size: int, options: BenchOptions, rows: Sequence[Measured]) -> str | None:
    """Say why a size is not run: memory that is not there, or time by the size before."""
    config = _config(contender.network)
    tokens, heads = size * size, max(getattr(config, "heads", (1,))[0], 1)
    needed = _cost(contender.network, size).inference_bytes * options.batch
    if contender.backend.startswith("torch") and contender.dtype != "float32":
        needed //= 2
    if contender.backend == "torch-naive":
        needed += 3 * 4 * options.batch * heads * tokens**2
    elif contender.backend not in ("torch", "torch-chunked"):
        needed *= 2  # all chunks are in memory at once
    have = memory_of_machine()
    if options.device == "cpu" and have and needed > have / 2:
        return f"about {needed / 2**30:.1f} GiB of {have / 2**30:.1f}"
    before = [row for row in rows if str(row) == str(contender)]
    if before:
        power = 4 if contender.backend == "torch-naive" else 2
        due = before[-1].median_ms / 1e3 * (size / before[-1].size) ** power
        if due > options.most_seconds:
            return f"about {due:.0f} s a run, where {options.most_seconds:g} are allowed"
    return None


@cache
def _cost(name: str, size: int) -> Complexity:
    return measure(_config(name), size, size)


@cache
def _config(name: str) -> Any:
    """Give the config of a network by its name in a benchmark."""
    if name in PRESETS:
        return ATTCRConfig.preset(name)
    if name == "linear":
        return replace(ATTCRConfig.preset("rice2"), attention="linear")
    if name in ABLATIONS:
        return make_config("ablation", {"replacement": name})
    if name in RIVALS:
        return make_config(name, {})
    if name in published() or Path(name).suffix == ".safetensors":
        return load_model(name).config
    known = ", ".join((*PRESETS, *ABLATIONS, *RIVALS, *published()))
    raise ConfigError(f"no network {name!r}; there are {known}, and paths of .safetensors files.")


def open_contender(contender: Contender, options: BenchOptions) -> tuple[Predictor, Predictor | None]:
    """Give a network ready to run, and the same without its attention product; None where it has none."""
    torch.manual_seed(0)
    stored = contender.network in published() or Path(contender.network).suffix == ".safetensors"
    module = load_model(contender.network) if stored else build_network(_config(contender.network)).eval()
    if not stored:
        module.spec = _spec(module.config)  # type: ignore[assignment]
    common: dict[str, Any] = {"device": options.device, "dtype": contender.dtype, "threads": options.threads}
    if contender.backend.startswith("torch"):
        bare = without_product(module)
        impl = contender.backend.partition("-")[2]
        attends = [part.attend for part in module.modules() if type(part) is Attention]
        if impl and triangular_attention not in attends:
            raise ConfigError(f"it has no triangular product, and {contender.backend} is a way to compute that.")
        pair = TorchPredictor(module, **common), TorchPredictor(bare, **common) if bare else None
        return (_By(pair[0], impl), pair[1]) if impl else pair
    return _exported(module, contender.backend, common)


def _exported(module: nn.Module, backend: str, common: dict[str, Any]) -> tuple[Predictor, Predictor | None]:
    from attcr.predict.onnx import OnnxNetwork, build

    tensors = {name: tensor.numpy() for name, tensor in module.state_dict().items()}

    def opened(config: dict[str, Any]) -> Predictor:
        header = WeightsHeader(name_of(module.config), config, module.spec, {})  # type: ignore[arg-type]
        content = build(header, tensors, "", backend).SerializeToString()
        return open_graph(OnnxNetwork(content, header, ""), backend, **common)

    config = asdict(module.config)  # type: ignore[call-overload]
    return opened(config), opened({**config, "attention": "none"})


class _By:
    """A predictor that runs one implementation of the product."""

    def __init__(self, inner: Predictor, impl: str) -> None:
        self.inner, self.impl = inner, impl
        self.spec, self.identity = inner.spec, {**inner.identity, "operator": impl}

    def __call__(self, x: Float32) -> Float32:
        with using(self.impl):  # type: ignore[arg-type]
            return self.inner(x)


def _spec(config: Any) -> InputSpec:
    """Give a spec of as many planes as a network has."""
    names = tuple(f"band {number}" for number in range(1, config.in_channels + 1))
    return replace(TRUE_COLOUR, slots=band_slots(names), outputs=names[: config.out_channels])


def without_product(module: nn.Module) -> nn.Module | None:
    """Give a copy whose attention hands on its values, or its query where they are fewer; None where there is none."""
    bare = copy.deepcopy(module)
    found = False
    for part in bare.modules():
        if isinstance(part, Replacement | ChannelAttention):
            part.mix = _hand_on  # type: ignore[method-assign]
            found = True
        elif isinstance(part, Attention):
            part.attend = _hand_on  # type: ignore[assignment]
            found = True
    return bare if found else None


def _hand_on(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    return values if values.shape == query.shape else query


def peak_memory(contender: Contender, size: int, options: BenchOptions) -> float | None:
    """Give the MiB that a run takes at its peak beyond what there was before, in a process of its own; else None."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_peak_here, contender, size, options).result()


def _peak_here(contender: Contender, size: int, options: BenchOptions) -> float | None:
    whole, _ = open_contender(contender, options)
    if options.device.startswith("cuda"):
        whole(_image(whole.spec, 8, 1))
        before = torch.cuda.memory_allocated(options.device)
        torch.cuda.reset_peak_memory_stats(options.device)
        whole(_image(whole.spec, size, options.batch))
        return (torch.cuda.max_memory_allocated(options.device) - before) / 2**20
    anew, status = Path("/proc/self/clear_refs"), Path("/proc/self/status")
    if not anew.exists():
        return None
    whole(_image(whole.spec, 8, 1))  # code and buffers that no size needs more of
    x = _image(whole.spec, size, options.batch)
    anew.write_text("5")

    def kib(field: str) -> int:
        return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith(field))

    before = kib("VmRSS")
    whole(x)
    return (kib("VmHWM") - before) / 1024


def machine(options: BenchOptions) -> dict[str, Any]:
    """Give what decides the times beside the networks."""
    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        models = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if "model name" in line]
        name = models[0] if models else name
    on_gpu = options.device.startswith("cuda")
    if on_gpu:
        name = torch.cuda.get_device_name(options.device)
    return {
        "processor": name,
        **({"triton": version("triton") if TRITON else "none"} if on_gpu else {}),
        "cores": os.cpu_count(),
        "threads": options.threads or torch.get_num_threads(),
        "waiting": os.environ.get("OMP_WAIT_POLICY", "as OpenMP likes"),
        "torch": torch.__version__,
        "attcr": __version__,
        "when": time.strftime("%Y-%m-%d %H:%M", time.gmtime()) + " UTC",
    }


def draw(report: BenchReport, target: str | os.PathLike[str]) -> Path:
    """Draw time against pixels, both by powers, as SVG, PNG or PDF; thin lines show linear and quadratic growth."""
    with needed():
        from matplotlib.figure import Figure
    path = Path(target)
    if path.suffix.lower() not in (".svg", ".png", ".pdf"):
        raise ConfigError(f"{path} ends in {path.suffix or 'nothing'}: name a plot .svg, .png or .pdf.")
    figure = Figure(figsize=(9, 6), layout="constrained")
    axes = figure.add_subplot(xscale="log", yscale="log")
    for name in dict.fromkeys(map(str, report.rows)):
        rows = [row for row in report.rows if str(row) == name]
        pixels = [row.size**2 for row in rows]
        times = [row.median_ms for row in rows]
        low = [row.median_ms - min(row.wall_ms) for row in rows]
        high = [max(row.wall_ms) - row.median_ms for row in rows]
        axes.errorbar(pixels, times, yerr=[low, high], marker="o", capsize=3, label=name)
    sizes = sorted({row.size for row in report.rows})
    if len(sizes) > 1:
        first = min(row.median_ms for row in report.rows if row.size == sizes[0]) / 2
        for power, style in ((1, ":"), (2, "--")):
            grown = [first * (size / sizes[0]) ** (2 * power) for size in sizes]
            axes.plot([s**2 for s in sizes], grown, style, color="grey", label=("linear", "quadratic")[power - 1])
    axes.set_xticks([size**2 for size in sizes], [f"{size} x {size}" for size in sizes], minor=False)
    axes.set_xticks([], minor=True)
    axes.set_xlabel("image in pixels")
    axes.set_ylabel(f"ms for {report.options.batch} image{'s' * (report.options.batch > 1)}: median, least, most")
    axes.set_title(f"{report.machine['processor']}, {report.machine['threads']} threads", fontsize=10)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    figure.savefig(path)
    return path


def main() -> None:
    """Measure what the command line describes, and print it."""
    parser = ArgumentParser(description="What networks cost on this machine.")
    parser.add_class_arguments(BenchOptions)
    parser.add_argument("--plot", type=Path | None, help="draw time against size: .svg, .png or .pdf")
    parser.add_argument("--json", action="store_true", help="print JSON with all samples")
    asked = parser.parse_args().as_dict()
    plot, as_json = asked.pop("plot"), asked.pop("json")
    report = run_bench(BenchOptions(**asked), on_size=lambda told: print(f"measuring {told}", file=sys.stderr))
    print(report.to_json() if as_json else report.table())
    if plot:
        print(f"plot: {draw(report, plot)}", file=sys.stderr)


if __name__ == "__main__":
    main()
