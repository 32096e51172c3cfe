"""What the README shows runs."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from attcr.weights import published

README = (Path(__file__).parents[1] / "README.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```", README, re.S)
COMMANDS = [
    line.split("#")[0].strip()
    for block in re.findall(r"```bash\n(.*?)```", README, re.S)
    for line in block.splitlines()
    if line.startswith("attcr ")
]


@pytest.mark.parametrize("code", PYTHON, ids=range(len(PYTHON)))
def test_a_python_block_runs(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {})


@pytest.mark.parametrize("command", COMMANDS)
def test_the_options_of_a_command_exist(command: str) -> None:
    """Commands that need the reader's files are asked for their help, which must know every option shown."""
    words = shlex.split(command)[1:]
    names = words[: 2 if words[0] == "fleet" else 1]
    answer = subprocess.run(
        [sys.executable, "-m", "attcr", *names, "--help"], capture_output=True, text=True, check=True
    )
    for option in (word for word in words if word.startswith("--")):
        assert option.split("=")[0] in answer.stdout, f"{command}: {' '.join(names)} has no {option}"


def test_the_scores_are_those_of_the_weights_in_the_package() -> None:
    for entry in published().values():
        row = next(line for line in README.splitlines() if line.startswith(f"| [`{entry.name}`]"))
        for score in entry.scores:
            assert f"**{score.value:#.4g}**" in row
            assert score.low is None or f"[{score.low:#.4g}, {score.high:#.4g}]" in row
            assert f"{score.input_copied:#.4g}" in row
