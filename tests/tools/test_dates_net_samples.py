"""Pairs of dates with a gap, and what a network sees of them."""

from pathlib import Path

import numpy as np
import pytest
import torch
from tools.dates_net.samples import MOST, Gap, OtherDates

from attcr.errors import DataNotFoundError
from attcr.references.correct import BANDS, PLANES, see
from fakes import fake_gap, make_gaps


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make_gaps(tmp_path)
    return tmp_path


def test_a_pair_comes_back_from_its_file(tmp_path: Path) -> None:
    one = fake_gap(0)
    one.save(tmp_path / "one.npz")
    back = Gap.load(tmp_path / "one.npz")
    assert back.bands == one.bands
    assert np.array_equal(back.gap, one.gap)
    assert np.array_equal(back.clear, one.clear)
    for image in ("target", "harmonised", "reference"):
        assert np.abs(getattr(back, image) - getattr(one, image)).max() < 1e-4
    assert [file.name for file in tmp_path.iterdir()] == ["one.npz"]


def test_the_parts_are_two_folders(root: Path) -> None:
    assert list(OtherDates(root).names) == [f"fields-{seed}" for seed in range(4)]
    assert list(OtherDates(root, "val").names) == ["fields-4", "fields-5"]
    with pytest.raises(DataNotFoundError, match=r"no \.npz files\. ROOT holds the folders pool and held"):
        OtherDates(root / "pool")


@pytest.mark.parametrize("cache", [False, True])
def test_a_sample_is_what_the_network_sees_and_the_error_in_mean_errors(root: Path, cache: bool) -> None:
    sample, pair = OtherDates(root, cache=cache)[2], Gap.load(root / "pool" / "fields-2.npz")
    seen = see(pair.target, pair.harmonised, pair.reference, pair.clear, pair.gap, pair.bands)
    assert sample["inputs"].shape == (PLANES, 64, 64)
    assert np.array_equal(sample["inputs"].numpy(), seen.planes)
    error = (pair.target - pair.harmonised) / seen.unit
    assert np.allclose(sample["clear"][list(pair.bands)].numpy(), error.clip(-6, 6))
    others = [band for band in range(BANDS) if band not in pair.bands]
    assert not sample["clear"][others].any()
    assert np.array_equal(sample["masks"]["gap"].numpy(), pair.gap)


def test_an_error_beyond_what_can_be_known_is_clipped(root: Path) -> None:
    pair = fake_gap(9)
    pair.target[0, 30, 30] = 1.5
    pair.save(root / "pool" / "a.npz")
    assert float(OtherDates(root)[0]["clear"][1, 30, 30]) == MOST


def test_a_drawn_square_holds_some_of_the_gap_and_is_turned(root: Path) -> None:
    data, generator = OtherDates(root), torch.Generator().manual_seed(0)
    drawn = [data.draw(8, generator) for _ in range(40)]
    assert all(sample["inputs"].shape == (PLANES, 8, 8) for sample in drawn)
    assert min(float(sample["masks"]["gap"].float().mean()) for sample in drawn) > 0.1
    assert {sample["name"] for sample in drawn} == set(data.names)
    whole = [data.draw(200, generator)["clear"] for _ in range(60)]
    assert all(image.shape == (BANDS, 64, 64) for image in whole)  # no larger than it is
    assert len({float((image[1] * torch.arange(64)).sum()) for image in whole}) > 16


def test_a_draw_depends_on_the_generator_alone(root: Path) -> None:
    data = OtherDates(root)
    first, again, other = (data.draw(32, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert torch.equal(first["inputs"], again["inputs"])
    assert not torch.equal(first["inputs"], other["inputs"])
