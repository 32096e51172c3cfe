import numpy as np
import pytest

from attcr.references.harmonise import METHODS, Kinds, Seen, fit_lines, window_fit
from fake_dates import a_gap, evidence_of, ground


def error_of(method: str, reference: np.ndarray, target: np.ndarray) -> float:
    gap = a_gap()
    rows, cols = np.nonzero(gap)
    filled = METHODS[method](Seen.of(evidence_of(reference, target, gap)))(reference[:, gap], rows, cols)
    assert filled.dtype == np.float32
    return float(np.abs(filled - target[:, gap]).mean())


@pytest.mark.parametrize("method", [name for name in METHODS if name != "copied"])
def test_a_change_of_brightness_and_level_is_undone(method: str) -> None:
    reference = ground()
    target = reference * np.float32(0.8) + np.float32(0.03)
    limit = {"similar": 0.01, "histogram": 0.002}.get(method, 5e-4)
    assert error_of(method, reference, target) < limit < 0.02 < error_of("copied", reference, target)


def test_a_change_from_place_to_place_is_undone_by_local_methods() -> None:
    reference = ground()
    ramp = np.linspace(0.7, 1.3, reference.shape[2], dtype=np.float32)
    target = reference * ramp
    assert error_of("local", reference, target) < 0.5 * error_of("line", reference, target)
    assert error_of("regression", reference, target) < 0.5 * error_of("line", reference, target)


def test_bands_that_depend_on_one_another_are_seen_by_the_regression_alone() -> None:
    reference = ground()
    target = (reference[[1, 2, 0]] * 0.5 + reference * 0.4).astype(np.float32)
    assert error_of("regression", reference, target) < 0.05 * error_of("local", reference, target)


def test_a_change_of_one_kind_of_ground_is_undone_by_classes_and_similar_pixels() -> None:
    reference = ground(seed=3)
    crops = reference[0] > 0.25
    target = np.where(crops, reference + np.float32(0.1), reference)
    for method in ("classes", "similar"):
        assert error_of(method, reference, target) < 0.5 * error_of("line", reference, target)


def test_hidden_cells_are_not_looked_at() -> None:
    reference, gap = ground(), a_gap()
    target = reference.copy()
    target[:, 80:, :] = 0.9
    hidden = np.zeros((6, 8), bool)
    hidden[5] = True
    rows, cols = np.nonzero(gap)
    for method in METHODS:
        filled = METHODS[method](Seen.of(evidence_of(reference, target, gap), hidden))(reference[:, gap], rows, cols)
        assert np.abs(filled - target[:, gap]).mean() < 1e-3, method


def test_lines_of_a_flat_band_keep_their_slope() -> None:
    flat = np.full((1, 10), 0.25, np.float32)
    slope, offset = fit_lines(flat, flat + np.float32(0.125))
    assert slope.tolist() == [[1]]
    assert offset.tolist() == [[0.125]]


def test_kinds_are_those_of_the_nearest_middle_and_always_the_same() -> None:
    draw = np.random.default_rng(0)
    centres = np.array([[0.1, 0.1], [0.5, 0.1], [0.1, 0.5]])
    values = (centres.repeat(50, 0) + draw.normal(0, 0.01, (150, 2))).T.astype(np.float32)
    told = Kinds.among(values, 3).of(values)
    assert [len(set(told[i : i + 50])) for i in (0, 50, 100)] == [1, 1, 1]
    assert len(set(told)) == 3
    assert np.array_equal(told, Kinds.among(values, 3).of(values))


def test_the_cells_come_near_to_a_window_around_each_pixel() -> None:
    draw = np.random.default_rng(5)
    reference, gap = ground(), a_gap()
    ramp = np.linspace(0.8, 1.2, reference.shape[1], dtype=np.float32)[:, None]
    target = (reference * ramp + draw.normal(0, 0.005, reference.shape)).astype(np.float32)
    window = np.abs(window_fit(reference, target, ~gap, 33) - target)[:, gap].mean()
    assert error_of("local", reference, target) < 1.05 * window
