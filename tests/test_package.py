"""The package as it is installed."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import attcr

ROOT = Path(__file__).parents[1]


def test_the_wheel_holds_the_package_and_nothing_else(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    without = {**os.environ, "ATTCR_KERNEL": "0"}  # tests/ops/test_kernel.py compiles it
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, env=without)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert all(name.startswith(("attcr/", "attcr-")) for name in names)
    assert {"attcr/py.typed", "attcr/train/recipes/rice2.yaml", "attcr/data/splits/rice2.json"} <= set(names)
    assert not [name for name in names if name.endswith((".png", ".webp", ".tif", ".pth"))]


def test_it_imports_within_a_second_more_than_torch() -> None:
    best = {"from attcr import ATTCR": float("inf"), "import torch": float("inf")}
    for code in [*best, *best]:
        timed = f"{code}; import time; print(time.process_time())"  # other programs of the machine do not count
        took = subprocess.run([sys.executable, "-c", timed], check=True, capture_output=True, text=True).stdout
        best[code] = min(best[code], float(took))
    assert best["from attcr import ATTCR"] < best["import torch"] + 1


def test_every_public_name_is_there_and_the_papers_are_not() -> None:
    code = "import attcr, sys; assert 'torch' not in sys.modules; [getattr(attcr, name) for name in attcr.__all__]"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert {"Slot", "Sensor", "AttcrError", "evaluate", "plan_scene", "restore_scene"} <= set(attcr.__all__)
    assert not {"AblationConfig", "trace_gates"} & set(dir(attcr))
