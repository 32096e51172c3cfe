"""The figures on real haze and cloud: pairs and series of two dates and more, none of them trained on."""

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import rasterio
from rasterio.errors import NotGeoreferencedWarning

from attcr.sensors import S2_L1C_BANDS

from .clear import ALL, TEN
from .measure import Array, Certainty, Figures, Restorer, decibels, distance, ndvi

BANDS_10M = ("B02", "B03", "B04", "B08")
BANDS_20M = ("B05", "B06", "B07", "B8A", "B11", "B12")
BANDS_60M = ("B01", "B09", "B10")
CLASSES = {"clear": 0, "thick": 1, "thin": 2, "shadow": 3}
"""Of CloudSEN12's masks."""
LEAST_CLEAR = 500
"""Pixels clear on both dates that a line is fitted to."""
SERIES = {
    "2018-03-22": ("2018-02-10", "2018-04-26"),
    "2018-02-25": ("2018-02-10", "2018-04-26"),
    "2018-07-05": ("2018-06-25", "2018-07-20"),
    "2018-09-18": ("2018-09-03", "2018-09-28"),
}
"""Dates with cloud, the first with thin cloud alone, and the clear ones before and after."""


def _read(path: Path) -> Array:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotGeoreferencedWarning)  # pairs lie on one grid, wherever that is
        with rasterio.open(path) as file:
            return np.asarray(file.read())


def _scaled(numbers: Array) -> Array:
    return np.asarray(numbers.astype(np.float32) / np.float32(1e4))


def _reflectance(found: dict[str, Array]) -> Array:
    return _scaled(np.stack([found[band] for band in S2_L1C_BANDS]))


def read_native(prefix: str) -> Array:
    """Give (13, 240, 240) reflectance of PREFIX_10m.jp2, _20m.jp2 and _60m.jp2; coarse pixels are repeated."""
    found: dict[str, Array] = {}
    for names, size in ((BANDS_10M, 10), (BANDS_20M, 20), (BANDS_60M, 60)):
        values = _read(Path(f"{prefix}_{size}m.jp2"))
        found |= dict(zip(names, values.repeat(size // 10, 1).repeat(size // 10, 2), strict=True))
    return _reflectance(found)


def read_sen12mscr(prefix: str, kind: str) -> Array:
    """Give (13, 256, 256) reflectance of a pair; `kind` is s2 or s2_cloudy."""
    (rest,) = Path(prefix).parent.glob(f"{Path(prefix).name}_{kind}_rest.*")
    found = dict(zip(BANDS_10M, _read(Path(f"{prefix}_{kind}_10m.jp2")), strict=True))
    return _reflectance(found | dict(zip(BANDS_20M + BANDS_60M, _read(rest), strict=True)))


def haze(restore: Restorer, root: Path) -> Figures:
    """Measure 20LMR's haze of 2 September 2022 against the mean of its clear neighbours; L2A, ten bands, 20 m."""

    def read(date: str) -> Array:
        (path,) = (root / "series_l2a_20LMR").glob(f"*{date}*")
        full = np.zeros((len(ALL), 256, 256), np.float32)
        full[list(TEN)] = _scaled(_read(path))
        return full

    before, hazy, after = (read(date) for date in ("2022-08-17", "2022-09-02", "2022-09-18"))
    middle, ten = (before + after) / 2, list(TEN)
    there = np.logical_and.reduce([image[ten].min(0) > 0 for image in (before, hazy, after)])
    out, scale = restore(hazy, TEN, surface=True)

    def seen(image: Array) -> Array:
        return np.asarray(image[ten][:, there])

    certainty = Certainty()
    certainty.add(np.abs(seen(out) - seen(middle)), seen(scale))
    wanted = ndvi(middle)[there]
    bands = {S2_L1C_BANDS[band]: at for at, band in enumerate(TEN)}
    return {
        "20LMR haze MAE": {
            "input": distance(seen(hazy), seen(middle)),
            "restored": distance(seen(out), seen(middle)),
            "clear to clear": distance(seen(before), seen(after)),
        },
        "20LMR haze NDVI": {
            "input": distance(ndvi(hazy)[there], wanted),
            "restored": distance(ndvi(out)[there], wanted),
        },
        "20LMR haze bias, input": {b: float((seen(hazy) - seen(middle))[at].mean()) for b, at in bands.items()},
        "20LMR haze bias, restored": {b: float((seen(out) - seen(middle))[at].mean()) for b, at in bands.items()},
        "20LMR haze scale": certainty.figures(),
        "20LMR clear dates changed by": {
            date: distance(seen(restore(image, TEN, surface=True).image), seen(image))
            for date, image in (("2022-08-17", before), ("2022-09-18", after))
        },
    }


class Dated(NamedTuple):
    """An image of CloudSEN12 and its mask."""

    image: Array
    """(13, H, W) reflectance."""
    mask: Array
    """(H, W), see CLASSES."""


def _places(root: Path) -> Iterator[tuple[Dated, list[Dated]]]:
    """Give each place's clearest date, and the others."""
    groups: dict[str, list[str]] = {}
    for path in sorted((root / "pairs_cloudsen12").glob("*_10m.jp2")):
        groups.setdefault(path.name.split("_")[0], []).append(str(path).removesuffix("_10m.jp2"))
    for prefixes in groups.values():
        dates = [Dated(read_native(prefix), _read(Path(f"{prefix}_mask.tif"))[0]) for prefix in prefixes]
        reference = min(range(len(dates)), key=lambda at: float((dates[at].mask != 0).mean()))
        yield dates[reference], [date for at, date in enumerate(dates) if at != reference]


def fitted(image: Array, clear: Array, both: Array) -> Array:
    """Give the image on a line, for each band, to the clear date: fitted to the pixels clear on both (H, W)."""
    bands = []
    for seen, wanted in zip(image, clear, strict=True):
        line = np.polyfit(seen[both], wanted[both], 1) if seen[both].std() > 1e-5 else np.array([1.0, 0.0])
        bands.append(np.polyval(line, seen))
    return np.stack(bands)


def cloudsen12(restore: Restorer, root: Path) -> Figures:
    """Measure by class, L1C and 13 bands: each side is first fitted, band by band, on pixels clear on both dates."""
    rows: dict[str, list[tuple[float, ...]]] = {name: [] for name in CLASSES}
    certainty, changed = Certainty(), []
    for reference, others in _places(root):
        clear = reference.image
        changed.append(distance(*(a[:, reference.mask == 0] for a in (restore(clear, ALL, surface=False)[0], clear))))
        for image, mask in others:
            valid = (reference.mask == 0) & (image.min(0) > 0) & (clear.min(0) > 0)
            both = valid & (mask == 0)
            if both.sum() < LEAST_CLEAR:
                continue
            out, scale = restore(image, ALL, surface=False)
            before, after = fitted(image, clear, both), fitted(out, clear, both)
            for name, number in CLASSES.items():
                here = valid & (mask == number)
                if here.sum() > 50:
                    errors = [distance(a[:, here], clear[:, here]) for a in (before, after)]
                    index = [distance(ndvi(a)[here], ndvi(clear)[here]) for a in (before, after)]
                    rows[name].append((float(here.sum()), *errors, *index, distance(out[:, here], image[:, here])))
            through = valid & (mask != CLASSES["thick"])
            certainty.add(np.abs(after - clear)[:, through], scale[:, through])
    names = ("MAE input", "MAE restored", "NDVI input", "NDVI restored", "changed by")
    figures: Figures = {}
    for name, values in rows.items():
        if values:
            table = np.array(values)
            means = np.average(table[:, 1:], axis=0, weights=table[:, 0])
            figures[f"CloudSEN12 {name}"] = dict(zip(names, map(float, means), strict=True))
    figures["CloudSEN12 clear dates changed by"] = {"mean": float(np.mean(changed)), "worst": max(changed)}
    figures["CloudSEN12 scale, without thick cloud"] = certainty.figures()
    return figures


def sen12mscr(restore: Restorer, root: Path) -> Figures:
    """Measure SEN12MS-CR's pairs as they are, L1C and 13 bands."""
    figures: Figures = {}
    certainty = Certainty()
    for path in sorted((root / "pairs_sen12mscr").glob("*_s2_10m.jp2")):
        prefix = str(path).removesuffix("_s2_10m.jp2")
        cloudy, clear = (read_sen12mscr(prefix, kind) for kind in ("s2_cloudy", "s2"))
        out, scale = restore(cloudy, ALL, surface=False)
        wanted = np.clip(clear, 0, 1)
        figures[f"SEN12MS-CR {Path(prefix).name} dB"] = {
            "input": decibels(np.clip(cloudy, 0, 1), wanted),
            "restored": decibels(np.clip(out, 0, 1), wanted),
        }
        certainty.add(np.abs(out - clear).reshape(len(ALL), -1), scale.reshape(len(ALL), -1))
    pairs = list(figures.values())
    means = {side: float(np.mean([pair[side] for pair in pairs])) for side in ("input", "restored")}
    return {**figures, "SEN12MS-CR mean dB": means, "SEN12MS-CR scale": certainty.figures()}


def series(restore: Restorer, root: Path) -> Figures:
    """Measure dates with cloud of an L1C series against the mean of the clear dates around them."""

    def read(date: str) -> Array:
        return _scaled(_read(root / "series_l1c_roi146" / f"{date}.tif"))

    figures: Figures = {}
    for date, (before, after) in SERIES.items():
        image, middle = read(date), (read(before) + read(after)) / 2
        out = restore(image, ALL, surface=False).image
        figures[f"L1C series {date} MAE"] = {"input": distance(image, middle), "restored": distance(out, middle)}
    clear = read("2018-06-25")
    changed = distance(restore(clear, ALL, surface=False).image, clear)
    return {**figures, "L1C series, clear 2018-06-25 changed by": {"mean": changed}}
