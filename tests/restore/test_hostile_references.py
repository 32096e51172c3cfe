"""References that show nothing of the ground fill nothing, and each is named; good ones are never refused."""

import json
import warnings
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from affine import Affine
from test_filler import OtherDay

from attcr.bands.sensors import SENTINEL2_L1C
from attcr.errors import AttcrWarning, SceneError
from attcr.evaluate.gaps import draw_gap
from attcr.references.correct import Corrector
from attcr.references.harmonise import Float32
from attcr.restore import RestoreOptions, RestoreResult, restore_scene
from attcr.restore.array import ArrayRows
from attcr.restore.filler import Filler
from attcr.restore.walk import CLOUD_LEFT, FROM_DATE
from attcr.scenes.clouds.rim import CloudMap, Rim
from fake_dates import ground
from fake_scenes import UTM, make, read

NAMES = ("B02", "B03", "B04", "B08")
CLEAR_DATES = ("02-10", "04-26", "05-31", "06-10", "06-25", "07-20", "08-09", "09-03", "09-28")


class Place:
    """A scene under a cloud, the truth under it, and a good reference, all in reflectance."""

    def __init__(self, folder: Path, truth: np.ndarray, good: np.ndarray) -> None:
        self.folder, self.truth, self.good = folder, truth, good
        row, col = np.indices(truth.shape[1:])
        self.gap = (row - 48) ** 2 + (col - 48) ** 2 < 20**2
        self.scene = self.write("S2_20180610", np.where(self.gap, 0.8, truth))
        self.mask = make(folder / "mask.tif", self.gap[None].astype(np.uint8), **UTM)

    def write(self, name: str, values: np.ndarray, *, coded: bool = True, **profile: Any) -> Path:
        def named(file: Any) -> None:
            file.descriptions = NAMES

        numbers = np.rint(values * 10_000).clip(0, 65535).astype(np.uint16) if coded else values.astype(np.float32)
        return make(self.folder / f"{name}.tif", numbers, named, **{**UTM, **profile})

    def restore(self, *references: Path, name: str = "out") -> tuple[RestoreResult, list[str]]:
        options = RestoreOptions(
            mask=str(self.mask),
            sensor="s2-l1c",
            references=tuple(map(str, references)),
            reference_mask="none",
            reference_fill="classical",
        )
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", AttcrWarning)
            result = restore_scene(self.scene, self.folder / f"{name}.tif", "none", options=options, overwrite=True)
        return result, [str(one.message) for one in said if str(one.message).startswith("The reference")]

    def error(self, result: RestoreResult) -> float:
        return float(np.abs(read(result.target) / 10_000 - self.truth)[:, self.gap].mean())


def made_up(folder: Path) -> Place:
    truth = ground(96, 96, 4)
    noise = np.random.default_rng(7).normal(0, 0.004, truth.shape)
    return Place(folder, truth, truth[[1, 2, 3, 0]] * 0.3 + truth * 0.5 + 0.03 + noise)


def real(folder: Path, series: Path) -> Place:
    first, second = (read(series / f"2018-{day}.tif")[[1, 2, 3, 7], 80:176, 80:176] for day in ("06-10", "06-25"))
    return Place(folder, first / 10_000, second / 10_000)


@pytest.fixture(params=["made up", "real"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "made up":
        return made_up(tmp_path)
    return real(tmp_path, request.getfixturevalue("shared_data") / "s2" / "series_l1c_roi146")


def hostile(good: np.ndarray) -> dict[str, np.ndarray]:
    """References of which nothing may be filled."""
    draw = np.random.default_rng(0)
    return {
        "constant": np.full_like(good, 0.3),
        "noise": draw.uniform(0, 1, good.shape),
        "upside down": good[:, ::-1],
        "10 px beside": np.roll(good, (10, 10), (1, 2)),
        "40 px beside": np.roll(good, (40, 40), (1, 2)),
        "saturated": np.full_like(good, 6.5535),
        "under cloud": 0.7 + draw.normal(0, 0.03, good.shape),
        "empty": np.zeros_like(good),
    }


@pytest.mark.parametrize("kind", sorted(hostile(np.zeros((1, 2, 2)))))
def test_a_reference_that_shows_nothing_of_the_ground_fills_nothing_and_is_named(place: Place, kind: str) -> None:
    shown = place.write("hostile", hostile(place.good)[kind])
    result, said = place.restore(shown)
    quality = read(result.quality)[0]
    assert set(quality[place.gap]) == {CLOUD_LEFT}
    assert np.array_equal(read(result.target), read(place.scene))
    assert any("hostile.tif fills nothing" in one or "hostile.tif could not be checked" in one for one in said)
    told = json.loads(result.item.read_text())["properties"]["attcr:references"][0]
    assert told["pixels"] == told["share"] == told["weight"] == 0


def test_beside_a_good_reference_a_hostile_one_changes_nothing(place: Place) -> None:
    good = place.write("good_20180625", place.good)
    alone, _ = place.restore(good)
    for kind in ("constant", "upside down"):
        both, said = place.restore(good, place.write("hostile_20180609", hostile(place.good)[kind]), name="both")
        assert np.array_equal(read(both.target), read(alone.target))
        assert [one["method"] == "refused" for one in both.references] == [True, False]
        assert [one["weight"] for one in both.references] == [0, 1]
        assert any("hostile_20180609.tif fills nothing: its fine detail agrees by" in one for one in said)
        dates = read(place.folder / "both_dates.tif")[:, place.gap]
        assert np.array_equal(np.unique(dates, axis=1)[:, 0], [15, 2, 1, 0, 10_000])


@pytest.mark.parametrize("value", [1e36, 1e10, -9999.0, np.inf])
def test_one_pixel_that_no_ground_reflects_has_no_effect_far_away(place: Place, value: float) -> None:
    clean, _ = place.restore(place.write("clean", place.good, coded=False))
    spoilt = place.good.astype(np.float32)
    spoilt[:, 90, 5] = value
    result, said = place.restore(place.write("spoilt", spoilt, coded=False), name="spoilt_out")
    assert place.error(result) < 1.05 * place.error(clean)
    assert set(read(result.quality)[0][place.gap]) == {FROM_DATE}
    assert not any("fills nothing" in one for one in said)
    told = json.loads(result.item.read_text(), parse_constant=pytest.fail)["properties"]["attcr:references"][0]
    assert 0 < told["expected_error"] < 0.05


def test_an_option_that_is_not_a_number_is_text_in_the_item(tmp_path: Path) -> None:
    place = made_up(tmp_path)
    place.scene = place.write("float_20180610", np.where(place.gap, 0.8, place.truth), coded=False)
    options = RestoreOptions(
        mask=str(place.mask),
        sensor="reflectance",
        references=(str(place.write("good", place.good, coded=False)),),
        reference_mask="none",
        nodata=float("nan"),
    )
    result = restore_scene(place.scene, tmp_path / "out.tif", "none", options=options)
    told = json.loads(result.item.read_text(), parse_constant=pytest.fail)["properties"]
    assert told["attcr:options"]["nodata"] == "nan"


def test_values_that_no_ground_reflects_are_not_filled_in(place: Place) -> None:
    holes = place.good.astype(np.float32)
    holes[:, 44:52, 44:52] = -9999
    result, _ = place.restore(place.write("holes", holes, coded=False))
    quality = read(result.quality)[0]
    assert set(quality[44:52, 44:52].ravel()) == {CLOUD_LEFT}
    assert quality[44, 43] == FROM_DATE
    assert np.array_equal(read(result.target)[:, 44:52, 44:52], read(place.scene)[:, 44:52, 44:52])


def test_pixels_of_the_scene_that_no_ground_reflects_spoil_no_fit(place: Place) -> None:
    good = place.write("good", place.good)
    clean, _ = place.restore(good)
    spoilt = np.where(place.gap, 0.8, place.truth)
    spoilt[:, 80:92, 2:14] = 6.5
    place.scene = place.write("spoilt_20180610", spoilt)
    result, _ = place.restore(good, name="spoilt_out")
    assert place.error(result) < 1.05 * place.error(clean)


def test_the_scene_itself_is_refused(place: Place) -> None:
    with pytest.raises(SceneError, match="is the scene itself"):
        place.restore(place.scene)


@pytest.mark.parametrize("by", [(1, 0), (0, -3), (3, 3), (-2, 1)])
def test_a_shift_of_up_to_three_pixels_is_told_and_undone(tmp_path: Path, by: tuple[int, int]) -> None:
    place = made_up(tmp_path)
    aligned, said = place.restore(place.write("aligned", place.good))
    assert not said
    result, said = place.restore(place.write("beside", np.roll(place.good, by, (1, 2))), name="moved_out")
    assert place.error(result) < 1.1 * place.error(aligned)
    assert result.references[0]["moved"] == list(by)
    assert len(said) == 1
    assert "beside.tif lies " in said[0]
    for count, (less, more) in zip(by, (("up", "down"), ("left", "right")), strict=True):
        assert (f"{abs(count)} px {more if count > 0 else less}" in said[0]) == (count != 0)


def test_a_much_coarser_reference_is_told(place: Place) -> None:
    wide = place.write("coarse", place.good[:, ::6, ::6], transform=UTM["transform"] * Affine.scale(6))
    assert any("coarse.tif has pixels 6.0 times as wide" in one for one in place.restore(wide)[1])


def test_the_order_of_references_changes_nothing(place: Place) -> None:
    draw = np.random.default_rng(3)
    days = ("20180625", "20180530", "20180701")
    references = [place.write(f"r_{day}", place.good + draw.normal(0, 0.01, place.good.shape)) for day in days]
    first, _ = place.restore(*references)
    second, _ = place.restore(*references[::-1], name="again")
    assert np.array_equal(read(first.target), read(second.target))
    assert np.array_equal(read(place.folder / "out_dates.tif"), read(place.folder / "again_dates.tif"))
    assert first.references == second.references
    assert [one["days"] for one in first.references] == [-11, 15, 21]
    days, number, count, *weights = read(place.folder / "out_dates.tif")[:, place.gap].astype(int)
    assert set(count) == {3}
    assert np.array_equal(number, np.argmax(weights, axis=0) + 1)
    assert np.abs(days - np.tensordot([-11, 15, 21], weights, 1) / 10_000).max() < 0.51
    assert not set(days) & {-11, 15, 21}
    assert sum(one["weight"] for one in first.references) == pytest.approx(1, abs=1e-5)


def surveyed(target: Float32, other: Float32, gap: np.ndarray, network: Corrector | None = None) -> Filler:
    numbers = [np.rint(one * 10_000).astype(np.uint16) for one in (target, other)]
    filler = Filler(
        scene=ArrayRows(numbers[0], None),
        product=SENTINEL2_L1C,
        clouds=CloudMap(lambda top, bottom: gap[top:bottom].astype(np.uint8), len(gap), Rim(0, 0)),
        references=[OtherDay(numbers[1], None, sensor=SENTINEL2_L1C)],
        masks=[None],
        thick_only=False,
        network=network,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AttcrWarning)
        filler.survey()
    return filler


def test_no_network_makes_a_constant_image_pass(tmp_path: Path) -> None:
    place = made_up(tmp_path)
    asked: list[int] = []

    def network(planes: Float32) -> Float32:
        asked.append(len(planes))
        return np.zeros((len(planes), 26, *planes.shape[2:]), np.float32)

    corrector = Corrector(network, (0, 1, 2, 3), (1, 2, 3, 7), {"weights_sha256": ""})
    assert surveyed(place.truth, place.good, place.gap, corrector).refused == set()
    assert asked
    asked.clear()
    filler = surveyed(place.truth, np.full_like(place.truth, 0.3), place.gap, corrector)
    assert filler.refused == {0}
    assert not asked
    assert filler.describe()[0]["method"] == "refused"


def test_real_pairs_of_dates_are_never_refused(shared_data: Path) -> None:
    series = shared_data / "s2" / "series_l1c_roi146"
    dates = {day: read(series / f"2018-{day}.tif")[[1, 2, 3, 7]].astype(np.float32) / 10_000 for day in CLEAR_DATES}
    for i, (one, other) in enumerate(list(permutations(dates, 2))[::9]):
        gap = draw_gap((256, 256), (0.1, 0.5, 0.93)[i % 3], np.random.default_rng(i))
        filler = surveyed(dates[one], dates[other], gap)
        told = filler.describe()[0]
        assert not filler.refused, (one, other, told)
        assert told["detail"] > 0.25, (one, other, told)
