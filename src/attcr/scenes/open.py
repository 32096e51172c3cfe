"""Open a scene: one raster, a set of band files, a SAFE-like folder or a STAC item."""

from __future__ import annotations

import itertools
import os
import re
import tarfile
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from attcr.addresses import is_item, is_local, redact
from attcr.bands.products import BAND_IN_NAME, as_stored, candidates, find_band
from attcr.bands.sensors import SENTINEL2_L1C, Sensor
from attcr.errors import SceneError, warn
from attcr.extras import needed
from attcr.scenes.dataset import open_dataset, reading
from attcr.scenes.scene import Band, Profile, Scene
from attcr.scenes.vrt import VrtRule

with needed():
    from rasterio.enums import ColorInterp, MaskFlags
    from rasterio.io import DatasetReader

DARK, DARK_SHARE = 900, 0.1
"""Digital number of Sentinel-2 below which no more than this part of a band's pixels lies where 1000 was added."""
SUFFIXES = (".tif", ".tiff", ".jp2", ".png", ".jpg", ".jpeg", ".webp", ".img", ".bmp", ".vrt")

# Namespaces that GDAL makes itself, or that are carried over in other ways.
_OWN_NAMESPACES = ("IMAGE_STRUCTURE", "DERIVED_SUBDATASETS", "SUBDATASETS", "RPC", "COLOR_PROFILE")
_METADATA = re.compile(
    r"(?:(?<![^/\\])(?:MTD_\w+\.xml|manifest\.safe|INSPIRE\.xml)|MTL\.(?:txt|xml|json))$", re.IGNORECASE
)
"""Metadata files of a product, which lie beside its bands or in a folder above them."""
_PRODUCT_TAGS = ("PROCESSING_BASELINE", "PROCESSING_LEVEL", "PRODUCT_URI", "LANDSAT_PRODUCT_ID")


def open_scene(
    source: str | Path | Sequence[str | Path],
    *,
    vrt: VrtRule = "beside",
    sensor: Sensor | None = None,
    nodata: float | None = None,
) -> Scene:
    """Open a raster, a list of band files, a SAFE-like folder, or a STAC item (.json); local, http or s3.

    For a product on disk you may also give its archive (.zip, .tar) or its metadata file (MTD_*.xml, manifest.safe,
    *_MTL.txt). `vrt` says which VRTs are accepted: those of files in their own folder ("beside"), "any" or "never".
    `sensor` is the product, if it is known; else the scene is asked for it here, once. `nodata` is the value that means
    no data, if the files do not declare it.
    """
    scene = _open(source, vrt)
    if nodata is not None:
        scene = _with_nodata(scene, nodata)
    scales, offsets = [band.scale for band in scene.bands], [band.offset for band in scene.bands]
    if sensor is not None:
        return replace(scene, products=(as_stored(sensor, scene.dtype, scales, offsets),))
    names = [*scene.names, *scene.companions]
    try:
        found = candidates(scene.hints, scene.dtype, scales, offsets, names, lambda: _is_dark(scene))
    except BaseException:
        scene.close()
        raise
    return replace(scene, products=found)


def _is_dark(scene: Scene) -> bool:
    """Say whether Sentinel-2's numbers are too small for 1000 to be among them.

    Reflectance below -0.01 in a tenth of a band's pixels would be nothing that a sensor sees. Bands that are dark on
    clear ground are looked at; of unnamed ones, all.
    """
    wanted = (find_band(SENTINEL2_L1C, scene.names, name) for name in ("cirrus", "red", "green", "blue"))
    places = [at for at in wanted if at is not None] or range(len(scene.bands))
    size = min(scene.height, scene.width, 64)
    tops, lefts = (np.linspace(0, length - size, 3).astype(int) for length in (scene.height, scene.width))
    for at in places:
        band, seen = scene.select([at]), []
        for top, left in itertools.product(tops.tolist(), lefts.tolist()):
            values = band.read(top, top + size, left=left, right=left + size)
            seen.append(values[band.valid(values, top, left=left, blank=SENTINEL2_L1C.nodata)])
        numbers = np.concatenate(seen)
        if numbers.size and np.mean(numbers < DARK) > DARK_SHARE:
            return True
    return False


def _with_nodata(scene: Scene, nodata: float) -> Scene:
    """Give the same scene with this nodata value declared for every band."""
    if scene.dtype.kind == "f":
        possible = not np.isfinite(nodata) or abs(nodata) <= np.finfo(scene.dtype).max
    else:
        info = np.iinfo(scene.dtype)
        possible = float(nodata).is_integer() and info.min <= nodata <= info.max
    if not possible:
        scene.close()
        raise SceneError(f"nodata {nodata:g} cannot be a value of {scene.dtype}: give one that can.")
    return replace(scene, bands=tuple(replace(band, nodata=float(nodata)) for band in scene.bands))


def _open(source: str | Path | Sequence[str | Path], vrt: VrtRule) -> Scene:
    if not isinstance(source, (str, Path)):
        if len(source) == 1:
            return _open(source[0], vrt)
        return _open_files([str(href) for href in source], " ".join(redact(str(href)) for href in source), vrt)
    text = str(source)
    if is_local(text) and _METADATA.search(text):
        return _open_beside(Path(text), vrt)
    if is_local(text) and text.lower().endswith((".zip", ".tar")):
        return _open_archive(Path(text), vrt)
    if is_item(text):
        from attcr.scenes.pystac import open_item  # here, so that a plain raster needs no pystac

        item = open_item(text)
        scene = _open_files(list(item.bands), redact(text), vrt, item.bands, item.companions, item.hints)
        return replace(scene, files=(text, *scene.files))
    if is_local(text) and os.path.isdir(text):  # noqa: PTH112  # it may be too long for a name
        return _open_folder(Path(text), vrt)
    return _open_raster(text, vrt)


def _open_raster(href: str, vrt: VrtRule) -> Scene:
    dataset = open_dataset(href, vrt)
    try:
        with reading(redact(href)):
            return _scene_of(href, dataset, vrt)
    except BaseException:
        dataset.close()
        raise


def _scene_of(href: str, dataset: DatasetReader, vrt: VrtRule) -> Scene:
    bands = [_band(dataset, href, index) for index in dataset.indexes]
    named = BAND_IN_NAME.search(redact(href))
    if len(bands) == 1 and not bands[0].name and named:
        bands = [replace(bands[0], name=named.group(1).upper())]
    last = bands[-1]  # GDAL takes no other for what says where pixels are; one before it is a band like any other
    alpha = replace(last, name="alpha") if last.colour == ColorInterp.alpha and len(bands) > 1 else None
    kept = tuple(band for band in bands if alpha is None or band.index != alpha.index)
    hints = _hints([href], [dataset])
    identity, files = _identity([href]), _files({href: dataset})
    return Scene(redact(href), kept, _profile(dataset), alpha, {}, hints, identity, files, vrt, {href: dataset})


def _open_folder(folder: Path, vrt: VrtRule, start: str = "") -> Scene:
    """Open the band files below a folder; if it holds several products, those whose names begin with `start`."""
    files = sorted(path for path in folder.rglob("*") if path.name.startswith(start) and path.is_file())
    return _open_files(_band_files([str(path) for path in files], folder), str(folder), vrt)


def _open_beside(metadata: Path, vrt: VrtRule) -> Scene:
    """Open the product of a metadata file: the files of its folder, or for Landsat those with its name."""
    if not metadata.is_file():
        raise SceneError(f"{metadata} does not exist: check the path.")
    return _open_folder(metadata.parent, vrt, _METADATA.sub("", metadata.name))


def _open_archive(path: Path, vrt: VrtRule) -> Scene:
    """Open the band files in an archive where they are, without unpacking it."""
    if not path.is_file():
        raise SceneError(f"{path} does not exist: check the path.")
    try:
        if path.suffix.lower() == ".zip":
            with zipfile.ZipFile(path) as archive:
                members = archive.namelist()
        else:
            with tarfile.open(path, "r:") as bundle:
                members = bundle.getnames()
    except (OSError, zipfile.BadZipFile, tarfile.TarError, ValueError, NotImplementedError) as error:
        raise SceneError(f"{path} cannot be read as an archive: {error}. Fetch it again.") from error
    system = "/vsizip/" if path.suffix.lower() == ".zip" else "/vsitar/"
    hrefs = [f"{system}{path.resolve()}/{name.removeprefix('./')}" for name in _band_files(sorted(members), path)]
    return _open_files(hrefs, str(path), vrt)


def _band_files(names: Sequence[str], source: Path) -> list[str]:
    """Give the names of band files. Quality masks (MSK_DETFOO_B02.jp2) end in the same way and are left out."""
    found = [name for name in names if name.lower().endswith(SUFFIXES) and BAND_IN_NAME.search(name)]
    named = [name for name in found if not Path(name).name.startswith("MSK_") and ".." not in Path(name).parts]
    if not named:
        raise SceneError(
            f"{source} holds no band files: expected names that end in a band, such as _B02_10m.jp2 or _SR_B4.TIF."
        )
    return named


def _open_files(
    hrefs: Sequence[str],
    source: str,
    vrt: VrtRule,
    names: dict[str, str] | None = None,
    companions: dict[str, str] | None = None,
    hints: dict[str, str] | None = None,
) -> Scene:
    """Put single-band files on the finest grid among them; if a band comes in several sizes, take the finest."""
    datasets: dict[str, DatasetReader] = {}
    companions = dict(companions or {})
    best: dict[str, str] = {}
    try:
        for href in hrefs:
            dataset = datasets[href] = open_dataset(href, vrt)
            plain = redact(href)
            found = BAND_IN_NAME.search(plain)
            name = names[href] if names else found.group(1).upper() if found else Path(plain).stem
            beside = name.lower()
            known = companions if beside in ("scl", "qa_pixel") else best
            key = beside if known is companions else name
            if dataset.count != 1:
                raise SceneError(
                    f"{plain} has {dataset.count} bands, in a set of band files: expected one band per file."
                )
            if key not in known or dataset.width > datasets[known[key]].width:
                known[key] = href
        if not best:
            raise SceneError(f"{source} holds no image band, only {', '.join(companions)}: give the bands too.")
        with reading(source):
            return replace(_one_grid(source, best, datasets, companions, hints), vrt=vrt)
    except BaseException:
        for dataset in datasets.values():
            dataset.close()
        raise


def _one_grid(
    source: str,
    files: dict[str, str],
    datasets: dict[str, DatasetReader],
    companions: dict[str, str],
    hints: dict[str, str] | None,
) -> Scene:
    finest = max((datasets[href] for href in files.values()), key=lambda dataset: dataset.width)
    bands: list[Band] = []
    for name, href in sorted(files.items(), key=lambda item: _band_order(item[0])):
        dataset = datasets[href]
        factor = round(finest.width / dataset.width)
        t = finest.transform
        coarse = (t.a * factor, t.b * factor, t.c, t.d * factor, t.e * factor, t.f)
        same = dataset.crs == finest.crs and np.allclose(tuple(dataset.transform)[:6], coarse, rtol=1e-9)
        if (dataset.width * factor, dataset.height * factor) != (finest.width, finest.height) or not same:
            raise SceneError(
                f"{redact(href)} ({dataset.width} x {dataset.height}) is not on the grid of "
                f"{redact(finest.name)} ({finest.width} x {finest.height}): bring the bands to one grid with "
                "gdalwarp."
            )
        if dataset.dtypes[0] != finest.dtypes[0]:
            raise SceneError(
                f"{redact(href)} is {dataset.dtypes[0]} and {redact(finest.name)} is {finest.dtypes[0]}: "
                "give all bands one type with gdal_translate -ot."
            )
        colour = ColorInterp.undefined if bands else ColorInterp.gray
        band = _band(dataset, href, 1)
        bands.append(replace(band, name=name, factor=factor, description=name, colour=colour))
    point = finest.tags().get("AREA_OR_POINT")
    profile = replace(_profile(finest), tags={"": {"AREA_OR_POINT": point} if point else {}}, has_mask=False)
    used = {href: datasets[href] for href in files.values()}
    read = _files(datasets)
    for href, dataset in datasets.items():
        if href not in used:
            dataset.close()
    told = {**_hints(list(files.values()), list(used.values())), **(hints or {})}
    told["name"] = f"{source} {told['name']}"
    return Scene(source, tuple(bands), profile, None, companions, told, _identity(files.values()), read, _datasets=used)


def _profile(dataset: DatasetReader) -> Profile:
    tags = {"": dataset.tags()}
    for namespace in dataset.tag_namespaces():
        if namespace not in _OWN_NAMESPACES and not namespace.startswith("xml:"):
            tags[namespace] = dataset.tags(ns=namespace)
    flags = dataset.mask_flag_enums[0]
    return Profile(
        height=dataset.height,
        width=dataset.width,
        dtype=dataset.dtypes[0],
        crs=dataset.crs,
        transform=dataset.transform,
        gcps=dataset.gcps,
        rpcs=_rpcs(dataset),
        tags=tags,
        has_mask=MaskFlags.per_dataset in flags and MaskFlags.alpha not in flags,
    )


def _rpcs(dataset: DatasetReader) -> Any:
    """Give the rational polynomial coefficients; incomplete ones are useless and left out, with a warning."""
    try:
        return dataset.rpcs
    except (ValueError, LookupError, TypeError) as error:
        _left_out(f"The RPCs of {redact(dataset.name)} are incomplete ({error!r})")
        return None


def _descriptions(dataset: DatasetReader) -> tuple[str | None, ...]:
    """Give the names of the bands; names that are not UTF-8 are left out, with a warning."""
    try:
        found: tuple[str | None, ...] = tuple(dataset.descriptions)
    except UnicodeDecodeError:
        _left_out(f"The names of the bands of {redact(dataset.name)} are not UTF-8")
        return (None,) * int(dataset.count)
    return found


def _left_out(what: str) -> None:
    warn(f"{what} and are left out.")


def _band(dataset: DatasetReader, href: str, index: int) -> Band:
    i = index - 1
    colour = dataset.colorinterp[i]
    tags = dataset.tags(index)
    description = _descriptions(dataset)[i]
    name = description or tags.get("BANDNAME")
    if not name and colour in (ColorInterp.red, ColorInterp.green, ColorInterp.blue):
        name = colour.name
    return Band(
        name=name or "",
        href=href,
        index=index,
        nodata=dataset.nodatavals[i],
        description=description,
        scale=dataset.scales[i],
        offset=dataset.offsets[i],
        unit=dataset.units[i],
        colour=colour,
        colormap=dataset.colormap(index) if colour == ColorInterp.palette else None,
        # Statistics of the cloudy pixels would be wrong for the restored ones, and QGIS stretches by them.
        tags={key: value for key, value in tags.items() if not key.startswith("STATISTICS_")},
    )


def _band_order(name: str) -> tuple[str, str]:
    return ("B08z", "") if name.upper() == "B8A" else (name, name)


def _hints(hrefs: Sequence[str], datasets: Sequence[DatasetReader]) -> dict[str, str]:
    hints = {"name": " ".join(redact(href) for href in hrefs)}
    for dataset in datasets:
        hints |= {key: value for key, value in dataset.tags().items() if key in _PRODUCT_TAGS}
    return hints


def _files(datasets: Mapping[str, DatasetReader]) -> tuple[str, ...]:
    """Give every address that these datasets are read from; for a remote dataset, its own address only."""
    found = list(datasets)
    for href, dataset in datasets.items():
        if is_local(href):
            found += dataset.files
    return tuple(dict.fromkeys(found))


def _identity(hrefs: Iterable[str]) -> tuple[tuple[str, int, int], ...]:
    found = []
    for href in hrefs:
        stat = Path(href).stat() if is_local(href) else None
        found.append((redact(href), stat.st_size if stat else -1, stat.st_mtime_ns if stat else -1))
    return tuple(sorted(found))
