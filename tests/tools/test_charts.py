"""The charts of docs/figures show what the tables of docs/results say."""

import re
from pathlib import Path
from typing import Any

import pytest
from tools.figures import charts

ROOT = Path(__file__).parents[2]
README_SCORE = re.compile(r"`rice2-small`.*?\*\*([\d.]+)\*\* \[")


def drawn(monkeypatch: pytest.MonkeyPatch, draw: Any) -> Any:
    """Give the figure that a function draws, not saved."""
    figures: list[Any] = []
    monkeypatch.setattr(charts, "save", lambda figure, path: figures.append(figure))
    draw(Path())
    (figure,) = figures
    return figure


def test_the_cost_chart_has_the_score_of_the_readme(monkeypatch: pytest.MonkeyPatch) -> None:
    (axes,) = drawn(monkeypatch, charts.score_against_cost).axes
    scores = [float(line.get_ydata()[0]) for line in axes.lines]
    assert scores[: len(charts.PAPER)] == [psnr for _, psnr in charts.PAPER.values()]
    (readme,) = README_SCORE.findall((ROOT / "README.md").read_text())
    assert scores[len(charts.PAPER)] == float(readme)


def test_the_cover_chart_has_the_model_cards_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    for axes, name in zip(drawn(monkeypatch, charts.psnr_against_cover).axes, ("rice2-small", "rgb-thin"), strict=True):
        card = (ROOT / "docs/reference/models" / f"{name}.md").read_text()
        rows = re.findall(
            r"(?m)^\| [\w %]+ \| \d+ \| ([\d.]+) \| ([\d.]+) \|$", card[card.index("PSNR by cloud cover") :]
        )
        heights = [[bar.get_height() for bar in bars] for bars in axes.containers]
        assert heights == [list(column) for column in zip(*(map(float, row) for row in rows[:5]), strict=True)]


@pytest.mark.parametrize("draw", charts.DRAWN)
def test_the_charts_in_the_documentation_are_the_ones_drawn_now(draw: Any, tmp_path: Path) -> None:
    draw(tmp_path)
    (made,) = tmp_path.iterdir()
    kept = ROOT / "docs/figures" / made.name
    numbers = [
        [float(number) for number in re.findall(r"(?:[MLxy] ?=?\"?|\s)(-?\d+\.?\d*)", path.read_text())]
        for path in (made, kept)
    ]
    assert numbers[0]
    assert numbers[0] == pytest.approx(numbers[1], abs=0.01)
