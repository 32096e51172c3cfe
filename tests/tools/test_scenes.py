"""The plain command's errors on single scenes are told before and after, and which are worse."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio

from fakes import write_native

TOOLS = Path(__file__).parents[2] / "tools"


def test_errors_under_cloud_are_told_before_and_after_and_worse_images_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(TOOLS)
    import scenes

    clear = np.random.default_rng(0).integers(1000, 3000, (13, 60, 60)).astype(np.uint16)
    mask = np.zeros((60, 60), np.uint8)
    mask[30:] = 2
    for name in ("roi00", "roi01"):
        write_native(tmp_path / name, f"{name}_clear", clear, np.zeros_like(mask))
        write_native(tmp_path / name, f"{name}_cloudy", clear + mask * np.uint16(500), mask)
    worse = iter([False, True])

    def restored(scene: Path, _: Any) -> tuple[np.ndarray, np.ndarray]:
        with rasterio.open(scene) as file:
            image = file.read() / 1e4
        image[:, 30:] += 0.05 if next(worse) else -0.075
        return image, np.where(mask > 0, 2, 1).astype(np.uint8)

    monkeypatch.setattr(scenes, "restored", restored)
    monkeypatch.setattr(scenes, "open_predictor", lambda *_, **__: None)
    page = tmp_path / "page.md"
    page.write_text("<!-- new -->\n<!-- /new -->\n")
    given = [word for name in ("roi00", "roi01") for word in ("--pairs", f"cloudsen12={tmp_path / name}:{name}_cloudy")]
    options = [*given, "--work", str(tmp_path / "work"), "--page", str(page), "--block", "new"]
    monkeypatch.setattr(sys, "argv", ["scenes", *options])
    scenes.main()
    text = page.read_text()
    assert "| roi00_cloudy | 50% | 0% | 0.1000 → 0.0250 |" in text
    assert "| 0.0500 → 0.0125 |" in text
    assert "| roi01_cloudy | 50% | 0% | 0.1000 → 0.1500 |" in text
    assert "of 2 images that have any: by more than 0.001 in MAE: roi01_cloudy; by more than 0.005 in NDVI:" in text
