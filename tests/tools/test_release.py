"""What a release checks and writes."""

import hashlib
import importlib
import json
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def release(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "tools")
    return importlib.import_module("release")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "src" / "attcr").mkdir(parents=True)
    (tmp_path / "src" / "attcr" / "version.py").write_text('__version__ = "1.2.3"\n')
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 1.2.3 (2026-11-16)\n")
    for command in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a", "commit", "-qm", "all"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    return tmp_path


def test_a_clean_repository_of_this_version_is_released(release: ModuleType, repository: Path) -> None:
    assert release.problems("1.2.3", repository) == []


def test_another_version_is_not(release: ModuleType, repository: Path) -> None:
    told = release.problems("1.3.0", repository)
    assert told == [
        "src/attcr/version.py says 1.2.3, not 1.3.0",
        "CHANGELOG.md has no section `## 1.3.0 (YYYY-MM-DD)`",
    ]


def test_what_is_not_committed_is_not_released(release: ModuleType, repository: Path) -> None:
    (repository / "new.txt").write_text("x")
    assert release.problems("1.2.3", repository) == ["1 files are changed and not committed"]


def test_the_sums_are_those_of_the_files(release: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "b.whl").write_bytes(b"wheel")
    (tmp_path / "a.tar.gz").write_bytes(b"sdist")
    lines = release.write_sums(tmp_path).read_text().splitlines()
    assert lines == [f"{hashlib.sha256(data).hexdigest()}  {name}" for name, data in
                     (("a.tar.gz", b"sdist"), ("b.whl", b"wheel"))]  # fmt: skip
    assert release.write_sums(tmp_path).read_text().splitlines() == lines


def test_the_bill_names_attcr_torch_and_their_versions(release: ModuleType, tmp_path: Path) -> None:
    pytest.importorskip("cyclonedx_py")
    import torch

    release.write_bill(tmp_path / "bill.json", "1.2.3")
    bill = json.loads((tmp_path / "bill.json").read_text())
    assert bill["bomFormat"] == "CycloneDX"
    own = bill["metadata"]["component"]
    assert (own["name"], own["version"]) == ("attcr", "1.2.3")
    found = {part["name"]: part["version"] for part in bill["components"]}
    assert found["torch"] == torch.__version__
    assert {"numpy", "safetensors", "typer"} <= set(found)
