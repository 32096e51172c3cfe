"""Levels of an image of which only a part counts."""

import numpy as np
import pytest

from attcr.evidence.pyramid import Pyramid, expand, mean_of, reduce


def test_a_level_is_the_mean_by_1_3_3_1() -> None:
    image = np.zeros((1, 8, 8), np.float32)
    image[0, 3, 4] = 64
    half = reduce(image)
    assert half.shape == (1, 4, 4)
    assert half[0, 1, 2] == 9
    assert half[0, 2, 2] == half[0, 1, 1] == 3
    assert half[0, 2, 1] == 1
    assert half.sum() == 16


def test_half_a_level_up_is_linear_between_the_middles_of_cells() -> None:
    row = np.array([[[0, 4, 8]]], np.float32)
    np.testing.assert_array_equal(expand(row)[0], [[0, 1, 3, 5, 7, 8]] * 2)


def test_without_weight_a_pixel_counts_for_nothing() -> None:
    image, weight = np.full((1, 16, 16), 0.2, np.float32), np.ones((16, 16), np.float32)
    image[0, 5:9, 5:9], weight[5:9, 5:9] = 9, 0
    pyramid = Pyramid(image, weight, 3)
    np.testing.assert_allclose(mean_of(pyramid.coarsest, pyramid.weights[-1]), 0.2, rtol=1e-6)
    assert np.abs(pyramid.details[0][0][weight > 0]).max() < 1e-6


def test_details_and_the_coarsest_level_are_the_image() -> None:
    image = np.random.default_rng(0).random((2, 32, 48)).astype(np.float32)
    pyramid = Pyramid(image, np.ones((32, 48), np.float32), 3)
    back = mean_of(pyramid.coarsest, pyramid.weights[-1])
    for detail in reversed(pyramid.details):
        back = expand(back) + detail
    np.testing.assert_allclose(back, image, atol=1e-6)


@pytest.mark.parametrize("size", [(16, 32), (64, 16)])
def test_every_level_has_half_the_size(size: tuple[int, int]) -> None:
    pyramid = Pyramid(np.zeros((3, *size), np.float32), np.ones(size, np.float32), 4)
    assert [detail.shape[1] for detail in pyramid.details] == [size[0] >> level for level in range(4)]
    assert pyramid.coarsest.shape == (3, size[0] // 16, size[1] // 16)
