"""The documentation stays short, and what only engineers need stays in Engineering."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
KEPT = {"dependencies.md", "log.md", "mutants.md", "scenes.md"}
"""Pages that stay in the repository and are not on the site."""
PAGES = [DOCS.parent / "README.md", *(page for page in sorted(DOCS.rglob("*.md")) if page.name not in KEPT)]
MOST = 32_000
"""Words of the site and the README, without the signs that draw tables."""
ENGINEERING = [page for page in PAGES if page.parent.name == "engineering"]
GUIDES = [page for page in PAGES if page.parent.name in ("guides", "start")]
INSIDE = {
    "a commit": r"\b(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)(?:[0-9a-f]{7}|[0-9a-f]{40})\b",
    "a day of a test run": r"(?i)measured on \d+ \w+ 20",
    "a load of the machine": r"\bload (?:of )?\d|under a load",
    "a private path": r"/(?:work|home|root)/|\.\./shared|DATA/shared",
}


def words(page: Path) -> int:
    """The words of a page as one would count them by eye."""
    return sum(bool(re.search(r"\w", word)) for word in page.read_text().split())


def test_all_pages_together_have_a_size() -> None:
    assert sum(map(words, PAGES)) <= MOST


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.name)
def test_a_guide_is_read_in_minutes(page: Path) -> None:
    assert len(page.read_text().split()) <= (400 if page.name == "concepts.md" else 800)


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.name)
def test_a_guide_has_at_most_one_picture_and_no_day_of_ours(page: Path) -> None:
    assert len(re.findall(r"!\[[^]]*\]\(", page.read_text())) <= 1
    assert not re.findall(r"20(?:2[6-9]|[3-9]\d)", page.read_text())  # it stands in Results


@pytest.mark.parametrize("page", [page for page in PAGES if page not in ENGINEERING], ids=lambda page: page.name)
def test_what_only_engineers_need_stays_in_engineering(page: Path) -> None:
    found = {what: re.findall(sign, page.read_text()) for what, sign in INSIDE.items()}
    assert not {what: told for what, told in found.items() if told}
