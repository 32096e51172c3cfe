import numpy as np
import pytest
from scipy.ndimage import shift as shifted

from attcr.references.align import ENOUGH, FARTHEST, LEAST_DETAIL, Alignment, Shift
from fake_dates import a_gap, ground

TARGET = ground(160, 192)
GAP = a_gap(160, 192)


def found(reference: np.ndarray, clear: np.ndarray | None = None) -> Shift:
    alignment = Alignment(3)
    alignment.add(reference, TARGET, np.ones_like(GAP) if clear is None else clear, ~GAP)
    return alignment.found()[0]


def other_tones(values: np.ndarray) -> np.ndarray:
    noise = np.random.default_rng(5).normal(0, 0.01, values.shape)
    return (values[[1, 2, 0]] * 0.3 + values * 0.5 + 0.05 + noise).astype(np.float32)


@pytest.mark.parametrize("by", [(0, 0), (3, 0), (0, -3), (-2, 1), (FARTHEST, -FARTHEST)])
def test_a_shift_of_a_few_pixels_is_found_in_other_tones_and_beside_a_gap(by: tuple[int, int]) -> None:
    assert found(other_tones(np.roll(TARGET, by, (1, 2)))) == by


def test_beyond_reach_or_without_common_detail_no_shift_is_believed() -> None:
    draw = np.random.default_rng(0)
    for other in (
        np.roll(TARGET, (FARTHEST + 1, 0), (1, 2)),
        np.roll(TARGET, (10, 10), (1, 2)),
        TARGET[:, ::-1],
        draw.uniform(0, 1, TARGET.shape).astype(np.float32),
        np.full_like(TARGET, 0.3),
    ):
        assert found(other) == Shift()


@pytest.mark.parametrize(("by", "down"), [(0.25, 0), (0.505, 0), (0.75, 1)])
def test_half_a_pixel_is_left_and_more_counts_as_one(by: float, down: int) -> None:
    moved = shifted(TARGET, (0, by, 0), order=1, mode="nearest").astype(np.float32)
    assert found(moved) == (down, 0)


def test_what_is_not_clear_has_no_effect() -> None:
    moved = np.roll(TARGET, (2, -1), (1, 2))
    clear = np.ones_like(GAP)
    clear[:, 150:] = False
    assert found(np.where(clear, moved, 1e30).astype(np.float32), clear) == (2, -1)


def test_blocks_of_rows_add_up_until_there_are_enough() -> None:
    alignment = Alignment(3)
    moved = np.roll(TARGET, (0, 2), (1, 2))
    for top in range(0, 160, 32):
        rows = slice(top, top + 32)
        alignment.add(moved[:, rows], TARGET[:, rows], np.ones((32, 192), bool), ~GAP[rows])
    assert alignment.found()[0] == (0, 2)
    alignment.pixels = ENOUGH
    alignment.add(TARGET, TARGET, np.ones_like(GAP), np.ones_like(GAP))
    assert alignment.pixels == ENOUGH
    assert alignment.found()[0] == (0, 2)


def test_a_shift_says_where_the_reference_lies() -> None:
    assert str(Shift(3, -1)) == "3 px down and 1 px left"
    assert str(Shift(0, 2)) == "2 px right"
    assert str(Shift(-4, 0)) == "4 px up"


def test_the_detail_of_the_same_ground_agrees_and_that_of_another_place_does_not() -> None:
    def detail(reference: np.ndarray, rows: int = 160) -> float:
        alignment = Alignment(3)
        alignment.add(reference[:, :rows], TARGET[:, :rows], np.ones((rows, 192), bool), ~GAP[:rows])
        return alignment.found()[1]

    assert detail(TARGET * np.float32(0.5) + np.float32(0.1)) == pytest.approx(1, abs=0.01)
    assert detail(np.roll(TARGET, (3, -2), (1, 2))) > 0.97
    noise = np.random.default_rng(1).normal(0, 0.02, TARGET.shape).astype(np.float32)
    assert detail(TARGET + noise) == pytest.approx(0.94, abs=0.02)
    for other in (TARGET[:, ::-1], np.full_like(TARGET, 0.3), ground(160, 192, seed=9), np.roll(TARGET, 40, 1)):
        assert detail(other) < LEAST_DETAIL / 2
    assert np.isnan(detail(TARGET, 14))  # of 4 x 182 pixels
