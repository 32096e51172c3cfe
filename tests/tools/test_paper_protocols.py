"""The protocols of single papers give what their definitions say."""

import math

import numpy as np
import pytest
import torch
from benchmarks.paper.protocols import OF_PAPERS, matlab_half
from PIL import Image
from torch import Tensor

from attcr.evaluate.protocols import IMAGE_PROTOCOLS, psnr


def an_image(bands: int = 3, height: int = 40, width: int = 56, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(bands, height, width, generator=generator) * 0.8 + 0.1


@pytest.mark.parametrize("name", OF_PAPERS)
def test_equal_images_score_best_and_metrics_are_the_declared_ones(name: str) -> None:
    image = an_image()
    scores = OF_PAPERS[name].score(image, image)
    assert list(scores) == list(OF_PAPERS[name].metrics)
    assert scores["psnr"] == math.inf
    assert scores["ssim"] == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("size", [(16, 16), (17, 22), (32, 19)])
def test_half_size_is_matlab_imresize_written_out(size: tuple[int, int]) -> None:
    image = an_image(3, *size).double()

    def weights(length: int) -> np.ndarray:
        matrix = np.zeros((math.ceil(length / 2), length))
        for out in range(matrix.shape[0]):
            centre = 2 * out + 0.5
            taps = np.arange(math.floor(centre) - 5, math.floor(centre) + 7)
            x = np.abs(taps - centre) / 2
            near, far = 1.5 * x**3 - 2.5 * x**2 + 1, -0.5 * x**3 + 2.5 * x**2 - 4 * x + 2
            cubic = np.where(x <= 1, near, np.where(x <= 2, far, 0))
            for tap, weight in zip(taps, cubic / cubic.sum(), strict=True):
                mirrored = -1 - tap if tap < 0 else 2 * length - 1 - tap if tap >= length else tap
                matrix[out, mirrored] += weight
        return matrix

    expected = weights(size[0]) @ image.numpy() @ weights(size[1]).T
    np.testing.assert_allclose(matlab_half(image.numpy()), expected, atol=1e-6)


def test_aca_crnet_sees_only_the_centre() -> None:
    reference = an_image(3, 512, 512)
    predicted = reference.clone()
    predicted[:, :120] = 0.5
    assert IMAGE_PROTOCOLS["aca-crnet"].score(predicted, reference)["psnr"] == math.inf
    assert IMAGE_PROTOCOLS["att-cr"].score(predicted, reference)["psnr"] < 20


def test_half_cuts_to_8_bits_and_sees_green_first() -> None:
    grey = torch.full((3, 32, 32), 1 / 255)
    assert IMAGE_PROTOCOLS["half"].score(grey * 100.9, grey * 100.1)["psnr"] == math.inf
    assert IMAGE_PROTOCOLS["half"].score(grey * 101.1, grey * 100.9)["psnr"] == pytest.approx(
        20 * math.log10(255), abs=1e-4
    )
    reference, noise = an_image(1, 64, 64).repeat(3, 1, 1), an_image(1, 64, 64, seed=3)[0] - 0.5
    ssim = {}
    for band, colour in enumerate(("red", "green", "blue")):
        predicted = reference.clone()
        predicted[band] += noise
        ssim[colour] = IMAGE_PROTOCOLS["half"].score(predicted, reference)["ssim"]
    assert ssim["green"] < ssim["red"] < ssim["blue"]


def test_aca_crnet_shrinks_as_pillow_does() -> None:
    predicted, reference = an_image(3, 512, 384), an_image(3, 512, 384, seed=1)

    def centre(image: Tensor) -> Tensor:
        bands = [Image.fromarray(band.numpy()).resize((256, 256), Image.Resampling.BILINEAR) for band in image]
        return torch.stack([torch.from_numpy(np.array(band)) for band in bands])[:, 64:192, 64:192]

    expected = psnr(centre(predicted), centre(reference))
    assert IMAGE_PROTOCOLS["aca-crnet"].score(predicted, reference)["psnr"] == pytest.approx(expected, abs=1e-3)
