"""Small files with the names that the documentation uses, as if they were the reader's own."""

from pathlib import Path
from typing import Any

import numpy as np
import rasterio
import torch
from numpy.typing import NDArray
from PIL import Image

from attcr.data.simulate import THIN_VEIL, simulate_clouds
from fake_scenes import UTM, make

SAFE = "S2B_MSIL2A_20230815T100559_N0509_R022_T33UXQ_20230815T131622.SAFE"
LANDSAT = "LC09_L2SP_190026_20230815_20230817_02_T1"
SIDE = 96
BANDS = {"B02": 2, "B03": 1, "B04": 0, "B08": 1}
"""A band of Sentinel-2 and the drawn colour that stands for it."""


def write_all(folder: Path) -> None:
    """Write every file that the documentation names."""
    clear, cloudy, clouds = _images()
    make(folder / "photo.png", _bytes(cloudy), driver="PNG")
    for name in ("a.png", "b.png"):
        make(folder / name, _bytes(cloudy[:, 32:64, 32:64]), driver="PNG")
    make(folder / "mask.tif", clouds[None].astype(np.uint8), **UTM)
    make(folder / "clouds.tif", clouds[None].astype(np.uint8), **UTM)
    for name, image in {"scene": cloudy, "before": clear, "after": clear * 0.95}.items():
        write_scene(folder / f"{name}.tif", image)
    (folder / "scenes").mkdir()
    for name in ("first", "second"):
        write_scene(folder / "scenes" / f"{name}.tif", cloudy)
    for side, image in {"cloudy": cloudy, "clear": clear}.items():
        (folder / "mine" / side).mkdir(parents=True)
        for number in range(12):
            part = np.roll(image, 8 * number, axis=2)
            Image.fromarray(_bytes(part).transpose(1, 2, 0)).save(folder / "mine" / side / f"{number}.png")
    _write_safe(folder / SAFE, cloudy, clouds)
    _write_landsat(folder / LANDSAT, cloudy, clouds)


def _images() -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    clear = _draw_landscape(SIDE, seed=2)
    simulated = simulate_clouds(clear, THIN_VEIL, generator=torch.Generator().manual_seed(3))
    clouds = (simulated.thickness > 2.0).numpy()
    clouds[:, : SIDE // 3] = False
    cloudy = np.where(clouds, simulated.cloudy.numpy(), clear.numpy())
    return clear.numpy(), cloudy, clouds


def _bytes(image: NDArray[Any]) -> NDArray[Any]:
    return np.rint(np.clip(image, 0, 1) * 255).astype(np.uint8)


def write_scene(path: Path, image: NDArray[Any]) -> None:
    """Write a Sentinel-2 scene of four bands as one GeoTIFF that says what it is."""
    values = np.stack([image[plane] for plane in BANDS.values()])

    def describe(file: Any) -> None:
        file.descriptions = tuple(BANDS)
        file.update_tags(PRODUCT_URI=SAFE, TIFFTAG_DATETIME="2023:08:15 10:05:59")

    make(path, np.rint(values * 3558 + 1000).astype(np.uint16), describe, nodata=0, **UTM)


def _write_safe(folder: Path, image: NDArray[Any], clouds: NDArray[Any]) -> None:
    granule = folder / "GRANULE" / "L2A_T33UXQ_A033602_20230815T100559" / "IMG_DATA"
    for size in ("R10m", "R20m"):
        (granule / size).mkdir(parents=True)
    for band, plane in BANDS.items():
        _jp2(granule / "R10m" / f"T33UXQ_20230815T100559_{band}_10m.jp2", np.rint(image[plane] * 3558 + 1000))
    t = UTM["transform"]
    scl = np.where(clouds[::2, ::2], 10, 4)
    place = {"crs": UTM["crs"], "transform": rasterio.Affine(2 * t.a, 0, t.c, 0, 2 * t.e, t.f)}
    _jp2(granule / "R20m" / "T33UXQ_20230815T100559_SCL_20m.jp2", scl, "uint8", place)
    (folder / "MTD_MSIL2A.xml").write_text("<n1:Level-2A_User_Product/>")


def _jp2(path: Path, plane: NDArray[Any], dtype: str = "uint16", place: dict[str, Any] | None = None) -> None:
    make(path, plane.astype(dtype)[None], driver="JP2OpenJPEG", QUALITY="100", REVERSIBLE="YES", **(place or UTM))


def _write_landsat(folder: Path, image: NDArray[Any], clouds: NDArray[Any]) -> None:
    folder.mkdir()
    for band, plane in {"SR_B2": 2, "SR_B3": 1, "SR_B4": 0, "SR_B5": 1}.items():
        reflectance = image[plane] * 0.3558
        values = np.rint((reflectance + 0.2) / 2.75e-5).astype(np.uint16)
        make(folder / f"{folder.name}_{band}.TIF", values[None], nodata=0, **UTM)
    qa = np.where(clouds, 21824 | 1 << 2, 21824).astype(np.uint16)  # cirrus, else clear
    make(folder / f"{folder.name}_QA_PIXEL.TIF", qa[None], **UTM)
    (folder / f"{folder.name}_MTL.txt").write_text("GROUP = LANDSAT_METADATA_FILE\nEND_GROUP\nEND\n")


def _draw_landscape(size: int, *, seed: int) -> torch.Tensor:
    """Draw fields, woods, a river and a town as (3, size, size), in [0, 1], in the tones of a true-colour image."""
    numbers = np.random.default_rng(seed)
    rows, cols = np.mgrid[:size, :size].astype(np.float32)
    bend = 12 * np.sin(cols / 61) + 9 * np.sin(rows / 47)

    # Fields: patches around scattered points, each of one crop, ploughed in its own direction.
    points = numbers.uniform(0, size, (90, 2)).astype(np.float32)
    near = ((rows + bend)[..., None] - points[:, 0]) ** 2 * 1.6 + ((cols - bend)[..., None] - points[:, 1]) ** 2
    nearest, second = np.partition(near, 1, axis=2)[..., :2].transpose(2, 0, 1)
    field = near.argmin(axis=2)
    crops = np.array(
        [[0.13, 0.19, 0.10], [0.20, 0.27, 0.12], [0.33, 0.30, 0.19], [0.40, 0.34, 0.25], [0.26, 0.23, 0.17]]
    )
    image = (crops[numbers.integers(0, len(crops), len(points))] * numbers.uniform(0.85, 1.15, (len(points), 1)))[field]
    angle = numbers.uniform(0, np.pi, len(points))[field]
    image *= (1 + 0.05 * np.sin((rows * np.cos(angle) + cols * np.sin(angle)) * 1.3))[..., None]
    image[np.sqrt(second) - np.sqrt(nearest) < 1.6] = [0.36, 0.33, 0.28]  # tracks between them

    woods = _waves(size, numbers, 1.6) > 0.9
    image[woods] = np.array([0.06, 0.11, 0.06]) * (1 + 0.35 * numbers.standard_normal((int(woods.sum()), 1)))
    town = np.hypot(rows - 0.7 * size, cols - 0.66 * size) < 0.09 * size * (1 + 0.2 * _waves(size, numbers, 1.5))
    roofs = numbers.uniform(0.3, 0.75, (size // 4 + 1, size // 4 + 1)).repeat(4, 0).repeat(4, 1)[:size, :size]
    image[town] = roofs[town][:, None] * [1.0, 0.93, 0.88]
    image[town & ((rows % 12 < 1.5) | (cols % 14 < 1.5))] = [0.3, 0.3, 0.31]
    river = np.abs(rows - 0.45 * size - 0.16 * size * np.sin(cols / size * 5) - 14 * np.sin(cols / 29))
    image[river < 7 + 2.5 * np.sin(cols / 40)] = [0.07, 0.12, 0.16]

    image *= 1.25 * (1 + 0.06 * _waves(size, numbers, 1.2))[..., None]
    image += 0.008 * numbers.standard_normal(image.shape)
    return torch.from_numpy(image.transpose(2, 0, 1).clip(0, 1).astype(np.float32))


def _waves(size: int, numbers: np.random.Generator, smoothness: float) -> NDArray[np.float32]:
    """Fractal noise (size, size) of mean 0 and deviation 1."""
    frequency = np.hypot(np.fft.fftfreq(size)[:, None], np.fft.rfftfreq(size)[None])
    frequency[0, 0] = np.inf
    waves = np.fft.irfft2(np.fft.rfft2(numbers.standard_normal((size, size))) * frequency**-smoothness, (size, size))
    return np.asarray((waves - waves.mean()) / waves.std(), np.float32)
