import numpy as np

from attcr.references.check import Checked
from attcr.references.fill import LARGEST_STEP, MARGIN, Filled, Tuned, compose, meet_border, tune
from fake_dates import a_gap, evidence_of, ground


def kept(error: float) -> Tuned:
    return Tuned(lambda values, rows, cols: values, Checked("copied", error, {}, 0))


def test_the_reference_of_the_smallest_error_is_taken_wherever_it_is_clear() -> None:
    shape = (64, 96)
    planes = [np.full((2, *shape), value, np.float32) for value in (0.1, 0.2)]
    clear = [np.ones(shape, bool), np.ones(shape, bool)]
    clear[1][:, 48:] = False
    filled = compose([kept(0.02), kept(0.002)], planes, clear, np.ones(shape, bool), 0)
    assert set(filled.number[:, :45].ravel()) == {2}
    assert set(filled.number[:, 48:].ravel()) == {1}
    assert abs(filled.values[0, 30, 5] - 0.2) < 1e-3
    assert abs(filled.values[0, 30, 60] - 0.1) < 1e-6
    assert np.abs(np.diff(filled.values[0, 30, :48])).max() < 0.02  # no border where one ends


def test_near_its_clouds_a_reference_gives_way_to_another() -> None:
    shape = (64, 96)
    planes = [np.full((1, *shape), value, np.float32) for value in (0.1, 0.2)]
    clear = [np.ones(shape, bool), np.ones(shape, bool)]
    clear[1][:, 48:] = False
    number = compose([kept(0.01), kept(0.009)], planes, clear, np.ones(shape, bool), 0).number[30]
    assert number[47] == 1
    assert number[10] == 2


def test_where_no_reference_is_clear_nothing_is_filled() -> None:
    shape = (32, 32)
    clear = np.zeros(shape, bool)
    filled = compose([kept(0.01)], [np.ones((1, *shape), np.float32)], [clear], np.ones(shape, bool), 0)
    assert not filled.number.any()
    assert not filled.values.any()


def test_the_step_at_the_border_is_gone_and_the_middle_stays() -> None:
    gap = np.zeros((160, 160), bool)
    gap[30:130, 30:130] = True
    target = np.where(gap, 9, 0.2).astype(np.float32)[None]
    filled = Filled(np.full((1, 160, 160), 0.17, np.float32), np.ones((160, 160), np.int16))
    moved = meet_border(filled, target, ~gap)[0]
    assert abs(moved[80, 30] - 0.2) < 0.008
    assert abs(moved[80, 80] - 0.17) < 1e-4
    far = Filled(np.full((1, 160, 160), 0.5, np.float32), np.ones((160, 160), np.int16))
    assert (np.abs(meet_border(far, target, ~gap) - 0.5) <= LARGEST_STEP + 1e-6).all()


def test_strips_with_their_margin_give_the_bits_of_the_whole() -> None:
    height = 160
    reference, gap = ground(height, 128), a_gap(height, 128)
    target = np.where(gap, 0.9, reference * 0.8 + 0.02).astype(np.float32)
    other = ground(height, 128, seed=0) * np.float32(1.1)
    clear = [np.ones(gap.shape, bool), ~np.roll(gap, 20, 1)]
    tuned = [tune(evidence_of(one, target, gap)) for one in (reference, other)]

    def rows_of(first: int, last: int) -> np.ndarray:
        rows = slice(first, last)
        values = [reference[:, rows], other[:, rows]]
        filled = compose(tuned, values, [one[rows] for one in clear], np.ones((last - first, 128), bool), first)
        return meet_border(filled, target[:, rows], ~gap[rows])

    whole = rows_of(0, height)
    assert np.abs(whole - (reference * 0.8 + 0.02))[:, gap].mean() < 2e-3
    for top, bottom in ((0, 50), (50, 80), (80, height)):
        first, last = max(top - 2 * MARGIN, 0), min(bottom + 2 * MARGIN, height)
        assert np.array_equal(rows_of(first, last)[:, top - first : bottom - first], whole[:, top:bottom])
