"""The manifests in deploy/ and the commands in docs/guides/fleet.md are of this version."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from attcr.cli import app

ROOT = Path(__file__).parents[2]
yaml = pytest.importorskip("yaml")


def options_of(command: str) -> set[str]:
    answer = CliRunner().invoke(app, ["fleet", command, "--help"], env={"COLUMNS": "200", "TERM": "dumb"})
    assert answer.exit_code == 0
    return set(re.findall(r"--[a-z-]+", answer.output))


@pytest.mark.parametrize("name", ["rayjob.yaml", "indexed-job.yaml", "fleet.md"])
def test_every_option_shown_exists(name: str) -> None:
    text = (ROOT / ("docs/guides" if name.endswith(".md") else "deploy") / name).read_text()
    told = re.sub(r"\n\s+(?=--)", " ", text)  # a command may go on in the next line
    commands = re.findall(r"attcr fleet (\w+)([^\n`]*)", told)
    assert commands
    for command, rest in commands:
        assert set(re.findall(r"(?<!\S)--[a-z-]+", rest)) <= options_of(command), rest


@pytest.mark.parametrize("name", ["rayjob.yaml", "indexed-job.yaml"])
def test_a_manifest_is_yaml_without_credentials(name: str) -> None:
    *accounts, told = yaml.safe_load_all((ROOT / "deploy" / name).read_text())
    assert {"apiVersion", "kind", "metadata", "spec"} <= set(told)
    assert all(one["kind"] == "ServiceAccount" for one in accounts)
    assert not re.search(r"(?i)secret_access|password|AKIA", (ROOT / "deploy" / name).read_text())


def test_the_shards_of_the_indexed_job_are_as_many_as_its_pods() -> None:
    *_, manifest = yaml.safe_load_all((ROOT / "deploy" / "indexed-job.yaml").read_text())
    job = manifest["spec"]
    (arguments,) = job["template"]["spec"]["containers"][0]["args"]
    assert f'"$JOB_COMPLETION_INDEX/{job["completions"]}"' in arguments
