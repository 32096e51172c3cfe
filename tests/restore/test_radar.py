"""Radar says a part of what is under thick cloud, where it earns that."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from affine import Affine
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from attcr.bands.sensors import REFLECTANCE
from attcr.bands.spec import InputSpec, band_slots
from attcr.errors import AttcrWarning, SceneError
from attcr.restore import RestoreOptions, restore_scene
from attcr.restore.radar import SPECKLE_METRES, Decibels
from attcr.restore.walk import CLOUD_LEFT, FROM_RADAR, ORIGINAL, QUALITY_NAMES
from attcr.scenes.open import open_scene
from attcr.scenes.scene import AlignedRaster
from fake_scenes import UTM, make, read

SIDE = 192
NAMES = ("B02", "B03", "B04", "B08")
BANDS = ("blue", "green", "red", "nir")
GRID = {**UTM, "transform": Affine(10, 0, 500_000, 0, -10, 5_000_000)}
L2A = {"PROCESSING_LEVEL": "Level-2A", "PROCESSING_BASELINE": "02.08"}


class Nothing:
    """Weights that remove thin cloud only, and change nothing."""

    identity: dict[str, str] = {"weights_sha256": "none", "dtype": "float32", "backend": "fake"}  # noqa: RUF012
    spec = InputSpec(band_slots(BANDS), BANDS, ("s2-l2a",), (10.0, 10.0), ("thin",))

    def __call__(self, x: NDArray[np.float32]) -> NDArray[np.float32]:
        return x


class Predicts(Nothing):
    """The same, expecting an error of 0.001."""

    spec = InputSpec(band_slots(BANDS), BANDS, ("s2-l2a",), (10.0, 10.0), ("thin",), spread=True)

    def __call__(self, x: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.concatenate([x, np.full_like(x, np.log(0.001))], axis=1)


class Place:
    """Ground that radar shows two thirds of, with opaque cloud in the middle."""

    def __init__(self, folder: Path) -> None:
        rng = np.random.default_rng(3)
        self.folder = folder
        wet, other = (gaussian_filter(rng.standard_normal((SIDE, SIDE)), size) * size for size in (6, 4))
        shares = np.array([[0.4, 0.2], [0.5, 0.25], [0.7, 0.3], [-0.9, 0.4]])
        self.truth = (0.2 + 0.05 * np.einsum("ij,jhw->ihw", shares, np.stack([wet, other]))).astype(np.float32)
        self.cloud = np.zeros((SIDE, SIDE), bool)
        self.cloud[60:130, 70:140] = True
        came = np.where(self.cloud, np.float32(0.8), self.truth)

        def named(file: Any) -> None:
            file.descriptions = NAMES
            file.update_tags(**L2A)

        numbers = np.rint(came * 10_000).astype(np.uint16)
        self.scene = make(folder / "scene.tif", numbers, named, **GRID)
        self.mask = make(folder / "mask.tif", self.cloud[None].astype(np.uint8), **GRID)
        speckle = rng.gamma(8, 1 / 8, (2, SIDE, SIDE))
        level = np.stack([-10 + 1.5 * wet, -17 + 1.2 * wet])
        self.decibels = (level + 10 * np.log10(speckle)).astype(np.float32)

    def radar(self, values: NDArray[Any], name: str = "radar.tif", **profile: Any) -> Path:
        return make(self.folder / name, values, **{**GRID, **profile})

    def restore(self, radar: Path | None, weights: Any = None) -> tuple[NDArray[Any], NDArray[Any], Any]:
        options = RestoreOptions(mask=str(self.mask), radar=None if radar is None else str(radar), tile=64, overlap=16)
        out = self.folder / "out.tif"
        result = restore_scene(self.scene, out, weights or Nothing(), options=options, overwrite=True)
        return read(out) / 1e4, read(result.quality)[0], result

    def error(self, made: NDArray[Any], where: NDArray[np.bool_]) -> float:
        return float(np.abs(made - self.truth)[:, where].mean())


@pytest.mark.filterwarnings("ignore::attcr.errors.AttcrWarning")
def test_thick_cloud_is_filled_by_what_radar_says(tmp_path: Path) -> None:
    place = Place(tmp_path)
    made, quality, result = place.restore(place.radar(place.decibels))
    filled = quality == FROM_RADAR
    assert filled[place.cloud].all()
    far = gaussian_filter(place.cloud.astype(float), 3) < 1e-4
    assert (quality[far] == ORIGINAL).all()
    assert np.array_equal(made[:, far], read(place.scene)[:, far] / 1e4)
    assert set(np.unique(quality)) <= {ORIGINAL, FROM_RADAR, 2}
    around = np.median(place.truth[:, ~place.cloud], axis=1)[:, None, None]
    assert place.error(made, place.cloud) < 0.6 * place.error(np.broadcast_to(around, made.shape), place.cloud)
    assert result.pixels["from radar"] == filled.sum()
    told = json.loads(result.item.read_text())["properties"]
    assert told["attcr:pixels"]["from radar"] == filled.sum()
    assert result.left == 0
    assert QUALITY_NAMES[FROM_RADAR] == "from radar"


@pytest.mark.filterwarnings("ignore::attcr.errors.AttcrWarning")
def test_the_expected_error_under_thick_cloud_is_that_of_the_estimate(tmp_path: Path) -> None:
    place = Place(tmp_path)
    made, quality, result = place.restore(place.radar(place.decibels), Predicts())
    spread = read(result.spread)[0]
    true = np.abs(made - place.truth)[:, place.cloud].mean()
    assert 0.5 < spread[place.cloud].mean() / true < 2
    assert (spread[quality == ORIGINAL] == 0).all()


@pytest.mark.filterwarnings("ignore::attcr.errors.AttcrWarning")
def test_power_says_what_decibels_say_on_any_grid(tmp_path: Path) -> None:
    place = Place(tmp_path)
    first, _, _ = place.restore(place.radar(place.decibels))
    power, _, _ = place.restore(place.radar(10 ** (place.decibels / 10), "power.tif"))
    assert np.abs(first - power).max() <= 0.0002
    coarse = place.decibels.reshape(2, SIDE // 2, 2, SIDE // 2, 2).mean(axis=(2, 4))
    grid = {**GRID, "transform": Affine(20, 0, 500_000, 0, -20, 5_000_000)}
    other, quality, _ = place.restore(place.radar(coarse, "coarse.tif", **grid))
    assert (quality[place.cloud] == FROM_RADAR).all()
    assert place.error(other, place.cloud) < 1.15 * place.error(first, place.cloud)


@pytest.mark.filterwarnings("ignore::attcr.errors.AttcrWarning")
def test_where_radar_has_no_data_cloud_stays(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.decibels[1, :95] = np.nan
    place.decibels[0, 100, 100] = -9999
    _, quality, result = place.restore(place.radar(place.decibels))
    rows = np.arange(SIDE)[:, None] >= 95
    assert (quality[place.cloud & ~rows] == CLOUD_LEFT).all()
    assert quality[100, 100] == CLOUD_LEFT
    wanted = place.cloud & rows
    wanted[100, 100] = False
    assert (quality[wanted] == FROM_RADAR).all()
    assert result.left == (quality == CLOUD_LEFT).sum()


@pytest.mark.filterwarnings("ignore:.* of the scene is under cloud")
@pytest.mark.parametrize("kind", ["constant", "noise"])
def test_radar_that_says_nothing_is_not_used_and_that_is_said(tmp_path: Path, kind: str) -> None:
    place = Place(tmp_path)
    values = np.full_like(place.decibels, -12)
    if kind == "noise":
        values += np.random.default_rng(1).normal(0, 3, values.shape).astype(np.float32)
    with pytest.warns(AttcrWarning, match=r"radar\.tif is not used: with it.*0\.\d+.*by 0\.\d+ without it"):
        _, quality, _ = place.restore(place.radar(values))
    assert (quality[place.cloud] == CLOUD_LEFT).all()


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (np.full((2, SIDE, SIDE), 300, np.uint16), "neither backscatter in decibels nor as power"),
        (np.full((2, SIDE, SIDE), np.nan, np.float32), "has no data where the scene is"),
        (np.full((3, SIDE, SIDE), -12, np.float32), "has 3 bands"),
    ],
)
def test_what_is_no_radar_is_refused(tmp_path: Path, values: NDArray[Any], said: str) -> None:
    place = Place(tmp_path)
    with pytest.raises(SceneError, match=said):
        place.restore(place.radar(values))


def test_radar_has_no_effect_without_a_mask(tmp_path: Path) -> None:
    place = Place(tmp_path)
    options = RestoreOptions(mask="none", radar=str(place.radar(place.decibels)))
    with pytest.warns(AttcrWarning, match="`radar` has no effect"):
        restore_scene(place.scene, tmp_path / "out.tif", Nothing(), options=options)


def test_speckle_is_averaged_as_power_over_metres(tmp_path: Path) -> None:
    values = np.full((1, 64, 64), -20, np.float32)
    values[0, 32, 32] = 0
    path = make(tmp_path / "radar.tif", values, **GRID)
    with open_scene(path, sensor=REFLECTANCE) as scene:
        radar = Decibels(AlignedRaster(str(path), scene.profile), scene.profile, "radar.tif")
    shown, known = radar.shows(20, 44)
    sigma = SPECKLE_METRES / 10
    peak = 0.01 + 0.99 / (2 * np.pi * sigma**2)
    assert shown[0, 12, 32] == pytest.approx(10 * np.log10(peak), abs=0.1)
    assert shown[0, 0, 0] == pytest.approx(-20, abs=1e-3)
    assert known.all()
    radar.close()


def test_without_thick_cloud_radar_is_not_used(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.mask = make(tmp_path / "clear.tif", np.zeros((1, SIDE, SIDE), np.uint8), **GRID)
    with pytest.warns(AttcrWarning, match="is not used: no thick cloud that it shows, or too little clear ground"):
        _, quality, _ = place.restore(place.radar(place.decibels))
    assert (quality == ORIGINAL).all()
