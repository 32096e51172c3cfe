"""Before and after, by sensor: what goes well and what does not, each by `attcr restore` as anyone would run it."""

import tarfile
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from numpy.typing import NDArray
from PIL import Image

import attcr
from attcr.bands.sensors import S2_L1C_BANDS
from attcr.demo import run_demo
from attcr.errors import AttcrWarning
from attcr.restore.walk import QUALITY_COLOURS

Array = NDArray[Any]
GAP = 6
COLOURS = np.array([QUALITY_COLOURS[value] for value in sorted(QUALITY_COLOURS)], np.uint8)
"""Of the quality classes 0 to 6."""
LARGEST = 260
"""Pixels along a side of a picture."""
L2A_10 = ("B02", "B03", "B04", "B05", "B06", "B07", "B08", "B8A", "B11", "B12")
NAME = "S2A_MSI{0}_{1}T100000_N0206_R022_T20LMR_{1}T100000.tif"
"""A name as ESA gives, which says what the numbers are."""


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


def write(folder: Path, bands: Array, names: Sequence[str], day: str, size: float = 10.0) -> Path:
    """Write digital numbers as a scene of that day, whose name and bands say what it is."""
    target = folder / NAME.format("L2A" if names == L2A_10 else "L1C", day.replace("-", ""))
    place = {"crs": "EPSG:32633", "transform": rasterio.transform.from_origin(5e5, 5e6, size, size)}
    count, height, width = bands.shape
    shape = {"driver": "GTiff", "count": count, "height": height, "width": width, "dtype": "uint16", "nodata": 0}
    with rasterio.open(target, "w", **shape, **place) as file:
        file.write(bands)
        file.descriptions = names
    return target


def draw(target: Path, scene: Path, bands: tuple[str, ...], white: float, clear: Array | None, *others: Path) -> None:
    """Restore a scene without any option but other dates, and draw before, after, clear date and classes."""
    options = attcr.RestoreOptions(references=tuple(map(str, others)))
    with tempfile.TemporaryDirectory() as room, warnings.catch_warnings():
        warnings.simplefilter("ignore", AttcrWarning)  # what they say is what the pictures show
        result = attcr.restore_scene(scene, Path(room, "out.tif"), "s2-thin", options=options)
        classes = read(result.quality)[0]
        size = classes.size
        names = _names(result.target)
        rgb = [next(at for at, name in enumerate(names) if name.endswith(band)) for band in bands]
        came = read(scene) if scene.is_file() else np.concatenate([read(_band(scene, name)) for name in names])
        shown = [came, read(result.target), *([] if clear is None else [clear])]
    offset = 7273 if scene.is_dir() else 0  # of Landsat's numbers
    pictures = [colour(image[rgb].astype(float) - offset, white) for image in shown]
    if max(classes.shape) > LARGEST:
        top, left = ((side - LARGEST) // 2 for side in classes.shape)
        window = slice(top, top + LARGEST), slice(left, left + LARGEST)
        pictures, classes = [picture[window] for picture in pictures], classes[window]
    save_row(target, [*pictures, COLOURS[classes]])
    share = {name: f"{count / size:.0%}" for name, count in result.pixels.items() if count}
    print(target.name, result.mask, share)


def _names(path: Path) -> list[str]:
    with rasterio.open(path) as file:
        return [str(name) for name in file.descriptions]


def _band(folder: Path, name: str) -> Path:
    return next(folder.rglob(f"*_{name}.TIF"))


def read(path: Path) -> Array:
    """All bands of a raster."""
    with rasterio.open(path) as file:
        return np.asarray(file.read())


def gallery(folder: Path, data: Path, archives: Path | None) -> None:
    """Draw all rows in one run: haze, thin cloud, other dates, small and thick clouds, Landsat."""
    colours = ("B04", "B03", "B02")
    with tempfile.TemporaryDirectory() as name:
        room = Path(name)
        hazy, clear = (np.rint(image * 10_000).astype(np.uint16) for image in haze(data))
        draw(folder / "gallery-s2-haze.webp", write(room, hazy, L2A_10, "2022-09-02", 20.0), colours, 2500, clear)
        demo = run_demo(room)
        draw(folder / "gallery-s2-thin.webp", demo.scene, colours, 2500, read(demo.clear_date))
        series = {path.stem: read(path) for path in (data / "s2" / "series_l1c_roi146").glob("*.tif")}
        days = {day: write(room, bands, S2_L1C_BANDS, day) for day, bands in series.items()}
        little, clouded, others = "2018-03-22", "2018-07-05", ("2018-06-25", "2018-07-20")
        draw(folder / "gallery-s2-little.webp", days[little], colours, 3000, series["2018-04-26"])
        filling = [days[day] for day in others]
        draw(folder / "gallery-s2-dates.webp", days[clouded], colours, 3000, series[others[0]], *filling)
        pairs = data / "sen12mscr"
        for sample, target in (("sample_2729", "broken"), ("sample_7264", "thick")):
            scene = write(room, read(pairs / "s2_cloudy" / f"{sample}.tif"), S2_L1C_BANDS, "2017-06-01")
            draw(folder / f"gallery-s2-{target}.webp", scene, colours, 3000, read(pairs / "s2" / f"{sample}.tif"))
        if archives:
            product = "LC08_L2SP_218074_20190114_20200829_02_T1"
            with tarfile.open(archives / f"{product}-cropped.tar.gz") as archive:
                archive.extractall(room / product, filter="data")
            draw(folder / "gallery-landsat.webp", room / product, ("B4", "B3", "B2"), 0.3 / 2.75e-5, None)


DRAWN = (gallery,)
