"""Open one raster with GDAL for reading, or refuse it with a reason."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from attcr.addresses import is_local, redact, redact_all
from attcr.errors import SceneError
from attcr.extras import needed
from attcr.scenes.vrt import VrtRule, check_vrt, is_vrt

with needed():
    import rasterio
    from rasterio._err import CPLE_BaseError
    from rasterio.env import env_ctx_if_needed
    from rasterio.errors import NotGeoreferencedWarning, RasterioError
    from rasterio.io import DatasetReader

# Formats that hold pixels themselves. Services are left out: a text file must not open a URL. VRTs are checked first.
DRIVERS = ("GTiff", "JP2OpenJPEG", "PNG", "JPEG", "WEBP", "HFA", "ENVI", "BMP")
BIGGEST_SCENE = 1 << 34  # pixels: 140 Sentinel-2 tiles at 10 m
BIGGEST_BLOCK = 1 << 30  # bytes GDAL must hold at once to give us one row
BOMB_RATIO = 500  # deflate reaches 1032 on zeros; a scene comes nowhere near
BOMB_BYTES = 1 << 30
CACHE = 320 << 20  # bytes of GDAL's own cache: a row of JPEG 2000 blocks of 13 bands of a Sentinel-2 tile


@contextmanager
def gdal() -> Iterator[None]:
    """Set GDAL up for scenes: bounded cache, damaged JPEGs are errors, masks inside the file."""
    settings = {
        "GDAL_CACHEMAX": CACHE,
        "GDAL_ERROR_ON_LIBJPEG_WARNING": True,
        "GDAL_PNG_WHOLE_IMAGE_OPTIM": "NO",  # it gives whatever is in memory for the lost half of a truncated file
        "GDAL_TIFF_INTERNAL_MASK": True,
        "GDAL_HTTP_MAX_RETRY": 4,
        "GDAL_HTTP_RETRY_DELAY": 1,
        "GDAL_HTTP_TIMEOUT": 120,
    }
    with rasterio.Env(**settings), warnings.catch_warnings():
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        yield


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Turn GDAL's message about a file that it cannot read into one sentence."""
    try:
        yield
    except (RasterioError, CPLE_BaseError, OSError, ValueError, MemoryError, SystemError) as error:
        if isinstance(error, SceneError):
            raise
        # GDAL's own message is the cause; rasterio's only says "Read failed. See previous exception".
        reason = str(error.__cause__ or error).splitlines()[0] if str(error.__cause__ or error) else repr(error)
        raise SceneError(
            f"{what} cannot be read: {redact_all(reason)} Check that the file is whole, for example with "
            "gdalinfo -checksum, and fetch it again if it is not."
        ) from error


def open_dataset(href: str, vrt: VrtRule = "beside") -> DatasetReader:
    """Open one raster for reading, or say in one sentence why not; `vrt` says which VRTs are accepted."""
    name = redact(href)
    drivers = [*DRIVERS, "VRT"] if vrt == "any" else list(DRIVERS)
    if is_local(href):
        path = Path(href)
        there = os.path.exists(path)  # noqa: PTH110  # a name that is too long is not there either
        if not there and os.path.islink(path):  # noqa: PTH114
            raise SceneError(f"{name} is a link to {path.readlink()}, which does not exist: repair the link.")
        if not there:
            raise SceneError(f"{name} does not exist: check the path.")
        if not path.is_file():
            raise SceneError(f"{name} is not a file: give a raster, a folder of band files or a STAC item.")
        if path.stat().st_size == 0:
            raise SceneError(f"{name} is empty (0 bytes): fetch it again.")
        if vrt != "any":
            drivers = _drivers_of(path, vrt)
    try:
        with env_ctx_if_needed(), warnings.catch_warnings():  # GDAL's drivers, where nobody called `gdal()`
            warnings.simplefilter("ignore", NotGeoreferencedWarning)
            dataset = DatasetReader(href, driver=drivers)
    except (RasterioError, CPLE_BaseError, OSError, ValueError, MemoryError, OverflowError, SystemError) as error:
        reason = redact_all(str(error).splitlines()[0] if str(error) else repr(error))
        raise SceneError(
            f"{name} cannot be opened as a raster: {reason} Expected GeoTIFF, JPEG 2000, PNG, JPEG, WebP, "
            "VRT, ENVI or Imagine; check the file with gdalinfo."
        ) from error
    try:
        _check(dataset, name)
    except SceneError:
        dataset.close()
        raise
    return dataset


def _drivers_of(path: Path, vrt: VrtRule) -> list[str]:
    """Give the formats that a local file may be opened as; refuse a VRT that the rule does not accept."""
    try:
        for beside in (path.with_name(path.name + ending) for ending in (".msk", ".ovr")):
            if beside.is_file() and is_vrt(beside):  # GDAL opens these by itself, in any format
                raise SceneError(f"{beside} is a VRT, which is not accepted beside {path.name}: remove it.")
        if not is_vrt(path):
            return list(DRIVERS)
        if vrt == "never":
            raise SceneError(f"{path} is a VRT, which is not accepted here: give the files that it names.")
        for source in check_vrt(path):
            open_dataset(str(source), "never").close()  # or GDAL would open it in any format
    except OSError as error:
        raise SceneError(f"{path} cannot be read: {error.strerror}. Check the name and its rights.") from error
    return ["VRT"]


def _check(dataset: DatasetReader, name: str) -> None:
    """Refuse what cannot be a scene, before a byte of pixels is read."""
    if dataset.count == 0:
        raise SceneError(f"{name} has no bands: give the raster itself, not a container of others.")
    pixels = dataset.width * dataset.height
    if pixels > BIGGEST_SCENE:
        raise SceneError(
            f"{name} declares {dataset.width} x {dataset.height} pixels, more than the {BIGGEST_SCENE:,} "
            "taken at once: cut it with gdal_translate -srcwin."
        )
    kinds = {np.dtype(kind).kind if not kind.startswith("complex_") else "c" for kind in dataset.dtypes}
    if kinds - set("iuf"):
        raise SceneError(f"{name} holds {dataset.dtypes[0]} values; expected integers or floats.")
    if len(set(dataset.dtypes)) > 1:
        raise SceneError(
            f"{name} mixes {', '.join(sorted(set(dataset.dtypes)))}: give all bands one type with gdal_translate -ot."
        )
    corner = (dataset.transform.c, dataset.transform.f)
    if not np.isfinite(corner).all():  # GeoTIFF would write 0
        raise SceneError(
            f"{name} has no valid position: its corner is at {corner}. Set it with gdal_edit.py -a_ullr, or remove it "
            "with -unsetgt."
        )
    item = np.dtype(dataset.dtypes[0]).itemsize
    declared = pixels * dataset.count * item
    if is_local(dataset.name) and dataset.driver != "VRT" and declared > BOMB_BYTES:
        stored = Path(dataset.name).stat().st_size
        if declared > BOMB_RATIO * stored:
            raise SceneError(
                f"{name} declares {declared / 2**30:.1f} GiB of pixels in a file of {stored:,} bytes, "
                "which no real scene does: if this is intended, expand it with gdal_translate -co "
                "COMPRESS=NONE first."
            )
    rows, cols = dataset.block_shapes[0]
    together = dataset.count if str(dataset.profile.get("interleave")) == "pixel" else 1
    block = rows * cols * item * together
    if block > BIGGEST_BLOCK:
        raise SceneError(
            f"{name} is stored in blocks of {cols} x {rows} pixels, {block / 2**30:.1f} GiB each: "
            "rewrite it with gdal_translate -co TILED=YES."
        )
