"""Restore, fleet, evaluate and the service where torch is not installed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import rasterio
from rasterio.transform import from_origin

from fakes import make_pairs, write_native
from small_networks import save_small

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("openvino")

from attcr.predict.export import export
from attcr.restore import RestoreOptions, restore_scene

OPTIONS = RestoreOptions(mask="auto", ground="network", sensor="rgb8", dtype="float32")
NO_TORCH = Path(__file__).parents[1] / "no_torch"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("without-torch")
    weights = save_small(folder)
    export(weights, folder / "net.onnx")
    image = np.random.default_rng(0).integers(0, 255, (3, 40, 50), np.uint8)
    profile = {"driver": "GTiff", "count": 3, "height": 40, "width": 50, "dtype": "uint8", "crs": "EPSG:32633"}
    with rasterio.open(folder / "in.tif", "w", transform=from_origin(5e5, 5e6, 10, 10), **profile) as file:
        file.write(image)
    restore_scene(folder / "in.tif", folder / "torch.tif", weights, options=OPTIONS)
    return folder


def without_torch(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return with_torch(folder, *arguments, PYTHONPATH=str(NO_TORCH))


def with_torch(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command, env = [sys.executable, "-m", "attcr", *arguments], {**os.environ, **environment}
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=env)


def pixels(path: Path) -> np.ndarray:
    with rasterio.open(path) as file:
        return file.read().astype(int)


@pytest.mark.parametrize("weights", ["net.onnx", "small.safetensors --backend openvino", "net.onnx --backend openvino"])
def test_restore_gives_what_it_gives_on_torch(weights: str, folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.tif"
    settings = ("--sensor", "rgb8", "--dtype", "float32", "--mask", "auto", "--ground", "network")
    done = without_torch(folder, "restore", "in.tif", str(target), *settings, "--weights", *weights.split())
    assert done.returncode == 0, done.stderr
    difference = abs(pixels(target) - pixels(folder / "torch.tif"))
    assert difference.max() <= 1  # where a value lies between two digital numbers
    assert (difference == 0).mean() > 0.999


def test_a_fleet_runs_an_exported_network(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "scenes.txt").write_text(f"{folder / 'in.tif'}\n")
    for backend in ("onnxruntime", "openvino"):
        told = ("sensor=rgb8", "mask=auto", "ground=network", f"backend={backend}")
        settings = [word for one in told for word in ("--set", one)]
        out = tmp_path / backend
        done = without_torch(
            folder, "fleet", "run", str(tmp_path / "scenes.txt"), str(out), "--weights", "net.onnx", *settings
        )
        assert done.returncode == 0, done.stderr
        (raster,) = (path for path in out.glob("scenes/*/*/*.tif") if "quality" not in path.name)
        assert (pixels(raster) == pixels(folder / "torch.tif")).mean() > 0.999


def test_the_service_runs_an_exported_network(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("fastapi")
    from fake_services import answers, begin, command, ended

    server = command(tmp_path / "store", "--weights", str(folder / "net.onnx"), path=NO_TORCH)
    with server as (_, url), answers(url, 300) as client:
        job = begin(client, (folder / "in.tif").read_bytes(), sensor="rgb8", mask="auto", ground="network")
        status = ended(client, job, 300)
        assert status["status"] == "successful", status
        (tmp_path / "served.tif").write_bytes(client.get(f"/jobs/{job}/results/restored").content)
    assert (pixels(tmp_path / "served.tif") == pixels(folder / "torch.tif")).mean() > 0.999


def test_weights_that_need_torch_say_what_runs_them_without(folder: Path, tmp_path: Path) -> None:
    target = str(tmp_path / "out.tif")
    done = without_torch(folder, "restore", "in.tif", target, "--sensor", "rgb8", "--weights", "small.safetensors")
    assert done.returncode == 2
    assert "torch is not installed" in done.stderr
    assert "--backend openvino" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_evaluate_gives_the_report_that_it_gives_with_torch(folder: Path, tmp_path: Path) -> None:
    make_pairs(tmp_path, ("cloudy", "clear"), ["a", "b", "c"])
    protocols = ("att-cr", "att-cr-sen12", "uncrtaints", "t-cloud", "cmnet-y")
    given = ["--data", "pairs", "--root", str(tmp_path), *(word for name in protocols for word in ("--protocol", name))]
    reports = []
    for name, run in (("with", with_torch), ("without", without_torch)):
        out = tmp_path / name
        done = run(folder, "evaluate", *given, "--weights", "net.onnx", "--out", str(out))
        assert done.returncode == 0, done.stderr
        files = (path for path in out.rglob("*") if path.is_file() and path.name != "run.log")
        reports.append({path.name: path.read_bytes() for path in files})
    assert len(reports[0]) == len(protocols) + len(("report.md", "report.json", "rows.jsonl", "panels.png", "gain.png"))
    assert reports[0] == reports[1]


def test_pairs_of_two_dates_are_evaluated(tmp_path: Path) -> None:
    clear = np.random.default_rng(0).integers(1000, 3000, (13, 60, 60)).astype(np.uint16)
    mask = np.zeros((60, 60), np.uint8)
    mask[42:] = 2
    write_native(tmp_path, "place_clear", clear, np.zeros_like(mask))
    write_native(tmp_path, "place_thin", clear + mask.astype(np.uint16) * 300, mask)
    given = "evaluate --data cloudsen12 --root . --out report --json --baseline copy"
    done = without_torch(tmp_path, *given.split())
    assert done.returncode == 0, done.stderr
    copied = json.loads(done.stdout)["protocols"]["two-dates"]["methods"]["input copied"]
    assert copied["thin"]["mae"]["mean"] == pytest.approx(0.06, abs=1e-6)


def test_a_protocol_that_needs_torch_says_so_in_one_line(folder: Path, tmp_path: Path) -> None:
    make_pairs(tmp_path, ("cloudy", "clear"), ["a"])
    given = ("--data", "pairs", "--root", str(tmp_path), "--out", str(tmp_path / "report"), "--protocol", "standard")
    done = without_torch(folder, "evaluate", *given, "--baseline", "copy")
    assert done.returncode == 2
    assert done.stderr.startswith("attcr: torch is not installed, and this needs it")
    assert len(done.stderr.strip().splitlines()) == 1
