"""The tables of the plain command are made of the reports of `attcr evaluate`, and put into their page."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attcr.evaluate import shipped
from fakes import write_native

ROOT = Path(__file__).parents[2]


def write_place(root: Path, name: str, seed: int) -> Path:
    clear = np.random.default_rng(seed).integers(1000, 3000, (13, 60, 60)).astype(np.uint16)
    mask = np.zeros((60, 60), np.uint8)
    mask[42:] = 2
    write_native(root, f"{name}_clear", clear, np.zeros_like(mask))
    write_native(root, f"{name}_thin", clear + mask * np.uint16(300 * seed), mask)
    return root


def test_sets_of_one_protocol_are_told_together_and_the_rest_of_the_page_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(ROOT)
    from tools import defaults

    def unchanged(source: Path, target: Path, _: Any) -> Any:
        target.write_bytes(source.read_bytes())
        return type("Result", (), {"spread": None})

    monkeypatch.setattr(shipped, "restore_scene", unchanged)
    page = tmp_path / "page.md"
    page.write_text("# Before\n<!-- new -->\nold figures\n<!-- /new -->\nafter\n")
    folders = [write_place(tmp_path / name, name, seed) for name, seed in (("a", 1), ("b", 2))]
    names = ("cloudsen12", "cloudsen12:two-dates")
    given = [word for name, folder in zip(names, folders, strict=True) for word in ("--pairs", f"{name}={folder}")]
    options = [*given, "--work", str(tmp_path / "work"), "--page", str(page), "--block", "new"]
    monkeypatch.setattr(sys, "argv", ["defaults", *options])
    defaults.main()
    text = page.read_text()
    assert text.startswith("# Before\n<!-- new -->\n\n**`two-dates`**, 2 of cloudsen12.\n")
    assert text.endswith("\n<!-- /new -->\nafter\n")
    assert "old figures" not in text
    assert "| thin | 2 | **attcr restore** | 0.0900 [0.0600, 0.1200] |" in text
    reports = sorted((tmp_path / "work").iterdir())
    assert [folder.name for folder in reports] == ["0-cloudsen12-two-dates", "1-cloudsen12-two-dates"]
    assert json.loads((reports[1] / "report.json").read_text())["subject"] == "attcr restore"
    assert str(reports[0]) in capsys.readouterr().out


def test_a_page_without_the_block_is_refused_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT)
    from tools import defaults

    with pytest.raises(SystemExit, match="<!-- new --> and <!-- /new --> once each"):
        defaults.replace_block("<!-- new -->", "new", "figures")
