"""What holds for every predictor's result, whatever computes it."""

from dataclasses import replace

import numpy as np

from attcr.predict.predictor import NEIGHBOURHOOD, without_gain
from attcr.spec import TRUE_COLOUR

VEIL = replace(TRUE_COLOUR, only_light=True)


def images(change: list[float], size: int = 16) -> tuple[np.ndarray, np.ndarray]:
    """Give an image and it changed by so much in red, green and blue."""
    x = np.random.default_rng(0).random((2, 3, size, size + 4), np.float32)
    return x, x + np.float32(change)[:, None, None]


def test_what_brightens_every_band_is_lowered_by_the_least_of_them() -> None:
    x, y = images([0.3, 0.2, 0.1])
    np.testing.assert_allclose(without_gain(VEIL, x, y) - x, images([0.2, 0.1, 0.0])[1] - x, atol=1e-6)


def test_what_darkens_a_band_stays_to_the_bit() -> None:
    x, y = images([0.3, 0.2, -0.01])
    assert np.array_equal(without_gain(VEIL, x, y), y)


def test_weights_that_remove_more_than_light_may_brighten() -> None:
    x, y = images([0.3, 0.2, 0.1])
    assert without_gain(TRUE_COLOUR, x, y) is y


def test_the_mean_is_of_the_neighbourhood_and_not_of_the_image() -> None:
    x = np.zeros((1, 3, 8, 4 * NEIGHBOURHOOD), np.float32)
    y = x.copy()
    middle = 2 * NEIGHBOURHOOD
    y[..., :middle] = 0.5
    y[..., middle:] = -0.5
    changed = without_gain(VEIL, x, y)
    assert np.allclose(changed[..., : middle - NEIGHBOURHOOD], 0)
    assert np.array_equal(changed[..., middle:], y[..., middle:])
    edge = changed[0, :, 0, middle - 1]  # 65 of its 129 columns rose, 64 fell
    np.testing.assert_allclose(edge, 0.5 - 0.5 / NEIGHBOURHOOD, atol=1e-6)


def test_the_caller_s_arrays_are_left_alone_and_other_planes_too() -> None:
    x, y = images([0.3, 0.2, 0.1])
    y = np.concatenate([y, np.full_like(y, 7)], axis=1)
    before = y.copy()
    changed = without_gain(replace(VEIL, spread=True), x, y)
    assert np.array_equal(y, before)
    assert np.array_equal(changed[:, 3:], y[:, 3:])
