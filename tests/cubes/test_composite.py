"""Composites: one image of a season from all its dates."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from typer.testing import CliRunner

import attcr
from attcr.cli import app
from attcr.cubes import composite as composing
from attcr.cubes.composite import CompositeOptions
from attcr.cubes.search import NothingFoundError
from attcr.cubes.season import Shown, best, level, medoid, merge
from attcr.errors import AttcrWarning, ConfigError
from fake_cubes import CLOUDS, DAYS, HERE, Drawn, archive, cloudy, place

EVERY_DAY = ((slice(30, 34), slice(0, 4)),)
"""Cells of 20 m that no date shows."""


def shown(values: Any, seen: Any = None, inside: Any = None, spread: Any = None) -> Shown:
    """Pixels (T, C, n) as all dates show them."""
    given = np.asarray(values, np.float32)
    count, _, pixels = given.shape
    told = np.ones((count, pixels), bool) if seen is None else np.asarray(seen, bool)
    near = np.ones(told.shape, np.float32) if inside is None else np.asarray(inside, np.float32)
    return Shown(given, given, told, near, np.asarray([0.0] * count if spread is None else spread, np.float32))


LINE = [[[0.1], [0.1]], [[0.2], [0.2]], [[0.24], [0.2]], [[0.7], [0.1]], [[0.22], [0.2]]]
"""Five dates of a pixel in two bands; the last is in the middle of the second and the third."""


def test_the_medoid_has_the_least_sum_of_distances() -> None:
    given = shown(LINE)
    off = given.values[:, None, :, 0] - given.values[None, :, :, 0]
    total = np.sqrt((off**2).sum(-1)).sum(1)
    assert medoid(given)[:, 0].tolist() == [0, 0, 0, 0, 1] == (total == total.min()).tolist()
    assert medoid(shown(LINE, [[1], [1], [0], [1], [0]]))[:, 0].tolist() == [0, 1, 0, 0, 0]
    hidden = shown([[[one]] for one in (0.1, 0.2, 0.24, 0.1, 0.1)], [[1], [1], [1], [0], [0]])
    assert medoid(hidden)[:, 0].tolist() == [0, 1, 0, 0, 0]


def test_of_two_dates_the_one_that_is_more_like_the_season_is_the_medoid() -> None:
    for spread in ([0.01, 0.02], [0.02, 0.01]):
        assert medoid(shown(LINE[:2], spread=spread))[:, 0].argmax() == int(np.argmin(spread))


def test_the_geometric_median_is_the_point_that_is_known() -> None:
    triangle = [[[0.1], [0.1]], [[0.3], [0.1]], [[0.2], [0.1 + 0.1 * 3**0.5]]]
    square = [[[0.1], [0.1]], [[0.5], [0.5]], [[0.1], [0.4]], [[0.3], [0.2]]]  # its diagonals cross at 0.25, 0.25
    for points, known in ((triangle, (0.2, 0.1 + 0.1 / 3**0.5)), (square, (0.25, 0.25))):
        made = merge(shown(points), np.arange(len(points), dtype=float), "geomedian")
        assert made.values[:, 0] == pytest.approx(known, abs=2e-4)
    assert merge(shown(triangle), np.array([3.0, 6.0, 9.0]), "geomedian").days == pytest.approx([6.0], abs=0.01)


def test_the_best_date_is_like_the_season_and_far_from_its_cloud() -> None:
    pixel = [[[0.1]], [[0.2]]]
    assert best(shown(pixel, spread=[0.01, 0.02]))[:, 0].tolist() == [1, 0]
    assert best(shown(pixel, inside=[[0.3], [1.0]], spread=[0.01, 0.02]))[:, 0].tolist() == [0, 1]
    assert best(shown(pixel, seen=[[0], [1]], spread=[0.01, 0.02]))[:, 0].tolist() == [0, 1]


@pytest.mark.parametrize("method", ["medoid", "geomedian", "best"])
def test_the_order_of_the_dates_changes_nothing(method: str) -> None:
    draw = np.random.default_rng(0)
    values, seen = draw.uniform(0, 0.5, (6, 3, 200)), draw.random((6, 200)) < 0.6
    given = (values, seen, draw.random((6, 200)), draw.uniform(0.01, 0.02, 6))
    days, order = np.arange(6.0), draw.permutation(6)
    one = merge(shown(*given), days, method)
    other = merge(shown(*(part[order] for part in given)), days[order], method)
    for mine, yours in zip(one, other, strict=True):
        assert mine == pytest.approx(yours, abs=2e-5, nan_ok=True)


def test_the_error_is_the_distance_of_the_other_dates_and_one_more() -> None:
    values = [[[0.2, 0.2]], [[0.3, 0.9]], [[0.2, 0.9]]]
    made = merge(shown(values, [[1, 1], [1, 0], [1, 0]], spread=[0.04, 0.04, 0.04]), np.zeros(3), "medoid")
    assert made.values[0].tolist() == [np.float32(0.2)] * 2
    assert made.error == pytest.approx([(0.1 + 0.0 + 0.04) / 3, 0.04])
    assert made.dates.tolist() == [3, 1]
    given = shown(values, [[1, 1], [1, 0], [1, 0]])
    moved = given._replace(came=given.came + np.float32(0.1))  # what is told is how far dates were before levelling
    assert merge(moved, np.zeros(3), "medoid").error == pytest.approx([(0.2 + 0.1) / 3, 0])


def test_what_no_date_shows_is_not_known() -> None:
    made = merge(shown(LINE, [[0]] * 5), np.zeros(5), "geomedian")
    assert (made.dates == 0).all()
    assert all(np.isnan(one).all() for one in (made.values, made.days, made.error))


def test_dates_of_other_tones_are_levelled() -> None:
    draw = np.random.default_rng(0)
    ground = draw.uniform(0.05, 0.4, (3, 96, 96)).astype(np.float32)
    tones = [(1.0, 0.0), (0.8, 0.03), (1.2, -0.01), (1.0, 0.05), (0.9, 0.0)]
    values = np.stack([gain * ground + plus for gain, plus in tones]).astype(np.float32)
    values[draw.random((5, 1, 96, 96)).repeat(3, 1) < 0.1] = np.nan
    levels = level(values)
    rows, cols = np.indices((96, 96)).reshape(2, -1)
    made = np.stack([levels(at, one.reshape(3, -1), rows, cols) for at, one in enumerate(values)])
    before, after = (np.nanmean(np.nanmax(one, 0) - np.nanmin(one, 0)) for one in (values, made))
    assert after < 0.1 * before
    assert levels.spread[1] == pytest.approx(np.nanmean(np.abs(values[1] - np.nanmedian(values, 0))), rel=0.2)


def run(*arguments: object) -> Any:
    """Run the command, and give what it prints as JSON."""
    result = CliRunner().invoke(app, ["composite", "--json", "--progress", "none", *map(str, arguments)])
    if result.exception:
        raise result.exception
    return json.loads(result.stdout)["composites"]


def test_one_command_gives_a_composite(tmp_path: Path) -> None:
    out = tmp_path / "o.tif"
    given = (place(), out, "--from", DAYS[0], "--to", DAYS[-1], "--bands", "red,green,blue", "--dilate", 0)
    clouds = [(*some, *EVERY_DAY) for some in CLOUDS]
    with archive(tmp_path / "archive", DAYS, clouds) as made, made.source() as source:
        (plan,) = run(*given, "--source", source, "--dry-run")
        assert not out.exists()
        assert len(plan["acquisitions"]) == 4
        (told,) = run(*given, "--source", source)
        (again,) = run(*given, "--source", source)
        with pytest.raises(ConfigError, match="another options"):
            run(*given, "--source", source, "--method", "best")
    with rasterio.open(out) as file:
        values, names, scales = file.read(), file.descriptions, file.scales
        assert file.nodata == 0
    assert names == ("red", "green", "blue", "count", "day", "error")
    assert scales == (1e-4, 1e-4, 1e-4, 1.0, 1.0, 1e-4)
    assert again["seen"] == told["seen"] == pytest.approx((values[3] > 0).mean())
    hidden = np.stack([cloudy(day) for day in range(4)]).copy()
    hidden[:, 60:68, 0:8] = True
    count = (~hidden).sum(axis=0)
    shift = _shift(out)
    inner = np.s_[4:124, 4:124]
    rows, cols = (np.arange(4, 124) + one for one in shift)
    assert (values[3][inner] == count[np.ix_(rows, cols)]).all()
    never = (count == 0)[np.ix_(rows, cols)]
    assert never.any()
    assert (values[:, 4:124, 4:124][:, never] == 0).all()
    days = {np.datetime64(day).astype(int).item() for day in DAYS}
    assert set(np.unique(values[4][inner][~never]).tolist()) <= days
    assert values[0].max() < 8000  # cloud is 9000


def _shift(path: Path) -> tuple[int, int]:
    """Rows and columns from a raster to the files of the archive."""
    from fake_scenes import UTM

    t = UTM["transform"]
    with rasterio.open(path) as file:
        return round((file.transform.f - t.f) / t.e), round((file.transform.c - t.c) / t.a)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> Drawn:
    made = Drawn()
    made.install(monkeypatch.setattr)
    monkeypatch.setattr(composing, "load", made.load)
    return made


def make(target: Path, last: str = DAYS[-1], **more: Any) -> list[composing.CompositeResult]:
    given = {"bands": "red,green,blue", "memory": 0.52, "dilate": 0, **more}
    return attcr.composite(HERE, target, DAYS[0], last, **given)


@pytest.mark.parametrize("method", ["medoid", "geomedian", "best"])
def test_a_stopped_run_goes_on_to_equal_bytes(drawn: Drawn, tmp_path: Path, method: str) -> None:
    whole, target = tmp_path / "whole.tif", tmp_path / "o.tif"
    make(whole, method=method)

    def stop(stage: str, done: int, total: int, megapixels: float) -> None:
        assert (stage, total) == ("composite", 4)
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make(target, method=method, progress=stop)
    assert not target.exists()
    loads = drawn.loads
    make(target, method=method)
    assert drawn.loads - loads == 4 * (1 + 2)  # the coarse image, and the blocks that were left
    assert target.read_bytes() == whole.read_bytes()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_no_edge_of_a_block_shows(drawn: Drawn, tmp_path: Path) -> None:
    make(tmp_path / "blocks.tif")
    make(tmp_path / "whole.tif", memory=1.0)
    one, other = (rasterio.open(tmp_path / f"{name}.tif").read() for name in ("blocks", "whole"))
    assert (one == other).all()


def test_a_series_has_a_file_for_each_part_of_which_there_is_anything(drawn: Drawn, tmp_path: Path) -> None:
    drawn.days = ("2024-05-01", "2024-05-11", "2024-07-03")

    def search(source: Any, box: Any, first: Any, last: Any, *_: Any, **__: Any) -> Any:
        some = [one for one in Drawn.search(drawn) if first <= one.taken <= last]
        if not some:
            raise NothingFoundError("mine has nothing of this place")
        return some

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("attcr.cubes.plan.search", search)
        with pytest.warns(AttcrWarning, match="o_2024-06-01.tif is left out"):
            made = make(tmp_path / "o.tif", "2024-07-10", every="1mo")
    assert [Path(one.target).name for one in made] == ["o_2024-05-01.tif", "o_2024-07-01.tif"]
    assert [one.dates for one in made] == [2, 1]


@pytest.mark.parametrize(
    ("every", "firsts", "last"),
    [
        ("1mo", ["2023-12-15", "2024-01-15", "2024-02-15"], "2024-01-14"),
        ("30d", ["2023-12-15", "2024-01-14", "2024-02-13"], "2024-01-13"),
        (None, ["2023-12-15"], "2024-02-20"),
    ],
)
def test_the_parts_of_a_period_follow_each_other(every: str | None, firsts: list[str], last: str) -> None:
    parts = list(CompositeOptions("2023-12-15", "2024-02-20", every=every).parts)
    assert [one.first for one in parts] == firsts
    assert (parts[0].last, parts[-1].last) == (last, "2024-02-20")


def test_what_cannot_be_is_said_before_anything_is_read(drawn: Drawn, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="`method` is 'mean'"):
        make(tmp_path / "o.tif", method="mean")
    with pytest.raises(ConfigError, match="`every` is 'month'"):
        make(tmp_path / "o.tif", every="month")
    with pytest.raises(ConfigError, match=r"no \.tif"):
        make(tmp_path / "o.png")
    assert drawn.loads == 0
