import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from attcr.cli import app
from attcr.errors import ConfigError, DataNotFoundError
from attcr.evaluate.gaps import OURS, draw_gap, evaluate_gaps, score_window
from fake_dates import ground
from fake_scenes import make


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


def test_errors_are_of_the_gap_alone() -> None:
    target = ground(256, 256)
    gap = draw_gap((256, 256), 0.3, np.random.default_rng(1))
    other = np.where(gap, target + np.float32(0.05), target)
    scored = score_window(target, other, gap, np.ones(gap.shape, bool))
    assert abs(scored.errors["copied"] - 0.05) < 1e-5
    assert scored.ndvi == {}


def test_what_is_not_there_is_named(dates: Path, tmp_path: Path) -> None:
    with pytest.raises(DataNotFoundError, match=r"2021-01-01\.tif"):
        evaluate_gaps(dates, tmp_path, pairs=[("2020-01-01", "2021-01-01")])
    with pytest.raises(DataNotFoundError, match="0 dates"):
        evaluate_gaps(tmp_path, tmp_path / "out")
    run = CliRunner().invoke(
        app, ["evaluate", "--data", "rice1", "--root", str(dates), "--protocol", "gap-fill", "--out", str(tmp_path)]
    )
    assert isinstance(run.exception, ConfigError)
