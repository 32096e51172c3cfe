"""The figures on real haze and cloud: pairs and series of two dates and more, none of them trained on.

The pairs, and how they are scored, are those of `attcr evaluate` (docs/reference/protocols.md); here predicted errors
are looked at too, and clear dates.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from attcr.bands.sensors import S2_COMMON, S2_L1C_BANDS
from attcr.data import find_set
from attcr.data.dates import (
    CLASS_NUMBERS,
    CLASSES_MASK,
    NOT_SCORED,
    ONE_REFLECTANCE,
    SERIES_146,
    DatedImage,
    DatedPairs,
    find_series,
)
from attcr.evaluate.by_class import CLASS_PROTOCOLS, EVERY, ClassScores, in_tones_of
from attcr.evaluate.protocols import Given, psnr

from .measure import Array, Certainty, Figures, Restored, Restorer, distance

FOLDERS = {
    "haze-20lmr": "series_l2a_20LMR",
    "cloudsen12": "pairs_cloudsen12",
    "sen12mscr-pairs": "pairs_sen12mscr",
    "sen12mscrts-146": "series_l1c_roi146",
}
"""Where each data set lies under the root."""
FITTED, RAW = CLASS_PROTOCOLS["two-dates"], CLASS_PROTOCOLS["two-dates-raw"]


class Restoration(NamedTuple):
    """A pair of two dates and what became of it; images are (C, H, W) reflectance of the bands that there are."""

    name: str
    cloudy: Array
    out: Array
    scale: Array
    """Within it 68 % of the absolute errors are to lie."""
    clear: Array
    classes: Array
    """(H, W), see attcr.data.dates."""
    bands: tuple[str, ...]
    """By common name."""

    @property
    def scored(self) -> Array:
        """Say which pixels (H, W) are scored."""
        return np.asarray(self.classes != NOT_SCORED)

    def fitted(self) -> Array | None:
        """Give the clear date in the tones of the cloudy one, as `two-dates` does; None for a pair it leaves out."""
        both = self.classes == CLASS_NUMBERS["clear"]
        truth, wrong = in_tones_of(self.cloudy.astype(np.float64), self.clear.astype(np.float64), both, self.bands)
        return None if wrong else truth


def open_set(root: Path, name: str) -> DatedPairs:
    """Open one of the sets of two dates under the root."""
    samples = find_set(name).open(root / FOLDERS[name])
    assert isinstance(samples, DatedPairs)
    return samples


def restore_image(restore: Restorer, image: Array, pairs: DatedPairs) -> Restored:
    """Restore (C, H, W) reflectance of the bands and the level of a set; give the same bands."""
    have = [S2_COMMON.index(name) for name in pairs.spec.outputs]
    full = np.zeros((len(S2_COMMON), *image.shape[1:]), np.float32)
    full[have] = image
    out, scale = restore(full, have, surface=bool(pairs.sensor.surface))
    return Restored(out[have], scale[have])


def restorations(restore: Restorer, pairs: DatedPairs) -> Iterator[Restoration]:
    """Restore the pairs of a set one after the other."""
    for at in range(len(pairs)):
        sample = pairs[at]
        cloudy = sample["inputs"][pairs.spec.optical].numpy() / ONE_REFLECTANCE
        clear, classes = sample["clear"].numpy() / ONE_REFLECTANCE, sample["masks"][CLASSES_MASK].numpy()
        out, scale = restore_image(restore, cloudy, pairs)
        yield Restoration(sample["name"], cloudy, out, scale, clear, classes, pairs.spec.outputs)


def _both(pair: Restoration, *, fitted: bool) -> tuple[ClassScores, ClassScores]:
    """Score the input and what came out."""
    rule = FITTED if fitted else RAW
    given = Given(pair.bands, pair.classes, pair.cloudy)
    before, after = (rule.score(image, pair.clear, given) for image in (pair.cloudy, pair.out))
    return before, after


def haze(restore: Restorer, root: Path) -> Figures:
    """Measure 20LMR's haze of 2 September 2022 against the mean of its clear neighbours; L2A, ten bands, 20 m."""
    pairs = open_set(root, "haze-20lmr")
    pair = next(restorations(restore, pairs))
    before, after = _both(pair, fitted=False)
    there, certainty = pair.scored, Certainty()
    certainty.add(np.abs(pair.out - pair.clear)[:, there], pair.scale[:, there])
    bands = [S2_L1C_BANDS[S2_COMMON.index(name)] for name in pair.bands]

    def bias(image: Array) -> dict[str, float]:
        off = (image - pair.clear)[:, there].mean(1)
        return dict(zip(bands, map(float, off), strict=True))

    dates = [np.float32(1e-4) * date.read(bands) for date in pairs.pairs[0].clear]
    changes = (distance(restore_image(restore, date, pairs).image[:, there], date[:, there]) for date in dates)
    return {
        "20LMR haze MAE": {
            "input": before[EVERY]["mae"],
            "restored": after[EVERY]["mae"],
            "clear to clear": distance(*(date[:, there] for date in dates)),
        },
        "20LMR haze NDVI": {"input": before[EVERY]["ndvi"], "restored": after[EVERY]["ndvi"]},
        "20LMR haze bias, input": bias(pair.cloudy),
        "20LMR haze bias, restored": bias(pair.out),
        "20LMR haze scale": certainty.figures(),
        "20LMR clear dates changed by": dict(zip(("2022-08-17", "2022-09-18"), changes, strict=True)),
    }


def cloudsen12(restore: Restorer, root: Path) -> Figures:
    """Measure by class, L1C and 13 bands, under the protocol `two-dates`."""
    pairs = open_set(root, "cloudsen12")
    before: list[ClassScores] = []
    after: list[ClassScores] = []
    changed: dict[tuple[DatedImage, ...], float] = {}
    certainty = Certainty()
    for pair, files in zip(restorations(restore, pairs), pairs.pairs, strict=True):
        if files.clear not in changed:
            again = restore_image(restore, pair.clear, pairs).image
            changed[files.clear] = distance(again[:, pair.scored], pair.clear[:, pair.scored])
        truth = pair.fitted()
        if truth is None:
            continue
        scores = _both(pair, fitted=True)
        before.append(scores[0])
        after.append(scores[1])
        through = pair.scored & (pair.classes != CLASS_NUMBERS["thick"])
        certainty.add(np.abs(pair.out - truth)[:, through], pair.scale[:, through])

    def mean(images: list[ClassScores], name: str, key: str) -> float:
        return float(np.mean([image[name][key] for image in images if name in image]))

    figures: Figures = {
        f"CloudSEN12 {name}": {
            "MAE input": mean(before, name, "mae"),
            "MAE restored": mean(after, name, "mae"),
            "NDVI input": mean(before, name, "ndvi"),
            "NDVI restored": mean(after, name, "ndvi"),
            "changed by": mean(after, name, "changed"),
        }
        for name in CLASS_NUMBERS
    }
    changes = list(changed.values())
    figures["CloudSEN12 clear dates changed by"] = {"mean": float(np.mean(changes)), "worst": max(changes)}
    figures["CloudSEN12 scale, without thick cloud"] = certainty.figures()
    return figures


def sen12mscr(restore: Restorer, root: Path) -> Figures:
    """Measure SEN12MS-CR's pairs as they are, L1C and 13 bands."""
    figures: Figures = {}
    certainty = Certainty()
    for pair in restorations(restore, open_set(root, "sen12mscr-pairs")):
        cloudy, out, clear = (a.clip(0, 1) for a in (pair.cloudy, pair.out, pair.clear))
        figures[f"SEN12MS-CR {pair.name} dB"] = {"input": psnr(cloudy, clear), "restored": psnr(out, clear)}
        count = len(pair.bands)
        certainty.add(np.abs(pair.out - pair.clear).reshape(count, -1), pair.scale.reshape(count, -1))
    means = {side: float(np.mean([pair[side] for pair in figures.values()])) for side in ("input", "restored")}
    return {**figures, "SEN12MS-CR mean dB": means, "SEN12MS-CR scale": certainty.figures()}


def series(restore: Restorer, root: Path) -> Figures:
    """Measure dates with cloud of an L1C series against the mean of the clear dates around them."""
    pairs = open_set(root, "sen12mscrts-146")
    figures: Figures = {}
    for pair in restorations(restore, pairs):
        before, after = _both(pair, fitted=False)
        figures[f"L1C series {pair.name} MAE"] = {"input": before[EVERY]["mae"], "restored": after[EVERY]["mae"]}
    date = SERIES_146["2018-07-05"][0]
    (found,) = find_series(root / FOLDERS["sen12mscrts-146"], {date: ()}, S2_L1C_BANDS)
    clear = np.float32(1e-4) * found.cloudy.read(S2_L1C_BANDS)
    changed = distance(restore_image(restore, clear, pairs).image, clear)
    return {**figures, f"L1C series, clear {date} changed by": {"mean": changed}}
