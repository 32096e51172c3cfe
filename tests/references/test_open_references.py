"""References are opened on the grid of a scene, with its bands."""

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from affine import Affine

from attcr.bands.sensors import SENTINEL2_L2A, SENTINEL2_L2A_N0400
from attcr.errors import AttcrWarning, SceneError
from attcr.references.open import Beside, ReferenceScene, open_references
from attcr.scenes.open import open_scene
from attcr.scenes.scene import Scene
from fake_scenes import UTM, make

VALUES = np.arange(1, 2 * 12 * 16 + 1, dtype=np.uint16).reshape(2, 12, 16)


def write(path: Path, values: np.ndarray = VALUES, names: tuple[str, ...] = ("B04", "B08"), **profile: Any) -> str:
    def named(file: Any) -> None:
        file.descriptions = names
        file.update_tags(PROCESSING_LEVEL="Level-2A", PROCESSING_BASELINE=profile.get("baseline", "02.08"))

    told = {key: value for key, value in profile.items() if key != "baseline"}
    return str(make(path, values, named, **{**UTM, **told}))


@pytest.fixture
def beside(tmp_path: Path) -> Iterator[Beside]:
    with open_scene(write(tmp_path / "S2_20200601.tif", VALUES + 20)) as scene:
        yield Beside(scene, ("red", "nir"), (665.0, 842.0))


def opened(path: str, beside: Beside) -> ReferenceScene:
    (reference,) = open_references([path], "none", beside)
    return reference


@pytest.mark.parametrize(
    ("name", "days"),
    [("S2_20200611.tif", 10), ("S2_20200530.tif", -2), ("untold.tif", None), ("S2_99999999.tif", None)],
)
def test_days_are_counted_from_the_scene_where_a_file_tells_its_day(
    tmp_path: Path, beside: Beside, name: str, days: int | None
) -> None:
    assert opened(write(tmp_path / name), beside).days == days


def test_where_the_scene_does_not_tell_its_day_none_is_counted(tmp_path: Path) -> None:
    with open_scene(write(tmp_path / "untold.tif", VALUES + 20)) as scene:
        one = opened(write(tmp_path / "S2_20200611.tif"), Beside(scene, ("red", "nir"), (665.0, 842.0)))
        assert one.days is None


def test_bands_are_found_by_name_in_the_order_of_the_scene(tmp_path: Path, beside: Beside) -> None:
    three = np.concatenate([VALUES[1:], 7 * VALUES[:1], VALUES[:1]])
    one = opened(write(tmp_path / "a.tif", three, ("B08", "B03", "B04")), beside)
    assert np.array_equal(one.read(2, 5), VALUES[:, 2:5])
    assert [band.name for band in one.bands] == ["B04", "B08"]
    assert (one.height, one.width, one.dtype) == (12, 16, np.dtype(np.uint16))
    unnamed = opened(write(tmp_path / "b.tif", VALUES, ("", "")), beside)
    assert np.array_equal(unnamed.read(0, 12), VALUES)


def test_values_are_of_the_references_own_product(tmp_path: Path, beside: Beside) -> None:
    assert opened(write(tmp_path / "a.tif"), beside).sensor == SENTINEL2_L2A
    assert opened(write(tmp_path / "b.tif", baseline="05.09"), beside).sensor == SENTINEL2_L2A_N0400


def test_on_the_scenes_grid_blank_pixels_are_those_of_the_file(tmp_path: Path, beside: Beside) -> None:
    values = VALUES.copy()
    values[:, 3, 4] = 0
    values[0, 3, 5] = 0
    plain = opened(write(tmp_path / "a.tif", values), beside)
    assert np.argwhere(~plain.valid(plain.read(2, 6), 2, blank=0)).tolist() == [[0, 1, 4], [1, 1, 4]]
    told = opened(write(tmp_path / "b.tif", values, nodata=0), beside)
    assert np.argwhere(~told.valid(told.read(2, 6), 2, blank=0)).tolist() == [[0, 1, 4], [0, 1, 5], [1, 1, 4]]


def test_on_another_grid_it_is_warped_and_ends_where_it_ends(tmp_path: Path, beside: Beside) -> None:
    t = UTM["transform"]
    moved = Affine(t.a, 0, t.c + 3 * t.a, 0, t.e, t.f + 2 * t.e)  # three columns and two rows on
    one = opened(write(tmp_path / "a.tif", transform=moved), beside)
    values = one.read(1, 8)
    valid = one.valid(values, 1, blank=0)
    assert values.dtype == one.dtype == np.float32
    assert np.array_equal(valid[0], valid[1])
    assert not valid[:, 0].any()  # row 1 lies above it
    assert not valid[:, :, :3].any()
    assert valid[:, 1:, 3:].all()
    assert np.allclose(values[:, 1:, 3:], VALUES[:, :6, :13], atol=0.01)


@pytest.mark.parametrize("crs", [None, UTM["crs"]])
def test_a_grid_of_another_size_needs_a_crs(tmp_path: Path, beside: Beside, crs: Any) -> None:
    small = write(tmp_path / "small.tif", VALUES[:, :6], crs=crs)
    if crs is None:
        with pytest.raises(
            SceneError, match=r"small\.tif cannot be used: .* \(16 x 6\) does not fit the scene \(16 x 12\)"
        ):
            open_references([small], "none", beside)
    else:
        one = opened(small, beside)
        assert not one.valid(one.read(0, 12), 0)[:, 6:].any()
        assert np.allclose(one.read(0, 6), VALUES[:, :6], atol=0.01)


def test_what_was_opened_is_closed_where_another_one_is_refused(
    tmp_path: Path, beside: Beside, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[str] = []
    close = Scene.close
    monkeypatch.setattr(Scene, "close", lambda self: (closed.append(Path(self.source).name), close(self)))
    good, bad = write(tmp_path / "good.tif"), write(tmp_path / "bad.tif", VALUES[:1], ("B04",))
    with pytest.raises(SceneError, match=r"bad\.tif cannot be used: its bands are B04, and the scene's red nir"):
        open_references([good, bad], "none", beside)
    assert sorted(closed) == ["bad.tif", "good.tif"]


def test_the_scene_itself_and_copies_of_it_are_left_out_and_alone_they_are_refused(
    tmp_path: Path, beside: Beside
) -> None:
    own = str(tmp_path / "S2_20200601.tif")
    coded = write(tmp_path / "S2_20200609.tif", VALUES + 1020, baseline="05.09")  # the same reflectance
    holes = write(tmp_path / "S2_20200608.tif", np.where(VALUES % 192 == 100, 0, VALUES + 20).astype(np.uint16))
    other = write(tmp_path / "S2_20200611.tif")
    for same in (own, coded, holes):
        with pytest.raises(SceneError, match="is the scene itself and shows nothing under its clouds: give others"):
            open_references([same], "none", beside)
        with pytest.warns(AttcrWarning, match=f"{Path(same).name} is the scene itself: it is left out") as said:
            (left,) = open_references([same, other], "none", beside)
        assert len(said) == 1
        assert left.days == 10
    one = VALUES + 20
    one[0, 6, 6] += 1  # a single number more
    assert opened(write(tmp_path / "S2_20200612.tif", one), beside).days == 11


def test_each_is_opened_once_and_the_order_makes_no_difference(tmp_path: Path, beside: Beside) -> None:
    days = {"S2_20200630.tif": 29, "S2_20200603.tif": 2, "S2_20200530.tif": -2, "untold.tif": None}
    hrefs = [write(tmp_path / name) for name in days]
    (tmp_path / "link.tif").symlink_to(tmp_path / "S2_20200603.tif")
    for given in (hrefs, hrefs[::-1], [*hrefs, str(tmp_path / "link.tif"), hrefs[0]]):
        assert [one.days for one in open_references(given, "none", beside)] == [-2, 2, 29, None]


def test_a_coarser_reference_is_told(tmp_path: Path, beside: Beside) -> None:
    t = UTM["transform"]
    for times, told in ((1.4, False), (3, True)):
        wide = write(tmp_path / f"{times}.tif", transform=t * Affine.scale(times))
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            opened(wide, beside)
        assert [str(one.message).endswith("what it fills shows less detail.") for one in said] == [True] * told
    assert "has pixels 3.0 times as wide" in str(said[0].message)
