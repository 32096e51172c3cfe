"""STAC items: read a scene from an item, and write the item that says how a scene was restored."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from attcr.addresses import is_item, is_local, local_file, redact
from attcr.errors import SceneError
from attcr.extras import needed
from attcr.scenes.scene import Profile, Scene

with needed():
    import pystac
    from rasterio._err import CPLE_BaseError
    from rasterio.errors import RasterioError
    from rasterio.warp import transform_geom

_RASTERS = ("image/tiff", "image/jp2", "image/vnd.stac.geotiff")
_EXTENSIONS = (
    "processing/v1.2.0", "projection/v2.0.0", "eo/v2.0.0", "raster/v2.0.0", "classification/v2.0.0", "file/v2.1.0"
)  # fmt: skip
COMPANIONS = {"scl": "scl", "qa_pixel": "qa_pixel", "qa": "qa_pixel"}
"""Keys of the assets that tell of clouds, to how they are read."""


@dataclass(frozen=True)
class ItemBands:
    """The parts of a STAC item that make a scene."""

    bands: dict[str, str]
    """Address of each single-band asset to the band's name."""
    companions: dict[str, str]
    """"scl" or "qa_pixel" to where it is."""
    hints: dict[str, str]
    """What the item says about the product."""


@dataclass(frozen=True)
class Origin:
    """Where a STAC item comes from."""

    id: str
    collection: str
    api: str
    """The catalog that its links point to."""
    properties: dict[str, Any]


def origin_of(href: str) -> Origin:
    """Say which catalog a STAC item comes from, to search it for other items of its collection."""
    if not is_item(href):
        raise SceneError(
            f"{redact(href)} is not a STAC item, so attcr cannot search for other dates: name them with `references`."
        )
    item = _read_item(href)
    links = {str(link.rel): link.get_absolute_href() or "" for link in reversed(item.links)}
    api = links.get("root") or links.get("parent") or ""
    if not api.startswith(("http://", "https://")) or not item.collection_id:
        raise SceneError(
            f"{redact(href)} links to no catalog that can be searched for other dates: name them with `references`."
        )
    return Origin(item.id, item.collection_id, api, item.properties)


def open_item(href: str) -> ItemBands:
    """Read a STAC item's bands; the pixels stay where they are."""
    name, item = redact(href), _read_item(href)
    bands: dict[str, str] = {}
    companions: dict[str, str] = {}
    for key, asset in item.assets.items():
        address = asset.get_absolute_href()
        if address is None or not (asset.media_type or "image/tiff").lower().startswith(_RASTERS):
            continue
        if not is_local(href) and local_file(address) is not None:
            raise SceneError(f"{name} names a file of this machine as its {key}, which an item from elsewhere may not.")
        if key.lower() in COMPANIONS:
            companions[COMPANIONS[key.lower()]] = address
            continue
        described = asset.extra_fields.get("bands") or asset.extra_fields.get("eo:bands") or []
        if isinstance(described, list) and len(described) == 1 and isinstance(described[0], dict):
            bands[address] = str(described[0].get("name") or described[0].get("common_name") or key)
    if not bands:
        raise SceneError(f"{name} has no raster asset of one band: expected one entry in its `bands`.")
    properties = item.properties
    baseline = properties.get("s2:processing_baseline") or properties.get("processing:version") or ""
    hints = {
        "PRODUCT_URI": str(properties.get("s2:product_uri") or item.id),
        "PROCESSING_BASELINE": str(baseline),
        "PROCESSING_LEVEL": _level(item),
    }
    if properties.get("earthsearch:boa_offset_applied"):
        hints["offset_applied"] = "true"
    if item.datetime:
        hints["datetime"] = item.datetime.isoformat()
    return ItemBands(bands, companions, {key: value for key, value in hints.items() if value})


def _read_item(href: str) -> pystac.Item:
    name = redact(href)
    if is_local(href) and not os.path.isfile(href):  # noqa: PTH113  # it may be too long for a name
        raise SceneError(f"{name} does not exist: check the path.")
    try:
        return pystac.Item.from_file(href)
    except (
        pystac.STACError,
        pystac.STACTypeError,
        OSError,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
    ) as error:
        first = (str(error) or repr(error)).splitlines()[0]
        raise SceneError(f"{name} is not a STAC item: {first}. Expected an item with band assets.") from error


def item_of(
    scene: Scene, target: Path, files: Mapping[str, tuple[Path, Mapping[str, Any]]], properties: Mapping[str, Any]
) -> str:
    """Give the text of the item for a restored scene.

    `files` maps an asset's key to its file, which lies beside the item, and what is said of it. Nothing in the text
    depends on when or where it was made, so the same work gives the same bytes.
    """
    geometry, bbox = footprint(scene.profile)
    taken, source = when(scene)
    profile = scene.profile
    item = pystac.Item(
        id=target.stem,
        geometry=geometry,
        bbox=bbox,
        datetime=taken,
        properties={
            **properties,
            "attcr:datetime_from": source,
            "proj:shape": [profile.height, profile.width],
            "proj:transform": _finite(profile.transform),
        },
    )
    code = profile.crs.to_authority() if profile.crs else None
    item.properties["proj:code"] = ":".join(code) if code else None
    item.stac_extensions = [f"https://stac-extensions.github.io/{name}/schema.json" for name in _EXTENSIONS]
    if profile.metres:
        item.properties["gsd"] = profile.metres
    types = {".png": "image/png", ".jpg": "image/jpeg", ".webp": "image/webp"}
    for key, (path, told) in files.items():
        roles = {"restored": ["data"], "preview": ["overview"]}.get(key, ["metadata"])
        kind = types.get(path.suffix.lower(), "image/tiff; application=geotiff; profile=cloud-optimized")
        asset = pystac.Asset(href=f"./{path.name}", media_type=kind, roles=roles, extra_fields=dict(told))
        item.add_asset(key, asset)
    item.assets["restored"].extra_fields["bands"] = [
        {"name": band.name or f"band {i}"} for i, band in enumerate(scene.bands, 1)
    ]
    item.add_link(pystac.Link(pystac.RelType.DERIVED_FROM, scene.source))
    made = item.to_dict(include_self_link=False, transform_hrefs=False)
    return json.dumps(made, indent=2, allow_nan=False) + "\n"


def _finite(transform: Any) -> list[float] | None:
    """Give the six numbers of a transform; None where one is NaN or infinite, which JSON cannot express."""
    numbers = [float(number) for number in list(transform)[:6]]
    return numbers if all(map(math.isfinite, numbers)) else None


def _level(item: pystac.Item) -> str:
    told = str(item.properties.get("processing:level") or item.collection_id or "").lower()
    return "Level-2A" if "l2" in told else "Level-1C" if "l1" in told else ""


def footprint(profile: Profile) -> tuple[dict[str, Any] | None, list[float] | None]:
    """Give a scene's outline in degrees as GeoJSON, and its box; None where it has no place on the Earth."""
    if profile.crs is None:
        return None, None
    corners = profile.corners()
    ring = {"type": "Polygon", "coordinates": [[*corners, corners[0]]]}
    try:
        outline: dict[str, Any] = transform_geom(profile.crs, "EPSG:4326", ring, precision=7)
    except (RasterioError, CPLE_BaseError, ValueError, SystemError):  # a local CRS, or a place outside the projection
        return None, None
    points = [tuple(point[:2]) for point in outline["coordinates"][0]]
    lon, lat = [x for x, _ in points], [y for _, y in points]
    if not all(map(math.isfinite, (*lon, *lat))):
        return None, None
    geometry = {"type": "Polygon", "coordinates": [[list(point) for point in points]]}
    return geometry, [min(lon), min(lat), max(lon), max(lat)]


def when(scene: Scene) -> tuple[datetime, str]:
    """Give the scene's date and where it was found: "item", "tag", "name", "file" (its time), or "unknown"."""
    if "datetime" in scene.hints:
        return datetime.fromisoformat(scene.hints["datetime"]), "item"
    stamp = scene.profile.tags.get("", {}).get("TIFFTAG_DATETIME", "")
    match = re.fullmatch(r"(\d{4}):(\d\d):(\d\d) (\d\d):(\d\d):(\d\d)", stamp)
    source = "tag"
    if not match:
        name = Path(scene.hints.get("name", "").split(" ")[-1]).name
        match = re.search(r"(?<!\d)((?:19|20)\d\d)-?(\d\d)-?(\d\d)(?:T(\d\d)(\d\d)(\d\d))?(?!\d)", name)
        source = "name"
    if match:
        year, month, day, hour, minute, second = (int(number or 0) for number in match.groups())
        try:
            return datetime(year, month, day, hour, minute, second, tzinfo=timezone.utc), source
        except ValueError:
            pass
    modified = max((time for _, _, time in scene.identity), default=-1)
    if modified >= 0:
        return datetime.fromtimestamp(modified // 10**9, tz=timezone.utc), "file"
    return datetime.fromtimestamp(0, tz=timezone.utc), "unknown"
