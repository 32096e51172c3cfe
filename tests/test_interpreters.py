"""Python 3.10 to 3.13, as far as an interpreter is at hand: all sources compile, and what needs no library imports.

The whole suite runs on the interpreter of the gate; the others may have no wheels of torch and numpy.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
COMPILE = """
import sys
from pathlib import Path
assert sys.version_info[:2] == tuple(map(int, sys.argv[2].split("."))), sys.version
files = [path for name in ("src", "tests", "tools", "benchmarks") for path in Path(sys.argv[1], name).rglob("*.py")]
for path in files:
    compile(path.read_bytes(), str(path), "exec")
sys.path.insert(0, str(Path(sys.argv[1], "src")))
import attcr, attcr.addresses, attcr.errors, attcr.files
print(len(files))
"""


def interpreter(version: str) -> str:
    """An interpreter of this version: this one, one on the path, or pyenv's."""
    if sys.version_info[:2] == tuple(map(int, version.split("."))):
        return sys.executable
    kept = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    found = str(kept[-1]) if kept else shutil.which(f"python{version}")
    return found or pytest.skip(f"there is no Python {version} here")


@pytest.mark.parametrize("version", ["3.10", "3.11", "3.12", "3.13"])
def test_every_source_compiles(version: str) -> None:
    command = [interpreter(version), "-S", "-B", "-c", COMPILE, ROOT, version]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 300
