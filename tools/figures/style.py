"""What all figures share: colours that are readable on light and on dark pages, boxes, arrows, one way to save."""

import io
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

TEXT = "#7a828e"
"""Of text and lines: enough contrast on white and on the dark page."""
SCHEMES = {"light": "#5f6773", "dark": "#b3bbc7"}
"""Of the same in an SVG, where the page says which scheme it has: more contrast."""
BLUE, GREEN, ORANGE, RED, VIOLET, GREY = "#3f6fb5", "#2f8f6b", "#c4742b", "#bf4a4a", "#7d5bb5", "#6b7480"

matplotlib.rcParams.update(
    {
        "svg.fonttype": "none", "svg.hashsalt": "attcr", "font.family": "sans-serif", "font.size": 10,
        "text.color": TEXT, "axes.labelcolor": TEXT, "axes.edgecolor": TEXT, "xtick.color": TEXT, "ytick.color": TEXT,
        "axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False, "legend.labelcolor": TEXT,
        "grid.color": TEXT, "grid.alpha": 0.25,
    }
)  # fmt: skip


def canvas(width: float, height: float) -> tuple[Figure, Axes]:
    """An empty drawing of so many inches, with a unit for each."""
    figure = Figure((width, height))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(0, height))
    axes.axis("off")
    return figure, axes


def box(axes: Axes, at: tuple[float, float], size: tuple[float, float], text: str, colour: str = BLUE) -> None:
    """A filled box with its lower left corner at `at`, and white text in it."""
    shape = FancyBboxPatch(at, *size, boxstyle="round,pad=0,rounding_size=0.08", facecolor=colour, edgecolor="none")
    axes.add_patch(shape)
    middle = (at[0] + size[0] / 2, at[1] + size[1] / 2)
    axes.text(*middle, text, color="white", ha="center", va="center", fontsize=9, linespacing=1.35)


def arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], **more: Any) -> None:
    """An arrow from start to end."""
    style: dict[str, Any] = {
        "arrowstyle": "-|>",
        "mutation_scale": 11,
        "color": TEXT,
        "linewidth": 1.3,
        "shrinkA": 2,
        "shrinkB": 2,
    }
    axes.add_patch(FancyArrowPatch(start, end, **(style | more)))


def save(figure: Figure, target: Path) -> None:
    """Write a figure; the same numbers give the same bytes."""
    if target.suffix == ".svg":
        text = io.StringIO()
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
        target.write_text(with_schemes(text.getvalue()))
    else:
        figure.savefig(target, transparent=True, dpi=100, pil_kwargs={"quality": 85, "method": 6})


def with_schemes(svg: str) -> str:
    """Give an SVG whose text and lines follow the light or dark scheme of the page that shows it."""
    rules = [
        f"@media (prefers-color-scheme: {scheme}) {{"
        + "".join(f'[style*="{part}: {TEXT}"] {{{part}: {colour} !important}}' for part in ("fill", "stroke"))
        + "}"
        for scheme, colour in SCHEMES.items()
    ]
    return svg.replace("</style>", "\n".join(["", *rules]) + "</style>", 1)
