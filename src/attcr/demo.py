"""`attcr demo`: a real Sentinel-2 scene under thin cloud, which comes with the package, restored as any scene is."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attcr.bands.sensors import S2_L1C_BANDS
from attcr.extras import needed
from attcr.restore.look import choose_weights
from attcr.restore.options import RestoreOptions
from attcr.restore.scene import Progress, RestoreResult, restore_scene
from attcr.restore.walk import ORIGINAL, QUALITY_COLOURS, QUALITY_NAMES

with needed():
    import rasterio
    from PIL import Image, ImageDraw

SAMPLE = Path(__file__).parent / "sample"
FILES = {
    "scene": ("cloudy_10m.jp2", "cloudy_rest.tif"),
    "clear_date": ("clear_10m.jp2", "clear_rest.jp2"),
}
"""What the demo writes, and the files of the sample that it is made of."""
BANDS = ("B02", "B03", "B04", "B08", "B05", "B06", "B07", "B8A", "B11", "B12", "B01", "B09", "B10")
"""The order of the bands in these."""
LARGE = 0.03
"""The expected error that the picture shows in white."""
PANEL, CAPTION = 512, 20
"""Pixels along a side of a part of the picture, and above it."""


@dataclass(frozen=True)
class Demo:
    """What the demo wrote, and how well it went."""

    scene: Path
    clear_date: Path
    """The same place on another date."""
    restored: Path
    picture: Path
    """Before, after, quality and expected error."""
    error_before: float
    """Mean absolute difference from the clear date, in reflectance, of the pixels that were restored."""
    error_after: float
    commands: tuple[str, ...]
    """What to try next."""


def run_demo(folder: Path, *, progress: Callable[[Progress], None] | None = None) -> Demo:
    """Write the sample's two dates and the cloudy one restored into FOLDER/attcr-demo."""
    folder = folder / "attcr-demo"  # of its own: a scene.tif of the user's stays
    folder.mkdir(parents=True, exist_ok=True)
    scene, clear = (_unpacked(folder / f"{name}.tif", files) for name, files in FILES.items())
    shutil.copyfile(SAMPLE / "ATTRIBUTION.txt", folder / "ATTRIBUTION.txt")
    target = folder / "restored.tif"
    result = restore_scene(scene, target, choose_weights(scene, RestoreOptions()), overwrite=True, progress=progress)
    came, made, truth = (_read(path).astype(np.float64) / 10_000 for path in (scene, result.target, clear))
    changed = _read(result.quality)[0] > ORIGINAL
    before, after = (float(np.abs(image - truth)[:, changed].mean()) for image in (came, made))
    picture = folder / "demo.png"
    _draw(result, picture)
    commands = (
        f"attcr restore {scene} {folder / 'again.tif'} --reference {clear}",
        "attcr restore YOUR_SCENE clear.tif",
        "attcr weights --for YOUR_SCENE",
    )
    return Demo(scene, clear, result.target, picture, before, after, commands)


def _unpacked(target: Path, files: tuple[str, ...]) -> Path:
    """Write a date of the sample as one GeoTIFF, its bands in the product's order."""
    values = np.concatenate([_read(SAMPLE / name) for name in files])
    with rasterio.open(SAMPLE / files[0]) as source:
        profile = {"crs": source.crs, "transform": source.transform, "height": source.height, "width": source.width}
    profile |= {"driver": "GTiff", "dtype": "uint16", "count": len(BANDS), "nodata": 0, "compress": "deflate"}
    with rasterio.open(target, "w", predictor=2, **profile) as dataset:
        dataset.write(values[[BANDS.index(name) for name in S2_L1C_BANDS]])
        dataset.descriptions = S2_L1C_BANDS
        dataset.update_tags(PROCESSING_LEVEL="Level-1C", PROCESSING_BASELINE="02.06")
    return target


def _read(path: Path) -> NDArray[Any]:
    with rasterio.open(path) as dataset:
        values: NDArray[Any] = dataset.read()
    return values


def _draw(result: RestoreResult, picture: Path) -> None:
    """Draw before, after, quality and expected error, two by two, each with its name above."""
    preview = np.asarray(Image.open(result.preview).convert("RGB"))
    width = (preview.shape[1] - 4) // 2
    colours = np.zeros((256, 3), np.uint8)
    for value, colour in QUALITY_COLOURS.items():
        colours[value] = colour[:3]
    panels = {"before": preview[:, :width], "after": preview[:, -width:], "quality": colours[_read(result.quality)[0]]}
    if result.spread is not None:
        error = np.clip(np.nan_to_num(_read(result.spread)[0]) / LARGE, 0, 1)
        panels[f"expected error: white is {LARGE} of reflectance and more"] = np.repeat(
            (error * 255).astype(np.uint8)[..., None], 3, axis=2
        )
    sheet = Image.new("RGB", (2 * PANEL, 2 * (PANEL + CAPTION)), "white")
    draw = ImageDraw.Draw(sheet)
    for number, (name, panel) in enumerate(panels.items()):
        left, top = number % 2 * PANEL, number // 2 * (PANEL + CAPTION)
        words: list[tuple[str, tuple[int, ...]]] = [(f"{name}  ", (0, 0, 0))]
        if name == "quality":
            told = ((QUALITY_NAMES[value], colour[:3]) for value, colour in QUALITY_COLOURS.items())
            words += [(f"{told_name}  ", colour) for told_name, colour in told if result.pixels.get(told_name)]
        at = left + 6.0
        for word, colour in words:
            draw.text((at, top + 4), word, fill=tuple(colour))
            at += draw.textlength(word)
        sheet.paste(Image.fromarray(panel).resize((PANEL, PANEL), Image.Resampling.NEAREST), (left, top + CAPTION))
    sheet.save(picture)
