"""Restore and fleet where torch is not installed."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import rasterio
from rasterio.transform import from_origin

from small_networks import save_small

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("openvino")

from attcr.export import export
from attcr.restore import RestoreOptions, restore_scene

OPTIONS = RestoreOptions(sensor="rgb8", dtype="float32")
RUN = """
import sys
class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "lightning", "torchmetrics"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name.partition(".")[0])
sys.meta_path.insert(0, NoTorch())
from attcr.cli import main
sys.argv = ["attcr", *sys.argv[1:]]
main()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("without-torch")
    weights = save_small(folder)
    for name in ("net.onnx", "net.xml"):
        export(weights, folder / name)
    image = np.random.default_rng(0).integers(0, 255, (3, 40, 50), np.uint8)
    profile = {"driver": "GTiff", "count": 3, "height": 40, "width": 50, "dtype": "uint8", "crs": "EPSG:32633"}
    with rasterio.open(folder / "in.tif", "w", transform=from_origin(5e5, 5e6, 10, 10), **profile) as file:
        file.write(image)
    restore_scene(folder / "in.tif", folder / "torch.tif", weights, options=OPTIONS)
    return folder


def without_torch(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", RUN, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )


def pixels(path: Path) -> np.ndarray:
    with rasterio.open(path) as file:
        return file.read().astype(int)


@pytest.mark.parametrize(
    "weights", ["net.onnx", "net.xml", "small.safetensors --backend openvino", "net.onnx --backend openvino"]
)
def test_restore_gives_what_it_gives_on_torch(weights: str, folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.tif"
    settings = ("--sensor", "rgb8", "--dtype", "float32")
    done = without_torch(folder, "restore", "in.tif", str(target), *settings, "--weights", *weights.split())
    assert done.returncode == 0, done.stderr
    difference = abs(pixels(target) - pixels(folder / "torch.tif"))
    assert difference.max() <= 1  # where a value lies between two digital numbers
    assert (difference == 0).mean() > 0.999


def test_a_fleet_runs_an_exported_network(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "scenes.txt").write_text(f"{folder / 'in.tif'}\n")
    for backend in ("onnxruntime", "openvino"):
        settings = ("--set", "sensor=rgb8", "--set", f"backend={backend}")
        out = tmp_path / backend
        done = without_torch(
            folder, "fleet", "run", str(tmp_path / "scenes.txt"), str(out), "--weights", "net.onnx", *settings
        )
        assert done.returncode == 0, done.stderr
        (raster,) = (path for path in out.glob("scenes/*/*/*.tif") if "quality" not in path.name)
        assert (pixels(raster) == pixels(folder / "torch.tif")).mean() > 0.999


def test_a_fleet_refuses_a_file_whose_numbers_are_in_another(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "scenes.txt").write_text(f"{folder / 'in.tif'}\n")
    done = without_torch(
        folder, "fleet", "run", str(tmp_path / "scenes.txt"), str(tmp_path / "o"), "--weights", "net.xml"
    )
    assert done.returncode == 2
    assert "give weights or .onnx, with --set backend=openvino" in done.stderr


def test_weights_that_need_torch_say_what_runs_them_without(folder: Path, tmp_path: Path) -> None:
    target = str(tmp_path / "out.tif")
    done = without_torch(folder, "restore", "in.tif", target, "--sensor", "rgb8", "--weights", "small.safetensors")
    assert done.returncode == 2
    assert "torch is not installed" in done.stderr
    assert "--backend openvino" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_command_that_needs_torch_says_so_in_one_line(folder: Path, tmp_path: Path) -> None:
    given = ("--weights", "net.onnx", "--data", "rice1", "--root", str(tmp_path), "--out", str(tmp_path / "report"))
    done = without_torch(folder, "evaluate", *given)
    assert done.returncode == 2
    assert done.stderr.startswith("attcr: torch is not installed, and this command needs it")
    assert len(done.stderr.strip().splitlines()) == 1
