"""Optional libraries: the table, and what is said where one is missing."""

import re
import sys
import warnings
from pathlib import Path

import pytest

from attcr import extras
from attcr.errors import AttcrWarning, MissingExtraError, warn

tomllib = pytest.importorskip("tomllib", reason="Python 3.11 reads TOML")
PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]


def brought(extra: str) -> set[str]:
    """The distributions that installing an extra brings, by pyproject.toml."""
    told: set[str] = set()
    for line in PROJECT["optional-dependencies"][extra]:
        own = re.fullmatch(r"attcr\[(.*)\]", line)
        told |= set().union(*(brought(one) for one in own[1].split(","))) if own else {re.split(r"[\[<>=;]", line)[0]}
    return {name.lower().replace("_", "-") for name in told}


@pytest.mark.parametrize("extra", extras.EXTRAS)
def test_the_table_says_what_pyproject_installs(extra: str) -> None:
    known = {"titiler": "titiler.core", "traitlets": "anywidget"}  # imported by another name, or brought along
    for library in extras.EXTRAS[extra]:
        name = extras.DISTRIBUTIONS.get(library, known.get(library, library)).lower().replace("_", "-")
        assert name in brought(extra), f"{library} does not come with attcr[{extra}]"
    for other in extras.WITHIN.get(extra, ()):
        assert brought(other) <= brought(extra)


def test_a_missing_library_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("scipy", "scipy.ndimage"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match=r"^scipy is needed .* pip install 'attcr\[scenes\]'$"):
        extras.need("scipy.ndimage")
    assert str(extras.missing("skimage.metrics")).startswith("scikit-image is needed")
    assert extras.missing("numpy") is None


def test_an_import_that_fails_for_another_reason_is_told_as_it_is() -> None:
    with pytest.raises(ImportError, match="broken") as told, extras.needed():
        raise ImportError("broken", name="numpy")
    assert not isinstance(told.value, MissingExtraError)


@pytest.mark.parametrize(("absent", "extra"), [("obstore", "serve"), ("rasterio", "fleet"), ("ray", "ray")])
def test_what_needs_a_whole_extra_names_that_one(monkeypatch: pytest.MonkeyPatch, absent: str, extra: str) -> None:
    monkeypatch.setattr(extras, "has", lambda name: name != absent)
    with pytest.raises(MissingExtraError, match=rf"^{absent} is .*attcr\[{extra}\]'"):
        extras.need_extra(extra)


def test_a_warning_stands_at_the_line_that_called_attcr() -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        warn("look")
    assert [(one.category, str(one.message), one.filename) for one in told] == [(AttcrWarning, "look", __file__)]
