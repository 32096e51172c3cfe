"""Rasters of any kind keep what they had: every clear pixel to the bit, and what is said about them."""

import json
import random
import shutil
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
import torch
from affine import Affine
from counts import Record, seeds_of
from rasterio.crs import CRS
from rasterio.enums import ColorInterp
from scipy.ndimage import distance_transform_edt
from torch import Tensor, nn

from attcr.bands.sensors import PICTURE_RANGE, Sensor
from attcr.errors import AttcrError
from attcr.restore import RestoreOptions, restore_scene
from attcr.restore.walk import LOW_CONFIDENCE, UNDER_THICK, UNDER_THIN
from fake_scenes import Same, by_position, make, read

DTYPES = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float32", "float64")
SYSTEMS = ("EPSG:32633", "EPSG:4326", "EPSG:3857", "EPSG:3413", "+proj=sinu +R=6371007.181 +units=m", "EPSG:2056")
GRIDS = (
    Affine(10, 0, 600000, 0, -10, 5500020),
    Affine(8, 3, 5e5, 3, -8, 5e6),
    Affine(10, 0, 0, 0, 10, 0),
    Affine(1e-9, 0, 1, 0, -1e-9, 1),
    Affine(2.6, 2.5, 0, 1.5, -4.3, 0),
)
TAGS = (
    "A",
    "AREA_OR_POINT",
    "TIFFTAG_SOFTWARE",
    "TIFFTAG_IMAGEDESCRIPTION",
    "TIFFTAG_DATETIME",
    "key with space",
    "ключ",
)
TEXTS = ("Point", "x", "a=b", "☁", "<x/>", "2020:13:45 99:99:99", "l1\nl2", " lead trail ")
NAMES = ("B04", "red", "Ünïcødé ☁", "a<b>&\"'", "x" * 300, None)
RECONSTRUCTED = (UNDER_THIN, UNDER_THICK, LOW_CONFIDENCE)
INPUTS = {"in.tif", "in.tif.msk", "in.tif.aux.xml", "mask.tif"}


class Wild(nn.Module):
    """A network that changes every pixel, by a lot."""

    def __init__(self, bands: int) -> None:
        super().__init__()
        self.spec = by_position(bands)
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        """Add a wave."""
        return x + torch.sin(x * 37 + torch.arange(x.shape[-1]) * 0.3) * 0.7


@dataclass
class Case:
    """A raster drawn by chance, and how it is restored."""

    source: Path
    options: RestoreOptions
    model: nn.Module
    clouds: np.ndarray | None
    """Where clouds are; None for a network that changes nothing."""

    @property
    def clear(self) -> np.ndarray:
        """Pixels that must leave as they came."""
        height, width = read(self.source).shape[1:]
        if self.clouds is None:
            return np.ones((height, width), bool)
        if not self.clouds.any():
            return np.ones((height, width), bool)
        return distance_transform_edt(self.clouds == 0) > self.options.dilate + self.options.feather


def sensor_of(dtype: np.dtype[Any]) -> Sensor:
    """A product of this type in which every value can occur."""
    if dtype.kind == "f":
        return Sensor("any", (), 1.0, 0.0, wanted=PICTURE_RANGE)
    top = min(int(np.iinfo(dtype).max), 10_000 if dtype.itemsize > 1 else 255)
    return Sensor("any", (), 1 / top, 0.0, wanted=PICTURE_RANGE)


def draw_values(dtype: np.dtype[Any], shape: tuple[int, int, int], chance: random.Random) -> np.ndarray:
    rng = np.random.default_rng(chance.getrandbits(32))
    if dtype.kind != "f":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, endpoint=True, dtype=dtype)
    values = (rng.normal(size=shape) * 10.0 ** rng.integers(-6, 6, shape)).astype(dtype)
    if chance.random() < 0.4:
        where = rng.random(shape)
        for below, value in ((0.02, np.nan), (0.03, np.inf), (0.04, -np.inf), (0.05, -0.0)):
            values[(where > below - 0.01) & (where < below)] = value
    return values


def draw_profile(dtype: np.dtype[Any], chance: random.Random) -> dict[str, Any]:
    profile: dict[str, Any] = {
        "compress": chance.choice([None, "deflate", "lzw", "zstd", "packbits", "lzma"]),
        "interleave": chance.choice(["band", "pixel"]),
    }
    if chance.random() < 0.5:
        sizes = {"blockxsize": chance.choice([16, 32, 64]), "blockysize": chance.choice([16, 32, 64])}
        profile.update(tiled=True, **sizes)
    if chance.random() < 0.15:
        profile["bigtiff"] = "YES"
    if chance.random() < 0.1:
        profile["endianness"] = "BIG"
    if chance.random() < 0.6:
        profile["crs"] = chance.choice(SYSTEMS)
    if chance.random() < 0.6:
        profile["transform"] = chance.choice(GRIDS)
    if chance.random() < 0.5:
        floats = [float("nan"), -9999.0, 0.0, float(np.finfo(np.float32).min), float("inf"), 1e-30]
        ends = () if dtype.kind == "f" or dtype.itemsize == 8 else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        whole = [0, 1, 7, *ends]  # of 64 bits the ends are no doubles
        profile["nodata"] = float(chance.choice(floats if dtype.kind == "f" else whole))
    return profile


def describe(file: Any, chance: random.Random) -> None:
    """Say things about a raster: names, tags, scales, units, a mask, an alpha band."""
    count = file.count
    if chance.random() < 0.3:
        file.descriptions = [chance.choice(NAMES) for _ in range(count)]
    if chance.random() < 0.3:
        file.update_tags(**{chance.choice(TAGS): chance.choice(TEXTS)})
    if chance.random() < 0.2:
        file.update_tags(ns=chance.choice(["MY", "geo:x", "a b", "X&Y"]), **{chance.choice(["k", "k&"]): "<v> ☁\n"})
    if chance.random() < 0.3:
        file.update_tags(1, **{chance.choice(["BT", "wave len"]): "1.5"})
    if chance.random() < 0.2:
        file.scales = [chance.choice([1.0, 1e-4, 2.5]) for _ in range(count)]
        file.offsets = [chance.choice([0.0, -0.1]) for _ in range(count)]
    if chance.random() < 0.2:
        file.units = [chance.choice(["m", "", "µW"]) for _ in range(count)]
    if chance.random() < 0.2:
        file.write_mask((np.random.default_rng(chance.getrandbits(32)).random(file.shape) > 0.3).astype(np.uint8) * 255)
    if count == 4 and chance.random() < 0.4:
        file.colorinterp = [ColorInterp.red, ColorInterp.green, ColorInterp.blue, ColorInterp.alpha]


def draw_case(folder: Path, seed: int) -> Case:
    """Write a raster and choose how to restore it, all by the seed."""
    chance = random.Random(seed)
    dtype = np.dtype(chance.choice(DTYPES))
    count = chance.choice([1, 1, 2, 3, 3, 3, 4, 5, 7, 13])
    height = chance.choice([1, 2, 3, 7, 8, 9, 15, 16, 17, 33, 64, 65, chance.randint(1, 150)])
    width = chance.choice([1, 2, 5, 8, 31, 33, 64, 100, chance.randint(1, 150)])
    values, profile = draw_values(dtype, (count, height, width), chance), draw_profile(dtype, chance)
    rng = np.random.default_rng(seed)
    nodata = profile.get("nodata")
    if nodata is not None and np.isfinite(nodata):
        with np.errstate(all="ignore"):
            empty = dtype.type(nodata) if dtype.kind == "f" else _nearest(dtype, nodata)
        values[:, rng.random((height, width)) < 0.2] = empty
    source = make(folder / "in.tif", values, lambda file: describe(file, chance), **profile)
    with rasterio.open(source) as file:
        bands = file.count - (file.colorinterp[-1] == ColorInterp.alpha)
    tile = chance.choice([8, 16, 32, 64, 256])
    given: dict[str, Any] = {"tile": tile, "overlap": chance.randint(0, tile // 2), "batch": chance.choice([1, 3])}
    given |= {"sensor": sensor_of(dtype), "confidence": chance.random() < 0.1, "mask": "none"}
    if chance.random() < 0.35:
        return Case(source, RestoreOptions(**given), Same(bands), None)
    clouds = (rng.random((height, width)) < chance.choice([0, 0.002, 0.02, 0.3])).astype(np.uint8)
    given["mask"] = str(make(folder / "mask.tif", clouds[None]))
    given |= {"dilate": chance.choice([0, 1, 3, 8]), "feather": chance.choice([0, 1, 4, 8])}
    given["unseen"] = chance.choice(["keep", "fill"])
    return Case(source, RestoreOptions(**given), Wild(bands), clouds)


def _nearest(dtype: np.dtype[Any], value: float) -> int:
    info = np.iinfo(dtype)
    return min(max(int(value), int(info.min)), int(info.max))


def told_of(path: Path) -> dict[str, Any]:
    """All that a raster says about itself."""
    with rasterio.open(path) as file:
        spaces = set(file.tag_namespaces()) - {"IMAGE_STRUCTURE", "DERIVED_SUBDATASETS"}
        return {
            "shape": (file.count, *file.shape),
            "dtypes": file.dtypes,
            "crs": _named(file.crs),
            "transform": tuple(file.transform)[:6],
            "nodata": [repr(value) for value in file.nodatavals],
            "descriptions": file.descriptions,
            "scales": file.scales,
            "offsets": file.offsets,
            "units": [unit or "" for unit in file.units],
            "colours": [colour.name for colour in file.colorinterp],
            "tags": {space: file.tags(ns=space) for space in sorted(spaces)} | {"": file.tags()},
            "tags of bands": [file.tags(index) for index in file.indexes],
            "masks": [sorted(flag.name for flag in flags) for flags in file.mask_flag_enums],
        }


def _named(crs: CRS | None) -> str | None:
    """The text of a CRS; GDAL gives a raster without one, whose pixels are points, an unnamed one of any unit."""
    wkt = crs.to_wkt() if crs else ""
    return None if wkt.startswith('LOCAL_CS["unnamed"') else wkt or None


def masks_of(path: Path) -> np.ndarray:
    with rasterio.open(path) as file:
        return file.read_masks()


def wrong_with(case: Case, folder: Path) -> list[str]:
    """Say what a restored raster lost or changed that it must not."""
    target = folder / "out.tif"
    before, after = told_of(case.source), told_of(target)
    wrong = [f"{key}: {before[key]} became {after[key]}" for key in before if before[key] != after[key]]
    came, left = read(case.source), read(target)
    if came.shape != left.shape or came.dtype != left.dtype:
        return wrong
    bits = np.dtype(f"u{came.dtype.itemsize}")
    changed = (came.view(bits) != left.view(bits)).any(axis=0)
    quality = read(folder / "out_quality.tif")[0]
    if changed[case.clear].any():
        wrong.append(f"{int(changed[case.clear].sum())} clear pixels changed")
    if np.isin(quality[case.clear], RECONSTRUCTED).any():
        wrong.append("a clear pixel is called reconstructed")
    if changed[~np.isin(quality, RECONSTRUCTED)].any():
        wrong.append("a changed pixel is not called reconstructed")
    if (masks_of(case.source) != masks_of(target)).any():
        wrong.append("what is valid changed")
    try:
        json.loads((folder / "out.json").read_text(), parse_constant=lambda word: _refuse(word))
    except ValueError as error:
        wrong.append(f"the item is no JSON: {error}")
    made = {"out.tif", "out_quality.tif", "out_spread.tif", "out_preview.png", "out.json"}
    names = {path.name.removesuffix(".aux.xml") for path in folder.iterdir()}
    return [*wrong, *(f"{name} is left" for name in names - made - INPUTS)]


def _refuse(word: str) -> None:
    raise ValueError(word)


def test_rasters_of_any_kind_keep_what_they_had(tmp_path: Path) -> None:
    record = Record("rasters", seeds := seeds_of("rasters"))
    for seed in seeds:
        folder = tmp_path / str(seed)
        folder.mkdir()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            case = draw_case(folder, seed)
            try:
                restore_scene(case.source, folder / "out.tif", case.model, options=case.options)
            except AttcrError as error:
                left = {path.name for path in folder.iterdir()} - INPUTS
                record.add(seed, "refused", sorted(left) and {"left": sorted(left), "error": str(error)})
            except Exception as error:
                record.add(seed, "raised", repr(error))
            else:
                changed = (read(folder / "out_quality.tif") > 1).any()
                record.add(seed, "restored" if changed else "as it came", wrong_with(case, folder))
        shutil.rmtree(folder)
    record.check()
    if len(seeds) > 100:
        assert record.counts["refused"] < 0.1 * len(seeds), record.counts
        assert record.counts["restored"] > 0.2 * len(seeds), record.counts
