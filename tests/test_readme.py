"""What the first page says is what the pages of results say; its blocks run in tests/docs."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
ROWS = re.findall(r"(?m)^\| \[[^]]+\]\((docs/results/\w+\.md)\) (\|.*)$", README)


def test_the_figures_are_those_of_the_page_that_is_linked_beside_them() -> None:
    assert len(ROWS) >= 4
    for page, row in ROWS:
        there = {f"{float(number):.3f}" for number in re.findall(r"0\.\d{3,}", (ROOT / page).read_text())}
        told = set(re.findall(r"0\.\d+", row))
        assert len(told) >= 2
        assert told <= there, f"{page} has no {told - there}: bring the row of README.md up to date"


def test_the_first_page_is_short() -> None:
    assert len(README.split()) <= 640
