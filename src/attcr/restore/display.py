"""Results as HTML, for notebooks: pictures are in the page, nothing is fetched."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from pathlib import Path

from attcr.restore.walk import NODATA, QUALITY_COLOURS, QUALITY_NAMES


def legend(counts: Sequence[int]) -> str:
    """Give the classes of a quality raster that there are, each with its colour and its share of what is data."""
    total = max(sum(count for value, count in enumerate(counts) if value != NODATA), 1)
    rows = "".join(
        f'<tr><td style="background:rgb{QUALITY_COLOURS[value][:3]};width:1.5em"></td>'
        f'<td style="text-align:left">{html.escape(name)}</td><td>{counts[value] / total:.2%}</td></tr>'
        for value, name in enumerate(QUALITY_NAMES)
        if counts[value] and value != NODATA
    )
    return f"<table>{rows}</table>"


def address_of(png: bytes) -> str:
    """Give a picture as an address that holds it."""
    return "data:image/png;base64," + base64.b64encode(png).decode()


def html_of(target: Path, preview: Path, counts: Sequence[int]) -> str:
    """Give a restored scene as its picture of before and after and the shares of its classes."""
    name = html.escape(target.name)
    try:
        picture = f'<img src="{address_of(preview.read_bytes())}" alt="before and after" style="max-width:100%">'
    except OSError:  # it may have been moved since
        picture = ""
    return (
        f"<figure style='margin:0'>{picture}<figcaption>{name}: before and after</figcaption></figure>{legend(counts)}"
    )
