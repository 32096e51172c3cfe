"""The charts of docs/figures show what the tables of docs/results say."""

import importlib
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
README_SCORE = re.compile(r"`rice2-small`.*?\*\*([\d.]+)\*\* \[")


@pytest.fixture
def charts(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("tools.figures.charts")


def drawn(monkeypatch: pytest.MonkeyPatch, charts: ModuleType, draw: Any) -> Any:
    """Give the figure that a function draws, not saved."""
    figures: list[Any] = []
    monkeypatch.setattr(charts, "save", lambda figure, path: figures.append(figure))
    draw(Path())
    (figure,) = figures
    return figure


def test_the_cost_chart_has_the_score_of_the_readme(monkeypatch: pytest.MonkeyPatch, charts: ModuleType) -> None:
    (axes,) = drawn(monkeypatch, charts, charts.score_against_cost).axes
    scores = [float(line.get_ydata()[0]) for line in axes.lines]
    assert scores[: len(charts.PAPER)] == [psnr for _, psnr in charts.PAPER.values()]
    (readme,) = README_SCORE.findall((ROOT / "README.md").read_text())
    assert scores[len(charts.PAPER)] == float(readme)


def test_the_cover_chart_has_the_model_cards_scores(monkeypatch: pytest.MonkeyPatch, charts: ModuleType) -> None:
    panels = drawn(monkeypatch, charts, charts.psnr_against_cover).axes
    for axes, name in zip(panels, ("rice2-small", "rgb-thin"), strict=True):
        card = (ROOT / "docs/reference/models" / f"{name}.md").read_text()
        rows = re.findall(
            r"(?m)^\| [\w %]+ \| \d+ \| ([\d.]+) \| ([\d.]+) \|$", card[card.index("PSNR by cloud cover") :]
        )
        heights = [[bar.get_height() for bar in bars] for bars in axes.containers]
        assert heights == [list(column) for column in zip(*(map(float, row) for row in rows[:5]), strict=True)]


def test_the_charts_in_the_documentation_are_the_ones_drawn_now(charts: ModuleType, tmp_path: Path) -> None:
    for draw in charts.DRAWN:
        draw(tmp_path)
    made = list(tmp_path.iterdir())
    assert len(made) == len(charts.DRAWN)
    for path in made:
        now, kept = numbers(path), numbers(ROOT / "docs/figures" / path.name)
        assert now
        assert now == pytest.approx(kept, abs=0.01)


def numbers(drawing: Path) -> list[float]:
    return [float(number) for number in re.findall(r"(?:[MLxy] ?=?\"?|\s)(-?\d+\.?\d*)", drawing.read_text())]
