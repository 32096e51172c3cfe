"""Protocols for real pairs of two dates: errors by class, after what differs without any cloud is fitted away.

The ground, the sun and the air change between two dates, so the raw difference of a cloudy date and a clear one is more
than cloud: on CloudSEN12's deserts 0.048 of reflectance where there is none. `two-dates` therefore brings each image,
the input and what a method made of it, onto the clear date by a line for each band, fitted to the pixels that are clear
on both dates, each side by its own. What then remains on those very pixels is the floor, and no method can be expected
to come below it under cloud. Errors are reported by the classes of a mask (`attcr.data.dates`); all pixels count alike.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attcr.data import DataSet
from attcr.data.dates import CLASS_NUMBERS, NOT_SCORED
from attcr.errors import ShapeError
from attcr.evaluate.protocols import Array, Bands, Mask, Metric, Protocol, spectral_angles
from attcr.evaluate.rows import COPIED, RESAMPLES, Row, as_csv, as_markdown, number

ClassScores = dict[str, dict[str, float]]
"""By class: its pixels, and its metrics."""

LEAST_CLEAR = 500
"""Pixels clear on both dates that lines are fitted to; a pair with fewer is left out."""
EVERY = "all"
"""The class of all pixels that are scored."""
ORDER = ("thin", "thick", "shadow", "clear", EVERY)
"""The classes in the order of the tables."""
INDICES = {"ndvi": ("nir", "red"), "ndwi": ("green", "nir")}
"""Normalised differences: (first - second) / (first + second)."""

METRICS = {
    "mae": Metric("MAE", "", False, 4),
    "rmse": Metric("RMSE", "", False, 4),
    "sam": Metric("SAM", "deg", False, 2),
    "ndvi": Metric("NDVI error", "", False, 4),
    "ndwi": Metric("NDWI error", "", False, 4),
}


@dataclass(frozen=True)
class ClassProtocol(Protocol):
    """One way of scoring a restored date against a clear one, by class."""

    name: str
    space: str
    fitted: bool
    """Whether each side is first fitted to the clear date."""
    metrics = METRICS
    scored = "pairs of two dates with a mask of classes"
    row_key = "classes"

    def score(self, predicted: ArrayLike, reference: ArrayLike, classes: Mask = None, bands: Bands = ()) -> ClassScores:
        """Give pixels and metrics by class, of those that are there; nothing for a pair that cannot be fitted.

        Images are (C, H, W) reflectance of these bands, classes (H, W) as in `attcr.data.dates`. A metric is NaN where
        its bands are absent.
        """
        image: Array = np.asarray(predicted, np.float64)
        clear, mask = np.asarray(reference, np.float64), np.asarray(classes)
        if image.shape != clear.shape or image.shape[1:] != mask.shape:
            raise ShapeError(
                f"protocol {self.name} scores two images (C, H, W) and classes (H, W) of one size; the prediction has "
                f"{image.shape}, the reference {clear.shape}, the classes {mask.shape}."
            )
        if self.fitted:
            both = mask == CLASS_NUMBERS["clear"]
            if int(both.sum()) < LEAST_CLEAR:
                return {}
            image = fit_to(image, clear, both)
        chosen = {name: mask == code for name, code in CLASS_NUMBERS.items()}
        chosen[EVERY] = mask != NOT_SCORED
        return {
            name: _errors(image[:, where], clear[:, where], bands)
            for name, where in chosen.items()
            if bool(where.any())
        }

    def _by_method(self, rows: Sequence[Row]) -> dict[str, list[ClassScores]]:
        return {method: [row["classes"][method][self.name] for row in rows] for method in rows[0]["classes"]}

    def summarise(self, rows: Sequence[Row], data: DataSet, part: str) -> dict[str, Any]:
        """Give the pooled metrics of each class; the floor is the copied input's error on the pixels fitted to."""
        scores, names = self._by_method(rows), [row["name"] for row in rows]
        copied, subject = scores[COPIED], next(iter(scores.values()))
        there = [name for name in ORDER if any(name in image for image in copied)]
        return {
            "classes": {name: sum(int(image[name]["pixels"]) for image in copied if name in image) for name in there},
            "methods": {
                method: {name: {key: pool_with_interval(images, name, key) for key in self.metrics} for name in there}
                for method, images in scores.items()
            },
            "floor": {key: pool(copied, "clear", key) for key in self.metrics} if self.fitted else None,
            "worse than the input": {
                name: [
                    image
                    for image, before, after in zip(names, copied, subject, strict=True)
                    if name in before and after[name]["mae"] > before[name]["mae"]
                ]
                for name in there
            },
            "left out": [name for name, image in zip(names, copied, strict=True) if not image],
        }

    def table(self, result: Mapping[str, Any]) -> list[str]:
        """Give a table with a row for each method of each class."""
        subject = next(iter(result["methods"]))
        body = []
        for name, pixels in result["classes"].items():
            for method, classes in result["methods"].items():
                cells = [metric.cell(classes[name][key]) for key, metric in self.metrics.items()]
                told = [name, str(pixels)] if method == subject else ["", ""]
                body.append([*told, f"**{method}**" if method == subject else method, *cells])
        if result["floor"]:
            floor = [number(result["floor"][key], metric.decimals) for key, metric in self.metrics.items()]
            body.append(["floor", "", "", *floor])
        heading = ["class", "pixels", "method", *(metric.column for metric in self.metrics.values())]
        text = [f"{self.space}.", "", *as_markdown(heading, body), ""]
        if result["floor"]:
            text += [
                "- The floor is what the fitted input is still off by on the pixels that it was fitted to, those clear "
                "on both dates: what changed between the dates otherwise. Under cloud nothing can be expected to do "
                "better."
            ]
        if result["left out"]:
            text += [f"- Left out, with too few pixels clear on both dates to fit to: {', '.join(result['left out'])}."]
        if subject != COPIED:
            counts = {name: len(images) for name, images in result["worse than the input"].items() if name != EVERY}
            worse = ", ".join(f"{count} {name}" for name, count in counts.items())
            text += [f"- Images whose MAE is above their input's, by class: {worse}."]
        return text

    def rows_file(self, rows: Sequence[Row]) -> tuple[str, str]:
        """Give a table with a row for each class of each image."""
        scores = self._by_method(rows)
        first, *_ = scores.values()
        heading = ["name", "class", "pixels", *(f"{method}: {key}" for method in scores for key in self.metrics)]
        columns = [(images, key) for images in scores.values() for key in self.metrics]
        body = (
            [row["name"], name, told["pixels"], *(images[at][name][key] for images, key in columns)]
            for at, row in enumerate(rows)
            for name, told in first[at].items()
        )
        return f"images-{self.name}.csv", as_csv(heading, body)

    def lines(self, result: Mapping[str, Any]) -> Iterator[str]:
        """Give the MAE of each class."""
        for kind in result["classes"]:
            means = {method: classes[kind]["mae"]["mean"] for method, classes in result["methods"].items()}
            yield f"{self.name}: MAE {kind} " + ", ".join(f"{method} {mean:.4f}" for method, mean in means.items())


def fit_to(image: Array, clear: Array, both: NDArray[np.bool_]) -> Array:
    """Give the image (C, H, W), each band by the line that brings it nearest to the clear one on the pixels `both`.

    Nearest is in squares; a band that is the same on all these pixels says nothing of a line and is left as it is.
    """
    seen, wanted = image[:, both], clear[:, both]
    middle, aim = seen.mean(1, keepdims=True), wanted.mean(1, keepdims=True)
    variance = ((seen - middle) ** 2).mean(1, keepdims=True)
    flat = np.sqrt(variance) <= 1e-5
    slope = ((seen - middle) * (wanted - aim)).mean(1, keepdims=True) / np.where(flat, 1.0, variance)
    slope, offset = np.where(flat, 1.0, slope), np.where(flat, 0.0, aim - slope * middle)
    fitted: Array = image * slope[..., None] + offset[..., None]
    return fitted


def _errors(image: Array, clear: Array, bands: Sequence[str]) -> dict[str, float]:
    """Give the metrics of (C, N) against (C, N)."""
    scores = {
        "pixels": image.shape[1],
        "mae": float(abs(image - clear).mean()),
        "rmse": float(np.sqrt(((image - clear) ** 2).mean())),
        "sam": _mean_known(spectral_angles(image, clear)),  # a black pixel has no angle
    }
    for key, (first, second) in INDICES.items():
        if first in bands and second in bands:
            at = [list(bands).index(first), list(bands).index(second)]
            scores[key] = float(abs(_index(*image[at]) - _index(*clear[at])).mean())
        else:
            scores[key] = math.nan
    return scores


def _mean_known(values: Array) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else math.nan


def _index(first: Array, second: Array) -> Array:
    # Below 0 there is no reflectance, and no bound to the index.
    first, second = first.clip(0), second.clip(0)
    return (first - second) / (first + second + 1e-6)


def pool(images: Sequence[ClassScores], name: str, key: str) -> float:
    """Give a metric of one class over images, every pixel alike; NaN where there is none."""
    of_class = [scores[name] for scores in images if name in scores and not math.isnan(scores[name][key])]
    pixels = math.fsum(scores["pixels"] for scores in of_class)
    if not pixels:
        return math.nan
    power = 2 if key == "rmse" else 1
    mean = math.fsum(scores["pixels"] * scores[key] ** power for scores in of_class) / pixels
    return float(mean ** (1 / power))


def pool_with_interval(images: Sequence[ClassScores], name: str, key: str) -> dict[str, float | int]:
    """Give a pooled metric and its bootstrap 95 % interval, by images that hold the class, seed 0."""
    known = [scores for scores in images if name in scores and not math.isnan(scores[name][key])]
    mean = pool(known, name, key)
    if not known:
        return {"mean": mean, "low": math.nan, "high": math.nan, "images": 0}
    power = 2 if key == "rmse" else 1
    pixels, values = (np.array([scores[name][what] for scores in known]) for what in ("pixels", key))
    drawn = np.random.default_rng(0).integers(0, len(known), (RESAMPLES, len(known)))
    means = ((pixels * values**power)[drawn].sum(1) / pixels[drawn].sum(1)) ** (1 / power)
    low, high = np.percentile(means, [2.5, 97.5])
    return {"mean": mean, "low": float(low), "high": float(high), "images": len(known)}


CLASS_PROTOCOLS: dict[str, ClassProtocol] = {
    protocol.name: protocol
    for protocol in (
        ClassProtocol(
            "two-dates",
            "Reflectance, not clamped; each side fitted to the clear date by a line for each band on the pixels clear "
            "on both dates; pixels of a class together",
            fitted=True,
        ),
        ClassProtocol(
            "two-dates-raw",
            "Reflectance, not clamped and not fitted, so that all change between the dates counts as error; pixels of "
            "a class together",
            fitted=False,
        ),
    )
}
"""The protocols by class, by name."""
