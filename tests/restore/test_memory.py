"""A scene's height costs time, not memory."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def measure(folder: Path, height: int, width: int, bands: int) -> dict[str, float]:
    folder.mkdir()
    paths = os.pathsep.join([str(HERE.parent), str(HERE.parents[1] / "src"), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, str(HERE / "measure_memory.py"), str(height), str(width), str(bands), str(folder)]
    run = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": paths})
    assert run.returncode == 0, run.stderr[-2000:]
    for path in folder.iterdir():
        path.unlink()
    told: dict[str, float] = json.loads(run.stdout)
    assert told["error"] <= 0.51
    return told


@pytest.mark.nightly
def test_the_peak_does_not_grow_with_the_height(tmp_path: Path) -> None:
    low = measure(tmp_path / "low", 1000, 1000, 13)  # 26 MB of pixels
    high = measure(tmp_path / "high", 4000, 1000, 13)  # 104 MB
    assert high["peak"] < low["peak"] + (40 << 20), (low, high)


@pytest.mark.slow
def test_a_sentinel_2_tile_of_13_bands_stays_under_3_gib(tmp_path: Path) -> None:
    told = measure(tmp_path / "tile", 10980, 10980, 13)
    print(told)
    assert told["peak"] < 3 << 30
