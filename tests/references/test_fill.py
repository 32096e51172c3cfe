import numpy as np
import pytest

from attcr.references.check import Checked, self_check
from attcr.references.fill import (
    AROUND,
    FILL_MARGIN,
    LARGEST_GROWTH,
    LARGEST_STEP,
    Added,
    Colours,
    Filled,
    Shown,
    Suspicion,
    Tuned,
    compose,
    enclosed,
    grow,
    meet_border,
    tune,
)
from fake_dates import a_gap, evidence_of, ground

SIZE = 192
COLOURS = Colours(0, 1, 2)


def kept(error: float) -> Tuned:
    return Tuned(lambda values, rows, cols: values, Checked("copied", error, {}, 0))


def shown(planes: list[np.ndarray], clear: list[np.ndarray]) -> list[Shown]:
    return [Shown(*one) for one in zip(planes, clear, strict=True)]


def test_the_reference_of_the_smallest_error_is_taken_wherever_it_is_clear() -> None:
    shape = (64, 96)
    planes = [np.full((2, *shape), value, np.float32) for value in (0.1, 0.2)]
    clear = [np.ones(shape, bool), np.ones(shape, bool)]
    clear[1][:, 48:] = False
    filled = compose([kept(0.02), kept(0.002)], shown(planes, clear), np.ones(shape, bool), 0)
    assert (filled.weights[1, :, :45] > 0.99).all()
    assert (filled.weights[0, :, 48:] == 1).all()
    assert abs(filled.values[0, 30, 5] - 0.2) < 1e-3
    assert abs(filled.values[0, 30, 60] - 0.1) < 1e-6
    assert np.abs(np.diff(filled.values[0, 30, :48])).max() < 0.02  # no border where one ends


def test_near_its_clouds_a_reference_gives_way_to_another() -> None:
    shape = (64, 96)
    planes = [np.full((1, *shape), value, np.float32) for value in (0.1, 0.2)]
    clear = [np.ones(shape, bool), np.ones(shape, bool)]
    clear[1][:, 48:] = False
    first, second = compose([kept(0.01), kept(0.009)], shown(planes, clear), np.ones(shape, bool), 0).weights[:, 30]
    assert first[47] > second[47]
    assert first[10] < second[10]


def test_where_no_reference_is_clear_nothing_is_filled() -> None:
    shape = (32, 32)
    clear = np.zeros(shape, bool)
    filled = compose([kept(0.01)], [Shown(np.ones((1, *shape), np.float32), clear)], np.ones(shape, bool), 0)
    assert not filled.weights.any()
    assert not filled.values.any()


def test_the_step_at_the_border_is_gone_and_the_middle_stays() -> None:
    gap = np.zeros((160, 160), bool)
    gap[30:130, 30:130] = True
    target = np.where(gap, 9, 0.2).astype(np.float32)[None]
    filled = Filled(np.full((1, 160, 160), 0.17, np.float32), np.ones((1, 160, 160), np.float32))
    moved = meet_border(filled, target, ~gap)[0]
    assert abs(moved[80, 30] - 0.2) < 0.008
    assert abs(moved[80, 80] - 0.17) < 1e-4
    far = Filled(np.full((1, 160, 160), 0.5, np.float32), np.ones((1, 160, 160), np.float32))
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
        both = shown([reference[:, rows], other[:, rows]], [one[rows] for one in clear])
        filled = compose(tuned, both, np.ones((last - first, 128), bool), first)
        return meet_border(filled, target[:, rows], ~gap[rows])

    whole = rows_of(0, height)
    assert np.abs(whole - (reference * 0.8 + 0.02))[:, gap].mean() < 2e-3
    for top, bottom in ((0, 50), (50, 80), (80, height)):
        first, last = max(top - 2 * FILL_MARGIN, 0), min(bottom + 2 * FILL_MARGIN, height)
        assert np.array_equal(rows_of(first, last)[:, top - first : bottom - first], whole[:, top:bottom])


def scene_and_reference(changed: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A target, a reference in other tones, a gap, and a strip beside the gap that the mask missed."""
    target = ground(SIZE, SIZE)
    reference = (target * 0.8 + 0.03).astype(np.float32)
    row, col = np.indices((SIZE, SIZE))
    gap = (row - 60) ** 2 + (col - 60) ** 2 < 30**2
    missed = ((row - 60) ** 2 + (col - 60) ** 2 < 40**2) & ~gap
    return target, reference, gap, missed


def found(target: np.ndarray, reference: np.ndarray, gap: np.ndarray) -> np.ndarray:
    evidence = evidence_of(reference, target, gap)
    doubt = Suspicion.of(evidence, self_check(evidence, ["regression"]), COLOURS)
    hazy, dark = doubt(target, reference, ~gap, 0)
    assert not (hazy & dark).any()
    return grow(gap, hazy | dark)


def test_haze_and_shadow_beside_a_gap_are_found_and_elsewhere_nothing() -> None:
    target, reference, gap, missed = scene_and_reference()
    for name, changed in (("haze", target + 0.1), ("shadow", target * 0.5)):
        seen = found(np.where(missed, changed, target).astype(np.float32), reference, gap)
        assert seen[missed].mean() > 0.8, name
        assert seen[~missed].mean() < 0.01, name


def test_a_scene_that_the_reference_foretells_is_left() -> None:
    target, reference, gap, _ = scene_and_reference()
    assert not found(target, reference, gap).any()


def test_soil_that_became_bare_beside_a_gap_is_no_haze() -> None:
    target, reference, gap, missed = scene_and_reference()
    bare = target + np.array([0.04, 0.12, 0.05], np.float32)[:, None, None]
    assert found(np.where(missed, bare, target).astype(np.float32), reference, gap)[missed].mean() < 0.05


def test_what_does_not_touch_a_gap_is_left_and_none_grows_far() -> None:
    target, reference, gap, _ = scene_and_reference()
    far = np.zeros_like(gap)
    far[130:150, 130:150] = True
    assert not found(np.where(far, target + 0.1, target).astype(np.float32), reference, gap).any()
    suspicious = np.zeros((8, 200), bool)
    suspicious[:, 2:] = True
    gap = np.zeros_like(suspicious)
    gap[:, :2] = True
    assert grow(gap, suspicious).any(axis=0).nonzero()[0].tolist() == list(range(2, 2 + LARGEST_GROWTH))
    veil = np.zeros_like(suspicious)
    veil[:, 5:20] = True
    assert grow(gap, suspicious & ~veil).any(axis=0).nonzero()[0].tolist() == [2, 3, 4]
    through = grow(gap, suspicious & ~veil, veil).any(axis=0).nonzero()[0].tolist()
    assert through == [2, 3, 4, *range(20, 2 + LARGEST_GROWTH)]


def test_nothing_grows_where_there_is_no_gap() -> None:
    *_, missed = scene_and_reference()
    assert not grow(np.zeros_like(missed), missed).any()


def columns(*widths: int) -> list[np.ndarray]:
    """Bands of columns of one kind each, so wide; all 300 rows high."""
    ends = np.cumsum(widths)
    cols = np.indices((300, ends[-1]))[1]
    return [(cols >= end - width) & (cols < end) for end, width in zip(ends, widths, strict=True)]


def test_thin_cloud_between_gaps_becomes_gap_and_beside_clear_ground_it_stays() -> None:
    everywhere = np.ones((300, 120), bool)
    gap, thin, other = columns(50, 20, 50)
    assert np.array_equal(enclosed(gap | other, thin, everywhere), thin)
    assert not enclosed(gap, thin, everywhere)[:, 60:70].any()  # nearer to the clear side
    assert enclosed(gap, thin, everywhere)[:, 50:60].all()  # no less gap than clear ground around
    assert not enclosed(np.zeros_like(gap), thin, everywhere).any()


def test_a_wide_veil_stays_but_for_its_edge() -> None:
    everywhere = np.ones((300, 300), bool)
    gap, thin = columns(100, 200)
    reached = enclosed(gap, thin, everywhere)
    assert (reached == reached[:1]).all()
    first = np.flatnonzero(~reached[0, 100:])[0]
    assert first == 48 - AROUND // 4  # of the 97 columns around it just fewer than a quarter are gap
    assert not reached[:, 100 + first :].any()


def test_what_holds_no_data_does_not_count() -> None:
    gap, thin, blank = columns(30, 10, 100)
    assert np.array_equal(enclosed(gap, thin, ~blank), thin)
    assert not enclosed(gap, thin, np.ones_like(gap)).any()


def test_a_reference_that_nothing_is_known_of_gives_way() -> None:
    assert kept(float("nan")).error == 0.05
    assert kept(0.01).preference == pytest.approx(5**4 * kept(float("nan")).preference)
    assert kept(0.0).preference == kept(0.001).preference == 1


def test_the_larger_the_share_of_a_network_the_less_a_pixel_is_moved() -> None:
    gap = np.zeros((80, 80), bool)
    gap[20:60, 20:60] = True
    target, number = np.where(gap, 9, 0.2).astype(np.float32)[None].repeat(2, 0), np.ones((1, 80, 80), np.float32)
    share = np.zeros((80, 80), np.float32)
    share[:, 40:] = 0.75
    moved = meet_border(Filled(np.full((2, 80, 80), 0.17, np.float32), number, share, [1]), target, ~gap) - 0.17
    assert moved[0, 30, 59] == pytest.approx(moved[0, 30, 20], rel=1e-3)  # this band is not the network's
    assert moved[1, 30, 59] == pytest.approx(moved[0, 30, 59] / 4, rel=1e-3)
    assert moved[1, 30, 20] == moved[0, 30, 20] > 0.02


def test_what_a_network_adds_counts_by_the_weight_of_its_reference() -> None:
    shape = (40, 8)
    both = shown([np.full((2, *shape), value, np.float32) for value in (0.1, 0.3)], [np.ones(shape, bool)] * 2)
    added = Added(10, np.full((1, 20, 8), 0.08, np.float32), np.full((20, 8), 0.5, np.float32), [1])
    filled = compose([kept(0.01), kept(0.01)], both, np.ones(shape, bool), 0, [added, None])
    assert filled.values[0] == pytest.approx(0.2)
    assert filled.values[1, 10:30] == pytest.approx(0.24)
    assert filled.values[1, :10] == pytest.approx(0.2)
    assert filled.values[1, 30:] == pytest.approx(0.2)
    assert filled.share is not None
    assert filled.share[10:30] == pytest.approx(0.25)
    assert not filled.share[:10].any()
    assert filled.bands == [1]


def test_without_clear_ground_away_from_gaps_the_reference_is_taken_as_it_is() -> None:
    target, reference, gap, _ = scene_and_reference()
    checked = Checked("regression", 0.001, {"regression": 0.001}, 1000)
    assert Suspicion.of(evidence_of(reference, target, gap), checked, COLOURS).most == 0.02
    gap = np.zeros_like(gap)
    gap[::64, ::64] = True  # a pixel of every fourth cell: no cell is far from a gap
    evidence = evidence_of(reference, target, gap)
    doubt = Suspicion.of(evidence, checked, COLOURS)
    assert evidence.common > 0.9
    assert doubt.most == pytest.approx(0.06)
    assert np.array_equal(doubt.harmonise(reference[:, 0], np.arange(SIZE), np.arange(SIZE)), reference[:, 0])


def test_what_is_brighter_but_darker_in_the_infrared_is_no_haze() -> None:
    target, reference, gap, missed = scene_and_reference()
    water = target + np.array([0.1, 0.1, -0.1], np.float32)[:, None, None]
    assert found(np.where(missed, water, target).astype(np.float32), reference, gap)[missed].mean() < 0.05


def test_the_weights_sum_to_one_and_are_true_to_the_values_in_any_order() -> None:
    shape = (48, 64)
    planes = [ground(*shape, seed=i) for i in range(3)]
    clear = [np.ones(shape, bool) for _ in planes]
    clear[0][:, 40:] = False
    clear[1][30:, :] = False
    clear[2][:24, :] = False
    clear[1][:, 50:] = False
    tuned = [kept(0.01), kept(0.008), kept(0.013)]
    filled = compose(tuned, shown(planes, clear), np.ones(shape, bool), 0)
    seen = np.any(clear, axis=0)
    assert not seen.all()
    assert np.array_equal(filled.known, seen)
    assert filled.weights.sum(axis=0)[seen] == pytest.approx(1)
    assert not filled.weights[:, ~seen].any()
    meant = sum(weight * plane for weight, plane in zip(filled.weights, planes, strict=True))
    assert filled.values[:, seen] == pytest.approx(meant[:, seen], abs=1e-6)
    assert filled.weights[:2, 5, 5] == pytest.approx(np.array([8**4, 10**4]) / (8**4 + 10**4), rel=1e-4)
    turned = compose(tuned[::-1], shown(planes[::-1], clear[::-1]), np.ones(shape, bool), 0)
    assert turned.weights == pytest.approx(filled.weights[::-1], abs=1e-6)
    assert turned.values == pytest.approx(filled.values, abs=1e-6)


def test_what_a_fit_makes_of_a_reference_stays_within_what_ground_reflects() -> None:
    wild = Tuned(lambda values, rows, cols: values * 1e20, Checked("line", 0.01, {}, 0))
    values = np.array([[[0.1, -0.1]]], np.float32)
    filled = compose([wild], [Shown(values, np.ones((1, 2), bool))], np.ones((1, 2), bool), 0)
    assert filled.values[0, 0].tolist() == pytest.approx([2, -0.2])


@pytest.mark.parametrize("across", [-2, 0, 3])
def test_a_moved_reference_ends_where_it_ends(across: int) -> None:
    values = np.arange(1, 25, dtype=np.float32).reshape(1, 4, 6)
    moved = Shown(values, values[0] != 9).moved(across, 1, 2)
    assert moved.values.shape == (1, 7, 6)
    for row, col in np.ndindex(7, 6):
        was = (row - 1, col + across)
        inside = 0 <= was[0] < 4 and 0 <= was[1] < 6
        assert moved.clear[row, col] == (inside and values[0][was] != 9)
        if inside:
            assert moved.values[0, row, col] == values[0][was]
