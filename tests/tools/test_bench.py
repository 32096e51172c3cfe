"""The benchmark: what it measures, and that it says what it left out."""

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from benchmarks.paper import bench
from benchmarks.paper.bench import BenchOptions, Contender, Measured, open_contender, run_bench, without_product
from benchmarks.paper.complexity import measure
from benchmarks.paper.restormer import RestormerConfig

from attcr.errors import ConfigError
from attcr.networks import build_network
from attcr.networks.attcr import ATTCRConfig
from attcr.ops import operator_name
from small_networks import save_small

QUICK = BenchOptions(networks=("tiny",), sizes=(16,), rounds=2, memory=False, threads=1)


def test_all_networks_run_in_turn_in_each_round(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    class Fake:
        def __init__(self, name: str) -> None:
            self.name = name
            self.spec = bench._spec(ATTCRConfig())
            self.identity = {"operator": "chunked"}

        def __call__(self, x: np.ndarray) -> np.ndarray:
            seen.append(f"{self.name} {x.shape[2]}")
            return x

    cost = SimpleNamespace(parameters=1, multiply_adds=1, multiply_adds_paper=1, inference_bytes=1)
    monkeypatch.setattr(bench, "_cost", lambda *_: cost)
    monkeypatch.setattr(bench, "open_contender", lambda one, _: (Fake(one.network), Fake(f"{one.network} bare")))
    report = run_bench(replace(QUICK, networks=("tiny", "small"), sizes=(16, 8)))
    turn = ["tiny {0}", "tiny bare {0}", "small {0}", "small bare {0}"]
    assert seen == [name.format(size) for size in (8, 16) for _ in range(3) for name in turn]
    assert [(row.network, row.size) for row in report.rows] == [("tiny", 8), ("small", 8), ("tiny", 16), ("small", 16)]
    assert all(len(row.wall_ms) == len(row.cpu_ms) == len(row.without_product_ms) == 2 for row in report.rows)
    assert all(len(row.load) == 2 for row in report.rows)
    assert {row.operator for row in report.rows} == {"chunked"}


def row(**changed: object) -> Measured:
    values: dict[str, object] = {
        **{"network": "tiny", "backend": "torch", "dtype": "float32", "size": 100, "batch": 2},
        **{"parameters": 10, "multiply_adds": 20, "multiply_adds_paper": 15, "peak_mib": None, "load": (1.0,)},
        **{"wall_ms": (10.0, 40.0, 12.0), "cpu_ms": (9.0, 9.0, 9.0), "without_product_ms": (5.0, 10.0, 8.0)},
        "without_product_cpu_ms": (6.0, 6.0, 3.0),
    }
    return Measured(**{**values, **changed})  # type: ignore[arg-type]


def test_ratios_are_of_rounds_and_rates_of_the_median() -> None:
    one = row()
    assert one.ratio == 2.0  # of 2, 4 and 1.5
    assert one.median_ms == 12.0
    assert one.megapixels_per_second == pytest.approx(0.02 / 0.012)
    assert one.to_dict()["best_ms"] == 10.0
    assert one.cpu_ratio == 1.5
    assert row(without_product_ms=()).ratio is None
    assert row(without_product_cpu_ms=()).cpu_ratio is None


def test_a_size_that_would_take_too_long_is_left_out() -> None:
    contender, options = Contender("tiny", "torch", "float32"), replace(QUICK, most_seconds=1.0)
    slow = [row(size=64, wall_ms=(300.0,))]
    told = bench._too_much(contender, 128, options, slow)
    assert told == "about 1 s a run, where 1 are allowed"
    assert bench._too_much(contender, 112, options, slow) is None
    naive = replace(contender, backend="torch-naive")
    assert bench._too_much(naive, 112, options, [row(size=64, wall_ms=(200.0,), backend="torch-naive")]) is not None
    assert "GiB" in str(bench._too_much(naive, 2048, options, []))


def test_half_as_many_bytes_are_needed_in_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "memory_of_machine", lambda: 10 << 30)
    monkeypatch.setattr(bench, "_cost", lambda *_: SimpleNamespace(inference_bytes=6 << 30))
    contender = Contender("tiny", "torch", "float32")
    assert "GiB" in str(bench._too_much(contender, 64, QUICK, []))
    assert bench._too_much(replace(contender, dtype="bfloat16"), 64, QUICK, []) is None
    monkeypatch.setattr(bench, "memory_of_machine", lambda: None)
    assert bench._too_much(contender, 64, QUICK, []) is None


@pytest.mark.parametrize("name", ["tiny", "linear", "mdta", "linear-sra", "restormer"])
def test_without_the_product_everything_else_is_still_there(name: str) -> None:
    config = {
        "restormer": RestormerConfig(dim=8, blocks=(1,) * 4, refinement=1),
    }.get(name) or replace(bench._config(name), dim=8, blocks=(1,) * 5, heads=(2,) * 5)
    torch.manual_seed(0)
    network = build_network(config).eval()
    bare = without_product(network)
    assert bare is not None
    x = torch.rand(1, 3, 16, 16)
    with torch.no_grad():
        assert bare(x).shape == x.shape
        assert not torch.allclose(bare(x), network(x), atol=1e-5)
    assert bare.state_dict().keys() == network.state_dict().keys()


def test_without_attention_there_is_nothing_to_leave_out() -> None:
    assert without_product(build_network(bench._config("spagan"))) is None


def test_every_name_is_a_network() -> None:
    for name in (*bench.PRESETS, *bench.ABLATIONS, *bench.RIVALS, "rgb-thin"):
        assert bench._config(name).in_channels >= 3
    with pytest.raises(ConfigError, match="no network 'nonsense'; there are rice1"):
        run_bench(replace(QUICK, networks=("tiny", "nonsense")))


def test_backends_measure_the_same_network(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    pytest.importorskip("openvino")
    path = str(save_small(tmp_path))
    x = np.random.default_rng(0).random((1, 3, 16, 20), np.float32)
    opened = {backend: open_contender(Contender(path, backend, "float32"), QUICK) for backend in bench.BACKENDS}
    for at in (0, 1):
        expected = opened["torch"][at](x)  # type: ignore[misc]
        for pair in opened.values():
            assert np.abs(pair[at](x) - expected).max() < 1e-4  # type: ignore[misc]
    assert np.abs(opened["torch"][0](x) - opened["torch"][1](x)).max() > 1e-3  # type: ignore[misc]


def test_a_report_as_table_json_and_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OMP_WAIT_POLICY", "PASSIVE")
    plot = tmp_path / "plot.svg"
    asked = ["bench", "--networks=[tiny, spagan]", "--sizes=[16, 8]", "--rounds=1", "--memory=false", "--batch=2"]
    monkeypatch.setattr(sys, "argv", [*asked, "--json", "--plot", str(plot)])
    bench.main()
    told = json.loads(capsys.readouterr().out)
    assert [(one["network"], one["size"], one["batch"]) for one in told["rows"]] == [
        ("tiny", 8, 2),
        ("spagan", 8, 2),
        ("tiny", 16, 2),
        ("spagan", 16, 2),
    ]
    cost = measure(ATTCRConfig.preset("tiny"), 16, 16)
    tiny = told["rows"][2]
    assert (tiny["parameters"], tiny["multiply_adds"]) == (cost.parameters, 2 * cost.multiply_adds)
    assert tiny["multiply_adds_paper"] == 2 * cost.multiply_adds_paper
    assert len(tiny["wall_ms"]) == len(tiny["cpu_ms"]) == len(tiny["load"]) == 1
    assert tiny["ratio"] > 0
    assert told["rows"][3]["ratio"] is None
    assert [one["operator"] for one in told["rows"][2:]] == [operator_name("cpu", "float32"), ""]
    assert told["machine"]["waiting"] == "PASSIVE"
    assert told["machine"]["cores"] == os.cpu_count()
    assert "<svg" in plot.read_text()
    with pytest.raises(ConfigError, match=r"name a plot .svg, .png or .pdf"):
        bench.draw(bench.BenchReport({}, QUICK, (), ()), tmp_path / "plot.txt")


def test_a_table_has_a_line_for_each_and_says_what_was_left_out() -> None:
    report = bench.BenchReport(
        {"processor": "abacus"}, QUICK, (row(), row(without_product_ms=(), peak_mib=7.0)), ("x: y",)
    )
    lines = report.table().splitlines()
    assert [word in lines[0] for word in ("network", "M params", "Mpx/s", "ratio")] == [True] * 4
    assert lines[1].split()[3] == "-"
    assert lines[1].split()[-7:] == ["12.0", "10.0", "9.0", "?", "2.00", "1.50", "1.667"]
    assert lines[2].split()[-4:] == ["7", "-", "1.50", "1.667"]
    assert lines[3] == "processor abacus, load 1.0 to 1.0"
    assert lines[4] == "left out: x: y"


def test_what_a_backend_cannot_run_is_left_out_and_said() -> None:
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    report = run_bench(replace(QUICK, networks=("spagan",), backends=("torch", "onnxruntime"), sizes=(8,), rounds=1))
    assert [one.backend for one in report.rows] == ["torch"]
    assert "spagan onnxruntime float32" in report.left_out[0]
    with pytest.raises(ConfigError, match="nothing can be measured"):
        run_bench(replace(QUICK, networks=("spagan",), backends=("onnxruntime",)))
    with pytest.raises(ConfigError, match="it has no triangular product"):
        open_contender(Contender("linear", "torch-naive", "float32"), QUICK)


def test_another_operator_is_named() -> None:
    whole, _ = open_contender(Contender("tiny", "torch-plain", "float32"), QUICK)
    assert bench._operator(Contender("tiny", "torch-plain", "float32"), whole) == "plain"
    assert bench._operator(Contender("linear", "torch", "float32"), whole) == ""


def test_peak_memory_of_a_gpu_is_what_a_run_adds(monkeypatch: pytest.MonkeyPatch) -> None:
    did: list[object] = []

    class Fake:
        spec = bench._spec(ATTCRConfig())

        def __call__(self, x: np.ndarray) -> None:
            did.append(x.shape)

    monkeypatch.setattr(bench, "open_contender", lambda *_: (Fake(), None))
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: did.append(device) or 5 * 2**20)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda _: did.append("reset"))
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda _: 12 * 2**20)
    options = replace(QUICK, device="cuda:1", batch=2)
    assert bench._peak_here(Contender("tiny", "torch", "float32"), 16, options) == 7
    assert did == [(1, 3, 8, 8), "cuda:1", "reset", (2, 3, 16, 16)]


def test_options_that_cannot_be_are_refused() -> None:
    for wrong, told in (
        ({"backends": ("tpu",)}, "backend tpu"),
        ({"dtypes": ("int8",)}, "dtype int8"),
        ({"sizes": (4,)}, "of 8 pixels"),
        ({"rounds": 0}, "must be at least 1"),
    ):
        with pytest.raises(ConfigError, match=told):
            replace(QUICK, **wrong)  # type: ignore[arg-type]


@pytest.mark.nightly
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux")
def test_peak_memory_grows_with_the_image() -> None:
    small, large = (bench.peak_memory(Contender("tiny", "torch", "float32"), size, QUICK) for size in (64, 256))
    assert small is not None
    assert large is not None
    assert large > 4 * small > 0
