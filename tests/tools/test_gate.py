"""The gate fails where any of its parts fails, and ends with what pytest said."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PARTS = ("ruff check", "ruff format", "mypy", "engines", "alone", "mutants", "tests", "ray")
ENVIRONMENT = """
work=$(mktemp -d)
engines=engines alone=alone ray=ray rest=tests
step() { echo "$1"; [ "$1" != "$FAILS" ] || return 1; }
ruff() { step "ruff $1"; }
mypy() { step mypy; }
python() {
  local last=${!#}
  [ "$1" = tools/mutate.py ] && last=mutants
  echo "1 passed in $last"
  step "$last"
}
"""


def run(folder: Path, fails: str) -> subprocess.CompletedProcess[str]:
    """Run .ci/run in a folder where every command is a stand-in, of which one fails."""
    (folder / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", folder / ".ci")
    (folder / ".ci" / "environment").write_text(ENVIRONMENT)
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "FAILS": fails, "ATTCR_LOCKED": "1"}
    return subprocess.run(["bash", ".ci/run"], cwd=folder, env=environment, capture_output=True, text=True, timeout=60)


def test_every_part_runs_and_the_gate_passes(tmp_path: Path) -> None:
    done = run(tmp_path, "nothing")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert set(PARTS) <= set(lines)
    assert lines[-1].startswith("the gate passed after 0 min")
    assert lines[-6:-1] == [f"1 passed in {name}" for name in ("tests", "engines", "alone", "mutants", "ray")]


@pytest.mark.parametrize("part", PARTS)
def test_the_gate_fails_where_a_part_fails(tmp_path: Path, part: str) -> None:
    done = run(tmp_path, part)
    assert done.returncode != 0
    assert "the gate passed" not in done.stdout
