"""Several witnesses of cloud by one rule."""

import numpy as np
import pytest

from attcr.scenes.clouds.masks import CLEAR, CLOUD, THIN
from attcr.scenes.clouds.vote import (
    CLASS,
    DARK,
    SURE,
    against,
    change_says,
    clear_bit,
    says,
    settled,
    shade_says,
    shadow_odds,
    veil_says,
    with_shadow,
)


def test_a_witness_adds_its_odds() -> None:
    classes = np.array([CLEAR, THIN, CLOUD], np.uint8)
    np.testing.assert_allclose(says("s2cloudless", classes), [-1.3, 1.5, 1.5], rtol=1e-6)
    np.testing.assert_allclose(says("scl", classes), [-1.3, 2.5, 2.5], rtol=1e-6)


@pytest.mark.parametrize(
    ("change", "odds"),
    [
        (0.0, -2),
        (0.005, -1),
        (0.0075, -0.5),
        (0.01, 0),
        (0.02, 1),
        (0.03, 2.2),
        (0.05, 3),
        (0.12, 3),
        (0.16, 1.5),
        (0.4, 0),
        (-0.02, 0.4),
    ],
)
def test_the_network_says_more_the_more_it_changes(change: float, odds: float) -> None:
    assert change_says(np.array([change], np.float32))[0] == pytest.approx(odds, abs=1e-5)


@pytest.mark.parametrize(
    ("amount", "odds"),
    [
        *((0.0, -1), (0.5, -0.5), (1, 0), (1.5, 1), (2, 2), (2.5, 2.65), (3, 3.3), (40, 3.3)),
        *((-1.0, -1), (-1.01, 0), (-30, 0), (np.nan, 0)),
    ],
)
def test_a_veil_says_more_the_more_it_is_and_nothing_of_what_is_darker_or_not_known(amount: float, odds: float) -> None:
    assert veil_says(np.array([amount], np.float32), 4.3)[0] == pytest.approx(odds, abs=1e-5)


@pytest.mark.parametrize(("amount", "odds"), [(0.0, -1), (1.5, 0), (2, 0.7), (3, 2), (9, 2), (-2, 0), (np.nan, 0)])
def test_a_veil_says_less_beside_fewer_others(amount: float, odds: float) -> None:
    assert veil_says(np.array([amount], np.float32), 3.0)[0] == pytest.approx(odds, abs=1e-5)
    more = veil_says(np.array([amount], np.float32), 5.0)
    assert more == veil_says(np.array([amount], np.float32), 4.3)


def test_what_others_say_together_where_they_see_no_cloud() -> None:
    assert against(["s2cloudless", "csmask", "network"]) == pytest.approx(4.3)
    assert against(["scl", "network"]) == pytest.approx(3.3)
    for witnesses in (["s2cloudless", "csmask", "network"], ["csmask", "network"]):
        sum_of_no = against(witnesses)
        assert veil_says(np.array([40], np.float32), sum_of_no)[0] - sum_of_no == pytest.approx(-1, abs=1e-5), (
            "not alone"
        )


def test_haze_that_only_the_network_sees_is_cloud() -> None:
    others = says("s2cloudless", np.zeros(1, np.uint8)) + says("csmask", np.zeros(1, np.uint8))
    assert others[0] + change_says(np.array([0.036], np.float32))[0] > 0
    assert others[0] + change_says(np.array([0.02], np.float32))[0] < 0


def test_two_detectors_outvote_a_network_that_sees_nothing() -> None:
    yes = np.ones(1, np.uint8)
    assert says("s2cloudless", yes)[0] + says("csmask", yes)[0] + change_says(np.zeros(1, np.float32))[0] > 0
    assert says("csmask", yes)[0] + says("s2cloudless", 0 * yes)[0] + change_says(np.zeros(1, np.float32))[0] < -1


def test_odds_become_cloud_what_is_dark_and_what_is_surely_clear() -> None:
    odds = np.array([0.1, 0.1, -0.2, -0.7, -1.1], np.float32)
    found = settled(odds, np.array([False, True, True, False, False]))
    assert (found & CLASS).tolist() == [CLOUD, CLOUD, CLEAR, CLEAR, CLEAR]
    assert ((found & DARK) > 0).tolist() == [False, True, False, False, False]
    assert [[bool(one & (int(SURE) << i)) for i in range(3)] for one in found] == [
        [False, False, False],
        [False, False, False],
        [False, False, True],
        [False, True, True],
        [True, True, True],
    ]


@pytest.mark.parametrize(
    ("counts", "bit"), [((12, 50, 60), 0), ((11, 50, 60), 1), ((0, 11, 60), 2), ((0, 0, 1), 2), ((0, 0, 0), 2)]
)
def test_the_surest_bit_that_enough_of_the_scene_has_is_chosen(counts: tuple[int, ...], bit: int) -> None:
    assert clear_bit(counts, 100) == int(SURE) << bit


def test_lost_sunlight_says_shadow_and_never_that_there_is_none() -> None:
    amounts = np.array([-5, 1, 1.5, 2, 3, 4, 9, np.nan], np.float32)
    assert shade_says(amounts).tolist() == [0, 0, 0.5, 1, 1.5, 2, 2, 0]


@pytest.mark.parametrize(
    ("called", "darker", "water", "odds"),
    [
        (0.0, 0.0, False, -2.2),
        (1.0, 0.0, False, -0.2),
        (1.0, 0.1, False, 0.4),
        (0.0, 0.4, False, 0.2),
        (0.0, 3.0, False, 2.6),
        (1.0, -3.0, False, -3.2),
        (0.0, 0.4, True, -3.0),
        (0.4, 0.0, True, -3.0),
        (0.5, 0.4, True, 1.2),
    ],
)
def test_shadow_is_dark_in_all_bands_and_water_is_none(called: float, darker: float, water: bool, odds: float) -> None:
    made = shadow_odds(np.float32([called]), np.float32([darker]), np.array([water]))
    assert made[0] == pytest.approx(odds, abs=1e-5)


def test_shadow_counts_where_there_is_no_cloud_and_keeps_dark_ground_from_being_surely_clear() -> None:
    odds = np.float32([-2, -2, -2, 1, 1, 0.4])
    shadow = np.float32([0.5, -0.2, -0.4, 0.5, 2, -1])
    made, dark = with_shadow(odds, np.array([False] * 5 + [True]), shadow)
    np.testing.assert_allclose(made, [0.5, -0.2, -2, 1, 1, 0.4], rtol=1e-6)
    assert dark.tolist() == [True, False, False, False, True, True]
