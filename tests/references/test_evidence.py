import numpy as np

from attcr.references.cells import Cells
from attcr.references.evidence import MOST_SAMPLES, Evidence
from fake_dates import a_gap, evidence_of, ground


def test_sums_are_those_of_the_pixels_that_are_clear_in_both() -> None:
    reference, target, gap = ground(seed=1), ground(seed=2), a_gap()
    evidence = evidence_of(reference, target, gap)
    clear = ~gap
    totals = evidence.sums.sum(axis=(1, 2))
    wanted = [clear.sum(), *reference[:, clear].sum(1), *target[:, clear].sum(1)]
    r, t = reference[:, clear].astype(float), target[:, clear].astype(float)
    wanted += [(r[i] * r[j]).sum() for i in range(3) for j in range(i, 3)]
    wanted += [(r[i] * t[j]).sum() for i in range(3) for j in range(3)]
    np.testing.assert_allclose(totals, wanted, rtol=1e-5)
    assert evidence.gaps.sum() == gap.sum()


def test_it_does_not_matter_how_the_rows_came_in() -> None:
    reference, target, gap = ground(seed=1), ground(seed=2), a_gap()
    whole = evidence_of(reference, target, gap)
    parts = Evidence(Cells.over(*gap.shape), 3)
    for top, bottom in ((0, 32), (32, 48), (48, 96)):
        rows = slice(top, bottom)
        parts.add(top, reference[:, rows], target[:, rows], ~gap[rows], gap[rows])
    assert np.array_equal(parts.sums, whole.sums)
    assert np.array_equal(parts.sample().target, whole.sample().target)
    assert np.array_equal(parts.sample().rows, whole.sample().rows)


def test_of_a_large_image_every_nth_pixel_is_kept() -> None:
    evidence = Evidence(Cells.over(1024, 1600), 1)
    values = np.arange(1024 * 1600, dtype=np.float32).reshape(1, 1024, 1600)
    for top in range(0, 1024, 16):
        rows = values[:, top : top + 16]
        evidence.add(top, rows, rows, np.ones((16, 1600), bool), np.zeros((16, 1600), bool))
    sample = evidence.sample()
    assert MOST_SAMPLES / 4 < len(sample) <= MOST_SAMPLES
    assert np.array_equal(sample.reference[0], values[0, sample.rows, sample.cols])
    assert set(np.diff(np.unique(sample.rows))) == {3}
