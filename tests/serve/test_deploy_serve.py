"""The files in deploy/ that run the service are of this version, and as narrow as they say."""

import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from attcr.cli import app

DEPLOY = Path(__file__).parents[2] / "deploy"
yaml = pytest.importorskip("yaml")


def options() -> set[str]:
    told = CliRunner().invoke(app, ["serve", "--help"], env={"COLUMNS": "200", "TERM": "dumb"}).output
    return set(re.findall(r"--[a-z-]+", told))


@pytest.mark.parametrize("name", ["Dockerfile", "compose.yaml", "serve.yaml"])
def test_every_option_shown_exists(name: str) -> None:
    shown = set(re.findall(r'"(--[a-z-]+)"', (DEPLOY / name).read_text()))
    assert {"--host", "--keys"} <= shown <= options()


def test_the_image_runs_as_a_user_of_its_own() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    assert re.search(r"^USER 10001$", text, re.MULTILINE)
    assert text.index("USER 10001") > text.rindex("COPY")
    assert "STOPSIGNAL SIGTERM" in text


def test_nothing_but_the_data_is_writable() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["attcr"]
    assert compose["read_only"] is True
    assert compose["cap_drop"] == ["ALL"]
    assert all(":ro" in one or one == "data:/data" for one in compose["volumes"])
    assert all(one.startswith("127.0.0.1:") for one in compose["ports"])
    kinds: dict[str, Any] = {one["kind"]: one for one in yaml.safe_load_all((DEPLOY / "serve.yaml").read_text())}
    pod = kinds["StatefulSet"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["terminationGracePeriodSeconds"] > 10
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["readinessProbe"]["httpGet"]["path"] == "/ready"
    assert container["livenessProbe"]["httpGet"]["path"] == "/health"
    (_, outside) = kinds["NetworkPolicy"]["spec"]["egress"]
    assert "169.254.0.0/16" in outside["to"][0]["ipBlock"]["except"]


def test_the_image_is_built_without_keys_and_history() -> None:
    first, *taken = [
        line for line in (DEPLOY.parent / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")
    ]
    assert first == "*"
    assert {line[1:] for line in taken if line.startswith("!")} == {
        "src", "pyproject.toml", "hatch_build.py", "README.md", "LICENSE",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["serve.yaml", "indexed-job.yaml"])
def test_kubernetes_takes_the_manifests(name: str) -> None:
    validate = pytest.importorskip("kubernetes_validate")
    for one in yaml.safe_load_all((DEPLOY / name).read_text()):
        validate.validate(one, "1.31", strict=True)


def test_only_what_is_labelled_reaches_the_pod_and_disks_have_limits() -> None:
    kinds: dict[str, Any] = {one["kind"]: one for one in yaml.safe_load_all((DEPLOY / "serve.yaml").read_text())}
    policy, pod = kinds["NetworkPolicy"]["spec"], kinds["StatefulSet"]["spec"]["template"]["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy["ingress"][0]["from"][0]["podSelector"]["matchLabels"] == {"attcr-access": "true"}
    assert pod["serviceAccountName"] == kinds["ServiceAccount"]["metadata"]["name"]
    assert pod["containers"][0]["resources"]["limits"]["ephemeral-storage"]
    assert pod["volumes"][1]["emptyDir"]["sizeLimit"]


def test_the_overlay_changes_what_is_there() -> None:
    """A patch that names what does not exist would add a second container."""
    kinds: dict[str, Any] = {one["kind"]: one for one in yaml.safe_load_all((DEPLOY / "serve.yaml").read_text())}
    overlay = yaml.safe_load((DEPLOY / "gpu" / "kustomization.yaml").read_text())
    (patch,) = [yaml.safe_load(one["patch"]) for one in overlay["patches"]]
    base = kinds[patch["kind"]]
    assert patch["metadata"]["name"] == base["metadata"]["name"]
    (ours,), (theirs,) = (one["spec"]["template"]["spec"]["containers"] for one in (base, patch))
    assert ours["name"] == theirs["name"]
    assert theirs["args"] == [*ours["args"], "--device", "cuda"]


def test_the_line_of_the_dockerfile_gives_what_its_command_wants() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    (line,) = re.findall(r"docker run .*", text)
    assert ":/keys/keys.txt:ro" in line
    assert '"--keys", "/keys/keys.txt"' in text
    assert text.index('"torch==$TORCH"') < text.index("COPY . /src")
