"""Tiny made data with the real file names and layouts."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import rasterio
from PIL import Image

from attcr.bands.sensors import S2_L1C_BANDS
from attcr.data import dates
from attcr.data.sen12mscr import KINDS, patch_path

if TYPE_CHECKING:
    from tools.dates_net.samples import Gap

SAMPLES = {"s1": (2, "float32"), "s2_cloudy": (13, "uint16"), "s2": (13, "uint16")}


def fake_image(name: str, size: int = 32) -> np.ndarray:
    """An 8-bit RGB image that depends on its name alone, (H, W, 3)."""
    generator = np.random.default_rng(int.from_bytes(name.encode(), "little"))
    coarse = generator.integers(0, 256, (4, 4, 3), np.uint8)
    return np.array(Image.fromarray(coarse).resize((size, size), Image.Resampling.BICUBIC))


def make_pairs(root: Path, folders: tuple[str, str], names: Iterable[str], ending: str = "png") -> None:
    """Write a cloudy and a clear image for each name; the cloudy one is the clear one brightened."""
    for folder in folders:
        (root / folder).mkdir(parents=True, exist_ok=True)
    for name in names:
        clear = fake_image(name)
        Image.fromarray(clear).save(root / folders[1] / f"{name}.{ending}", lossless=True)
        Image.fromarray(255 - (255 - clear) // 2).save(root / folders[0] / f"{name}.{ending}", lossless=True)


def write_tif(path: Path, bands: np.ndarray) -> None:
    """Write (C, H, W) as a TIFF of its own kind, without georeference."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with rasterio.open(path, "w", "GTiff", bands.shape[2], bands.shape[1], bands.shape[0], dtype=bands.dtype) as raster:
        raster.write(bands)


def fake_patch(kind: str, seed: int, size: int = 8) -> np.ndarray:
    """Bands of one kind of SEN12MS-CR file."""
    bands, dtype = SAMPLES[kind]
    generator = np.random.default_rng(seed)
    if kind == "s1":
        return generator.uniform(-40, 5, (bands, size, size)).astype(dtype)
    return generator.integers(0, 12000, (bands, size, size)).astype(dtype)


def make_sen12mscr(root: Path, patches: Mapping[str, Iterable[int]], sources: Mapping[str, Path]) -> None:
    """Lay out the published tree, for each region its patch numbers; files are hard links to their source."""
    for region, numbers in patches.items():
        for kind in KINDS:
            patch_path(root, region, kind, 0).parent.mkdir(parents=True, exist_ok=True)
            for number in numbers:
                os.link(sources[kind], patch_path(root, region, kind, number))


def write_native(root: Path, name: str, bands: np.ndarray, mask: np.ndarray) -> None:
    """Write (13, H, W) digital numbers and a mask (H, W) as a date of CloudSEN12; sizes are multiples of 6."""
    sizes = {10: dates.BANDS_10M, 20: dates.BANDS_20M, 60: dates.BANDS_60M}
    for size, names in sizes.items():
        step = size // 10
        chosen = bands[[S2_L1C_BANDS.index(band) for band in names], ::step, ::step]
        write_tif(root / f"{name}_{size}m.jp2", chosen)  # GDAL looks at what is in a file, not at its name
    write_tif(root / f"{name}_mask.tif", mask[None].astype(np.uint8))


def link_pairs(root: Path, folders: tuple[str, str], names: Iterable[str]) -> None:
    """Lay out pairs under all the names, as hard links to four of them: quick for thousands."""
    make_pairs(root, ("some_cloudy", "some_clear"), "0123")
    for folder in folders:
        (root / folder).mkdir(parents=True, exist_ok=True)
    for at, name in enumerate(names):
        os.link(root / "some_cloudy" / f"{at % 4}.png", root / folders[0] / f"{name}.png")
        os.link(root / "some_clear" / f"{at % 4}.png", root / folders[1] / f"{name}.png")


def make_clear_s2(root: Path) -> None:
    """Write the three files of clear Sentinel-2 images, with few and small ones: 2 of 6 places are held out."""
    from tools.s2_thin.samples import LKP_DATES

    root.mkdir(parents=True)
    generator = np.random.default_rng(0)

    def dn(*shape: int) -> np.ndarray:
        return generator.integers(500, 4000, shape).astype(np.uint16)

    known = {"cloud": np.zeros(6), "qa": np.zeros(6), "native": np.ones(6), "nodata": np.zeros(6, int)}
    np.savez(root / "df.npz", a=dn(6, 13, 200, 200), lon=np.arange(6) * 4.0, lat=np.zeros(6), **known)
    np.savez(root / "eu.npz", a=dn(4, 12, 64, 64), ids=np.array([0, 1, 64, 65]))
    np.savez(root / "lkp.npz", a=dn(5, 7, 128, 128), dates=np.array(LKP_DATES))


def fake_gap(seed: int, size: int = 64) -> "Gap":
    """Two dates of fields of 16 pixels, in four bands, with a gap in the middle."""
    from tools.dates_net.samples import Gap

    generator = np.random.default_rng(seed)
    fields = generator.uniform(0.05, 0.4, (4, size // 16, size // 16)).repeat(16, 1).repeat(16, 2)
    target, harmonised, reference = (
        (fields * generator.normal(1, 0.05, fields.shape)).astype(np.float32) for _ in range(3)
    )
    gap = np.zeros((size, size), bool)
    gap[size // 4 : 3 * size // 4, size // 8 : 7 * size // 8] = True
    return Gap(target, harmonised, reference, ~gap, gap, (1, 3, 8, 11))


def make_gaps(root: Path) -> None:
    """Write pairs of dates with a gap, four to train on and two held out."""
    for folder, seeds in (("pool", range(4)), ("held", range(4, 6))):
        (root / folder).mkdir(parents=True)
        for seed in seeds:
            fake_gap(seed).save(root / folder / f"fields-{seed}.npz")
