"""What the vote finds is counted by the classes of real pairs, and on clear places by their kind."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fakes import write_native

TOOLS = Path(__file__).parents[2] / "tools"


def write_place(root: Path, name: str) -> Path:
    clear = np.random.default_rng(0).integers(1000, 3000, (13, 60, 60)).astype(np.uint16)
    mask = np.zeros((60, 60), np.uint8)
    mask[30:50], mask[50:] = 2, 1
    write_native(root, f"{name}_clear", clear, np.zeros_like(mask))
    write_native(root, f"{name}_cloudy", clear + mask * np.uint16(900), mask)
    return root


def test_recall_false_alarms_and_clear_places_are_told_and_a_second_run_counts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(TOOLS)
    import masks

    asked: list[Path] = []

    def found(scene: Path, *_: Any) -> tuple[np.ndarray, np.ndarray]:
        asked.append(scene)
        here = np.zeros((60, 60), bool)
        here[24:45] = True  # 15 of 20 rows of thin cloud, none of thick, 6 of 30 of clear ground
        return here, np.ones_like(here)

    monkeypatch.setattr(masks, "found_clouds", found)
    monkeypatch.setattr(masks, "open_predictor", lambda *_, **__: None)
    page = tmp_path / "page.md"
    page.write_text("<!-- new -->\n<!-- /new -->\n")
    root = write_place(tmp_path / "set", "roi00")
    options = ["--pairs", f"deserts=cloudsen12={root}", "--clear", str(root), "--work", str(tmp_path / "work")]
    monkeypatch.setattr(sys, "argv", ["masks", *options, "--page", str(page), "--block", "new"])
    masks.main()
    masks.main()
    text = page.read_text()
    assert "| deserts | 1 | 0.75 | 0.00 | nan | 0.20 | 0.59 |" in text
    assert "| desert | 1 | 35.00% | 100.00% | 100.00% |" in text
    assert len(asked) == 2
