"""What a network costs, and the conversion of the authors' checkpoints, as commands."""

import json
import re
from pathlib import Path

import pytest
import typer
from benchmarks.paper.commands import convert, info
from typer.testing import CliRunner

from attcr.cli.arguments import Naming
from attcr.data import DATASETS
from attcr.networks import NETWORKS, Entry
from attcr.weights import read_header
from small_networks import Blend, BlendConfig

runner = CliRunner()
app = typer.Typer()
for command in (info, convert):
    app.command(cls=Naming)(command)


def words(text: str) -> str:
    """Help without its frame and line breaks."""
    return " ".join(re.sub(r"[│╭╮╰╯─]", " ", text).split())


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
    names = ", ".join(DATASETS)
    assert names in words(runner.invoke(app, ["convert", "--help"]).output)
    monkeypatch.setitem(NETWORKS, "blend", Entry(BlendConfig, Blend))
    assert ", ".join(NETWORKS) in words(runner.invoke(app, ["info", "--help"]).output)


def test_convert_saves_what_the_data_set_says_and_refuses_an_unknown_one(shared: Path, tmp_path: Path) -> None:
    source, target = shared / "weights" / "rice2-dim24-629steps.safetensors", tmp_path / "w.safetensors"
    options = ["convert", str(source), str(target), "--data"]
    assert "no data set 'rice3'; there are rice1, rice2" in str(runner.invoke(app, [*options, "rice3"]).exception)
    assert not target.exists()
    assert "parameters, sha256" in runner.invoke(app, [*options, "rice2"]).output
    assert read_header(target).spec == DATASETS["rice2"].spec
