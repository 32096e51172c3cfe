"""What an image is to those who read it: a scene, a reference on its grid, or an array in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from attcr.bands.sensors import Sensor


class ImageBand(Protocol):
    """One band of an image."""

    @property
    def name(self) -> str:
        """The product's name for it; empty where nothing says."""

    @property
    def nodata(self) -> float | None:
        """The value that stands for no data, where one is declared."""


class Image(Protocol):
    """Bands on one grid, read rows at a time."""

    @property
    def height(self) -> int:
        """Rows."""

    @property
    def width(self) -> int:
        """Columns."""

    @property
    def bands(self) -> Sequence[ImageBand]:
        """Its bands, in order."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values."""

    def read(self, top: int, bottom: int) -> NDArray[Any]:
        """Give rows [top, bottom) as (C, rows, W)."""

    def valid(self, values: NDArray[Any], top: int, *, blank: float | None = None) -> NDArray[np.bool_]:
        """Say which of those values are data; `blank` is a product's value for none."""


class Reference(Image, Protocol):
    """Another image of a scene's place, on the scene's grid."""

    @property
    def name(self) -> str:
        """What messages call it."""

    @property
    def sensor(self) -> Sensor:
        """What its values are."""

    @property
    def days(self) -> int | None:
        """Days after the scene (negative: before); None where a day is not known."""
