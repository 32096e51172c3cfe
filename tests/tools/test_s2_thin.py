"""The simulator and the training behind the weights of any bands."""

import importlib
import json
import math
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

import attcr
from attcr.bands.sensors import S2_L1C_BANDS
from attcr.bands.spec import ANY_BANDS
from fake_scenes import UTM, make, read

ROOT = Path(__file__).parents[2]
BLUE, RED, NIR, SWIR = (S2_L1C_BANDS.index(band) for band in ("B02", "B04", "B08", "B12"))

Module = Callable[[str], ModuleType]


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Module:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return lambda name: importlib.import_module(f"s2_thin.{name}")


@pytest.fixture
def sim(module: Module) -> ModuleType:
    return module("simulate")


def seeded(sim: ModuleType, seed: int = 0):
    return sim.Draw(torch.Generator().manual_seed(seed))


def flat(value: float, size: int = 24) -> torch.Tensor:
    return torch.full((13, size, size), value)


def even(sim: ModuleType, thickness: float, **more: object):
    """A layer without gaps that is equally thick everywhere, as bright as light itself."""
    told = {"cover": 1.0, "smoothness": 2.0, "unevenness": 0.0, "exponent": 0.0, "brightness": torch.ones(13)}
    return sim.Layer(**{**told, "thickness": thickness, **more})


def reflection(thickness: float) -> float:
    return 0.15 * thickness / (2 + 0.15 * thickness)


def seen(sim: ModuleType, clear: torch.Tensor, layer: object, air: torch.Tensor | None = None) -> torch.Tensor:
    return sim.apply_layer(clear, layer, seeded(sim), torch.zeros(13) if air is None else air)


def test_a_veil_adds_its_reflection_and_lets_the_rest_pass_twice(sim: ModuleType) -> None:
    layer = even(sim, 4.0, brightness=torch.linspace(0.5, 1.0, 13))
    dark, bright = seen(sim, flat(0.0), layer), seen(sim, flat(0.4), layer)
    r = reflection(4.0)
    for band in range(13):
        assert dark[band].mean().item() == pytest.approx(r * (0.5 + 0.5 * band / 12), rel=1e-5)
        assert (bright - dark)[band].mean().item() / 0.4 == pytest.approx((1 - r) ** 2, rel=1e-5)
    assert dark.std((1, 2)).max() < 1e-6


def test_exponent_0_has_no_colour_and_exponent_2_falls_with_the_square_of_the_wavelength(sim: ModuleType) -> None:
    grey = seen(sim, flat(0.0), even(sim, 2.0))
    assert torch.allclose(grey, torch.full_like(grey, reflection(2.0)))
    blue = seen(sim, flat(0.0), even(sim, 2.0, exponent=2.0)).mean((1, 2))
    for band, nm in ((BLUE, 490.0), (NIR, 842.0), (SWIR, 2190.0)):
        assert blue[band].item() == pytest.approx(reflection(2.0 * (550 / nm) ** 2), rel=1e-4)
    assert blue[BLUE] > 2.5 * blue[NIR] > 12 * blue[SWIR]


def test_a_shadow_darkens_near_infrared_more_than_blue(sim: ModuleType) -> None:
    layer = even(sim, 50.0, shadow=10.0, visible=False)
    left = seen(sim, flat(0.3), layer).mean((1, 2)) / 0.3
    assert 0.15 < left[NIR] < left[RED] < left[BLUE] < 0.85


def test_the_airs_own_light_is_not_shadowed(sim: ModuleType) -> None:
    layer = even(sim, 1e6, shadow=10.0, visible=False)
    air = torch.full((13,), 0.1)
    with_air, without = (seen(sim, flat(0.3), layer, light).mean((1, 2)) for light in (air, torch.zeros(13)))
    assert (with_air > without + 0.01).all()
    assert (with_air[NIR] > 0.07) & (without[NIR] < 0.07)
    assert torch.equal(sim.air_light(surface=False), sim.AIR)
    assert torch.allclose(sim.air_light(surface=True), 0.15 * sim.AIR)


def test_without_cloud_the_image_comes_back_as_it_is(sim: ModuleType) -> None:
    clear = torch.rand(13, 16, 16, generator=torch.Generator().manual_seed(1))
    same, kind = sim.simulate(clear, seeded(sim), surface=True, pixel=1.0, kinds={"clear": 1})
    assert kind == "clear"
    assert torch.equal(same, clear)
    assert same is not clear


@pytest.mark.parametrize("parallax", [2.0, -2.0])
def test_parallax_displaces_each_band_by_its_delay(sim: ModuleType, parallax: float) -> None:
    layer = even(sim, 6.0, cover=0.5, smoothness=1.5, parallax=parallax)
    cloud = seen(sim, flat(0.0, 40), layer)
    rows = sim.displacements(parallax)
    apart = rows[0] - rows[BLUE]  # B01 comes 2.314 s after B02
    assert apart == pytest.approx(2.314 * parallax, abs=1)
    first, second = (cloud[0], cloud[BLUE]) if apart > 0 else (cloud[BLUE], cloud[0])
    assert torch.equal(first[: -abs(apart)], second[abs(apart) :])
    assert not torch.equal(cloud[0], cloud[BLUE])
    assert sim.displacements(0.0) == [0] * 13
    assert sim.displacements(100.0) == sim.displacements(8.0)


def test_without_parallax_all_bands_see_the_cloud_at_one_place(sim: ModuleType) -> None:
    cloud = seen(sim, flat(0.0, 40), even(sim, 6.0, cover=0.5, smoothness=1.5))
    assert cloud.std() > 0.01
    assert torch.equal(cloud[0], cloud[BLUE])


def test_haze_is_bluish_and_the_cirrus_band_does_not_see_it(sim: ModuleType) -> None:
    cirrus = S2_L1C_BANDS.index("B10")
    for seed in range(20):
        cloudy, _ = sim.simulate(flat(0.0), seeded(sim, seed), surface=False, pixel=1.0, kinds={"haze": 1})
        added = cloudy.mean((1, 2))
        assert added[BLUE] > added[NIR] > added[SWIR] > 0
        assert added[cirrus] == 0


def test_every_kind_is_within_range_and_drawn_as_often_as_told(sim: ModuleType) -> None:
    draw, clear = seeded(sim), flat(0.2, 16)
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


def test_the_same_seed_gives_the_same_ground_and_cloud(sim: ModuleType) -> None:
    def once() -> torch.Tensor:
        draw = seeded(sim, 5)
        ground, _ = sim.change_ground(flat(0.2), draw, surface=False)
        return sim.simulate(ground, draw, surface=False, pixel=1.0, kinds={"broken": 1})[0]

    assert torch.equal(once(), once())


def test_some_ground_becomes_sand_brighter_in_red_than_in_blue(sim: ModuleType) -> None:
    texture = torch.rand(13, 16, 16, generator=torch.Generator().manual_seed(2)) * 0.02 + 0.05
    grounds = [sim.change_ground(texture, seeded(sim, seed), surface=True) for seed in range(100)]
    sandy = [(ground, alike) for ground, alike in grounds if ground[RED].mean() > 0.1]
    assert 5 <= len(sandy) <= 30
    assert all(alike and ground[RED].mean() > ground[BLUE].mean() for ground, alike in sandy)


def test_some_ground_becomes_black_water_or_lava_in_places(sim: ModuleType) -> None:
    forest = torch.tensor([0.03] * 3 + [0.03, 0.08] + [0.3] * 5 + [0.0, 0.2, 0.1])[:, None, None].expand(-1, 48, 48)
    grounds = [sim.change_ground(forest, seeded(sim, seed), surface=True) for seed in range(200)]
    dark = [(ground, alike) for ground, alike in grounds if (ground[NIR] < 0.12).float().mean() > 0.05]
    assert 12 <= len(dark) <= 36
    assert all(alike for _, alike in dark)
    shares = [(ground[NIR] < 0.12).float().mean().item() for ground, _ in dark]
    assert sum(share == 1 for share in shares) >= 3  # all over
    assert sum(share < 0.95 for share in shares) >= 6  # in places
    assert any(ground[NIR].min() < 0.02 for ground, _ in dark)
    assert all((ground[10] == 0).all() for ground, _ in dark)  # nothing is known of the cirrus band


def test_some_ground_becomes_muddy_water_bright_in_red_and_dark_beyond(sim: ModuleType) -> None:
    forest = torch.tensor([0.03] * 3 + [0.03, 0.08] + [0.3] * 5 + [0.0, 0.2, 0.1])[:, None, None].expand(-1, 48, 48)
    grounds = [sim.change_ground(forest, seeded(sim, seed), surface=True) for seed in range(200)]
    muddy = [(ground[:, where], alike) for ground, alike in grounds if (where := ground[RED] > 0.1).any()]
    muddy = [(water, alike) for water, alike in muddy if water[SWIR].min() < 0.025]
    assert 2 <= len(muddy) <= 12
    for water, alike in muddy:
        assert alike
        assert water[RED].max() > max(water[BLUE].max(), water[NIR].min()) > 3 * water[SWIR].min()


def test_the_power_says_how_much_of_the_ground_passes_a_layer(sim: ModuleType) -> None:
    layer = even(sim, 4.0, power=1.5)
    passed = (seen(sim, flat(0.4), layer) - seen(sim, flat(0.0), layer)).mean().item() / 0.4
    assert passed == pytest.approx((1 - reflection(4.0)) ** 1.5, rel=1e-5)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The training's three files with few and small images."""
    folder, rng = tmp_path / "data", np.random.default_rng(0)
    folder.mkdir()

    def dn(*shape: int) -> np.ndarray:
        return rng.integers(500, 4000, shape).astype(np.uint16)

    known = {"cloud": np.zeros(6), "qa": np.zeros(6), "native": np.ones(6), "nodata": np.zeros(6, int)}
    np.savez(folder / "df.npz", a=dn(6, 13, 200, 200), lon=np.arange(6) * 4.0, lat=np.zeros(6), **known)
    np.savez(folder / "eu.npz", a=dn(4, 12, 64, 64), ids=np.array([0, 1, 64, 65]))
    dates = np.array(["2018-08-12", "2018-08-22", "2018-10-21", "2019-07-08", "2019-07-28"])
    np.savez(folder / "lkp.npz", a=dn(5, 7, 128, 128), dates=dates)
    return folder


def test_held_out_places_and_patches_are_not_trained_on(module: Module, data: Path) -> None:
    clear = module("clear")
    images = clear.ClearImages(data, seeded(module("simulate")))
    held = clear.held_out_l1c(data)
    assert (len(images.l1c), len(held)) == (4, 2)  # the first of every five cells
    trained = {round(float(image.float().mean()), 3) for image in images.l1c}
    assert not trained & {round(float(image.mean()) * 1e4, 3) for image in held}
    assert (len(images.l2a), clear.held_out_l2a(data).shape) == (2, (2, 13, 64, 64))
    assert clear.held_out_l2a(data)[:, 10].abs().max() == 0


def test_a_batch_shows_some_bands_the_level_and_zero_where_a_band_is_absent(module: Module, data: Path) -> None:
    images = module("clear").ClearImages(data, seeded(module("simulate"), 3))
    inputs, clear, presence = images.batch(12, 32)
    assert (inputs.shape, clear.shape, presence.shape) == ((12, 27, 32, 32), (12, 13, 32, 32), (12, 13, 1, 1))
    assert torch.equal(inputs[:, 13:26], presence.expand(-1, -1, 32, 32))
    assert (inputs[:, :13] * (1 - presence)).abs().max() == 0
    assert {float(level) for level in inputs[:, 26].unique()} == {0.0, 1.0}
    assert len({int(count) for count in presence.sum((1, 2, 3))}) > 2


def test_the_likelihood_is_least_where_the_scale_is_the_error(module: Module) -> None:
    train, clear = module("train"), module("clear")
    batch = clear.Batch(torch.zeros(1, 27, 4, 4), torch.zeros(1, 13, 4, 4), torch.ones(1, 13, 1, 1))

    def at(u: float) -> float:
        out = torch.cat([torch.full((1, 13, 4, 4), 0.05), torch.full((1, 13, 4, 4), u)], 1)
        mean, log, likelihood = train.losses(out, batch)
        assert mean.item() == pytest.approx(0.05)
        assert log.item() == pytest.approx(math.log(0.05**2 + 2e-5), rel=1e-4)
        return likelihood.item()

    best = math.log(0.05) + train.SHIFT
    assert at(best) < min(at(best - 0.2), at(best + 0.2))


def test_the_mean_with_other_weights_is_written(
    module: Module, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train, out = module("train"), tmp_path / "out"
    monkeypatch.setattr(train, "SIZES", dict.fromkeys(train.SIZES, (2, 16)))
    train.main(["--data", str(data), "--out", str(out), "--steps", "1"])
    weights = out / "s2-thin.safetensors"
    other = attcr.ATTCR(train.CONFIG)
    digest = attcr.save_model(other, tmp_path / "other.safetensors", spec=attcr.read_header(weights).spec)
    before = {name: value.float() for name, value in attcr.load_model(weights).state_dict().items()}
    mean_with = ["--mean-with", str(tmp_path / "other.safetensors"), "--share", "0.7"]
    train.main(["--data", str(data), "--out", str(out), "--steps", "0", *mean_with])
    provenance = attcr.read_header(weights).provenance
    assert (provenance["mean_with"], provenance["share"]) == (digest, 0.7)
    for name, value in attcr.load_model(weights).state_dict().items():
        wanted = 0.3 * before[name] + 0.7 * other.state_dict()[name]
        torch.testing.assert_close(value.float(), wanted, atol=2e-3, rtol=2e-3)


def test_one_step_writes_weights_that_restore_a_scene_of_four_bands(
    module: Module, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    train, out = module("train"), tmp_path / "out"
    monkeypatch.setattr(train, "SIZES", dict.fromkeys(train.SIZES, (2, 16)))
    train.main(["--data", str(data), "--out", str(out), "--steps", "1", "--calibration", "2"])
    header = attcr.read_header(out / "s2-thin.safetensors")
    assert header.spec.slots == ANY_BANDS.slots
    assert header.spec.spread_factor == pytest.approx(2 * math.exp(-3))
    assert header.spec.spread_floor == 0.011
    assert (header.provenance["steps"], header.provenance["calibration"]) == (1, 2)

    train.main(["--data", str(data), "--out", str(out), "--steps", "1"])
    assert "resumed from step 1" in capsys.readouterr().out
    assert attcr.read_header(out / "s2-thin.safetensors").provenance["steps"] == 2

    def name(file: object) -> None:
        file.descriptions = ("B02", "B03", "B04", "B08")  # type: ignore[attr-defined]

    values = np.random.default_rng(1).integers(300, 3000, (4, 40, 48)).astype(np.uint16)
    scene = make(tmp_path / "scene.tif", values, name, **UTM)
    options = attcr.RestoreOptions(sensor="s2-l2a", mask="none")
    done = attcr.restore_scene(scene, tmp_path / "clear.tif", str(out / "s2-thin.safetensors"), options=options)
    restored, spread = read(tmp_path / "clear.tif"), read(done.spread)
    assert restored.shape == values.shape
    assert (restored != values).mean() > 0.5
    assert np.isfinite(spread).all()
    assert (spread > 0).mean() > 0.5


def test_a_network_is_widened_with_zeros(module: Module, tmp_path: Path) -> None:
    from safetensors.torch import save_file

    train = module("train")
    network = attcr.ATTCR(train.CONFIG)
    narrow = {name: value.clone() for name, value in network.state_dict().items()}
    narrow["embed.weight"] = torch.ones(24, 26, 3, 3)
    narrow["output.weight"] = torch.ones(13, 48, 3, 3)
    save_file(narrow, tmp_path / "narrow.safetensors")
    train.widen(tmp_path / "narrow.safetensors", network)
    embed, output = network.embed.weight, network.output.weight
    assert (embed[:, :26] == 1).all()
    assert (embed[:, 26:] == 0).all()
    assert (output[:13] == 1).all()
    assert (output[13:] == 0).all()


def test_the_rate_warms_up_and_falls_to_a_hundredth(module: Module) -> None:
    schedule = module("train").Schedule(1e-3, 200.0, 100.0, 10**9)
    assert schedule.rate(0, 0, resumed=False) == pytest.approx(1e-5)
    assert schedule.rate(0, 0, resumed=True) == pytest.approx(5e-5)
    assert schedule.rate(100, 500, resumed=False) == pytest.approx(1e-3)
    assert schedule.rate(150, 500, resumed=False) == pytest.approx(0.505e-3)
    assert schedule.rate(200, 500, resumed=False) == pytest.approx(1e-5)


class Times:
    """A predictor that multiplies what is there, and expects an error of exp(-1) of the network's 1."""

    spec = ANY_BANDS
    identity = {"weights_sha256": "none"}  # noqa: RUF012

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(self, x: np.ndarray) -> np.ndarray:
        self.seen = x
        return np.concatenate([x[:, :13] * self.factor, np.full_like(x[:, :13], -1.0)], axis=1)


def test_what_is_measured_goes_in_and_comes_out_as_reflectance(module: Module) -> None:
    predictor = Times(0.5)
    restore = module("measure").Restorer(predictor)
    out, scale = restore(np.full((13, 8, 8), 0.4, np.float32), (1, 2, 3), surface=True)
    x = predictor.seen[0, :, 0, 0]
    assert x[:13].tolist() == [0, 1, 1, 1] + [0] * 9
    assert x[13:].tolist() == [0, 1, 1, 1] + [0] * 9 + [1]
    assert out[1:4] == pytest.approx(0.2)
    assert scale == pytest.approx(0.4 * math.exp(-1))


def test_a_scale_that_is_right_holds_two_thirds_and_finds_the_worst(module: Module) -> None:
    certainty, rng = module("measure").Certainty(), np.random.default_rng(0)
    scale = np.repeat(rng.uniform(0.01, 0.1, (1, 4000)), 13, axis=0)
    certainty.add(np.abs(rng.normal(size=scale.shape)) * scale, scale)
    figures = certainty.figures()
    assert figures["within"] == pytest.approx(0.683, abs=0.02)
    assert 0.1 < figures["less"] < 0.3


def test_real_pairs_that_nothing_restores_are_as_far_off_as_they_came(module: Module, shared_data: Path) -> None:
    if not (shared_data / "s2").is_dir():
        pytest.skip(f"needs the pairs in {shared_data / 's2'}")
    real, restore = module("real"), module("measure").Restorer(Times(1.0))
    figures = real.haze(restore, shared_data / "s2") | real.cloudsen12(restore, shared_data / "s2")
    haze = figures["20LMR haze MAE"]
    assert haze["input"] == pytest.approx(0.0352, abs=5e-5)
    assert haze["restored"] == pytest.approx(haze["input"], rel=1e-5)
    for name, error in (("clear", 0.0116), ("thick", 0.0290), ("thin", 0.0205), ("shadow", 0.0410)):
        told = figures[f"CloudSEN12 {name}"]
        assert told["MAE input"] == pytest.approx(error, abs=6e-5)
        assert told["MAE restored"] == pytest.approx(told["MAE input"], rel=1e-4)
        assert told["changed by"] < 1e-6
    pairs = real.sen12mscr(restore, shared_data / "s2")
    assert pairs["SEN12MS-CR mean dB"] == pytest.approx({"input": 22.74, "restored": 22.74}, abs=0.01)


def test_figures_of_simulated_cloud_are_written_as_json(
    module: Module, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    evaluate = module("evaluate")
    monkeypatch.setattr(attcr, "open_predictor", lambda *_, **__: Times(0.5))
    evaluate.main(["halved", "--data", str(data), "--json", str(tmp_path / "out.json"), "--quick"])
    told = json.loads((tmp_path / "out.json").read_text())
    figures = told["figures"]
    assert told["weights_sha256"] == "none"
    assert figures["held-out places"] == {"count": 2}
    assert {f"simulated thin cloud, {count} bands dB" for count in (13, 12, 10, 6, 4, 3)} <= figures.keys()
    change = figures["clear L2A, 12 bands, changed by"]["mean"]
    assert change == pytest.approx(np.load(data / "eu.npz")["a"][0].mean() / 2e4, rel=1e-4)
    assert "factor for 68 %" in capsys.readouterr().out


def test_the_curve_of_a_scale_that_is_twice_too_large_lies_at_half(module: Module) -> None:
    certainty, rng = module("measure").Certainty(), np.random.default_rng(0)
    scale = np.repeat(rng.uniform(0.01, 0.1, (1, 20000)), 3, axis=0)
    certainty.add(np.abs(rng.normal(size=scale.shape)) * scale / 2, scale)
    expected, found = certainty.curve(4)
    assert (np.diff(expected) > 0).all()
    np.testing.assert_allclose(found / expected, 0.5, atol=0.06)


def test_leaving_out_the_least_certain_keeps_what_is_certain(module: Module) -> None:
    certainty = module("measure").Certainty()
    error = np.array([[0.1, 0.2, 0.3, 0.4, 1.0]])
    certainty.add(error, error)
    np.testing.assert_allclose(certainty.without([0.0, 0.2]), [1.0, 0.25 / 0.4])
    assert certainty.figures()["less"] == pytest.approx(1 - 0.25 / 0.4)


def test_the_spectrum_of_thin_cloud_is_of_its_own_pixels_and_relative_to_the_colours(module: Module) -> None:
    thin_spectrum = module("figures").thin_spectrum
    clear = np.full((13, 20, 20), 0.1, np.float32)
    cloudy = clear.copy()
    cloudy[:, :12] += np.linspace(0.06, 0.0, 13, dtype=np.float32)[:, None, None]  # 0.055, 0.05, 0.045 in the colours
    cloudy[:, 15:] += 0.5  # thick
    np.testing.assert_allclose(thin_spectrum(cloudy, clear), np.linspace(1.2, 0, 13), atol=1e-5)
    assert thin_spectrum(clear, clear) is None


def test_both_figures_are_drawn(module: Module, tmp_path: Path, shared_data: Path) -> None:
    if not (shared_data / "s2").is_dir():
        pytest.skip(f"needs the pairs in {shared_data / 's2'}")
    figures, certainty = module("figures"), module("measure").Certainty()
    certainty.add(np.full((13, 400), 0.01), np.linspace(0.01, 0.02, 400).repeat(13).reshape(13, 400))
    figures.draw_reliability(tmp_path / "r.png", {"one": certainty}, "weights")
    found, drawn = figures.spectra(shared_data / "s2", "haze-20lmr", {"haze": 1.0}, surface=True)
    assert (tmp_path / "r.png").stat().st_size > 5000
    assert found["2022-09-02"][[BLUE, NIR, SWIR]] == pytest.approx([1.24, 0.63, -0.22], abs=0.05)
    assert drawn.shape[1] == 13
    assert (drawn[:, BLUE] > drawn[:, SWIR]).all()


def test_pictures_stand_side_by_side_with_their_titles(module: Module, tmp_path: Path) -> None:
    from PIL import Image

    pictures = module("pictures")
    red = pictures.colour(np.stack([np.full((8, 10), 0.25), np.zeros((8, 10)), np.zeros((8, 10))]), 0.25)
    half = pictures.grey(np.full((8, 10), 0.5), 0.0, 1.0)
    pictures.save_sheet(tmp_path / "sheet.png", [{"": red, " ": half}, {"": half}])
    sheet = np.asarray(Image.open(tmp_path / "sheet.png"))
    assert sheet.shape == (2 * (8 + 14 + 4), 2 * (10 + 4), 3)
    assert sheet[18, 5].tolist() == [255, 0, 0]
    assert sheet[18, 19].tolist() == sheet[44, 5].tolist() == [127, 127, 127]
    assert pictures.ndvi(np.full((2, 2), 0.3), np.full((2, 2), 0.1))[0, 0, 0] == int((0.5 + 0.2) / 1.1 * 255)


@pytest.mark.parametrize("minutes", [-90, -2, 2, 90])
def test_a_time_of_day_is_the_next_one(module: Module, minutes: int) -> None:
    now = datetime.now()
    then = datetime.fromtimestamp(module("train").clock(f"{now + timedelta(minutes=minutes):%H:%M}"))
    ahead = (now + timedelta(minutes=minutes + (1440 if minutes < 0 else 0))).replace(second=0, microsecond=0)
    assert then == ahead
