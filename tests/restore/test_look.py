"""Scenes of all forms are told which weights fit them, and where their clouds are."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio.shutil

import attcr
from attcr.bands.spec import TRUE_COLOUR
from attcr.errors import AttcrWarning, ConfigError, SceneError
from attcr.restore import Fit, RestoreOptions, choose_weights, restore_scene, which_weights
from attcr.restore.look import clouds_of_dates
from attcr.restore.scene import open_job
from attcr.scenes.dataset import gdal
from attcr.scenes.open import open_scene
from attcr.weights import restoring
from fake_scenes import UTM, Same, make, noise, read

S2_BANDS = ("B01", "B02", "B03", "B04", "B05", "B06", "B07", "B08", "B8A", "B09", "B10", "B11", "B12")


def dn(bands: int = 1) -> np.ndarray:
    return (noise("uint16", (bands, 60, 70)) % 9000 + 1000).astype(np.uint16)


def safe_folder(folder: Path, level: str) -> Path:
    made = folder / f"S2A_MSIL{level}_20220501T100021_N0400_R122_T33UXQ_20220501T140000.SAFE"
    image = made / "GRANULE" / f"L{level}_T33UXQ_A035812_20220501T100021" / "IMG_DATA"
    image.mkdir(parents=True)
    for i, band in enumerate(S2_BANDS if level == "1C" else [band for band in S2_BANDS if band != "B10"]):
        values = (noise("uint16", (1, 60, 70), i) % 6000 + 4000).astype(np.uint16)
        ending = "" if level == "1C" else "_10m"
        make(
            image / f"T33UXQ_20220501T100021_{band}{ending}.jp2", values, driver="JP2OpenJPEG", reversible="YES", **UTM
        )
    return made


def landsat_folder(folder: Path) -> Path:
    made = folder / "LC08_L2SP_190025_20210620_20210629_02_T1"
    made.mkdir()
    for band in range(1, 8):
        make(made / f"{made.name}_SR_B{band}.TIF", dn() + 7000, **UTM)
    return made


def four_bands(folder: Path) -> Path:
    def name(file: object) -> None:
        file.descriptions = ("B02", "B03", "B04", "B08")  # type: ignore[attr-defined]

    return make(folder / "four.tif", dn(4), name, **UTM)


def picture(folder: Path) -> Path:
    return make(folder / "photo.png", noise("uint8", (3, 60, 70)), driver="PNG")


def reflectance(folder: Path) -> Path:
    def name(file: object) -> None:
        file.descriptions = ("red", "green", "blue", "nir")  # type: ignore[attr-defined]

    return make(folder / "float.tif", np.random.default_rng(0).random((4, 60, 70), np.float32), name, **UTM)


def verdicts(fits: list[Fit]) -> dict[str, bool]:
    return {fit.weights: fit.fits for fit in fits}


@pytest.mark.parametrize(
    ("build", "bands"),
    [
        pytest.param(lambda folder: safe_folder(folder, "1C"), "red (B04), green (B03), blue (B02)", id="SAFE L1C"),
        pytest.param(lambda folder: safe_folder(folder, "2A"), "red (B04), green (B03), blue (B02)", id="SAFE L2A"),
        pytest.param(landsat_folder, "red (B4), green (B3), blue (B2)", id="Landsat C2 L2"),
        pytest.param(picture, "red (red), green (green), blue (blue)", id="8-bit picture"),
        pytest.param(reflectance, "red (red), green (green), blue (blue)", id="float reflectance"),
    ],
)
def test_five_kinds_of_scene_are_told_which_weights_fit(
    tmp_path: Path, build: Callable[[Path], Path], bands: str
) -> None:
    source = build(tmp_path)
    fits = which_weights(source)
    assert verdicts(fits)["rgb-thin"]
    assert verdicts(fits)["s2-thin"] == (source.suffix not in (".png", ".tif"))  # their product is not told
    assert not verdicts(fits)["rice2-small"]
    assert fits[0].fits  # those that fit come first
    assert f"removes thin cloud from {bands}." in next(fit.reason for fit in fits if fit.weights == "rgb-thin")
    why = next(fit.reason for fit in fits if fit.weights == "rice2-small")
    expected = "the weights take swir16 nir08 red" if source.suffix == ".png" else "take rgb8, picture"
    assert expected in why


def test_where_the_product_is_not_told_the_remedy_is(tmp_path: Path) -> None:
    source = four_bands(tmp_path)
    untold, told = (
        {fit.weights: fit.reason for fit in fits}
        for fits in (which_weights(source), which_weights(source, sensor="s2-l2a"))
    )
    assert "name it with `sensor`, one of s2-l1c, s2-l1c-n0400, s2-l2a, s2-l2a-n0400 (" in untold["rgb-thin"]
    assert set(untold.values()) == {untold["rgb-thin"]}
    assert told["s2-thin"].startswith("removes thin cloud from blue (B02), green (B03), red (B04), nir (B08).")


DARK, LIGHT = 200, 1200
"""The smallest digital number: below 1000, it was not added."""
FOUR = ("B02", "B03", "B04", "B08")


def raster(
    name: str,
    bands: tuple[str, ...],
    low: int = DARK,
    dtype: str = "uint16",
    scale: float = 1,
    values: np.ndarray | None = None,
) -> Callable[[Path], Path]:
    def describe(file: object) -> None:
        if any(bands):
            file.descriptions = bands  # type: ignore[attr-defined]
        file.scales = (scale,) * len(bands)  # type: ignore[attr-defined]

    if values is None:
        values = noise("uint16", (len(bands), 60, 70)).astype(int) % 2000 + low
    numbers = values.astype(dtype)
    return lambda folder: make(folder / name, numbers, describe, photometric="MINISBLACK", **UTM)


def band_files(folder: str, *names: str, low: int = DARK) -> Callable[[Path], Path]:
    def build(root: Path) -> Path:
        (root / folder).mkdir()
        for i, name in enumerate(names):
            make(root / folder / name, (noise("uint16", (1, 60, 70), i) % 2000 + low).astype(np.uint16), **UTM)
        return root / folder

    return build


FORMS: dict[str, tuple[Callable[[Path], Path], dict[str, Any], str | None, set[str]]] = {
    # How it comes, what is said with it, which product it is, and which weights fit.
    "SAFE L1C": (lambda folder: safe_folder(folder, "1C"), {}, "s2-l1c-n0400", {"s2-thin", "rgb-thin"}),
    "SAFE L2A": (lambda folder: safe_folder(folder, "2A"), {}, "s2-l2a-n0400", {"s2-thin", "rgb-thin"}),
    "ESA's name": (
        raster("S2A_MSIL2A_20220902T142701_N0400_R053_T20LMR.tif", FOUR, LIGHT),
        {}, "s2-l2a-n0400", {"s2-thin", "rgb-thin"},
    ),
    "ESA's name, no baseline": (
        raster("S2A_MSIL2A_20220902T142701_T20LMR.tif", FOUR, LIGHT), {}, "s2-l2a-n0400", {"s2-thin", "rgb-thin"},
    ),
    "ESA's name, harmonised": (
        raster("S2A_MSIL2A_20220902T142701_T20LMR.tif", FOUR), {}, "s2-l2a", {"s2-thin", "rgb-thin"},
    ),
    "ESA's name, 2021": (raster("S2A_MSIL2A_20210902T142701_T20LMR.tif", FOUR, LIGHT), {}, None, set()),
    "ESA's name, values of another product": (
        raster("S2A_MSIL2A_20220902T142701_N0400_R053_T20LMR.tif", FOUR, -1200, "int16"), {}, "s2-l2a-n0400", set(),
    ),
    "band files of L2A": (
        band_files("r10m", *(f"T20LMR_20220902T142701_{band}_10m.tif" for band in FOUR), low=LIGHT),
        {}, "s2-l2a-n0400", {"s2-thin", "rgb-thin"},
    ),
    "one band file": (
        raster("T20LMR_20220902T142701_B04_10m.tif", ("",), LIGHT), {}, "s2-l2a-n0400", {"s2-thin"},
    ),
    "bare bands and SCL": (band_files("bare", "B02.tif", "B03.tif", "B04.tif", "SCL.tif"), {}, "s2-l2a",
        {"s2-thin", "rgb-thin"}),
    "bare bands": (band_files("bare", "B02.tif", "B03.tif", "B04.tif"), {}, None, set()),
    "13 named bands": (raster("13.tif", S2_BANDS), {}, "s2-l1c", {"s2-thin", "rgb-thin"}),
    "4 named bands": (raster("four.tif", FOUR), {}, None, set()),
    "4 named bands of a product": (
        raster("four.tif", FOUR), {"sensor": "s2-l2a"}, "s2-l2a", {"s2-thin", "rgb-thin"},
    ),
    "4 unnamed bands": (raster("four.tif", ("",) * 4), {}, None, set()),
    "4 unnamed bands of a product": (raster("four.tif", ("",) * 4), {"sensor": "s2-l2a"}, "s2-l2a", set()),
    "4 unnamed bands, named": (
        raster("four.tif", ("",) * 4), {"sensor": "s2-l2a", "bands": "B02,B03,B04,B08"}, "s2-l2a",
        {"s2-thin", "rgb-thin"},
    ),
    "4 unnamed bands, numbered": (
        raster("four.tif", ("",) * 4), {"sensor": "s2-l2a", "bands": "3,2,1"}, "s2-l2a", {"rgb-thin"},
    ),
    "Landsat": (landsat_folder, {}, "landsat-c2-l2", {"s2-thin", "rgb-thin"}),
    "Landsat, a short name": (
        raster("LC08_L2SP_190025_20210620.tif", ("B2", "B3", "B4"), 8000), {}, "landsat-c2-l2", {"s2-thin", "rgb-thin"},
    ),
    "Planet": (raster("3B_AnalyticMS_SR.tif", ("blue", "green", "red", "nir")), {}, None, set()),
    "Planet as reflectance": (
        raster("3B_AnalyticMS_SR.tif", ("blue", "green", "red", "nir")), {"sensor": "reflectance"}, "reflectance",
        {"rgb-thin"},
    ),
    "a drone's 32768ths": (
        raster("drone.tif", ("blue", "green", "red"), 30000), {"sensor": "reflectance"}, "reflectance", set(),
    ),
    "a drone's 32768ths with their scale": (
        raster("drone.tif", ("blue", "green", "red"), 30000, scale=1 / 32768), {}, "scaled by its tags", {"rgb-thin"},
    ),
    "a picture": (picture, {}, "rgb8", {"rgb-thin"}),
    "floats": (reflectance, {}, "reflectance", {"rgb-thin"}),
    "floats in digital numbers": (raster("four.tif", FOUR, DARK, "float32"), {}, "reflectance", set()),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::attcr.errors.AttcrWarning")
@pytest.mark.parametrize("form", FORMS)
def test_a_scene_of_any_form_fits_the_weights_that_restore_takes_for_it(form: str, tmp_path: Path) -> None:
    build, said, product, weights = FORMS[form]
    source, options = build(tmp_path), RestoreOptions(**said, mask="auto")

    def taken(name: str) -> bool:
        try:
            with gdal(), open_job(source, Same(spec=restoring()[name].spec), options):
                return True
        except SceneError:
            return False

    with gdal(), open_scene(source, sensor=options.named_sensor()) as scene:
        assert (scene.known_product.name if scene.known_product else None) == product
    assert {fit.weights for fit in which_weights(source, **said) if fit.fits} == weights
    assert {name for name in restoring() if taken(name)} == weights
    if weights:
        assert choose_weights(source, options) == next(name for name in restoring() if name in weights)


@pytest.mark.parametrize(("sensor", "told"), [("s2-l2a", True), ("s2-l1c", False)])
@pytest.mark.parametrize("named", ["in the file", "by the user"])
def test_restore_tells_of_a_level_that_the_darkest_pixels_do_not_show(
    sensor: str, told: bool, named: str, tmp_path: Path
) -> None:
    bands = ("B04", "B03", "B02")
    air = np.array([400, 600, 900])[:, None, None] + noise("uint16", (3, 60, 70)).astype(int) % 900
    source = raster("scene.tif", bands if named == "in the file" else ("",) * 3, values=air)(tmp_path)
    said = {"sensor": sensor, "bands": None if named == "in the file" else ",".join(bands)}
    assert "s2-thin" in {fit.weights for fit in which_weights(source, **said) if fit.fits}  # type: ignore[arg-type]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", AttcrWarning)
        options = RestoreOptions(**said, mask="auto")  # type: ignore[arg-type]
        with gdal(), open_job(source, Same(spec=TRUE_COLOUR), options):
            pass
    assert [("say `sensor=s2-l1c`" in str(one.message)) for one in caught] == [True] * told


def test_pixels_much_larger_than_those_trained_on_are_mentioned(tmp_path: Path) -> None:
    coarse = {**UTM, "transform": UTM["transform"] * UTM["transform"].scale(6)}
    source = make(tmp_path / "coarse.tif", noise("uint8", (3, 60, 70)), **coarse)
    fits = {fit.weights: fit.reason for fit in which_weights(source)}
    assert "trained on pixels of 10 m; these have 60 m" in fits["rgb-thin"]
    fine = {f.weights: f.reason for f in which_weights(make(tmp_path / "f.tif", noise("uint8", (3, 60, 70)), **UTM))}
    assert "trained on pixels" not in fine["rgb-thin"]


def test_false_colour_weights_on_a_true_colour_scene_are_refused_with_those_that_fit(tmp_path: Path) -> None:
    folder = safe_folder(tmp_path, "2A")
    with pytest.raises(
        SceneError, match=r"s2-l2a-n0400 and the weights take rgb8.*fit this scene: s2-thin, rgb-thin\."
    ):
        restore_scene(folder, tmp_path / "out.tif", "rice2-small")
    with pytest.raises(SceneError, match=r"take swir16 nir08 red.*fit this scene: rgb-thin\."):
        restore_scene(picture(tmp_path), tmp_path / "out.tif", "rice2-small")


@pytest.mark.filterwarnings("ignore:These weights do not restore B01 B05")
def test_a_safe_folder_goes_through_the_shipped_weights(tmp_path: Path) -> None:
    folder = safe_folder(tmp_path, "1C")
    everywhere = RestoreOptions(mask="none")
    result = restore_scene(folder, tmp_path / "three.tif", "rgb-thin", options=everywhere)
    assert read(result.target).shape == (13, 60, 70)
    assert choose_weights(folder, RestoreOptions()) == "s2-thin"
    result = restore_scene(folder, tmp_path / "all.tif", "s2-thin", options=everywhere)
    assert read(result.target).shape == (13, 60, 70)
    assert result.spread is not None


def test_the_first_weights_that_fit_are_chosen_and_none_is_told_with_the_reasons(tmp_path: Path) -> None:
    assert choose_weights(picture(tmp_path), RestoreOptions()) == "rgb-thin"
    assert choose_weights(landsat_folder(tmp_path), RestoreOptions()) == "s2-thin"
    one = make(tmp_path / "one.tif", noise("uint8", (1, 60, 70)))
    with pytest.raises(
        SceneError, match=r"No published weights fit .*one\.tif\. s2-thin: .* rgb-thin: .* rice2-small: "
    ):
        choose_weights(one, RestoreOptions())


def test_bands_without_names_are_not_guessed_from_their_number(tmp_path: Path) -> None:
    source = make(tmp_path / "in.tif", dn(3), **UTM)
    settings = RestoreOptions(sensor="s2-l2a")
    with pytest.raises(SceneError, match="3 bands have no names and the weights take red green blue"):
        restore_scene(source, tmp_path / "out.tif", Same(spec=TRUE_COLOUR), options=settings)
    chosen = RestoreOptions(sensor="s2-l2a", bands=("3", "2", "1"), mask="none")
    restore_scene(source, tmp_path / "out.tif", Same(spec=TRUE_COLOUR), options=chosen)
    assert np.array_equal(read(tmp_path / "out.tif"), read(source))  # in the order they came


def test_naming_the_bands_does_not_make_another_product_fit(tmp_path: Path) -> None:
    settings = RestoreOptions(bands=("B11", "B8A", "B04"))
    with pytest.raises(SceneError, match="is s2-l2a-n0400 and the weights take rgb8, picture"):
        restore_scene(safe_folder(tmp_path, "2A"), tmp_path / "out.tif", "rice2-small", options=settings)


def test_weights_are_chosen_for_a_vrt_as_the_options_allow_it(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    source = picture(tmp_path)
    linked = tmp_path / "below" / "scene.vrt"
    rasterio.shutil.copy(source, linked, driver="VRT")
    with pytest.raises(SceneError):
        choose_weights(linked, RestoreOptions())
    assert choose_weights(linked, RestoreOptions(vrt="any")) == "rgb-thin"


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


def test_clouds_of_dates_in_memory_are_those_of_files_and_of_the_band_that_is_a_mask() -> None:
    white, plain = cloudy(3), cloudy(3)[:, ::-1, ::-1] // 2
    names, options = ["blue", "green", "red"], RestoreOptions(sensor="s2-l2a", mask="auto")
    found = clouds_of_dates(np.stack([plain, white]), names, options)
    assert (found[1][45:75, 45:75] == 2).all()  # white is opaque
    assert not found[1][:30].any()
    scl = np.full((1, 120, 120), 4, np.uint16)
    scl[:, :10], scl[:, 20:30] = 10, 8
    own = clouds_of_dates(np.concatenate([scl, white])[None], ["SCL", *names], options)
    assert [int(own[0][row, 20]) for row in (5, 15, 25)] == [1, 0, 1]
    assert not own[0][45:75].any()  # the mask alone decides
    with pytest.raises(SceneError, match="Give `clouds`, for none can be found"):
        clouds_of_dates(white[None], ["a", "b", "c"], RestoreOptions(sensor="s2-l2a"))
