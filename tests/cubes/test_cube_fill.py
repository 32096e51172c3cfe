"""The filling of a block from all its dates."""

import numpy as np
import pytest

from attcr.cubes.fill import Dates, _Block, fill
from attcr.restore.walk import CLOUD_LEFT, FROM_DATE, NODATA, ORIGINAL


@pytest.fixture
def ground():
    """Four dates: the second and third show one ground in other tones, the first and last another one."""
    draw = np.random.default_rng(0)
    one, other = draw.uniform(0.1, 0.4, (2, 2, 96, 96))
    dates = [other, one, 0.8 * one + 0.02, other + 0.05]
    return np.float32(dates + draw.normal(0, 0.004, (4, 2, 96, 96)))


@pytest.fixture
def dates(ground):
    values, classes = ground.copy(), np.zeros((4, 96, 96), np.uint8)
    classes[1, 20:60, 20:70] = 2
    values[1, :, :20, 50:70] = np.nan
    classes[:, :5, :5] = 2
    values[:, :, 90:, 90:] = np.nan
    values[1, :, 20:60, 20:70] = 0.9
    return Dates(values, classes, np.array([0.0, 8, 10, 40]), ("red", "nir"))


def test_what_was_seen_comes_out_to_the_bit_and_is_its_own_source(dates):
    made = fill(dates)
    own = made.quality == ORIGINAL
    assert (own == dates.seen).all()
    assert (made.values.swapaxes(0, 1)[:, own] == dates.values.swapaxes(0, 1)[:, own]).all()
    assert (made.source[own] == np.nonzero(own)[0]).all()
    assert (made.error[own] == 0).all()
    assert (made.days[own] == 0).all()


def test_what_no_date_saw_is_not_known(dates):
    made = fill(dates)
    for kind, where in ((CLOUD_LEFT, np.s_[:, :5, :5]), (NODATA, np.s_[:, 90:, 90:])):
        assert (made.quality[where] == kind).all()
        assert np.isnan(made.values[:, 0][where]).all()
        assert np.isnan(made.error[where]).all()
        assert (made.source[where] == -1).all()


def test_cloud_and_missing_data_are_filled_from_the_date_that_shows_their_ground(dates, ground):
    made = fill(dates, [1])
    for where in (np.s_[20:60, 20:70], np.s_[5:20, 50:70]):
        assert (made.quality[0][where] == FROM_DATE).all()
        assert (made.source[0][where] == 2).all()
        assert made.days[0][where].mean() == pytest.approx(2, abs=1.5)
        error = np.abs(made.values[0] - ground[1])[(slice(None), *where)].mean()
        assert error == pytest.approx(0.005, abs=0.0015)  # of the noise of both dates
        assert made.error[0][where].mean() == pytest.approx(error, rel=0.25)


def test_a_source_saw_the_ground(dates):
    dates.classes[2, 30:40, 30:40] = 2  # the best one shows nothing in the middle of the gap
    made = fill(dates)
    rows, cols = np.indices(made.source.shape[1:])
    for source in made.source:
        assert dates.seen[source, rows, cols][source >= 0].all()


def test_a_date_that_shows_nothing_is_between_its_neighbours_and_says_how_far_it_may_be_off():
    draw = np.random.default_rng(1)
    steps = np.cumsum(draw.normal(0, 0.02, (9, 2, 64, 64)), axis=0)
    values = np.float32(0.3 + steps)
    classes = np.zeros((9, 64, 64), np.uint8)
    classes[4] = 2
    made = fill(
        Dates(np.where(classes[:, None] > 0, np.float32(0.9), values), classes, np.arange(9.0), ("red", "nir")), [4]
    )
    error = np.abs(made.values[0] - values[4]).mean()
    assert error <= 1.05 * np.abs((values[3] + values[5]) / 2 - values[4]).mean()
    assert made.error[0].mean() == pytest.approx(error, rel=0.25)
    assert set(np.unique(made.source)) <= {3, 5}


def test_a_hidden_date_lies_between_those_about_it_by_its_day_and_mostly_those_that_show_their_ground():
    ground = np.random.default_rng(2).uniform(0.1, 0.3, (2, 64, 64))
    days = np.array([0.0, 20, 25, 80])
    values = np.float32([ground + 0.001 * day for day in days])
    classes = np.zeros((4, 64, 64), np.uint8)
    classes[1] = 2
    made = fill(Dates(values, classes, days, ("red", "nir")), [1])
    assert np.abs(made.values[0] - values[1]).max() < 0.002  # dates are up to 0.06 apart
    assert (made.source[0] == 2).all()  # the nearest
    assert 0 < made.error[0].mean() < 0.02
    classes[2, 2:] = 2
    values[2, :, :2] += 0.05  # of what the nearest shows, a strip of other ground is left
    made = fill(Dates(values, classes, days, ("red", "nir")), [1])
    assert (made.source[0, 2:] == 0).all()
    assert np.abs(made.values[0] - values[1])[:, 2:].mean() < 0.02


def test_the_expected_error_is_that_of_dates_that_are_hidden_in_the_same_place():
    draw = np.random.default_rng(6)
    ground = draw.uniform(0.1, 0.3, (2, 128, 128))
    drift = (np.arange(128) > 80)[:, None] * draw.normal(0, 0.05, (6, 1, 1, 1))  # of rows far from those that are told
    values = np.float32(ground + drift + draw.normal(0, 0.002, (6, 2, 128, 128)))
    classes = np.zeros((6, 128, 128), np.uint8)
    classes[2, 40:] = 2
    made = fill(Dates(values, classes, np.arange(6) * 10.0, ("red", "nir")), [2])
    error = np.abs(made.values[0] - values[2])[:, 40:].mean(axis=(0, 2))
    told = made.error[0, 40:].mean(axis=1)
    assert told[:32].mean() == pytest.approx(error[:32].mean(), rel=0.25)
    assert told[-32:].mean() == pytest.approx(error[-32:].mean(), rel=0.6)
    assert error[-32:].mean() > 5 * error[:32].mean()


def test_what_goes_on_into_a_gap_is_not_counted_as_an_error(dates, monkeypatch):
    block = _Block(dates)
    told = np.zeros((96, 96), bool)
    told[:, :80] = True
    monkeypatch.setattr(block, "_made", lambda _: dates.values[2] - np.float32(0.05))
    missed, least = block._tried(2, [1, 3], told)
    assert missed[10:85, 5:85] == pytest.approx(0, abs=1e-5), "the same everywhere, so it goes on"
    assert least == pytest.approx(0.1, abs=1e-3), "of both bands"
