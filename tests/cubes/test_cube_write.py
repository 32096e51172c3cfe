"""Cubes that are written, continued and brought up to date."""

import json
import shutil
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from scipy.ndimage import distance_transform_edt

import attcr
from attcr.cubes import write as writing
from attcr.cubes.fill import Dates, Filled
from attcr.cubes.icechunk import history, opened
from attcr.cubes.plan import make_plan
from attcr.cubes.seams import RAMP
from attcr.cubes.write import CubeResult, write_cube
from attcr.errors import ConfigError, SceneError
from attcr.restore.walk import FROM_DATE, ORIGINAL
from fake_cubes import DAYS, HERE, Drawn, contents, options


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> Drawn:
    made = Drawn()
    made.install(monkeypatch.setattr)
    return made


def make(target: Path, *, update: bool = False, **more: Any) -> CubeResult:
    return write_cube(HERE, target, options(**more), update=update)


def numbers(target: Path) -> xr.Dataset:
    """A cube's numbers as they are stored."""
    from attcr.cubes.icechunk import Repository, _storage

    store = Repository.open(_storage(str(target))).readonly_session("main").store
    return xr.open_zarr(store, consolidated=False, mask_and_scale=False).load()


def test_clear_pixels_keep_their_numbers_and_filled_ones_say_from_where(drawn: Drawn, tmp_path: Path) -> None:
    result = make(tmp_path / "o.zarr")
    made, grid = numbers(tmp_path / "o.zarr"), make_plan(HERE, options()).grid
    assert [made[name].dtype for name in ("red", "quality", "source", "days", "error")] == [
        "uint16", "uint8", "int16", "int16", "uint16",
    ]  # fmt: skip
    clear = np.stack([~drawn.cloudy(day, grid) for day in range(4)])
    assert ((made["quality"] == ORIGINAL).values == clear).all()
    assert ((made["quality"] == FROM_DATE).values == ~clear).all()
    bands = np.stack([made[name].values for name in ("red", "green", "blue")], axis=1)
    truth = np.stack([drawn.numbers(day, grid, 3) for day in range(4)])
    assert (bands == truth).transpose(0, 2, 3, 1)[clear].all()
    source, days = made["source"].values, made["days"].values
    own = np.arange(4)[:, None, None]
    assert (np.where(clear, source == own, source != own)).all()
    assert np.take_along_axis(clear, source.astype(int), axis=0).all()  # each source saw the ground
    assert (days == 10 * (source - own)).all()
    apart = np.abs(bands - truth.astype(int)).transpose(0, 2, 3, 1)[~clear]
    assert apart.max() <= 3 * drawn.tone  # the ground of another day, and no cloud of 9000
    assert result.pixels["original"] == clear.sum()
    assert result.pixels["from another date"] == (~clear).sum()


def test_a_filled_pixel_has_the_number_of_its_source(drawn: Drawn, tmp_path: Path) -> None:
    drawn.tone = 0  # all days in one tone, so no correction can hide where a pixel is from
    make(tmp_path / "o.zarr")
    made, grid = numbers(tmp_path / "o.zarr"), make_plan(HERE, options()).grid
    truth = drawn.numbers(0, grid, 3)
    for i, name in enumerate(("red", "green", "blue")):
        assert (np.abs(made[name].values - truth[i].astype(int)) <= 1).all()


def test_pixels_near_cloud_are_filled_too(drawn: Drawn, tmp_path: Path) -> None:
    make(tmp_path / "o.zarr", dilate=3)
    made, grid = numbers(tmp_path / "o.zarr"), make_plan(HERE, options()).grid
    margin = grid.part(-8, -8, 176, 176)  # cloud beyond the cube is near too
    for day in range(4):
        away = distance_transform_edt(~drawn.cloudy(day, margin))[8:-8, 8:-8]
        assert ((made["quality"][day].values == ORIGINAL) == (away > 3)).all()


def test_xarray_opens_it_with_axes_reflectance_and_place(drawn: Drawn, tmp_path: Path) -> None:
    make(tmp_path / "o.zarr")
    there, plan = attcr.open_cube(tmp_path / "o.zarr"), make_plan(HERE, options())
    assert list(there.data_vars)[:3] == ["red", "green", "blue"]
    assert there["time"].values.astype("datetime64[D]").astype(str).tolist() == list(DAYS)
    assert there["x"].values[0] == plan.grid.bounds[0] + 5
    assert there["y"].values[-1] == plan.grid.bounds[1] + 5
    stored = numbers(tmp_path / "o.zarr")["red"].values
    assert there["red"].values == pytest.approx(stored * 1e-4)
    assert there["red"].encoding["chunks"] == (1, 64, 64)
    assert there["red"].dtype == there["error"].dtype == np.float32
    there.to_zarr(tmp_path / "copy.zarr", consolidated=False)
    copied = xr.open_zarr(tmp_path / "copy.zarr", consolidated=False, mask_and_scale=False)
    assert copied["red"].dtype == np.uint16
    assert (copied["red"].values == stored).all()
    assert there.attrs["proj:code"] == "EPSG:32633" in there["spatial_ref"].attrs["crs_wkt"].replace('","', ":")
    assert there.attrs["spatial:transform"] == list(plan.grid.transform)[:6]
    assert there["quality"].attrs["flag_meanings"].split()[FROM_DATE] == "from_another_date"


def test_the_item_beside_it_names_axes_and_variables(drawn: Drawn, tmp_path: Path) -> None:
    import pystac

    make(tmp_path / "o.zarr")
    told = json.loads((tmp_path / "o.json").read_text())
    item = pystac.Item.from_dict(told)
    assert item.properties["cube:dimensions"]["time"]["values"][0] == "2024-05-01T10:00:00Z"
    assert set(item.properties["cube:variables"]) == {"red", "green", "blue", "quality", "source", "days", "error"}
    assert item.assets["cube"].href == "./o.zarr"


def test_the_lazy_cube_is_the_written_one(drawn: Drawn, tmp_path: Path) -> None:
    make(tmp_path / "o.zarr")
    drawn.loads = 0
    lazy = attcr.cube(HERE, DAYS[0], DAYS[-1], bands="red,green,blue", memory=0.525, dilate=0)
    assert drawn.loads == 0
    xr.testing.assert_identical(lazy.compute(), attcr.open_cube(tmp_path / "o.zarr").compute())
    drawn.loads = 0
    lazy["red"].isel(x=slice(0, 60), y=slice(70, 90)).compute()
    assert drawn.loads == 2 * 4  # of four days, one block and the one above, which goes on into it


def test_the_size_of_blocks_decides_no_class_and_next_to_nothing_of_the_numbers(drawn: Drawn, tmp_path: Path) -> None:
    make(tmp_path / "small.zarr")
    make(tmp_path / "whole.zarr", memory=2.0)
    small, whole = (attcr.open_cube(tmp_path / f"{name}.zarr") for name in ("small", "whole"))
    assert whole["red"].encoding["chunks"] == (1, 160, 160)
    assert (small["quality"].values == whole["quality"].values).all()
    for name in ("red", "green", "blue"):
        assert np.abs(small[name].values - whole[name].values).max() < 5e-4, name  # days differ by 1e-3


def test_no_edge_of_a_block_is_seen_in_what_is_filled(
    drawn: Drawn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    levels = iter(0.1 + 0.05 * np.random.default_rng(0).permutation(9))

    def flat(dates: Dates, wanted: Sequence[int]) -> Filled:
        """Fill every block with a tone of its own."""
        seen, values = dates.seen[list(wanted)], dates.values[list(wanted)]
        nothing, level = np.zeros(seen.shape, np.float32), np.float32(next(levels))
        quality = np.where(seen, ORIGINAL, FROM_DATE).astype(np.uint8)
        return Filled(np.where(seen[:, None], values, level), quality, nothing.astype(np.int16), nothing, nothing)

    monkeypatch.setattr("attcr.cubes.block.fill", flat)
    make(tmp_path / "o.zarr")
    made = numbers(tmp_path / "o.zarr")
    red, filled = made["red"].values.astype(int), made["quality"].values == FROM_DATE
    assert np.ptp(red[filled]) > 2000  # blocks differ by 500 to 4000
    for axis in (1, 2):
        steps = np.abs(np.diff(red, axis=axis))
        both = np.diff(filled, axis=axis) == 0
        both &= np.take(filled, range(159), axis=axis)
        assert steps[both].max() <= 4000 / RAMP + 1


def test_readers_see_nothing_before_it_is_whole_and_a_resume_gives_the_same_bytes(
    drawn: Drawn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "COMMIT_SECONDS", 0.0)
    make(tmp_path / "right.zarr")
    seen = []

    def stop(stage: str, done: int, total: int, megapixels: float) -> None:
        seen.append((done, total, bool(contents(tmp_path / "o.zarr"))))
        if done == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_cube(HERE, tmp_path / "o.zarr", options(), progress=stop)
    assert seen == [(done, 9, False) for done in range(1, 7)]
    with pytest.raises(SceneError, match="not finished"):
        attcr.open_cube(tmp_path / "o.zarr")
    with pytest.raises(ConfigError, match="another options"):
        make(tmp_path / "o.zarr", most_cloud=50.0)
    drawn.loads = 0
    result = make(tmp_path / "o.zarr")
    assert drawn.loads == (3 + 3) * 4  # the blocks that were missing, and those above, which go on into them
    assert contents(tmp_path / "o.zarr") == contents(tmp_path / "right.zarr")
    assert sum(result.pixels.values()) == 4 * 160 * 160  # the first run's too
    assert [one.message for one in history(tmp_path / "o.zarr")] == ["4 dates filled: 2024-05-01 to 2024-05-31"]


def test_what_was_killed_at_the_very_end_or_beginning_is_taken_up(drawn: Drawn, tmp_path: Path) -> None:
    make(tmp_path / "right.zarr")
    target = tmp_path / "o.zarr"
    target.mkdir()
    shutil.copytree(tmp_path / "right.zarr" / "snapshots", target / "snapshots")  # made, but no branch yet
    make(target)
    assert contents(target) == contents(tmp_path / "right.zarr")
    with opened(str(target)) as repository:  # shown to readers, but the branch of the work is still there
        repository.create_branch("unfinished", repository.lookup_branch("main"))
    with pytest.raises(ConfigError, match="has a cube already"):
        make(target)
    assert make(target, update=True).added == 0


def test_an_update_is_one_commit_that_changes_only_what_a_nearer_date_shows(drawn: Drawn, tmp_path: Path) -> None:
    drawn.days = DAYS[:3]
    make(tmp_path / "o.zarr")
    old = numbers(tmp_path / "o.zarr")
    first = history(tmp_path / "o.zarr")[0].snapshot
    drawn.days, drawn.loads = DAYS, 0
    result = make(tmp_path / "o.zarr", update=True)
    assert drawn.loads == 9  # the new date alone is read, once a block
    new, grid = numbers(tmp_path / "o.zarr"), make_plan(HERE, options()).grid
    assert (result.dates, result.added) == (4, 1)
    clear = np.stack([~drawn.cloudy(day, grid) for day in range(4)])
    source = old["source"].values
    own = np.arange(3)[:, None, None]
    nearer = (old["quality"].values == FROM_DATE) & clear[3] & (3 - own < np.abs(source - own))
    assert nearer.any()
    assert result.refilled == nearer.sum()
    for name in ("red", "green", "blue", "quality", "source", "days", "error"):
        assert (new[name].values[:3] == old[name].values)[~nearer].all(), name
    assert np.take_along_axis(clear, new["source"].values.astype(int), axis=0).all()  # each source saw the ground
    assert (new["source"].values[:3][nearer] == 3).any()
    assert (new["quality"].values[3] == np.where(clear[3], ORIGINAL, FROM_DATE)).all()
    states = history(tmp_path / "o.zarr")
    assert [one.message for one in states] == [
        f"1 date added: 2024-05-31; {nearer.sum():,} pixels of earlier dates filled anew",
        "3 dates filled: 2024-05-01, 2024-05-11, 2024-05-21",
    ]
    assert (attcr.open_cube(tmp_path / "o.zarr", first)["red"].sizes["time"], new.sizes["acquisition"]) == (3, 4)
    assert make(tmp_path / "o.zarr", update=True).added == 0  # nothing new
    assert history(tmp_path / "o.zarr") == states


def test_an_update_is_as_near_to_the_ground_as_a_cube_made_at_once(drawn: Drawn, tmp_path: Path) -> None:
    make(tmp_path / "at_once.zarr")
    drawn.days = DAYS[:3]
    make(tmp_path / "o.zarr")
    drawn.days = DAYS
    make(tmp_path / "o.zarr", update=True)
    grown, whole = numbers(tmp_path / "o.zarr"), numbers(tmp_path / "at_once.zarr")
    assert (grown["quality"].values == whole["quality"].values).all()
    filled = whole["quality"].values == FROM_DATE
    truth = np.stack([drawn.numbers(day, make_plan(HERE, options()).grid, 3)[0] for day in range(4)]).astype(int)
    off, least = (np.abs(one["red"].values - truth)[filled].mean() for one in (grown, whole))
    assert least < 1 < off < drawn.tone / 2  # of what was not refilled


def test_two_runs_at_once_one_wins_and_the_other_says_so(drawn: Drawn, tmp_path: Path) -> None:
    told: list[str] = []

    def other(stage: str, done: int, total: int, megapixels: float) -> None:
        if done == 2:
            try:
                make(tmp_path / "o.zarr")
            except SceneError as error:
                told.append(str(error))

    write_cube(HERE, tmp_path / "o.zarr", options(), progress=other)
    assert len(told) == 1
    assert "is being written by another run" in told[0]
    assert len(history(tmp_path / "o.zarr")) == 1


def test_where_nothing_locks_the_first_commit_counts(
    drawn: Drawn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "COMMIT_SECONDS", 0.0)
    from contextlib import nullcontext

    monkeypatch.setattr("attcr.cubes.icechunk.held", lambda *_: nullcontext())  # as in a bucket
    begun, told = threading.Event(), []

    def other(stage: str, done: int, total: int, megapixels: float) -> None:
        if done == 2 and not begun.is_set():
            begun.set()
            make(tmp_path / "o.zarr")  # a second run takes it up and ends it meanwhile

    try:
        write_cube(HERE, tmp_path / "o.zarr", options(), progress=other)
    except SceneError as error:
        told.append(str(error))
    assert len(told) == 1
    make(tmp_path / "right.zarr")
    assert contents(tmp_path / "o.zarr") == contents(tmp_path / "right.zarr")


def test_a_folder_with_other_files_is_left_alone(drawn: Drawn, tmp_path: Path) -> None:
    (tmp_path / "o.zarr").mkdir()
    (tmp_path / "o.zarr" / "thesis.tex").write_text("all of it")
    with pytest.raises(ConfigError, match="other files"):
        make(tmp_path / "o.zarr")
    with pytest.raises(ConfigError, match="s3://BUCKET/NAME"):
        make("ftp://a.org/o.zarr")  # type: ignore[arg-type]
    assert [path.name for path in (tmp_path / "o.zarr").iterdir()] == ["thesis.tex"]
