"""Score against cost, time against size, PSNR against cloud cover: from docs/results and the paper's table."""

import json
import re
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from .style import BLUE, GREEN, GREY, ORANGE, RED, TEXT, VIOLET, save

RESULTS = Path(__file__).parents[2] / "docs" / "results"
PAPER = {
    "ATT-CR": (53.03, 36.72), "CR-former-L": (155.0, 36.24), "Restormer": (155.0, 36.05), "CMNet": (236.0, 35.82),
    "ACA-CRNet": (1456.1, 35.65), "CVAE": (37.1, 33.62), "CR-Famba": (165.0, 31.90), "Trinity-Net": (17.6, 30.09),
    "pix2pix": (6.1, 29.45), "SpA-GAN": (15.2, 27.51),
}  # fmt: skip
"""G multiply-adds at 256 x 256 and PSNR on RICE2, by the paper's main table."""


def score_against_cost(folder: Path) -> None:
    """RICE2: PSNR under att-cr over multiply-adds, the paper's networks and ours."""
    sizes = {row["network"]: row for row in _speed() if row["size"] == 256}
    figure = Figure((7.2, 4.2), layout="constrained")
    axes = figure.subplots()
    for name, (cost, psnr) in PAPER.items():
        ours = name == "ATT-CR"
        axes.plot(cost, psnr, "o", color=BLUE if ours else GREY, markersize=8 if ours else 6)
        place = {"CR-former-L": (6, 4), "Restormer": (-58, -6)}.get(name, (6, -4))
        axes.annotate(
            f"{name} (paper)" if ours else name, (cost, psnr), place, textcoords="offset points", fontsize=8.5
        )
    small = sizes["rice2-small"]["multiply_adds_paper"] / 1e9
    score = float(re.findall(r"\*\*rice2-small\*\* \| ([\d.]+)", (RESULTS / "rice2-small.md").read_text())[0])
    axes.plot(small, score, "D", color=ORANGE, markersize=8)
    axes.annotate(
        "rice2-small (measured)", (small, score), (7, -9), textcoords="offset points", fontsize=9, color=ORANGE
    )
    spagan = float(re.findall(r"\| SpA-GAN, .*? \| [\d.]+ M \| ([\d.]+)", (RESULTS / "index.md").read_text())[0])
    axes.plot(sizes["spagan"]["multiply_adds_paper"] / 1e9, spagan, "D", color=ORANGE, markersize=6)
    axes.annotate("SpA-GAN (measured)", (sizes["spagan"]["multiply_adds_paper"] / 1e9, spagan), (7, -9),
                  textcoords="offset points", fontsize=8.5, color=ORANGE)  # fmt: skip
    axes.set(
        xscale="log", xlabel="G multiply-adds at 256 x 256, as the paper counts", ylabel="PSNR on RICE2 (dB, att-cr)"
    )
    axes.set_xlim(4, 4000)
    axes.grid(True)
    save(figure, folder / "score-cost.svg")


def _speed() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((RESULTS / "speed" / "sizes.json").read_text())["rows"]
    return rows


def speed_against_size(folder: Path) -> None:
    """Milliseconds of each network over the pixels along an image."""
    figure = Figure((7.2, 3.9), layout="constrained")
    axes = figure.subplots()
    rows = _speed()
    colours = {"rice2": BLUE, "rice2-small": ORANGE, "s2-thin": GREEN, "restormer": RED, "spagan": VIOLET}
    for name, colour in colours.items():
        points = sorted((row["size"], row["median_ms"]) for row in rows if row["network"] == name)
        axes.plot(*zip(*points, strict=True), "o-", color=colour, label=name)
    axes.set(xscale="log", yscale="log", xlabel="pixels along the image", ylabel="ms (median of 3, float32, 2 threads)")
    sizes = sorted({int(row["size"]) for row in rows})
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.minorticks_off()
    axes.grid(True)
    axes.legend()
    save(figure, folder / "speed.svg")


def psnr_against_cover(folder: Path) -> None:
    """PSNR before and after by cloud cover, of the two weights that were scored on pictures."""
    figure = Figure((8.2, 3.5), layout="constrained")
    for axes, name, title in zip(figure.subplots(1, 2, sharey=True), ("rice2-small", "rgb-thin"), ("RICE2", "RICE1"),
                                 strict=True):  # fmt: skip
        text = (RESULTS / f"{name}.md").read_text()
        table = text[text.index("PSNR (dB) by cloud cover") :]
        columns = re.findall(r"(?m)^\| cover \| images \| (.+) \|$", table)[0].split(" | ")
        rows = re.findall(r"(?m)^\| ([\w %]+?) \| (\d+) \| ([\d.].+) \|$", table)[:5]
        labels = [f"{cover}\n({images})" for cover, images, _ in rows]
        short = [label.replace(" and above", "+").replace("below ", "< ").replace(" to ", "-") for label in labels]
        places = range(len(rows))
        for shift, column, colour in ((-0.2, "input copied", GREY), (0.2, name, BLUE)):
            heights = [float(cells.split(" | ")[columns.index(column)]) for *_, cells in rows]
            axes.bar([at + shift for at in places], heights, 0.38, color=colour, label=column)
        axes.set_xticks(list(places), short, fontsize=8)
        axes.set_title(f"{title}: {name}", fontsize=10, color=TEXT)
        axes.set_xlabel("cloud cover (images)")
        axes.set_ylim(10, 42)
        axes.legend(loc="upper right", fontsize=8)
    figure.axes[0].set_ylabel("PSNR (dB, att-cr)")
    save(figure, folder / "psnr-cover.svg")


DRAWN = (score_against_cost, speed_against_size, psnr_against_cover)
