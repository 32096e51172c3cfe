"""A contact sheet of what an audit found: two images side by side, as they are and stretched."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from attcr.data.pairs import read_image

from .find import Audit, Finding, Picture
from .looks import Floats, levels, turn

SHOWN = ("exact", "near", "same", "mismatched", "alike")
TILE, MARGIN, CAPTION = 160, 6, 30
ROWS, COLUMNS = 10, 2  # findings on one page
AT_MOST = 120  # of one kind


def write_contact_sheets(report: Audit, folder: Path) -> list[Path]:
    """Write contact_1.png and so on: a row a finding, its two images, then both stretched to full contrast.

    Of each kind the first AT_MOST are shown; the caption says what the images are. No finding, no file.
    """
    rows = [finding for kind in SHOWN for finding in report.of(kind)[:AT_MOST]]
    size = ROWS * COLUMNS
    pages = [rows[start : start + size] for start in range(0, len(rows), size)]
    files = [folder / f"contact_{number}.png" for number in range(1, len(pages) + 1)]
    for page, file in zip(pages, files, strict=True):
        _page(page, report.colours).save(file)
    return files


def _page(findings: Sequence[Finding], colours: Sequence[int]) -> Image.Image:
    wide, high = 4 * (TILE + MARGIN) + MARGIN, TILE + CAPTION + MARGIN
    rows = -(-len(findings) // COLUMNS)
    page = Image.new("RGB", (min(len(findings), COLUMNS) * wide, rows * high + MARGIN), "white")
    pen = ImageDraw.Draw(page)
    for place, finding in enumerate(findings):
        left, top = MARGIN + place % COLUMNS * wide, MARGIN + place // COLUMNS * high
        one, other = finding.images[:2]
        pen.text((left, top), f"{_words(one)}  |  {_words(other)}", fill="black")
        pen.text((left, top + CAPTION // 2), f"{finding.kind}: {finding.note}", fill="black")
        images = turn(_read(one, colours), finding.symmetry), _read(other, colours)
        for column, tile in enumerate([*map(_tile, images), *map(_tile, map(_stretched, images))]):
            page.paste(tile, (left + column * (TILE + MARGIN), top + CAPTION))
    return page


def _words(picture: Picture) -> str:
    return f"{picture.part} {picture.name} {picture.side}"


def _read(picture: Picture, colours: Sequence[int]) -> Floats:
    return levels(read_image(Path(picture.path)), colours)


def _stretched(image: NDArray[np.float32]) -> NDArray[np.float32]:
    low, high = np.percentile(image, (1, 99), axis=(1, 2), keepdims=True)
    return np.asarray((image - low) / np.maximum(high - low, 1) * 255, np.float32)


def _tile(image: NDArray[np.float32]) -> Image.Image:
    pixels = image.clip(0, 255).astype(np.uint8).transpose(1, 2, 0)
    return Image.fromarray(np.ascontiguousarray(pixels)).resize((TILE, TILE), Image.Resampling.LANCZOS)
