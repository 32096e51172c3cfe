"""`attcr demo`: a drawn landscape under simulated cloud, restored with the package's own weights."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attcr.data.simulate import CloudKind, simulate_clouds
from attcr.extras import needed
from attcr.restore.options import RestoreOptions
from attcr.restore.scene import Progress, restore_scene

with needed():
    import rasterio
    from rasterio.transform import from_origin

SIZE = 512
WEIGHTS = "rgb-thin"
VEIL = CloudKind(cover=(0.5, 0.5), thickness=(9.0, 9.0), smoothness=(2.0, 2.0), unevenness=(0.0, 0.0), shift=(0.0, 0.0))
CLOUD = 0.5
"""Optical thickness from which a pixel counts as cloud."""


@dataclass(frozen=True)
class Demo:
    """What the demo wrote, and how well it went."""

    scene: Path
    restored: Path
    picture: Path
    error_before: float
    """Mean absolute error under the cloud, where 1 is the peak."""
    error_after: float
    commands: tuple[str, ...]
    """What to try next."""


def run_demo(
    folder: Path, *, weights: str | Path = WEIGHTS, progress: Callable[[Progress], None] | None = None
) -> Demo:
    """Write a cloudy scene, its mask and the scene restored into FOLDER/attcr-demo."""
    folder = folder / "attcr-demo"  # of its own: a scene.tif of the user's stays
    folder.mkdir(parents=True, exist_ok=True)
    generator = torch.Generator().manual_seed(6)
    clear = draw_landscape(SIZE, seed=2)
    simulated = simulate_clouds(clear, VEIL, generator=generator)
    clouds = (simulated.thickness > CLOUD).numpy()
    scene, mask, target = (folder / f"{name}.tif" for name in ("scene", "clouds", "restored"))
    cloudy = _to_8bit(simulated.cloudy)
    _write(scene, cloudy)
    _write(mask, clouds[None].astype(np.uint8))
    options = RestoreOptions(mask=str(mask), sensor="rgb8")
    result = restore_scene(scene, target, weights, options=options, overwrite=True, progress=progress)
    with rasterio.open(target) as dataset:
        restored = dataset.read()
    truth = clear.numpy()
    before, after = (float(np.abs(image / 255 - truth)[:, clouds].mean()) for image in (cloudy, restored))
    return Demo(
        scene,
        target,
        result.preview,
        before,
        after,
        (
            "attcr restore photo.png photo_clear.png",
            "attcr restore scene.tif clear.tif",
            "attcr weights",
        ),
    )


def draw_landscape(size: int, *, seed: int) -> Tensor:
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


def _to_8bit(image: Tensor) -> NDArray[np.uint8]:
    return (image * 255).round().byte().numpy()


def _write(path: Path, values: NDArray[np.uint8]) -> None:
    """Write (C, H, W) as a GeoTIFF of 10 m pixels somewhere on UTM zone 33."""
    profile = {"driver": "GTiff", "dtype": "uint8", "count": len(values), "crs": "EPSG:32633", "compress": "deflate"}
    profile |= {"height": values.shape[1], "width": values.shape[2], "transform": from_origin(5e5, 5.4e6, 10, 10)}
    with rasterio.open(path, "w", **profile) as dataset:
        dataset.write(values)
