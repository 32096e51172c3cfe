"""Pairs of two dates are scored by class against the clear date in the tones of the cloudy one."""

import math
from typing import Any

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from attcr.data import DATASETS
from attcr.errors import ShapeError
from attcr.evaluate.by_class import CLASS_PROTOCOLS, ClassProtocol, ClassScores, detail, in_tones_of, lines_to
from attcr.evaluate.protocols import Given

BANDS = ("green", "red", "nir")
FITTED, RAW = CLASS_PROTOCOLS["two-dates"], CLASS_PROTOCOLS["two-dates-raw"]


def ground(size: int = 40) -> np.ndarray:
    return np.random.default_rng(0).random((3, size, size)) * 0.3 + 0.1


def rows(size: int = 40) -> np.ndarray:
    """20 rows clear, then 5 each of thick, thin, shadow, and 5 that are not scored."""
    classes = np.zeros((size, size), np.uint8)
    for start, number in ((20, 1), (25, 2), (30, 3), (35, 255)):
        classes[start : start + 5] = number
    return classes


def given(classes: np.ndarray, seen: np.ndarray, expected: np.ndarray | None = None) -> Given:
    return Given(BANDS, classes, seen, expected)


def test_a_line_is_fitted_to_each_band_on_the_clear_pixels_alone() -> None:
    clear, classes = ground(), rows()
    slopes, offsets = (np.reshape(values, (3, 1, 1)) for values in ([0.7, 1.3, 2.0], [0.1, -0.02, 0.0]))
    seen = clear * slopes + offsets
    seen[:, 20:] += 0.05  # cloud, which the fit must not see
    truth, wrong = in_tones_of(seen, clear, classes == 0, BANDS)
    assert wrong == {}
    np.testing.assert_allclose(truth, clear * slopes + offsets)


def test_the_fit_is_that_of_least_squares() -> None:
    clear, both = ground(), rows() == 0
    seen = clear + 0.03 * np.random.default_rng(1).normal(size=clear.shape)
    for band, line in enumerate(zip(*lines_to(clear, seen, both), strict=True)):
        np.testing.assert_allclose(line, np.polyfit(clear[band][both], seen[band][both], 1), atol=1e-9)


def test_a_band_that_hardly_varies_is_fitted_all_the_same_and_a_flat_one_is_left_as_it_is() -> None:
    clear = ground()
    clear[1] = 0.25 + (clear[1] - clear[1].mean()) * 0.001  # a standard deviation of about 9e-5
    clear[2] = 0.25
    slopes, offsets = lines_to(clear, ground(), rows() == 0)
    assert slopes[1] == pytest.approx(1000)
    assert (slopes[2], offsets[2]) == (1, 0)


@pytest.mark.parametrize(("slope", "left_out"), [(0.49, True), (0.51, False), (1.99, False), (2.01, True)])
def test_a_pair_whose_middle_slope_is_beyond_a_half_and_two_is_left_out(slope: float, left_out: bool) -> None:
    clear, classes = ground(), rows()
    seen = clear * np.reshape([0.1, slope, 9.0], (3, 1, 1))
    scores = FITTED.score(seen, clear, given(classes, seen))
    assert scores == {"left out": {"slope": pytest.approx(slope)}} if left_out else "thin" in scores


def test_bands_of_60_m_have_no_say_in_whether_a_pair_is_left_out() -> None:
    clear, both = ground(), rows() == 0
    seen = clear * np.reshape([1.0, 0.1, 0.1], (3, 1, 1))
    assert in_tones_of(seen, clear, both, ("red", "cirrus", "nir09"))[1] == {}
    assert in_tones_of(seen, clear, both, ("red", "green", "nir"))[1] == {"slope": pytest.approx(0.1)}


def test_a_pair_with_less_than_a_tenth_of_clear_ground_is_left_out_where_it_is_to_be_fitted() -> None:
    clear, classes = ground(), np.full((40, 40), 2, np.uint8)
    classes[:4] = 0
    assert FITTED.score(clear, clear, given(classes, clear))["clear"]["pixels"] == 160
    classes[3, 39] = 2
    assert FITTED.score(clear, clear, given(classes, clear)) == {"left out": {"clear": 159 / 1600}}
    assert RAW.score(clear, clear, given(classes, clear))["thin"]["pixels"] == 1441


def test_errors_are_told_by_class_after_the_fit() -> None:
    clear, classes = ground(), rows()
    seen = clear * 0.6 + 0.05  # the other date: fitted away
    image = seen.copy()
    for start, added in ((20, 0.2), (25, 0.1), (30, -0.05), (35, 9.0)):
        image[:, start : start + 5] += added
    scores = FITTED.score(image, clear, given(classes, seen))
    assert list(scores) == ["clear", "thick", "thin", "shadow", "all"]
    assert [scores[name]["pixels"] for name in scores] == [800, 200, 200, 200, 1400]
    for name, added in (("clear", 0.0), ("thick", 0.2), ("thin", 0.1), ("shadow", 0.05), ("all", 0.05)):
        assert scores[name]["mae"] == pytest.approx(added, abs=1e-9)
        assert scores[name]["changed"] == pytest.approx(added, abs=1e-9)
    assert (scores["clear"]["touched"], scores["thin"]["touched"]) == (0, 1)
    before, after = seen[:, 25:30], seen[:, 25:30] + 0.1
    index = [(x[2] - x[1]) / (x[2] + x[1]) for x in (before, after)]
    assert scores["thin"]["ndvi"] == pytest.approx(abs(index[0] - index[1]).mean())


def test_raw_scores_hold_all_that_changed_between_the_dates() -> None:
    clear, classes = ground(), rows()
    seen = clear + 0.02
    assert [one["mae"] for one in RAW.score(seen, clear, given(classes, seen)).values()] == pytest.approx([0.02] * 5)
    assert FITTED.score(seen, clear, given(classes, seen))["thin"]["mae"] == pytest.approx(0, abs=1e-9)


def test_an_image_has_a_class_from_3_percent_on_and_shadow_from_1() -> None:
    clear = ground(100)
    classes = np.zeros((100, 100), np.uint8)
    classes[:3], classes[3:6], classes[6] = 2, 1, 3
    scores = RAW.score(clear, clear, given(classes, clear))
    assert set(scores) == {"clear", "thin", "thick", "shadow", "all"}
    classes[0, 0] = classes[3, 0] = classes[6, 0] = 0
    assert set(RAW.score(clear, clear, given(classes, clear))) == {"clear", "all"}


def test_an_index_ends_at_one_is_quiet_where_it_is_black_and_needs_its_bands() -> None:
    clear = np.full((3, 20, 20), 0.004)
    image = clear.copy()
    image[1], image[2] = -0.5, 0.006  # red below 0 counts as 0
    classes = np.zeros((20, 20), np.uint8)
    assert RAW.score(image, clear, given(classes, clear))["clear"]["ndvi"] == pytest.approx(0.006 / 0.02)
    scores = RAW.score(image, clear, Given(("green", "red", "swir16"), classes, clear))
    assert math.isnan(scores["clear"]["ndvi"])


def test_detail_is_the_correlation_of_what_is_finer_than_8_pixels() -> None:
    rng = np.random.default_rng(0)
    truth, other = rng.normal(size=(2, 1, 200, 200))
    everywhere = np.ones((200, 200), bool)

    def found(image: np.ndarray, where: np.ndarray = everywhere) -> float:
        return detail(image, truth, [0], where)

    slow = 50 * gaussian_filter(other, (0, 20, 20))
    assert found(3 * truth + slow) == pytest.approx(1, abs=0.02)  # neither contrast nor tone is detail
    assert found(truth + other) == pytest.approx(math.sqrt(0.5), abs=0.01)
    assert abs(found(np.roll(truth, 5, axis=2))) < 0.02  # detail in another place
    assert abs(found(gaussian_filter(truth, (0, 12, 12)))) < 0.25  # nearly none is left
    assert found(truth * 0) == 0
    assert detail(np.concatenate([truth, other]), np.concatenate([truth, truth]), [0, 1], everywhere) == pytest.approx(
        0.5, abs=0.01
    )
    assert math.isnan(detail(truth, truth, [], everywhere))
    half = everywhere.copy()
    half[:, 100:] = False
    assert found(np.where(half, truth, other), half) == pytest.approx(1, abs=1e-6)
    rim = truth.copy()
    rim[:, :, 98:] = other[:, :, 98:]
    assert found(rim, half) == pytest.approx(1, abs=1e-6)  # two pixels at the rim of a class do not count


def test_expected_errors_are_held_against_true_ones_where_there_are_any() -> None:
    clear, classes = ground(), rows()
    image = clear.copy()
    image[:, 25:27] += 0.04
    image[:, 27:30] += 0.01
    expected = np.zeros((40, 40))
    expected[25:30] = 0.02
    expected[29] = 0
    told = RAW.score(image, clear, given(classes, clear, expected))["thin"]
    assert (told["expected"], told["true"], told["within"]) == pytest.approx((0.02, 0.025, 0.5))
    expected[25:27] = 0.04 / math.sqrt(math.pi / 2) + 1e-6  # one standard deviation
    assert RAW.score(image, clear, given(classes, clear, expected))["thin"]["within"] == 1
    assert math.isnan(RAW.score(image, clear, given(classes, clear))["thin"]["within"])


def test_images_of_other_sizes_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"the input \(3, 40, 40\), the classes \(4, 4\)"):
        FITTED.score(ground(), ground(), given(np.zeros((4, 4)), ground()))


def scored(mae: float, ndvi: float, shown: float = 0.5, name: str = "thin", **told: float) -> ClassScores:
    metrics = {"pixels": 10, "mae": mae, "ndvi": ndvi, "detail": shown, "infrared": 0.1}
    others = {"touched": 0.5, "changed": 0.02, "expected": math.nan, "true": math.nan, "within": math.nan}
    return {name: metrics | others | told}


def told_by(rule: ClassProtocol, copied: list[ClassScores], mine: list[ClassScores]) -> dict[str, Any]:
    rows = [
        {"name": name, "classes": {"mine": {rule.name: after}, "input copied": {rule.name: before}}}
        for name, before, after in zip("abcd"[: len(mine)], copied, mine, strict=True)
    ]
    return rule.summarise(rows, DATASETS["cloudsen12"], "test")


def test_means_are_over_images_and_harm_counts_from_a_thousandth_and_five_of_the_index() -> None:
    copied = [scored(0.3, 0.1), scored(0.2, 0.1), scored(0.1, 0.1, 0.24), {"left out": {"slope": 0.31}}]
    mine = [
        scored(0.3011, 0.1049, expected=0.02, true=0.04, within=0.5),
        scored(0.2009, 0.1051, expected=0.06, true=0.04, within=0.7),
        scored(0.05, 0.0, 0.9),
        {"left out": {"slope": 0.31}},
    ]
    told = told_by(FITTED, copied, mine)
    assert told["classes"] == {"thin": 3, "thin, ground seen": 2}
    thin, shown = (told["methods"]["mine"][name] for name in told["classes"])
    assert thin["mae"]["mean"] == pytest.approx((0.3011 + 0.2009 + 0.05) / 3)
    assert shown["mae"]["mean"] == pytest.approx((0.3011 + 0.2009) / 2)
    assert (thin["harmed"], shown["harmed"]) == ({"mae": ["a"], "ndvi": ["b"]},) * 2
    assert (thin["expected over true"], thin["within"]) == pytest.approx((1, 0.6))
    assert told["left out"] == {"d": {"slope": 0.31}}
    assert list(FITTED.lines(told)) == [
        "two-dates: MAE thin (3 images) mine 0.1840, input copied 0.2000",
        "two-dates: MAE thin, ground seen (2 images) mine 0.2510, input copied 0.2500",
    ]
    text = "\n".join(FITTED.table(told))
    assert text.startswith("Reflectance, not clamped; the clear date in the tones of the input")
    assert "| thin | 3 | **mine** | 0.1840 [0.0500, 0.3011] | 0.0700 | 0.633 | 1, 1 |" in text
    assert "|  |  | input copied | 0.2000 [0.1000, 0.3000] | 0.1000 | 0.413 | - |" in text
    assert "- Opaque, 1 of the 3 images of thin cloud: c." in text
    assert (
        "- Left out, 1 pairs with less than 10% clear ground, or whose middle slope is not within 0.5 and 2: " in text
    )
    assert "d (slope 0.31)." in text
    assert "- thin: the expected error is 1.00 of the true one, 60% are within it." in text


def test_thin_cloud_that_shows_ground_in_the_infrared_alone_is_not_opaque() -> None:
    hidden, seen = scored(0.1, 0.1, 0.24, infrared=0.24), scored(0.1, 0.1, 0.24, infrared=0.25)
    told = told_by(RAW, [hidden, seen], [hidden, seen])
    assert (told["classes"], told["opaque"]) == ({"thin": 2, "thin, ground seen": 1}, ["a"])
    assert told_by(RAW, [hidden], [hidden])["classes"] == {"thin": 1}
    assert told_by(RAW, [seen], [seen])["classes"] == {"thin": 1}  # the same images are not told twice


def test_the_interval_is_that_of_images_drawn_again_from_a_fixed_seed() -> None:
    errors = [0.01, 0.02, 0.04, 0.08]
    copied = [scored(error, 0.1) for error in errors]
    entry = told_by(RAW, copied, copied)["methods"]["mine"]["thin"]["mae"]
    rng = np.random.default_rng(0)
    means = [np.mean([errors[at] for at in rng.integers(0, 4, 4)]) for _ in range(2000)]
    assert (entry["low"], entry["high"]) == pytest.approx(tuple(np.percentile(means, [2.5, 97.5])))
    assert (entry["mean"], entry["images"]) == (pytest.approx(0.0375), 4)


def test_what_is_done_to_clear_ground_is_told() -> None:
    clear = [scored(0.1, 0.1, name="clear", touched=0.25, changed=0.005)]
    text = "\n".join(RAW.table(told_by(RAW, clear, clear)))
    assert "- mine touches 25.0% of the clear ground, and changes all of it by 0.0050." in text
    assert "Opaque" not in text
    assert "Left out" not in text


def test_where_every_pair_is_left_out_the_report_says_so() -> None:
    left = [{"left out": {"clear": 0.04}}]
    told = told_by(FITTED, left, left)
    assert (told["classes"], list(FITTED.lines(told))) == ({}, [])
    assert "- Left out, 1 pairs" in "\n".join(FITTED.table(told))
    assert "a (clear 0.04)." in "\n".join(FITTED.table(told))
