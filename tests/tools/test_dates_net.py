"""The network that corrects harmonised references: what it sees, and what its samples are."""

import importlib
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from tools.dates_net.samples import Gap

from attcr.references import correct as planes

pytest.importorskip("scipy")
ROOT = Path(__file__).parents[2]
NANOMETRES = np.array([490.0, 665.0, 865.0, 1610.0])
BANDS = 13
USED = (1, 3, 8, 11)


@pytest.fixture(autouse=True)
def tools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))


def module(name: str) -> ModuleType:
    return importlib.import_module(f"tools.dates_net.{name}")


def ground(seed: int, size: int = 64) -> np.ndarray:
    """Fields of 16 pixels with some texture."""
    draw = np.random.default_rng(seed)
    fields = draw.uniform(0.05, 0.4, (len(USED), size // 16, size // 16))
    wide = fields.repeat(16, 1).repeat(16, 2)
    return (wide * draw.normal(1, 0.02, wide.shape)).astype(np.float32)


def sample(seed: int = 0):
    target = ground(seed)
    reference = module("change").another_date(target, NANOMETRES, np.random.default_rng(seed))
    gap = np.zeros((64, 64), bool)
    gap[20:44, 10:50] = True
    fitted = module("pool").harmonised(target, reference, ~gap, gap)
    return Gap(target, fitted, reference, ~gap, gap, USED)


def test_another_date_is_of_the_same_place_and_another() -> None:
    target = ground(1)
    reference = module("change").another_date(target, NANOMETRES, np.random.default_rng(1))
    assert reference.shape == target.shape
    assert reference.dtype == np.float32
    assert reference.min() >= 1e-4
    assert reference.max() <= 1.6
    assert not np.array_equal(reference, target)
    assert np.array_equal(reference, module("change").another_date(target, NANOMETRES, np.random.default_rng(1)))


def test_what_lies_in_the_gap_is_not_seen() -> None:
    one = sample()
    other = np.where(one.gap, 0.9, one.target).astype(np.float32)
    first, second = (
        planes.see(target, one.harmonised, one.reference, one.clear, one.gap, USED) for target in (one.target, other)
    )
    assert first.planes.shape == (planes.PLANES, 64, 64)
    assert np.array_equal(first.planes, second.planes)
    assert np.array_equal(first.unit, second.unit)


def test_absent_bands_are_zero_and_said_to_be_absent() -> None:
    one = sample()
    shown = planes.see(one.target, one.harmonised, one.reference, one.clear, one.gap, USED).planes
    for band in range(BANDS):
        there = band in USED
        assert shown[3 * BANDS + band].all() == there
        assert bool(np.abs(shown[band]).any()) == there


def test_brighter_images_look_the_same() -> None:
    one = sample()
    seen = [
        planes.see(gain * one.target, gain * one.harmonised, gain * one.reference, one.clear, one.gap, USED)
        for gain in (4, 8)
    ]
    assert np.allclose(seen[0].planes, seen[1].planes, atol=0.05)
    assert np.allclose(2 * seen[0].unit, seen[1].unit)


def test_a_pair_of_two_places_is_told_from_one_of_one_place() -> None:
    one = sample()
    pool = module("pool")
    assert pool.is_one_place(one)
    assert not pool.is_one_place(replace(one, harmonised=ground(5)))


def test_a_pair_with_little_clear_ground_or_gap_is_not_enough() -> None:
    one, few = sample(), np.zeros((64, 64), bool)
    few[:22, :22] = True  # 484 pixels
    pool = module("pool")
    assert pool.is_enough(one)
    assert not pool.is_enough(replace(one, gap=few))
    assert not pool.is_enough(replace(one, clear=few))
