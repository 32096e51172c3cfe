"""The page about a nightly says what passed, and is green where all did."""

import importlib
from datetime import datetime, timezone
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
COMMIT = "0123456789abcdef0123456789abcdef01234567"
RESULTS = "types\tpassed\t61\tSuccess: no issues\ntests\tfailed\t3600\t1 failed, 2000 passed | 3 skipped\n"


@pytest.fixture
def nightly(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "tools")
    return importlib.import_module("nightly")


def test_the_page_tells_commit_date_result_and_parts(nightly: ModuleType) -> None:
    when = datetime(2026, 11, 18, 2, 5, tzinfo=timezone.utc)
    text = nightly.page(COMMIT, nightly.parts_of(RESULTS), ["QGIS"], when)
    assert f"- commit: `{COMMIT}`\n- date: 2026-11-18 02:05 UTC\n- result: red\n" in text
    assert "- not tested, since it is not on that machine: QGIS\n" in text
    assert "| types | passed | 1.0 | Success: no issues |\n" in text
    assert "| tests | failed | 60.0 | 1 failed, 2000 passed / 3 skipped |\n" in text


def test_a_nightly_is_green_where_every_part_passed(nightly: ModuleType) -> None:
    assert nightly.is_green(nightly.parts_of(RESULTS.replace("failed", "passed")))
    assert not nightly.is_green(nightly.parts_of(RESULTS))
    assert not nightly.is_green([])


def test_a_red_nightly_ends_with_1_and_is_written(
    nightly: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nightly, "ROOT", tmp_path)
    (tmp_path / nightly.PAGE).parent.mkdir(parents=True)
    for result, code in (("passed", 0), ("failed", 1)):
        (tmp_path / "results").write_text(f"tests\t{result}\t1\tends\n")
        assert nightly.main([COMMIT, str(tmp_path / "results")]) == code
        assert ("- result: green" in (tmp_path / nightly.PAGE).read_text()) == (code == 0)


def test_the_page_of_this_repository_can_be_read(nightly: ModuleType) -> None:
    assert (ROOT / nightly.PAGE).read_text().startswith(nightly.INTRODUCTION)
