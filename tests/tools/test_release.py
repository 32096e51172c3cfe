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
    (tmp_path / "CITATION.cff").write_text("title: attcr\nversion: 1.2.3\n")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    write_nightly(tmp_path, commit_all(tmp_path), "green")
    commit_all(tmp_path)
    return tmp_path


def commit_all(root: Path) -> str:
    """Commit what is there, and give the commit."""
    name = ["-c", "user.name=a", "-c", "user.email=a"]
    for command in (["add", "."], [*name, "commit", "-qm", "all"]):
        subprocess.run(["git", *command], cwd=root, check=True)
    return subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True).stdout.strip()


def write_nightly(root: Path, commit: str, result: str) -> None:
    (root / "docs" / "engineering").mkdir(parents=True, exist_ok=True)
    (root / "docs" / "engineering" / "nightly.md").write_text(f"- commit: `{commit}`\n- result: {result}\n")


def test_a_clean_repository_of_this_version_is_released(release: ModuleType, repository: Path) -> None:
    assert release.problems("1.2.3", repository) == []


def test_another_version_is_not(release: ModuleType, repository: Path) -> None:
    told = release.problems("1.3.0", repository)
    assert told == [
        "src/attcr/version.py says 1.2.3, not 1.3.0",
        "CITATION.cff does not say version: 1.3.0",
        "CHANGELOG.md has no section `## 1.3.0 (YYYY-MM-DD)`",
    ]


def test_what_is_not_committed_is_not_released(release: ModuleType, repository: Path) -> None:
    (repository / "new.txt").write_text("x")
    assert release.problems("1.2.3", repository) == ["1 files are changed and not committed"]


def test_without_a_green_nightly_of_the_commit_nothing_is_released(release: ModuleType, repository: Path) -> None:
    page = repository / "docs" / "engineering" / "nightly.md"
    (repository / "CHANGELOG.md").write_text("# Changelog\n\n## 1.2.3 (2026-11-17)\n")
    latest = commit_all(repository)
    (told,) = release.problems("1.2.3", repository)
    assert "not of this commit" in told
    write_nightly(repository, latest, "red")
    commit_all(repository)
    assert release.problems("1.2.3", repository) == [f"the nightly of {latest} is red"]
    write_nightly(repository, "0" * 40, "green")
    commit_all(repository)
    (told,) = release.problems("1.2.3", repository)
    assert "not of this commit" in told
    page.write_text("no nightly yet\n")
    commit_all(repository)
    (told,) = release.problems("1.2.3", repository)
    assert "tells of no nightly" in told
    page.unlink()
    commit_all(repository)
    (told,) = release.problems("1.2.3", repository)
    assert told.startswith("there is no docs/engineering/nightly.md")


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
