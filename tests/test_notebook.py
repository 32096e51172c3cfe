"""Results in a notebook."""

import base64
import io
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import attcr
from attcr.errors import ConfigError, ShapeError
from attcr.restore import RestoreResult
from attcr.restore.array import RestoredArray
from fake_scenes import UTM, make


def pictures(page: str) -> list[np.ndarray]:
    found = re.findall(r'src="data:image/png;base64,([^"]+)"', page)
    return [np.asarray(Image.open(io.BytesIO(base64.b64decode(one)))) for one in found]


def test_before_and_after_are_shown_side_by_side_stretched_alike() -> None:
    after = np.arange(3 * 20 * 30).reshape(3, 20, 30).astype("uint16")
    shown = attcr.show(after + 500, after)
    first, second = pictures(shown._repr_html_())
    assert first.shape == second.shape == (20, 30, 3)
    low, high = np.percentile(after[:, (after != 0).any(axis=0)], [1, 99])
    np.testing.assert_array_equal(
        second[10, 10], (np.clip((after[:, 10, 10] - low) / (high - low), 0, 1) * 255).astype(int)
    )
    assert (first >= second).all()
    assert "http" not in shown._repr_html_()  # nothing is fetched


def test_a_restored_array_brings_its_quality_and_legend() -> None:
    image = np.full((3, 8, 8), 100, "uint8")
    quality = np.ones((8, 8), "uint8")
    quality[:2] = 2
    page = attcr.show(
        Image.fromarray(image.transpose(1, 2, 0)), RestoredArray(torch.from_numpy(image), quality, None)
    )._repr_html_()
    assert pictures(page)[2][0, 0].tolist() == [115, 178, 255, 255]
    assert "reconstructed under thin cloud</td><td>25.00%" in page
    assert "from another date" not in page


def test_bands_are_found_by_name_and_large_rasters_made_small(tmp_path: Path) -> None:
    values = np.stack([np.full((1000, 900), value) for value in (10, 20, 30, 40)]).astype("uint16")
    values[:, 0, :50] = 1

    def named(file: Any) -> None:
        file.descriptions = ("B02", "B03", "B04", "B8A")

    path = make(tmp_path / "in.tif", values, named, **UTM)
    shown = attcr.show(path, path)
    assert shown.after.shape == (500, 450, 3)
    assert (np.diff(shown.after[9, 9].astype(int)) < 0).all()  # red is B04, the brightest of the three
    assert (np.diff(attcr.show(path, path, bands=(1, 2, 3)).after[9, 9].astype(int)) > 0).all()
    with pytest.raises(ConfigError, match="number them from 1"):
        attcr.show(path, path, bands=(0, 1, 2))


def test_two_sizes_are_refused() -> None:
    with pytest.raises(ShapeError, match="two of one place"):
        attcr.show(np.zeros((3, 8, 8)), np.zeros((3, 8, 9)))


def test_a_restored_scene_shows_its_preview_and_shares(tmp_path: Path) -> None:
    Image.new("RGB", (4, 2)).save(tmp_path / "out_preview.png")
    paths = {
        "target": tmp_path / "a<b.tif",
        "quality": tmp_path / "q",
        "item": tmp_path / "i",
        "spread": None,
        "dates": None,
    }
    counts = {
        "pixels": {"no data": 6, "original": 3, "cloud left as it came": 1},
        "left": 1,
        "tiles": 1,
        "tiles_run": 1,
    }
    rest = {"resumed_row": 0, "mask": "scl", "references": [], "seconds": 1.0, "preview": tmp_path / "out_preview.png"}
    page = RestoreResult(**paths, **counts, **rest)._repr_html_()
    assert pictures(page)[0].shape == (2, 4, 3)
    assert "original</td><td>75.00%" in page
    assert "a&lt;b.tif" in page


def test_a_swipe_holds_both_pictures_and_fetches_nothing() -> None:
    pytest.importorskip("anywidget", reason="needs anywidget: pip install 'attcr[notebook]'")
    swipe = attcr.show(np.zeros((3, 4, 4)), np.ones((3, 4, 4))).swipe()
    assert swipe.before.startswith("data:image/png")
    assert swipe.after.startswith("data:image/png")
    assert swipe.position == 50
    assert "http" not in str(swipe._esm) + str(swipe._css)


def test_import_attcr_loads_none_of_it() -> None:
    code = "import attcr, sys; print([name for name in ('anywidget', 'attcr.notebook', 'PIL') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"
