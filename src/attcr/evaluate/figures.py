"""Figures of reports: panels of images with their error, and what a restoration gained. The same bytes each time."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attcr.bands.spec import InputSpec
from attcr.extras import needed

with needed():
    from matplotlib.figure import Figure

Array = NDArray[Any]

WORST_SHOWN = 0.3
"""The error at the bright end of the error maps, where 1 is the peak; fixed, so that panels can be compared."""


@dataclass(frozen=True)
class Panel:
    """One row of a figure; images are (C, H, W) of the bands that come out of a spec, where 1 is the peak."""

    title: str
    cloudy: Array
    restored: Array
    reference: Array


def picture(image: Array, spec: InputSpec) -> Array:
    """Give (H, W, 3) in [0, 1] to look at of the bands that come out of a spec, where 1 is the peak."""
    shown: Array = np.clip(spec.gain * image[spec.colours], 0, 1).transpose(1, 2, 0)
    return shown


def save_panels(path: Path, panels: Sequence[Panel], spec: InputSpec) -> None:
    """Write a figure with a row for each panel: cloudy, restored, reference, and the mean error over bands."""
    figure = new_figure(12, 3.2 * len(panels))
    axes = figure.subplots(len(panels), 4, squeeze=False)
    for row, panel in zip(axes, panels, strict=True):
        images = {"cloudy": panel.cloudy, "restored": panel.restored, "reference": panel.reference}
        for axis, (title, image) in zip(row, images.items(), strict=False):
            axis.imshow(picture(image, spec), interpolation="nearest")
            axis.set_title(title if title != "restored" else f"restored: {panel.title}", fontsize=9)
        error = np.abs(np.clip(panel.restored, 0, 1) - panel.reference).mean(0)
        shown = row[3].imshow(error, cmap="magma", vmin=0, vmax=WORST_SHOWN, interpolation="nearest")
        row[3].set_title("error", fontsize=9)
        figure.colorbar(shown, ax=row[3], fraction=0.046)
        for axis in row:
            axis.set_axis_off()
    save_figure(figure, path)


def save_gain(path: Path, before: Sequence[float], after: Sequence[float], *, title: str) -> None:
    """Write a scatter of each image's PSNR before and after; below the diagonal an image was made worse."""
    figure = new_figure(5, 5)
    axis = figure.subplots()
    known = np.isfinite(before) & np.isfinite(after)
    x, y = np.asarray(before)[known], np.asarray(after)[known]
    low, high = (min(x.min(), y.min()) - 1, max(x.max(), y.max()) + 1) if x.size else (0, 1)
    axis.plot([low, high], [low, high], color="grey", linewidth=1)
    axis.scatter(x, y, s=12)
    axis.set(
        xlim=(low, high),
        ylim=(low, high),
        xlabel="PSNR of the input (dB)",
        ylabel="PSNR restored (dB)",
        title=title,
    )
    axis.set_aspect("equal")
    save_figure(figure, path)


def new_figure(width: float, height: float) -> Figure:
    """Give an empty figure of so many inches, 80 pixels each."""
    return Figure(figsize=(width, height), dpi=80, layout="constrained")


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure as PNG, the same bytes for the same figure."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="png", metadata={"Software": None})  # no version in the bytes
