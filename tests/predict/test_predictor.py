"""What holds for every predictor's result, whatever computes it."""

from dataclasses import replace

import numpy as np
import pytest

from attcr.bands.spec import TRUE_COLOUR, Slot
from attcr.predict.predictor import NEIGHBOURHOOD, Float32, as_a_veil, eight_views, run_padded
from attcr.weights import WeightsHeader

VEIL = replace(TRUE_COLOUR, only_light=True)


def images(change: list[float], size: int = 16) -> tuple[np.ndarray, np.ndarray]:
    """Give an image and it changed by so much in red, green and blue."""
    x = np.random.default_rng(0).random((2, 3, size, size + 4), np.float32)
    return x, x + np.float32(change)[:, None, None]


def test_a_change_is_added_to_the_planes_that_the_network_says_and_padding_goes() -> None:
    spec = replace(TRUE_COLOUR, slots=(Slot("sar:vv"), *TRUE_COLOUR.slots))
    header = WeightsHeader("attcr", {"residual": [1, 2, 3]}, spec, {})
    x = np.random.default_rng(0).random((2, 4, 9, 14), np.float32)
    y = run_padded(x, header, lambda seen: np.full((2, 3, *seen.shape[2:]), 0.25, np.float32))
    np.testing.assert_array_equal(y, x[:, 1:] + np.float32(0.25))


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
    np.testing.assert_allclose(as_a_veil(VEIL, x, y) - x, images([0.2, 0.1, 0.0])[1] - x, atol=1e-6)


def test_what_darkens_a_band_stays_to_the_bit() -> None:
    x, y = images([0.3, 0.2, -0.01])
    for predicted in (y, x * np.float32(0.3)):
        assert np.array_equal(as_a_veil(VEIL, x, predicted), predicted)


def test_weights_that_remove_more_than_light_may_brighten() -> None:
    x, y = images([0.3, 0.2, 0.1])
    assert as_a_veil(TRUE_COLOUR, x, y) is y


def test_the_mean_is_of_the_neighbourhood_and_not_of_the_image() -> None:
    x = striped(0.1, 4 * NEIGHBOURHOOD)
    y = x.copy()
    middle = 2 * NEIGHBOURHOOD
    y[..., :middle] += 0.5
    y[..., middle:] -= 0.5
    changed = as_a_veil(VEIL, x, y) - x
    np.testing.assert_allclose(changed[..., : middle - NEIGHBOURHOOD], 0, atol=1e-6)
    np.testing.assert_allclose(changed[..., middle:], -0.5, atol=1e-6)
    edge = changed[0, :, 0, middle - 1]  # 65 of its 129 columns rose, 64 fell
    np.testing.assert_allclose(edge, 0.5 - 0.5 / NEIGHBOURHOOD, atol=1e-6)


def striped(deviation: float, width: int = 24) -> Float32:
    """Give an image of 0.5 whose rows differ from it by a standard deviation, in turn more and less."""
    rows = 0.5 + np.float32(deviation) * np.where(np.arange(8) % 2, 1, -1).astype(np.float32)
    return np.tile(rows[None, None, :, None], (1, 3, 1, width)).astype(np.float32)


@pytest.mark.parametrize(
    ("deviation", "share"), [(0.0, 0.0), (1.4 / 255, 0.0), (2.0 / 255, 0.5), (2.25 / 255, 0.75), (2.6 / 255, 1.0)]
)
def test_what_has_no_texture_stays_as_it_is(deviation: float, share: float) -> None:
    x = striped(deviation, 4 * NEIGHBOURHOOD)
    predicted = x - np.float32(0.1)
    result = as_a_veil(VEIL, x, predicted)
    if 0 < share < 1:  # in the middle as many rows above are dark as rows below are light, repeated edges too
        np.testing.assert_allclose((x - result)[:, :, 3:5], 0.1 * share, atol=2e-3)
    else:
        assert np.array_equal(result, predicted if share else x)


def test_texture_in_one_band_is_enough_and_is_looked_for_in_the_neighbourhood() -> None:
    x = striped(0.0, 4 * NEIGHBOURHOOD)
    x[:, 1, :, 3 * NEIGHBOURHOOD :] = striped(0.1, NEIGHBOURHOOD)[:, 1]
    result = as_a_veil(VEIL, x, x - np.float32(0.1))
    assert np.array_equal(result[..., : 2 * NEIGHBOURHOOD], x[..., : 2 * NEIGHBOURHOOD])
    assert np.array_equal(result[..., 3 * NEIGHBOURHOOD :], (x - np.float32(0.1))[..., 3 * NEIGHBOURHOOD :])


def test_the_caller_s_arrays_are_left_alone_and_other_planes_too() -> None:
    x, y = images([0.3, 0.2, 0.1])
    y = np.concatenate([y, np.full_like(y, 7)], axis=1)
    before = y.copy()
    changed = as_a_veil(replace(VEIL, spread=True), x, y)
    assert np.array_equal(y, before)
    assert np.array_equal(changed[:, 3:], y[:, 3:])
