"""Write the page about the last nightly, and read it.

    python tools/nightly.py COMMIT RESULTS   RESULTS: a line a part, as .ci/nightly writes it

It ends with 1 where a part failed.
"""

import argparse
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = Path("docs/engineering/nightly.md")
PROGRAMS = {"S3 server": "radosgw", "browser": "chromium", "QGIS": "qgis_process.bin", "AArch64": "qemu-aarch64"}
"""What some tests need, and the program that it is known by."""
INTRODUCTION = """\
# Nightly

`bash .ci/nightly` runs everything in full counts, in a fresh environment: all tests with the slow ones, ten times the
attacks of the gate, S3, Ray, Triton, browser, QGIS, notebooks, and all mutants. The gate (`bash .ci/run`) takes a tenth
of it, which the commit decides. A release needs a green nightly of its commit.
"""


@dataclass(frozen=True)
class Part:
    """One command of a nightly."""

    name: str
    passed: bool
    seconds: int
    last_line: str


def parts_of(results: str) -> list[Part]:
    """Read what .ci/nightly wrote: name, result, seconds and last line, with tabs between."""
    rows = (line.split("\t") for line in results.splitlines())
    return [Part(name, result == "passed", int(seconds), told) for name, result, seconds, told in rows]


def page(commit: str, parts: Sequence[Part], missing: Sequence[str], when: datetime) -> str:
    """Give the page about a nightly."""
    lines = [
        INTRODUCTION,
        f"- commit: `{commit}`",
        f"- date: {when:%Y-%m-%d %H:%M} UTC",
        f"- result: {'green' if is_green(parts) else 'red'}",
        f"- not tested, since it is not on that machine: {', '.join(missing) or 'nothing'}",
        "",
        "| part | result | minutes | last line |",
        "|---|---|---|---|",
    ]
    for part in parts:
        told = re.sub(r"\x1b\[[0-9;]*m", "", part.last_line).replace("|", "/").strip(" =")
        lines.append(f"| {part.name} | {'passed' if part.passed else 'failed'} | {part.seconds / 60:.1f} | {told} |")
    return "\n".join(lines) + "\n"


def is_green(parts: Sequence[Part]) -> bool:
    """Say whether there were parts and all of them passed."""
    return bool(parts) and all(part.passed for part in parts)


def problem(root: Path = ROOT) -> str | None:
    """Say why the commit that is checked out has no green nightly; what changed since then may be the page alone."""
    if not (root / PAGE).is_file():
        return f"there is no {PAGE}: run .ci/nightly"
    text = (root / PAGE).read_text()
    commit, result = (re.search(rf"(?m)^- {name}: `?(\w+)`?$", text) for name in ("commit", "result"))
    if commit is None or result is None:
        return f"{PAGE} tells of no nightly: run .ci/nightly"
    if result[1] != "green":
        return f"the nightly of {commit[1]} is {result[1]}"
    command = ["git", "diff", "--name-only", commit[1], "HEAD"]
    changed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if changed.returncode or set(changed.stdout.split()) - {str(PAGE)}:
        return f"the last green nightly is of {commit[1]}, not of this commit: run .ci/nightly"
    return None


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit")
    parser.add_argument("results", type=Path)
    given = parser.parse_args(arguments)
    parts = parts_of(given.results.read_text())
    missing = [name for name, program in PROGRAMS.items() if shutil.which(program) is None]
    text = page(given.commit, parts, missing, datetime.now(timezone.utc))
    (ROOT / PAGE).write_text(text)
    print(text)
    return 0 if is_green(parts) else 1


if __name__ == "__main__":
    raise SystemExit(main())
