"""DLR's detector, on a real pair of patches."""

from collections.abc import Callable

import numpy as np
import pytest

from attcr.scenes.clouds import ukis_csmask
from attcr.scenes.clouds.masks import CLOUD


def test_csmask_finds_clouds_in_the_cloudy_patch_and_not_in_the_clear_one(
    reflectance: Callable[[str, tuple[str, ...]], np.ndarray],
) -> None:
    pytest.importorskip("ukis_csmask", reason="extra csmask")
    names = ("B02", "B03", "B04", "B08", "B11", "B12")
    share = {
        kind: float((ukis_csmask.classify(reflectance(kind, names), ukis_csmask.BANDS, "l1c") == CLOUD).mean())
        for kind in ("s2", "s2_cloudy")
    }
    assert share["s2"] < 0.02
    assert share["s2_cloudy"] > 0.5
