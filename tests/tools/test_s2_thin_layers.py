"""Simulated haze, cloud and shadow on pixels of 13 bands, and other ground of the same texture."""

import pytest
import torch
from tools.s2_thin import layers as sim

from attcr.bands.sensors import S2_L1C_BANDS

BLUE, RED, NIR, SWIR = (S2_L1C_BANDS.index(band) for band in ("B02", "B04", "B08", "B12"))


def seeded(seed: int = 0) -> sim.Draw:
    return sim.Draw(torch.Generator().manual_seed(seed))


def flat(value: float, size: int = 24) -> torch.Tensor:
    return torch.full((13, size, size), value)


def even(thickness: float, **more: object) -> sim.Layer:
    """A layer without gaps that is equally thick everywhere, as bright as light itself."""
    told = {"cover": 1.0, "smoothness": 2.0, "unevenness": 0.0, "exponent": 0.0, "brightness": torch.ones(13)}
    return sim.Layer(**{**told, "thickness": thickness, **more})  # type: ignore[arg-type]


def reflection(thickness: float) -> float:
    return 0.15 * thickness / (2 + 0.15 * thickness)


def seen(clear: torch.Tensor, layer: sim.Layer, air: torch.Tensor | None = None) -> torch.Tensor:
    return sim.apply_layer(clear, layer, seeded(), torch.zeros(13) if air is None else air)


def test_a_veil_adds_its_reflection_and_lets_the_rest_pass_twice() -> None:
    layer = even(4.0, brightness=torch.linspace(0.5, 1.0, 13))
    dark, bright = seen(flat(0.0), layer), seen(flat(0.4), layer)
    r = reflection(4.0)
    for band in range(13):
        assert dark[band].mean().item() == pytest.approx(r * (0.5 + 0.5 * band / 12), rel=1e-5)
        assert (bright - dark)[band].mean().item() / 0.4 == pytest.approx((1 - r) ** 2, rel=1e-5)
    assert dark.std((1, 2)).max() < 1e-6


def test_exponent_0_has_no_colour_and_exponent_2_falls_with_the_square_of_the_wavelength() -> None:
    grey = seen(flat(0.0), even(2.0))
    assert torch.allclose(grey, torch.full_like(grey, reflection(2.0)))
    blue = seen(flat(0.0), even(2.0, exponent=2.0)).mean((1, 2))
    for band, nm in ((BLUE, 490.0), (NIR, 842.0), (SWIR, 2190.0)):
        assert blue[band].item() == pytest.approx(reflection(2.0 * (550 / nm) ** 2), rel=1e-4)
    assert blue[BLUE] > 2.5 * blue[NIR] > 12 * blue[SWIR]


def test_a_shadow_darkens_near_infrared_more_than_blue() -> None:
    layer = even(50.0, shadow=10.0, visible=False)
    left = seen(flat(0.3), layer).mean((1, 2)) / 0.3
    assert 0.15 < left[NIR] < left[RED] < left[BLUE] < 0.85


def test_the_airs_own_light_is_not_shadowed() -> None:
    layer = even(1e6, shadow=10.0, visible=False)
    air = torch.full((13,), 0.1)
    with_air, without = (seen(flat(0.3), layer, light).mean((1, 2)) for light in (air, torch.zeros(13)))
    assert (with_air > without + 0.01).all()
    assert (with_air[NIR] > 0.07) & (without[NIR] < 0.07)


def test_surface_reflectance_keeps_little_of_the_airs_light(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[torch.Tensor] = []
    monkeypatch.setattr(sim, "apply_layer", lambda clear, layer, draw, air: given.append(air) or clear)
    for surface in (False, True):
        sim.simulate(flat(0.2), seeded(), surface=surface, pixel=1.0, kinds={"veil": 1})
    assert torch.equal(given[0], sim.AIR)
    assert torch.allclose(given[1], 0.15 * sim.AIR)


def test_without_cloud_the_image_comes_back_as_it_is() -> None:
    clear = torch.rand(13, 16, 16, generator=torch.Generator().manual_seed(1))
    same, kind = sim.simulate(clear, seeded(), surface=True, pixel=1.0, kinds={"clear": 1})
    assert kind == "clear"
    assert torch.equal(same, clear)
    assert same is not clear


@pytest.mark.parametrize("parallax", [2.0, -2.0])
def test_parallax_displaces_each_band_by_its_delay(parallax: float) -> None:
    layer = even(6.0, cover=0.5, smoothness=1.5, parallax=parallax)
    cloud = seen(flat(0.0, 40), layer)
    rows = sim.displacements(parallax)
    apart = rows[0] - rows[BLUE]  # B01 comes 2.314 s after B02
    assert apart == pytest.approx(2.314 * parallax, abs=1)
    first, second = (cloud[0], cloud[BLUE]) if apart > 0 else (cloud[BLUE], cloud[0])
    assert torch.equal(first[: -abs(apart)], second[abs(apart) :])
    assert not torch.equal(cloud[0], cloud[BLUE])
    assert sim.displacements(0.0) == [0] * 13
    assert sim.displacements(100.0) == sim.displacements(8.0)


def test_without_parallax_all_bands_see_the_cloud_at_one_place() -> None:
    cloud = seen(flat(0.0, 40), even(6.0, cover=0.5, smoothness=1.5))
    assert cloud.std() > 0.01
    assert torch.equal(cloud[0], cloud[BLUE])


def test_haze_is_bluish_and_the_cirrus_band_does_not_see_it() -> None:
    cirrus = S2_L1C_BANDS.index("B10")
    for seed in range(20):
        cloudy, _ = sim.simulate(flat(0.0), seeded(seed), surface=False, pixel=1.0, kinds={"haze": 1})
        added = cloudy.mean((1, 2))
        assert added[BLUE] > added[NIR] > added[SWIR] > 0
        assert added[cirrus] == 0


def test_every_kind_is_within_range_and_drawn_as_often_as_told() -> None:
    draw, clear = seeded(), flat(0.2, 16)
    kinds = []
    for _ in range(300):
        cloudy, kind = sim.simulate(clear, draw, surface=True, pixel=1.0)
        assert cloudy.isfinite().all()
        assert 0 <= cloudy.min() <= cloudy.max() <= 1.6
        if kind == "shadow":
            assert cloudy.max() <= 0.2 + 1e-6
        kinds.append(kind)
    for kind, share in sim.KINDS.items():
        assert kinds.count(kind) / 300 == pytest.approx(share, abs=0.08)


def test_the_same_seed_gives_the_same_ground_and_cloud() -> None:
    def once() -> torch.Tensor:
        draw = seeded(5)
        ground, _ = sim.change_ground(flat(0.2), draw, surface=False)
        return sim.simulate(ground, draw, surface=False, pixel=1.0, kinds={"broken": 1})[0]

    assert torch.equal(once(), once())


def test_some_ground_becomes_sand_brighter_in_red_than_in_blue() -> None:
    texture = torch.rand(13, 16, 16, generator=torch.Generator().manual_seed(2)) * 0.02 + 0.05
    grounds = [sim.change_ground(texture, seeded(seed), surface=True) for seed in range(100)]
    sandy = [(ground, alike) for ground, alike in grounds if ground[RED].mean() > 0.1]
    assert 5 <= len(sandy) <= 30
    assert all(alike and ground[RED].mean() > ground[BLUE].mean() for ground, alike in sandy)


def test_some_ground_becomes_black_water_or_lava_in_places() -> None:
    forest = torch.tensor([0.03] * 3 + [0.03, 0.08] + [0.3] * 5 + [0.0, 0.2, 0.1])[:, None, None].expand(-1, 48, 48)
    grounds = [sim.change_ground(forest, seeded(seed), surface=True) for seed in range(200)]
    dark = [(ground, alike) for ground, alike in grounds if (ground[NIR] < 0.12).float().mean() > 0.05]
    assert 12 <= len(dark) <= 36
    assert all(alike for _, alike in dark)
    shares = [(ground[NIR] < 0.12).float().mean().item() for ground, _ in dark]
    assert sum(share == 1 for share in shares) >= 3  # all over
    assert sum(share < 0.95 for share in shares) >= 6  # in places
    assert any(ground[NIR].min() < 0.02 for ground, _ in dark)
    assert all((ground[10] == 0).all() for ground, _ in dark)  # nothing is known of the cirrus band


def test_some_ground_becomes_muddy_water_bright_in_red_and_dark_beyond() -> None:
    forest = torch.tensor([0.03] * 3 + [0.03, 0.08] + [0.3] * 5 + [0.0, 0.2, 0.1])[:, None, None].expand(-1, 48, 48)
    grounds = [sim.change_ground(forest, seeded(seed), surface=True) for seed in range(200)]
    muddy = [(ground[:, where], alike) for ground, alike in grounds if (where := ground[RED] > 0.1).any()]
    muddy = [(water, alike) for water, alike in muddy if water[SWIR].min() < 0.025]
    assert 2 <= len(muddy) <= 12
    for water, alike in muddy:
        assert alike
        assert water[RED].max() > max(water[BLUE].max(), water[NIR].min()) > 3 * water[SWIR].min()


def test_the_power_says_how_much_of_the_ground_passes_a_layer() -> None:
    layer = even(4.0, power=1.5)
    passed = (seen(flat(0.4), layer) - seen(flat(0.0), layer)).mean().item() / 0.4
    assert passed == pytest.approx((1 - reflection(4.0)) ** 1.5, rel=1e-5)
