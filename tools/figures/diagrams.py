"""The network, the way of a pixel, the fleet, and which weights to take, as boxes and arrows."""

import itertools
from pathlib import Path

from matplotlib.axes import Axes

import attcr
from attcr.networks.attcr import STAGE_WIDTH

from .style import BLUE, GREEN, GREY, ORANGE, RED, TEXT, VIOLET, arrow, box, canvas, save


def architecture(folder: Path) -> None:
    """The five stages of the rice2 network and one block; widths, blocks, heads and scales are the network's own."""
    network = attcr.ATTCR(attcr.ATTCRConfig.preset("rice2"))
    config = network.config
    figure, axes = canvas(9.4, 5.2)
    places = [(1.5, 3.9), (2.9, 3.0), (4.3, 2.1), (5.7, 3.0), (7.1, 3.9)]
    box(axes, (0.1, 4.0), (1.0, 0.5), "cloudy image", GREY)
    box(axes, (8.4, 4.0), (0.95, 0.5), "change", GREY)
    for stage, at in enumerate(places):
        size = ("full size", "1/2", "1/4", "1/2", "full size")[stage]
        blocks = config.blocks[stage]
        scales = " and ".join(map(str, config.scales[stage]))
        text = f"stage {stage + 1}, {size}\n{config.channels[stage]} channels\n{blocks} block{'s' * (blocks > 1)}"
        box(axes, at, (1.25, 0.75), text, BLUE)
        axes.text(at[0] + 0.62, at[1] - 0.13, f"{config.heads[stage]} heads, scales {scales}", ha="center", fontsize=7)
    arrow(axes, (1.1, 4.25), (1.5, 4.25))
    arrow(axes, (8.35, 4.25), (8.4, 4.25))
    for left, right in itertools.pairwise(places):
        arrow(axes, (left[0] + 1.25, left[1] + 0.3), (right[0], right[1] + 0.5))
    for down, up in ((0, 4), (1, 3)):
        height = places[down][1] + 0.64
        arrow(axes, (places[down][0] + 1.25, height), (places[up][0], height), linestyle="--", linewidth=1)
    axes.text(4.9, 4.62, "features of equal size go across", ha="center", fontsize=8)
    arrow(axes, (0.6, 4.5), (8.85, 4.5), connectionstyle="arc3,rad=-0.13", linewidth=1)
    axes.text(4.9, 5.1, "the change is added to the cloudy image", ha="center", va="center", fontsize=8)
    count = sum(parameter.numel() for parameter in network.parameters())
    axes.text(0.1, 2.35, f"{count:,} parameters\nwidths {STAGE_WIDTH} x {config.dim}", fontsize=8)
    _block(axes)
    save(figure, folder / "architecture.svg")


def _block(axes: Axes) -> None:
    """One block: attention with its gate, then the feed-forward."""
    axes.text(0.1, 1.75, "one block", fontsize=10, weight="bold")
    parts = [
        (0.1, 0.8, "norm", GREY, 0.6),
        (0.95, 1.25, "query, 1 x 1", BLUE, 1.2),
        (0.95, 0.75, "keys and values,\neach scale", BLUE, 1.2),
        (2.45, 0.9, "triangular\nattention", VIOLET, 1.2),
        (3.95, 0.9, "merge\nscales", BLUE, 0.8),
        (5.0, 0.9, "times\ngate", ORANGE, 0.7),
        (5.95, 0.9, "1 x 1", BLUE, 0.6),
        (7.0, 0.9, "norm", GREY, 0.6),
        (7.85, 0.9, "feed-forward,\n3 x 3", GREEN, 1.2),
    ]
    for x, y, text, colour, width in parts:
        box(axes, (x, y), (width, 0.42), text, colour)
    for start, end in (((0.7, 1.1), (0.95, 1.4)), ((0.7, 0.95), (0.95, 0.95)), ((2.15, 1.4), (2.45, 1.2)),
                       ((2.15, 0.95), (2.45, 1.05)), ((3.65, 1.1), (3.95, 1.1)), ((4.75, 1.1), (5.0, 1.1)),
                       ((5.7, 1.1), (5.95, 1.1)), ((6.55, 1.1), (7.0, 1.1)), ((7.6, 1.1), (7.85, 1.1))):  # fmt: skip
        arrow(axes, start, end)
    box(axes, (2.45, 0.2), (1.9, 0.34), "gate: 1 x 1, 3 x 3, 1 x 1", ORANGE)
    arrow(axes, (0.4, 0.8), (2.45, 0.37), connectionstyle="angle3,angleA=90,angleB=0")
    arrow(axes, (4.35, 0.37), (5.35, 0.9), connectionstyle="angle3,angleA=0,angleB=90")
    axes.text(6.77, 1.42, "+ input", fontsize=8, ha="center")
    axes.text(9.2, 1.42, "+ input", fontsize=8, ha="center")


def restore_flow(folder: Path) -> None:
    """The way of a pixel through `attcr restore`."""
    figure, axes = canvas(9.4, 2.7)
    steps = [
        ("scene\nSAFE, GeoTIFF,\nSTAC item", GREY), ("rows of tiles\n256 pixels,\n32 shared", BLUE),
        ("reflectance\nby product and\nbaseline", BLUE), ("network\nonly tiles\nwith cloud", VIOLET),
        ("change\nblended over\nneighbours", BLUE), ("added to the\ndigital numbers\nin the mask", GREEN),
        ("COG, quality,\nspread, preview,\nSTAC item", GREY),
    ]  # fmt: skip
    for number, (text, colour) in enumerate(steps):
        box(axes, (0.1 + 1.33 * number, 1.5), (1.15, 0.95), text, colour)
        if number:
            arrow(axes, (0.1 + 1.33 * number - 0.18, 1.97), (0.1 + 1.33 * number, 1.97))
    box(axes, (1.43, 0.25), (1.15, 0.7), "cloud mask\nSCL, QA_PIXEL,\ndetector", ORANGE)
    arrow(axes, (2.58, 0.6), (4.6, 1.5), connectionstyle="angle3,angleA=0,angleB=90")
    arrow(axes, (2.58, 0.6), (7.3, 1.5), connectionstyle="angle3,angleA=0,angleB=90")
    box(axes, (7.95, 0.25), (1.3, 0.7), "other dates\nfill thick cloud", ORANGE)
    arrow(axes, (7.95, 0.6), (7.5, 1.5), connectionstyle="angle3,angleA=180,angleB=90")
    axes.text(2.7, 0.2, "outside the mask a pixel keeps its bits, and never reaches the network", fontsize=8)
    save(figure, folder / "restore-flow.svg")


def fleet_flow(folder: Path) -> None:
    """From a search to results, whatever dies on the way."""
    figure, axes = canvas(9.4, 3.0)
    box(axes, (0.1, 1.85), (1.3, 0.75), "STAC API,\nbucket, folder", GREY)
    box(axes, (1.8, 1.85), (1.3, 0.75), "manifest\none row\nfor each scene", BLUE)
    box(axes, (3.5, 1.85), (1.3, 0.75), "driver\nskips what\nis done", VIOLET)
    for number, text in enumerate(("this process", "a job array, --shard i/n", "actors on Ray")):
        box(axes, (5.3, 2.35 - 0.5 * number), (1.75, 0.4), text, GREEN)
        arrow(axes, (4.8, 2.2), (5.3, 2.55 - 0.5 * number))
        arrow(axes, (7.05, 2.55 - 0.5 * number), (7.6, 2.2))
    box(axes, (7.6, 1.85), (1.65, 0.75), "rasters first,\nSTAC item last:\nthe commit", BLUE)
    box(axes, (3.5, 0.45), (1.3, 0.6), "ledger\n(Parquet log)", GREY)
    box(axes, (5.3, 0.45), (1.75, 0.6), "quarantine, after\n3 attempts", RED)
    arrow(axes, (1.4, 2.2), (1.8, 2.2))
    arrow(axes, (3.1, 2.2), (3.5, 2.2))
    arrow(axes, (4.15, 1.05), (4.15, 1.85), arrowstyle="<|-|>")
    arrow(axes, (6.15, 1.35), (6.15, 1.05))
    axes.text(7.2, 0.42, "a scene is done when its item is there;\nstarted again, a run does nothing twice", fontsize=8)
    axes.text(2.25, 1.6, "attcr fleet plan", ha="right", fontsize=8)
    axes.text(4.3, 1.4, "attcr fleet run", fontsize=8)
    save(figure, folder / "fleet-flow.svg")


def decision(folder: Path) -> None:
    """Which weights for my data."""
    figure, axes = canvas(9.4, 4.3)
    box(axes, (0.1, 1.85), (1.5, 0.6), "What is your\nimage?", VIOLET)
    rows = [
        ("Sentinel-2 or Landsat,\nreflectance bands", 3.45, "thin cloud, haze, cirrus", "s2-thin"),
        ("true-colour picture,\n8 bits", 1.85, "thin cloud, haze", "rgb-thin"),
        ("picture of short-wave\ninfrared, near infrared, red", 0.25, "thin or thick cloud", "rice2-small"),
    ]
    for text, y, cloud, weights in rows:
        box(axes, (2.2, y), (2.0, 0.65), text, BLUE)
        arrow(axes, (1.6, 2.15), (2.2, y + 0.33))
        box(axes, (7.3, y + 0.1), (1.9, 0.5), f"--weights {weights}", GREEN)
        arrow(axes, (4.2, y + 0.33), (7.3, y + 0.35))
        axes.text(5.75, y + 0.42, cloud, ha="center", fontsize=8.5)
    box(axes, (5.1, 2.62), (2.0, 0.5), "other dates: --reference", ORANGE)
    for y, side in ((3.45, -1), (1.85, 1)):
        arrow(axes, (4.2, y + (0.1 if side < 0 else 0.55)), (5.1, 2.87))
    axes.text(5.15, 3.25, "thick cloud", fontsize=8.5, ha="center")
    axes.text(5.2, 2.42, "thick cloud", fontsize=8.5, ha="center")
    axes.text(7.25, 2.75, "what nobody saw\nstays cloud, class 5", fontsize=8, color=TEXT)
    axes.text(5.2, 0.2, "thick: plausible, not observed", fontsize=8, ha="center")
    axes.text(0.1, 0.3, "attcr weights --for SCENE\nanswers the same for your file", fontsize=8)
    save(figure, folder / "decision.svg")


DRAWN = (architecture, restore_flow, fleet_flow, decision)
