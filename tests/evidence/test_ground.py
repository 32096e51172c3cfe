"""The ground under a veil from the scene's own statistics."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from attcr.evidence import ground as module
from attcr.evidence.ground import (
    CELL,
    RIDGE,
    Ground,
    Grounds,
    Moments,
    Seen,
    gaps_told_by,
    hidden_errors,
    informed,
    interpolate,
    over_cells,
    second_moments,
    unsaid_elsewhere,
    wiener,
)

Float32 = NDArray[np.float32]


class Place:
    """Ground of four bands that vary together, under a smooth veil on its right side or in its middle."""

    def __init__(self, size: int = 256, depth: float = 0.15, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        sources = np.stack([gaussian_filter(rng.standard_normal((size, size)), s) * s for s in (1, 3, 8)])
        mixing = np.array([[0.3, 0.5, 1.0], [0.4, 0.6, 0.9], [0.5, 0.9, 0.7], [2.0, -1.0, 0.5]])
        self.truth = (0.15 + 0.02 * np.einsum("ij,jhw->ihw", mixing, sources)).astype(np.float32)
        y, x = np.mgrid[:size, :size]
        self.mask = np.hypot(y - size / 2, x - size / 2) < size / 4
        waves = 1 + 0.4 * gaussian_filter(rng.standard_normal((size, size)), 10) * 30
        veil = depth * np.array([1.0, 0.9, 0.8, 0.5])[:, None, None] * waves
        self.image = (self.truth + veil * self.mask).astype(np.float32)
        self.clear = (~self.mask).astype(np.float32)

    def read(self, top: int, bottom: int) -> Seen:
        cover = self.mask[None, top:bottom].astype(np.float32)
        return Seen(self.image[:, top:bottom], self.clear[top:bottom], cover)

    def ground(self) -> Ground:
        height, width = self.mask.shape
        return Ground(self.read, height, width, len(self.image))

    def error(self, values: Float32) -> float:
        return float(np.abs(values - self.truth)[:, self.mask].mean())


def test_one_band_follows_the_formula() -> None:
    weights, error = wiener(np.array([[4.0]]), np.array([[16.0]]))
    assert weights[0, 0] == pytest.approx(0.25, rel=1e-3)
    assert error[0] == pytest.approx(3.0, rel=1e-3)


def test_what_varies_less_than_ground_is_all_ground() -> None:
    weights, error = wiener(np.diag([4.0, 1.0]), np.diag([2.0, 0.5]))
    np.testing.assert_allclose(weights, np.eye(2), atol=1e-9)
    np.testing.assert_allclose(error, 0, atol=1e-9)


def test_a_band_without_veil_says_what_is_under_the_other() -> None:
    ground = np.array([[1.0, 0.9], [0.9, 1.0]])
    veil = np.diag([100.0, 0.0])
    weights, error = wiener(ground, ground + veil)
    np.testing.assert_allclose(weights, ground @ np.linalg.inv(ground + veil), atol=1e-2)
    assert error[0] == pytest.approx(1 - 0.81, abs=0.01)
    assert error[1] == pytest.approx(0, abs=0.01)


def test_what_else_was_seen_says_a_part_and_the_rest_follows_the_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RIDGE", 0.0)
    ground = np.array([[4.0, 2.0], [2.0, 4.0]])  # a band and another date, which says half of it
    veiled = ground + np.diag([9.0, 0.0])
    weights, error = informed(ground, veiled, 1)
    kept = 3 / 12  # of what the date does not say
    np.testing.assert_allclose(weights, [[kept, 0.5 - kept * 0.5]], rtol=1e-3)
    assert error[0] == pytest.approx(3 * (1 - kept), rel=1e-3)
    weights, error = informed(ground, None, 1)
    np.testing.assert_allclose(weights, [[0, 0.5]], rtol=1e-6)
    assert error[0] == pytest.approx(3, rel=1e-6)
    monkeypatch.setattr(module, "RIDGE", 1.0)
    np.testing.assert_allclose(informed(ground, None, 1)[0], [[0, 0.25]], rtol=1e-6)


def test_sums_by_cell_give_means_and_covariances() -> None:
    rng = np.random.default_rng(1)
    values, weight = rng.random((2, 4, 8)).astype(np.float32), rng.random((4, 8)).astype(np.float32)
    sums = Moments.zeros(1, 2, 2)
    sums.add(0, 0, 4, values, weight)
    right = values[:, :, 4:].reshape(2, -1)
    w = weight[:, 4:].ravel()
    np.testing.assert_allclose(sums.mean[0, 1], np.average(right, axis=1, weights=w), rtol=1e-5)
    np.testing.assert_allclose(sums.covariance[0, 1], np.cov(right, aweights=w, ddof=0), rtol=1e-4)
    np.testing.assert_allclose(sums.deviation[0, 1], np.sqrt(np.diag(np.cov(right, aweights=w, ddof=0))), rtol=1e-4)


def test_a_cell_with_few_pixels_believes_the_scene(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SHRINK", 400)
    sums = Moments.zeros(1, 5, 1)
    sums.weight[0, 0], sums.total[0, 0, 0] = 900, 900.0
    sums.weight[0, 4], sums.total[0, 4, 0] = 100, 0.0
    assert sums.near(0).mean[0, 0, 0] == pytest.approx((900 + 0.9 * 400) / (900 + 400))
    assert sums.near(0).mean[0, 4, 0] == pytest.approx(0.9 * 400 / (100 + 400))
    assert sums.near(1).mean[0, 4, 0] == pytest.approx(0.9 * 100 / (100 + 100))
    assert sums.near(0).mean[0, 1, 0] == pytest.approx((450 + 0.9 * 400) / (450 + 400))
    assert sums.near(0).weight[0].tolist() == [900 + 400, 450 + 400, 400, 50 + 400, 100 + 400], "both sides alike"


def test_the_nearest_clear_ground_that_is_enough_is_interpolated() -> None:
    weight = np.ones((32, 32), np.float32)
    weight[8:24, 8:24] = 0
    total = np.where(np.arange(32) < 16, 0.1, 0.3).astype(np.float32)[None, None] * weight
    filled, support = interpolate(total, weight)
    assert filled[0, 16, 9] == pytest.approx(0.1, abs=0.03)
    assert filled[0, 16, 22] == pytest.approx(0.3, abs=0.03)
    assert support.min() == 1
    assert interpolate(total * 0, weight * 0)[1].max() == 0


def test_values_by_cell_are_linear_between_the_middles_of_cells() -> None:
    cells = np.array([[[0.0], [4.0]]])
    np.testing.assert_allclose(over_cells(cells, (1, 8), 4)[0, 0], [0, 0, 0.5, 1.5, 2.5, 3.5, 4, 4])
    np.testing.assert_allclose(over_cells(cells.swapaxes(0, 1), (2, 1), 4, begin=3)[0, :, 0], [1.5, 2.5])


@pytest.mark.parametrize("depth", [0.15, -0.06])
def test_a_veil_and_a_shadow_are_taken_away(depth: float) -> None:
    place = Place(depth=depth)
    found = place.ground().rows(0, 256)
    assert place.error(found.values) < 0.3 * place.error(place.image)
    made = np.where(place.mask, found.values, place.truth)
    fine = [one - gaussian_filter(one, (0, 8, 8)) for one in (made, place.truth)]
    assert np.corrcoef(fine[0][:, place.mask].ravel(), fine[1][:, place.mask].ravel())[0, 1] > 0.9


def _with(place: Place, other: Float32, *, shows: bool = True) -> float:
    """Give the error where another image of the ground is known too; `shows` says whether the cover shows ground."""
    every = np.concatenate([place.image if shows else np.where(place.mask, np.float32(0.9), place.image), other])

    def read(top: int, bottom: int) -> Seen:
        cover = place.mask[None, top:bottom].astype(np.float32)
        return Seen(every[:, top:bottom], place.clear[top:bottom], cover)

    found = Ground(read, 256, 256, 4, (shows,), len(other)).rows(0, 256)
    assert found.values.shape == (4, 256, 256)
    true = place.error(found.values)
    assert 0.4 < found.error[place.mask].mean() / true < 3
    return true


def test_another_date_helps_under_a_veil_and_noise_does_no_harm() -> None:
    place, rng = Place(), np.random.default_rng(1)
    alone = place.error(place.ground().rows(0, 256).values)
    date = (0.7 * place.truth[1:3] + 0.05 + 0.004 * rng.standard_normal((2, 256, 256))).astype(np.float32)
    assert _with(place, date) < 0.75 * alone
    assert _with(place, rng.random((2, 256, 256)).astype(np.float32)) < 1.1 * alone


def test_under_a_cover_that_shows_nothing_the_other_image_says_what_is_there() -> None:
    place, rng = Place(), np.random.default_rng(1)
    date = (0.7 * place.truth[1:3] + 0.05).astype(np.float32)
    around = _with(place, rng.random((1, 256, 256)).astype(np.float32), shows=False)
    assert _with(place, date, shows=False) < 0.4 * around


def test_where_another_image_shows_nothing_the_scene_speaks_alone() -> None:
    place = Place()
    date = (0.7 * place.truth[1:3] + 0.05).astype(np.float32)
    known = np.repeat(np.float32([1, 0.25, 0]), (128, 32, 96))[None].repeat(256, axis=0)

    def read(top: int, bottom: int) -> Seen:
        seen = place.read(top, bottom)
        shown = np.where(known[top:bottom] > 0, date[:, top:bottom], np.float32(0))
        return seen._replace(values=np.concatenate([seen.values, shown]), known=known[top:bottom])

    def alone(top: int, bottom: int) -> Seen:
        seen = place.read(top, bottom)
        return seen._replace(covers=seen.covers * (1 - known[None, top:bottom]))

    found = Grounds(read, 256, 256, 4, (True,), 2).rows(10, 250)
    plain = Ground(alone, 256, 256, 4).rows(10, 250)
    right, left = place.mask[10:250].copy(), place.mask[10:250].copy()
    right[:, :160], left[:, 128:] = False, False
    np.testing.assert_allclose(found.values[:, right], plain.values[:, right], atol=1e-6)
    np.testing.assert_allclose(found.error[right], plain.error[right], atol=1e-6)
    truth = place.truth[:, 10:250]
    assert np.abs(found.values - truth)[:, left].mean() < 0.8 * np.abs(plain.values - truth)[:, right].mean()


def test_where_no_veil_is_seen_nothing_changes() -> None:
    place = Place(depth=0)
    found = place.ground().rows(0, 256)
    np.testing.assert_allclose(found.values[:, place.mask], place.image[:, place.mask], atol=2e-3)


def test_the_expected_error_is_near_the_true_one() -> None:
    ratios = []
    for seed in range(4):
        place = Place(seed=seed)
        found = place.ground().rows(0, 256)
        ratios.append(float(found.error[place.mask].mean()) / place.error(found.values))
    assert 0.6 < np.mean(ratios) < 2.5


def test_rows_do_not_depend_on_how_the_scene_is_cut() -> None:
    place = Place()
    ground = place.ground()
    whole = ground.rows(0, 256)
    for cuts in ((0, 100, 256), (0, 16, 37, 200, 256)):
        parts = [ground.rows(top, bottom) for top, bottom in pairwise(cuts)]
        for name in ("values", "error", "support"):
            joined = np.concatenate([getattr(part, name) for part in parts], axis=-2)
            here = np.broadcast_to(place.mask, joined.shape)
            np.testing.assert_allclose(joined[here], getattr(whole, name)[here], atol=1e-6)


def test_cells_have_statistics_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CELL", 128)
    monkeypatch.setattr(module, "SHRINK", 100)
    place = Place()
    assert CELL == 512
    assert place.error(place.ground().rows(0, 256).values) < 0.3 * place.error(place.image)


def test_odd_sizes_and_pixels_without_weight_are_taken() -> None:
    place = Place()
    place.image[:, :, 250:] = 5
    place.clear[:, 250:] = 0
    image, clear, mask = place.image[:, :251, :253], place.clear[:251, :253], place.mask[:251, :253]

    def read(top: int, bottom: int) -> Seen:
        return Seen(image[:, top:bottom], clear[top:bottom], mask[None, top:bottom].astype(np.float32))

    found = Ground(read, 251, 253, 4).rows(0, 251)
    assert found.values.shape == (4, 251, 253)
    error = np.abs(found.values - place.truth[:, :251, :253])[:, mask].mean()
    assert error < 0.3 * place.error(place.image)


def _all_cloud(place: Place) -> None:
    place.clear[:] = 0


def _corner_clear(place: Place) -> None:
    place.clear[30:] = 0
    place.clear[:, 30:] = 0


@pytest.mark.parametrize("change", [_all_cloud, _corner_clear])
def test_without_clear_ground_there_is_no_support(change: Callable[[Place], None]) -> None:
    place = Place()
    change(place)
    assert place.ground().rows(0, 256).support.max() == 0


def test_hidden_ground_says_how_far_interpolation_is_off() -> None:
    rng = np.random.default_rng(0)
    weight = np.ones((32, 32), np.float32)
    covered = np.zeros((32, 32), bool)
    covered[10:20, 10:20] = True
    even = np.full((2, 32, 32), 0.3, np.float32)
    assert np.abs(second_moments(hidden_errors(even, weight, covered))).max() < 1e-9
    rough = (even + 0.1 * gaussian_filter(rng.standard_normal((2, 32, 32)), (0, 2, 2)) * 4).astype(np.float32)
    made = second_moments(hidden_errors(rough, weight, covered))
    assert 0.03 < np.sqrt(np.diag(made)).mean() < 0.15
    assert hidden_errors(even, weight * 0, covered) == []


def test_others_are_asked_where_they_were_not_learnt() -> None:
    rng = np.random.default_rng(0)
    seen = rng.standard_normal((2, 1, 400))
    same = [np.concatenate([one, 0.5 * one]) for one in seen]  # the other says all
    assert unsaid_elsewhere(same, 1)[0] < 0.01
    apart = [np.concatenate([seen[0], seen[0]]), np.concatenate([seen[1], -seen[1]])]  # and here the contrary
    learnt = (1 / (1 + RIDGE)) ** 2
    assert unsaid_elsewhere(apart, 1)[0] == pytest.approx((1 + np.sqrt(learnt)) ** 2 * (seen**2).mean(), rel=0.1)
    assert unsaid_elsewhere(same[:1], 1)[0] < 0.01, "with one place, at this one"


def test_what_others_are_worth_in_gaps_is_told() -> None:
    place = Place()
    other = (place.truth[:1] * 2 + 0.1).astype(np.float32)

    def read(top: int, bottom: int) -> Seen:
        seen = place.read(top, bottom)
        return seen._replace(values=np.concatenate([seen.values, other[:, top:bottom]]))

    told = gaps_told_by(read, *place.mask.shape, 4, 1)
    true = np.abs(told.ground.rows(0, 256).values - place.truth)[:, place.mask].mean()
    alone = Ground(place.read, *place.mask.shape, 4, (False,))
    without = place.error(alone.rows(0, 256).values)
    assert true < 0.7 * without
    assert told.surroundings == pytest.approx(alone.error_under(0), rel=1e-6)
    assert told.error < 0.8 * told.surroundings
    assert 0.5 < told.error / true < 2
    place.mask[:] = False
    assert np.isnan(gaps_told_by(read, *place.mask.shape, 4, 1).error)


def test_expected_errors_are_larger_than_the_formulas(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place()

    def errors() -> list[Float32]:
        return [Ground(place.read, 256, 256, 4, (shown,)).rows(0, 256).error for shown in (True, False)]

    found = errors()
    for name in ("ERRORS", "ERRORS_IN_GAPS"):
        monkeypatch.setattr(module, name, 1.0)
    for told, formula, times in zip(found, errors(), (1.75, 1.4), strict=True):
        np.testing.assert_allclose(told, times * formula, rtol=1e-5)
