"""Named evaluation protocols: what the tables of this field were made with; one definition of each metric.

The same pair of images scores SSIM 0.64 or 0.87 depending on whose code is run, so a score without the name
of its protocol says nothing. `Protocol` is what every protocol does; here are those of whole images. Images are
(C, H, W) in units where 1 is the peak: RGB / 255, or digital numbers / 10000.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attcr.data import DataSet
from attcr.errors import DataError, ShapeError
from attcr.evaluate.rows import COPIED, Row, as_csv, as_markdown, in_bins, interval, number
from attcr.extras import needed

with needed():
    from scipy.ndimage import correlate1d
    from skimage.metrics import structural_similarity

Json = dict[str, Any]
Scores = dict[str, float]
Array = NDArray[np.floating[Any]]

SMALLEST = 16
"""Pixels a side must have: room for the 7-pixel window of `half` after halving, and for the 11-pixel ones."""
PAIRS = "pairs of a cloudy and a clear image"
PSNR_EDGES = (15, 20, 25, 35)
"""Bins of the input's own PSNR in dB."""
COVER_EDGES = (0.1, 0.3, 0.5, 0.7)
"""Bins of the share of cloudy pixels."""
CONTRAST_EDGES = (0.02,)
"""Bins of the reference's contrast, where 1 is the peak: between its 5th and 95th percentile, bands averaged. Below
lie open sea and other even ground, which are easy."""


@dataclass(frozen=True)
class Metric:
    """How a metric is written: heading, unit, whether more is better, and the decimals worth printing."""

    heading: str
    unit: str
    higher_is_better: bool
    decimals: int

    @property
    def column(self) -> str:
        """The heading of its column."""
        return f"{self.heading} {'↑' if self.higher_is_better else '↓'}" + (f" ({self.unit})" if self.unit else "")

    def cell(self, entry: Mapping[str, Any]) -> str:
        """Write a mean with its interval."""
        mean, low, high = (number(entry[at], self.decimals) for at in ("mean", "low", "high"))
        return f"{mean} [{low}, {high}]"


@dataclass(frozen=True)
class Given:
    """What is known of an image that is scored, beside its reference."""

    bands: Sequence[str] = ()
    """By name."""
    classes: ArrayLike | None = None
    """(H, W), see `attcr.data.dates`."""
    seen: ArrayLike | None = None
    """The input (C, H, W)."""
    expected: ArrayLike | None = None
    """The absolute error (H, W) that the method expects; 0 where it expects none."""


NOTHING = Given()


class Protocol(ABC):
    """One way of scoring, with the name that its numbers must carry."""

    name: str
    """What tables and options call it."""
    space: str
    """The values that are compared, in words."""
    metrics: Mapping[str, Metric]
    """The metrics it gives, by key, in the order of its tables."""
    scored: ClassVar[str]
    """What it scores, in words."""
    row_key: ClassVar[str]
    """Where its scores stand in a row."""

    @abstractmethod
    def score(self, predicted: ArrayLike, reference: ArrayLike, given: Given = NOTHING) -> Json:
        """Give the metrics of what a method made of one image, against its reference (C, H, W)."""

    @abstractmethod
    def summarise(self, rows: Sequence[Any], data: DataSet, part: str) -> Json:
        """Give what a report says of a part of a data set, of the rows of its images."""

    @abstractmethod
    def table(self, result: Mapping[str, Any]) -> list[str]:
        """Give the lines in Markdown that show a summary."""

    @abstractmethod
    def rows_file(self, rows: Sequence[Any]) -> tuple[str, str]:
        """Give the name and the text of the file that lists the rows."""

    @abstractmethod
    def lines(self, result: Mapping[str, Any]) -> Iterator[str]:
        """Give what a command prints of a summary."""


@dataclass(frozen=True)
class ImageProtocol(Protocol):
    """A way of scoring whole images."""

    name: str
    who: str
    """Whose tables were made with it."""
    space: str
    metrics: Mapping[str, Metric]
    measure: Callable[[Array, Array], Scores]
    """Its definition, on two images that `score` has checked."""
    bands: int | None = 3
    """The number of bands it was published for; None for any."""
    rgb_only: bool = False
    """True when its formula needs red, green and blue; otherwise any number of bands can be scored."""
    scored = PAIRS
    row_key = "scores"

    def score(self, predicted: ArrayLike, reference: ArrayLike, given: Given = NOTHING) -> Scores:
        """Give the metrics of one image; SAM is NaN when a pixel is black, and `average` leaves it out.

        Both are floating (C, H, W) where 1 is the peak, tensors or arrays; the prediction as the network gave it, not
        clamped.
        """
        image, clear = _array(predicted), _array(reference)
        if image.shape != clear.shape or image.ndim != 3:
            raise ShapeError(
                f"protocol {self.name} scores two images of one shape (C, H, W); "
                f"the prediction has {image.shape}, the reference {clear.shape}."
            )
        for role, values in (("prediction", image), ("reference", clear)):
            if values.dtype.kind != "f":
                raise ShapeError(
                    f"the {role} is {values.dtype}; protocols score floating images where 1 is the peak: "
                    "divide 8-bit RGB by 255 and reflectance digital numbers by 10000."
                )
            if not np.isfinite(values).all():
                raise DataError(f"the {role} has NaN or infinite pixels, which no protocol can score.")
        count, height, width = clear.shape
        if self.rgb_only and count != 3:
            raise ShapeError(f"protocol {self.name} is defined on RGB; these images have {count} bands.")
        if min(height, width) < SMALLEST:
            raise ShapeError(f"protocols need {SMALLEST} pixels a side; these images are {height} x {width}.")
        return self.measure(image, clear)

    def of(self, rows: Sequence[Row], method: str, key: str) -> list[float]:
        """Give a metric of a method, of each row."""
        return [row["scores"][method][self.name][key] for row in rows]

    def summarise(self, rows: Sequence[Row], data: DataSet, part: str) -> Json:
        """Give means with their intervals, means by kind of image, and what a reader must know."""
        methods = list(rows[0]["scores"])
        gains = zip(rows, self.of(rows, methods[0], "psnr"), self.of(rows, COPIED, "psnr"), strict=True)
        return {
            "methods": {
                method: {key: interval(self.of(rows, method, key)) for key in self.metrics} for method in methods
            },
            "by the input's PSNR": self._means(in_bins(rows, "input psnr", PSNR_EDGES, " dB")),
            "by cloud cover": self._means(in_bins(rows, "cover", COVER_EDGES, " %", 100)),
            "by the reference's contrast": self._means(in_bins(rows, "contrast", CONTRAST_EDGES)),
            "worse than the input": [row["name"] for row, after, before in gains if after < before],
            "notes": [*self._notes(rows), *(_paper_notes(rows, data, part) if self._in_paper(data) else ())],
            "paper": dict(data.paper.scores) if data.paper and self._in_paper(data) else None,
        }

    def _means(self, bins: Iterable[tuple[str, list[Row]]]) -> dict[str, Any]:
        return {
            label: {
                "images": len(rows),
                "methods": {
                    method: average(row["scores"][method][self.name] for row in rows)
                    for method in (rows[0]["scores"] if rows else ())
                },
            }
            for label, rows in bins
        }

    def _in_paper(self, data: DataSet) -> bool:
        return data.paper is not None and data.protocol == self.name

    def _notes(self, rows: Sequence[Row]) -> Iterator[str]:
        bands = rows[0]["size"][0]
        if self.bands not in (None, bands):
            yield f"the protocol was published for {self.bands} bands; these images have {bands}."
        for key, metric in self.metrics.items():
            left_out = {method: sum(map(math.isnan, self.of(rows, method, key))) for method in rows[0]["scores"]}
            if any(left_out.values()):
                counts = ", ".join(f"{count} of {method}" for method, count in left_out.items() if count)
                yield (
                    f"{metric.heading} leaves out images with a black pixel, of {len(rows)}: {counts}. "
                    "Between methods it is then of different images."
                )

    def table(self, result: Mapping[str, Any]) -> list[str]:
        """Give a table of the means, and one of the PSNR by each kind of image."""
        subject, *_ = methods = list(result["methods"])
        body = [
            [f"**{name}**" if name == subject else name, *(self.metrics[key].cell(each) for key, each in told.items())]
            for name, told in result["methods"].items()
        ]
        if result["paper"]:
            paper = [number(result["paper"].get(key), metric.decimals) for key, metric in self.metrics.items()]
            body.append(["ATT-CR (paper)", *paper])
        text = [f"Used by {self.who}. {self.space}.", ""]
        text += as_markdown(["method", *(metric.column for metric in self.metrics.values())], body)
        text += ["", *(f"- {note[0].upper()}{note[1:]}" for note in result["notes"])]
        if subject != COPIED:
            images = sum(entry["images"] for entry in result["by cloud cover"].values())
            text += [f"- {len(result['worse than the input'])} of {images} images score less PSNR than their input."]
        for title, first in (
            ("by the input's PSNR", "input"),
            ("by cloud cover", "cover"),
            ("by the reference's contrast", "contrast"),
        ):
            body = []
            for label, entry in result[title].items():
                means = {name: scores["psnr"] for name, scores in entry["methods"].items()}
                before, after = means.get(COPIED), means.get(subject)
                gain = "-" if before is None or after is None else f"{after - before:+.2f}"
                body.append([label, str(entry["images"]), *(number(means.get(name), 2) for name in methods), gain])
            heading = [first, "images", *methods, f"gain of {subject}"]
            text += ["", f"PSNR (dB) {title}:", "", *as_markdown(heading, body)]
        return [
            *text,
            "",
            "Contrast is the range between the reference's 5th and 95th percentile, its bands averaged (1 is the "
            f"peak); below {CONTRAST_EDGES[0]:g} lie open sea and other even ground.",
        ]

    def rows_file(self, rows: Sequence[Row]) -> tuple[str, str]:
        """Give a table with a row for each image."""
        columns = [(method, key) for method in rows[0]["scores"] for key in self.metrics]
        heading = ["name", "cloud cover", "contrast", "input psnr", *(f"{method}: {key}" for method, key in columns)]
        scores = zip(*(self.of(rows, *column) for column in columns), strict=True)
        about = ([row["name"], row["cover"], row["contrast"], row["input psnr"]] for row in rows)
        body = ([*told, *values] for told, values in zip(about, scores, strict=True))
        return f"images-{self.name}.csv", as_csv(heading, body)

    def lines(self, result: Mapping[str, Any]) -> Iterator[str]:
        """Give the PSNR of each method."""
        means = {method: entries["psnr"]["mean"] for method, entries in result["methods"].items()}
        yield f"{self.name}: PSNR " + ", ".join(f"{name} {mean or math.inf:.2f} dB" for name, mean in means.items())


def _paper_notes(rows: Sequence[Row], data: DataSet, part: str) -> Iterator[str]:
    """Say what a reader must know before he compares with the paper's row."""
    assert data.paper is not None
    if part != "test":
        yield f"the paper's row is of its test part; this is {part}."
    if data.paper.split:
        yield f"the paper's row is of another split: {data.paper.split}."
    sizes = sorted({f"{row['size'][1]}x{row['size'][2]}" for row in rows})
    if sizes != [f"{data.paper.size}x{data.paper.size}"]:
        yield f"the paper's images are {data.paper.size}x{data.paper.size}; these are {', '.join(sizes)}."


def _array(image: Any) -> Array:
    if not hasattr(image, "detach"):
        return np.asarray(image)
    held = image.detach().cpu()
    return np.asarray(held.float() if held.is_floating_point() and held.element_size() < 4 else held)


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


def _difference(predicted: ArrayLike, reference: ArrayLike) -> NDArray[np.float64]:
    return np.asarray(predicted, np.float64) - np.asarray(reference, np.float64)


def mean_absolute_error(predicted: ArrayLike, reference: ArrayLike) -> float:
    """Give the mean absolute difference over all values."""
    return float(abs(_difference(predicted, reference)).mean())


def root_mean_squared_error(predicted: ArrayLike, reference: ArrayLike) -> float:
    """Give the root of the mean squared difference over all values."""
    return float(np.sqrt((_difference(predicted, reference) ** 2).mean()))


def psnr(predicted: ArrayLike, reference: ArrayLike, *, peak: float = 1.0) -> float:
    """Give the peak signal-to-noise ratio in dB over all values together; infinite for equal images."""
    squared = float((_difference(predicted, reference) ** 2).mean())
    return 20 * math.log10(peak) - 10 * math.log10(squared) if squared else math.inf


def spectral_angle(predicted: Array, reference: Array) -> float:
    """Give the mean angle between the pixels' spectra in degrees; NaN when any pixel of either is black.

    In float32 as in the peers' code: acos is coarse near 0 degrees there (up to 0.02),
    and their tables have it.
    """
    p, r = predicted.astype(np.float32), reference.astype(np.float32)
    with np.errstate(invalid="ignore", divide="ignore"):
        cosine = (p * r).sum(0) / np.sqrt((r**2).sum(0)) / np.sqrt((p**2).sum(0))
    return float(np.rad2deg(np.arccos(cosine.clip(-1, 1))).mean())


def zero_padded_ssim(predicted: ArrayLike, reference: ArrayLike, *, centre: float) -> float:
    """Give SSIM with an 11 x 11 Gaussian of sigma 1.5, zero padded, per band, for a peak of 1.

    `centre` is where the Gaussian has its top, counted from the window's first pixel: 5 is its middle, and
    the 5.5 of GLF-CR and its heirs is half a pixel off it. No library pads with zeros, so it is written here.
    """
    window = np.exp(-((np.arange(11) - centre) ** 2) / (2 * 1.5**2))
    window /= window.sum()

    def blur(image: NDArray[np.float64]) -> NDArray[np.float64]:
        rows: NDArray[np.float64] = correlate1d(image, window, axis=1, mode="constant")
        blurred: NDArray[np.float64] = correlate1d(rows, window, axis=2, mode="constant")
        return blurred

    p, r = np.asarray(predicted, np.float64), np.asarray(reference, np.float64)  # float32 cancels in E[x^2] - E[x]^2
    mean_p, mean_r = blur(p), blur(r)
    both, product = mean_p**2 + mean_r**2, mean_p * mean_r
    variances, covariance = blur(p * p + r * r) - both, blur(p * r) - product
    c1, c2 = 0.01**2, 0.03**2
    ssim = (2 * product + c1) * (2 * covariance + c2) / ((both + c1) * (variances + c2))
    return float(ssim.mean())


def uniform_ssim(predicted: ArrayLike, reference: ArrayLike, *, peak: float) -> float:
    """Give scikit-image's own SSIM: 7 x 7 uniform window, sample covariance, per band, valid region."""
    p, r = np.asarray(predicted, np.float64), np.asarray(reference, np.float64)
    return float(structural_similarity(p, r, data_range=peak, channel_axis=0))


def gaussian_ssim(predicted: ArrayLike, reference: ArrayLike, *, peak: float) -> float:
    """Give the SSIM of its paper: 11 x 11 Gaussian of sigma 1.5, per band, valid region (by scikit-image)."""
    p, r = np.asarray(predicted, np.float64), np.asarray(reference, np.float64)
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


def matlab_luma(image: ArrayLike) -> Array:
    """Give MATLAB's Y of YCbCr, (1, H, W) in whole numbers 16..235, of RGB that is first made 8-bit."""
    weights = np.array([65.481, 128.553, 24.966]).reshape(3, 1, 1)
    levels = (np.asarray(image, np.float64).clip(0, 1) * 255).round()
    luma: Array = ((levels * weights).sum(0, keepdims=True) / 255 + 16).round()
    return luma


def _like_att_cr(predicted: Array, reference: Array) -> Scores:
    return {
        "psnr": psnr(predicted, reference),
        "ssim": zero_padded_ssim(predicted, reference, centre=5.5),
        "mae": mean_absolute_error(predicted, reference),
        "sam": spectral_angle(predicted, reference),
    }


def _att_cr(predicted: Array, reference: Array) -> Scores:
    return _like_att_cr(predicted.clip(0, 1), reference)


def _uncrtaints(predicted: Array, reference: Array) -> Scores:
    return {
        "psnr": psnr(predicted, reference),
        "ssim": zero_padded_ssim(predicted, reference, centre=5),
        "mae": mean_absolute_error(predicted, reference),
        "sam": spectral_angle(predicted, reference),
        "rmse": root_mean_squared_error(predicted, reference),
    }


def _t_cloud(predicted: Array, reference: Array) -> Scores:
    return {"psnr": psnr(predicted, reference), "ssim": uniform_ssim(predicted, reference, peak=1)}


def _cmnet_y(predicted: Array, reference: Array) -> Scores:
    p, r = matlab_luma(predicted), matlab_luma(reference)
    return {"psnr": psnr(p, r, peak=255), "ssim": gaussian_ssim(p, r, peak=255)}


def _standard(predicted: Array, reference: Array) -> Scores:
    import torch

    with needed():
        import torchmetrics.functional.image as torchmetrics
    p, r = (torch.from_numpy(image.astype(np.float32))[None] for image in (predicted, reference))
    ssim = torchmetrics.structural_similarity_index_measure(p, r, data_range=1.0)
    assert isinstance(ssim, torch.Tensor)
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

IMAGE_PROTOCOLS: dict[str, ImageProtocol] = {
    protocol.name: protocol
    for protocol in (
        ImageProtocol(
            "att-cr",
            "ATT-CR and CR-former on RICE1, RICE2 and T-CLOUD",
            "RGB in [0, 1], prediction clamped, native size; SSIM 11x11 Gaussian centred at 5.5, zero padded",
            _FOUR,
            _att_cr,
        ),
        ImageProtocol(
            "att-cr-sen12",
            "ATT-CR on SEN12MS-CR",
            "13 bands, DN/10000, not clamped; SSIM 11x11 Gaussian centred at 5.5, zero padded",
            _FOUR,
            _like_att_cr,
            bands=13,
        ),
        ImageProtocol(
            "uncrtaints",
            "UnCRtainTS and EMRDM",
            "DN/10000, not clamped; SSIM 11x11 Gaussian centred at 5, zero padded",
            {**_FOUR, "rmse": _RMSE},
            _uncrtaints,
            bands=None,
        ),
        ImageProtocol(
            "t-cloud",
            "the authors of T-CLOUD",
            "RGB, not clamped; SSIM 7x7 uniform, valid region (scikit-image)",
            _TWO,
            _t_cloud,
        ),
        ImageProtocol(
            "cmnet-y",
            "CMNet and CR-Famba",
            "MATLAB Y of YCbCr of 8-bit RGB, peak 255; SSIM 11x11 Gaussian, valid region",
            _TWO,
            _cmnet_y,
            rgb_only=True,
        ),
        ImageProtocol(
            "standard",
            "torchmetrics",
            "torchmetrics' own functions with data_range=1, not clamped; its SAM is in radians",
            {**_TWO, "sam": Metric("SAM", "rad", False, 4)},
            _standard,
            bands=None,
        ),
    )
}
"""The protocols of whole images by name."""
