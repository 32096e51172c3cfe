"""The filling of a block from all its dates."""

import numpy as np
import pytest

from attcr.cubes.fill import Dates, fill
from attcr.restore.walk import CLOUD_LEFT, FROM_DATE, NODATA, ORIGINAL


@pytest.fixture
def dates():
    values = np.full((3, 2, 40, 40), 0.1, np.float32) * np.array([1, 2, 3], np.float32)[:, None, None, None]
    classes = np.zeros((3, 40, 40), np.uint8)
    classes[1, :20] = 2
    classes[:, :5, :5] = 2
    values[1, :, 30:] = np.nan
    values[:, :, 35:, 35:] = np.nan
    return Dates(values, classes, np.array([0.0, 8, 10]), ("red", "nir"))


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
    for kind, where in ((CLOUD_LEFT, np.s_[:, :5, :5]), (NODATA, np.s_[:, 35:, 35:])):
        assert (made.quality[where] == kind).all()
        assert np.isnan(made.values[:, 0][where]).all()
        assert np.isnan(made.error[where]).all()
        assert (made.source[where] == -1).all()


def test_cloud_and_missing_data_are_filled_from_a_date_that_saw_them(dates):
    made = fill(dates, [1])
    for where in (np.s_[8:20], np.s_[30:, :30]):
        assert (made.quality[0][where] == FROM_DATE).all()
        assert (made.source[0][where] == 2).all()
        assert (made.days[0][where] == 2).all()
