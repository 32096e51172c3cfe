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
    others = [name for name in names if not name.startswith("attcr/sample/")]
    assert not [name for name in others if name.endswith((".png", ".webp", ".tif", ".pth"))]


def test_the_network_imports_torch_and_a_few_modules_of_its_own() -> None:
    code = "import sys, torch; had = set(sys.modules); from attcr import ATTCR; print(*(set(sys.modules) - had))"
    came = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert {name.partition(".")[0] for name in came} <= {"attcr", "yaml"}, "what else is imported costs every user time"
    assert len(came) < 25


def test_every_public_name_is_there_and_the_papers_are_not() -> None:
    code = "import attcr, sys; assert 'torch' not in sys.modules; [getattr(attcr, name) for name in attcr.__all__]"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert {"Slot", "Sensor", "AttcrError", "evaluate", "plan_scene", "restore_scene"} <= set(attcr.__all__)
    assert not {"AblationConfig", "trace_gates"} & set(dir(attcr))
