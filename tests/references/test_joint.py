import numpy as np
import pytest

import attcr.references.joint
from attcr.references.fill import EDGE, Shown
from attcr.references.harmonise import Cells
from attcr.references.joint import FEWEST, MARGIN, MOST_FITS, Joint, planes_of
from fake_dates import a_gap, evidence_of, ground

HEIGHT, WIDTH = 96, 128
GAP = a_gap(HEIGHT, WIDTH)
EVERY = np.ones((HEIGHT, WIDTH), bool)
A, B, C = (ground(seed=seed) for seed in (1, 2, 3))
TRUTH = (0.7 * A + 0.3 * B).astype(np.float32)


def joint_of(shown: list[Shown], target: np.ndarray = TRUTH, clear: np.ndarray = ~GAP) -> Joint:
    joint = Joint(Cells.over(*clear.shape), len(shown))
    joint.add(0, shown, target, clear, 0)
    return joint


def off(values: np.ndarray, where: np.ndarray = GAP, truth: np.ndarray = TRUTH) -> float:
    return float(np.abs(values - truth)[:, where].mean())


def test_a_scene_that_is_a_mixture_of_two_references_is_filled_by_both_and_by_neither_alone() -> None:
    shown = [Shown(A, EVERY), Shown(B, EVERY)]
    mixed = joint_of(shown).mix(shown, 0, EVERY)
    assert off(mixed.values) < 1e-4
    alone = [off(joint_of([one]).mix([one], 0, EVERY).values) for one in shown]
    assert min(alone) > 0.01


def test_how_much_is_from_a_reference_is_what_it_adds_and_its_contrast_makes_no_difference() -> None:
    spread = np.sqrt([np.var(one, axis=(1, 2)).sum() for one in (0.7 * A, 0.3 * B)])
    for gain, plus in ((1.0, 0.0), (0.5, 0.1)):
        shown = [Shown(A, EVERY), Shown((gain * B + plus).astype(np.float32), EVERY)]
        mixed = joint_of(shown, clear=EVERY).mix(shown, 0, EVERY)
        assert mixed.parts[:, 5, 5] == pytest.approx(spread / spread.sum(), abs=2e-3)
        assert np.abs(mixed.parts.sum(axis=0) - 1).max() < 1e-6


def test_where_one_reference_is_clear_in_half_of_the_gap_the_other_half_is_as_good_as_without_it() -> None:
    half = EVERY.copy()
    half[:, 72:] = False
    shown = [Shown(A, EVERY), Shown(np.where(half, B, 9).astype(np.float32), half)]
    mixed = joint_of(shown).mix(shown, 0, EVERY)
    alone = joint_of(shown[:1]).mix(shown[:1], 0, EVERY)
    inside = half.copy()
    inside[:, 72 - EDGE :] = False
    assert off(mixed.values, GAP & inside) < 1e-4
    assert off(mixed.values, GAP & ~half) == pytest.approx(off(alone.values, GAP & ~half), rel=0.02)
    assert mixed.clear.all()
    assert (mixed.parts[1, :, 72:] == 0).all()
    assert np.abs(mixed.parts.sum(axis=0) - 1).max() < 1e-6


def test_towards_its_edge_a_reference_leaves_the_mixture_step_by_step() -> None:
    half = EVERY.copy()
    half[:, 60:] = False
    shown = [Shown(A, EVERY), Shown(B, half)]
    part = joint_of(shown).mix(shown, 0, EVERY).parts[1, 50]
    whole = part[30]
    assert part[60 - EDGE : 60] == pytest.approx(whole * np.arange(EDGE, 0, -1) / EDGE, abs=1e-3)


def test_where_none_is_clear_nothing_is_shown() -> None:
    clear = EVERY.copy()
    clear[:, :8] = False
    shown = [Shown(A, clear), Shown(B, clear)]
    mixed = joint_of(shown).mix(shown, 0, EVERY)
    assert np.array_equal(mixed.clear, clear)
    assert not mixed.values[:, ~clear].any()
    assert not mixed.parts[:, ~clear].any()


def test_what_is_not_wanted_is_not_mixed() -> None:
    shown = [Shown(A, EVERY), Shown(B, EVERY)]
    mixed = joint_of(shown).mix(shown, 0, GAP)
    assert mixed.parts.any(axis=0)[GAP].all()
    assert not mixed.values[:, ~GAP].any()
    assert mixed.clear.all()


def test_values_under_a_references_cloud_change_nothing() -> None:
    clear = EVERY.copy()
    clear[20:60, 40:90] = False
    results = []
    for under in (0.0, 0.9):
        shown = [Shown(A, EVERY), Shown(np.where(clear, B, under).astype(np.float32), clear)]
        results.append(joint_of(shown).mix(shown, 0, EVERY))
    assert np.array_equal(results[0].values, results[1].values)


def test_the_result_does_not_depend_on_how_many_rows_come_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attcr.references.joint, "MOST_PIXELS", 2000)  # every third row: no part of 16
    holes = np.random.default_rng(0).random((HEIGHT, WIDTH)) > 0.999
    shown = [Shown(A, EVERY), Shown(B, ~holes), Shown(C, EVERY)]
    whole = joint_of(shown)
    parts = Joint(whole.cells, 3)
    rows = []
    for top in range(0, HEIGHT, 16):
        above, last = min(top, MARGIN), min(top + 16 + MARGIN, HEIGHT)
        cut = [one.cut(top - above, last) for one in shown]
        parts.add(top, cut, TRUTH[:, top : top + 16], ~GAP[top : top + 16], above)
    for top in range(0, HEIGHT, 16):
        above, last = min(top, MARGIN), min(top + 16 + MARGIN, HEIGHT)
        cut = [one.cut(top - above, last) for one in shown]
        rows.append(parts.mix(cut, above, EVERY[top : top + 16]))
    mixed = whole.mix(shown, 0, EVERY)
    assert np.array_equal(mixed.values, np.concatenate([one.values for one in rows], axis=1))
    assert np.array_equal(mixed.parts, np.concatenate([one.parts for one in rows], axis=1))


def test_detail_and_tone_have_weights_of_their_own() -> None:
    planes = planes_of(Shown(A, EVERY), *np.nonzero(EVERY)).reshape(2, 3, HEIGHT, WIDTH)
    truth = (0.2 * planes[0] + 0.7 * planes[1]).astype(np.float32)
    shown = [Shown(A, EVERY)]
    assert off(joint_of(shown, truth).mix(shown, 0, EVERY).values, GAP, truth) < 2e-4
    assert planes[0].std() > 1.1 * planes[1].std()


def test_what_changed_does_not_decide_the_weights() -> None:
    changed = TRUTH.copy()
    changed[:, :20] += 0.3
    shown = [Shown(A, EVERY), Shown(B, EVERY)]
    assert off(joint_of(shown, changed).mix(shown, 0, EVERY).values) < 0.02


def test_a_reference_that_shares_too_few_pixels_is_left_out() -> None:
    few = np.zeros_like(EVERY)
    few[:8, :10] = True
    assert few.sum() < FEWEST * 2 * 3 * 2
    shown = [Shown(A, EVERY), Shown(C, few)]
    fit = joint_of(shown).fit((0, 1))
    assert fit.parts.tolist() == [1, 0]
    assert not fit.weights[1].any()


def test_without_contrast_the_weights_are_those_of_the_plain_mean() -> None:
    flat = [np.full((3, HEIGHT, WIDTH), value, np.float32) for value in (0.1, 0.3)]
    shown = [Shown(one, EVERY) for one in flat]
    fit = joint_of(shown).fit((0, 1))
    assert fit.weights[:, :, :3] == pytest.approx(np.stack([np.eye(3) / 2] * 2), abs=1e-3)
    assert fit.weights[:, :, 3:] == pytest.approx(0, abs=1e-3)
    assert fit.parts.sum() == pytest.approx(1)


def test_only_some_fits_are_held() -> None:
    shown = [Shown(one, EVERY) for one in (A, B, C)]
    joint = joint_of(shown)
    first = joint.mix(shown, 0, EVERY).values
    joint._fits = dict.fromkeys([(99 + i,) for i in range(MOST_FITS)], joint.fit((0,)))
    assert np.array_equal(joint.mix(shown, 0, EVERY).values, first)
    assert len(joint._fits) == 1


def test_ground_that_was_fitted_on_has_a_smaller_error_than_hidden_ground() -> None:
    noise = [np.random.default_rng(i).normal(0.2, 0.05, TRUTH.shape).astype(np.float32) for i in range(3)]
    shown = [Shown(one, EVERY) for one in noise]
    assert joint_of(shown).optimism(evidence_of(noise[0], TRUTH, GAP)) > 1.001
    exact = [Shown(A, EVERY), Shown(B, EVERY)]
    assert joint_of(exact).optimism(evidence_of(A, TRUTH, GAP)) == pytest.approx(1, abs=0.1)
