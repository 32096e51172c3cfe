"""Help, completion, and the library's own words."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from attcr.bands.sensors import SENSORS
from attcr.cli import app

SOURCE = Path(__file__).parents[2] / "src" / "attcr"
COMMANDS = [["demo"], ["restore"], ["weights"], ["evaluate"], ["audit"], ["gates"], ["info"], ["convert"], ["export"]]
COMMANDS += [["fleet", command] for command in ("plan", "run", "status", "retry")]
runner = CliRunner()


def words(text: str) -> str:
    """Help without its frame and line breaks."""
    return " ".join(re.sub(r"[│╭╮╰╯─]", " ", text).split())


@pytest.mark.parametrize("command", [[], ["fleet"], *COMMANDS], ids=" ".join)
def test_help_shows_no_types_of_python(command: list[str]) -> None:
    answer = runner.invoke(app, [*command, "--help"])
    assert answer.exit_code == 0
    assert not re.findall(r"<\w+(?:\[\w+\])?>|\b(?:INTEGER|FLOAT|BOOLEAN|TEXT|str|int|bool)\b", answer.output)


@pytest.mark.parametrize("command", ["restore", "weights"])
def test_help_names_every_product(command: str) -> None:
    assert f"does not say it: {', '.join(SENSORS)}." in words(runner.invoke(app, [command, "--help"]).output)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("attcr res", "restore"),
        ("attcr restore in.tif out.tif --sensor s2-l2", "s2-l2a-n0400"),
        ("attcr restore in.tif out.tif --mask cs", "csmask"),
        ("attcr restore in.tif out.tif --weights rgb", "rgb-thin"),
    ],
)
def test_the_shell_completes_commands_and_values(line: str, expected: str) -> None:
    code = "import sys; sys.argv[0] = 'attcr'; from attcr.cli import app; app(prog_name='attcr')"
    asked = {"_ATTCR_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": line}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **asked})
    assert expected in done.stdout, done.stderr


def test_the_library_names_options_as_python_does() -> None:
    """The command line writes --sensor where a message says `sensor`; who calls from Python has no flags."""
    found = []
    for path in SOURCE.rglob("*.py"):
        place = path.relative_to(SOURCE)
        if place.parts[0] in ("cli", "train", "paper", "demo.py"):
            continue  # command lines of their own
        tree = ast.parse(path.read_text())
        raised = [node for node in ast.walk(tree) if isinstance(node, ast.Raise | ast.Call)]
        texts = {
            (part.lineno, part.value)
            for node in raised
            for part in ast.walk(node)
            if isinstance(part, ast.Constant) and isinstance(part.value, str)
        }
        found += [f"{place}:{line}: {text}" for line, text in texts if re.search(r"(?:^|[\s(])--[a-z]", text)]
    assert not found


def test_without_extras_a_command_says_what_to_install() -> None:
    blocked = ("PIL", "rasterio", "rio_cogeo", "pystac", "lightning", "jsonargparse", "torchmetrics", "matplotlib")
    block = f"""
import sys
from importlib.abc import MetaPathFinder
class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
from attcr.cli import main
for line in (
    "audit --data pairs --root .", "restore in.tif out.tif", "demo", "train --config x", "weights --for in.tif",
    "evaluate --data pairs --root . --out x --baseline copy",
):
    sys.argv = ["attcr", *line.split()]
    try:
        main()
    except SystemExit as ended:
        print(line.split()[0], ended.code)
"""
    done = subprocess.run([sys.executable, "-c", block], capture_output=True, text=True)
    assert done.stdout.split() == [
        "audit", "2", "restore", "2", "demo", "2", "train", "2", "weights", "2", "evaluate", "2"
    ]  # fmt: skip
    lines = done.stderr.splitlines()
    assert len(lines) == 6, done.stderr
    extras = ("data", "scenes", "scenes", "train", "scenes", "eval")
    for line, extra in zip(lines, extras, strict=True):
        assert line.startswith("attcr: ")
        assert line.endswith(f"pip install 'attcr[{extra}]'")
