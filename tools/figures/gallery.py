"""Before and after, by sensor: what goes well and what does not, each by `attcr.restore_scene` with its defaults."""

import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from numpy.typing import NDArray
from PIL import Image
from rasterio.windows import Window

import attcr
from attcr.bands.sensors import SENSORS

Array = NDArray[Any]
GAP = 6
COLOURS = np.array(
    [(0, 0, 0), (190, 190, 190), (86, 180, 233), (0, 114, 178), (230, 159, 0), (213, 94, 0), (0, 158, 115)], np.uint8
)
"""Of the quality classes 0 to 6."""
L2A_10 = ("B02", "B03", "B04", "B05", "B06", "B07", "B08", "B8A", "B11", "B12")


def haze(data: Path) -> tuple[Array, Array]:
    """Ten bands of reflectance of the hazy date over Rondonia, and of the clear date after it."""
    read = [rasterio.open(data / "s2" / "series_l2a_20LMR" / f"2022-09-{day}.jp2").read() for day in ("02", "18")]
    return read[0] / 10_000, read[1] / 10_000


def colour(bands: Array, white: float) -> Array:
    """(H, W, 3) in 8 bits of three bands."""
    return np.asarray((np.clip(bands / white, 0, 1) ** 0.8 * 255).astype(np.uint8).transpose(1, 2, 0))


def save_row(target: Path, pictures: Sequence[Array]) -> None:
    """Pictures of one height side by side, the space between them seen through."""
    height = pictures[0].shape[0]
    width = sum(picture.shape[1] for picture in pictures) + GAP * (len(pictures) - 1)
    sheet, left = Image.new("RGBA", (width, height)), 0
    for picture in pictures:
        sheet.paste(Image.fromarray(picture), (left, 0))
        left += picture.shape[1] + GAP
    sheet.save(target, quality=82, method=6)


def from_arrays(
    bands: Array, names: Sequence[str], white: float, rgb: tuple[int, int, int], **more: Any
) -> list[Array]:
    """Before, after and quality of an array of digital numbers."""
    options = attcr.RestoreOptions(sensor=more.pop("sensor"))
    done = attcr.restore_array(bands, "s2-thin", bands=names, options=options, **more)
    before, after = (colour(image[list(rgb)] / white, 1) for image in (bands, done.image))
    return [before, after, COLOURS[done.quality]]


def sentinel_haze(folder: Path, data: Path, _: Path) -> None:
    """L2A, 20 m: haze over all of the image; the clear date 16 days later on the right."""
    hazy, clear = (np.rint(image * 10_000).astype(np.uint16) for image in haze(data))
    pictures = from_arrays(hazy, L2A_10, 2500, (2, 1, 0), sensor="s2-l2a")
    save_row(
        folder / "gallery-s2-haze.webp", [pictures[0], pictures[1], colour(clear[[2, 1, 0]] / 2500, 1), pictures[2]]
    )


def sentinel_l1c(folder: Path, data: Path, _: Path) -> None:
    """L1C, 13 bands of SEN12MS-CR: broken cloud, and thick cloud, which stays."""
    names = SENSORS["s2-l1c"].bands
    for name, target in (("sample_2729", "broken"), ("sample_7264", "thick")):
        with rasterio.open(data / "sen12mscr" / "s2_cloudy" / f"{name}.tif") as file:
            cloudy = file.read()
        with rasterio.open(data / "sen12mscr" / "s2" / f"{name}.tif") as file:
            clear = file.read()
        clouds = attcr.find_clouds(data / "sen12mscr" / "s2_cloudy" / f"{name}.tif", "auto", sensor="s2-l1c")
        pictures = from_arrays(cloudy, names, 3000, (3, 2, 1), sensor="s2-l1c", clouds=clouds)
        shown = [pictures[0], pictures[1], colour(clear[[3, 2, 1]] / 3000, 1), pictures[2]]
        save_row(folder / f"gallery-s2-{target}.webp", shown)


def sentinel_little(folder: Path, data: Path, _: Path) -> None:
    """L1C, 13 bands of SEN12MS-CR-TS: thin cloud that the network hardly sees."""
    series = data / "s2" / "series_l1c_roi146"
    cloudy, clear = (rasterio.open(series / f"2018-{day}.tif").read() for day in ("03-22", "04-26"))
    pictures = from_arrays(cloudy, SENSORS["s2-l1c"].bands, 3000, (3, 2, 1), sensor="s2-l1c")
    save_row(folder / "gallery-s2-little.webp", [*pictures[:2], colour(clear[[3, 2, 1]] / 3000, 1), pictures[2]])


def landsat(folder: Path, _: Path, archives: Path) -> None:
    """Landsat 8, Collection 2 level 2, by its own QA_PIXEL: broken cloud over land."""
    name = "LC08_L2SP_218074_20190114_20200829_02_T1"
    with tempfile.TemporaryDirectory() as room:
        with tarfile.open(archives / f"{name}-cropped.tar.gz") as archive:
            archive.extractall(Path(room, name), filter="data")
        files = Path(room, name)
        inner = next(path.parent for path in files.rglob("*_SR_B4.TIF"))
        with rasterio.open(next(inner.glob("*_SR_B4.TIF"))) as file:
            window = Window(file.width // 2 - 130, file.height // 2 - 130, 260, 260)
        pictures = _landsat(inner, room, window)
    save_row(folder / "gallery-landsat.webp", pictures)


def _landsat(folder: Path, room: str, window: Window) -> list[Array]:
    target = Path(room, "out.tif")
    result = attcr.restore_scene(folder, target, "s2-thin")
    made = []
    with rasterio.open(target) as after, rasterio.open(result.quality) as quality:
        names = [str(name) for name in after.descriptions]
        order = [next(at for at, name in enumerate(names, 1) if name.endswith(band)) for band in ("B4", "B3", "B2")]
        done, classes = after.read(order, window=window), quality.read(1, window=window)
    for band in ("SR_B4", "SR_B3", "SR_B2"):
        with rasterio.open(next(folder.glob(f"*_{band}.TIF"))) as file:
            made.append(file.read(1, window=window))
    before = np.stack(made)
    return [colour((image * 2.75e-5 - 0.2) / 0.3, 1) for image in (before, done)] + [COLOURS[classes]]


DRAWN = (sentinel_haze, sentinel_l1c, sentinel_little, landsat)
