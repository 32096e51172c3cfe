"""What the plain command does to real scenes: `attcr restore SCENE OUT` without any option, scored by another date.

    python -m tools.defaults --pairs NAME=FOLDER ... --out TABLE.md [--work FOLDER]

NAME is a set of `attcr evaluate` (cloudsen12, sen12mscr-pairs, sen12mscrts-146, haze-20lmr) and FOLDER where it lies;
fresh scenes are added as folders in the layout of such a set. Each cloudy date is written as a GeoTIFF with a name as
ESA gives, restored with default options, and compared with its clear date, fitted to it on the pixels that are clear on
both where these are 5 % (even haze is not fitted). Rows: the input, clear surroundings interpolated, the bare network,
and what comes out. Columns: mean absolute error and error of NDVI under thin cloud and in shadow, images that became
worse by 0.001 and by 0.005 of NDVI, detail (correlation with the truth of what is finer than 8 pixels, visible bands).
Then expected over true error, and what changed on clear ground.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from numpy.typing import NDArray
from rasterio.transform import from_origin
from scipy.ndimage import binary_erosion, gaussian_filter

from attcr import RestoreOptions, restore_scene
from attcr.bands.sensors import S2_COMMON, S2_L1C_BANDS
from attcr.data import find_set
from attcr.data.dates import CLASS_NUMBERS, CLASSES_MASK, NOT_SCORED, ONE_REFLECTANCE, DatedPairs
from attcr.evaluate.by_class import fit_to
from attcr.evidence.ground import STEP, interpolate
from attcr.evidence.pyramid import Pyramid, expand

Array = NDArray[Any]
WEIGHTS = "s2-thin"
KINDS = ("thin", "shadow")
FEWEST = {"thin": 0.03, "shadow": 0.01}
"""The least share of an image that a class has for the image to be scored in it."""
FITTED = 0.05
"""Share of pixels clear on both dates from which the clear date is fitted to the cloudy one."""
VISIBLE = ("blue", "green", "red")


@dataclass(frozen=True)
class Case:
    """A cloudy date, its clear date in the same tones, and its classes."""

    name: str
    image: Array
    truth: Array
    classes: Array
    bands: tuple[str, ...]
    surface: bool

    def write(self, folder: Path) -> Path:
        """Write the cloudy date as people have it."""
        level, metres = ("L2A", 20) if self.surface else ("L1C", 10)
        path = folder / f"S2A_MSI{level}_20190715T101031_N0208_R022_T33UXQ_20190715T120000_{self.name}.tif"
        count, height, width = self.image.shape
        profile = {"driver": "GTiff", "height": height, "width": width, "count": count, "dtype": "uint16", "nodata": 0}
        place = {"crs": "EPSG:32633", "transform": from_origin(500_000, 5_000_000, metres, metres)}
        with rasterio.open(path, "w", **profile, **place) as file:
            file.write(np.clip(np.rint(self.image * 1e4), 1, 65535).astype(np.uint16))
            file.descriptions = [S2_L1C_BANDS[S2_COMMON.index(name)] for name in self.bands]
        return path


def cases_of(name: str, folder: Path, label: str) -> Iterator[Case]:
    """Give the pairs of a set."""
    pairs = find_set(name).open(folder)
    assert isinstance(pairs, DatedPairs)
    for i in range(len(pairs)):
        sample = pairs[i]
        image = sample["inputs"][pairs.spec.optical].numpy() / ONE_REFLECTANCE
        truth: Array = sample["clear"].numpy() / ONE_REFLECTANCE
        classes = sample["masks"][CLASSES_MASK].numpy()
        clear = classes == CLASS_NUMBERS["clear"]
        if clear.mean() >= FITTED and not name.startswith("haze"):
            truth = fit_to(truth.astype(np.float64), image.astype(np.float64), clear)
        called = f"{label}_{i:02d}_{sample['name']}".replace(".", "-")
        surface = bool(pairs.sensor.surface)
        yield Case(called, image, truth.astype(np.float32), classes, tuple(pairs.spec.outputs), surface)


def ndvi(image: Array, bands: Sequence[str]) -> Array:
    """Give the vegetation index."""
    red, infrared = image[bands.index("red")], image[bands.index("nir")]
    return np.asarray((infrared - red) / np.maximum(infrared + red, 0.02))


def detail(image: Array, truth: Array, bands: Sequence[str], where: Array) -> float:
    """Give the correlation with the truth of what is finer than 8 pixels, the mean of the visible bands."""
    inside = binary_erosion(where, iterations=2)
    inside = inside if inside.sum() > 200 else where
    weight = np.maximum(gaussian_filter(inside.astype(np.float64), 8), 1e-6)
    found = []
    for name in VISIBLE:
        planes = (one[bands.index(name)].astype(np.float64) for one in (image, truth))
        fine = [(plane - gaussian_filter(plane * inside, 8) / weight)[inside] for plane in planes]
        found.append(np.corrcoef(*fine)[0, 1] if min(one.std() for one in fine) > 1e-6 else 0.0)
    return float(np.mean(found))


def surroundings(case: Case) -> Array:
    """Give the clear ground around, interpolated: no detail at all."""
    clear = (case.classes == CLASS_NUMBERS["clear"]).astype(np.float32)
    height, width = clear.shape
    pad = [(0, -height % STEP), (0, -width % STEP)]
    pyramid = Pyramid(np.pad(case.image.astype(np.float32), [(0, 0), *pad]), np.pad(clear, pad), STEP.bit_length() - 1)
    made, _ = interpolate(pyramid.coarsest, pyramid.weights[-1])
    for _ in range(STEP.bit_length() - 1):
        made = expand(made)
    return made[:, :height, :width]


@dataclass
class Row:
    """What one way did to each image that has a class."""

    error: list[float] = field(default_factory=list)
    ndvi: list[float] = field(default_factory=list)
    detail: list[float] = field(default_factory=list)

    def add(self, case: Case, image: Array, where: Array) -> None:
        """Score an image where it has the class."""
        self.error.append(float(np.abs(image - case.truth)[:, where].mean()))
        self.ndvi.append(float(np.abs(ndvi(image, case.bands) - ndvi(case.truth, case.bands))[where].mean()))
        self.detail.append(detail(image, case.truth, case.bands, where))

    def told(self, start: "Row") -> str:
        """Give the columns, beside those of the input."""
        worse = sum(a > b + 0.001 for a, b in zip(self.error, start.error, strict=True))
        greener = sum(a > b + 0.005 for a, b in zip(self.ndvi, start.ndvi, strict=True))
        low, high = interval(self.error)
        means = [np.mean(one) for one in (self.error, self.ndvi, self.detail)]
        return f"{means[0]:.4f} ({low:.4f} to {high:.4f}) | {means[1]:.4f} | {worse}, {greener} | {means[2]:.3f}"


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Give the middle 95 % of means of images drawn again."""
    rng = np.random.default_rng(0)
    means = rng.choice(np.array(values), (1000, len(values))).mean(axis=1)
    return float(np.quantile(means, 0.025)), float(np.quantile(means, 0.975))


@dataclass
class Scores:
    """What the plain command did to all images."""

    rows: dict[str, dict[str, Row]] = field(default_factory=lambda: {kind: {} for kind in KINDS})
    touched: list[float] = field(default_factory=list)
    changed: list[float] = field(default_factory=list)
    certain: dict[str, list[tuple[float, float, float]]] = field(default_factory=lambda: {kind: [] for kind in KINDS})

    def add(self, case: Case, made: dict[str, Array], spread: Array) -> None:
        """Score what came of a case."""
        clear = case.classes == CLASS_NUMBERS["clear"]
        out = made["attcr restore"]
        changed = np.abs(out - case.image)[:, clear].mean(axis=0)
        if clear.mean() >= FITTED:
            self.touched.append(float((changed > 1e-3).mean()))
            self.changed.append(float(changed.mean()))
        for kind in KINDS:
            where = case.classes == CLASS_NUMBERS[kind]
            if where.mean() < FEWEST[kind] or (case.classes != NOT_SCORED).mean() < FITTED:
                continue
            for name, image in made.items():
                self.rows[kind].setdefault(name, Row()).add(case, image, where)
            here = where & (spread > 0)
            if here.any():
                error = np.abs(out - case.truth).mean(axis=0)[here]
                within = float((error < spread[here] * np.sqrt(np.pi / 2)).mean())
                self.certain[kind].append((float(error.mean()), float(spread[here].mean()), within))

    def table(self) -> str:
        """Give all as Markdown."""
        lines = []
        for kind, rows in self.rows.items():
            if not rows:
                continue
            start = rows["input"]
            lines += [
                f"**{kind}**, {len(start.error)} images",
                "",
                "| | MAE (95 %) | NDVI | worse | detail |",
                "|---|---|---|---|---|",
            ]
            lines += [f"| {name} | {row.told(start)} |" for name, row in rows.items()]
            if self.certain[kind]:
                true, told, within = np.mean(self.certain[kind], axis=0)
                lines += ["", f"Expected over true error {told / true:.2f}; within one expected error: {within:.0%}."]
            lines.append("")
        if self.touched:
            lines.append(
                f"Clear ground: {np.mean(self.touched):.1%} touched, changed by {np.mean(self.changed):.4f} on average "
                f"({len(self.touched)} images)."
            )
        return "\n".join(lines)


def restore(case: Case, work: Path) -> tuple[dict[str, Array], Array]:
    """Run the plain command, and the bare network under the same mask; give reflectance, and the expected error."""
    source = case.write(work)
    made: dict[str, Array] = {"input": case.image, "surroundings only": surroundings(case)}
    spread = np.zeros(case.classes.shape)
    for name, options in (
        ("bare network", RestoreOptions(mask="none", ground="network")),
        ("attcr restore", RestoreOptions()),
    ):
        target = work / f"{case.name}-{name.replace(' ', '-')}.tif"
        result = restore_scene(source, target, WEIGHTS, options=options, overwrite=True)
        with rasterio.open(target) as file:
            made[name] = file.read().astype(np.float32) / 1e4
        if result.spread:
            with rasterio.open(result.spread) as file:
                spread = np.nan_to_num(file.read(1))
    return made, spread


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", action="append", required=True, metavar="NAME=FOLDER")
    parser.add_argument(
        "--out", type=Path, required=True, help="the table, as Markdown; beside it a JSON of all images"
    )
    parser.add_argument("--work", type=Path, required=True, help="folder of scenes and results")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    scores, told = Scores(), []
    for number, pair in enumerate(args.pairs):
        name, _, folder = pair.partition("=")
        for case in cases_of(name, Path(folder), f"{number}-{name}"):
            made, spread = restore(case, args.work)
            scores.add(case, made, spread)
            known = case.classes != NOT_SCORED
            errors = {way: float(np.abs(image - case.truth)[:, known].mean()) for way, image in made.items()}
            told.append({"name": case.name, **errors})
            print(case.name, {way: round(error, 4) for way, error in errors.items()}, flush=True)
    args.out.write_text(scores.table() + "\n")
    args.out.with_suffix(".json").write_text(json.dumps(told, indent=1) + "\n")
    print(args.out.read_text())


if __name__ == "__main__":
    main()
