"""The command line as a user meets it."""

import json
import subprocess
import sys
import time
from pathlib import Path

from typer.testing import CliRunner

from attcr import __version__
from attcr.cli import app

runner = CliRunner()


def run(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "attcr", *args], capture_output=True, text=True, check=False)


def test_help_imports_no_torch_and_answers_within_a_second() -> None:
    code = (
        "import sys; sys.argv = ['attcr', '--help']\n"
        "from attcr.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    )
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
        best = min(best, time.perf_counter() - start)
    assert best < 1


def test_version_is_the_package_s() -> None:
    assert runner.invoke(app, ["--version"]).output == f"attcr {__version__}\n"


def test_info_prints_both_counts() -> None:
    output = runner.invoke(app, ["info", "--preset", "rice1"]).output
    assert "6,930,060" in output
    assert "53.34 G as the paper counts" in output
    assert "56.67 G in truth" in output


def test_info_as_json_can_be_read() -> None:
    answer = json.loads(runner.invoke(app, ["info", "--preset", "tiny", "--size", "64", "--json"]).output)
    assert answer["stages"][2] == [64, 16, 16]


def test_an_error_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    (tmp_path / "bad.pth").write_text("no checkpoint")
    answer = run("convert", str(tmp_path / "bad.pth"), str(tmp_path / "out.safetensors"))
    assert answer.returncode == 2
    assert answer.stderr.startswith("attcr: ")
    assert answer.stderr.count("\n") == 1
    assert not (tmp_path / "out.safetensors").exists()
