"""Protocols of single papers, known to `python -m benchmarks.paper evaluate` and to attcr once this is imported."""

import numpy as np
import torch
from torch.nn.functional import interpolate

from attcr.evaluate.protocols import (
    IMAGE_PROTOCOLS,
    Array,
    ImageProtocol,
    Scores,
    psnr,
    uniform_ssim,
)
from attcr.evaluate.run import PROTOCOLS


def matlab_half(image: Array) -> Array:
    """Give the image at half size as MATLAB's imresize does: bicubic, antialiased, mirrored at the border."""
    height, width = image.shape[1:]
    pads = ((0, 0), (4, 4 + height % 2), (4, 4 + width % 2))  # a cubic kernel of twice the width reaches 4
    mirrored = np.pad(np.asarray(image, np.float64), pads, mode="symmetric")
    half: Array = _resize(mirrored, (mirrored.shape[1] // 2, mirrored.shape[2] // 2), "bicubic")
    return half[:, 2:-2, 2:-2]


def _resize(image: Array, size: tuple[int, int], how: str) -> Array:
    """Give the image at another size, antialiased, as torch does it."""
    resized: Array = interpolate(torch.from_numpy(image)[None], size=size, mode=how, antialias=True)[0].numpy()
    return resized


def _aca_crnet(predicted: Array, reference: Array) -> Scores:
    def shrink(image: Array) -> Array:  # torchvision's Resize of a PIL image is bilinear and antialiased
        small: Array = _resize(image, (256, 256), "bilinear")[:, 64:192, 64:192]
        return small

    return IMAGE_PROTOCOLS["att-cr"].measure(shrink(predicted.clip(0, 1)), shrink(reference))


def _half(predicted: Array, reference: Array) -> Scores:
    def levels(image: Array) -> Array:
        cut: Array = np.floor((matlab_half(image) * 255).clip(0, 255))  # their conversion to 8 bits cuts
        return cut

    p, r = levels(predicted), levels(reference)
    grey = np.array([0.298912, 0.586611, 0.114478]).reshape(3, 1, 1)
    grey_p, grey_r = (p * grey).sum(0, keepdims=True), (r * grey).sum(0, keepdims=True)
    return {"psnr": psnr(p, r, peak=255), "ssim": uniform_ssim(grey_p, grey_r, peak=255)}


OF_PAPERS = {
    protocol.name: protocol
    for protocol in (
        ImageProtocol(
            "aca-crnet",
            "ACA-CRNet",
            "resized to 256x256 (bilinear, antialiased), centre 128x128, then as att-cr",
            IMAGE_PROTOCOLS["att-cr"].metrics,
            _aca_crnet,
        ),
        ImageProtocol(
            "half",
            "the authors of CUHK-CR",
            "8-bit RGB at half size (MATLAB bicubic), peak 255; SSIM on grey, 7x7 uniform, valid region",
            IMAGE_PROTOCOLS["t-cloud"].metrics,
            _half,
            rgb_only=True,
        ),
    )
}
IMAGE_PROTOCOLS |= OF_PAPERS
PROTOCOLS |= OF_PAPERS
