"""Read the masks of products, and users' own masks, as the classes of a cloud map."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Classes = NDArray[np.uint8]

CLEAR, THIN, THICK = 0, 1, 2
"""The classes of a cloud map; shadow counts as thin, because some of the ground shows through it."""
CLOUD = 3
"""Cloud of a mask that does not tell thin from thick; the image does (`find_clouds`)."""


def classes_of_scl(scl: Array) -> Classes:
    """Read Sentinel-2's scene classification: 9 is thick cloud, 8 cloud of any thickness, 10 cirrus, 3 shadow.

    Classes 8 and 9 say how likely cloud is, not how thick: medium probability (8) is often a veil.
    """
    table = np.zeros(256, np.uint8)
    table[[3, 10]] = THIN
    table[8], table[9] = CLOUD, THICK
    return table[np.clip(scl, 0, 255).astype(np.uint8)]


def classes_of_qa_pixel(qa: Array) -> Classes:
    """Read Landsat Collection 2's QA_PIXEL: bit 3 is cloud; rim (1), cirrus (2) and shadow (4) are thin."""
    bits = qa.astype(np.uint16)
    thin = (bits & 0b10110) > 0
    thick = (bits & 0b01000) > 0
    filled = (bits & 1) > 0
    return np.where(filled, CLEAR, np.where(thick, THICK, np.where(thin, THIN, CLEAR))).astype(np.uint8)


def classes_of_fmask(fmask: Array) -> Classes:
    """Read the Fmask of HLS: bit 1 is cloud; beside it (2) and shadow (3) are thin."""
    bits = np.clip(fmask, 0, 255).astype(np.uint8)
    thin, thick = (bits & 0b01100) > 0, (bits & 0b00010) > 0
    return np.where(bits == 255, CLEAR, np.where(thick, THICK, np.where(thin, THIN, CLEAR))).astype(np.uint8)


def classes_of_raster(values: Array) -> Classes:
    """Read a user's mask: everything that is not 0 is cloud."""
    return np.where(np.nan_to_num(values) != 0, CLOUD, CLEAR).astype(np.uint8)
