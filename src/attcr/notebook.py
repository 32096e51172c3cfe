"""Results in a notebook: before and after side by side, or under a swipe, with the pictures in the page."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attcr.bands.spec import shown_bands
from attcr.errors import ConfigError, ShapeError
from attcr.extras import need, needed
from attcr.restore.array import RestoredArray
from attcr.restore.publish import address_of, legend
from attcr.restore.scene import RestoreResult
from attcr.restore.walk import QUALITY_COLOURS, QUALITY_NAMES

Array = NDArray[Any]

LARGEST = 768
"""Pixels along the longer side of a picture."""
_COMMON = {"red": ("red", "b04", "b4"), "green": ("green", "b03", "b3"), "blue": ("blue", "b02", "b2")}
"""What the bands of true colour are called in Sentinel-2 and Landsat 8 and 9."""


_SCRIPT = """
function render({ model, el }) {
  const box = document.createElement("div");
  box.className = "attcr-swipe";
  const after = document.createElement("img"), before = document.createElement("img");
  after.alt = "after"; before.alt = "before"; before.className = "attcr-before";
  const slider = document.createElement("input");
  Object.assign(slider, { type: "range", min: 0, max: 100, step: 0.5 });
  slider.setAttribute("aria-label", "before at the left, after at the right");
  const draw = () => {
    after.src = model.get("after"); before.src = model.get("before");
    slider.value = model.get("position");
    before.style.clipPath = `inset(0 ${100 - slider.value}% 0 0)`;
  };
  slider.addEventListener("input", () => {
    model.set("position", Number(slider.value)); model.save_changes();
  });
  model.on("change", draw);
  draw();
  box.append(after, before);
  el.append(box, slider);
}
export default { render };
"""
_STYLE = """
.attcr-swipe { position: relative; max-width: 768px; line-height: 0; }
.attcr-swipe img { width: 100%; image-rendering: pixelated; }
.attcr-swipe .attcr-before { position: absolute; left: 0; top: 0; }
.attcr-swipe + input { width: 100%; max-width: 768px; }
"""


@dataclass(frozen=True)
class Comparison:
    """Two pictures of one place, and what of the second is new; a notebook shows it side by side."""

    before: NDArray[np.uint8]
    """(H, W, 3)."""
    after: NDArray[np.uint8]
    quality: NDArray[np.uint8] | None
    """(H, W), classes of a quality raster."""

    def _repr_html_(self) -> str:
        shown = [("before", self.before), ("after", self.after)]
        if self.quality is not None:
            shown.append(("quality", _coloured(self.quality)))
        figures = "".join(
            f'<figure style="flex:1;min-width:12em;margin:0"><img src="{_address(picture)}" alt="{name}" '
            f'style="width:100%;image-rendering:pixelated"><figcaption>{name}</figcaption></figure>'
            for name, picture in shown
        )
        row = f'<div style="display:flex;gap:8px;flex-wrap:wrap">{figures}</div>'
        if self.quality is None:
            return row
        return row + legend(np.bincount(self.quality.ravel(), minlength=len(QUALITY_NAMES)).tolist())

    def swipe(self) -> Any:
        """Give a widget that draws a line over both pictures, the first at its left; needs the extra `notebook`."""
        anywidget, traitlets = need("anywidget"), need("traitlets")
        return type(
            "Swipe",
            (anywidget.AnyWidget,),
            {
                "_esm": _SCRIPT,
                "_css": _STYLE,
                "before": traitlets.Unicode(_address(self.before)).tag(sync=True),
                "after": traitlets.Unicode(_address(self.after)).tag(sync=True),
                "position": traitlets.Float(50.0).tag(sync=True),  # of the line, in per cent from the left
            },
        )()


def show(before: Any, after: Any, *, quality: Any = None, bands: Sequence[int] | None = None) -> Comparison:
    """Show before and after with the same stretch.

    Each is a raster's path, an array or tensor (C, H, W), a Pillow image, or a result of `restore_scene` or
    `restore_array`, which is shown with its quality. `bands` are the numbers, from 1, of those shown as red, green and
    blue; by default the bands of these names, or the first three.
    """
    if isinstance(after, RestoreResult):
        after, quality = after.target, after.quality if quality is None else quality
    elif isinstance(after, RestoredArray):
        after, quality = after.image, after.quality if quality is None else quality
    first, second = _planes(before, bands), _planes(after, bands)
    if first.shape != second.shape:
        raise ShapeError(f"before is {first.shape[1:]} pixels and after {second.shape[1:]}: show two of one place.")
    seen = second[:, np.isfinite(second).all(axis=0) & (second != 0).any(axis=0)]
    low, high = np.percentile(seen, [1, 99]) if seen.size else (0.0, 1.0)
    classes = None if quality is None else _classes(quality)
    return Comparison(_stretched(first, low, high), _stretched(second, low, high), classes)


def _planes(image: Any, bands: Sequence[int] | None) -> Array:
    """Give (3, H, W) of an image, at most LARGEST pixels along a side."""
    names: list[str] = []
    if isinstance(image, str | Path):
        array, names = _read(Path(image))
    else:
        array = np.asarray(image.detach().cpu() if hasattr(image, "detach") else image)
        if type(image).__module__.startswith("PIL"):
            array = np.atleast_3d(array).transpose(2, 0, 1)
    if array.ndim != 3:
        raise ShapeError(f"An image is (C, H, W), got shape {array.shape}.")
    chosen = shown_bands(names or [""] * array.shape[0]) if bands is None else [band - 1 for band in bands]
    if any(not 0 <= band < array.shape[0] for band in chosen):
        raise ConfigError(f"bands={tuple(bands or ())}, and the image has {array.shape[0]}: number them from 1.")
    return _smaller(array[chosen]).astype(np.float64)


def _read(path: Path) -> tuple[Array, list[str]]:
    """Give a raster's planes, shrunken where it is large, and their common names."""
    with needed():
        import rasterio
    with rasterio.open(path) as source:
        step = _step(source.height, source.width)
        shape = (source.count, -(-source.height // step), -(-source.width // step))
        told = [str(name or "").lower() for name in source.descriptions]
        array: Array = source.read(out_shape=shape)
    common = {alias: name for name, aliases in _COMMON.items() for alias in aliases}
    return array, [common.get(name, "") for name in told]


def _step(height: int, width: int) -> int:
    return max(-(-max(height, width) // LARGEST), 1)


def _smaller(array: Array) -> Array:
    step = _step(*array.shape[-2:])
    smaller: Array = array[..., ::step, ::step]
    return smaller


def _classes(quality: Any) -> NDArray[np.uint8]:
    array = _read(Path(quality))[0][0] if isinstance(quality, str | Path) else np.asarray(quality)
    classes: NDArray[np.uint8] = _smaller(array).astype(np.uint8)
    return classes


def _stretched(planes: Array, low: float, high: float) -> NDArray[np.uint8]:
    scaled = np.nan_to_num((planes - low) / max(high - low, 1e-9), posinf=1, neginf=0)
    picture: NDArray[np.uint8] = (np.clip(scaled, 0, 1) * 255).astype(np.uint8).transpose(1, 2, 0)
    return picture


def _coloured(quality: NDArray[np.uint8]) -> NDArray[np.uint8]:
    table = np.zeros((256, 4), np.uint8)
    for value, colour in QUALITY_COLOURS.items():
        table[value] = colour
    coloured: NDArray[np.uint8] = table[quality]
    return coloured


def _address(picture: NDArray[np.uint8]) -> str:
    """Give a picture as an address that holds it."""
    with needed():
        from PIL import Image
    file = io.BytesIO()
    Image.fromarray(picture).save(file, "PNG")
    return address_of(file.getvalue())
