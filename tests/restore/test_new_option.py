"""An option that is one field with its help and bounds is everywhere the same day."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FIELD = """    rings: Annotated[int, Option(
        "Rings around a cloud, as an experiment.", "clouds", "NUMBER", least=2, share=(3, 40))] = 5
    halo: Annotated[Literal["round", "square"], Option("How rings look.", "output", "SHAPE")] = "round"
"""
ASK = """
import json, sys
from typer.testing import CliRunner
from attcr.cli import app
from attcr.cli.voice import as_flags
from attcr.errors import ConfigError
from attcr.fleet.settings import with_settings
from attcr.restore import RestoreOptions
from attcr.restore.options import restore_options
from attcr.serve.models import inputs
from attcr.serve.inputs import _check_options
import qgis_zip, site_hooks

def refused(work):
    try:
        work()
    except ConfigError as error:
        return str(error)

plain = RestoreOptions()
run = lambda *line: CliRunner().invoke(app, list(line), env={"COLUMNS": "200"}).output
print(json.dumps({
    "help": run("restore", "--help"),
    "refused by the command line": run("restore", "a.tif", "b.tif", "--rings", "1"),
    "schema": {name: inputs(())[name] for name in ("rings", "halo")},
    "fleet": with_settings(plain, {"rings": 9, "halo": "square"}).describe(),
    "refused by the fleet": refused(lambda: with_settings(plain, {"rings": "many"})),
    "refused by the service": refused(
        lambda: _check_options({"rings": 2}, has_references=False, weights=None)
    ),
    "refused in Python": refused(lambda: RestoreOptions(rings=1)),
    "options page": site_hooks.options(),
    "commands page": site_hooks.reference(),
    "choices": json.loads(qgis_zip.choices())["halo"],
    "flag": as_flags("say `rings=7`"),
    "digests": [plain.digest(), RestoreOptions(rings=9).digest()],
}))
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a copy of the package, with two fields more in one file, says of them."""
    package = tmp_path_factory.mktemp("copy") / "attcr"
    shutil.copytree(ROOT / "src" / "attcr", package, copy_function=os.symlink, ignore=lambda *_: {"__pycache__"})
    options = package / "restore" / "options.py"
    text = options.read_text()
    options.unlink()
    options.write_text(text.replace("    # fmt: on\n", f"{FIELD}    # fmt: on\n"))
    path = os.pathsep.join([str(package.parent), str(ROOT / "tools")])
    done = subprocess.run(
        [sys.executable, "-c", ASK], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_the_command_line_has_it_with_its_bounds(told: dict[str, Any]) -> None:
    clouds = told["help"][told["help"].index("─ Clouds ─") : told["help"].index("─ References ─")]
    assert "--rings" in clouds
    assert "NUMBER [x>=2]" in clouds
    assert "Rings around a cloud, as an experiment." in clouds
    assert "Invalid value for '--rings'" in told["refused by the command line"]
    assert told["flag"] == "say --rings 7"


def test_the_service_has_it_within_its_share(told: dict[str, Any]) -> None:
    rings = told["schema"]["rings"]
    assert rings["description"] == "Rings around a cloud, as an experiment."
    assert rings["schema"] == {"type": "integer", "minimum": 3, "maximum": 40, "default": 5}
    assert told["schema"]["halo"]["schema"] == {"type": "string", "enum": ["round", "square"], "default": "round"}
    assert told["refused by the service"] == "The option rings is 2; this server takes 3 to 40."


def test_fleets_take_it_and_it_is_part_of_the_digest(told: dict[str, Any]) -> None:
    assert (told["fleet"]["rings"], told["fleet"]["halo"]) == (9, "square")
    assert told["refused by the fleet"] == "The option rings is 'many'; expected int."
    assert told["refused in Python"] == "`rings` is 1 and must be at least 2."
    plain, other = told["digests"]
    assert plain == "729f4020cdd81aec1674e9392c4d340d66148828f9c1bfde5c4257dfbd464e62"  # that of all who do not use it
    assert other != plain


def test_the_reference_and_the_form_of_qgis_have_it(told: dict[str, Any]) -> None:
    meaning = "Rings around a cloud, as an experiment."
    assert f"| `rings` | `--rings NUMBER` | `5` | {meaning} At least 2. | 3 to 40 |" in told["options page"]
    assert f"| `--rings NUMBER` | {meaning} | `5` |" in told["commands page"]
    assert told["choices"] == ["round", "square"]
