"""The charts of docs/figures show what the tables of docs/results say."""

import importlib
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from attcr.weights import published

ROOT = Path(__file__).parents[2]


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


def test_the_cost_chart_has_the_published_score(monkeypatch: pytest.MonkeyPatch, charts: ModuleType) -> None:
    (axes,) = drawn(monkeypatch, charts, charts.score_against_cost).axes
    scores = [float(line.get_ydata()[0]) for line in axes.lines]
    assert scores[: len(charts.PAPER)] == [psnr for _, psnr in charts.PAPER.values()]
    (score,) = published()["rice2-small"].scores
    assert scores[len(charts.PAPER)] == pytest.approx(score.value, abs=0.005)


def test_the_cover_chart_has_the_scores_of_the_pages(monkeypatch: pytest.MonkeyPatch, charts: ModuleType) -> None:
    panels = drawn(monkeypatch, charts, charts.psnr_against_cover).axes
    for axes, name in zip(panels, ("rice2-small", "rgb-thin"), strict=True):
        page = (ROOT / "docs" / "results" / f"{name}.md").read_text()
        rows = re.findall(
            r"(?m)^\| [\w %]+ \| \d+ \| ([\d.]+) \| ([\d.]+) \| [\d.]+ \|$",
            page[page.index("PSNR (dB) by cloud cover") :],
        )
        heights = [[bar.get_height() for bar in bars] for bars in axes.containers]
        assert heights == [list(column) for column in zip(*(map(float, row[::-1]) for row in rows[:5]), strict=True)]


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
