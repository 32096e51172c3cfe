"""A widget that draws a line over two pictures, one at each side of it."""

import anywidget
import traitlets

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


class Swipe(anywidget.AnyWidget):  # type: ignore[misc]  # traitlets' classes have no types
    """Both pictures, and where the line between them is, in per cent from the left."""

    _esm = _SCRIPT
    _css = _STYLE
    before = traitlets.Unicode("").tag(sync=True)
    after = traitlets.Unicode("").tag(sync=True)
    position = traitlets.Float(50.0).tag(sync=True)
