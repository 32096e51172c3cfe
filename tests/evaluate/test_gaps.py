import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from attcr.cli import app
from attcr.data import DATASETS
from attcr.errors import ConfigError
from attcr.evaluate import evaluate, open_benchmark
from attcr.evaluate.gaps import CLASSICAL, GAP_FILL, NETWORK, OURS, Window, draw_gap, score_window
from attcr.evaluate.protocols import Given
from attcr.evaluate.run import COPY
from attcr.references.harmonise import METHODS
from fake_dates import ground
from fake_scenes import make
from fakes import make_pairs


@pytest.fixture(scope="module")
def dates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three dates of 256 x 300 pixels: the second is the first in other tones, the third has a hole."""
    folder = tmp_path_factory.mktemp("dates")
    first = ground(256, 300)
    second = (first[[1, 2, 0]] * 0.3 + first * 0.6 + 0.02).astype(np.float32)
    third = first.copy()
    third[:, :64] = 0
    for name, values in (("2020-01-01", first), ("2020-01-11", second), ("2020-03-01", third)):
        make(folder / f"{name}.tif", np.rint(values * 10_000).astype(np.uint16), after=_named)
    return folder


def _named(dataset: object) -> None:
    dataset.descriptions = ("B03", "B04", "B08")  # type: ignore[attr-defined]


def test_a_gap_covers_the_part_asked_for() -> None:
    gap = draw_gap((256, 256), 0.4, np.random.default_rng(0))
    assert abs(gap.mean() - 0.4) < 0.001


class Dots:
    """Stands for a generator whose planes are 0 but for two dots in one of them, the first twice the second."""

    def __init__(self, plane: int) -> None:
        self.left = plane

    def normal(self, size: tuple[int, int]) -> np.ndarray:
        drawn = np.zeros(size)
        if self.left == 0:
            drawn[size[0] // 2, [size[1] // 4, 3 * size[1] // 4]] = 2, 1
        self.left -= 1
        return drawn


@pytest.mark.parametrize(("plane", "width", "cover"), [(0, 10.0, 0.1), (1, 3.5, 0.01)])
def test_a_gap_has_wide_forms_of_a_14th_of_the_image_and_edges_of_a_40th(
    plane: int, width: float, cover: float
) -> None:
    gap = draw_gap((140, 280), cover, Dots(plane))  # type: ignore[arg-type]
    # Where exp(-r^2 / 2 w^2) falls from 2 and from 1 to one level, r^2 differs by 2 w^2 log 2.
    assert gap[:, :140].sum() - gap[:, 140:].sum() == pytest.approx(2 * np.pi * width**2 * np.log(2), rel=0.15)


def test_a_folder_of_dates_is_scored_inside_the_gaps_by_every_method(dates: Path, tmp_path: Path) -> None:
    command = ["evaluate", "--data", "dates", "--root", str(dates), "--protocol", "gap-fill", "--out", str(tmp_path)]
    run = CliRunner().invoke(app, [*command, "--pair", "2020-01-01,2020-01-11", "--pair", "2020-01-01,2020-03-01"])
    assert run.exit_code == 0, run.output
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["windows"] == 1  # the third date has a hole in its only window
    mae = report["mae"]
    assert mae["regression"] < 0.1 * mae["line"] < 0.1 * mae["copied"]
    assert mae[OURS] < 1.05 * mae["regression"]
    assert mae["window of 65 px"] < mae["copied"] < mae["mean of the clear part"]
    assert report["ndvi"][OURS] < 0.2 * report["ndvi"]["copied"]
    assert report["self-check"]["chosen"]["regression"] == 1
    assert list(report["by days apart"]) == ["0 to 16"]
    assert f"**{OURS}**" in (tmp_path / "report.md").read_text()


def test_from_python_it_is_a_protocol_as_any_other(dates: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    benchmark = open_benchmark("dates", dates, pairs=[("2020-01-01", "2020-01-11")])
    report = evaluate(benchmark, [], ["gap-fill"], tmp_path, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(0, 1)]
    assert json.loads((tmp_path / "report.json").read_text()) == report
    windows = json.loads((tmp_path / "windows.json").read_text())
    assert [(one["target"], one["reference"], one["days"]) for one in windows] == [("2020-01-01", "2020-01-11", 10)]
    assert (tmp_path / "report.md").read_text().startswith(f"# gap-fill on {dates.name}, 1 windows of 256 px\n\nMean")
    with pytest.raises(ConfigError, match="give no methods"):
        evaluate(benchmark, [COPY], ["gap-fill"], tmp_path)


def test_errors_are_of_the_gap_alone() -> None:
    target = ground(256, 256)
    gap = draw_gap((256, 256), 0.3, np.random.default_rng(1))
    other = np.where(gap, target + np.float32(0.05), target)
    scored = score_window(target, other, gap, np.ones(gap.shape, bool))
    assert abs(scored.errors["copied"] - 0.05) < 1e-5
    assert scored.ndvi == {}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--data", "pairs", "--protocol", "gap-fill"], "gap-fill scores clear dates of one place, and pairs has none"),
        (["--data", "dates", "--protocol", "att-cr"], "and dates has none: give another protocol .gap-fill., or"),
        (["--data", "dates", "--weights", "a", "--weights", "b"], "give `weights` once"),
        (["--data", "pairs", "--pair", "a,b"], "pairs has no dates to choose pairs of"),
    ],
)
def test_what_it_cannot_score_is_refused(options: list[str], told: str, dates: Path, tmp_path: Path) -> None:
    make_pairs(tmp_path, ("cloudy", "clear"), ["x"])
    root = tmp_path if "pairs" in options else dates
    run = CliRunner().invoke(app, ["evaluate", "--root", str(root), "--out", str(tmp_path / "out"), *options])
    assert isinstance(run.exception, ConfigError)
    assert re.search(told, str(run.exception))


def window(errors: dict[str, float], **told: object) -> Window:
    """A window that copying fills with an error of 0.04, a line a band with 0.03 and other methods with 0.02."""
    every = {name: {"copied": 0.04, "line": 0.03}.get(name, 0.02) for name in METHODS}
    return replace(Window("a", "b", 5, 0.2, {**every, **errors}, {}, "line", 0.02, 0.0), **told)  # type: ignore[arg-type]


def test_windows_are_summed_up_by_size_of_gap_and_by_days_apart_either_way() -> None:
    rows = [
        window({OURS: 0.01}, cover=0.3, days=-20, expected=0.02, method="copied"),
        window({OURS: 0.03}, cover=0.29, days=16, expected=np.inf),
        window({OURS: 0.05}, cover=0.5, days=15, expected=0.04),
    ]
    told = GAP_FILL.summarise(rows, DATASETS["dates"], "test")
    assert told["windows"] == 3
    assert told["mae"][OURS] == pytest.approx(0.03)
    assert told["mae"]["copied"] == pytest.approx(0.04)
    assert {label: part["windows"] for label, part in told["by part covered"].items()} == {
        "0 to 0.3": 1, "0.3 to 0.45": 1, "0.45 to inf": 1,
    }  # fmt: skip
    assert {label: part[OURS] for label, part in told["by days apart"].items()} == {
        "0 to 16": 0.05, "16 to 60": pytest.approx(0.02),
    }  # fmt: skip
    check = told["self-check"]
    assert (check["expected"], check["true"]) == (pytest.approx(0.03), pytest.approx(0.03))
    assert check["mean difference of a window"] == pytest.approx((1 + 0.2) / 2)
    assert check["largest ratio to the best method"] == pytest.approx(2.5)
    assert {name: count for name, count in check["chosen"].items() if count} == {"copied": 1, "line": 2}
    assert (told["network"], told["ndvi"]) == ({}, {})
    undated = GAP_FILL.summarise([*rows, replace(rows[0], days=None)], DATASETS["dates"], "test")
    assert undated["by days apart"] == {}
    assert list(GAP_FILL.lines(told)) == ["gap-fill: MAE attcr 0.0300, one line a band 0.0300, copied 0.0400"]
    text = "\n".join(GAP_FILL.table(told))
    assert text.startswith("Mean absolute error inside the gaps, in reflectance; the mean over windows.\n")
    assert "| **attcr** | 0.0300 | - |" in text
    assert "The self-check expected 0.0300, and 0.0300 it was; in a window the two differ by 60% on average" in text
    assert "With the network" not in text


def test_the_network_is_set_against_the_same_without_it() -> None:
    rows = [
        window({OURS: 0.02, CLASSICAL: 0.04, NETWORK: 0.03}, share=0.5, ndvi={OURS: 0.1}),
        window({OURS: 0.03, CLASSICAL: 0.02, NETWORK: 0.08}, share=0.0),
    ]
    rows[0] = replace(rows[0], ndvi=dict.fromkeys(rows[0].errors, 0.1))
    told = GAP_FILL.summarise(rows, DATASETS["dates"], "test")
    assert told["network"]["share of the error without"] == pytest.approx(0.05 / 0.06)
    assert told["network"]["worst window"] == pytest.approx(1.5)
    assert told["network"]["worst window of the network alone"] == pytest.approx(4)
    assert {share: count for share, count in told["network"]["taken"].items() if count} == {"0.5": 1, "0.0": 1}
    assert told["ndvi"][OURS] == pytest.approx(0.1)
    assert "worst window 1.500 (the network alone: 4.000)" in "\n".join(GAP_FILL.table(told))


def test_a_gap_is_scored_by_reflectance_and_by_the_vegetation_index() -> None:
    truth = np.array([[0.1, 0.2], [0.3, 0.4], [0.5, 0.5]], np.float32)
    filled = truth + np.float32(0.1)
    scores = GAP_FILL.score(filled, truth, Given(["B04", "B8A", "B08"]))
    assert scores["mae"] == pytest.approx(0.1)
    index = [(x[2] - x[0]) / (x[2] + x[0]) for x in (truth, filled)]
    assert scores["ndvi"] == pytest.approx(abs(index[0] - index[1]).mean())
    assert list(GAP_FILL.score(filled, truth, Given(["B04", "B03", "B02"]))) == ["mae"]
    assert list(GAP_FILL.score(filled, truth, Given(["B08", "B03", "B02"]))) == ["mae"]
    dark = GAP_FILL.score(
        np.array([[-0.2], [0.4]], np.float32), np.array([[0.2], [0.4]], np.float32), Given(["B04", "B08"])
    )
    assert dark["ndvi"] == pytest.approx((0.4 - 0.001) / 0.401 - 0.2 / 0.6, abs=1e-6)
