"""Real pairs of two dates of Sentinel-2, with a class for every pixel: CloudSEN12, SEN12MS-CR and two series.

A sample is the cloudy date, the clear one (or the mean of the clear ones around it), and the mask CLASSES_MASK. They
are to test on, not to train on. Two dates differ in more than their cloud: `attcr.evaluate.by_class` scores them.
"""

import datetime
import os
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from attcr.bands.sensors import S2_COMMON, S2_L1C_BANDS, SENTINEL2_L1C, SENTINEL2_L2A, Sensor
from attcr.bands.spec import ANY_BANDS, CLOUDS, InputSpec, band_slots
from attcr.data.pairs import Array, Dataset, Sample, Transform, make_sample, read_raster
from attcr.errors import ConfigError, DataError, DataNotFoundError
from attcr.extras import needed

CLASS_NUMBERS = {"clear": 0, "thick": 1, "thin": 2, "shadow": 3}
"""The numbers of a mask of classes, as CloudSEN12 has them."""
NOT_SCORED = 255
"""The number of a pixel that has no value in a band of either date, or is not clear on the clear one."""
CLASSES_MASK = "classes"
"""The name of that mask in a sample."""

BRIGHTER, IN_CIRRUS, MUCH_BRIGHTER, DARKER = 0.03, 0.003, 0.2, 0.75
"""Where no mask came with a pair: see `tell_classes`."""

BANDS_10M = ("B02", "B03", "B04", "B08")
BANDS_20M = ("B05", "B06", "B07", "B8A", "B11", "B12")
BANDS_60M = ("B01", "B09", "B10")
TEN = tuple(name for name in S2_COMMON if name not in ("coastal", "nir09", "cirrus"))
"""The bands of 10 and 20 m by their common names."""

L1C_SPEC = replace(ANY_BANDS, products=(SENTINEL2_L1C.name,), gsd=(10.0, 10.0), removes=CLOUDS, spread=False)
"""All 13 bands at the top of the atmosphere, with the planes that tell so."""
L2A_TEN_SPEC = replace(L1C_SPEC, outputs=TEN, products=(SENTINEL2_L2A.name,), gsd=(20.0, 20.0))
"""Ten bands at the surface; those that are not there are zero, and said to be absent."""
ONE_REFLECTANCE = ANY_BANDS.span / ANY_BANDS.bands[0].high
"""The samples' number for reflectance 1."""

SERIES_146 = {
    "2018-02-25": ("2018-02-10", "2018-04-26"),
    "2018-03-22": ("2018-02-10", "2018-04-26"),
    "2018-07-05": ("2018-06-25", "2018-07-20"),
    "2018-09-18": ("2018-09-03", "2018-09-28"),
}
"""Dates with cloud, that of March with thin cloud alone, and the clear ones before and after."""
HAZE_20LMR = {"2022-09-02": ("2022-08-17", "2022-09-18")}
"""The date with haze, and the clear ones before and after."""

HOW_TO_OBTAIN = {
    "cloudsen12": "CloudSEN12 (CC BY-NC: to measure, not to train) is at https://cloudsen12.github.io; for each place "
    "and date ROOT holds PLACE_DATE_10m.jp2 (B02 B03 B04 B08), PLACE_DATE_20m.jp2 (B05 B06 B07 B8A B11 B12), "
    "PLACE_DATE_60m.jp2 (B01 B09 B10) and PLACE_DATE_mask.tif (0 clear, 1 thick, 2 thin, 3 shadow)",
    "sen12mscr-pairs": "SEN12MS-CR (CC BY 4.0) is at https://mediatum.ub.tum.de/1554803; for each pair ROOT holds "
    "NAME_s2_10m.jp2 (B02 B03 B04 B08), NAME_s2_rest.tif or .jp2 (B05 B06 B07 B8A B11 B12 B01 B09 B10), and the same "
    "with s2_cloudy",
    "sen12mscrts-146": "SEN12MS-CR-TS is at https://mediatum.ub.tum.de/1639953; ROOT holds a place of its region 146 "
    "as YYYY-MM-DD.tif of 13 bands, the dates being those of attcr.data.dates.SERIES_146",
    "haze-20lmr": "the R package sitsdata (https://github.com/e-sensing/sitsdata) has it as Rondonia-20LMR; ROOT holds "
    "2022-08-17, 2022-09-02 and 2022-09-18 as .jp2 or .tif of ten bands: B02 B03 B04 B05 B06 B07 B08 B8A B11 B12",
}


@dataclass(frozen=True)
class DatedImage:
    """The files of one place on one date."""

    files: tuple[tuple[Path, tuple[str, ...]], ...]
    """Each with the names of its bands (B02); coarser ones are enlarged by repeating pixels."""
    mask: Path | None = None
    """Its classes, where they are known."""

    def read(self, bands: Sequence[str]) -> Array:
        """Give (C, H, W) digital numbers of these bands at the finest size among the files."""
        found: dict[str, Array] = {}
        for path, names in self.files:
            values = _read(path)
            if len(values) != len(names):
                raise DataError(f"{path} has {len(values)} bands and {len(names)} are expected: {' '.join(names)}")
            found |= dict(zip(names, values, strict=True))
        size = max(len(plane) for plane in found.values())
        return np.stack(
            [found[band].repeat(size // len(found[band]), 0).repeat(size // len(found[band]), 1) for band in bands]
        )


def _read(path: Path) -> Array:
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message="Dataset has no geotransform"
        )  # pairs lie on one grid, wherever it is
        return read_raster(path)


@dataclass(frozen=True)
class DatedPair:
    """A cloudy date, and the clear ones whose mean it is compared with."""

    name: str
    cloudy: DatedImage
    clear: tuple[DatedImage, ...]


class DatedPairs(Dataset[Sample]):
    """Pairs of two dates of one product; `inputs` are the slots of the spec, `masks` holds CLASSES_MASK (uint8)."""

    def __init__(
        self, pairs: Sequence[DatedPair], spec: InputSpec, sensor: Sensor, transform: Transform | None = None
    ) -> None:
        self.pairs, self.spec, self.sensor, self.transform = pairs, spec, sensor, transform
        self.names = [pair.name for pair in pairs]
        self._bands = [S2_L1C_BANDS[S2_COMMON.index(name)] for name in spec.outputs]

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, index: int) -> Sample:
        """Pair `index`, read and scaled."""
        pair = self.pairs[index]
        cloudy, dates = pair.cloudy.read(self._bands), [date.read(self._bands) for date in pair.clear]
        scale = self.spec.fit(self.sensor).to_model
        seen = scale(cloudy)
        clear = np.stack([scale(date) for date in dates]).mean(0, dtype=np.float32)
        classes = self._classes(pair, seen, clear)
        there = np.logical_and.reduce([(image > 0).all(0) for image in (cloudy, *dates)])
        classes[~there] = NOT_SCORED
        return make_sample(self._planes(seen), clear, pair.name, self.transform, {CLASSES_MASK: classes})

    def _classes(self, pair: DatedPair, cloudy: Array, clear: Array) -> NDArray[np.uint8]:
        if pair.cloudy.mask is None:
            both = (dict(zip(self.spec.outputs, image / ONE_REFLECTANCE, strict=True)) for image in (cloudy, clear))
            return tell_classes(*both)
        classes: NDArray[np.uint8] = _read(pair.cloudy.mask)[0].astype(np.uint8)
        for date in pair.clear:
            if date.mask is not None:
                classes[_read(date.mask)[0] != CLASS_NUMBERS["clear"]] = NOT_SCORED
        return classes

    def _planes(self, bands: NDArray[np.float32]) -> NDArray[np.float32]:
        """Give every slot of the spec: the bands that there are, and what is said of them."""
        planes = np.zeros((len(self.spec.slots), *bands.shape[1:]), np.float32)
        planes[self.spec.optical] = bands
        planes[self.spec.positions(f"present:{name}" for name in self.spec.outputs)] = 1
        planes[self.spec.positions(["level:surface"])] = float(bool(self.sensor.surface))
        return planes


def tell_classes(cloudy: Mapping[str, Array], clear: Mapping[str, Array]) -> NDArray[np.uint8]:
    """Give the classes (H, W) of a pair without a mask from how its dates differ; bands by common name, reflectance.

    Cloud is brighter by more than BRIGHTER in the mean of blue, green and red, or by more than IN_CIRRUS in the
    cirrus band where there is one, and thick where it is brighter by more than MUCH_BRIGHTER. Of the rest, shadow is
    below DARKER of the clear date both in near and in short-wave infrared. So whatever else changed counts as cloud or
    shadow too.
    """
    brighter = np.mean([cloudy[name] - clear[name] for name in ("blue", "green", "red")], axis=0)
    cloud = brighter > BRIGHTER
    if "cirrus" in cloudy:
        cloud |= cloudy["cirrus"] - clear["cirrus"] > IN_CIRRUS
    dark = np.logical_and.reduce([cloudy[name] < DARKER * clear[name] for name in ("nir", "swir16")])
    classes = np.full(brighter.shape, CLASS_NUMBERS["clear"], np.uint8)
    classes[dark] = CLASS_NUMBERS["shadow"]
    classes[cloud] = CLASS_NUMBERS["thin"]
    classes[brighter > MUCH_BRIGHTER] = CLASS_NUMBERS["thick"]
    return classes


def find_cloudsen12(root: Path) -> list[DatedPair]:
    """Pair each place's clearest date with its others."""
    places: dict[str, list[str]] = {}
    for path in sorted(root.glob("*_10m.jp2")):
        places.setdefault(path.name.split("_")[0], []).append(path.name.removesuffix("_10m.jp2"))
    pairs = []
    for names in places.values():
        dates = {name: _native(root, name) for name in names}
        cloud = {name: float((_read(root / f"{name}_mask.tif") != CLASS_NUMBERS["clear"]).mean()) for name in names}
        clearest = min(names, key=lambda name: cloud[name])
        pairs += [DatedPair(name, dates[name], (dates[clearest],)) for name in names if name != clearest]
    return pairs


def _native(root: Path, name: str) -> DatedImage:
    files = tuple(
        (root / f"{name}_{size}m.jp2", bands) for size, bands in ((10, BANDS_10M), (20, BANDS_20M), (60, BANDS_60M))
    )
    return DatedImage(files, root / f"{name}_mask.tif")


def find_sen12mscr(root: Path) -> list[DatedPair]:
    """Pair the clear and the cloudy image of each name."""

    def image(name: str, kind: str) -> DatedImage:
        rest = _one(root, f"{name}_{kind}_rest.*")
        return DatedImage(((root / f"{name}_{kind}_10m.jp2", BANDS_10M), (rest, BANDS_20M + BANDS_60M)))

    names = [path.name.removesuffix("_s2_10m.jp2") for path in sorted(root.glob("*_s2_10m.jp2"))]
    return [DatedPair(name, image(name, "s2_cloudy"), (image(name, "s2"),)) for name in names]


def find_series(root: Path, dates: Mapping[str, tuple[str, ...]], bands: tuple[str, ...]) -> list[DatedPair]:
    """Pair each date with the clear ones that are named for it; every file holds these bands."""

    def image(date: str) -> DatedImage:
        return DatedImage(((_one(root, f"{date}.*"), bands),))

    return [DatedPair(date, image(date), tuple(map(image, clear))) for date, clear in dates.items()]


def _one(root: Path, pattern: str) -> Path:
    found = sorted(root.glob(pattern))
    if len(found) != 1:
        raise DataNotFoundError(f"looked for one file {root / pattern} and found {len(found)}")
    return found[0]


_TEN_BANDS = tuple(S2_L1C_BANDS[S2_COMMON.index(name)] for name in TEN)
_FINDERS: dict[str, tuple[Callable[[Path], list[DatedPair]], InputSpec, Sensor]] = {
    "cloudsen12": (find_cloudsen12, L1C_SPEC, SENTINEL2_L1C),
    "sen12mscr-pairs": (find_sen12mscr, L1C_SPEC, SENTINEL2_L1C),
    "sen12mscrts-146": (partial(find_series, dates=SERIES_146, bands=S2_L1C_BANDS), L1C_SPEC, SENTINEL2_L1C),
    "haze-20lmr": (partial(find_series, dates=HAZE_20LMR, bands=_TEN_BANDS), L2A_TEN_SPEC, SENTINEL2_L2A),
}


def open_dates(
    root: str | os.PathLike[str],
    part: str = "test",
    *,
    name: str,
    transform: Transform | None = None,
    cache: bool = False,
) -> DatedPairs:
    """Open one of the sets of two dates by its name in DATASETS; `part` is `test`."""
    if cache:
        raise ConfigError(f"{name} is not held in memory: leave out cache")
    find, spec, sensor = _FINDERS[name]
    try:
        pairs = find(Path(root))
    except DataNotFoundError as error:
        raise DataNotFoundError(f"{name}: {error}. {HOW_TO_OBTAIN[name]}") from error
    if not pairs:
        raise DataNotFoundError(f"{name}: there are no pairs in {root}. {HOW_TO_OBTAIN[name]}")
    return DatedPairs(pairs, spec, sensor, transform)


class ClearDates(Dataset[Sample]):
    """Pairs of clear dates of one place, a raster each: `clear` is the date to fill, `inputs` the one to fill from.

    Both hold every band of their files as reflectance; 0 is no data. By default each date is paired with the next one,
    both ways.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        part: str = "test",
        *,
        pairs: Sequence[tuple[str, str]] = (),
        transform: Transform | None = None,
        cache: bool = False,
    ) -> None:
        if cache:
            raise ConfigError("dates is not held in memory: leave out cache")
        self.root, self.transform = Path(root), transform
        self.files = {path.stem: path for path in sorted(self.root.glob("*.tif"))}
        if len(self.files) < 2:
            raise DataNotFoundError(
                f"{root} holds {len(self.files)} dates: expected at least two .tif, one for each date."
            )
        self.pairs = list(pairs) or [pair for two in pairwise(self.files) for pair in (two, two[::-1])]
        missing = {name for pair in self.pairs for name in pair} - set(self.files)
        if missing:
            raise DataNotFoundError(f"{root} holds no {', '.join(sorted(missing))}.tif: name dates that are there.")
        self.names = [",".join(pair) for pair in self.pairs]
        self.bands = read_date(self.files[self.pairs[0][0]])[1]
        named = tuple(name or f"band {number}" for number, name in enumerate(self.bands, 1))
        self.spec = replace(L1C_SPEC, slots=band_slots(named), outputs=named)

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, index: int) -> Sample:
        """Pair `index`, read as reflectance."""
        target, reference = (self.files[name] for name in self.pairs[index])
        clear, other = read_date(target)[0], read_date(reference)[0]
        if clear.shape != other.shape:
            raise DataError(f"{target} is {clear.shape} and {reference} {other.shape}: bring the dates to one grid.")
        return make_sample(other, clear, self.names[index], self.transform)

    def days_apart(self, index: int) -> int | None:
        """Give the days from the date to fill to the other; None where a name does not tell the day."""
        found = [re.search(r"(\d{4})-?(\d\d)-?(\d\d)", name) for name in self.pairs[index]]
        days = [datetime.date(*map(int, each.groups())) for each in found if each]
        return (days[1] - days[0]).days if len(days) == len(found) else None


class CubeFolder(Dataset[Sample]):
    """A cube that `attcr cube` made: `attcr.evaluate.series` scores it as a whole, it has no samples."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        part: str = "test",
        *,
        transform: Transform | None = None,
        cache: bool = False,
    ) -> None:
        self.root, self.spec = Path(root), L1C_SPEC
        self.names = [self.root.name]

    def __len__(self) -> int:
        return 0

    def __getitem__(self, index: int) -> Sample:
        """Say that there is none."""
        raise IndexError(index)


def read_date(path: Path) -> tuple[NDArray[np.float32], list[str]]:
    """Give a raster as reflectance (C, H, W), and the names of its bands; integers are in units of 1/10000."""
    with needed():
        import rasterio
    with rasterio.open(path) as source:
        values = source.read()
        names = [name or "" for name in source.descriptions]
    return (values / (10_000 if values.dtype.kind in "iu" else 1)).astype(np.float32), names
