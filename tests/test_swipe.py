"""The swipe in a real browser: what it draws, and what it hears from the mouse, the keys and Python."""

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import attcr
from browsers import browses, empty_page

pytest.importorskip("anywidget", reason="needs anywidget: pip install 'attcr[notebook]'")

PAGE = """<!doctype html><style>STYLE</style><div id="cell"></div>
<script type="module">
  const state = STATE, heard = {};
  window.saved = [];
  window.model = {
    get: (name) => state[name],
    set: (name, value) => { state[name] = value; (heard.change || []).forEach((call) => call()); },
    on: (event, call) => { (heard[event] ||= []).push(call); },
    save_changes: () => window.saved.push(state.position),
  };
  const script = new Blob([SCRIPT], { type: "text/javascript" });
  const widget = (await import(URL.createObjectURL(script))).default;
  widget.render({ model: window.model, el: document.getElementById("cell") });
</script>"""
"""What a notebook does with a widget: its style, its script, and a model that both sides change."""


@contextmanager
def shown(before: np.ndarray, after: np.ndarray, folder: Path) -> Iterator[Any]:
    """The widget of two images, in a page."""
    swipe = attcr.show(before, after).swipe()
    state = {name: getattr(swipe, name) for name in ("before", "after", "position")}
    page = PAGE.replace("STYLE", str(swipe._css)).replace("STATE", json.dumps(state))
    (folder / "page.html").write_text(page.replace("SCRIPT", json.dumps(str(swipe._esm))))
    with empty_page() as browser:
        browser.goto((folder / "page.html").as_uri())
        browser.wait_for_function("[...document.images].filter((one) => one.naturalWidth).length == 2")
        yield browser
        assert not browser.told
        assert all(address.startswith(("file:", "blob:", "data:")) for address in browser.asked)


def reds(page: Any) -> np.ndarray:
    """Whether each column of the picture that is seen is of `before`, which is red."""
    picture = Image.open(io.BytesIO(page.locator(".attcr-swipe").screenshot())).convert("RGB")
    colours = np.asarray(picture)[picture.height // 2].astype(int)
    return np.asarray(colours[:, 0] > colours[:, 2])


@browses
def test_the_line_is_dragged_by_mouse_keys_and_python(tmp_path: Path) -> None:
    red, blue = np.zeros((3, 40, 60)), np.zeros((3, 40, 60))
    red[0], blue[2] = 1, 1
    with shown(red, blue, tmp_path) as page:
        assert reds(page).mean() == pytest.approx(0.5, abs=0.01)
        slider = page.get_by_role("slider", name="before at the left, after at the right")
        box = slider.bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] / 4, box["y"] + box["height"] / 2, steps=5)
        page.mouse.up()
        at = page.evaluate("model.get('position')")
        assert at == pytest.approx(25, abs=2)
        assert page.evaluate("saved.length") > 1, "Python hears where the line is"
        seen = reds(page)
        assert seen.mean() == pytest.approx(at / 100, abs=0.01)
        assert (np.diff(seen.astype(int)) <= 0).all(), "before is at the left"
        slider.press("ArrowRight")
        assert page.evaluate("saved.at(-1)") == at + 0.5
        page.evaluate("model.set('position', 80)")
        assert reds(page).mean() == pytest.approx(0.8, abs=0.01)
        assert slider.input_value() == "80"
        page.screenshot(path=tmp_path / "swipe.png")  # to look at
