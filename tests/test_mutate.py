"""The tool that plants mistakes tells those that the tests notice from those that they do not."""

import importlib
import json
import time
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def mutate(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return importlib.import_module("mutate")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository whose one function adds and whose one test sees it."""
    (tmp_path / "src" / "attcr").mkdir(parents=True)
    (tmp_path / "src" / "attcr" / "__init__.py").touch()
    (tmp_path / "src" / "attcr" / "sums.py").write_text(
        "def add(a, b):\n    return a + b\n\n\ndef wait(n):\n    while n > 0:\n        n -= 1\n\n\nSPARE = 1\n"
    )
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_sums.py").write_text(
        "from attcr.sums import add, wait\n\n\ndef test_sum():\n    wait(2)\n    assert add(2, 3) == 5\n"
    )
    return tmp_path


def test_every_mutant_fits_the_sources_and_names_tests_that_are_there(mutate: ModuleType) -> None:
    assert mutate.check(mutate.MUTANTS) == []


def test_a_mutant_is_killed_survives_or_is_broken_and_the_tree_stays_as_it_was(mutate: ModuleType, tree: Path) -> None:
    before = {path: path.read_bytes() for path in sorted(tree.rglob("*")) if path.is_file()}
    mutants = [
        mutate.Mutant("minus", "sums.py", "a + b", "a - b", ("tests/test_sums.py",)),
        mutate.Mutant("spare", "sums.py", "SPARE = 1", "SPARE = 2", ("tests/test_sums.py::test_sum",)),
        mutate.Mutant("broken", "sums.py", "SPARE = 1", "SPARE = one", ("tests/test_sums.py",)),
    ]
    assert mutate.check(mutants, tree) == []
    outcomes = list(mutate.run(mutants, root=tree, jobs=2))
    assert [(one.mutant.id, one.status) for one in outcomes] == [
        ("minus", "killed"), ("spare", "survived"), ("broken", "broken"),
    ]  # fmt: skip
    assert outcomes[0].by == "tests/test_sums.py::test_sum"
    assert mutate.percent(outcomes) == 50
    assert "1 of 2 killed (50.0 %), 1 survived, 1 broken" in mutate.summary(outcomes)
    assert {path: path.read_bytes() for path in sorted(tree.rglob("*")) if path.is_file()} == before


def test_a_mutant_that_runs_on_for_ever_is_killed_by_the_clock(mutate: ModuleType, tree: Path) -> None:
    mutant = mutate.Mutant("forever", "sums.py", "n -= 1", "n -= 0", ("tests/test_sums.py",))
    outcome = mutate.try_mutant(mutant, tree, 3, tree)
    assert (outcome.status, outcome.by) == ("killed", "out of time after 3 s")
    assert "n -= 1" in (tree / "src" / "attcr" / "sums.py").read_text()


def test_after_its_minutes_no_further_mutant_is_tried(
    mutate: ModuleType, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant = mutate.Mutant("minus", "sums.py", "a + b", "a - b", ("tests/test_sums.py",))
    monkeypatch.setattr(mutate, "try_mutant", lambda *_: time.sleep(2.5) or mutate.Outcome(mutant, "killed", "", 2.5))
    assert len(list(mutate.run([mutant] * 3, root=tree, baseline=False, most=2))) == 1


def test_no_kill_counts_where_the_tests_fail_already(mutate: ModuleType, tree: Path) -> None:
    (tree / "tests" / "test_sums.py").write_text("def test_sum():\n    assert False\n")
    mutant = mutate.Mutant("minus", "sums.py", "a + b", "a - b", ("tests/test_sums.py",))
    with pytest.raises(SystemExit, match="fail without any mutant"):
        list(mutate.run([mutant], root=tree))


@pytest.mark.parametrize(
    ("old", "new", "test", "message"),
    [
        ("a * b", "a - b", "tests/test_sums.py", "0 times in sums.py"),
        ("n", "m", "tests/test_sums.py", "times in sums.py"),
        ("a + b", "a + b", "tests/test_sums.py", "must change something"),
        ("a + b", "a +", "tests/test_sums.py", "not Python"),
        ("a + b", "a - b", "tests/test_other.py", "no tests/test_other.py"),
        ("a + b", "a - b", "tests/test_sums.py::test_other", "no test_other in"),
    ],
)
def test_a_mutant_that_does_not_fit_is_told(
    mutate: ModuleType, tree: Path, old: str, new: str, test: str, message: str
) -> None:
    (wrong,) = mutate.check([mutate.Mutant("it", "sums.py", old, new, (test,))], tree)
    assert message in wrong


def test_mutants_are_chosen_by_id_file_or_folder(mutate: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    one = mutate.MUTANTS[0]
    assert mutate.choose(mutate.MUTANTS, [one.id]) == [one]
    of_file = mutate.choose(mutate.MUTANTS, [f"src/attcr/{one.file}"])
    assert of_file == [mutant for mutant in mutate.MUTANTS if mutant.file == one.file]
    assert {mutant.file.split("/")[0] for mutant in mutate.choose(mutate.MUTANTS, ["ops/"])} == {"ops"}
    assert mutate.choose(mutate.MUTANTS, []) == list(mutate.MUTANTS)
    assert mutate.main(["--list", "--only", one.id]) == 0
    assert capsys.readouterr().out == f"{one.id}\n    - {one.old}\n    + {one.new}\n"
    assert mutate.main(["--check", "--only", "nothing.py"]) == 2


def test_mutants_of_another_file_are_tried_and_those_that_do_not_fit_are_named(
    mutate: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one = mutate.MUTANTS[0]
    rows = [(one.file, one.old, one.new, one.tests), (one.file, "text that is nowhere", "", one.tests)]
    (tmp_path / "more.py").write_text(f"M = {rows!r}\n")
    tried: list[str] = []
    monkeypatch.setattr(mutate, "run", lambda mutants, **_: (tried.extend(m.old for m in mutants), iter([]))[1])
    mutate.main(["--file", str(tmp_path / "more.py")])
    assert tried == [one.old]
    assert "'text that is nowhere' is 0 times" in capsys.readouterr().err


def test_ten_commits_try_each_mutant_once(mutate: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[str] = []
    for digit in "0123456789":
        assert mutate.main(["--list", "--tenth", f"0000000{digit}ffff"]) == 0
        seen += capsys.readouterr().out.splitlines()[::3]
    assert sorted(seen) == sorted(mutant.id for mutant in mutate.MUTANTS)


def test_results_are_written_as_json(mutate: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = mutate.MUTANTS[0]
    outcome = mutate.Outcome(one, "survived", "", 1.5)
    monkeypatch.setattr(mutate, "run", lambda *_, **__: iter([outcome]))
    assert mutate.main(["--only", one.id, "--json", str(tmp_path / "out.json")]) == 1
    (told,) = json.loads((tmp_path / "out.json").read_text())
    assert (told["mutant"]["id"], told["status"]) == (one.id, "survived")
