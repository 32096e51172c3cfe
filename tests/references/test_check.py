import numpy as np

from attcr.references.check import self_check
from attcr.references.harmonise import METHODS, Seen
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
        name: np.abs(method(Seen.of(evidence))(reference[:, gap], rows, cols) - target[:, gap]).mean()
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
