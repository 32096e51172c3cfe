"""What holds for every predictor's result, whatever computes it."""

from dataclasses import replace

import numpy as np

from attcr.predict.predictor import NEIGHBOURHOOD, Float32, eight_views, without_gain
from attcr.spec import TRUE_COLOUR

VEIL = replace(TRUE_COLOUR, only_light=True)


def images(change: list[float], size: int = 16) -> tuple[np.ndarray, np.ndarray]:
    """Give an image and it changed by so much in red, green and blue."""
    x = np.random.default_rng(0).random((2, 3, size, size + 4), np.float32)
    return x, x + np.float32(change)[:, None, None]


def test_eight_views_see_every_flip_and_turn_and_come_back() -> None:
    x = np.random.default_rng(0).random((2, 3, 5, 7), np.float32)
    seen = []

    def remember(view: Float32) -> Float32:
        seen.append(view.copy())
        return view

    assert np.array_equal(eight_views(remember, x), np.stack([x] * 8))
    assert len({view.tobytes() for view in seen}) == 8
    assert [view.shape[2:] for view in seen] == [(5, 7), (7, 5)] * 4


def test_the_first_view_is_the_image_as_it_is_and_each_result_is_turned_back() -> None:
    x = np.zeros((1, 1, 4, 4), np.float32)
    corner = np.zeros_like(x)
    corner[..., 0, 0] = 1
    views = eight_views(lambda view: view + corner, x)  # marks the upper left corner of what it sees
    assert np.array_equal(views[0], corner)
    marks = [tuple(int(at[0]) for at in np.nonzero(view[0, 0])) for view in views]
    assert marks == [(0, 0), (0, 3), (3, 3), (3, 0), (0, 3), (0, 0), (3, 0), (3, 3)]


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
