"""Clouds by brightness."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from attcr.scenes.clouds.brightness import classes_of_brightness
from attcr.scenes.clouds.masks import CLEAR, CLOUD


@pytest.mark.parametrize(
    ("red", "green", "blue", "wanted"),
    [
        (0.9, 0.9, 0.92, CLOUD),
        (0.5, 0.5, 0.55, CLOUD),
        (0.36, 0.36, 0.36, CLOUD),
        (0.34, 0.36, 0.36, CLEAR),
        (0.36, 0.34, 0.36, CLEAR),
        (0.36, 0.36, 0.34, CLEAR),
        (0.5, 0.47, 0.45, CLOUD),
        (0.5, 0.47, 0.43, CLEAR),  # 0.86 of red: soil
        (0.36, 0.5, 0.9, CLOUD),
    ],
)
def test_cloud_is_bright_in_all_colours_and_not_reddish(red: float, green: float, blue: float, wanted: int) -> None:
    picture = np.array([red, green, blue], np.float32).reshape(3, 1, 1)
    assert classes_of_brightness(picture).tolist() == [[wanted]]
    assert (classes_of_brightness(picture.repeat(9, 1).repeat(7, 2)) == wanted).all()


def test_what_is_narrower_than_five_pixels_is_no_cloud_unless_it_goes_on_beyond_the_picture() -> None:
    picture = np.zeros((3, 20, 30), np.float32)
    picture[:, 4:9, 4:9] = 0.9  # a cloud
    picture[:, 4:8, 14:28] = 0.9  # a long roof
    picture[:, 17:, 10:20] = 0.9  # seen in part
    wanted = np.zeros((20, 30), np.uint8)
    wanted[4:9, 4:9] = wanted[17:, 10:20] = CLOUD
    assert np.array_equal(classes_of_brightness(picture), wanted)


def test_what_is_no_number_is_no_cloud() -> None:
    picture = np.full((3, 9, 9), 0.9, np.float32)
    picture[0, 0, 0] = np.nan
    found = classes_of_brightness(picture)
    assert found[0, 0] == CLEAR
    assert (found[5:, 5:] == CLOUD).all()


def test_hardly_anything_of_real_clear_images_is_taken_for_cloud(shared_data: Path) -> None:
    paths = sorted((shared_data / "clear_s2_rgb").iterdir())
    assert len(paths) == 150
    pictures = (np.asarray(Image.open(path).convert("RGB")).transpose(2, 0, 1) / np.float32(255) for path in paths)
    assert np.mean([(classes_of_brightness(picture) != CLEAR).mean() for picture in pictures]) <= 0.003
