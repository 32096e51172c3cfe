"""Rasters are opened, or refused with a reason."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from affine import Affine
from rasterio.env import get_gdal_config

from attcr.errors import SceneError
from attcr.scenes.dataset import gdal, open_dataset, reading
from fake_scenes import UTM, make


def test_a_scene_opens_in_a_process_that_has_not_set_gdal_up(tmp_path: Path) -> None:
    path = make(tmp_path / "in.tif", np.full((1, 2, 3), 7, np.uint8), **UTM)
    code = f"from attcr.scenes.open import open_scene; print(open_scene({str(path)!r}).read(0, 2).tolist())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[[[7, 7, 7], [7, 7, 7]]]"


def test_a_path_that_is_no_raster_is_refused_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "empty.tif").touch()
    (tmp_path / "text.tif").write_text("hello")
    (tmp_path / "link.tif").symlink_to(tmp_path / "gone.tif")
    for name, reason in (
        ("nowhere.tif", "does not exist"),
        ("empty.tif", "0 bytes"),
        ("text.tif", "cannot be opened as a raster"),
        ("link.tif", "repair the link"),
        ("", "is not a file"),
    ):
        with pytest.raises(SceneError, match=reason):
            open_dataset(str(tmp_path / name))


def test_a_reading_error_becomes_one_sentence_and_ours_stays(tmp_path: Path) -> None:
    with (
        pytest.raises(SceneError, match=r"^in\.tif cannot be read: broken\. Check that the file is whole"),
        reading("in.tif"),
    ):
        raise OSError("broken\nand more")
    with pytest.raises(SceneError, match=r"^ours$"), reading("in.tif"):
        raise SceneError("ours")


def test_a_raster_that_lies_nowhere_is_refused(tmp_path: Path) -> None:
    path = make(tmp_path / "in.tif", np.full((1, 2, 3), 7, np.uint8), transform=Affine(10, 0, np.nan, 0, -10, np.nan))
    with pytest.raises(SceneError, match=r"has no valid position: its corner is at \(nan, nan\)"):
        open_dataset(str(path), "never")


def test_gdal_keeps_the_blocks_of_a_row_of_a_tile_while_scenes_are_read() -> None:
    with gdal():
        assert get_gdal_config("GDAL_CACHEMAX") == 320 << 20
