"""How alike two images look, by value."""

import numpy as np
import pytest
from tools.audit.looks import (
    HASH_BITS,
    REACH,
    SYMMETRIES,
    THUMB,
    VIEW,
    WAVES,
    aligned_correlation,
    blocks,
    cells,
    correlate,
    detail,
    hash_distances,
    hash_signs,
    shows_through,
    thumbnail,
    turn,
    turn_hash,
)


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(100, 20, shape).astype(np.float32)


def test_cells_are_means_row_by_row() -> None:
    image = np.arange(16, dtype=np.float32).reshape(4, 4)
    assert cells(image, 2).tolist() == [[2.5, 4.5], [10.5, 12.5]]
    assert cells(np.stack([image, image + 1]), 1).tolist() == [[[7.5]], [[8.5]]]


def test_blocks_are_cut_row_by_row() -> None:
    image = np.arange(24, dtype=np.float32).reshape(4, 6)
    assert blocks(image, 2)[1].tolist() == [2, 3, 8, 9]
    assert blocks(image, 2)[3].tolist() == [12, 13, 18, 19]


def test_the_symmetries_do_what_their_names_say() -> None:
    image = np.array([[1, 2], [3, 4]])
    assert dict(zip(SYMMETRIES, (turn(image, number).tolist() for number in range(8)), strict=True)) == {
        "as it is": [[1, 2], [3, 4]],
        "flipped left-right": [[2, 1], [4, 3]],
        "flipped top-bottom": [[3, 4], [1, 2]],
        "turned by 180 degrees": [[4, 3], [2, 1]],
        "flipped along the diagonal": [[1, 3], [2, 4]],
        "turned right": [[3, 1], [4, 2]],
        "turned left": [[2, 4], [1, 3]],
        "flipped along the other diagonal": [[4, 2], [3, 1]],
    }


@pytest.mark.parametrize("symmetry", range(8))
def test_the_hash_of_a_turned_image_is_the_turned_hash(symmetry: int) -> None:
    small = noise(3, VIEW, VIEW)
    assert np.array_equal(hash_signs(turn(small, symmetry)), turn_hash(hash_signs(small), symmetry))


def test_hash_distances_count_the_bits_but_the_mean() -> None:
    one = np.ones((2, WAVES, WAVES), np.int8)
    other = one.copy()
    other[0, 0, 0] = -1  # the mean, which says nothing
    other[1, 3, 4] = other[1, 7, 7] = other[1, 0, 1] = -1
    assert HASH_BITS == 63
    assert hash_distances(one, other).tolist() == [[0, 3], [0, 3]]
    assert hash_distances(-one, one)[0, 0] == 63


def test_correlation_is_pearsons_and_0_for_a_level_image() -> None:
    one, other = noise(3, 50), noise(3, 50, seed=1)
    expected = [np.corrcoef(a, b)[0, 1] for a, b in zip(one, other, strict=True)]
    assert correlate(one, other) == pytest.approx(np.array(expected), abs=1e-5)
    assert correlate(one, 7 - 3 * one) == pytest.approx(np.array([-1, -1, -1]), abs=1e-5)
    assert correlate(one, np.full((3, 50), 8.0)).tolist() == [0, 0, 0]


def test_detail_has_no_brightness_left() -> None:
    image = noise(64, 64)
    assert abs(float(detail(image + 1000).mean())) < 1
    assert np.allclose(detail(image + 50), detail(image), atol=1e-3)
    assert np.abs(detail(np.full((64, 64), 9, np.float32))).max() < 1e-4


def test_a_thumbnail_has_32_for_a_standard_deviation_whatever_the_contrast() -> None:
    small = noise(3, VIEW, VIEW)
    thumb = thumbnail(small)
    assert thumb.shape == (THUMB, THUMB)
    assert float(thumb.astype(float).std()) == pytest.approx(32, abs=0.7)
    assert np.abs(thumbnail(small * 3).astype(int) - thumb).max() <= 1
    assert not thumbnail(np.full((3, VIEW, VIEW), 7, np.float32)).any()


def test_what_shows_through_is_the_ninth_decile_of_its_blocks() -> None:
    clear = noise(3, VIEW, VIEW)
    cloudy = noise(3, VIEW, VIEW, seed=1)
    cloudy[:, :32] = 0.5 * clear[:, :32] + 60  # 16 of 64 blocks show
    assert shows_through(cloudy, clear) > 0.9
    cloudy[:, 16:32] = noise(3, 16, VIEW, seed=2)  # 8 of them: the seventh best is still one
    assert shows_through(cloudy, clear) > 0.8
    cloudy[:, :16, 32:] = noise(3, 16, VIEW - 32, seed=3)  # 2
    assert shows_through(cloudy, clear) < 0.5


def test_the_closer_look_forgives_a_shift_up_to_its_reach() -> None:
    image = noise(VIEW + 40, VIEW + 40)
    still = image[20 : 20 + VIEW, 20 : 20 + VIEW]
    assert aligned_correlation(still, still) == pytest.approx(1, abs=1e-4)
    for row, col in ((REACH, REACH), (-REACH, 0), (0, -REACH), (2, -3)):
        moved = image[20 + row : 20 + row + VIEW, 20 + col : 20 + col + VIEW]
        assert aligned_correlation(still, moved) == pytest.approx(1, abs=1e-3)
    beyond = image[20 + REACH + 1 : 21 + REACH + VIEW, 20 : 20 + VIEW]
    assert aligned_correlation(still, beyond) < 0.3
