"""The walk of a pixel: which planes the network sees, and what it says of its error."""

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import rasterio
from scipy.ndimage import gaussian_filter

from attcr.bands.sensors import REFLECTANCE, S2_COMMON
from attcr.bands.spec import ANY_BANDS, SEN12MSCR, TRUE_COLOUR, InputSpec
from attcr.errors import AllCloudError, AttcrWarning, SceneError
from attcr.restore import RestoreOptions, join_blocks, plan_scene, restore_array, restore_block, restore_scene
from attcr.restore.scene import open_job
from attcr.restore.walk import CLOUD_LEFT, LARGE_ERROR, LOW_CONFIDENCE, NODATA, ORIGINAL, UNDER_THICK, UNDER_THIN
from attcr.scenes.clouds.rim import Rim
from attcr.scenes.dataset import gdal
from fake_scenes import UTM, Counting, by_position, make, read

EVERYWHERE = RestoreOptions(sensor="s2-l2a", mask="none")
LANDSAT = "LC08_L2SP_190025_20210620_20210629_02_T1"


class Watching:
    """Keeps what it saw, adds some reflectance to every band, and expects the error that it was told."""

    def __init__(self, expected: float = 0.02, spec: InputSpec = ANY_BANDS, *, added: float = 0.05) -> None:
        self.spec, self.expected, self.added = spec, expected, added
        self.identity = {"weights_sha256": "none", "backend": "none", "dtype": "float32"}
        self.seen: np.ndarray | None = None

    def __call__(self, x: np.ndarray) -> np.ndarray:
        self.seen = x
        bands = x[:, :13] + np.float32(self.added * 2.5)
        return np.concatenate([bands, np.full_like(bands, np.log(self.expected * 2.5))], axis=1)


def scene(folder: Path, names: tuple[str, ...], value: int = 2000, name: str = "scene.tif") -> Path:
    def describe(file: object) -> None:
        file.descriptions = names  # type: ignore[attr-defined]

    return make(folder / name, np.full((len(names), 40, 48), value, np.uint16), describe, **UTM)


def planes(watching: Watching) -> dict[str, float]:
    assert watching.seen is not None
    assert all(np.ptp(plane) == 0 for plane in watching.seen[0])
    return {slot.name: float(plane[0, 0]) for slot, plane in zip(watching.spec.slots, watching.seen[0], strict=True)}


def test_bands_that_are_there_are_told_from_those_that_are_not(tmp_path: Path) -> None:
    watching = Watching()
    source = scene(tmp_path, ("B02", "B03", "B04", "B8A"))
    result = restore_scene(source, tmp_path / "out.tif", watching, options=EVERYWHERE)
    seen = planes(watching)
    there = {"blue", "green", "red", "nir08"}
    assert {name for name in S2_COMMON if seen[f"present:{name}"] == 1} == there
    assert all(seen[name] == (pytest.approx(0.5) if name in there else 0) for name in S2_COMMON)
    assert seen["level:surface"] == 1
    restored = read(result.target)
    assert restored.shape == (4, 40, 48)
    assert (restored == 2500).all()


def test_the_level_is_that_of_the_product(tmp_path: Path) -> None:
    watching = Watching()
    restore_scene(
        scene(tmp_path, ("B02", "B10")), tmp_path / "o.tif", watching, options=replace(EVERYWHERE, sensor="s2-l1c")
    )
    seen = planes(watching)
    assert seen["level:surface"] == 0
    assert seen["present:cirrus"] == 1
    with pytest.raises(SceneError, match="surface or of the top of the atmosphere"):
        ANY_BANDS.match(REFLECTANCE, ("red",))


def test_a_landsat_folder_goes_in_by_wavelength_with_all_its_bands(tmp_path: Path) -> None:
    folder = tmp_path / LANDSAT
    folder.mkdir()
    for band in range(1, 8):
        scene(folder, (f"SR_B{band}",), 12000 + band, f"{LANDSAT}_SR_B{band}.TIF")
    watching = Watching()
    result = restore_scene(folder, tmp_path / "out.tif", watching, options=RestoreOptions(mask="none"))
    seen = planes(watching)
    there = {name for name in S2_COMMON if seen[f"present:{name}"] == 1}
    assert there == {"coastal", "blue", "green", "red", "nir08", "swir16", "swir22"}
    assert seen["red"] == pytest.approx(((12004 * 2.75e-5) - 0.2) * 2.5, abs=1e-6)
    with rasterio.open(result.target) as out, rasterio.open(result.quality) as quality:
        assert out.count == 7
        assert quality.nodata == NODATA


def test_the_expected_error_is_written_in_reflectance_and_large_ones_are_flagged(tmp_path: Path) -> None:
    source = scene(tmp_path, ("B02", "B03", "B04"))
    for expected, quality in ((LARGE_ERROR * 0.9, UNDER_THIN), (LARGE_ERROR * 1.1, LOW_CONFIDENCE)):
        out = tmp_path / f"{quality}.tif"
        result = restore_scene(source, out, Watching(expected), options=EVERYWHERE)
        assert result.spread is not None
        assert np.allclose(read(result.spread), expected, rtol=1e-4)
        assert (read(result.quality) == quality).all()
    half = Watching(LARGE_ERROR * 1.1, replace(ANY_BANDS, spread_factor=0.5))
    result = restore_scene(source, tmp_path / "half.tif", half, options=EVERYWHERE)
    assert np.allclose(read(result.spread), LARGE_ERROR * 0.55, rtol=1e-4)
    floor = Watching(0.012, replace(ANY_BANDS, spread_floor=0.009))
    result = restore_scene(source, tmp_path / "floor.tif", floor, options=EVERYWHERE)
    assert np.allclose(read(result.spread), 0.015, rtol=1e-4)


class Adding:
    """Keeps what it saw, and adds a part of the network's range."""

    spec = by_position(3)
    identity: ClassVar = {"weights_sha256": "none", "dtype": "float32"}

    def __init__(self, part: float = 0.1) -> None:
        self.part = np.float32(part)
        self.seen: list[np.ndarray] = []

    def __call__(self, x: np.ndarray) -> np.ndarray:
        self.seen.append(x)
        return x + self.part


def test_an_image_smaller_than_8_pixels_is_continued_to_the_right_and_below() -> None:
    adding = Adding(0.2)
    image = np.arange(45, dtype=np.uint8).reshape(3, 3, 5)
    restored = restore_array(image, adding).image
    (seen,) = adding.seen
    assert seen.shape == (1, 3, 8, 8)
    assert np.allclose(seen[0, :, :3, :5] * 255, image, atol=1e-4)
    assert (seen[0, :, :3, 5:] == seen[0, :, :3, 4:5]).all()
    assert (seen[0, :, 3:] == seen[0, :, 2:3]).all()
    assert np.array_equal(restored, image + 51)
    restore_array(np.zeros((3, 8, 8), np.uint8), adding)
    assert adding.seen[-1].shape == (1, 3, 8, 8)


@pytest.mark.parametrize(("part", "quality"), [(0.19, UNDER_THIN), (0.21, UNDER_THICK)])
def test_without_a_mask_a_change_above_a_fifth_of_the_range_counts_as_thick(part: float, quality: int) -> None:
    out = restore_array(np.full((3, 16, 16), 100, np.uint8), Adding(part))
    assert (out.quality == quality).all()


def test_a_pixel_is_no_data_only_where_no_band_has_any() -> None:
    image = np.full((3, 16, 16), 100, np.uint8)
    image[0, 0, 0] = 0
    image[:, 0, 1] = 0
    out = restore_array(image, Adding(), clouds=np.zeros((16, 16), np.uint8), options=RestoreOptions(nodata=0))
    assert out.quality[0, :3].tolist() == [ORIGINAL, NODATA, ORIGINAL]
    cloudy = restore_array(image, Adding(), clouds=np.ones((16, 16), np.uint8), options=RestoreOptions(nodata=0))
    assert cloudy.quality[0, :3].tolist() == [LOW_CONFIDENCE, NODATA, UNDER_THIN]


@pytest.mark.parametrize(
    ("came", "part", "nodata", "left"), [(10, -0.5, 0, 1), (200, 1.0, 255, 254), (100, 0.2, 151, 152)]
)
def test_a_restored_value_that_would_be_nodata_moves_one_step_within_its_type(
    came: int, part: float, nodata: int, left: int
) -> None:
    image = np.full((3, 16, 16), came, np.uint8)
    out = restore_array(image, Adding(part), options=RestoreOptions(nodata=nodata))
    assert (out.image == left).all()


def test_what_is_no_data_goes_in_as_the_mean_of_its_band_in_the_tile() -> None:
    image = np.full((3, 16, 16), 60, np.uint8)
    image[1, :, :8] = 120
    image[1, :4] = 0
    adding = Adding()
    restore_array(image, adding, options=RestoreOptions(nodata=0))
    (seen,) = adding.seen
    assert np.allclose(seen[0, 1, :4] * 255, 90, atol=1e-3)
    assert np.allclose(seen[0, 1, 4:, :8] * 255, 120, atol=1e-3)
    assert np.allclose(seen[0, [0, 2]] * 255, 60, atol=1e-3)


def test_a_mask_of_yes_and_no_is_of_thick_cloud_and_so_is_any_class_above_it() -> None:
    image = np.full((3, 16, 16), 100, np.uint8)
    classes = np.array([[0, 1, 2, 200]] * 4, np.uint8).repeat(4, 0).repeat(4, 1)
    settings = RestoreOptions(dilate=0, feather=0)
    out = restore_array(image, Adding(), clouds=classes, options=settings)
    assert out.quality[0, ::4].tolist() == [ORIGINAL, UNDER_THIN, UNDER_THICK, UNDER_THICK]
    assert (restore_array(image, Adding(), clouds=classes > 0, options=settings).quality[:, 4:] == UNDER_THICK).all()


def test_a_product_is_blank_where_all_its_bands_are() -> None:
    image = np.full((3, 16, 16), 2000, np.uint16)
    image[0, 0, 0] = 0
    image[:, 0, 1] = 0
    out = restore_array(image, Adding(), options=EVERYWHERE)
    assert out.quality[0, :3].tolist() == [UNDER_THIN, NODATA, UNDER_THIN]
    assert (out.image[:, 0, 1] == 0).all()


def test_options_tell_addresses_without_their_secrets_and_give_the_rim() -> None:
    secret = "https://user:hunter2@host/a.tif?sig=hunter2"
    told = RestoreOptions(mask=secret, radar=secret, dilate=3, feather=5)
    assert "hunter2" not in str(told.describe())
    assert (told.describe()["mask"], told.describe()["radar"]) == ("https://host/a.tif",) * 2
    assert told.rim == Rim(dilate=3, feather=5)


def test_an_old_item_is_gone_before_the_first_new_pixels_have_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = scene(tmp_path, ("B02", "B03", "B04"))
    settings = EVERYWHERE
    result = restore_scene(source, tmp_path / "out.tif", Watching(), options=settings)
    replace_file = Path.replace

    def fail_at_the_target(self: Path, target: Path) -> Path:
        if Path(target) == result.target:
            raise OSError("no more")
        return replace_file(self, target)

    monkeypatch.setattr(Path, "replace", fail_at_the_target)
    with pytest.raises((OSError, SceneError)):
        restore_scene(source, tmp_path / "out.tif", Watching(0.01), options=settings, overwrite=True)
    assert not result.item.exists()


class WithRadar(Watching):
    """Keeps what it saw and gives the bands back."""

    def __call__(self, x: np.ndarray) -> np.ndarray:
        self.seen = x
        return x[:, 2:]


def test_radar_comes_in_the_networks_range_and_its_holes_get_the_mean(tmp_path: Path) -> None:
    source = make(tmp_path / "scene.tif", np.full((13, 16, 16), 2000, np.uint16), **UTM)
    decibels = np.stack([np.full((16, 16), -10), np.full((16, 16), -40)]).astype(np.float32)
    decibels[0, :8], decibels[1, :8] = -5, -7
    decibels[0, 15, 15] = np.nan
    radar = make(tmp_path / "radar.tif", decibels, **UTM)
    watching = WithRadar(spec=SEN12MSCR)
    settings = RestoreOptions(sensor="s2-l1c", mask="none", radar=str(radar))
    restore_scene(source, tmp_path / "out.tif", watching, options=settings)
    assert watching.seen is not None
    vv, vh = watching.seen[0, :2]  # -25 to 0 dB and -35 to 0 dB become 0 to 2
    assert vv[0] == pytest.approx(1.6)
    assert vv[15, :15] == pytest.approx(1.2)
    assert vv[15, 15] == pytest.approx((128 * 1.6 + 127 * 1.2) / 255)
    assert vh[0] == pytest.approx(1.6)
    assert (vh[15] == 0).all()


def test_radar_of_another_number_of_bands_is_refused(tmp_path: Path) -> None:
    source = make(tmp_path / "scene.tif", np.full((13, 16, 16), 2000, np.uint16), **UTM)
    radar = make(tmp_path / "radar.tif", np.full((1, 16, 16), -12, np.float32), **UTM)
    settings = RestoreOptions(sensor="s2-l1c", radar=str(radar))
    with pytest.raises(SceneError, match=r"radar\.tif has 1 bands and the weights take 2 \(VV VH\)"):
        restore_scene(source, tmp_path / "out.tif", Watching(spec=SEN12MSCR), options=settings)


def test_what_decides_a_result_is_in_its_fingerprint_and_nothing_else(tmp_path: Path) -> None:
    source = scene(tmp_path, ("B02", "B03", "B04"))

    def fingerprint(model: Watching, **settings: Any) -> str:
        with gdal(), open_job(source, model, replace(EVERYWHERE, **settings)) as job:
            return job.fingerprint

    other = Watching()
    other.identity = {"weights_sha256": "other", "dtype": "float32"}
    plain = fingerprint(Watching())
    assert plain == fingerprint(Watching(), batch=2)
    assert len({plain, fingerprint(Watching(), tile=128), fingerprint(other)}) == 3


@pytest.mark.filterwarnings("ignore:These weights do not restore 1:")
def test_bright_cloud_is_found_in_the_bands_that_the_user_named(tmp_path: Path) -> None:
    values = np.full((4, 32, 32), 40, np.uint8)
    values[1:, :16, :16] = 220  # white in bands 2, 3 and 4
    source = make(tmp_path / "scene.tif", values, photometric="MINISBLACK", **UTM)
    settings = RestoreOptions(sensor="rgb8", bands=("4", "3", "2"), mask="auto", dilate=0, feather=0)
    result = restore_scene(source, tmp_path / "out.tif", Counting(0.5, spec=TRUE_COLOUR), options=settings)
    quality = read(result.quality)[0]
    assert (quality[:16, :16] == UNDER_THIN).all()
    assert (quality[16:] == ORIGINAL).all()


THIN_ONLY = Adding(0.1)
THIN_ONLY.spec = replace(by_position(3), removes=("thin",))
LINE = np.array([[0, 1, 0, 0, 0, 2, 2, 2]], np.uint8).repeat(8, 0)
"""One column of thin cloud, three of thick."""


def left_by(unseen: str, **more: Any) -> tuple[list[int], list[int]]:
    """The first row's values and classes after weights for thin cloud."""
    settings = RestoreOptions(dilate=1, feather=1, unseen=unseen, **more)  # type: ignore[arg-type]
    out = restore_array(np.full((3, 8, 8), 100, np.uint8), THIN_ONLY, clouds=LINE, options=settings)
    return out.image[0, 0].tolist(), out.quality[0].tolist()


def test_thick_cloud_is_left_to_the_bit_by_weights_that_do_not_remove_it() -> None:
    image, quality = left_by("keep")
    assert image == [126, 126, 126, 113, 100, 100, 100, 100]
    assert quality == [2, 2, 2, 2, 5, 5, 5, 5]
    assert CLOUD_LEFT == 5


def test_thick_cloud_that_is_painted_is_of_low_confidence() -> None:
    image, quality = left_by("fill")
    assert image == [126, 126, 126, 113, 126, 126, 126, 126]
    assert quality == [2, 2, 2, 2, 4, 4, 4, 4]


def test_thick_cloud_becomes_no_data_where_there_is_a_value_for_it() -> None:
    image, quality = left_by("nodata", nodata=7)
    assert image == [126, 126, 126, 113, 7, 7, 7, 7]
    assert quality == [2, 2, 2, 2, 0, 0, 0, 0]
    with pytest.raises(SceneError, match=r"\(uint8\) declares no value for that: give one with `nodata`"):
        left_by("nodata")
    floats = np.full((3, 8, 8), 0.1, np.float32)
    out = restore_array(floats, THIN_ONLY, clouds=LINE, options=RestoreOptions(dilate=0, feather=0, unseen="nodata"))
    assert np.isnan(out.image[:, :, 5:]).all()
    assert np.isfinite(out.image[:, :, :5]).all()


def test_weights_that_remove_thick_cloud_leave_none() -> None:
    out = restore_array(np.full((3, 8, 8), 100, np.uint8), Adding(0.1), clouds=LINE, options=RestoreOptions(dilate=0))
    assert (out.quality[:, 5:] == UNDER_THICK).all()
    assert (out.image[:, :, 5:] == 126).all()


def test_cloud_of_an_array_is_thick_where_its_colours_are_white() -> None:
    image = np.full((3, 8, 8), 100, np.uint8)
    image[:, :, 4:] = 250
    model = Counting(0.5, spec=TRUE_COLOUR)
    settings = RestoreOptions(dilate=0, feather=0)
    for clouds in (np.ones((8, 8), bool), np.ones((8, 8), np.uint8)):
        out = restore_array(image, model, clouds=clouds, options=settings)
        assert out.quality[0].tolist() == [UNDER_THIN] * 4 + [CLOUD_LEFT] * 4
        assert (out.image[:, :, 4:] == 250).all()
        assert (out.image[:, :, :4] == 50).all()


@pytest.mark.parametrize(("part", "quality"), [(0.19, UNDER_THIN), (0.21, LOW_CONFIDENCE)])
def test_without_a_mask_a_large_change_by_weights_for_thin_cloud_is_of_low_confidence(
    part: float, quality: int
) -> None:
    model = Adding(part)
    model.spec = THIN_ONLY.spec
    assert (restore_array(np.full((3, 16, 16), 100, np.uint8), model).quality == quality).all()


def scl_scene(folder: Path, scl: np.ndarray) -> tuple[Path, str]:
    """A scene of 40 x 48 pixels, and its mask by SCL."""
    return scene(folder, ("B02", "B03", "B04")), f"scl={make(folder / 'scl.tif', scl[None].astype(np.uint8), **UTM)}"


@pytest.mark.parametrize(
    ("unseen", "became", "value"),
    [("keep", "stays in the image", 2000), ("fill", "painted", 2500), ("nodata", "became no data", 0)],
)
def test_the_share_of_cloud_that_is_left_is_told(tmp_path: Path, unseen: Any, became: str, value: int) -> None:
    scl = np.full((40, 48), 4)
    scl[:, :12], scl[:, 24:30] = 9, 10
    source, mask = scl_scene(tmp_path, scl)
    settings = replace(EVERYWHERE, mask=mask, unseen=unseen, dilate=0, feather=0)
    with pytest.warns(AttcrWarning, match=rf"25\.0% of the scene is under cloud that these weights do not .*{became}"):
        result = restore_scene(source, tmp_path / "out.tif", Watching(), options=settings)
    assert result.left == 40 * 12
    assert result.pixels["reconstructed under thin cloud"] == 40 * 6
    assert result.pixels["cloud left as it came"] == (40 * 12 if unseen == "keep" else 0)
    assert (read(result.target)[:, :, :12] == value).all()
    assert (read(result.target)[:, :, 12:24] == 2000).all()
    spread = read(result.spread)[0]
    assert np.isnan(spread[:, :12]).all() == (unseen != "fill")
    assert (spread[:, 12:24] == 0).all()


def test_a_scene_that_is_all_cloud_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    source, mask = scl_scene(tmp_path, np.full((40, 48), 9))
    settings = replace(EVERYWHERE, mask=mask)
    before = sorted(tmp_path.iterdir())
    for resume in (False, True):
        with pytest.raises(AllCloudError, match="so nothing was written: take another date"):
            restore_scene(source, tmp_path / "out.tif", Watching(), options=settings, resume=resume)
        assert sorted(tmp_path.iterdir()) == before
    with pytest.raises(AllCloudError):
        restore_scene(source, tmp_path / "o.tif", Watching(), options=replace(settings, unseen="nodata"))
    with pytest.warns(AttcrWarning, match=r"100\.0%"):
        result = restore_scene(source, tmp_path / "out.tif", Watching(), options=replace(settings, unseen="fill"))
    assert (read(result.quality) == LOW_CONFIDENCE).all()


def test_the_mask_that_was_chosen_is_told_and_decides_the_fingerprint(tmp_path: Path) -> None:
    source = scene(tmp_path, ("B02", "B03", "B04"))
    plain = RestoreOptions(sensor="s2-l2a")
    result = restore_scene(source, tmp_path / "out.tif", Watching(), options=plain)
    assert result.mask == "auto+network"
    assert json.loads(result.item.read_text())["properties"]["attcr:options"]["mask"] == "auto+network"
    assert plan_scene(source, tmp_path / "plan.tif", Watching(), options=plain).mask == "auto+network"
    prints = []
    for mask in (None, "auto+network", "none"):
        with gdal(), open_job(source, Watching(), replace(plain, mask=mask)) as job:
            prints.append(job.fingerprint)
    assert prints[0] == prints[1] != prints[2]


def test_no_mask_is_told_and_so_is_an_option_without_effect(tmp_path: Path) -> None:
    source, mask = scl_scene(tmp_path, np.full((40, 48), 10))

    def opened(model: Watching, **settings: Any) -> None:
        with gdal(), open_job(source, model, replace(EVERYWHERE, **settings)):
            pass

    with pytest.warns(AttcrWarning, match="every pixel is restored, cloud or not"):
        opened(Watching())
    with pytest.warns(AttcrWarning, match="`unseen=fill` has no effect: there is no mask"):
        opened(Watching(), unseen="fill")
    every = Watching(spec=replace(ANY_BANDS, removes=("thin", "thick")))
    with pytest.warns(AttcrWarning, match="`unseen=fill` has no effect: these weights remove thick"):
        opened(every, mask=mask, unseen="fill")


def test_no_data_without_a_value_for_it_is_refused_before_the_work(tmp_path: Path) -> None:
    source = make(tmp_path / "in.tif", np.full((3, 16, 16), 100, np.uint8), photometric="RGB", **UTM)
    with (
        pytest.raises(SceneError, match="`nodata`"),
        gdal(),
        open_job(source, Counting(spec=TRUE_COLOUR), RestoreOptions(unseen="nodata")),
    ):
        pass


@pytest.mark.parametrize(
    ("added", "quality"), [(0.059, UNDER_THIN), (0.061, LOW_CONFIDENCE), (-0.059, UNDER_THIN), (-0.061, LOW_CONFIDENCE)]
)
def test_a_large_change_is_of_low_confidence_whatever_error_is_expected(
    tmp_path: Path, added: float, quality: int
) -> None:
    source, mask = scl_scene(tmp_path, np.full((40, 48), 10))
    for settings in (EVERYWHERE, replace(EVERYWHERE, mask=mask)):
        model = Watching(0.001, added=added)
        result = restore_scene(source, tmp_path / "out.tif", model, options=settings, overwrite=True)
        assert (read(result.quality) == quality).all()


def test_all_bands_come_out_and_those_that_are_not_restored_are_told_apart(tmp_path: Path) -> None:
    names = ("B08", "B02", "B03", "B04", "B11")
    values = np.arange(1, 6, dtype=np.uint16).reshape(-1, 1, 1).repeat(40, 1).repeat(48, 2) * 300
    values[[0, 4], :10, :12] = 0  # nothing in the bands that are not restored
    source = make(tmp_path / "in.tif", values, lambda file: setattr(file, "descriptions", names), nodata=0, **UTM)
    scl = np.full((1, 40, 48), 4, np.uint8)
    scl[:, 5:15, 6:20], scl[:, 30:, 30:] = 10, 9
    mask = f"scl={make(tmp_path / 'scl.tif', scl, **UTM)}"
    settings = RestoreOptions(sensor="s2-l2a", mask=mask, dilate=0, feather=0, ground="network")
    with pytest.warns(AttcrWarning) as told:
        result = restore_scene(source, tmp_path / "out.tif", Counting(0.5, spec=TRUE_COLOUR), options=settings)
    assert any("do not restore B08 B11: " in str(one.message) for one in told)
    restored = read(result.target)
    thin = scl[0] == 10
    assert np.array_equal(restored[[0, 4]], values[[0, 4]])
    assert np.array_equal(restored[1:4, ~thin], values[1:4, ~thin])
    assert (restored[1:4, thin] == values[1:4, thin] // 2).all()
    with rasterio.open(result.target) as out, rasterio.open(result.quality) as quality:
        assert out.descriptions == names
        assert quality.descriptions == ("quality of B02 B03 B04", "quality of B08 B11")
        of_restored, of_passed = quality.read()
    assert (of_restored[thin] == UNDER_THIN).all()
    assert (of_restored[scl[0] == 9] == CLOUD_LEFT).all()
    assert (of_restored[scl[0] == 4] == ORIGINAL).all()
    empty = values[0] == 0
    assert (of_passed[empty] == NODATA).all()
    assert (of_passed[~empty & (scl[0] != 4)] == CLOUD_LEFT).all()
    assert (of_passed[~empty & (scl[0] == 4)] == ORIGINAL).all()
    item = json.loads(result.item.read_text())
    assert [band["name"] for band in item["assets"]["restored"]["bands"]] == list(names)
    assert sum(result.pixels.values()) == 40 * 48
    parts = [tmp_path / f"{i}.zip" for i in (0, 1)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i, part in enumerate(parts):
            restore_block(source, part, Counting(0.5, spec=TRUE_COLOUR), block=(i, 2), options=settings)
        joined = join_blocks(source, parts, tmp_path / "joined.tif", Counting(0.5, spec=TRUE_COLOUR), options=settings)
    assert joined.target.read_bytes() == result.target.read_bytes()
    assert joined.quality.read_bytes() == result.quality.read_bytes()


def test_a_scene_whose_bands_are_all_restored_has_one_quality_band_with_colours(tmp_path: Path) -> None:
    result = restore_scene(scene(tmp_path, ("B04", "B03")), tmp_path / "out.tif", Watching(), options=EVERYWHERE)
    with rasterio.open(result.quality) as quality:
        assert (quality.count, quality.descriptions) == (1, ("quality",))
        assert quality.colormap(1)[CLOUD_LEFT] == (255, 211, 127, 255)


def test_what_is_no_data_under_thick_cloud_is_no_cloud_left() -> None:
    image = np.full((3, 8, 8), 100, np.uint8)
    image[:, 0, 6] = 0
    out = restore_array(image, THIN_ONLY, clouds=LINE, options=RestoreOptions(dilate=0, feather=0, nodata=0))
    assert out.quality[0, 5:].tolist() == [CLOUD_LEFT, NODATA, CLOUD_LEFT]


def veiled(folder: Path, side: int = 128) -> tuple[Path, np.ndarray, np.ndarray]:
    """A scene of three bands under a disc of veil, its ground, and the disc."""
    rng = np.random.default_rng(0)
    fine = gaussian_filter(rng.standard_normal((side, side)), 2) * 12
    ground = np.stack([1000 + 100 * fine, 1200 + 120 * fine, 1100 + 140 * fine])
    y, x = np.mgrid[:side, :side]
    disc = np.hypot(y - side / 2, x - side / 2) < side / 5
    values = np.rint(ground + disc * np.array([900, 800, 700])[:, None, None]).astype(np.uint16)

    def named(file: Any) -> None:
        file.descriptions = ("B02", "B03", "B04")

    return make(folder / "in.tif", values, named, **UTM), ground, disc


def test_clear_ground_says_what_is_under_a_veil_and_the_network_is_not_asked(tmp_path: Path) -> None:
    source, ground, disc = veiled(tmp_path)
    mask = str(make(tmp_path / "mask.tif", disc[None].astype(np.uint8), **UTM))
    settings = RestoreOptions(sensor="s2-l2a", mask=mask, dilate=0, feather=0)
    model = Watching(0.001, added=0.5)
    result = restore_scene(source, tmp_path / "out.tif", model, options=settings)
    came, restored = read(source).astype(float), read(result.target).astype(float)
    assert result.tiles_run == 0
    assert np.array_equal(came[:, ~disc], restored[:, ~disc])
    assert np.abs(restored - ground)[:, disc].mean() < 0.15 * np.abs(came - ground)[:, disc].mean()
    assert (read(result.quality)[0][disc] == UNDER_THIN).all()
    spread = read(result.spread)[0]
    assert (spread[~disc] == 0).all()
    assert 0 < spread[disc].mean() < 0.02
    plain = restore_scene(source, tmp_path / "n.tif", model, options=replace(settings, ground="network"))
    assert plain.tiles_run == 1
    assert np.abs(read(plain.target)[:, disc].astype(float) - came[:, disc]).mean() > 1000


def test_under_a_veil_another_date_says_what_the_scene_alone_cannot(tmp_path: Path) -> None:
    source, _, disc = veiled(tmp_path)
    rng = np.random.default_rng(1)
    ground, haze = (gaussian_filter(rng.standard_normal((128, 128)), 1.5) * 12 for _ in range(2))
    colours = np.array([100, 120, 140])[:, None, None]  # the veil varies as the ground does: no band tells them apart
    truth = 1500 + colours * ground
    here, other = tmp_path / "S2_20200601.tif", tmp_path / "S2_20200611.tif"
    for path, values in ((here, truth + disc * (800 + colours * haze)), (other, truth * 0.8 + 300)):
        path.write_bytes(source.read_bytes())
        with rasterio.open(path, "r+") as file:
            file.write(np.rint(values).astype(np.uint16))
    mask = str(make(tmp_path / "mask.tif", disc[None].astype(np.uint8), **UTM))
    settings = RestoreOptions(sensor="s2-l2a", mask=mask, dilate=0, feather=0, reference_mask="none")
    model, left = Watching(0.001), []
    for references in ((), (str(other),)):
        made = restore_scene(
            here, tmp_path / "out.tif", model, options=replace(settings, references=references), overwrite=True
        )
        left.append(float(np.abs(read(made.target) - truth)[:, disc].mean()))
        assert (read(made.quality)[0][disc] == UNDER_THIN).all()
    assert left[0] > 60
    assert left[1] < 0.3 * left[0]


@pytest.mark.parametrize(
    ("blue", "added", "kept"),
    [(2200, -0.08, 1.0), (2070, -0.08, 0.7), (2000, -0.08, None), (1800, -0.08, None), (2200, 0.08, None)],
    ids=["bluish", "a little", "grey", "reddish", "brighter"],
)
def test_a_large_change_is_believed_where_it_takes_light_from_what_is_bluish(
    tmp_path: Path, blue: int, added: float, kept: float | None
) -> None:
    source, mask = scl_scene(tmp_path, np.full((40, 48), 10))
    with rasterio.open(source, "r+") as file:
        file.write(np.full((40, 48), blue, np.uint16), 1)
    settings = replace(EVERYWHERE, mask=mask)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AttcrWarning)
        if kept is None:
            with pytest.raises(AllCloudError):
                restore_scene(source, tmp_path / "out.tif", Watching(0.001, added=added), options=settings)
            return
        made = restore_scene(source, tmp_path / "out.tif", Watching(0.001, added=added), options=settings)
    assert read(made.target)[:, 20, 20].tolist() == pytest.approx([blue - 800 * kept, *[2000 - 800 * kept] * 2], abs=1)
    assert (read(made.quality) == LOW_CONFIDENCE).all()


def test_in_pictures_brightness_does_not_say_what_is_clear_and_the_network_is_asked(tmp_path: Path) -> None:
    source, _, _ = veiled(tmp_path)
    picture = make(tmp_path / "picture.tif", np.minimum(read(source) // 12, 255).astype(np.uint8), **UTM)
    for mask, tiles in (("auto", 1), ("auto+network", 1), (str(tmp_path / "mask.tif"), 0)):
        make(tmp_path / "mask.tif", (read(picture).min(axis=0, keepdims=True) > 125).astype(np.uint8), **UTM)
        settings = RestoreOptions(sensor="rgb8", bands=("1", "2", "3"), mask=mask, dilate=0, feather=0)
        model = Counting(0.5, spec=TRUE_COLOUR)
        result = restore_scene(picture, tmp_path / f"{tiles}.tif", model, options=settings, overwrite=True)
        assert result.tiles_run == tiles, mask


def test_pixels_that_no_ground_reflects_spoil_no_statistics(tmp_path: Path) -> None:
    source, ground, disc = veiled(tmp_path)
    mask = str(make(tmp_path / "mask.tif", disc[None].astype(np.uint8), **UTM))
    settings = RestoreOptions(sensor="s2-l2a", mask=mask, dilate=0, feather=0)
    spoilt = read(source)
    spoilt[:, 4:8, 7] = 65535
    scene = make(
        tmp_path / "spoilt.tif", spoilt, lambda file: setattr(file, "descriptions", ("B02", "B03", "B04")), **UTM
    )
    restored = read(restore_scene(scene, tmp_path / "out.tif", Watching(0.001, added=0.5), options=settings).target)
    assert np.abs(restored.astype(float) - ground)[:, disc].mean() < 0.15 * np.abs(spoilt - ground)[:, disc].mean()


def test_without_clear_ground_a_change_that_is_not_believed_is_not_made(tmp_path: Path) -> None:
    source, mask = scl_scene(tmp_path, np.full((40, 48), 10))
    settings = replace(EVERYWHERE, mask=mask)
    values: dict[tuple[float, float], tuple[float, int] | None] = {}
    for added, expected in ((0.05, 0.001), (0.065, 0.001), (0.08, 0.001), (0.05, 0.037), (0.05, 0.045), (0.05, 0.051)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AttcrWarning)
            try:
                made = restore_scene(
                    source, tmp_path / "out.tif", Watching(expected, added=added), options=settings, overwrite=True
                )
            except AllCloudError:
                values[added, expected] = None
                continue
        values[added, expected] = (float(read(made.target).mean()) - 2000, int(read(made.quality)[0, 0, 0]))
    assert values[0.05, 0.001] == (pytest.approx(500, abs=1), UNDER_THIN)
    kept = (1.25 - 0.065 / 0.06) / 0.25
    assert values[0.065, 0.001] == (pytest.approx(650 * kept, abs=1), LOW_CONFIDENCE)
    assert values[0.08, 0.001] is None, "all of it is cloud that is left"
    assert values[0.05, 0.037] == (pytest.approx(500, abs=6), LOW_CONFIDENCE)
    assert values[0.05, 0.045] == (pytest.approx(500 * 0.7, abs=1), LOW_CONFIDENCE)
    assert values[0.05, 0.051] is None, "it may be as wrong as it is large"
