"""Clouds are found by the product's mask, the user's, or a detector."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from affine import Affine
from scipy.ndimage import maximum_filter

from attcr.bands.sensors import (
    LANDSAT_C2_L2,
    REFLECTANCE,
    RGB8,
    SENTINEL2_L1C,
    SENTINEL2_L2A,
    SENTINEL2_L2A_N0400,
    Sensor,
)
from attcr.errors import SceneError
from attcr.scenes.clouds import find, voters
from attcr.scenes.clouds.find import choose_mask, find_clouds
from attcr.scenes.clouds.masks import CLEAR, CLOUD, THICK, THIN
from attcr.scenes.clouds.rim import Rim
from attcr.scenes.clouds.vote import CLASS, DARK, SURE
from attcr.scenes.clouds.voters import Network, Votes
from attcr.scenes.open import open_scene
from attcr.scenes.scene import Scene
from fake_scenes import UTM, make

NONE = Rim(0, 0)


def classes_of(scene: Scene, mask: str, folder: Path, sensor: Sensor) -> np.ndarray:
    clouds = find_clouds(replace(scene, products=(sensor,)), mask, folder, rim=NONE)
    assert clouds is not None
    return clouds.rows(0, scene.height).classes


def named(path: Path, values: np.ndarray, names: tuple[str, ...]) -> Path:
    return make(path, values, lambda file: setattr(file, "descriptions", names), **UTM)


@pytest.mark.parametrize(
    ("sensor", "dtype", "steps"),
    [
        (RGB8, "uint8", (89, 90, 242, 243)),
        (REFLECTANCE, "float32", (0.1245, 0.1246, 0.3499, 0.3501)),
        (SENTINEL2_L2A, "uint16", (1245, 1246, 3499, 3501)),
        (SENTINEL2_L2A_N0400, "uint16", (2245, 2246, 4499, 4501)),
    ],
    ids=lambda value: value.name if isinstance(value, Sensor) else "",
)
def test_brightness_sees_pictures_as_they_are_and_reflectance_as_a_picture_of_it(
    tmp_path: Path, sensor: Sensor, dtype: str, steps: tuple[float, ...]
) -> None:
    values = np.broadcast_to(np.array(steps, dtype), (3, 1, 4)).repeat(5, axis=2)
    with open_scene(named(tmp_path / "in.tif", values, ("red", "green", "blue"))) as scene:
        assert classes_of(scene, "auto", tmp_path, sensor)[0, ::5].tolist() == [CLEAR, THIN, THIN, THICK]


def test_brightness_looks_at_red_green_and_blue_wherever_they_are(tmp_path: Path) -> None:
    values = np.zeros((4, 1, 10), np.uint16)
    values[1:, 0, 5:] = 3000
    values[0, 0, :5] = 9000  # near infrared is not looked at
    path = named(tmp_path / "in.tif", values, ("B08", "B02", "B04", "B03"))
    with open_scene(path, sensor=SENTINEL2_L2A) as scene:
        assert classes_of(scene, "auto", tmp_path, SENTINEL2_L2A)[0, ::5].tolist() == [CLEAR, THIN]
        with pytest.raises(SceneError, match="red, green and blue"):
            find_clouds(scene.select([0, 1]), "auto", _empty(tmp_path), rim=NONE)


def _empty(folder: Path) -> Path:
    new = folder / "empty"
    new.mkdir(exist_ok=True)
    return new


def test_a_detector_sees_a_margin_around_each_block_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    values = np.where(rng.random((1, 1100, 1200)) < 2e-4, 255, 1).astype(np.uint8).repeat(3, axis=0)
    seen: list[tuple[int, ...]] = []

    def spread(picture: np.ndarray) -> np.ndarray:
        seen.append(picture.shape)
        return (maximum_filter(picture[0], 2 * find.MARGIN + 1, mode="constant") == 1).astype(np.uint8) * THICK

    monkeypatch.setattr(find, "classes_of_brightness", spread)
    with open_scene(make(tmp_path / "in.tif", values, photometric="RGB", **UTM)) as scene:
        found = classes_of(scene, "auto", tmp_path, RGB8)
    assert seen == [(3, 1088, 1088), (3, 1088, 240), (3, 140, 1088), (3, 140, 240)]
    assert np.array_equal(found, spread(values / np.float32(255)))
    assert 0 < (found == THICK).mean() < 1


def test_where_nothing_is_there_is_no_cloud(tmp_path: Path) -> None:
    values = np.full((3, 2, 2), 255, np.uint8)
    values[:, 0, 1] = 250  # as bright as cloud
    with open_scene(make(tmp_path / "in.tif", values, photometric="RGB", nodata=250, **UTM)) as scene:
        assert classes_of(scene, "auto", tmp_path, RGB8).tolist() == [[THICK, CLEAR], [THICK, THICK]]


@pytest.mark.parametrize(
    ("sensor", "names", "called", "order", "level"),
    [
        (
            SENTINEL2_L2A_N0400,
            ("B02", "B03", "B04", "B05", "B08", "B8A", "B11", "B12"),
            ("blue", "green", "red", "nir", "swir16", "swir22"),
            [0, 1, 2, 4, 6, 7],
            "l2a",
        ),
        (SENTINEL2_L1C, ("B04", "B03", "B02", "B08"), ("blue", "green", "red", "nir"), [2, 1, 0, 3], "l1c"),
        (
            LANDSAT_C2_L2,
            ("SR_B2", "SR_B3", "SR_B4", "SR_B5", "SR_B6", "SR_B7"),
            ("blue", "green", "red", "nir", "swir16", "swir22"),
            [0, 1, 2, 3, 4, 5],
            "l2a",
        ),
    ],
    ids=lambda value: value.name if isinstance(value, Sensor) else "",
)
def test_csmask_gets_the_bands_it_knows_in_its_order_as_reflectance(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    sensor: Sensor,
    names: tuple[str, ...],
    called: tuple[str, ...],
    order: list[int],
    level: str,
) -> None:
    values = (np.arange(len(names)) * 1000 + 5000).astype(np.uint16).reshape(-1, 1, 1)
    got: list[Any] = []

    def classify(reflectance: np.ndarray, bands: tuple[str, ...], level: str) -> np.ndarray:
        got.extend([reflectance.ravel(), bands, level])
        return np.full(reflectance.shape[1:], THIN, np.uint8)

    monkeypatch.setattr(find.ukis_csmask, "classify", classify)
    with open_scene(named(tmp_path / "in.tif", values, names)) as scene:
        assert classes_of(scene, "csmask", tmp_path, sensor).tolist() == [[THIN]]
    assert got[1:] == [called, level]
    assert np.allclose(got[0], values.ravel()[order] * sensor.scale + sensor.offset, rtol=1e-6)


def test_s2cloudless_gets_its_ten_bands_as_reflectance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = (np.arange(13) * 500 + 100).astype(np.uint16).reshape(-1, 1, 1)
    got: list[np.ndarray] = []

    def classify(reflectance: np.ndarray) -> np.ndarray:
        got.append(reflectance.ravel())
        return np.full(reflectance.shape[1:], THICK, np.uint8)

    monkeypatch.setattr(find.s2cloudless, "classify", classify)
    with open_scene(make(tmp_path / "in.tif", values, **UTM)) as scene:  # no names: the 13 bands of L1C in order
        assert classes_of(scene, "s2cloudless", tmp_path, SENTINEL2_L1C).tolist() == [[THICK]]
        with pytest.raises(SceneError, match="takes Sentinel-2 L1C"):
            find_clouds(replace(scene, products=(SENTINEL2_L2A,)), "s2cloudless", _empty(tmp_path), rim=NONE)
    # B01 B02 B04 B05 B08 B8A B09 B10 B11 B12 are bands 1 2 4 5 8 9 10 11 12 13
    assert np.allclose(got[0], [0.01, 0.06, 0.16, 0.21, 0.36, 0.41, 0.46, 0.51, 0.56, 0.61], atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "values", "wanted"),
    [
        ("scl", [[4, 9], [3, 0]], [[CLEAR, THICK], [THIN, CLEAR]]),
        ("qa_pixel", [[21824, 22280], [23888, 1]], [[CLEAR, THICK], [THIN, CLEAR]]),
        ("", [[0, 9], [3, 0]], [[CLEAR, THIN], [THIN, CLEAR]]),
    ],
)
def test_a_mask_is_read_as_what_it_is(tmp_path: Path, kind: str, values: list[list[int]], wanted: Any) -> None:
    mask = make(tmp_path / "mask.tif", np.array([values], np.uint16), **UTM)
    with open_scene(make(tmp_path / "in.tif", np.ones((3, 2, 2), np.uint8), **UTM)) as scene:
        given = f"{kind}={mask}" if kind else str(mask)
        assert classes_of(scene, given, tmp_path, RGB8).tolist() == wanted
        if kind:
            scene.companions[kind] = str(mask)
            assert classes_of(scene, kind, _empty(tmp_path), RGB8).tolist() == wanted


def test_a_tall_mask_keeps_its_rows(tmp_path: Path) -> None:
    values = np.zeros((1, 1300, 3), np.uint8)
    values[0, [0, 511, 512, 1023, 1024, 1299], [0, 1, 2, 0, 1, 2]] = 1
    mask = make(tmp_path / "mask.tif", values, **UTM)
    told: list[int] = []
    with open_scene(make(tmp_path / "in.tif", np.ones((1, 1300, 3), np.uint8), **UTM)) as scene:
        clouds = find_clouds(scene, str(mask), tmp_path, rim=NONE, on_rows=told.append)
    assert clouds is not None
    assert np.array_equal(clouds.rows(0, 1300).classes, values[0] * THICK)
    assert np.array_equal(clouds.rows(500, 520).classes, values[0, 500:520] * THICK)
    assert told == [512, 1024, 1300]


def test_clouds_once_found_are_kept_and_half_found_ones_are_not(tmp_path: Path) -> None:
    first = make(tmp_path / "first.tif", np.ones((1, 2, 2), np.uint8), **UTM)
    second = make(tmp_path / "second.tif", np.zeros((1, 2, 2), np.uint8), **UTM)
    with open_scene(make(tmp_path / "in.tif", np.ones((3, 2, 2), np.uint8), **UTM)) as scene:

        def stop(_: int) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            find_clouds(scene, str(first), tmp_path, rim=NONE, on_rows=stop)
        assert not (tmp_path / "clouds.tif").exists()
        assert classes_of(scene, str(second), tmp_path, RGB8).max() == CLEAR
        assert classes_of(scene, str(first), tmp_path, RGB8).max() == CLEAR
        assert find_clouds(scene, "none", tmp_path, rim=NONE) is None


@pytest.mark.parametrize("mask", ["auto=x", "nowhere.tif", "scl", "qa_pixel"])
def test_a_mask_that_is_not_there_is_refused(tmp_path: Path, mask: str) -> None:
    path = make(tmp_path / "in.tif", np.ones((3, 2, 2), np.uint8), **UTM)
    with open_scene(path) as scene, pytest.raises(SceneError, match="`mask"):
        find_clouds(scene, mask, tmp_path, rim=NONE)


S2CLOUDLESS = find.s2cloudless.BANDS


@pytest.mark.parametrize(
    ("sensor", "names", "installed", "wanted"),
    [
        (SENTINEL2_L1C, S2CLOUDLESS, {"s2cloudless", "ukis_csmask"}, "s2cloudless"),
        (SENTINEL2_L1C, ("B02", "B03", "B04", "B08"), {"s2cloudless", "ukis_csmask"}, "csmask"),
        (SENTINEL2_L2A, ("B02", "B03", "B04", "B08"), {"s2cloudless", "ukis_csmask"}, "csmask"),
        (SENTINEL2_L2A, ("B02", "B03", "B04", "B08"), {"s2cloudless"}, "auto"),
        (SENTINEL2_L2A, ("B02", "B03", "B04"), {"s2cloudless", "ukis_csmask"}, "auto"),
        (RGB8, ("red", "green", "blue", "nir"), {"s2cloudless", "ukis_csmask"}, "auto"),
        (RGB8, ("", "", ""), set(), "auto"),
    ],
)
def test_a_detector_is_chosen_where_it_fits_and_is_installed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    sensor: Sensor,
    names: tuple[str, ...],
    installed: set[str],
    wanted: str,
) -> None:
    monkeypatch.setattr(find, "has", lambda name: name in installed)
    path = named(tmp_path / "in.tif", np.ones((len(names), 2, 2), np.uint16), names)
    with open_scene(path, sensor=sensor) as scene:
        assert choose_mask(scene) == wanted


def test_what_the_product_brings_is_chosen_first(tmp_path: Path) -> None:
    with open_scene(named(tmp_path / "in.tif", np.ones((4, 2, 2), np.uint16), ("B02", "B03", "B04", "B08"))) as scene:
        scene.companions["qa_pixel"] = "qa.tif"
        assert choose_mask(scene) == "qa_pixel"
        scene.companions["scl"] = "scl.tif"
        assert choose_mask(scene) == "scl"


def test_without_a_mask_or_a_detector_a_scene_is_refused_unless_its_colours_are_told(tmp_path: Path) -> None:
    with open_scene(named(tmp_path / "in.tif", np.ones((4, 2, 2), np.uint8), ("a", "b", "c", "d"))) as scene:
        with pytest.raises(SceneError, match=r"`mask` \(0 is clear\), or restore every pixel with `mask=none`"):
            choose_mask(scene)
        assert choose_mask(scene, [2, 1, 0]) == "auto"


def test_cloud_that_is_opaque_in_the_image_is_thick_whatever_the_mask_says(tmp_path: Path) -> None:
    values = np.full((3, 600, 4), 2000, np.uint16)
    values[:, 590, 1:] = 4000
    scl = np.full((1, 600, 4), 4, np.uint8)
    scl[0, 590, :3] = (10, 10, 3)
    mask = make(tmp_path / "scl.tif", scl, **UTM)
    with open_scene(named(tmp_path / "in.tif", values, ("B02", "B03", "B04")), sensor=SENTINEL2_L2A) as scene:
        found = classes_of(scene, f"scl={mask}", tmp_path, SENTINEL2_L2A)
        assert found[590].tolist() == [THIN, THICK, THICK, CLEAR]
        without = find_clouds(scene.select([0]), str(mask), _empty(tmp_path), rim=NONE)
        assert without is not None
        assert (without.rows(0, 600).classes == THICK).all()


def test_where_neither_mask_nor_image_tells_cloud_is_what_the_caller_says(tmp_path: Path) -> None:
    mask = make(tmp_path / "mask.tif", np.ones((1, 2, 2), np.uint8), **UTM)
    with open_scene(make(tmp_path / "in.tif", np.ones((1, 2, 2), np.uint8), **UTM)) as scene:
        found = find_clouds(scene, str(mask), tmp_path, rim=NONE, untold=THIN)
    assert found is not None
    assert (found.rows(0, 2).classes == THIN).all()


SAND, SHADOW, CLOUDY, LAKE = (
    (0.2, 0.25, 0.3, 0.4),
    (0.12, 0.12, 0.14, 0.15),
    (0.6, 0.6, 0.6, 0.6),
    (0.1, 0.09, 0.06, 0.02),
)


def _voted(folder: Path, monkeypatch: pytest.MonkeyPatch, **kinds: tuple[Any, Any]) -> np.ndarray:
    """Give the bits of a scene of sand with squares of other kinds, of which csmask only sees what is bright."""
    image = np.empty((4, 256, 512))
    image[:] = np.reshape(SAND, (4, 1, 1))
    for spectrum, where in kinds.values():
        image[(slice(None), *where)] = np.reshape(spectrum, (4, 1, 1))

    def classify(reflectance: np.ndarray, bands: tuple[str, ...], level: str) -> np.ndarray:
        return np.where(reflectance[0] > 0.5, CLOUD, CLEAR).astype(np.uint8)

    monkeypatch.setattr(find.ukis_csmask, "classify", classify)
    names = ("blue", "green", "red", "nir")
    with open_scene(named(folder / "in.tif", (image * 1e4).astype(np.uint16), names)) as scene:
        told = replace(scene, products=(SENTINEL2_L1C,))
        network = Network(lambda values, _: np.where(values[0] > 5000, 0.1, 0.0).astype(np.float32), told)
        clouds = find_clouds(told, "csmask+network", folder, rim=NONE, network=network)
        assert clouds is not None
        assert clouds.bits is not None
        return clouds.bits(0, 256)


IN_CLOUD, IN_SHADOW = np.s_[32:96, 32:96], np.s_[32:96, 160:224]


def test_ground_darker_than_the_clear_ground_in_all_bands_is_shadow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bits = _voted(tmp_path, monkeypatch, cloud=(CLOUDY, IN_CLOUD), shadow=(SHADOW, IN_SHADOW))
    inner, beyond = bits[40:88, 168:216], bits[120:240, 20:500]
    assert (inner & CLASS == THIN).all()
    assert (inner & DARK > 0).all()
    assert not (inner & SURE).any()
    assert (beyond & CLASS == CLEAR).all()
    assert (beyond & SURE > 0).all()
    assert not (bits[40:88, 40:88] & DARK).any()


def test_light_that_is_lost_as_in_shadow_is_shadow_though_the_ground_is_hardly_dark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    light = tuple(one * (1 - 0.15 * loss) for one, loss in zip(SAND, (0.5, 0.72, 0.84, 1), strict=True))
    bits = _voted(tmp_path, monkeypatch, cloud=(CLOUDY, IN_CLOUD), shadow=(light, IN_SHADOW))
    assert (bits[40:88, 168:216] & DARK > 0).all()
    assert not (bits[120:240, 20:500] & DARK).any()


@pytest.mark.parametrize(
    "kinds",
    [
        {"shadow": (SHADOW, IN_SHADOW)},
        {"cloud": (CLOUDY, np.s_[32:64, 32:64]), "shadow": (SHADOW, IN_SHADOW)},
        {"cloud": (CLOUDY, IN_CLOUD), "lake": (LAKE, IN_SHADOW)},
        {"cloud": (CLOUDY, IN_CLOUD), "wood": ((0.05, 0.05, 0.05, SAND[3]), IN_SHADOW)},
        {"cloud": (CLOUDY, np.s_[:, 48:]), "shadow": (SHADOW, np.s_[:, 16:32])},
    ],
    ids=["no cloud", "hardly any cloud", "a lake", "a wood", "hardly any clear ground"],
)
def test_dark_ground_is_no_shadow_without_cloud_or_clear_ground_and_water_never_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kinds: dict[str, tuple[Any, Any]]
) -> None:
    bits = _voted(tmp_path, monkeypatch, **kinds)
    assert not (bits & DARK).any()


def test_what_is_no_data_is_no_clear_ground_to_compare_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = {"gone": ((0, 0, 0, 0), np.s_[:, 256:]), "cloud": (CLOUDY, IN_CLOUD), "shadow": (SHADOW, IN_SHADOW)}
    bits = _voted(tmp_path, monkeypatch, **kinds)
    assert (bits[40:88, 168:216] & DARK > 0).all()
    assert not bits[:, 260:].any()
    assert not (bits[120:, 230:] & DARK).any(), "the edge of the data is not dark"


BRIGHTENED = np.s_[1200:1280, 80:160]


def _veiled(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    veil: float,
    seen: list[int] | None = None,
    *,
    block: int = 64,
    doubt: float = 0.008,
) -> np.ndarray:
    """Give the bits of varied ground, brighter in the south, with a veil that the network hardly sees, and cloud."""
    rng = np.random.default_rng(0)
    tone = np.reshape((0.01, 0.012, 0.014, -0.01), (4, 1, 1)) * rng.standard_normal((600, 64))
    south = np.linspace(-0.025, 0.025, 600)[:, None]
    image = np.reshape(SAND, (4, 1, 1)) + south + tone + 0.003 * rng.standard_normal(tone.shape)
    image = image.repeat(4, axis=1).repeat(4, axis=2)
    image[:, 240:340, 80:160] += veil
    image[(slice(None), *BRIGHTENED)] = np.reshape(SAND, (4, 1, 1))
    image[:, 400:1000, 64:] = 0.6
    even = int(SAND[0] * 1e4)

    def classify(reflectance: np.ndarray, *_: Any) -> np.ndarray:
        return np.where(reflectance[0] > 0.5, CLOUD, CLEAR).astype(np.uint8)

    def change(values: np.ndarray, _: np.ndarray) -> np.ndarray:
        return np.select([values[0] == even, values[0] > 5000], [-0.03, 0.1], doubt).astype(np.float32)

    monkeypatch.setattr(find.ukis_csmask, "classify", classify)
    monkeypatch.setattr(voters, "VOTED", block)
    names = ("blue", "green", "red", "nir")
    with open_scene(named(folder / "in.tif", (image * 1e4).astype(np.uint16), names)) as scene:
        told = replace(scene, products=(SENTINEL2_L1C,))
        network = Network(change, told)
        on_rows = None if seen is None else seen.append
        clouds = find_clouds(told, "csmask+network", folder, rim=NONE, network=network, on_rows=on_rows)
    assert clouds is not None
    assert clouds.bits is not None
    return clouds.bits(0, 2400)


def test_a_veil_that_the_clear_ground_alone_tells_is_cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    classes = _veiled(tmp_path, monkeypatch, 0.03) & CLASS
    assert (classes[244:336, 84:156] > CLEAR).mean() > 0.95
    classes[240:340, 80:160] = classes[BRIGHTENED] = classes[360:1040] = CLEAR
    assert (classes > CLEAR).mean() < 0.05


def test_clear_ground_alone_does_not_overrule_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    classes = _veiled(tmp_path, monkeypatch, 0.03, doubt=0.0) & CLASS
    assert (classes[220:360, 60:180] > CLEAR).mean() < 0.01


def test_where_blocks_end_decides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = tmp_path / "many", tmp_path / "one"
    for folder in folders:
        folder.mkdir()
    many, one = (_veiled(at, monkeypatch, 0.03, block=side) for at, side in zip(folders, (64, 600), strict=True))
    assert (many != one).sum() < 8, "but for the last digit"


def test_ground_as_it_is_elsewhere_is_no_veil(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    bits = _veiled(tmp_path, monkeypatch, 0.0, seen)
    assert seen == [*range(256, 2400, 256), 2400], "rows are told while witnesses look"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["clouds.tif", "in.tif"]
    inner = bits[1210:1270, 90:150]
    assert (inner & CLASS > CLEAR).all(), "nothing speaks against what the network brightens"
    assert (inner & DARK > 0).all()
    bits[BRIGHTENED] = bits[360:1040] = CLEAR
    assert (bits & CLASS > CLEAR).mean() < 0.05


def test_what_was_said_is_kept_as_whole_numbers() -> None:
    dark, data = np.array([[True, False, True]]), np.array([[True, True, False]])
    said = Votes(np.array([[-3.5, 0.25, 7]]), np.array([[-9.0, 0.5, -1]]), dark, data)
    for kept, one in zip(Votes.unpacked(said.packed()), said, strict=True):
        assert np.array_equal(kept, one)


@pytest.mark.parametrize(
    ("sensor", "names", "told"),
    [
        (SENTINEL2_L1C, ("B04", "B03", "B02", "B10", "B12"), ["blue", "green", "red", "swir22"]),
        (SENTINEL2_L1C, ("B02", "B03", "B04"), []),
        (RGB8, ("red", "green", "blue", "nir"), []),
    ],
)
def test_veils_are_told_by_four_bands(tmp_path: Path, sensor: Sensor, names: tuple[str, ...], told: list[str]) -> None:
    kind = np.uint8 if sensor is RGB8 else np.uint16
    values = np.broadcast_to(np.arange(len(names), dtype=kind)[:, None, None], (len(names), 16, 16))
    with open_scene(named(tmp_path / "in.tif", values, names)) as scene:
        chosen, added = voters._veiled(replace(scene, products=(sensor,)))
        assert added == told
        assert (chosen.read(0, 1)[:, 0, 0].tolist() if chosen else []) == ([2, 1, 0, 4] if told else [])


@pytest.mark.parametrize(("witness", "haze"), [("csmask", False), ("auto", True)])
def test_what_the_network_takes_from_all_ground_is_its_bias_unless_the_others_are_blind_to_haze(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, witness: str, haze: bool
) -> None:
    def bright(image: np.ndarray) -> np.ndarray:
        return np.where(image.min(axis=0) > 0.59, CLOUD, CLEAR).astype(np.uint8)

    monkeypatch.setattr(find.ukis_csmask, "classify", lambda reflectance, *_: bright(reflectance))
    monkeypatch.setattr(find, "classes_of_brightness", bright)
    image = np.empty((4, 256, 512))
    image[:] = np.reshape(SAND, (4, 1, 1))
    image[:, 32:192, 32:192] = 0.6
    names = ("blue", "green", "red", "nir")
    with open_scene(named(tmp_path / "in.tif", (image * 1e4).astype(np.uint16), names)) as scene:
        told = replace(scene, products=(SENTINEL2_L1C,))
        network = Network(lambda values, _: np.where(values[0] > 5000, 0.13, 0.03).astype(np.float32), told)
        clouds = find_clouds(told, f"{witness}+network", tmp_path, rim=NONE, network=network)
    assert clouds is not None
    found = clouds.read(0, 256)
    assert (found[40:184, 40:184] > CLEAR).all()
    assert (found[200:, 220:] > CLEAR).all() == haze
    assert (found[200:, 220:] > CLEAR).any() == haze


@pytest.mark.parametrize("mask", ["", "scl="])
def test_of_a_mask_only_the_band_that_is_used_is_read(tmp_path: Path, mask: str) -> None:
    values = np.full((2, 64, 64), 8, np.uint8)
    clouds = make(tmp_path / "mask.tif", values, interleave="band", **UTM)
    whole = clouds.read_bytes()
    clouds.write_bytes(whole[: len(whole) - 2000])  # the second band is not all there
    with pytest.raises(rasterio.RasterioIOError), rasterio.open(clouds) as file:
        file.read(2)
    with open_scene(make(tmp_path / "in.tif", np.full((3, 64, 64), 9, np.uint8), **UTM)) as scene:
        assert (classes_of(scene, f"{mask}{clouds}", tmp_path, RGB8) > 0).all()


@pytest.mark.parametrize(
    ("sensor", "metres", "times"),
    [
        (SENTINEL2_L2A, None, 4),
        (REFLECTANCE, None, 4),
        (LANDSAT_C2_L2, None, 1),
        (LANDSAT_C2_L2, 30, 1),
        (SENTINEL2_L2A, 10, 4),
        (SENTINEL2_L2A, 20, 2),
        (SENTINEL2_L2A, 60, 1),
        (REFLECTANCE, 3, 4),
    ],
)
def test_witnesses_look_at_pixels_of_40_metres_at_most(
    tmp_path: Path, sensor: Sensor, metres: float | None, times: int
) -> None:
    grid = {} if metres is None else {**UTM, "transform": Affine(metres, 0, 600_000, 0, -metres, 5_500_000)}
    with open_scene(make(tmp_path / "in.tif", np.ones((3, 16, 16), np.uint16), **grid)) as scene:
        assert voters.times_of(replace(scene, products=(sensor,))) == times
