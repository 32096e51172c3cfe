"""Protocols give the numbers of the peers' own code, and say so when they cannot."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from attcr.errors import DataError, ShapeError
from attcr.evaluate import protocols
from attcr.evaluate.protocols import IMAGE_PROTOCOLS, average

GOLDEN_PAIRS = {
    "pair0": ("att-cr", "uncrtaints", "t-cloud", "cmnet-y"),
    "pair1": ("att-cr", "uncrtaints", "t-cloud", "cmnet-y"),
    "pair2": ("att-cr", "uncrtaints", "t-cloud", "cmnet-y"),
    "pair13": ("att-cr-sen12",),
}


def golden_pair(folder: Path, pair: str) -> tuple[Tensor, Tensor]:
    if pair == "pair13":
        arrays = np.load(folder / "pair13.npz")
        predicted, reference = (torch.from_numpy(arrays[role]) / 5 for role in ("predicted", "reference"))
    else:
        predicted, reference = (
            torch.from_numpy(np.array(Image.open(folder / f"{pair}_{role}.png"))).permute(2, 0, 1) / 255
            for role in ("predicted", "reference")
        )
    return predicted, reference


def an_image(bands: int = 3, height: int = 40, width: int = 56, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(bands, height, width, generator=generator) * 0.8 + 0.1


def test_every_golden_value_is_tested_here(shared_data: Path) -> None:
    golden = json.loads((shared_data.parent / "protocols" / "golden.json").read_text())
    assert {pair: tuple(values) for pair, values in golden.items()} == GOLDEN_PAIRS


@pytest.mark.parametrize(("pair", "name"), [(pair, name) for pair, names in GOLDEN_PAIRS.items() for name in names])
def test_scores_are_those_of_the_peers_own_code(shared_data: Path, pair: str, name: str) -> None:
    golden = json.loads((shared_data.parent / "protocols" / "golden.json").read_text())[pair][name]
    ours = IMAGE_PROTOCOLS[name].score(*golden_pair(shared_data.parent / "protocols", pair))
    assert set(ours) == set(golden)
    for metric, value in golden.items():
        assert ours[metric] == pytest.approx(value, abs=1e-4, nan_ok=True), metric


def test_an_image_with_a_black_pixel_is_left_out_of_the_mean_angle_only(shared_data: Path) -> None:
    rows = [
        IMAGE_PROTOCOLS["att-cr"].score(*golden_pair(shared_data.parent / "protocols", f"pair{n}")) for n in range(3)
    ]
    assert math.isnan(rows[1]["sam"])
    means = average(rows)
    assert means["sam"] == pytest.approx((rows[0]["sam"] + rows[2]["sam"]) / 2)
    assert means["psnr"] == pytest.approx(sum(row["psnr"] for row in rows) / 3)


def test_the_mean_of_nothing_known_is_nan_and_of_no_image_an_error() -> None:
    assert math.isnan(average([{"sam": float("nan")}])["sam"])
    with pytest.raises(DataError, match="no image"):
        average([])


@pytest.mark.parametrize("name", IMAGE_PROTOCOLS)
def test_equal_images_score_best_and_metrics_are_the_declared_ones(name: str) -> None:
    protocol = IMAGE_PROTOCOLS[name]
    image = an_image(bands=protocol.bands or 4)
    scores = protocol.score(image, image)
    assert list(scores) == list(protocol.metrics)
    assert scores["psnr"] == math.inf
    assert scores["ssim"] == pytest.approx(1, abs=1e-6)
    worse = protocol.score((image + an_image(image.shape[0], seed=1)) / 2, image)
    for metric, about in protocol.metrics.items():
        assert (worse[metric] < scores[metric]) == about.higher_is_better, metric


@pytest.mark.parametrize("centre", [5, 5.5])
def test_zero_padded_ssim_is_its_definition_written_out(centre: float) -> None:
    p, r = an_image(2, 17, 19).double(), an_image(2, 17, 19, seed=1).double()
    offsets = np.arange(11)
    window = np.exp(-((offsets[:, None] - centre) ** 2 + (offsets[None] - centre) ** 2) / 4.5)
    window /= window.sum()
    padded_p, padded_r = (np.pad(x.numpy(), ((0, 0), (5, 5), (5, 5))) for x in (p, r))
    values = []
    for band in range(2):
        for row in range(17):
            for col in range(19):
                a = padded_p[band, row : row + 11, col : col + 11]
                b = padded_r[band, row : row + 11, col : col + 11]
                mean_a, mean_b = (window * a).sum(), (window * b).sum()
                var_a, var_b = (window * a * a).sum() - mean_a**2, (window * b * b).sum() - mean_b**2
                covariance = (window * a * b).sum() - mean_a * mean_b
                values.append(
                    (2 * mean_a * mean_b + 1e-4)
                    * (2 * covariance + 9e-4)
                    / ((mean_a**2 + mean_b**2 + 1e-4) * (var_a + var_b + 9e-4))
                )
    assert protocols.zero_padded_ssim(p, r, centre=centre) == pytest.approx(np.mean(values), abs=1e-12)


def test_matlab_luma_runs_from_16_to_235() -> None:
    colours = torch.tensor([[0.0, 1, 1, 0, 0], [0, 1, 0, 1, 0], [0, 1, 0, 0, 1]]).view(3, 1, 5)
    assert protocols.matlab_luma(colours).flatten().tolist() == [16, 235, 81, 145, 41]


def test_only_protocols_that_clamp_forgive_a_prediction_beyond_the_range() -> None:
    reference = an_image()
    reference[:, :20] = 1
    predicted = reference.clone()
    predicted[:, :20] = 1.5
    forgiving = {
        name for name in IMAGE_PROTOCOLS if IMAGE_PROTOCOLS[name].score(predicted, reference)["psnr"] == math.inf
    }
    assert forgiving - {"aca-crnet"} == {"att-cr", "cmnet-y"}


def test_what_cannot_be_scored_is_refused_with_its_reason() -> None:
    image = an_image()
    with pytest.raises(ShapeError, match=r"\(3, 40, 40\), the reference \(3, 40, 56\)"):
        IMAGE_PROTOCOLS["att-cr"].score(image[:, :, :40], image)
    with pytest.raises(ShapeError, match="divide 8-bit RGB by 255"):
        IMAGE_PROTOCOLS["att-cr"].score((image * 255).to(torch.uint8), (image * 255).to(torch.uint8))
    with pytest.raises(ShapeError, match="defined on RGB; these images have 13"):
        IMAGE_PROTOCOLS["cmnet-y"].score(an_image(13), an_image(13))
    with pytest.raises(ShapeError, match="16 pixels a side"):
        IMAGE_PROTOCOLS["t-cloud"].score(image[:, :15], image[:, :15])
    broken = image.clone()
    broken[0, 0, 0] = float("nan")
    with pytest.raises(DataError, match="the prediction has NaN"):
        IMAGE_PROTOCOLS["att-cr"].score(broken, image)


@pytest.mark.parametrize("name", ["att-cr", "att-cr-sen12", "uncrtaints", "t-cloud", "standard"])
def test_a_tenth_of_the_peak_everywhere_is_20_db(name: str) -> None:
    reference = an_image(IMAGE_PROTOCOLS[name].bands or 4)
    scores = IMAGE_PROTOCOLS[name].score(reference + 0.1, reference)
    assert scores["psnr"] == pytest.approx(20, abs=0.01)
    if "mae" in scores:
        assert scores["mae"] == pytest.approx(0.1, abs=1e-4)
    if "rmse" in scores:
        assert scores["rmse"] == pytest.approx(0.1, abs=1e-6)


def test_psnr_is_over_all_bands_together_and_rmse_the_root() -> None:
    reference = torch.zeros(2, 16, 16)
    predicted = torch.stack([torch.full((16, 16), 0.1), torch.full((16, 16), 0.3)])
    assert protocols.psnr(predicted, reference) == pytest.approx(10 * math.log10(1 / 0.05), abs=1e-5)
    assert protocols.psnr(predicted * 255, reference, peak=255) == pytest.approx(10 * math.log10(1 / 0.05), abs=1e-5)
    assert protocols.root_mean_squared_error(predicted, reference) == pytest.approx(0.05**0.5, abs=1e-7)
    assert protocols.mean_absolute_error(predicted, reference) == pytest.approx(0.2, abs=1e-7)


def test_the_angle_is_in_degrees_and_0_for_equal_spectra() -> None:
    image = an_image(13).numpy()
    assert protocols.spectral_angle(image, image) < 0.05  # float32 may find a cosine above 1
    red, green = np.zeros((2, 3, 16, 16), np.float32)
    red[0], green[1] = 0.5, 0.2
    assert protocols.spectral_angle(red, green) == pytest.approx(90)
    assert protocols.spectral_angle(red + green * 2.5, red) == pytest.approx(45, abs=1e-3)


def test_matlab_luma_is_of_8_bit_levels() -> None:
    grey = torch.tensor([33.4, 33.6, -9.0, 300.0]).div(255).view(1, 1, 4).repeat(3, 1, 1)
    assert protocols.matlab_luma(grey).flatten().tolist() == [44, 45, 16, 235]  # 33.4 as it is would give 45


def test_a_reference_that_is_not_finite_is_refused_too() -> None:
    image, broken = an_image(), an_image()
    broken[0, 0, 0] = math.inf
    with pytest.raises(DataError, match="the reference has NaN or infinite"):
        IMAGE_PROTOCOLS["att-cr"].score(image, broken)
    assert IMAGE_PROTOCOLS["t-cloud"].score(image[:, :16, :16], image[:, :16, :16])["psnr"] == math.inf


def test_a_mean_leaves_out_what_is_not_known() -> None:
    means = average([{"sam": 1.0, "mae": 1.0}, {"sam": float("nan"), "mae": 2.0}, {"sam": 3.0, "mae": 3.0}])
    assert means == {"sam": 2.0, "mae": 2.0}
