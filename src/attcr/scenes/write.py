"""Write a scene: first a working raster that survives a crash, then the published file, whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from attcr.errors import AttcrError, SceneError
from attcr.extras import needed
from attcr.files import to_disk
from attcr.scenes.scene import Band, Profile

with needed():
    import rasterio
    import rasterio.shutil
    from rasterio._err import CPLE_BaseError
    from rasterio.crs import CRS
    from rasterio.enums import ColorInterp, Resampling
    from rasterio.errors import RasterioError
    from rasterio.windows import Window
    from rio_cogeo.cogeo import cog_validate

Array = NDArray[Any]

BLOCK = 512

# Formats to publish, and how. GDAL writes the COG, because rio-cogeo's writer resolves GCPs, alpha and
# masks by warping; rio-cogeo checks it.
FORMATS: dict[str, tuple[str, dict[str, str]]] = {
    ".tif": ("COG", {"compress": "DEFLATE", "predictor": "YES", "blocksize": str(BLOCK), "bigtiff": "IF_SAFER"}),
    ".png": ("PNG", {}),
    ".jpg": ("JPEG", {"quality": "95"}),
    ".webp": ("WEBP", {"lossless": "YES"}),
}
SAME_FORMAT = {".tiff": ".tif", ".jpeg": ".jpg"}
_TYPES = {".png": ("uint8", "uint16"), ".jpg": ("uint8",), ".webp": ("uint8",)}
_COUNTS = {".png": (1, 2, 3, 4), ".jpg": (1, 3), ".webp": (3, 4)}
ROWS_PER_BLOCK = 16
_TAKEN = ("ns", "bidx")


def check_target(target: Path, dtype: str, count: int) -> None:
    """Refuse a target that could not be written in the end, before any work is done."""
    suffix = _suffix(target)
    if suffix not in FORMATS:
        raise SceneError(
            f"{target} ends in {target.suffix!r}; expected .tif (Cloud-Optimised GeoTIFF), .png, .jpg or .webp."
        )
    if suffix in _TYPES and (dtype not in _TYPES[suffix] or count not in _COUNTS[suffix]):
        raise SceneError(f"{suffix} cannot hold {count} bands of {dtype}: write {target.with_suffix('.tif')}.")
    if not target.parent.is_dir():
        raise SceneError(f"The folder {target.parent} does not exist: make it first.")
    if not os.access(target.parent, os.W_OK):
        raise SceneError(f"The folder {target.parent} cannot be written to: choose another, or change its rights.")


@contextmanager
def writing(target: Path) -> Iterator[None]:
    """Turn the message of the disk or of GDAL about a file that cannot be written into one sentence."""
    try:
        yield
    except (RasterioError, CPLE_BaseError, OSError, SystemError, ElementTree.ParseError) as error:
        if isinstance(error, AttcrError):
            raise
        raise SceneError(f"{target} cannot be written: {_reason(error)}. {_room(target.parent)}") from error


def _reason(error: BaseException) -> str:
    """Give GDAL's first message, in one line: rasterio's own error only refers to it."""
    first = error.__cause__ or error
    return " ".join(str(first).split()).rstrip(".")[:300] or repr(first)


def _room(folder: Path) -> str:
    """Say how much space the disk has, if that is known."""
    try:
        return f"{_size(shutil.disk_usage(folder).free)} are free there: is the disk full?"
    except OSError:
        return "Is the disk full?"


def _size(count: int) -> str:
    """Give bytes in the unit that fits them."""
    for unit, power in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if count >= 1 << power:
            return f"{count / 2**power:.1f} {unit}"
    return f"{count} bytes"


def check_space(folder: Path, needed: int) -> None:
    """Refuse if the disk has no room for the working files."""
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise SceneError(
            f"The work needs {_size(needed)} in {folder}, and {_size(free)} are free: {_size(needed - free)} "
            "are missing. Make room, or choose a target on a larger disk."
        )


def create(path: Path, profile: Profile, bands: Sequence[Band]) -> None:
    """Make a working raster: uncompressed, with every block in place, so that a crash can only damage pixels."""
    new = path.with_suffix(".new")
    nodata = {band.nodata for band in bands}
    options: dict[str, Any] = {
        "driver": "GTiff",
        "height": profile.height,
        "width": profile.width,
        "count": len(bands),
        "dtype": profile.dtype,
        "crs": profile.crs,
        "transform": profile.transform,
        "nodata": bands[0].nodata if len(nodata) == 1 else None,
        "interleave": "band",
        "blockysize": ROWS_PER_BLOCK,
        "bigtiff": "IF_SAFER",
    }
    if bands[0].colour == ColorInterp.palette:
        options["photometric"] = "PALETTE"
    try:
        with rasterio.open(new, "w", **options) as dataset:
            if profile.gcps[0]:
                dataset.gcps = (profile.gcps[0], profile.gcps[1] or CRS())
            if profile.rpcs:
                dataset.rpcs = profile.rpcs
            dataset.descriptions = [band.description for band in bands]
            dataset.scales = [band.scale for band in bands]
            dataset.offsets = [band.offset for band in bands]
            dataset.units = [band.unit or "" for band in bands]
            dataset.colorinterp = [band.colour for band in bands]
            for namespace, tags in profile.tags.items():
                if tags := _without_taken(tags):
                    dataset.update_tags(ns=namespace or None, **tags)
            for index, band in enumerate(bands, 1):
                if band.colormap:
                    dataset.write_colormap(index, band.colormap)
                if tags := _without_taken(band.tags):
                    dataset.update_tags(index, **tags)
    except (RasterioError, CPLE_BaseError, OSError, ValueError, SystemError) as error:
        raise SceneError(
            f"A working file cannot be made in {path.parent}: {_reason(error)}. Check that the disk has room, and the "
            "raster's metadata with gdalinfo."
        ) from error
    new.replace(path)


def write_rows(path: Path, top: int, values: Array, left: int = 0) -> None:
    """Write rows (C, rows, W) into a working raster; they are on the disk when this returns."""
    try:
        with rasterio.open(path, "r+") as dataset:
            dataset.write(values, window=Window(left, top, values.shape[2], values.shape[1]))
        to_disk(path)
    except (RasterioError, CPLE_BaseError, OSError) as error:
        raise SceneError(f"Rows cannot be written to {path}: {_reason(error)}. Is the disk full?") from error


def read_rows(path: Path, top: int, bottom: int) -> Array:
    """Give rows [top, bottom) of a working raster as (C, rows, W)."""
    try:
        with rasterio.open(path) as dataset:
            rows: Array = dataset.read(window=Window(0, top, dataset.width, bottom - top))
    except (RasterioError, CPLE_BaseError, OSError) as error:
        raise SceneError(f"Rows cannot be read from {path}: {_reason(error)}. Is the disk sound?") from error
    return rows


def write_mask_rows(path: Path, top: int, mask: NDArray[np.uint8]) -> None:
    """Write rows (rows, W) of a working raster's own mask band into a file beside it; begin at row 0."""
    if top == 0:
        path.with_name(path.name + ".msk").unlink(missing_ok=True)
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=False), rasterio.open(path, "r+") as dataset:
        dataset.write_mask(mask, window=Window(0, top, mask.shape[1], mask.shape[0]))


def finish(path: Path, made: Path, profile: Profile, bands: Sequence[Band]) -> None:
    """Turn a working raster into the file to publish, in another folder, with an .aux.xml where one is needed.

    A GeoTIFF becomes a COG with overviews, and the COG is checked.
    """
    driver, options = FORMATS[_suffix(made)]
    source = _with_nodata_of_each_band(path, bands) if len({band.nodata for band in bands}) > 1 else path
    if driver == "COG":
        resampling = Resampling.nearest if any(band.colormap or band.counted for band in bands) else Resampling.average
        options = {**options, "overviews": "FORCE_USE_EXISTING" if _add_overviews(path, resampling) else "NONE"}
    rasterio.shutil.copy(source, made, driver=driver, num_threads="ALL_CPUS", **options)
    if driver == "COG":
        valid, errors, _ = cog_validate(made, quiet=True)
        if not valid:
            told = "; ".join(errors).rstrip(".")
            raise SceneError(f"{made.name} would not be a valid COG: {told}. Is the disk full? If not, report this.")
    _add_tags(made.with_name(made.name + ".aux.xml"), profile, bands)


def write_png(path: Path, picture: NDArray[np.uint8]) -> None:
    """Write a picture (3, H, W) as PNG."""
    options = {"driver": "PNG", "count": 3, "height": picture.shape[1], "width": picture.shape[2]}
    with rasterio.open(path, "w", dtype="uint8", **options) as dataset:
        dataset.write(picture)
    path.with_name(path.name + ".aux.xml").unlink(missing_ok=True)


def _suffix(target: Path) -> str:
    suffix = target.suffix.lower()
    return SAME_FORMAT.get(suffix, suffix)


def _add_overviews(path: Path, resampling: Resampling) -> bool:
    """Put overviews into a file beside a working raster; the COG driver takes 5 times as long to make them."""
    path.with_name(path.name + ".ovr").unlink(missing_ok=True)
    with rasterio.open(path) as dataset:
        height, width = dataset.shape
    factors = []
    factor = 2
    while max(height, width) > BLOCK * factor // 2 and min(height, width) >= 8 * factor:
        factors.append(factor)
        factor *= 2
    if factors:
        settings = {"TIFF_USE_OVR": True, "INTERLEAVE_OVERVIEW": "BAND", "BIGTIFF_OVERVIEW": "IF_SAFER"}
        with rasterio.Env(**settings), rasterio.open(path, "r+") as dataset:
            dataset.build_overviews(factors, resampling)
    return bool(factors)


def _with_nodata_of_each_band(path: Path, bands: Sequence[Band]) -> Path:
    """Wrap a working raster in a VRT with a nodata value for each band, which a GeoTIFF cannot have.

    When GDAL copies it, it keeps the first value in the COG and the others in the .aux.xml beside it.
    """
    wrapped = path.with_suffix(".vrt")
    rasterio.shutil.copy(path, wrapped, driver="VRT")
    tree = ElementTree.parse(wrapped)
    for element, band in zip(tree.iter("VRTRasterBand"), bands, strict=False):
        if band.nodata is not None:
            ElementTree.SubElement(element, "NoDataValue").text = repr(band.nodata)
    tree.write(wrapped)
    return wrapped


def _without_taken(tags: dict[str, str]) -> dict[str, str]:
    """Give the tags that rasterio can set: these names are its own arguments."""
    return {key: value for key, value in tags.items() if key not in _TAKEN}


def _add_tags(path: Path, profile: Profile, bands: Sequence[Band]) -> None:
    """Put tags that are not in the file itself into the .aux.xml, where GDAL looks for them.

    When it copies to a COG, GDAL 3.10 keeps either tags of other namespaces (COPY_SRC_MDD) or the tags of the bands.
    """
    of_file = {name: tags for name, tags in profile.tags.items() if name and tags}
    if taken := {key: value for key, value in profile.tags.get("", {}).items() if key in _TAKEN}:
        of_file[""] = taken
    of_bands = {
        index: taken
        for index, band in enumerate(bands, 1)
        if (taken := {key: value for key, value in band.tags.items() if key in _TAKEN})
    }
    if not of_file and not of_bands:
        return
    root = ElementTree.parse(path).getroot() if path.exists() else ElementTree.Element("PAMDataset")
    for name, tags in of_file.items():
        _add_metadata(root, name, tags)
    for index, tags in of_bands.items():
        found = next((one for one in root.iter("PAMRasterBand") if one.get("band") == str(index)), None)
        band = ElementTree.SubElement(root, "PAMRasterBand", band=str(index)) if found is None else found
        _add_metadata(band, "", tags)
    ElementTree.ElementTree(root).write(path)


def _add_metadata(parent: ElementTree.Element, domain: str, tags: dict[str, str]) -> None:
    found = next((one for one in parent.findall("Metadata") if one.get("domain", "") == domain), None)
    if found is None:
        found = ElementTree.SubElement(parent, "Metadata", {"domain": domain} if domain else {})
    for key, value in tags.items():
        ElementTree.SubElement(found, "MDI", key=key).text = value
