"""Pairs of two dates are fitted on what is clear on both, and scored by class."""

import math
from typing import Any

import numpy as np
import pytest

from attcr.data import DATASETS
from attcr.errors import ShapeError
from attcr.evaluate.by_class import CLASS_PROTOCOLS, METRICS, ClassProtocol, fit_to, pool, pool_with_interval

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


def test_a_line_is_fitted_to_each_band_on_the_clear_pixels_alone() -> None:
    clear, classes = ground(), rows()
    slopes, offsets = (np.reshape(values, (3, 1, 1)) for values in ([0.7, 1.3, 2.0], [0.1, -0.02, 0.0]))
    image = (clear - offsets) / slopes
    image[:, 20:] += 0.05  # cloud, which the fit must not see
    fitted = fit_to(image, clear, classes == 0)
    np.testing.assert_allclose(fitted[:, :20], clear[:, :20])
    np.testing.assert_allclose(fitted[:, 20:], clear[:, 20:] + 0.05 * slopes)


def test_the_fit_is_that_of_least_squares() -> None:
    clear, classes = ground(), rows()
    image = clear + 0.03 * np.random.default_rng(1).normal(size=clear.shape)
    both = classes == 0
    for band, fitted in enumerate(fit_to(image, clear, both)):
        line = np.polyfit(image[band][both], clear[band][both], 1)
        np.testing.assert_allclose(fitted, np.polyval(line, image[band]), atol=1e-9)


def test_a_band_that_hardly_varies_is_fitted_all_the_same() -> None:
    clear, classes = ground(), rows()
    image = clear.copy()
    image[1] = 0.25 + (clear[1] - clear[1].mean()) * 0.001  # a standard deviation of about 9e-5
    np.testing.assert_allclose(fit_to(image, clear, classes == 0)[1], clear[1], atol=1e-9)


def test_a_flat_band_is_left_as_it_is() -> None:
    clear, classes = ground(), rows()
    image = clear.copy()
    image[1] = 0.25
    assert np.array_equal(fit_to(image, clear, classes == 0)[1], image[1])


def test_errors_are_told_by_class_after_the_fit() -> None:
    clear, classes = ground(), rows()
    image = clear * 0.5 + 0.05  # the other date: fitted away
    for start, added in ((20, 0.2), (25, 0.1), (30, -0.05), (35, 9.0)):
        image[:, start : start + 5] += added / 2
    scores = FITTED.score(image, clear, classes, BANDS)
    assert list(scores) == ["clear", "thick", "thin", "shadow", "all"]
    assert {name: values["pixels"] for name, values in scores.items()} == {
        "clear": 800, "thick": 200, "thin": 200, "shadow": 200, "all": 1400,
    }  # fmt: skip
    for name, added in (("clear", 0.0), ("thick", 0.2), ("thin", 0.1), ("shadow", 0.05), ("all", 0.05)):
        assert scores[name]["mae"] == pytest.approx(added, abs=1e-9)
    assert scores["all"]["rmse"] == pytest.approx(math.sqrt((0.2**2 + 0.1**2 + 0.05**2) / 7))
    thin = slice(25, 30)
    before, after = clear[:, thin], clear[:, thin] + 0.1
    ndvi = [(x[2] - x[1]) / (x[2] + x[1] + 1e-6) for x in (before, after)]
    ndwi = [(x[0] - x[2]) / (x[0] + x[2] + 1e-6) for x in (before, after)]
    assert scores["thin"]["ndvi"] == pytest.approx(abs(ndvi[0] - ndvi[1]).mean())
    assert scores["thin"]["ndwi"] == pytest.approx(abs(ndwi[0] - ndwi[1]).mean())
    cosine = (before * after).sum(0) / np.linalg.norm(before, axis=0) / np.linalg.norm(after, axis=0)
    assert scores["thin"]["sam"] == pytest.approx(np.rad2deg(np.arccos(cosine)).mean())


def test_raw_scores_hold_all_that_changed_between_the_dates() -> None:
    clear, classes = ground(), rows()
    scores = RAW.score(clear + 0.02, clear, classes, BANDS)
    assert [scores[name]["mae"] for name in scores] == pytest.approx([0.02] * 5)
    assert FITTED.score(clear + 0.02, clear, classes, BANDS)["thin"]["mae"] == pytest.approx(0, abs=1e-9)


def test_a_pair_with_too_few_clear_pixels_is_left_out_where_it_is_to_be_fitted() -> None:
    clear, classes = ground(), rows()
    classes[:20] = 2
    classes[0] = 0
    assert FITTED.score(clear, clear, classes, BANDS) == {}
    assert RAW.score(clear, clear, classes, BANDS)["clear"]["pixels"] == 40
    classes[:20] = 2
    classes[:12] = 0
    classes[12, :19] = 0
    assert FITTED.score(clear, clear, classes, BANDS) == {}  # 499
    classes[12, 19] = 0
    assert FITTED.score(clear, clear, classes, BANDS)["clear"]["pixels"] == 500


def test_a_class_that_is_not_there_and_an_index_without_its_bands_are_not_told() -> None:
    clear = ground()
    scores = FITTED.score(clear, clear, np.zeros((40, 40), np.uint8), ("green", "red", "swir16"))
    assert list(scores) == ["clear", "all"]
    assert math.isnan(scores["clear"]["ndvi"])
    assert math.isnan(scores["clear"]["ndwi"])


def test_a_black_pixel_has_no_angle_and_an_index_ends_at_one() -> None:
    clear = ground()
    image = clear.copy()
    image[:, 0, 0] = 0
    classes = np.zeros((40, 40), np.uint8)
    assert RAW.score(image, clear, classes, BANDS)["clear"]["sam"] == pytest.approx(0, abs=1e-4)
    image = clear.copy()
    image[1] = -image[2] + 1e-7
    ndvi = (clear[2] - clear[1]) / (clear[2] + clear[1])
    assert RAW.score(image, clear, classes, BANDS)["clear"]["ndvi"] == pytest.approx((1 - ndvi).mean(), abs=1e-4)


def test_images_of_other_sizes_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"the classes \(4, 4\)"):
        FITTED.score(ground(), ground(), np.zeros((4, 4)), BANDS)


def scored(mae: float, pixels: int, name: str = "thin") -> dict[str, dict[str, float]]:
    return {name: {"pixels": pixels, **dict.fromkeys(METRICS, mae)}}


def test_every_pixel_counts_alike_whatever_image_it_is_in() -> None:
    images = [scored(0.1, 100), scored(0.4, 300), {}, scored(9, 50, "thick")]
    assert pool(images, "thin", "mae") == pytest.approx(0.325)
    assert pool(images, "thin", "rmse") == pytest.approx(math.sqrt((0.01 + 3 * 0.16) / 4))
    assert math.isnan(pool(images, "shadow", "mae"))
    interval = pool_with_interval(images, "thin", "mae")
    assert (interval["mean"], interval["images"]) == (pytest.approx(0.325), 2)
    assert (interval["low"], interval["high"]) == (pytest.approx(0.1), pytest.approx(0.4))
    images[0]["thin"]["ndvi"] = math.nan
    assert pool(images, "thin", "ndvi") == pytest.approx(0.4)


def test_the_floor_is_the_inputs_own_clear_pixels_and_images_made_worse_are_named() -> None:
    copied = [scored(0.3, 10) | scored(0.02, 100, "clear"), scored(0.2, 10) | scored(0.04, 300, "clear"), {}]
    mine = [scored(0.1, 10) | scored(0.01, 100, "clear"), scored(0.25, 10) | scored(0.04, 300, "clear"), {}]

    def told_by(rule: ClassProtocol) -> dict[str, Any]:
        rows = [
            {"name": name, "classes": {"mine": {rule.name: after}, "input copied": {rule.name: before}}}
            for name, before, after in zip("abc", copied, mine, strict=True)
        ]
        return rule.summarise(rows, DATASETS["cloudsen12"], "test")

    told = told_by(FITTED)
    assert told["classes"] == {"thin": 20, "clear": 400}
    assert told["floor"]["mae"] == pytest.approx(0.035)
    assert told["worse than the input"] == {"thin": ["b"], "clear": []}
    assert told["left out"] == ["c"]
    assert told["methods"]["mine"]["thin"]["mae"]["mean"] == pytest.approx(0.175)
    assert told_by(RAW)["floor"] is None
    assert list(FITTED.lines(told)) == [
        "two-dates: MAE thin mine 0.1750, input copied 0.2500",
        "two-dates: MAE clear mine 0.0325, input copied 0.0350",
    ]
    text = "\n".join(FITTED.table(told))
    assert text.startswith("Reflectance, not clamped; each side fitted to the clear date by a line")
    assert "| thin | 20 | **mine** | 0.1750 [0.1000, 0.2500] |" in text
    assert "|  |  | input copied | 0.2500 [0.2000, 0.3000] |" in text
    assert "| floor |  |  | 0.0350 |" in text
    assert "by class: 1 thin, 0 clear." in text
    assert "to fit to: c." in text
