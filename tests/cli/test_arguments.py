"""Help, completion, and the library's own words."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import attcr
from attcr.bands.sensors import SENSORS
from attcr.cli import app
from attcr.cli.voice import one_line
from attcr.errors import ConfigError
from attcr.fleet.options import FleetOptions
from attcr.restore.options import options_of, restore_options

SOURCE = Path(__file__).parents[2] / "src" / "attcr"
COMMANDS = [["demo"], ["restore"], ["weights"], ["evaluate"], ["audit"], ["info"], ["convert"], ["export"]]
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


def test_restore_shows_its_options_in_groups_and_what_most_people_need_first() -> None:
    text = runner.invoke(app, ["restore", "--help"]).output
    shown: dict[str, list[str]] = {}
    for line in text.splitlines():
        title, flag = re.match(r"╭─ (\w+) ─", line), re.match(r"│ (--[\w-]+)", line)
        if title:
            group = shown.setdefault(title[1], [])
        if flag:
            group.append(flag[1])
    told = {
        "Arguments": [],
        "Options": ["--weights", "--mask", "--reference", "--help"],
        "Input": ["--sensor", "--bands", "--bbox", "--aoi", "--radar", "--nodata", "--vrt"],
        "Clouds": ["--ground", "--unseen", "--dilate", "--feather"],
        "References": ["--reference-days", "--reference-mask", "--reference-fill"],
        "Network": ["--tile", "--overlap", "--batch", "--device", "--dtype", "--backend"],
        "Output": [
            *("--confidence", "--resume", "--overwrite", "--dry-run"),
            *("--quiet", "--verbose", "--json", "--progress"),
        ],
    }
    assert list(shown.items()) == list(told.items())


def test_help_says_defaults_bounds_and_names_options_as_the_command_line_does() -> None:
    text = words(runner.invoke(app, ["restore", "--help"]).output)
    for told in (
        "[default: (the product's own mask or detectors, and the network, vote)]",
        "PIXELS [x>=8] Width and height of a tile",
        "references are, as for --mask; none",
        "under its clouds. May be repeated.",
        "--vrt Accept VRTs that read files and addresses elsewhere.",
        "How many days before and after a scene to search for references. [default: 60]",
    ):
        assert told in text
    assert "Where networks run, as torch names it" in words(runner.invoke(app, ["serve", "--help"]).output)


def given(monkeypatch: pytest.MonkeyPatch, *options: str) -> attcr.RestoreOptions:
    """The options that `restore` is run with."""
    seen: list[attcr.RestoreOptions] = []
    monkeypatch.setattr("attcr.cli.scenes._restore", lambda *args, again: seen.append(args[-1]) or ({}, []))
    answer = runner.invoke(app, ["restore", "in.tif", "out.tif", "--weights", "none", *options])
    assert answer.exit_code == 0, answer.output
    return seen[0]


def test_the_command_line_without_options_takes_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    assert given(monkeypatch) == attcr.RestoreOptions()


def test_every_option_of_the_command_line_reaches_restore(monkeypatch: pytest.MonkeyPatch) -> None:
    line = (
        "--tile 64 --overlap 8 --batch 2 --device cuda --dtype float16 --backend torch --sensor rgb8 --bands 3,2,1 "
        "--bbox 13,52,14,53 --mask scl --ground network --unseen fill --dilate 1 --feather 2 --radar r.tif --nodata 7 "
        "--reference a,b.tif --references c.tif "
        "--reference-days 9 --reference-mask none --reference-fill classical --confidence --vrt"
    )
    assert given(monkeypatch, *line.split()) == attcr.RestoreOptions(
        tile=64, overlap=8, batch=2, device="cuda", dtype="float16", backend="torch", sensor="rgb8",
        bands=("3", "2", "1"), bbox=(13.0, 52.0, 14.0, 53.0), mask="scl",
        ground="network", unseen="fill", dilate=1, feather=2, radar="r.tif",
        nodata=7.0, references=("a,b.tif", "c.tif"), reference_days=9, reference_mask="none",
        reference_fill="classical", confidence=True, vrt="any",
    )  # fmt: skip
    assert {f"--{name.replace('_', '-')}" for name in restore_options()} - set(line.split()) == {"--aoi"}
    assert given(monkeypatch, "--aoi", "place.gpkg") == attcr.RestoreOptions(aoi="place.gpkg")


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("--tile 7", "Invalid value for '--tile': "),
        ("--batch 0", "Invalid value for '--batch': "),
        ("--unseen paint", "--unseen is 'paint'; expected keep, fill or nodata."),
        ("--reference auto:0", "--reference is auto:0; expected auto or auto:NUMBER (1 to 99) alone, or scenes."),
        ("--sensor l8", "There is no sensor 'l8'; --sensor is one of rgb8"),
    ],
)
def test_a_wrong_value_is_refused_by_the_name_that_the_caller_wrote(wrong: str, told: str) -> None:
    answer = runner.invoke(app, ["restore", "in.tif", "out.tif", *wrong.split()])
    assert told in (one_line(answer.exception) if isinstance(answer.exception, ConfigError) else words(answer.output))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("attcr res", "restore"),
        ("attcr restore in.tif out.tif --dtype bf", "bfloat16"),
        ("attcr evaluate --backend open", "openvino"),
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


def test_fleet_run_takes_every_option_that_is_said_at_a_field(monkeypatch: pytest.MonkeyPatch) -> None:
    text = words(runner.invoke(app, ["fleet", "run", "--help"], env={"COLUMNS": "200"}).output)
    for option in options_of(FleetOptions).values():
        assert option.flags[0] in text
        assert option.help in text
    given: list[FleetOptions] = []

    def run_fleet(*_: object, fleet: FleetOptions, **__: object) -> None:
        given.append(fleet)
        raise KeyboardInterrupt

    monkeypatch.setattr("attcr.fleet.run.run_fleet", run_fleet)
    asked = "--engine ray --workers 3 --gpus 0.5 --split-over 40 --deadline 9.5 --attempts 2 --shard 1/4"
    line = ["fleet", "run", "m.parquet", "out", "--weights", "rgb-thin", *asked.split()]
    assert runner.invoke(app, line).exit_code == 130
    assert runner.invoke(app, line[:6]).exit_code == 130
    wanted = FleetOptions(engine="ray", workers=3, gpus=0.5, split_over=40.0, deadline=9.5, attempts=2, shard=(1, 4))
    assert given == [wanted, FleetOptions()]
    assert "greater than or equal to 1" in words(runner.invoke(app, [*line, "--readers", "0"]).output)
