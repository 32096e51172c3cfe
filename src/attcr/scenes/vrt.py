"""VRTs are texts that name files for GDAL to read. This module decides which are accepted, before GDAL opens them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree

from attcr.errors import SceneError

VrtRule = Literal["beside", "any", "never"]
"""Which VRTs are accepted: those of plain files in or below their own folder, all, or none."""

LARGEST = 4 << 20
"""The most bytes of a VRT that is read."""
_HEAD = 4096
_ELEMENTS = re.compile(
    "vrtdataset|srs|geotransform|metadata|mdi|gcplist|gcp|vrtrasterband|description|unittype|offset|scale|colorinterp|"
    "colortable|entry|categorynames|category|histograms|histitem|histmin|histmax|bucketcount|includeoutofrange|"
    "approximate|histcounts|nodatavalue|hidenodatavalue|maskband|overviewlist|overview|simplesource|complexsource|"
    "sourcefilename|sourceband|sourceproperties|srcrect|dstrect|nodata|usemaskband|scaleoffset|scaleratio|lut|"
    "colortablecomponent|exponent|srcmin|srcmax|dstmin|dstmax|clamp|blockxsize|blockysize"
)
_ATTRIBUTES = re.compile(
    "rasterxsize|rasterysize|datatype|band|subclass|blockxsize|blockysize|relativetovrt|shared|domain|key|format|"
    "xoff|yoff|xsize|ysize|dataaxistosrsaxismapping|coordinateepoch|projection|id|info|pixel|line|x|y|z|gcppixel|"
    "gcpline|gcpx|gcpy|gcpz|c1|c2|c3|c4|resampling|minval|maxval|count"
)
_PLAIN: dict[str, set[str | None]] = {"vrtdataset": {None}, "vrtrasterband": {None, "VRTSourcedRasterBand"}}


def is_vrt(path: Path) -> bool:
    """Say whether GDAL would take a file for a VRT: it looks at the content, not at the name."""
    with path.open("rb") as file:
        return b"<vrtdataset" in file.read(_HEAD).lower()


def check_vrt(path: Path) -> list[Path]:
    """Give the files behind a VRT, or refuse one that is not of plain files in or below its own folder."""
    if path.stat().st_size > LARGEST:
        raise _refusal(path, f"it has more than {LARGEST >> 20} MiB")
    content = path.read_bytes()
    if b"<!" in content.replace(b"<!--", b""):
        raise _refusal(path, "it declares entities or holds quoted text")
    try:
        root = ElementTree.fromstring(content)
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise SceneError(f"{path} is a damaged VRT: {error}. Make it again with gdalbuildvrt.") from error
    return list(dict.fromkeys(_source(path, element) for element in _checked(path, root)))


def _checked(path: Path, root: ElementTree.Element) -> list[ElementTree.Element]:
    """Give the elements that name files. GDAL ignores upper and lower case, and takes attributes for elements."""
    named = []
    for element in root.iter():
        tag = element.tag.lower()
        if not _ELEMENTS.fullmatch(tag):
            raise _refusal(path, f"it holds <{element.tag}>")
        for attribute in element.attrib:
            if not _ATTRIBUTES.fullmatch(attribute.lower()):
                raise _refusal(path, f"<{element.tag}> has {attribute}=")
        kind = next((value for name, value in element.attrib.items() if name.lower() == "subclass"), None)
        if kind not in _PLAIN.get(tag, {None}):
            raise _refusal(path, f"<{element.tag}> is a {kind}")
        if tag == "sourcefilename":
            named.append(element)
    return named


def _source(path: Path, element: ElementTree.Element) -> Path:
    """Give a file that a VRT names, or refuse: it may lie elsewhere, be a URL, or another VRT."""
    text = element.text or ""
    relative = {name.lower(): value for name, value in element.attrib.items()}.get("relativetovrt", "0")
    folder = path.resolve().parent
    if "://" in text or text.startswith("/vsi") or re.match(r"\w{2,}:|<|\s", text) or text != text.strip():
        raise _refusal(path, f"it reads {text.split('?')[0][:80]!r}, which is not a plain file")
    named = Path(path.parent, text) if relative.strip() == "1" else Path(text)
    if not named.resolve().is_relative_to(folder):
        raise _refusal(path, f"it reads {str(named)!r}, which is not in its folder")
    if not named.is_file():
        raise SceneError(f"{path} reads {str(named)!r}, which is not there: put it there, or make the VRT again.")
    if is_vrt(named):
        raise _refusal(path, f"it reads {str(named)!r}, another VRT")
    return named


def _refusal(path: Path, reason: str) -> SceneError:
    return SceneError(
        f"{path} is a VRT that is not accepted, because {reason}: only plain files in its own folder are read. "
        "If you trust it, say so with `vrt=any`."
    )
