import numpy as np
import pytest

from attcr.references.check import MOST_SAMPLES, Checked, Evidence, expected_error, self_check
from attcr.references.harmonise import METHODS, Cells
from fake_dates import a_gap, evidence_of, ground


def test_the_best_method_on_hidden_ground_is_best_in_the_gap_and_its_error_is_foretold() -> None:
    draw = np.random.default_rng(0)
    reference, gap = ground(192, 256), a_gap(192, 256)
    mixed = reference[[1, 2, 0]] * 0.4 + reference * 0.5
    target = (mixed + draw.normal(0, 0.01, reference.shape)).astype(np.float32)
    evidence = evidence_of(reference, target, gap)
    checked = self_check(evidence)
    rows, cols = np.nonzero(gap)
    true = {
        name: np.abs(method(evidence.seen())(reference[:, gap], rows, cols) - target[:, gap]).mean()
        for name, method in METHODS.items()
    }
    assert checked.method == min(true, key=lambda name: true[name]) == "regression"
    assert abs(checked.error / true["regression"] - 1) < 0.1
    assert checked.errors["copied"] > 2 * checked.error
    assert checked.pixels > 1000


def test_only_the_methods_asked_for_are_tried() -> None:
    evidence = evidence_of(ground(), ground() * np.float32(0.5), a_gap())
    assert set(self_check(evidence, ["copied", "line"]).errors) == {"copied", "line"}


def test_without_common_ground_the_reference_is_copied_and_nothing_is_promised() -> None:
    gap = np.ones((96, 128), bool)
    checked = self_check(evidence_of(ground(), ground(), gap))
    assert checked.method == "copied"
    assert np.isnan(checked.error)


def test_gaps_all_around_a_small_clear_part_leave_some_of_it_to_fit_on() -> None:
    gap = np.ones((96, 128), bool)
    gap[:32, :64] = False
    reference = ground()
    checked = self_check(evidence_of(reference, reference * np.float32(0.5), gap))
    assert checked.method != "copied"
    assert checked.error < 0.02


def test_what_little_is_left_between_clouds_does_not_set_the_tones() -> None:
    reference = ground(192, 256)
    shadow = (reference[[1, 2, 0]] * 0.3).astype(np.float32)
    for rows, methods in ((24, {"copied"}), (48, {"line", "histogram", "copied"})):
        gap = np.ones((192, 256), bool)
        gap[:rows, :80] = False
        checked = self_check(evidence_of(reference, shadow, gap))
        assert checked.method in methods
        assert set(checked.errors) <= methods


def test_sums_are_those_of_the_pixels_that_are_clear_in_both() -> None:
    reference, target, gap = ground(seed=1), ground(seed=2), a_gap()
    evidence = evidence_of(reference, target, gap)
    clear = ~gap
    totals = evidence.sums.sum(axis=(1, 2))
    wanted = [clear.sum(), *reference[:, clear].sum(1), *target[:, clear].sum(1)]
    r, t = reference[:, clear].astype(float), target[:, clear].astype(float)
    wanted += [(r[i] * r[j]).sum() for i in range(3) for j in range(i, 3)]
    wanted += [(r[i] * t[j]).sum() for i in range(3) for j in range(3)]
    np.testing.assert_allclose(totals, wanted, rtol=1e-5)
    assert evidence.gaps.sum() == gap.sum()


def test_it_does_not_matter_how_the_rows_came_in() -> None:
    reference, target, gap = ground(seed=1), ground(seed=2), a_gap()
    whole = evidence_of(reference, target, gap)
    parts = Evidence(Cells.over(*gap.shape), 3)
    for top, bottom in ((0, 32), (32, 48), (48, 96)):
        rows = slice(top, bottom)
        parts.add(top, reference[:, rows], target[:, rows], ~gap[rows], gap[rows])
    assert np.array_equal(parts.sums, whole.sums)
    assert np.array_equal(parts.sample().target, whole.sample().target)
    assert np.array_equal(parts.sample().rows, whole.sample().rows)


def test_of_a_large_image_every_nth_pixel_is_kept() -> None:
    evidence = Evidence(Cells.over(1024, 1600), 1)
    values = np.arange(1024 * 1600, dtype=np.float32).reshape(1, 1024, 1600)
    for top in range(0, 1024, 16):
        rows = values[:, top : top + 16]
        evidence.add(top, rows, rows, np.ones((16, 1600), bool), np.zeros((16, 1600), bool))
    sample = evidence.sample()
    assert MOST_SAMPLES / 4 < len(sample) <= MOST_SAMPLES
    assert np.array_equal(sample.reference[0], values[0, sample.rows, sample.cols])
    assert set(np.diff(np.unique(sample.rows))) == {3}


def test_a_distance_that_was_not_measured_has_the_error_of_the_next_nearer_one() -> None:
    counts = np.array([0.0, 2, 0, 3])
    sums = counts * np.array([0.0, 1, 0, 4])  # at distance 1 the mean error is 1, and at distance 3 it is 4
    for distance, error in enumerate((1, 1, 1, 4)):
        assert expected_error(sums, counts, np.eye(4)[distance]) == error
    assert expected_error(sums, counts, np.array([0.0, 1, 1, 2])) == 2.5
    assert expected_error(sums, counts, np.zeros(4)) == 14 / 5  # no gap: as measured


def test_gaps_smaller_than_half_a_cell_count_where_there_are_no_others() -> None:
    gap = np.zeros((96, 128), bool)
    gap[20:22, 40:44] = True
    assert np.argwhere(evidence_of(ground(), ground(), gap).gap_cells()).tolist() == [[1, 2]]
    gap[64:80, 64:80] = True
    assert np.argwhere(evidence_of(ground(), ground(), gap).gap_cells()).tolist() == [[4, 4]]


def test_of_a_single_row_of_cells_columns_are_left() -> None:
    gap = np.zeros((16, 256), bool)
    gap[:, 64:192] = True
    choices = [
        np.flatnonzero(hidden[0]).tolist()
        for hidden in evidence_of(ground(16, 256), ground(16, 256), gap).hidden_cells()
    ]
    assert choices == [[12, 13, 14, 15], [14, 15], [12, 13, 14]]


def test_as_much_clear_ground_as_is_hidden_is_left() -> None:
    evidence = evidence_of(ground(192, 256), ground(192, 256), np.arange(192)[:, None] + np.zeros(256) < 80)
    clear = evidence.sums[0] == 256
    choices = list(evidence.hidden_cells())
    assert len(choices) == 3
    for hidden in choices:
        assert not hidden[~clear].any()
        assert 0 < hidden.sum() <= clear.sum() / 2


def test_a_reference_earns_its_place_by_showing_more_than_the_surroundings_do() -> None:
    draw = np.random.default_rng(0)
    target, gap = ground(192, 256), a_gap(192, 256)
    shown = self_check(evidence_of((target * 0.7 + 0.05).astype(np.float32), target, gap))
    assert shown.earned
    assert shown.error < 0.1 * shown.surroundings
    for other in (np.full_like(target, 0.3), draw.uniform(0, 1, target.shape), target[:, ::-1]):
        checked = self_check(evidence_of(other.astype(np.float32), target, gap))
        assert not checked.earned
        assert checked.surroundings == pytest.approx(shown.surroundings)  # no reference is in it
        assert checked.error > 0.95 * checked.surroundings


def test_a_reference_earns_its_place_by_its_detail_and_its_error() -> None:
    def earned(error: float, detail: float = float("nan"), surroundings: float = 0.01) -> bool:
        return Checked("line", error, {}, 100, surroundings, detail).earned

    assert earned(0.0095)
    assert not earned(0.0096)  # without its detail, it must be clearly better than none
    assert earned(0.0105, 0.2)
    assert not earned(0.0106, 0.2)
    assert earned(0.001, 0.12)
    assert not earned(0.001, 0.11)
    nothing = float("nan")
    assert earned(nothing, nothing, nothing)  # nothing speaks against it
    assert not earned(nothing, 0.05, nothing)


def test_with_little_clear_ground_no_error_is_compared() -> None:
    gap = np.ones((192, 256), bool)
    for rows, known in ((48, False), (96, True)):
        gap[:rows, :80] = False
        evidence = evidence_of(ground(192, 256), ground(192, 256, seed=2), gap)
        evidence.detail = 0.3
        checked = self_check(evidence)
        assert np.isnan(checked.surroundings) != known
        assert checked.detail == 0.3
