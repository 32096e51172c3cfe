"""The protocol `series`: what is hidden, what others make of it, and what a report says."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from attcr.cli import app
from attcr.cubes.fill import Dates
from attcr.data.sets import DATASETS
from attcr.errors import ConfigError
from attcr.evaluate.series import OURS, PARTS, SERIES, TWO, WHOLE, Hidden, baselines, harmonic, score_dates, sights
from attcr.scenes.clouds.masks import CLEAR, THICK
from fake_cubes import DAYS, Drawn, options

F, T = False, True


def test_the_sights_before_and_after_a_date_leave_the_date_itself_out() -> None:
    seen = np.array([[T, F, F, T], [T, T, F, F], [T, T, T, T], [F, T, F, F], [F, T, F, T]])
    before, after = sights(seen, 2)
    assert before.tolist() == [1, 1, -1, 0]
    assert after.tolist() == [-1, 3, -1, 4]


def test_each_baseline_is_what_its_name_says() -> None:
    days = np.array([0.0, 10, 14, 30])
    values = np.float32([[[0.1, 0.1, 0.1]], [[9, 9, 9]], [[0.3, 0.3, 9]], [[0.8, 9, 9]]])
    seen = np.array([[T, T, T], [F, F, F], [T, T, F], [T, F, F]])
    made = baselines(values, seen, days, 1)
    assert made["copy of the nearest"][0] == pytest.approx([0.3, 0.3, 0.1])
    assert made["linear in time"][0] == pytest.approx([0.1 + 0.2 * 10 / 14, 0.1 + 0.2 * 10 / 14, 0.1])
    assert made["median"][0] == pytest.approx([0.3, 0.2, 0.1])
    assert set(made) == {"copy of the nearest", "linear in time", "median", "harmonic"}


def test_a_harmonic_finds_a_wave_of_a_year_from_its_sights_alone() -> None:
    days = np.arange(0.0, 360, 12)
    wave = 0.3 + 0.1 * np.cos(2 * np.pi * (days - 40) / 365.25)
    values = np.repeat(np.float32(wave)[:, None, None], 2, axis=2)
    seen = np.ones((30, 2), bool)
    values[7, :, 1], seen[7, 1] = 5.0, False  # cloud
    made = harmonic(values, seen, days, 40.0)
    assert made[0] == pytest.approx([0.4, 0.4], abs=2e-3)


@pytest.fixture
def dates() -> Dates:
    """Six dates of one ground in other tones; the last two are half under cloud."""
    draw = np.random.default_rng(0)
    ground = draw.uniform(0.1, 0.4, (2, 64, 64))
    tones = np.array([0.0, 0.05, 0.1, 0.05, 0.0, 0.05])[:, None, None, None]
    values = np.float32(ground * (1 + tones) + draw.normal(0, 0.004, (6, 2, 64, 64)))
    classes = np.full((6, 64, 64), CLEAR, np.uint8)
    classes[4, :40], classes[5, :, 40:] = THICK, THICK
    values[4, :, :40], values[5, :, :, 40:] = 0.9, 0.9
    return Dates(values, classes, np.arange(6) * 10.0, ("red", "nir"))


def test_only_clear_ground_is_hidden_and_the_errors_are_of_it_alone(dates: Dates) -> None:
    rows = score_dates(dates, (*DAYS, "d", "e"), np.random.default_rng(0))
    whole = {row.date: row for row in rows if row.what == WHOLE and row.gap == "15 to 30"}
    assert whole[DAYS[1]].pixels == 64 * 64
    assert sum(row.pixels for row in rows if row.what == WHOLE and row.date == "d") == 64 * 24
    assert {row.gap for row in rows} == {"15 to 30", "without an end"}
    for row in rows:
        assert row.errors[OURS] < 0.03  # cloud is 0.9: none was taken for ground
        assert row.errors["copy of the nearest"] < 0.05
    parts = [row for row in rows if row.what == PARTS]
    assert {row.date for row in parts} == {*DAYS, "d", "e"}
    assert all(TWO in row.errors for row in parts)
    inside = sum(row.pixels for row in parts if row.date == DAYS[0])
    assert inside in (64 * 40, 64 * 24)  # under the clouds of one of the last two
    ours, copied = (np.mean([row.errors[name] for row in parts]) for name in (OURS, "copy of the nearest"))
    assert ours < 0.6 * copied
    assert np.mean([row.expected for row in parts]) == pytest.approx(ours, rel=0.3)


def test_means_are_over_pixels_and_the_table_has_a_line_for_each_length_of_gap() -> None:
    rows = [
        Hidden("a", PARTS, "up to 15", 300, {OURS: 0.01, "median": 0.03}, 0.02),
        Hidden("a", PARTS, "over 60", 100, {OURS: 0.05, "median": 0.03}, 0.05),
        Hidden("b", WHOLE, "up to 15", 10, {OURS: 0.04, "median": 0.08}, 0.02),
    ]
    told = SERIES.summarise(rows, DATASETS["cube"], "test")
    assert told[PARTS]["all"]["mae"] == pytest.approx({OURS: 0.02, "median": 0.03})
    assert told[PARTS]["all"]["expected / true"] == pytest.approx(0.0275 / 0.02)
    assert (told[PARTS]["all"]["pixels"], told[PARTS]["all"]["dates"]) == (400, 1)
    text = "\n".join(SERIES.table(told))
    assert "| over 60 | 100 | 0.0500 | 0.0300 | 1.00 |" in text
    assert "| up to 15 | 10 | 0.0400 | 0.0800 | 0.50 |" in text
    assert (
        list(SERIES.lines(told))[1] == "series, whole dates: MAE attcr cube 0.0400, median 0.0800; expected / true 0.50"
    )


def test_holes_of_a_method_are_left_out_and_said_with_the_cube_on_the_same_pixels(dates: Dates) -> None:
    rows = [
        Hidden("a", PARTS, "up to 15", 300, {OURS: 0.01, TWO: 0.03}, 0.02, {TWO: (100, 0.04)}),
        Hidden("b", PARTS, "up to 15", 100, {OURS: 0.05, TWO: 0.07}, 0.05),
        Hidden("c", PARTS, "up to 15", 100, {OURS: 0.05}, 0.05),
    ]
    told = SERIES.summarise(rows, DATASETS["cube"], "test")[PARTS]["all"]
    assert told["mae"] == pytest.approx({OURS: 0.026, TWO: 0.05})
    assert told["holes"] == {TWO: (200, pytest.approx(0.045))}
    assert "two dates fills 200 pixels, where attcr cube is off by 0.0450." in SERIES.table({PARTS: {"all": told}})
    quarters = np.arange(64) // 16 == np.arange(4)[:, None, None]
    classes = np.where(quarters | (np.arange(64) < 16)[:, None], CLEAR, THICK).astype(np.uint8)
    less = Dates(dates.values[:5], np.concatenate([dates.classes[:1], classes]), dates.days[:5], dates.names)
    row = next(one for one in score_dates(less, (*DAYS, "d"), np.random.default_rng(0)) if one.what == PARTS)
    assert row.pixels == 3 * 16 * 48
    assert row.holes[TWO][0] == 2 * 16 * 48  # the first date, under the clouds of one of the others: two of three show
    assert row.holes[TWO][1] == pytest.approx(row.errors[OURS], rel=0.6)
    assert row.holes[TWO][1] != row.errors[TWO] < 0.05


def test_the_command_scores_a_cube(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from attcr.cubes.write import write_cube

    Drawn().install(monkeypatch.setattr)
    monkeypatch.setattr("attcr.evaluate.series.SIDE", 64)
    write_cube("49.64,16.39,790", tmp_path / "o.zarr", options(memory=2.0))
    given = ["evaluate", "--data", "cube", "--root", str(tmp_path / "o.zarr"), "--out", str(tmp_path / "report")]
    result = CliRunner().invoke(app, given, catch_exceptions=False)
    assert result.stdout.startswith("series, parts: MAE attcr cube 0.00")
    report = json.loads((tmp_path / "report" / "report.json").read_text())
    assert report[PARTS]["all"]["mae"][OURS] < report[PARTS]["all"]["mae"]["copy of the nearest"]
    assert report[WHOLE]["all"]["pixels"] < 4 * 64 * 64  # of 80 x 80 pixels one window: no pixel counts twice
    assert (tmp_path / "report" / "report.md").read_text().startswith("# series on o.zarr, 4 dates\n")
    with pytest.raises(ConfigError, match="give no weights"):
        CliRunner().invoke(app, [*given, "--baseline", "copy"], catch_exceptions=False)
    with pytest.raises(ConfigError, match="cube has no dates to choose pairs of"):
        CliRunner().invoke(app, [*given, "--pair", "a,b"], catch_exceptions=False)
