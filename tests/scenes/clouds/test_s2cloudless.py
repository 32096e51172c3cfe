"""Sentinel Hub's detector, on a real pair of patches."""

from collections.abc import Callable

import numpy as np
import pytest

from attcr.scenes.clouds import s2cloudless
from attcr.scenes.clouds.masks import CLEAR


def test_s2cloudless_finds_clouds_in_the_cloudy_patch_and_not_in_the_clear_one(
    reflectance: Callable[[str, tuple[str, ...]], np.ndarray],
) -> None:
    pytest.importorskip("s2cloudless", reason="extra s2cloudless")
    share = {
        kind: float((s2cloudless.classify(reflectance(kind, s2cloudless.BANDS)[:, :64, :64]) > CLEAR).mean())
        for kind in ("s2", "s2_cloudy")
    }
    assert share["s2"] < 0.02
    assert share["s2_cloudy"] > 0.9
