"""The detectors of other people, on a real pair of patches."""

from pathlib import Path

import numpy as np
import pytest
import rasterio

from attcr.scenes.masks import CLEAR, THICK
from attcr.sensors import S2_L1C_BANDS, SENTINEL2_L1C


def pixels(shared_data: Path, kind: str, names: tuple[str, ...]) -> np.ndarray:
    with rasterio.open(shared_data / "sen12mscr" / kind / "ROIs1970_fall_139_p839.tif") as scene:
        values = scene.read([S2_L1C_BANDS.index(name) + 1 for name in names])
    return SENTINEL2_L1C.to_reflectance(values)


def test_csmask_finds_clouds_in_the_cloudy_patch_and_not_in_the_clear_one(shared_data: Path) -> None:
    pytest.importorskip("ukis_csmask", reason="extra csmask")
    from attcr.scenes import ukis_csmask

    names = ("B02", "B03", "B04", "B08", "B11", "B12")
    share = {
        kind: float(
            (ukis_csmask.find_clouds(pixels(shared_data, kind, names), ukis_csmask.BANDS, "l1c") == THICK).mean()
        )
        for kind in ("s2", "s2_cloudy")
    }
    assert share["s2"] < 0.02
    assert share["s2_cloudy"] > 0.5


def test_s2cloudless_finds_clouds_in_the_cloudy_patch_and_not_in_the_clear_one(shared_data: Path) -> None:
    pytest.importorskip("s2cloudless", reason="extra s2cloudless")
    from attcr.scenes import s2cloudless

    share = {
        kind: float((s2cloudless.find_clouds(pixels(shared_data, kind, s2cloudless.BANDS)[:, :64, :64]) > CLEAR).mean())
        for kind in ("s2", "s2_cloudy")
    }
    assert share["s2"] < 0.02
    assert share["s2_cloudy"] > 0.9
