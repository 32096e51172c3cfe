"""The zip of the QGIS plugin."""

import configparser
import subprocess
import sys
import zipfile
from pathlib import Path

import attcr

TOOL = Path(__file__).parents[2] / "tools" / "qgis_zip.py"
WANTED = {"name", "description", "about", "version", "qgisMinimumVersion", "author", "email", "repository", "tracker"}
"""What QGIS's plugin repository wants."""


def pack(target: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, TOOL, target, *options], capture_output=True, text=True)


def general(packed: Path) -> dict[str, str]:
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(zipfile.ZipFile(packed).read("attcr_clouds/metadata.txt").decode())
    return dict(parser["general"])


def test_the_same_sources_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one.zip", "two.zip"):
        assert pack(tmp_path / name).returncode == 0
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()
    names = zipfile.ZipFile(tmp_path / "one.zip").namelist()
    assert {name.split("/")[0] for name in names} == {"attcr_clouds"}  # QGIS wants one folder
    assert {"attcr_clouds/LICENSE", "attcr_clouds/metadata.txt", "attcr_clouds/__init__.py"} <= set(names)
    assert not [name for name in names if "pycache" in name or name.endswith((".toml", ".pyc"))]


def test_the_metadata_is_what_the_plugin_repository_wants(tmp_path: Path) -> None:
    home = ["--set", "email=a@b.example", "--set", "repository=https://r.example", "--set", "tracker=https://t.example"]
    assert pack(tmp_path / "p.zip", *home).returncode == 0
    told = general(tmp_path / "p.zip")
    assert set(told) >= WANTED
    assert told["version"] == attcr.__version__
    assert told["hasProcessingProvider"] == "yes"
    assert told["tracker"] == "https://t.example"
    assert "GNU GENERAL PUBLIC LICENSE" in zipfile.ZipFile(tmp_path / "p.zip").read("attcr_clouds/LICENSE").decode()


def test_fields_that_are_not_known_are_left_out_and_others_refused(tmp_path: Path) -> None:
    assert pack(tmp_path / "p.zip").returncode == 0
    assert "email" not in general(tmp_path / "p.zip")
    refused = pack(tmp_path / "q.zip", "--set", "mail=x")
    assert refused.returncode == 1
    assert "has no mail" in refused.stderr
