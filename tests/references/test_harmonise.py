import numpy as np
import pytest

from attcr.references.harmonise import (
    FEWEST,
    METHODS,
    MOST_CELLS,
    Cells,
    Kinds,
    Sample,
    Seen,
    fit_lines,
    middle,
    plausible,
    smooth,
    surroundings,
    window_fit,
)
from fake_dates import a_gap, evidence_of, ground


def error_of(method: str, reference: np.ndarray, target: np.ndarray) -> float:
    gap = a_gap()
    rows, cols = np.nonzero(gap)
    filled = METHODS[method](evidence_of(reference, target, gap).seen())(reference[:, gap], rows, cols)
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
        filled = METHODS[method](evidence_of(reference, target, gap).seen(hidden))(reference[:, gap], rows, cols)
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


def test_cells_grow_with_the_image() -> None:
    assert Cells.over(256, 256).size == 16
    assert Cells.over(10980, 10980).size == 32
    large = Cells.over(100_000, 100_000)
    assert large.shape[0] * large.shape[1] <= MOST_CELLS


def test_pixels_are_summed_into_their_cells_at_the_edges_too() -> None:
    cells = Cells(20, 33, 16)
    sums = cells.sums(np.ones((2, 20, 33)))
    assert cells.shape == (2, 3)
    assert sums.tolist() == [[[256, 256, 16], [64, 64, 4]]] * 2


def test_a_field_is_linear_between_the_middles_of_cells() -> None:
    cells = Cells(64, 64, 16)
    field = np.array([[[0.0, 16, 32, 48]] * 4], np.float32)
    cols = np.array([0, 7, 8, 24, 40, 63])
    assert cells.interpolate(field, np.full(6, 30), cols)[0].tolist() == [0, 0, 0.5, 16.5, 32.5, 48]
    assert cells.interpolate(field.transpose(0, 2, 1), cols, np.full(6, 30))[0].tolist() == [0, 0, 0.5, 16.5, 32.5, 48]


def test_a_field_of_one_cell_is_the_same_everywhere() -> None:
    assert Cells(9, 9, 16).interpolate(np.full((1, 1, 1), 3, np.float32), np.arange(9), np.arange(9)).tolist() == [
        [3] * 9
    ]


def test_near_cells_speak_first_and_far_ones_where_there_are_no_others() -> None:
    sums = np.zeros((2, 40, 40))
    sums[:, 5, 5] = (1, 10)
    sums[:, 30, 30] = (1, 20)
    around = smooth(sums)
    mean = around[1] / around[0]
    assert abs(mean[6, 6] - 10) < 0.1
    assert abs(mean[31, 29] - 20) < 0.1
    assert 10 < mean[18, 18] < 20
    assert (around[0] > 0).all()


def test_sums_of_one_cell_have_nothing_around_them() -> None:
    assert smooth(np.full((1, 1, 1), 2.0)).shape == (1, 1, 1)


def seen_on(reference: np.ndarray, target: np.ndarray) -> Seen:
    """Pixels (C, N) in one row, as the methods without sums take them."""
    cells, at = Cells.over(16, reference.shape[1]), np.arange(reference.shape[1])
    return Seen(cells, np.zeros((1, *cells.shape)), Sample(0 * at, at, reference, target))


def test_beyond_the_values_seen_a_histogram_goes_on_by_the_same_step() -> None:
    reference = np.linspace(0.1, 0.3, 3000, dtype=np.float32)[None]
    fill = METHODS["histogram"](seen_on(reference, reference + np.float32(0.05)))
    values = np.array([[0.02, 0.2, 0.7]], np.float32)
    assert fill(values, np.zeros(3), np.zeros(3)) == pytest.approx(values + 0.05, abs=1e-3)


@pytest.mark.parametrize(("count", "own"), [(FEWEST, False), (FEWEST + 1, True)])
def test_a_kind_of_ground_with_few_pixels_has_the_fit_of_all(count: int, own: bool) -> None:
    draw = np.random.default_rng(0)
    reference = np.concatenate([draw.uniform(0.1, 0.2, 6000), draw.uniform(0.795, 0.805, count)]).astype(np.float32)
    target = np.where(reference < 0.5, reference, 0.4).astype(np.float32)
    rare = reference[None, -count:]
    filled = METHODS["classes"](seen_on(reference[None], target[None]))(rare, np.zeros(count), np.zeros(count))
    slope, offset = fit_lines(reference[None], target[None])
    assert np.allclose(filled, rare * slope + offset, atol=1e-6) != own
    assert np.allclose(filled, 0.4, atol=1e-4) == own


def test_a_kind_that_was_never_seen_changes_as_all_do(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = Kinds(np.ones(1, np.float32), np.array([[0.1], [0.9]], np.float32))
    monkeypatch.setattr(Kinds, "among", lambda *_: kinds)
    reference = np.linspace(0.05, 0.15, 100, dtype=np.float32)[None]
    fill = METHODS["similar"](seen_on(reference, reference + np.float32(0.25)))
    assert fill(np.array([[0.875]], np.float32), np.array([3]), np.array([9])) == pytest.approx(1.125, abs=1e-6)


def test_far_from_clear_pixels_a_window_has_the_fit_of_the_whole() -> None:
    reference = ground()
    clear = np.zeros(reference.shape[1:], bool)
    clear[:, :40] = True
    fitted = window_fit(reference, reference * np.float32(0.5) + np.float32(0.2), clear, 9)
    assert np.allclose(fitted[:, :, 60:], 0.5 * reference[:, :, 60:] + 0.2, atol=1e-4)


def test_the_surroundings_are_the_targets_own_level_whatever_the_reference_shows() -> None:
    gap = a_gap()
    rows, cols = np.nonzero(gap)
    slope = np.broadcast_to(np.linspace(0.1, 0.4, 128, dtype=np.float32), (3, 96, 128))
    for reference in (ground(), np.full((3, 96, 128), 0.9, np.float32)):
        filled = surroundings(evidence_of(reference, slope, gap).seen())(reference[:, gap], rows, cols)
        assert np.abs(filled - slope[:, gap]).max() < 0.03  # of 0.11 across the gap
        flat = surroundings(evidence_of(reference, slope * 0 + np.float32(0.25), gap).seen())
        assert flat(reference[:, gap], rows, cols) == pytest.approx(0.25, abs=1e-6)


def test_what_no_ground_reflects_is_not_plausible_in_any_band() -> None:
    values = np.full((2, 1, 9), 0.1, np.float32)
    values[1, 0] = [0.1, np.nan, np.inf, -9999, 1e36, 2.01, 2.0, -0.21, -0.2]
    assert plausible(values)[0].tolist() == [True, False, False, False, False, False, True, False, True]


def test_the_median_of_the_clear_ground_needs_no_reference() -> None:
    gap, target = a_gap(), ground()
    rows, cols = np.nonzero(gap)
    filled = middle(evidence_of(ground(seed=3), target, gap).seen())(target[:, gap], rows, cols)
    assert filled.shape == target[:, gap].shape
    assert filled[:, 0] == pytest.approx(np.median(target[:, ~gap], axis=1), abs=1e-6)
    assert (filled == filled[:, :1]).all()
