"""Acquisitions on a grid, read by odc-stac: only the blocks of the files that the grid needs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urljoin
from urllib.request import HTTPRedirectHandler, Request, build_opener

import numpy as np
from numpy.typing import NDArray

from attcr.addresses import hide_secrets, is_public_host, redact
from attcr.bands.sensors import RGB
from attcr.cubes.place import Grid
from attcr.cubes.search import Acquisition, Found
from attcr.cubes.sources import Source
from attcr.errors import SceneError
from attcr.extras import needed
from attcr.scenes.clouds.masks import (
    CLEAR,
    Classes,
    classes_of_fmask,
    classes_of_qa_pixel,
    classes_of_scl,
)
from attcr.scenes.clouds.opaque import is_opaque, settle
from attcr.scenes.clouds.vote import DARK
from attcr.scenes.dataset import open_dataset

with needed():
    import odc.stac
    import pystac
    from odc.geo.geobox import GeoBox
    from rasterio import Env
    from rasterio._err import CPLE_BaseError
    from rasterio.errors import RasterioError

Array = NDArray[Any]

READERS: dict[str, tuple[Callable[[Array], Classes], Callable[[Array], NDArray[np.bool_]]]] = {
    "scl": (classes_of_scl, lambda scl: scl == 3),
    "qa_pixel": (classes_of_qa_pixel, lambda qa: (qa.astype(np.uint16) & 0b10000) > 0),
    "fmask": (classes_of_fmask, lambda fmask: (fmask != 255) & ((fmask.astype(np.uint8) & 0b01000) > 0)),
}
"""How each kind of mask is read: its classes, and what it calls shadow."""
MASK, COLLECTION = "attcr_mask", "attcr"
"""The mask's name among the bands, and what odc-stac knows the items' collection by."""
MOST_REDIRECTS, PATIENCE = 10, 20.0
"""Redirections of a file that are followed, and seconds that a server has for each."""
SETTINGS: dict[str, Any] = {
    "GDAL_DISABLE_READDIR_ON_OPEN": "EMPTY_DIR",
    "GDAL_HTTP_MAX_RETRY": "4",
    "GDAL_HTTP_RETRY_DELAY": "1",
    "GDAL_HTTP_TIMEOUT": "120",
    "GDAL_HTTP_CONNECTTIMEOUT": "20",
    "GDAL_HTTP_LOW_SPEED_TIME": "30",
    "GDAL_HTTP_LOW_SPEED_LIMIT": "1000",
    "GDAL_HTTP_MERGE_CONSECUTIVE_RANGES": "YES",
    "VSI_CACHE": "TRUE",
}


@dataclass(frozen=True)
class Loaded:
    """An acquisition on a grid."""

    values: Array
    """(C, h, w), the numbers as they came."""
    classes: Classes
    """(h, w): 0 clear, 1 thin or shadow, 2 thick; with the bit `DARK` where it is shadow."""


def load(
    acquisition: Acquisition, source: Source, bands: Sequence[str], grid: Grid, *, offset: float | None = None
) -> Loaded:
    """Give an acquisition on a grid; where its items overlap, the first that has data counts.

    Pixels are the nearest ones, so numbers stay as they came. With `offset`, reflectance of number 0, they are moved to
    it in whole steps where the acquisition has another.
    """
    names = [*source.choose(bands)] + [MASK] * bool(source.mask[1])
    values = _read(acquisition, source, names, grid)
    image = np.stack([values[name] for name in names if name != MASK]).astype(source.dtype, copy=False)
    if offset is not None and offset != acquisition.offset:
        image = _moved(image, round((acquisition.offset - offset) / source.scale), source.nodata)
    classes = np.zeros(image.shape[1:], np.uint8)
    if source.mask[1]:
        read, dark = READERS[source.mask[1]]
        mask = values[MASK]
        classes = read(mask)
        seen = source.sensor(acquisition.offset if offset is None else offset)
        coloured = set(RGB) <= set(names)
        opaque = is_opaque(image[[names.index(name) for name in RGB]], seen) if coloured else None
        classes = settle(classes, opaque)
        classes = classes | np.where(dark(mask) & (classes > CLEAR), DARK, 0).astype(np.uint8)
    return Loaded(image, classes)


def _moved(image: Array, steps: int, nodata: float) -> Array:
    """Give numbers so many steps larger; none becomes nodata."""
    info = np.iinfo(image.dtype)
    moved = np.clip(image.astype(np.int64) + steps, info.min, info.max)
    return np.where(image == nodata, image, np.where(moved == nodata, nodata + 1, moved)).astype(image.dtype)


def _read(acquisition: Acquisition, source: Source, names: Sequence[str], grid: Grid) -> dict[str, Array]:
    box = GeoBox((grid.height, grid.width), grid.transform, grid.crs)
    mask_nodata = {"scl": 0, "qa_pixel": 1, "fmask": 255}.get(source.mask[1], 0)
    kinds: dict[str, Any] = {
        name: {"data_type": source.dtype, "nodata": source.nodata} for name in names if name != MASK
    }
    kinds[MASK] = {"data_type": "uint16" if source.mask[1] == "qa_pixel" else "uint8", "nodata": mask_nodata}
    odc.stac.configure_rio(**SETTINGS)
    public = is_public_host(source.api)
    with Env(**SETTINGS), told(acquisition.name):
        got = odc.stac.load(
            [_item(one, source, names) for one in acquisition.items],
            bands=list(names),
            geobox=box,
            groupby=lambda item, parsed, index: 0,
            resampling="nearest",
            stac_cfg={COLLECTION: {"assets": kinds, "warnings": "ignore"}},
            patch_url=lambda href: checked(source.sign(href), public=public),
            pool=source.requests if source.requests > 1 else None,
        )
        return {name: np.asarray(got[name].values[0]) for name in names}  # types are those that were asked for


def checked(href: str, *, public: bool = False) -> str:
    """Give an address whose file is a raster with pixels of its own; refuse one that leads to others.

    With `public`, no redirection may lead from the open internet to this machine or a private network.
    """
    if not href.startswith("ZARR:"):
        if public and href.startswith("http"):
            _stays_public(href)
        with open_dataset(href, "never") as file:
            if file.crs is None:
                raise SceneError(f"{redact(href)} does not say where on the Earth it lies.")
    return href


@lru_cache(10_000)
def _stays_public(href: str) -> None:
    """Follow redirections as GDAL will, and refuse one that leaves the open internet."""
    at = href
    for _ in range(MOST_REDIRECTS):
        if not is_public_host(at):
            raise SceneError(f"{redact(href)} leads to {redact(at)}, which is not on the open internet.")
        asked = Request(at, headers={"Range": "bytes=0-0"})
        try:
            with build_opener(_Staying).open(asked, timeout=PATIENCE) as answer:
                onward = answer.headers.get("Location") if 300 <= answer.status < 400 else None
        except HTTPError:
            return  # GDAL says what is wrong
        if onward is None:
            return
        at = urljoin(at, onward)
    raise SceneError(f"{redact(href)} leads on more than {MOST_REDIRECTS} times.")


class _Staying(HTTPRedirectHandler):
    """Gives a redirection as the answer that it is."""

    def http_error_302(self, req: Any, fp: Any, code: int, msg: str, headers: Any) -> Any:
        fp.status = code
        return fp

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


def _item(one: Found, source: Source, names: Sequence[str]) -> pystac.Item:
    """Give an item with one asset for each band, by the band's common name."""
    west, south, east, north = one.box
    ring = [[west, south], [east, south], [east, north], [west, north], [west, south]]
    item = pystac.Item(
        re.sub(r"[^\w.-]", "_", one.id), {"type": "Polygon", "coordinates": [ring]}, list(one.box), one.taken, {}
    )
    item.collection_id = COLLECTION
    for name in names:
        key, _, inner = (source.mask[0] if name == MASK else source.bands[name]).partition("/")
        href = one.assets[key]
        href = f'ZARR:"/vsicurl/{href}":/{inner}' if inner else href
        item.add_asset(name, pystac.Asset(href, media_type="image/tiff", roles=["data"]))
    return item


@contextmanager
def told(what: str) -> Iterator[None]:
    """Turn what goes wrong while reading into one sentence."""
    try:
        yield
    except SceneError:
        raise
    except (RasterioError, CPLE_BaseError, OSError, ValueError, KeyError, RuntimeError) as error:
        reason = hide_secrets(str(error.__cause__ or error) or repr(error)).splitlines()[0]
        raise SceneError(f"{redact(what)} cannot be read: {reason[:300]}") from error
