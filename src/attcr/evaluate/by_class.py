"""Protocols for real pairs of two dates: errors by class, after what differs without any cloud is fitted away.

The ground, the sun and the air change between two dates, so the raw difference of a cloudy date and a clear one is more
than cloud: on CloudSEN12's deserts 0.048 of reflectance where there is none. `two-dates` therefore brings the clear
date into the tones of the cloudy one by a line for each band, fitted to the pixels that are clear on both. What then
remains on those pixels, the input's error in the class `clear`, is the floor: no method can be expected to come below
it under cloud. Errors are told by the classes of a mask (`attcr.data.dates`), as means over the images that have them.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attcr.data import DataSet
from attcr.data.dates import CLASS_NUMBERS, NOT_SCORED, TEN
from attcr.errors import ShapeError
from attcr.evaluate.protocols import NOTHING, Given, Metric, Protocol
from attcr.evaluate.rows import COPIED, Row, as_csv, as_markdown, interval, number
from attcr.extras import need

Float64 = NDArray[np.float64]
ClassScores = dict[str, dict[str, float]]
"""By class: its pixels, its metrics and what else is told of it. Of a pair that is left out: LEFT_OUT, and why."""

LEAST_CLEAR = 0.1
"""Share of an image that must be clear on both dates; a pair with less is left out where it is to be fitted."""
SLOPES = (0.5, 2.0)
"""Between these lies the middle one of the fitted slopes of the bands of 10 and 20 m. Otherwise the two dates do not
show the same ground, and the pair is left out."""
FEWEST, FEWEST_IN_SHADOW = 0.03, 0.01
"""Share of an image from which on it has a class."""
HARM = {"mae": 0.001, "ndvi": 0.005}
"""An image is harmed where an error is above its input's by more than this."""
SHOWS_GROUND = 0.25
"""Thin cloud with less detail than this in the visible and in the infrared bands is opaque."""
TOUCHED = 0.001
"""A pixel is touched where its bands changed by more than this on average."""
FINER = 8
"""Pixels (standard deviation): what is finer is detail."""
RIM, FEWEST_WITHIN = 2, 200
"""Pixels at the rim of a class whose detail does not count, if enough pixels lie within."""

LEFT_OUT, EVERY, SHOWN = "left out", "all", "thin, ground seen"
"""Beside the classes: pairs that are not scored, all pixels that are, and thin cloud that is not opaque."""
ORDER = ("thin", SHOWN, "shadow", "thick", "clear", EVERY)
"""The classes in the order of the tables."""
VISIBLE, INFRARED = ("blue", "green", "red"), ("rededge2", "rededge3", "nir", "nir08")

METRICS = {
    "mae": Metric("MAE", "", False, 4),
    "ndvi": Metric("NDVI error", "", False, 4),
    "detail": Metric("detail", "", True, 3),
}


@dataclass(frozen=True)
class ClassProtocol(Protocol):
    """One way of scoring a restored date against a clear one, by class."""

    name: str
    space: str
    fitted: bool
    """Whether the clear date is first fitted to the input."""
    metrics = METRICS
    scored = "pairs of two dates with a mask of classes"
    row_key = "classes"

    def score(self, predicted: ArrayLike, reference: ArrayLike, given: Given = NOTHING) -> ClassScores:
        """Give what is told of each class that the image has; of a pair that cannot be fitted, why.

        Images are (C, H, W) reflectance. A metric is NaN where its bands are absent.
        """
        image, truth, seen = (np.asarray(one, np.float64) for one in (predicted, reference, given.seen))
        mask = np.asarray(given.classes)
        if not image.shape == truth.shape == seen.shape or image.shape[1:] != mask.shape:
            raise ShapeError(
                f"protocol {self.name} scores images (C, H, W) and classes (H, W) of one size; the prediction has "
                f"{image.shape}, the reference {truth.shape}, the input {seen.shape}, the classes {mask.shape}."
            )
        if self.fitted:
            truth, wrong = in_tones_of(seen, truth, mask == CLASS_NUMBERS["clear"], given.bands)
            if wrong:
                return {LEFT_OUT: wrong}
        chosen = {name: mask == code for name, code in CLASS_NUMBERS.items()}
        chosen[EVERY] = mask != NOT_SCORED
        return {
            name: {**_errors(image, truth, given.bands, where), **_told(image, truth, seen, given.expected, where)}
            for name, where in chosen.items()
            if where.mean() >= (FEWEST_IN_SHADOW if name == "shadow" else FEWEST)
        }

    def _by_method(self, rows: Sequence[Row]) -> dict[str, list[ClassScores]]:
        return {method: [row["classes"][method][self.name] for row in rows] for method in rows[0]["classes"]}

    def summarise(self, rows: Sequence[Row], data: DataSet, part: str) -> dict[str, Any]:
        """Give the means over images of each class, the images harmed, and how true the expected errors are."""
        scores, names = self._by_method(rows), [row["name"] for row in rows]
        having = {name: [at for at, one in enumerate(scores[COPIED]) if name in one] for name in ORDER}
        opaque = [at for at in having["thin"] if not shows_ground(scores[COPIED][at]["thin"])]
        if opaque:
            having[SHOWN] = [at for at in having["thin"] if at not in opaque]
        having = {name: at for name, at in having.items() if at}

        def told(images: Sequence[ClassScores], name: str) -> dict[str, Any]:
            kind = "thin" if name == SHOWN else name
            mine, before = ([some[at][kind] for at in having[name]] for some in (images, scores[COPIED]))
            means = {key: interval([one[key] for one in mine]) for key in self.metrics}
            pairs = [*zip(having[name], mine, before, strict=True)]
            harmed = {
                key: [names[at] for at, after, first in pairs if after[key] > first[key] + least]
                for key, least in HARM.items()
            }
            others = {key: _mean_known([one[key] for one in mine]) for key in ("touched", "changed")}
            sure = [one for one in mine if not math.isnan(one["expected"])]
            if sure:
                expected, true, others["within"] = (
                    float(np.mean([one[key] for one in sure])) for key in ("expected", "true", "within")
                )
                others["expected over true"] = expected / true
            return {**means, "harmed": harmed, **others}

        return {
            "classes": {name: len(at) for name, at in having.items()},
            "methods": {method: {name: told(images, name) for name in having} for method, images in scores.items()},
            "opaque": [names[at] for at in opaque],
            "left out": {
                name: image[LEFT_OUT] for name, image in zip(names, scores[COPIED], strict=True) if LEFT_OUT in image
            },
        }

    def table(self, result: Mapping[str, Any]) -> list[str]:
        """Give a table with a row for each method of each class."""
        subject = next(iter(result["methods"]))
        body = []
        for name, images in result["classes"].items():
            for method, classes in result["methods"].items():
                told = classes[name]
                cells = [number(told[key]["mean"], metric.decimals) for key, metric in self.metrics.items()]
                cells[0] = self.metrics["mae"].cell(told["mae"])
                harmed = "-" if method == COPIED else ", ".join(str(len(told["harmed"][key])) for key in HARM)
                about = [name, str(images)] if method == subject else ["", ""]
                body.append([*about, f"**{method}**" if method == subject else method, *cells, harmed])
        heading = ["class", "images", "method", *(metric.column for metric in self.metrics.values()), "harmed"]
        text = [f"{self.space}.", "", *as_markdown(heading, body), ""]
        text += [
            f"- Harmed: images whose MAE is above their input's by more than {HARM['mae']:g}, and whose error of NDVI "
            f"is by more than {HARM['ndvi']:g}. Detail: correlation with the truth of what is finer than {FINER} "
            "pixels, visible bands."
        ]
        if opaque := result["opaque"]:
            images = result["classes"]["thin"]
            text += [f"- Opaque, {len(opaque)} of the {images} images of thin cloud: {', '.join(opaque)}."]
        if result["left out"]:
            wrong = ((name, *told) for name, why in result["left out"].items() for told in why.items())
            why = (f"{name} ({key} {value:.2f})" for name, key, value in wrong)
            text += [
                f"- Left out, {len(result['left out'])} pairs with less than {LEAST_CLEAR:.0%} clear ground, or whose "
                f"middle slope is not within {SLOPES[0]:g} and {SLOPES[1]:g}: {', '.join(why)}."
            ]
        return [*text, *self._told_of(subject, result["methods"][subject])]

    def _told_of(self, subject: str, classes: Mapping[str, Any]) -> Iterator[str]:
        """Say what the method reported on did to clear ground, and how true its expected errors are."""
        if "clear" in classes and subject != COPIED:
            touched, changed = (classes["clear"][key] for key in ("touched", "changed"))
            yield f"- {subject} touches {touched:.1%} of the clear ground, and changes all of it by {changed:.4f}."
        for name, told in classes.items():
            if name not in ("clear", EVERY) and "within" in told:
                ratio, within = told["expected over true"], told["within"]
                yield f"- {name}: the expected error is {ratio:.2f} of the true one, {within:.0%} are within it."

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
            if name != LEFT_OUT
        )
        return f"images-{self.name}.csv", as_csv(heading, body)

    def lines(self, result: Mapping[str, Any]) -> Iterator[str]:
        """Give the MAE of each class."""
        for kind, images in result["classes"].items():
            means = {method: classes[kind]["mae"]["mean"] for method, classes in result["methods"].items()}
            told = ", ".join(f"{method} {mean:.4f}" for method, mean in means.items())
            yield f"{self.name}: MAE {kind} ({images} images) {told}"


class MovedVeil(ClassProtocol):
    """Scores veils that were moved onto clear ground (`attcr.evaluate.moved`), whose truth is exact."""

    scored = "the veils of SEN12MS-CR"


def shows_ground(scores: Mapping[str, float]) -> bool:
    """Say whether an input with these scores of a class shows any detail of the ground there."""
    return max(scores["detail"], scores["infrared"]) >= SHOWS_GROUND


def in_tones_of(
    seen: Float64, clear: Float64, both: NDArray[np.bool_], bands: Sequence[str]
) -> tuple[Float64, dict[str, float]]:
    """Give the clear date (C, H, W) in the tones of the one that is seen, and what keeps a pair from being scored."""
    if both.mean() < LEAST_CLEAR:
        return clear, {"clear": float(both.mean())}
    slopes, offsets = lines_to(clear, seen, both)
    middle = float(np.median([slope for slope, name in zip(slopes, bands, strict=True) if name in TEN]))
    wrong = {} if SLOPES[0] <= middle <= SLOPES[1] else {"slope": middle}
    return clear * slopes[:, None, None] + offsets[:, None, None], wrong


def lines_to(image: Float64, aim: Float64, both: NDArray[np.bool_]) -> tuple[Float64, Float64]:
    """Give the slope and offset of each band (C, H, W) that bring it nearest to the other image on the pixels `both`.

    Nearest is in squares; a band that is the same on all these pixels says nothing of a line and is left as it is.
    """
    here, wanted = image[:, both], aim[:, both]
    middle, target = here.mean(1), wanted.mean(1)
    variance = here.var(1)
    flat = np.sqrt(variance) <= 1e-5
    slope = ((here - middle[:, None]) * (wanted - target[:, None])).mean(1) / np.where(flat, 1.0, variance)
    return np.where(flat, 1.0, slope), np.where(flat, 0.0, target - slope * middle)


def _errors(image: Float64, truth: Float64, bands: Sequence[str], where: NDArray[np.bool_]) -> dict[str, float]:
    """Give the metrics of (C, H, W) against (C, H, W) where an image has a class."""
    index = math.nan
    if "nir" in bands and "red" in bands:
        at = [list(bands).index("nir"), list(bands).index("red")]
        index = float(abs(_index(*image[at][:, where]) - _index(*truth[at][:, where])).mean())
    return {
        "pixels": int(where.sum()),
        "mae": float(abs(image - truth)[:, where].mean()),
        "ndvi": index,
        "detail": detail(image, truth, [list(bands).index(name) for name in VISIBLE if name in bands], where),
        "infrared": detail(image, truth, [list(bands).index(name) for name in INFRARED if name in bands], where),
    }


def _told(
    image: Float64, truth: Float64, seen: Float64, expected: ArrayLike | None, where: NDArray[np.bool_]
) -> dict[str, float]:
    """Give how much of a class was changed, and how true its expected errors are (NaN: none is expected)."""
    changed = abs(image - seen).mean(0)[where]
    told = {"touched": float((changed > TOUCHED).mean()), "changed": float(changed.mean())}
    sure = np.zeros_like(truth[0]) if expected is None else np.asarray(expected, np.float64)
    here = where & (sure > 0)
    error = abs(image - truth).mean(0)[here]
    # Within one standard deviation of an error whose mean, without its sign, is the expected one.
    within = error < sure[here] * math.sqrt(math.pi / 2)
    return {**told, "expected": _mean_known(sure[here]), "true": _mean_known(error), "within": _mean_known(within)}


def _mean_known(values: ArrayLike) -> float:
    known = np.asarray(values, np.float64)
    known = known[~np.isnan(known)]
    return float(known.mean()) if known.size else math.nan


def _index(first: Float64, second: Float64) -> Float64:
    # Below 0 there is no reflectance; where it is nearly black an index is noise.
    first, second = first.clip(0), second.clip(0)
    return (first - second) / np.maximum(first + second, 0.02)


def detail(image: Float64, truth: Float64, bands: Sequence[int], where: NDArray[np.bool_]) -> float:
    """Give the correlation of what is finer than FINER pixels, the mean over these bands; 0 for one without any."""
    filters = need("scipy.ndimage")
    inside = filters.binary_erosion(where, iterations=RIM)
    inside = inside if inside.sum() > FEWEST_WITHIN else where
    weight = np.maximum(filters.gaussian_filter(inside.astype(np.float64), FINER), 1e-6)

    def fine(plane: Float64) -> Float64:
        values: Float64 = (plane - filters.gaussian_filter(plane * inside, FINER) / weight)[inside]
        return values

    both = [(fine(image[band]), fine(truth[band])) for band in bands]
    return _mean_known([np.corrcoef(*two)[0, 1] if min(one.std() for one in two) > 1e-6 else 0.0 for two in both])


MOVED_VEIL = MovedVeil(
    "moved-veil",
    "Reflectance, not clamped; veils of SEN12MS-CR moved onto clear ground elsewhere, so that the truth is exact; "
    "means over images that have a class",
    fitted=False,
)
CLASS_PROTOCOLS: dict[str, ClassProtocol] = {
    protocol.name: protocol
    for protocol in (
        ClassProtocol(
            "two-dates",
            "Reflectance, not clamped; the clear date in the tones of the input, by a line for each band on the pixels "
            "clear on both dates; means over images that have a class",
            fitted=True,
        ),
        ClassProtocol(
            "two-dates-raw",
            "Reflectance, not clamped and not fitted, so that all change between the dates counts as error; means over "
            "images that have a class",
            fitted=False,
        ),
        MOVED_VEIL,
    )
}
"""The protocols by class, by name."""
