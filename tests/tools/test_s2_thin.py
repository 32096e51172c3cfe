"""The figures behind the weights of any bands."""

import importlib
import json
import math
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from tools.s2_thin.samples import ClearS2

import attcr
from attcr.bands.sensors import S2_L1C_BANDS
from attcr.bands.spec import ANY_BANDS
from fakes import make_clear_s2

ROOT = Path(__file__).parents[2]
BLUE, RED, NIR, SWIR = (S2_L1C_BANDS.index(band) for band in ("B02", "B04", "B08", "B12"))

Module = Callable[[str], ModuleType]


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Module:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return lambda name: importlib.import_module(f"s2_thin.{name}")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    make_clear_s2(tmp_path / "data")
    return tmp_path / "data"


def test_what_is_measured_on_is_not_trained_on(module: Module, data: Path) -> None:
    clear, trained = module("clear"), ClearS2(data)
    held = clear.held_out_l1c(data)
    assert (len(trained.l1c), len(held)) == (4, 2)  # the first of every five cells
    means = {round(float(image.float().mean()), 3) for image in trained.l1c}
    assert not means & {round(float(image.mean()) * 1e4, 3) for image in held}
    assert (len(trained.l2a), clear.held_out_l2a(data).shape) == (2, (2, 13, 64, 64))
    assert clear.held_out_l2a(data)[:, 10].abs().max() == 0


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
    for name, error in (("clear", 0.0100), ("thick", 0.0417), ("thin", 0.0196), ("shadow", 0.0522)):
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
