"""Clouds of a scene as an array."""

from pathlib import Path

import numpy as np
import pytest

import attcr
from attcr.errors import ConfigError, SceneError
from fake_scenes import UTM, make


def cloudy(bands: int) -> np.ndarray:
    """Green ground in digital numbers of Sentinel-2, blue first, with a white square."""
    values = np.zeros((bands, 120, 120), np.uint16)
    values[:3] = np.array([500, 900, 600])[:, None, None]
    values[:, 40:80, 40:80] = 8000
    return values


def test_clouds_are_found_in_the_bands_that_are_named(tmp_path: Path) -> None:
    path = make(tmp_path / "in.tif", cloudy(4), **UTM)
    found = attcr.find_clouds(path, "auto", sensor="S2-L2A", bands="3,2,1")
    assert found.shape == (120, 120)
    assert found.dtype == np.uint8
    assert (found[45:75, 45:75] > 0).all()
    assert not found[:30].any()
    with pytest.raises(SceneError, match="`bands` is 3 2 and the scene has 1 2 3 4: name red, green and blue"):
        attcr.find_clouds(path, sensor="s2-l2a", bands="3,2")
    with pytest.raises(SceneError, match="red, green and blue"):
        attcr.find_clouds(path, "auto", sensor="s2-l2a")


def test_a_mask_of_ones_own_is_read_as_classes(tmp_path: Path) -> None:
    path = make(tmp_path / "in.tif", cloudy(3), **UTM)
    scl = np.full((1, 120, 120), 4, np.uint8)
    scl[:, :10], scl[:, 20:30], scl[:, 40:50] = 9, 10, 3
    mask = make(tmp_path / "scl.tif", scl, **UTM)
    found = attcr.find_clouds(path, f"scl={mask}", sensor="s2-l2a")
    assert [int(found[row, 60]) for row in (5, 15, 25, 45, 60)] == [2, 0, 1, 1, 0]
    with pytest.raises(ConfigError, match="looks for no clouds"):
        attcr.find_clouds(path, "none", sensor="s2-l2a")
