import numpy as np

from attcr.references.check import self_check
from attcr.references.grow import AROUND, FARTHEST, Colours, Suspicion, enclosed, grow
from fake_dates import evidence_of, ground

SIZE = 192
COLOURS = Colours(0, 1, 2)


def dates(changed: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A target, a reference in other tones, a gap, and a strip beside the gap that the mask missed."""
    target = ground(SIZE, SIZE)
    reference = (target * 0.8 + 0.03).astype(np.float32)
    row, col = np.indices((SIZE, SIZE))
    gap = (row - 60) ** 2 + (col - 60) ** 2 < 30**2
    missed = ((row - 60) ** 2 + (col - 60) ** 2 < 40**2) & ~gap
    return target, reference, gap, missed


def found(target: np.ndarray, reference: np.ndarray, gap: np.ndarray) -> np.ndarray:
    evidence = evidence_of(reference, target, gap)
    doubt = Suspicion.of(evidence, self_check(evidence, ["regression"]), COLOURS)
    hazy, dark = doubt(target, reference, ~gap, 0)
    assert not (hazy & dark).any()
    return grow(gap, hazy | dark)


def test_haze_and_shadow_beside_a_gap_are_found_and_elsewhere_nothing() -> None:
    target, reference, gap, missed = dates()
    for name, changed in (("haze", target + 0.1), ("shadow", target * 0.5)):
        seen = found(np.where(missed, changed, target).astype(np.float32), reference, gap)
        assert seen[missed].mean() > 0.8, name
        assert seen[~missed].mean() < 0.01, name


def test_a_scene_that_the_reference_foretells_is_left() -> None:
    target, reference, gap, _ = dates()
    assert not found(target, reference, gap).any()


def test_soil_that_became_bare_beside_a_gap_is_no_haze() -> None:
    target, reference, gap, missed = dates()
    bare = target + np.array([0.04, 0.12, 0.05], np.float32)[:, None, None]
    assert found(np.where(missed, bare, target).astype(np.float32), reference, gap)[missed].mean() < 0.05


def test_what_does_not_touch_a_gap_is_left_and_none_grows_far() -> None:
    target, reference, gap, _ = dates()
    far = np.zeros_like(gap)
    far[130:150, 130:150] = True
    assert not found(np.where(far, target + 0.1, target).astype(np.float32), reference, gap).any()
    suspicious = np.zeros((8, 200), bool)
    suspicious[:, 2:] = True
    gap = np.zeros_like(suspicious)
    gap[:, :2] = True
    assert grow(gap, suspicious).any(axis=0).nonzero()[0].tolist() == list(range(2, 2 + FARTHEST))
    veil = np.zeros_like(suspicious)
    veil[:, 5:20] = True
    assert grow(gap, suspicious & ~veil).any(axis=0).nonzero()[0].tolist() == [2, 3, 4]
    through = grow(gap, suspicious & ~veil, veil).any(axis=0).nonzero()[0].tolist()
    assert through == [2, 3, 4, *range(20, 2 + FARTHEST)]


def test_nothing_grows_where_there_is_no_gap() -> None:
    *_, missed = dates()
    assert not grow(np.zeros_like(missed), missed).any()


def columns(*widths: int) -> list[np.ndarray]:
    """Bands of columns of one kind each, so wide; all 300 rows high."""
    ends = np.cumsum(widths)
    cols = np.indices((300, ends[-1]))[1]
    return [(cols >= end - width) & (cols < end) for end, width in zip(ends, widths, strict=True)]


def test_thin_cloud_between_gaps_becomes_gap_and_beside_clear_ground_it_stays() -> None:
    everywhere = np.ones((300, 120), bool)
    gap, thin, other = columns(50, 20, 50)
    assert np.array_equal(enclosed(gap | other, thin, everywhere), thin)
    assert not enclosed(gap, thin, everywhere)[:, 60:70].any()  # nearer to the clear side
    assert enclosed(gap, thin, everywhere)[:, 50:60].all()  # no less gap than clear ground around
    assert not enclosed(np.zeros_like(gap), thin, everywhere).any()


def test_a_wide_veil_stays_but_for_its_edge() -> None:
    everywhere = np.ones((300, 300), bool)
    gap, thin = columns(100, 200)
    reached = enclosed(gap, thin, everywhere)
    assert (reached == reached[:1]).all()
    first = np.flatnonzero(~reached[0, 100:])[0]
    assert first == 48 - AROUND // 4  # of the 97 columns around it just fewer than a quarter are gap
    assert not reached[:, 100 + first :].any()


def test_what_holds_no_data_does_not_count() -> None:
    gap, thin, blank = columns(30, 10, 100)
    assert np.array_equal(enclosed(gap, thin, ~blank), thin)
    assert not enclosed(gap, thin, np.ones_like(gap)).any()
