"""The command line as a user meets it."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from attcr import __version__
from attcr.cli import app
from attcr.data import DATASETS
from fake_scenes import UTM, make

runner = CliRunner()


def run(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "attcr", *args], capture_output=True, text=True, check=False)


def test_help_imports_no_torch_and_few_modules() -> None:
    code = (
        "import sys; sys.argv = ['attcr', '--help']\n"
        "from attcr.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules\n"
        "sys.stderr.write(str(len(sys.modules)))"  # modules, not seconds: a busy machine does not change them
    )
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    assert int(run.stderr) < 420, "343 on 18 November 2026, 0.5 s"


def test_version_is_the_package_s() -> None:
    assert runner.invoke(app, ["--version"]).output == f"attcr {__version__}\n"


def test_help_names_the_data_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DATASETS, "meadows", replace(DATASETS["rice1"], name="meadows"))
    assert f"rice1, {', '.join(list(DATASETS)[1:-1])}, meadows" in words(
        runner.invoke(app, ["evaluate", "--help"]).output
    )


def words(text: str) -> str:
    """Help without its frame and line breaks."""
    return " ".join(re.sub(r"[│╭╮╰╯─]", " ", text).split())


def test_an_error_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    (tmp_path / "bad.safetensors").write_text("no weights")
    answer = run("export", str(tmp_path / "bad.safetensors"), str(tmp_path / "out.onnx"))
    assert answer.returncode == 2
    assert answer.stderr.startswith("attcr: ")
    assert answer.stderr.count("\n") == 1
    assert not (tmp_path / "out.onnx").exists()


def test_weights_for_a_scene_are_told_with_its_bands_and_a_reason_for_all_once(tmp_path: Path) -> None:
    path = make(tmp_path / "four.tif", np.full((4, 16, 16), 2000, np.uint16), photometric="MINISBLACK", **UTM)
    untold = runner.invoke(app, ["weights", "--for", str(path)]).output
    assert untold.startswith(f"No published weights fit. {path} holds uint16 values and does not name its product")
    assert untold.count("\n") == 1
    said = ["--sensor", "s2-l2a", "--bands", "B02,B03,B04,B08"]
    told = runner.invoke(app, ["weights", "--for", str(path), *said]).output.splitlines()
    assert told[0] == "s2-thin: fits. Removes thin cloud from blue (1), green (2), red (3), nir (4)."
    assert told[2].startswith("rice2-small: does not fit. The scene is s2-l2a")
