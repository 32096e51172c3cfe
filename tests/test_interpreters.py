"""Python 3.10 to 3.13, as far as an interpreter is at hand: all sources compile, and what needs no library imports.

The whole suite runs on the interpreter of the gate. By hand (`-m slow`), each of the others gets an environment with
everything but torch. There the tests run that need no torch, and ONNX Runtime restores a real scene.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import rasterio
from rasterio.windows import Window

ROOT = Path(__file__).parents[1]
COMPILE = """
import sys
from pathlib import Path
assert sys.version_info[:2] == tuple(map(int, sys.argv[2].split("."))), sys.version
files = [path for name in ("src", "tests", "tools", "benchmarks") for path in Path(sys.argv[1], name).rglob("*.py")]
for path in files:
    compile(path.read_bytes(), str(path), "exec")
sys.path.insert(0, str(Path(sys.argv[1], "src")))
import attcr, attcr.addresses, attcr.errors, attcr.files
print(len(files))
"""


def interpreter(version: str) -> str:
    """An interpreter of this version: this one, one on the path, or pyenv's."""
    if sys.version_info[:2] == tuple(map(int, version.split("."))):
        return sys.executable
    kept = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    found = str(kept[-1]) if kept else shutil.which(f"python{version}")
    return found or pytest.skip(f"there is no Python {version} here")


@pytest.mark.parametrize("version", ["3.10", "3.11", "3.12", "3.13"])
def test_every_source_compiles(version: str) -> None:
    command = [interpreter(version), "-S", "-B", "-c", COMPILE, ROOT, version]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 300


WITHOUT_TORCH = [
    "tests/dates", "tests/scenes/clouds/test_brightness.py", "tests/scenes/clouds/test_masks.py",
    "tests/scenes/clouds/test_opaque.py", "tests/scenes/clouds/test_rim.py", "tests/scenes/test_blend.py",
    "tests/scenes/test_tiles.py", "tests/test_addresses.py", "tests/test_files.py", "tests/bands/test_products.py",
    "tests/bands/test_sensors.py", "tests/bands/test_spec.py",
]  # fmt: skip


def requirements() -> list[str]:
    """What attcr[scenes,onnx] needs, without torch."""
    tomllib = pytest.importorskip("tomllib", reason="needs Python 3.11 or later to read pyproject.toml")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    named = [*project["dependencies"], *extras["data"], *extras["scenes"], *extras["onnx"]]
    return [one for one in named if not one.startswith(("torch", "attcr["))]


def write_scene(folder: Path, target: Path) -> None:
    """Write a part of a real L2A scene with cirrus as one raster, and its SCL as scl.tif."""
    window = Window(900, 900, 256, 256)
    for path, names in {target: ("B02", "B03", "B04", "B8A"), target.with_name("scl.tif"): ("SCL",)}.items():
        bands = []
        for name in names:
            with rasterio.open(next(folder.glob(f"*_{name}_60m.jp2"))) as file:
                bands.append(file.read(1, window=window))
                place = {"crs": file.crs, "transform": file.window_transform(window), "dtype": file.dtypes[0]}
        with rasterio.open(path, "w", driver="GTiff", count=len(bands), height=256, width=256, **place) as file:
            file.write(np.stack(bands))
            file.descriptions = names


def restore(python: str | Path, scene: Path, target: Path) -> list[np.ndarray]:
    """Give the image and the quality that a Python makes with ONNX Runtime."""
    options = ["--weights", "s2-thin", "--sensor", "s2-l2a", "--mask", f"scl={scene.with_name('scl.tif')}"]
    run(python, "-m", "attcr", "restore", scene, target, *options, "--backend", "onnxruntime")
    made = []
    for path in (target, target.with_name(f"{target.stem}_quality.tif")):
        with rasterio.open(path) as file:
            made.append(file.read().astype(np.int64))
    return made


def run(*command: str | Path) -> str:
    """Give what a command prints; it imports attcr from here."""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.10", "3.12", "3.13"])
def test_another_python_restores_the_same_scene(version: str, tmp_path: Path, shared_data: Path) -> None:
    python = tmp_path / "venv" / "bin" / "python"
    run(interpreter(version), "-m", "venv", tmp_path / "venv")
    run(python, "-m", "pip", "install", "-q", "--only-binary", ":all:", *requirements(), "pytest", "hypothesis")
    told = run(python, "-m", "pytest", "-p", "no:cacheprovider", *WITHOUT_TORCH)
    assert "passed" in told
    assert "failed" not in told
    write_scene(shared_data / "scenes" / "s2_l2a_60m", tmp_path / "scene.tif")
    image, quality = restore(python, tmp_path / "scene.tif", tmp_path / "other.tif")
    expected, expected_quality = restore(sys.executable, tmp_path / "scene.tif", tmp_path / "this.tif")
    assert np.abs(image - expected).max() <= 1  # other versions of numpy and ONNX Runtime round differently
    assert np.mean(quality == expected_quality) > 0.999
    with rasterio.open(tmp_path / "scene.tif") as file:
        assert np.mean(image != file.read()) > 0.1  # something was restored
