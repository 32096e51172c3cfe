import numpy as np

from attcr.references.cells import MOST_CELLS, Cells, smooth


def test_cells_grow_with_the_image() -> None:
    assert Cells.over(256, 256).size == 16
    assert Cells.over(10980, 10980).size == 32
    large = Cells.over(100_000, 100_000)
    assert large.shape[0] * large.shape[1] <= MOST_CELLS


def test_pixels_are_summed_into_their_cells_at_the_edges_too() -> None:
    cells = Cells(20, 33, 16)
    sums = cells.sums(np.ones((2, 20, 33)))
    assert cells.shape == (2, 3)
    assert sums.tolist() == [[[256, 256, 16], [64, 64, 4]]] * 2


def test_a_field_is_linear_between_the_middles_of_cells() -> None:
    cells = Cells(64, 64, 16)
    field = np.array([[[0.0, 16, 32, 48]] * 4], np.float32)
    cols = np.array([0, 7, 8, 24, 40, 63])
    assert cells.interpolate(field, np.full(6, 30), cols)[0].tolist() == [0, 0, 0.5, 16.5, 32.5, 48]
    assert cells.interpolate(field.transpose(0, 2, 1), cols, np.full(6, 30))[0].tolist() == [0, 0, 0.5, 16.5, 32.5, 48]


def test_a_field_of_one_cell_is_the_same_everywhere() -> None:
    assert Cells(9, 9, 16).interpolate(np.full((1, 1, 1), 3, np.float32), np.arange(9), np.arange(9)).tolist() == [
        [3] * 9
    ]


def test_near_cells_speak_first_and_far_ones_where_there_are_no_others() -> None:
    sums = np.zeros((2, 40, 40))
    sums[:, 5, 5] = (1, 10)
    sums[:, 30, 30] = (1, 20)
    around = smooth(sums)
    mean = around[1] / around[0]
    assert abs(mean[6, 6] - 10) < 0.1
    assert abs(mean[31, 29] - 20) < 0.1
    assert 10 < mean[18, 18] < 20
    assert (around[0] > 0).all()


def test_sums_of_one_cell_have_nothing_around_them() -> None:
    assert smooth(np.full((1, 1, 1), 2.0)).shape == (1, 1, 1)
