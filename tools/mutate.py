"""Make one small mistake after the other in a copy of the sources, and see which of them the tests notice.

    python tools/mutate.py                      all mutants; about 4 s each on one core
    python tools/mutate.py --only ops spec.py   those of a folder and a file; or single ones, by their ids
    python tools/mutate.py --list               what there is
    python tools/mutate.py --check              only see that each still fits the sources
    python tools/mutate.py --jobs 2 --json OUT  two at a time, the results as JSON too
    python tools/mutate.py --tenth COMMIT       a tenth of them, another one for each commit
    python tools/mutate.py --file F             those of a file: Python whose M lists (file, old, new, tests)

The mutants are in `mutants/` beside this file, one file a room. The work tree is never touched. It ends with 0 where
at least LEAST percent were killed and none was broken.
"""

import argparse
import json
import math
import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue

from mutants import MUTANTS
from mutants.mutant import Mutant

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("src", "tests", "tools", "docs", "benchmarks", "deploy", "plugins")
COPIED = (*FOLDERS, "pyproject.toml", "README.md", "CHANGELOG.md")
"""What tests read; the rest of the repository stays out of the copy."""
LEAST = 95
"""Percent of the mutants that must be killed."""
ALL_PASS, ONE_FAILS = 0, 1
"""What pytest ends with."""


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant."""

    mutant: Mutant
    status: str
    """killed (a test failed, or it ran out of time), survived, or broken (no test ran, so nothing is known)."""
    by: str
    """The first test that failed, or the reason why none ran."""
    seconds: float


def check(mutants: Sequence[Mutant], root: Path = ROOT) -> list[str]:
    """Say what is wrong with the list itself: mutants that no longer fit the sources, and tests that are gone."""
    wrong = [f"{name}: {count} mutants bear this id" for name, count in _counts(mutants) if count > 1]
    for mutant in mutants:
        source = root / "src" / "attcr" / mutant.file
        if not source.is_file():
            wrong.append(f"{mutant.id}: there is no src/attcr/{mutant.file}")
            continue
        text = source.read_text()
        if (found := text.count(mutant.old)) != 1:
            wrong.append(f"{mutant.id}: {mutant.old!r} is {found} times in {mutant.file}; once is expected")
        elif mutant.old == mutant.new or "\n" in mutant.old + mutant.new:
            wrong.append(f"{mutant.id}: it must change something, in one line")
        elif error := _syntax_error(text.replace(mutant.old, mutant.new)):
            wrong.append(f"{mutant.id}: what it makes is not Python: {error}")
        for test in mutant.tests:
            file, *names = test.split("::")
            if not (root / file).exists():
                wrong.append(f"{mutant.id}: there is no {file}")
            elif names and f"def {names[-1].partition('[')[0]}(" not in (root / file).read_text():
                wrong.append(f"{mutant.id}: there is no {names[-1]} in {file}")
        if not mutant.tests:
            wrong.append(f"{mutant.id}: it names no tests")
    return wrong


def _counts(mutants: Sequence[Mutant]) -> list[tuple[str, int]]:
    return list(Counter(mutant.id for mutant in mutants).items())


def _syntax_error(text: str) -> str:
    try:
        compile(text, "mutant", "exec")
    except SyntaxError as error:
        return str(error)
    return ""


@contextmanager
def copies(root: Path, count: int) -> Iterator["SimpleQueue[Path]"]:
    """Give that many copies of the repository to work on; they are gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="attcr-mutate-") as folder:
        queue: SimpleQueue[Path] = SimpleQueue()
        for number in range(count):
            copy = Path(folder, str(number))
            copy.mkdir()
            for name in COPIED:
                if (root / name).is_dir():
                    shutil.copytree(root / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
                elif (root / name).is_file():
                    shutil.copy(root / name, copy / name)
            queue.put(copy)
        yield queue


def run_tests(copy: Path, tests: Sequence[str], limit: float | None, shared: Path) -> tuple[int | None, str]:
    """Run these tests of a copy against its own sources; give pytest's exit code (None: out of time) and its output."""
    env = {
        **{name: value for name, value in os.environ.items() if name != "ATTCR_TENTH"},  # the tests named run, all
        "PYTHONPATH": str(copy / "src"),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # the tests need none, and loading them takes longer than most tests
        "PYTHONDONTWRITEBYTECODE": "1",  # two mutants of one size in one second would share their bytecode
        "ATTCR_SHARED": os.environ.get("ATTCR_SHARED", str(shared)),
    }
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--tb=line", *tests]
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            command, cwd=copy, env=env, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        code: int | None
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            _end_group(process)
        output.seek(0)
        return code, output.read()


def _end_group(process: "subprocess.Popen[bytes]") -> None:
    """End a run and whatever its tests started; both may be gone already."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()


def try_mutant(mutant: Mutant, copy: Path, limit: float, shared: Path) -> Outcome:
    """Change a copy, run the tests named for the mutant, and change it back."""
    source = copy / "src" / "attcr" / mutant.file
    text = source.read_text()
    began = time.monotonic()
    try:
        source.write_text(text.replace(mutant.old, mutant.new))
        code, output = run_tests(copy, mutant.tests, limit, shared)
    finally:
        source.write_text(text)
    seconds = round(time.monotonic() - began, 1)
    if code is None:
        return Outcome(mutant, "killed", f"out of time after {limit:g} s", seconds)
    if code == ALL_PASS:
        return Outcome(mutant, "survived", "", seconds)
    if code == ONE_FAILS:
        return Outcome(mutant, "killed", _first(r"^FAILED (\S+)", output) or _first(r"^ERROR (\S+)", output), seconds)
    return Outcome(mutant, "broken", _first(r"^(?:E  |ERROR).*", output) or f"pytest ended with {code}", seconds)


def _first(pattern: str, text: str) -> str:
    found = re.search(pattern, text, re.MULTILINE)
    return found.group(found.lastindex or 0).strip() if found else ""


def seconds_without(mutants: Sequence[Mutant], copy: Path, shared: Path) -> float:
    """Give how long all the tests named take without any change; end where one fails, since no kill counts then."""
    where = [sys.executable, "-c", "import attcr; print(attcr.__file__)"]
    env = {**os.environ, "PYTHONPATH": str(copy / "src")}
    loaded = subprocess.run(where, cwd=copy, env=env, capture_output=True, text=True, check=True).stdout.strip()
    if not Path(loaded).is_relative_to(copy):
        raise SystemExit(f"The tests would run against {loaded}, not against the copy in {copy}.")
    began = time.monotonic()
    code, output = run_tests(copy, list(dict.fromkeys(test for m in mutants for test in m.tests)), None, shared)
    if code != ALL_PASS:
        raise SystemExit(f"{output}\nThe tests fail without any mutant: mend them first.")
    return time.monotonic() - began


def run(
    mutants: Sequence[Mutant],
    *,
    root: Path = ROOT,
    jobs: int = 1,
    limit: float = 300,
    baseline: bool = True,
    most: float = math.inf,
) -> Iterator[Outcome]:
    """Give what became of each mutant, in their order; `limit` grows to twice what all tests take on a slow machine.

    Without `baseline` the tests are known to pass and are not run without a mutant. After `most` seconds no further
    mutant is tried.
    """
    end = time.monotonic() + most
    shared = root.parent / "shared"
    with copies(root, jobs) as free, ThreadPoolExecutor(jobs) as pool:
        if baseline:
            copy = free.get()
            limit = max(limit, 2 * jobs * seconds_without(mutants, copy, shared))
            free.put(copy)

        def one(mutant: Mutant) -> Outcome | None:
            if time.monotonic() > end:
                return None
            copy = free.get()
            try:
                return try_mutant(mutant, copy, limit, shared)
            finally:
                free.put(copy)

        yield from filter(None, pool.map(one, mutants))


def choose(mutants: Sequence[Mutant], only: Sequence[str]) -> list[Mutant]:
    """Give the mutants of files or folders below src/attcr, or those of these ids; all where none is named."""
    paths = {name.removeprefix("src/attcr/").rstrip("/") for name in only}
    return [
        mutant
        for mutant in mutants
        if not only or mutant.id in only or {mutant.file, *map(str, Path(mutant.file).parents)} & paths
    ]


def read(file: Path) -> list[Mutant]:
    """Give the mutants of a file elsewhere: Python whose M lists (file, old, new, tests)."""
    rows = runpy.run_path(str(file))["M"]
    return [Mutant(f"{row[0].removesuffix('.py')}:{number}", *row) for number, row in enumerate(rows, 1)]


def summary(outcomes: Sequence[Outcome]) -> str:
    """Give the figures, and those that were not killed."""
    counts = Counter(outcome.status for outcome in outcomes)
    known = counts["killed"] + counts["survived"]
    lines = [
        f"{counts['killed']} of {known} killed ({percent(outcomes):.1f} %), {counts['survived']} survived, "
        f"{counts['broken']} broken, {sum(outcome.seconds for outcome in outcomes) / 60:.1f} minutes"
    ]
    for outcome in outcomes:
        if outcome.status != "killed":
            mutant = outcome.mutant
            lines.append(f"{outcome.status}: {mutant.id}\n    {mutant.old}\n    {mutant.new}  {outcome.by}")
    return "\n".join(lines)


def percent(outcomes: Sequence[Outcome]) -> float:
    """Give the percentage killed of those that were tried."""
    tried = [outcome for outcome in outcomes if outcome.status != "broken"]
    return 100 * sum(outcome.status == "killed" for outcome in tried) / max(len(tried), 1)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", metavar="PATH_OR_ID", nargs="+", default=[], help="files or folders below src/attcr, or ids"
    )
    parser.add_argument("--file", type=Path, help="try the mutants of this file; those that do not fit are left out")
    parser.add_argument("--tenth", metavar="COMMIT", help="try one of ten, the first by the commit's name")
    parser.add_argument("--no-baseline", action="store_true", help="do not run the tests without a mutant first")
    parser.add_argument("--jobs", type=int, default=1, help="mutants tried at a time")
    parser.add_argument("--limit", type=float, default=300, help="seconds for the tests of one mutant, at least")
    parser.add_argument("--minutes", type=float, default=math.inf, help="start no further mutant after so many")
    parser.add_argument("--list", action="store_true", help="print the mutants and end")
    parser.add_argument("--check", action="store_true", help="see that each fits the sources and end")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the results there too")
    given = parser.parse_args(arguments)
    chosen = choose(read(given.file) if given.file else MUTANTS, given.only)
    if given.tenth:
        chosen = chosen[int(given.tenth[:8], 16) % 10 :: 10]
    if not chosen:
        print(f"{' '.join(given.only)}: no mutant has this id or is of this file; see --list", file=sys.stderr)
        return 2
    if given.list:
        for mutant in chosen:
            print(f"{mutant.id}\n    - {mutant.old}\n    + {mutant.new}")
        return 0
    if wrong := check(chosen):
        print("\n".join(wrong), file=sys.stderr)
        if not given.file:
            return 2
        chosen = [mutant for mutant in chosen if not check([mutant])]
    if given.check:
        print(f"{len(chosen)} mutants fit the sources")
        return 0
    outcomes = []
    how = {"jobs": given.jobs, "limit": given.limit, "baseline": not given.no_baseline, "most": given.minutes * 60}
    for outcome in run(chosen, **how):
        outcomes.append(outcome)
        print(f"{outcome.status:8} {outcome.seconds:6.1f} s  {outcome.mutant.id}  {outcome.by}", flush=True)
    print(summary(outcomes))
    if len(outcomes) < len(chosen):
        print(f"{len(chosen) - len(outcomes)} were not tried within {given.minutes:g} minutes")
    if given.json:
        given.json.write_text(json.dumps([asdict(outcome) for outcome in outcomes], indent=1) + "\n")
    return 0 if percent(outcomes) >= LEAST and all(outcome.status != "broken" for outcome in outcomes) else 1


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the copies are taken away as after Ctrl-C
    sys.exit(main())
