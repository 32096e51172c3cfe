"""Make the files of a release: wheels, sdist, QGIS plugin, software bill of materials, checksums.

    python tools/release.py 0.1.0 dist

The version must be that of src/attcr/version.py and CITATION.cff, CHANGELOG.md must have a dated section for it,
nothing may be changed and not committed, and the nightly of the commit must be green. Nothing is uploaded and no tag is
set: the last lines say what is left to do. The checklist around it is in CONTRIBUTING.md.
"""

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import nightly
from qgis_zip import pack

ROOT = Path(__file__).parents[1]


def problems(version: str, root: Path = ROOT) -> list[str]:
    """What stands in the way of this release."""
    source = (root / "src" / "attcr" / "version.py").read_text()
    found = re.search(r'__version__ = "([^"]+)"', source)
    told = []
    if found is None or found[1] != version:
        told.append(f"src/attcr/version.py says {found[1] if found else 'nothing'}, not {version}")
    if f"\nversion: {version}\n" not in (root / "CITATION.cff").read_text():
        told.append(f"CITATION.cff does not say version: {version}")
    dated = rf"(?m)^## {re.escape(version)} \(\d{{4}}-\d{{2}}-\d{{2}}\)$"
    if not re.search(dated, (root / "CHANGELOG.md").read_text()):
        told.append(f"CHANGELOG.md has no section `## {version} (YYYY-MM-DD)`")
    changed = subprocess.run(["git", "status", "--porcelain"], cwd=root, capture_output=True, text=True, check=True)
    if changed.stdout:
        told.append(f"{len(changed.stdout.splitlines())} files are changed and not committed")
    if without := nightly.problem(root):
        told.append(without)
    return told


def write_bill(target: Path, version: str, python: str = sys.executable) -> None:
    """Write the packages of an environment as CycloneDX JSON: attcr, what it needs, and what its tests need."""
    command = [sys.executable, "-m", "cyclonedx_py", "environment", python, "--pyproject", str(ROOT / "pyproject.toml")]
    subprocess.run([*command, "--mc-type", "library", "--output-reproducible", "-o", str(target)], check=True)
    bill = json.loads(target.read_text())
    bill["metadata"]["component"]["version"] = version  # pyproject.toml leaves it to version.py
    target.write_text(json.dumps(bill, indent=2) + "\n")


def write_sums(folder: Path) -> Path:
    """Write SHA256SUMS, as `sha256sum --check` reads it, of every other file of the folder."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.name != "SHA256SUMS")
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    sums = folder / "SHA256SUMS"
    sums.write_text("".join(lines))
    return sums


def release(version: str, folder: Path) -> None:
    """Write all files of a release into an empty folder."""
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise SystemExit(f"{folder} is not empty")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", str(folder.resolve())], cwd=ROOT, check=True)
    if not list(folder.glob("attcr-*linux*.whl")):
        raise SystemExit("not released: the wheel is without its compiled operator; see above why")
    plain = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder.resolve())]
    subprocess.run(plain, cwd=ROOT, check=True, env=os.environ | {"ATTCR_KERNEL": "0"})  # for Windows and macOS
    pack(folder / f"attcr_clouds-{version}.zip")
    write_bill(folder / f"attcr-{version}.cdx.json", version)
    print(write_sums(folder).read_text(), end="")
    print(f"left to do: try the wheel in a fresh environment, then git tag -s v{version}, push it, upload {folder}/*")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version")
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    if told := problems(arguments.version):
        raise SystemExit("not released:\n" + "\n".join(f"- {line}" for line in told))
    release(arguments.version, arguments.folder)


if __name__ == "__main__":
    main()
