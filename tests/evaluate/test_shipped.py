"""What is scored as shipped is the plain command on a file as users have it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from typer.testing import CliRunner

from attcr.cli import app
from attcr.data.dates import CLASSES_MASK, L1C_SPEC, L2A_TEN_SPEC, ONE_REFLECTANCE
from attcr.data.pairs import Sample, make_sample
from attcr.errors import AllCloudError
from attcr.evaluate import shipped
from attcr.evaluate.run import Entrants, open_benchmark
from attcr.evaluate.shipped import restore_as_shipped, surroundings, write_scene
from attcr.predict import open_predictor
from fakes import write_native


def sample_of(image: np.ndarray, classes: np.ndarray) -> Sample:
    """A sample of 13 bands of L1C, in reflectance."""
    planes = np.zeros((len(L1C_SPEC.slots), *image.shape[1:]), np.float32)
    planes[L1C_SPEC.optical] = image * ONE_REFLECTANCE
    return make_sample(planes, planes[L1C_SPEC.optical], "a", None, {CLASSES_MASK: classes.astype(np.uint8)})


def test_a_scene_is_written_with_esas_name_bands_and_digital_numbers(tmp_path: Path) -> None:
    image = np.random.default_rng(0).random((10, 20, 30)).astype(np.float32)
    image[0, 0, 0] = -0.1
    path = write_scene(tmp_path, image, L2A_TEN_SPEC)
    assert path.name.startswith("S2A_MSIL2A_20190715T101031_N0208_")
    with rasterio.open(path) as file:
        assert (file.dtypes[0], file.nodata, file.res) == ("uint16", 0, (20, 20))
        assert file.descriptions == ("B02", "B03", "B04", "B05", "B06", "B07", "B08", "B8A", "B11", "B12")
        np.testing.assert_allclose(file.read(), np.maximum(image * 1e4, 1), atol=0.51)
    assert write_scene(tmp_path, np.zeros((13, 8, 8), np.float32), L1C_SPEC).name.startswith("S2A_MSIL1C_")


def brighter(source: Path, target: Path, weights: Any) -> Any:
    """In the place of `restore_scene`, without any option: 0.01 is added, an error of 0.03 expected in 8 columns."""
    with rasterio.open(source) as file:
        values, profile = file.read(), file.profile
    with rasterio.open(target, "w", **profile) as file:
        file.write(values + 100)
    expected = np.full(values.shape[1:], np.nan, np.float32)
    expected[:, :8] = 0.03
    with rasterio.open(target.with_name("error.tif"), "w", **{**profile, "count": 1, "dtype": "float32"}) as file:
        file.write(expected[None])
    return type("Result", (), {"spread": target.with_name("error.tif")})


def test_the_command_is_run_without_any_option_and_its_error_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    image = np.random.default_rng(0).integers(500, 3000, (13, 16, 16)) / 1e4
    monkeypatch.setattr(shipped, "restore_scene", brighter)
    made = restore_as_shipped(sample_of(image, np.zeros((16, 16))), L1C_SPEC, open_predictor("s2-thin"))
    np.testing.assert_allclose(np.asarray(made.image) / ONE_REFLECTANCE, image + 0.01, atol=1e-6)
    assert made.expected is not None
    np.testing.assert_allclose(made.expected, np.where(np.arange(16) < 8, 0.03, 0)[None].repeat(16, 0))


def test_a_scene_that_the_command_refuses_stays_as_it_came(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AllCloudError("all of it")

    monkeypatch.setattr(shipped, "restore_scene", refuse)
    sample = sample_of(np.full((13, 16, 16), 0.5), np.ones((16, 16)))
    made = restore_as_shipped(sample, L1C_SPEC, open_predictor("s2-thin"))
    assert np.array_equal(made.image, sample["clear"])
    assert made.expected is None


def test_surroundings_are_clear_ground_alone_and_leave_clear_pixels_as_they_are() -> None:
    image = np.random.default_rng(0).normal(0.2, 0.01, (13, 64, 70))
    classes = np.zeros((64, 70))
    classes[:, 30:50] = 2
    image[:, :, 30:50] += 0.4
    sample = sample_of(image, classes)
    made = surroundings(sample, L1C_SPEC) / ONE_REFLECTANCE
    np.testing.assert_allclose(made[:, :, :30], image[:, :, :30], rtol=1e-6)
    np.testing.assert_allclose(made[:, :, 30:50], 0.2, atol=0.004)
    hidden = sample_of(image, np.full((64, 70), 2))
    assert np.array_equal(surroundings(hidden, L1C_SPEC), hidden["clear"])


def write_pair(root: Path) -> Path:
    """Write a place of two dates, the left half of the second under 0.06 of thin cloud."""
    clear = np.kron(np.random.default_rng(0).integers(800, 3000, (13, 16, 16)), np.ones((6, 6))).astype(np.uint16)
    mask = np.zeros((96, 96), np.uint8)
    mask[:, :48] = 2
    write_native(root, "roi1_clear", clear, np.zeros_like(mask))
    write_native(root, "roi1_thin", clear + mask * np.uint16(300), mask)
    return root


def test_weights_on_pairs_of_two_dates_are_scored_as_the_plain_command_and_bare(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipped, "restore_scene", brighter)
    root = write_pair(tmp_path / "pairs")
    options = ["evaluate", "--data", "cloudsen12", "--root", str(root), "--weights", "s2-thin"]
    result = CliRunner().invoke(app, [*options, "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    told = report["protocols"]["two-dates"]["methods"]
    assert list(told) == ["attcr restore", "s2-thin", "input copied", "surroundings only"]
    assert told["attcr restore"]["thin"]["mae"]["mean"] == pytest.approx(0.07, abs=1e-5)
    assert told["attcr restore"]["clear"]["changed"] == pytest.approx(0.01, abs=1e-5)
    assert told["attcr restore"]["thin"]["expected over true"] == pytest.approx(0.03 / 0.07, abs=1e-4)
    assert "within" not in told["s2-thin"]["thin"]
    both = Entrants(["s2-thin", "rgb-thin"]).methods(open_benchmark("cloudsen12", root))
    assert [method.name for method in both] == [
        "attcr restore, s2-thin", "attcr restore, rgb-thin", "s2-thin", "rgb-thin",
    ]  # fmt: skip


@pytest.mark.nightly
def test_the_plain_command_takes_real_haze_away(shared_data: Path) -> None:
    folder = shared_data / "s2" / "series_l2a_20LMR"
    if not folder.is_dir():
        pytest.skip(f"needs the haze in {folder}")
    benchmark = open_benchmark("haze-20lmr", folder)
    sample = benchmark.samples[0]
    made = restore_as_shipped(sample, benchmark.spec, open_predictor("s2-thin", dtype="float32"))
    assert abs(np.asarray(made.image) - np.asarray(sample["clear"])).mean() / ONE_REFLECTANCE < 0.0175
