"""Named evaluation protocols: what the tables of this field were made with; one definition of each metric.

The same pair of images scores SSIM 0.64 or 0.87 depending on whose code is run, so a score without the name
of its protocol says nothing. `PROTOCOLS` holds them by name; each scores one pair, `average` makes the mean
of a data set. Images are (C, H, W) in units where 1 is the peak: RGB / 255, or digital numbers / 10000.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from attcr.errors import ConfigError, DataError, MissingExtraError, ShapeError

try:
    import torchmetrics.functional.image as torchmetrics
    from scipy.ndimage import correlate1d
    from skimage.metrics import structural_similarity
except ImportError as error:
    raise MissingExtraError(error.name or "torchmetrics", "eval") from error

Scores = dict[str, float]
Array = npt.NDArray[np.float64]

SMALLEST = 16
"""Pixels a side must have: room for the 7-pixel window of `half` after halving, and for the 11-pixel ones."""


@dataclass(frozen=True)
class Metric:
    """How a metric is written: heading, unit, whether more is better, and the decimals worth printing."""

    heading: str
    unit: str
    higher_is_better: bool
    decimals: int


@dataclass(frozen=True)
class Protocol:
    """One way of scoring a prediction against its reference, with the name that its numbers must carry."""

    name: str
    """What tables and options call it."""
    who: str
    """Whose tables were made with it."""
    space: str
    """The values that are compared, in words."""
    metrics: Mapping[str, Metric]
    """The metrics it gives, by key, in the order of its tables."""
    bands: int | None
    """The number of bands it was published for; None for any."""
    rgb_only: bool
    """True when its formula needs red, green and blue; otherwise any number of bands can be scored."""
    measure: Callable[[Tensor, Tensor], Scores]
    """Its definition, on two images that `score` has checked."""

    def score(self, predicted: Tensor, reference: Tensor) -> Scores:
        """Give the metrics of one image; SAM is NaN when a pixel is black, and `average` leaves it out.

        Both are floating (C, H, W) where 1 is the peak; the prediction as the network gave it, not clamped.
        """
        if predicted.shape != reference.shape or predicted.ndim != 3:
            raise ShapeError(
                f"protocol {self.name} scores two images of one shape (C, H, W); "
                f"the prediction has {tuple(predicted.shape)}, the reference {tuple(reference.shape)}."
            )
        for role, image in (("prediction", predicted), ("reference", reference)):
            if not image.is_floating_point():
                raise ShapeError(
                    f"the {role} is {image.dtype}; protocols score floating images where 1 is the peak: "
                    "divide 8-bit RGB by 255 and reflectance digital numbers by 10000."
                )
            if not torch.isfinite(image).all():
                raise DataError(f"the {role} has NaN or infinite pixels, which no protocol can score.")
        bands, height, width = reference.shape
        if self.rgb_only and bands != 3:
            raise ShapeError(f"protocol {self.name} is defined on RGB; these images have {bands} bands.")
        if min(height, width) < SMALLEST:
            raise ShapeError(f"protocols need {SMALLEST} pixels a side; these images are {height} x {width}.")
        return self.measure(predicted.detach().cpu(), reference.detach().cpu())


def average(rows: Iterable[Mapping[str, float]]) -> Scores:
    """Give the mean of each metric over images; one whose value is NaN is left out of that metric only."""
    rows = list(rows)
    if not rows:
        raise DataError("there is no image to average over.")
    means = {}
    for key in rows[0]:
        values = np.array([row[key] for row in rows])
        known = values[~np.isnan(values)]
        means[key] = float(known.mean()) if known.size else float("nan")
    return means


def named(name: str) -> Protocol:
    """Give the protocol of a name, as a command line spells it."""
    if name not in PROTOCOLS:
        raise ConfigError(f"there is no protocol {name!r}; there are {', '.join(PROTOCOLS)}.")
    return PROTOCOLS[name]


def mean_absolute_error(predicted: Tensor, reference: Tensor) -> float:
    """Give the mean absolute difference over all values."""
    return float((predicted.double() - reference.double()).abs().mean())


def root_mean_squared_error(predicted: Tensor, reference: Tensor) -> float:
    """Give the root of the mean squared difference over all values."""
    return float((predicted.double() - reference.double()).square().mean().sqrt())


def psnr(predicted: Tensor, reference: Tensor, *, peak: float = 1.0) -> float:
    """Give the peak signal-to-noise ratio in dB over all values together; infinite for equal images."""
    squared = (predicted.double() - reference.double()).square().mean()
    return float(20 * np.log10(peak) - 10 * torch.log10(squared))


def spectral_angles(predicted: Tensor, reference: Tensor) -> Tensor:
    """Give the angle between the spectra of each pixel in degrees, of (C, ...); NaN where either is black."""
    cosine = (predicted * reference).sum(0) / reference.square().sum(0).sqrt() / predicted.square().sum(0).sqrt()
    return torch.rad2deg(torch.acos(cosine.clamp(-1, 1)))


def spectral_angle(predicted: Tensor, reference: Tensor) -> float:
    """Give the mean angle between the pixels' spectra in degrees; NaN when any pixel of either is black.

    In float32 as in the peers' code: acos is coarse near 0 degrees there (up to 0.02),
    and their tables have it.
    """
    return float(spectral_angles(predicted.float(), reference.float()).mean())


def zero_padded_ssim(predicted: Tensor, reference: Tensor, *, centre: float) -> float:
    """Give SSIM with an 11 x 11 Gaussian of sigma 1.5, zero padded, per band, for a peak of 1.

    `centre` is where the Gaussian has its top, counted from the window's first pixel: 5 is its middle, and
    the 5.5 of GLF-CR and its heirs is half a pixel off it. No library pads with zeros, so it is written here.
    """
    window = np.exp(-((np.arange(11) - centre) ** 2) / (2 * 1.5**2))
    window /= window.sum()

    def blur(image: Array) -> Array:
        rows: Array = correlate1d(image, window, axis=1, mode="constant")
        blurred: Array = correlate1d(rows, window, axis=2, mode="constant")
        return blurred

    p, r = predicted.double().numpy(), reference.double().numpy()  # float32 cancels in E[x^2] - E[x]^2
    mean_p, mean_r = blur(p), blur(r)
    both, product = mean_p**2 + mean_r**2, mean_p * mean_r
    variances, covariance = blur(p * p + r * r) - both, blur(p * r) - product
    c1, c2 = 0.01**2, 0.03**2
    ssim = (2 * product + c1) * (2 * covariance + c2) / ((both + c1) * (variances + c2))
    return float(ssim.mean())


def uniform_ssim(predicted: Tensor, reference: Tensor, *, peak: float) -> float:
    """Give scikit-image's own SSIM: 7 x 7 uniform window, sample covariance, per band, valid region."""
    p, r = predicted.double().numpy(), reference.double().numpy()
    return float(structural_similarity(p, r, data_range=peak, channel_axis=0))


def gaussian_ssim(predicted: Tensor, reference: Tensor, *, peak: float) -> float:
    """Give the SSIM of its paper: 11 x 11 Gaussian of sigma 1.5, per band, valid region (by scikit-image)."""
    p, r = predicted.double().numpy(), reference.double().numpy()
    return float(
        structural_similarity(
            p,
            r,
            data_range=peak,
            channel_axis=0,
            gaussian_weights=True,
            sigma=1.5,
            use_sample_covariance=False,
        )
    )


def matlab_luma(image: Tensor) -> Tensor:
    """Give MATLAB's Y of YCbCr, (1, H, W) in whole numbers 16..235, of RGB that is first made 8-bit."""
    weights = torch.tensor([65.481, 128.553, 24.966], dtype=torch.float64)
    levels = (image.double().clamp(0, 1) * 255).round()
    return ((levels * weights.view(3, 1, 1)).sum(0, keepdim=True) / 255 + 16).round()


def matlab_half(image: Tensor) -> Tensor:
    """Give the image at half size as MATLAB's imresize does: bicubic, antialiased, mirrored at the border."""
    height, width = image.shape[1:]
    pads = ((0, 0), (4, 4 + height % 2), (4, 4 + width % 2))  # a cubic kernel of twice the width reaches 4
    mirrored = torch.from_numpy(np.pad(image.double().numpy(), pads, mode="symmetric"))
    size = (mirrored.shape[1] // 2, mirrored.shape[2] // 2)
    half = F.interpolate(mirrored[None], size=size, mode="bicubic", antialias=True)[0]
    return half[:, 2:-2, 2:-2]


def _like_att_cr(predicted: Tensor, reference: Tensor) -> Scores:
    return {
        "psnr": psnr(predicted, reference),
        "ssim": zero_padded_ssim(predicted, reference, centre=5.5),
        "mae": mean_absolute_error(predicted, reference),
        "sam": spectral_angle(predicted, reference),
    }


def _att_cr(predicted: Tensor, reference: Tensor) -> Scores:
    return _like_att_cr(predicted.clamp(0, 1), reference)


def _aca_crnet(predicted: Tensor, reference: Tensor) -> Scores:
    def shrink(image: Tensor) -> Tensor:  # torchvision's Resize of a PIL image is bilinear and antialiased
        resized = F.interpolate(image[None], size=(256, 256), mode="bilinear", antialias=True)[0]
        return resized[:, 64:192, 64:192]

    return _att_cr(shrink(predicted.clamp(0, 1)), shrink(reference))


def _uncrtaints(predicted: Tensor, reference: Tensor) -> Scores:
    return {
        "psnr": psnr(predicted, reference),
        "ssim": zero_padded_ssim(predicted, reference, centre=5),
        "mae": mean_absolute_error(predicted, reference),
        "sam": spectral_angle(predicted, reference),
        "rmse": root_mean_squared_error(predicted, reference),
    }


def _t_cloud(predicted: Tensor, reference: Tensor) -> Scores:
    return {"psnr": psnr(predicted, reference), "ssim": uniform_ssim(predicted, reference, peak=1)}


def _cmnet_y(predicted: Tensor, reference: Tensor) -> Scores:
    p, r = matlab_luma(predicted), matlab_luma(reference)
    return {"psnr": psnr(p, r, peak=255), "ssim": gaussian_ssim(p, r, peak=255)}


def _half(predicted: Tensor, reference: Tensor) -> Scores:
    def levels(image: Tensor) -> Tensor:
        return (matlab_half(image) * 255).clamp(0, 255).floor()  # their conversion to 8 bits cuts

    p, r = levels(predicted), levels(reference)
    grey = torch.tensor([0.298912, 0.586611, 0.114478], dtype=torch.float64).view(3, 1, 1)
    grey_p, grey_r = (p * grey).sum(0, keepdim=True), (r * grey).sum(0, keepdim=True)
    return {"psnr": psnr(p, r, peak=255), "ssim": uniform_ssim(grey_p, grey_r, peak=255)}


def _standard(predicted: Tensor, reference: Tensor) -> Scores:
    p, r = predicted.float()[None], reference.float()[None]
    ssim = torchmetrics.structural_similarity_index_measure(p, r, data_range=1.0)
    assert isinstance(ssim, Tensor)
    return {
        "psnr": float(torchmetrics.peak_signal_noise_ratio(p, r, data_range=1.0)),
        "ssim": float(ssim),
        "sam": float(torchmetrics.spectral_angle_mapper(p, r)),
    }


_PSNR = Metric("PSNR", "dB", True, 2)
_SSIM = Metric("SSIM", "", True, 4)
_MAE = Metric("MAE", "", False, 4)
_SAM = Metric("SAM", "deg", False, 3)
_RMSE = Metric("RMSE", "", False, 4)
_TWO = {"psnr": _PSNR, "ssim": _SSIM}
_FOUR = {**_TWO, "mae": _MAE, "sam": _SAM}

PROTOCOLS: dict[str, Protocol] = {
    protocol.name: protocol
    for protocol in (
        Protocol(
            "att-cr",
            "ATT-CR and CR-former on RICE1, RICE2 and T-CLOUD",
            "RGB in [0, 1], prediction clamped, native size; SSIM 11x11 Gaussian centred at 5.5, zero padded",
            _FOUR,
            bands=3,
            rgb_only=False,
            measure=_att_cr,
        ),
        Protocol(
            "att-cr-sen12",
            "ATT-CR on SEN12MS-CR",
            "13 bands, DN/10000, not clamped; SSIM 11x11 Gaussian centred at 5.5, zero padded",
            _FOUR,
            bands=13,
            rgb_only=False,
            measure=_like_att_cr,
        ),
        Protocol(
            "uncrtaints",
            "UnCRtainTS and EMRDM",
            "DN/10000, not clamped; SSIM 11x11 Gaussian centred at 5, zero padded",
            {**_FOUR, "rmse": _RMSE},
            bands=None,
            rgb_only=False,
            measure=_uncrtaints,
        ),
        Protocol(
            "t-cloud",
            "the authors of T-CLOUD",
            "RGB, not clamped; SSIM 7x7 uniform, valid region (scikit-image)",
            _TWO,
            bands=3,
            rgb_only=False,
            measure=_t_cloud,
        ),
        Protocol(
            "cmnet-y",
            "CMNet and CR-Famba",
            "MATLAB Y of YCbCr of 8-bit RGB, peak 255; SSIM 11x11 Gaussian, valid region",
            _TWO,
            bands=3,
            rgb_only=True,
            measure=_cmnet_y,
        ),
        Protocol(
            "aca-crnet",
            "ACA-CRNet",
            "resized to 256x256 (bilinear, antialiased), centre 128x128, then as att-cr",
            _FOUR,
            bands=3,
            rgb_only=False,
            measure=_aca_crnet,
        ),
        Protocol(
            "half",
            "the authors of CUHK-CR",
            "8-bit RGB at half size (MATLAB bicubic), peak 255; SSIM on grey, 7x7 uniform, valid region",
            _TWO,
            bands=3,
            rgb_only=True,
            measure=_half,
        ),
        Protocol(
            "standard",
            "torchmetrics",
            "torchmetrics' own functions with data_range=1, not clamped; its SAM is in radians",
            {**_TWO, "sam": Metric("SAM", "rad", False, 4)},
            bands=None,
            rgb_only=False,
            measure=_standard,
        ),
    )
}
"""The protocols by name."""
