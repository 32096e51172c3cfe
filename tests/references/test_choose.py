import numpy as np

from attcr.references.choose import choose_references, nearness

CLOUD = np.zeros((10, 10), bool)
CLOUD[:, :8] = True
ALL = np.ones((10, 10), np.float32)


def columns(*seen: int) -> np.ndarray:
    share = np.zeros((10, 10), np.float32)
    share[:, list(seen)] = 1
    return share


def test_first_comes_the_one_that_sees_most_then_the_one_that_adds_most() -> None:
    shares = [
        columns(1, 2, 3, 4, 8, 9),  # what is not under cloud counts for nothing
        columns(5, 6, 7),
        columns(0, 1, 2, 3, 4),
        columns(5, 6),
    ]
    assert choose_references(CLOUD, shares, [6, 10, 5, 12], 2) == [2, 1]
    assert choose_references(CLOUD, shares, [6, 10, 5, 12], 1) == [2]


def test_of_dates_that_see_as_much_the_nearer_one_and_then_the_other_side_come_first() -> None:
    assert choose_references(CLOUD, [ALL] * 4, [-30, 5, -20, 3], 2) == [3, 2]
    assert choose_references(CLOUD, [ALL] * 4, [-30, 5, -20, 3], 4) == [3, 2, 1, 0]


def test_what_is_new_counts_more_than_what_is_seen_from_the_other_side() -> None:
    assert choose_references(CLOUD, [columns(0, 1, 2, 3, 4), columns(0, 1, 2, 3), columns(5, 6, 7)], [5, -4, 8], 2) == [
        0,
        2,
    ]


def test_a_date_that_adds_nothing_is_not_taken() -> None:
    assert choose_references(CLOUD, [columns(0, 1), columns(8, 9)], [3, 4], 3) == [0]
    assert choose_references(np.zeros((10, 10), bool), [ALL], [3], 3) == []


def test_a_date_counts_half_after_sixty_days() -> None:
    assert nearness(0) == 1
    assert nearness(-60) == nearness(60) == 0.5
