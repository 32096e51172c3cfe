"""Samples of any bands, drawn from clear images of Sentinel-2."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from tools.s2_thin.layers import AIR, Draw
from tools.s2_thin.samples import ALL, L2A, LKP, SCALE, TEN, ClearS2, network_input, places_held_out, shown_bands

from attcr.bands.spec import ANY_BANDS
from fakes import make_clear_s2


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clear") / "data"
    make_clear_s2(folder)
    return folder


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_every_fifth_cell_of_two_degrees_is_held_out() -> None:
    lon = np.array([0.1, 1.9, 2.1, 4.1, 6.1, 8.1, 10.1])
    assert places_held_out(lon, np.zeros(7)).tolist() == [True, True, False, False, False, False, True]


def test_the_parts_have_no_image_in_common(root: Path) -> None:
    train, val = ClearS2(root), ClearS2(root, "val")
    assert [len(part.l1c) for part in (train, val)] == [4, 2]
    assert [len(part.l2a) for part in (train, val)] == [2, 2]
    assert [len(part.lkp) for part in (train, val)] == [5, 0]  # all its dates are trained on
    images = [{float(image.double().mean()) for image in (*part.l1c, *part.l2a)} for part in (train, val)]
    assert not images[0] & images[1]
    assert (len(train), len(val)) == (6, 4)
    assert not set(train.names) & set(val.names)


def test_cloudy_places_are_left_out(root: Path, tmp_path: Path) -> None:
    for name in ("eu.npz", "lkp.npz"):
        (tmp_path / name).symlink_to(root / name)
    known = dict(np.load(root / "df.npz"))
    for at, (name, bad) in enumerate((("cloud", 0.02), ("qa", 0.03), ("native", 0.8), ("nodata", 1))):
        known[name][at + 1] = bad
    known["lon"] = np.arange(6) * 4.0 + 100
    np.savez(tmp_path / "df.npz", **known)
    assert len(ClearS2(tmp_path).l1c) == 0  # places 0 and 5 are held out
    assert len(ClearS2(tmp_path, "val").l1c) == 2


def test_a_sample_shows_some_bands_the_level_and_zero_where_a_band_is_absent(root: Path) -> None:
    images, generator = ClearS2(root), seeded(3)
    samples = [images.draw(32, generator) for _ in range(12)]
    inputs, clear = (torch.stack([sample[side] for sample in samples]) for side in ("inputs", "clear"))
    presence = inputs[:, 13:26]
    assert (inputs.shape, clear.shape) == ((12, 27, 32, 32), (12, 13, 32, 32))
    assert torch.equal(presence, presence[:, :, :1, :1].expand(-1, -1, 32, 32))
    assert (inputs[:, :13] * (1 - presence)).abs().max() == 0
    assert {float(level) for level in inputs[:, 26].unique()} == {0.0, 1.0}
    assert len({int(count) for count in presence[..., 0, 0].sum(1)}) > 2


def test_without_cloud_both_sides_are_the_same_reflectance(root: Path) -> None:
    images, generator = ClearS2(root), seeded(1)
    kept = [sample for sample in (images.draw(16, generator) for _ in range(60)) if sample["name"] == "clear"]
    assert 5 < len(kept) < 30
    for sample in kept:
        there = sample["inputs"][13:26]
        assert torch.equal(sample["inputs"][:13], sample["clear"] * there)
        assert 0.05 < float(sample["clear"][1].mean()) / SCALE < 0.6


def test_a_drawn_sample_depends_on_the_generator_alone(root: Path) -> None:
    images = ClearS2(root)
    first, again, other = (images.draw(32, seeded(seed)) for seed in (5, 5, 6))
    assert torch.equal(first["inputs"], again["inputs"])
    assert torch.equal(first["clear"], again["clear"])
    assert not torch.equal(first["inputs"], other["inputs"])


def test_a_held_out_sample_is_the_same_at_each_look(root: Path) -> None:
    held = ClearS2(root, "val")
    assert torch.equal(held[1]["inputs"], held[1]["inputs"])
    assert held[1]["inputs"].shape == (27, 128, 128)
    assert not torch.equal(held[0]["inputs"], held[1]["inputs"])
    assert held[1]["name"] == "val 1"


@pytest.mark.parametrize(("size", "patches"), [(64, True), (96, False)])
def test_patches_of_64_pixels_are_drawn_for_crops_of_64_only(root: Path, size: int, patches: bool) -> None:
    images = ClearS2(root)
    found = {images._crop(size, Draw(seeded(seed))).have for seed in range(40)}
    assert found == {ALL, TEN, LKP} | ({L2A} if patches else set())


def test_a_crop_of_a_tile_of_seven_bands_holds_zeros_elsewhere(root: Path) -> None:
    images = ClearS2(root)
    crops = (images._crop(64, Draw(seeded(seed))) for seed in range(60))
    crop = next(crop for crop in crops if crop.have == LKP)
    assert [bool(band.any()) for band in crop.pixels] == [band in LKP for band in ALL]
    assert crop.surface


def test_surface_reflectance_of_sorts_is_darker_in_blue(root: Path) -> None:
    images = ClearS2(root)
    images.l1c = [torch.full((13, 64, 64), 2000, dtype=torch.int16)]
    crops = (images._crop(64, Draw(seeded(seed))) for seed in range(60))
    pixels = next(crop for crop in crops if crop.have == TEN).pixels.mean((1, 2))
    air = (0.2 - pixels) / (1 - 1.6 * pixels)  # what was taken away
    assert torch.allclose(air / air[1], AIR / AIR[1], atol=1e-4)


def test_bands_are_shown_as_products_have_them() -> None:
    draw = Draw(seeded(2))
    shown = [tuple(shown_bands(ALL, draw)) for _ in range(400)]
    for bands, share in ((ALL, 0.30), (L2A, 0.10), (TEN, 0.18), ((1, 2, 3), 0.11), ((1, 2, 3, 7), 0.05)):
        assert shown.count(bands) / 400 == pytest.approx(share, abs=0.06)
    for bands in ((0, 1, 2, 3, 7, 11, 12), (1, 2, 3, 8, 11, 12)):
        assert bands in shown
    assert all(set(shown_bands(LKP, draw)) <= set(LKP) for _ in range(50))
    assert all(shown_bands((10,), draw) == [10] for _ in range(50))  # a product without it shows all that there is


def test_the_last_plane_says_whether_it_is_reflectance_at_the_surface() -> None:
    pixels, there = torch.full((13, 4, 4), 0.2), torch.ones(13, 1, 1)
    for surface in (False, True):
        planes = network_input(pixels, there, surface=surface)
        assert (planes[26] == float(surface)).all()
        assert torch.equal(planes[:13], pixels * 2.5)


def test_the_spec_says_how_errors_are_expected() -> None:
    assert ClearS2.spec.slots == ANY_BANDS.slots
    assert ClearS2.spec.spread_factor == pytest.approx(math.exp(-3))
    assert ClearS2.spec.spread_floor == 0.011
