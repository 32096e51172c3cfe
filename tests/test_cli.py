"""The command line as a user meets it."""

import json
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
from attcr.networks import NETWORKS, Entry
from attcr.weights import read_header
from fake_scenes import UTM, make
from small_networks import Blend, BlendConfig

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


def test_info_prints_both_counts() -> None:
    output = runner.invoke(app, ["info", "--preset", "rice1"]).output
    assert "6,930,060" in output
    assert "53.34 G as the paper counts" in output
    assert "56.67 G with the triangular product" in output
    assert "  419 MiB at the peak, to restore" in output
    assert "  3,352 MiB kept for one image, to train" in output


def test_info_as_json_can_be_read() -> None:
    answer = json.loads(runner.invoke(app, ["info", "--preset", "tiny", "--size", "64", "--json"]).output)
    assert answer["stages"][2] == [64, 16, 16]


def test_info_measures_any_network_with_any_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NETWORKS, "blend", Entry(BlendConfig, Blend))
    output = runner.invoke(app, ["info", "--network", "blend", "--size", "64"]).output
    assert output.startswith("blend at 64 x 64\n")
    assert "  parameters      15\n" in output
    assert "stage" not in output
    options = ["--set", "attention=linear", "--set", "dim=16", "--size", "32", "--json"]
    answer = json.loads(runner.invoke(app, ["info", *options]).output)
    assert (answer["network"], answer["preset"], answer["stages"][0]) == ("attcr", "rice2", [16, 32, 32])
    for wrong, message in (
        (["--network", "unet"], "no network 'unet'"),
        (["--network", "blend", "--preset", "rice1"], "has no effect on blend"),
        (["--set", "dim"], "NAME=VALUE"),
        (["--set", "width=3"], "attcr has no setting width"),
    ):
        assert message in str(runner.invoke(app, ["info", *wrong]).exception)


def test_help_names_the_data_sets_and_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DATASETS, "meadows", replace(DATASETS["rice1"], name="meadows"))
    for command in ("evaluate", "convert"):
        assert f"rice1, {', '.join(list(DATASETS)[1:-1])}, meadows" in words(
            runner.invoke(app, [command, "--help"]).output
        )
    monkeypatch.setitem(NETWORKS, "blend", Entry(BlendConfig, Blend))
    assert ", ".join(NETWORKS) in words(runner.invoke(app, ["info", "--help"]).output)


def words(text: str) -> str:
    """Help without its frame and line breaks."""
    return " ".join(re.sub(r"[│╭╮╰╯─]", " ", text).split())


def test_convert_saves_what_the_data_set_says_and_refuses_an_unknown_one(shared: Path, tmp_path: Path) -> None:
    source, target = shared / "weights" / "rice2-dim24-629steps.safetensors", tmp_path / "w.safetensors"
    options = ["convert", str(source), str(target), "--data"]
    assert "no data set 'rice3'; there are rice1, rice2" in str(runner.invoke(app, [*options, "rice3"]).exception)
    assert not target.exists()
    assert "parameters, sha256" in runner.invoke(app, [*options, "rice2"]).output
    assert read_header(target).spec == DATASETS["rice2"].spec


def test_an_error_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    (tmp_path / "bad.pth").write_text("no checkpoint")
    answer = run("convert", str(tmp_path / "bad.pth"), str(tmp_path / "out.safetensors"), "--data", "rice2")
    assert answer.returncode == 2
    assert answer.stderr.startswith("attcr: ")
    assert answer.stderr.count("\n") == 1
    assert not (tmp_path / "out.safetensors").exists()


def test_weights_for_a_scene_are_told_with_its_bands_and_a_reason_for_all_once(tmp_path: Path) -> None:
    path = make(tmp_path / "four.tif", np.full((4, 16, 16), 2000, np.uint16), photometric="MINISBLACK", **UTM)
    untold = runner.invoke(app, ["weights", "--for", str(path)]).output
    assert untold.startswith(f"No published weights fit. {path} holds uint16 values and does not name its product")
    assert untold.count("\n") == 1
    said = ["--sensor", "s2-l2a", "--bands", "B02,B03,B04,B08"]
    told = runner.invoke(app, ["weights", "--for", str(path), *said]).output.splitlines()
    assert told[0] == "s2-thin: fits. Removes thin cloud from blue (1), green (2), red (3), nir (4)."
    assert told[2].startswith("rice2-small: does not fit. The scene is s2-l2a")
