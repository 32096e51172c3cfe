"""What is not a scene ends in one line, a non-zero exit and nothing on disk."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from malformed import make_malformed

import attcr
from attcr.bands.spec import TRUE_COLOUR

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    config = attcr.ATTCRConfig(dim=8, blocks=(1,) * 5, heads=(2,) * 5, scales=((1,),) * 5)
    path = tmp_path_factory.mktemp("weights") / "tiny.safetensors"
    attcr.save_model(attcr.ATTCR(config), path, spec=TRUE_COLOUR)
    return path


def test_two_hundred_malformed_inputs_end_in_one_line_each(tmp_path: Path, weights: Path) -> None:
    inputs = tmp_path / "inputs"
    inputs.mkdir()
    cases = make_malformed(inputs)
    good = str(inputs / "good.tif")
    arguments = [(name, [str(path)]) for name, path in cases.items()]
    arguments += [(f"mask {name}", [good, "--mask", str(cases[name])]) for name in sorted(cases)[::40]]
    assert len(cases) >= 200
    job = {"cases": arguments, "folder": str(tmp_path), "weights": str(weights), "out": str(tmp_path / "told.json")}
    (tmp_path / "job.json").write_text(json.dumps(job))
    run = subprocess.run(
        [sys.executable, str(HERE / "run_cases.py"), str(tmp_path / "job.json")], capture_output=True, timeout=900
    )
    told = json.loads((tmp_path / "told.json").read_text())
    assert run.returncode == 0, f"the process ended after {told[-1]['name']}: {run.stderr[-500:]!r}"
    assert len(told) == len(arguments)
    wrong = {}
    for case in told:
        text = case["stderr"]
        fine = (
            case["code"] != 0
            and not case["raised"]
            and text.startswith("attcr: ")
            and text.count("\n") == 1
            and "Traceback" not in text
            and not case["left"]
            and case["seconds"] < 20
        )
        if not fine:
            wrong[case["name"]] = case
    assert not wrong, json.dumps(wrong, indent=1)
    assert max(case["peak"] for case in told) < 3 << 30
    assert not run.stderr, "GDAL or Python wrote to stderr past the command"


def test_the_command_itself_says_one_line(tmp_path: Path, weights: Path) -> None:
    path = make_malformed(tmp_path)["truncated_40.tif"]
    target = tmp_path / "written" / "out.tif"
    target.parent.mkdir()
    command = [sys.executable, "-m", "attcr", "restore", str(path), str(target), "--weights", str(weights)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, env=os.environ)
    assert run.returncode == 2
    assert run.stdout == ""
    assert run.stderr.startswith("attcr: ")
    assert run.stderr.count("\n") == 1
    assert not list(target.parent.iterdir())
