"""What a report says of its rows."""

import math
from typing import Any

import pytest

from attcr.data import DATASETS
from attcr.evaluate.by_class import CLASS_PROTOCOLS
from attcr.evaluate.protocols import IMAGE_PROTOCOLS
from attcr.evaluate.report import leading, markdown, summarise

RULES = [IMAGE_PROTOCOLS["t-cloud"]]
ABOUT = {
    "data": {"name": "pairs", "part": "all", "images": 4, "split sha256": "5"},
    "methods": {"mine": {"weights": "w", "sha256": "7"}, "input copied": {}},
    "protocols": ["t-cloud"],
    "versions": {"numpy": "2"},
}


def row(name: str, mine: float, copied: float = 20.0, cloudy: int = 10) -> dict[str, Any]:
    """A row of an image of 3 x 10 x 10 where the method is off by 0.1 under cloud and by 0.01 elsewhere."""
    clear = 100 - cloudy
    sums = {"cloudy": [cloudy, cloudy * 3 * 0.1, cloudy * 3 * 0.01], "clear": [clear, clear * 0.03, clear * 3e-4]}
    scores = {
        method: {"t-cloud": {"psnr": psnr, "ssim": 0.5}} for method, psnr in (("mine", mine), ("input copied", copied))
    }
    about = {"size": [3, 10, 10], "cover": cloudy / 100, "contrast": 0.1, "input psnr": copied}
    return {"name": name, **about, "scores": scores, "pixels": dict.fromkeys(scores, sums)}


def test_the_images_shown_are_the_worst_the_median_and_the_best() -> None:
    rows = [row("a", 30), row("b", 10), row("c", 40), row("d", 20), row("e", 25)]
    report = summarise(rows, RULES, ABOUT, DATASETS["pairs"], "all")
    assert {title: (shown["name"], shown["index"], shown["psnr"]) for title, shown in report["shown"].items()} == {
        "worst": ("b", 1, 10), "median": ("e", 4, 25), "best": ("c", 2, 40),
    }  # fmt: skip
    assert report["subject"] == "mine"
    assert report["protocols"]["t-cloud"]["worse than the input"] == ["b"]


def test_pixels_of_a_kind_are_pooled_over_images_and_bands() -> None:
    report = summarise([row("a", 30, cloudy=10), row("b", 30, cloudy=30)], RULES, ABOUT, DATASETS["pairs"], "all")
    cloudy, clear = (report["pixels"]["mine"][kind] for kind in ("cloudy", "clear"))
    assert (cloudy["pixels"], clear["pixels"]) == (40, 160)
    assert (cloudy["mae"], clear["mae"]) == (pytest.approx(0.1), pytest.approx(0.01))
    assert (cloudy["psnr"], clear["psnr"]) == (pytest.approx(20), pytest.approx(40))
    text = markdown(report, RULES)
    assert "| mine | 0.1000 | 20.00 | 0.0100 | 40.00 |" in text
    assert "20.0 % of all pixels are cloudy." in text


def test_what_is_not_finite_is_null_in_json_and_a_dash_in_tables() -> None:
    report = summarise([row("a", math.inf, cloudy=0)], RULES, ABOUT, DATASETS["pairs"], "all")
    assert report["protocols"]["t-cloud"]["methods"]["mine"]["psnr"]["mean"] is None
    assert report["pixels"]["mine"]["cloudy"] == {"pixels": 0, "mae": None, "psnr": None}
    text = markdown(report, RULES)
    assert "| **mine** | - [-, -] | 0.5000 [0.5000, 0.5000] |" in text
    assert "| mine | - | - | 0.0100 | 40.00 |" in text


def test_a_report_says_what_it_was_made_of() -> None:
    text = markdown(summarise([row("a", 30), row("b", 10)], RULES, ABOUT, DATASETS["pairs"], "all"), RULES)
    assert text.startswith("# mine on pairs all, 4 images\n")
    assert "Used by the authors of T-CLOUD. RGB, not clamped; SSIM 7x7 uniform" in text
    assert "- 1 of 2 images score less PSNR than their input." in text
    assert "| 20 to 25 dB | 2 | 20.00 | 20.00 | +0.00 |" in text
    assert "by PSNR under t-cloud; the error map ends at 0.3." in text
    assert "![gain](figures/gain.png)" in text
    assert "- mine: `w`, sha256 `7`\n- versions: numpy 2\n" in text


def test_images_are_ordered_by_the_first_protocol_of_whole_images() -> None:
    by_class = CLASS_PROTOCOLS["two-dates"]
    assert leading([by_class, *RULES]) is RULES[0]
    assert leading([by_class]) is None
