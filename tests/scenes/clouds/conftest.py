"""A real patch with and without cloud."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import rasterio

from attcr.bands.sensors import S2_L1C_BANDS, SENTINEL2_L1C


@pytest.fixture
def reflectance(shared_data: Path) -> Callable[[str, tuple[str, ...]], np.ndarray]:
    """Gives the bands of the patch `s2` (clear) or `s2_cloudy`."""

    def read(kind: str, names: tuple[str, ...]) -> np.ndarray:
        with rasterio.open(shared_data / "sen12mscr" / kind / "ROIs1970_fall_139_p839.tif") as scene:
            values = scene.read([S2_L1C_BANDS.index(name) + 1 for name in names])
        return SENTINEL2_L1C.to_reflectance(values)

    return read
