"""What pages hold beside their blocks: commands of results, pictures, the names of the Python reference."""

import re
from pathlib import Path

import pytest

import attcr

DOCS = Path(__file__).parents[2] / "docs"
PICTURES = sorted((DOCS / "figures").iterdir())
PAGES = "\n".join(path.read_text() for path in [DOCS.parent / "README.md", *DOCS.rglob("*.md")])


@pytest.mark.parametrize("page", sorted((DOCS / "results").glob("*.md")), ids=lambda page: page.name)
def test_a_page_of_results_names_the_command_that_made_it(page: Path) -> None:
    assert re.search(r"attcr (evaluate|bench) --|python -m tools\.", page.read_text())


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_a_picture_is_shown_on_a_page(picture: Path) -> None:
    assert f"figures/{picture.name})" in PAGES


def test_pictures_are_small() -> None:
    assert sum(picture.stat().st_size for picture in PICTURES) < 2_000_000


def test_the_python_reference_has_every_public_name() -> None:
    shown = re.findall(r"(?m)^::: attcr\.(\w+)$", (DOCS / "reference" / "api.md").read_text())
    assert set(shown) - {"errors"} == set(attcr.__all__) - {"__version__", "AttcrError"}  # errors has its own part
