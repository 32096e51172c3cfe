"""Scenes are opened with all that their files say."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from affine import Affine
from rasterio.enums import ColorInterp

from attcr.addresses import local_file
from attcr.bands.products import BAND_IN_NAME
from attcr.bands.sensors import LANDSAT_C2_L2, REFLECTANCE, SENTINEL2_L2A_N0400
from attcr.errors import SceneError
from attcr.scenes.open import open_scene
from fake_scenes import UTM, make


def ones(height: int, width: int, dtype: str = "uint16", bands: int = 1) -> np.ndarray:
    return np.ones((bands, height, width), dtype)


def coarser(factor: int, **changes: float) -> dict[str, Any]:
    t = UTM["transform"]
    place = {"c": t.c, "f": t.f, **changes}
    return {"crs": UTM["crs"], "transform": Affine(t.a * factor, 0, place["c"], 0, t.e * factor, place["f"])}


@pytest.mark.parametrize(
    ("name", "band"),
    [
        ("T33UXQ_20220501T100021_B02_10m.jp2", "B02"),
        ("T33UXQ_20220501T100021_B8A_20m.jp2", "B8A"),
        ("T33UXQ_20220501T100021_SCL_20m.jp2", "SCL"),
        ("T33UXQ_20220501T100021_B12.jp2", "B12"),
        ("LC08_L2SP_192026_20190807_20200827_02_T1_SR_B4.TIF", "B4"),
        ("LC08_L2SP_192026_20190807_20200827_02_T1_QA_PIXEL.TIF", "QA_PIXEL"),
        ("b04.tif", "b04"),
        ("folder/B04.jp2", "B04"),
        ("folder\\B04.jp2", "B04"),
        ("T33UXQ_20220501T100021_TCI_10m.jp2", None),
        ("T33UXQ_20220501T100021_AOT_10m.jp2", None),
        ("LC08_L2SP_192026_20190807_20200827_02_T1_QA_RADSAT.TIF", None),
        ("B123.tif", None),
        ("SUB04.tif", None),
    ],
)
def test_the_band_of_a_file_is_in_its_name(name: str, band: str | None) -> None:
    found = BAND_IN_NAME.search(name)
    assert (found.group(1) if found else None) == band


def test_of_a_band_in_several_sizes_the_finest_is_taken_and_masks_come_along(tmp_path: Path) -> None:
    for name, factor in (
        ("B02_10m", 1), ("B02_20m", 2), ("B02_60m", 6), ("B8A_60m", 6), ("B8A_20m", 2), ("SCL_60m", 6), ("SCL_20m", 2),
        ("TCI_10m", 1),
    ):  # fmt: skip
        make(tmp_path / f"T33_{name}.tif", ones(12 // factor, 18 // factor), **coarser(factor))
    with open_scene(tmp_path) as scene:
        assert [(band.name, Path(band.href).name, band.factor) for band in scene.bands] == [
            ("B02", "T33_B02_10m.tif", 1),
            ("B8A", "T33_B8A_20m.tif", 2),
        ]
        assert {kind: Path(href).name for kind, href in scene.companions.items()} == {"scl": "T33_SCL_20m.tif"}
        assert (scene.height, scene.width, scene.profile.transform) == (12, 18, UTM["transform"])
        names = [Path(name).name for name, _, _ in scene.identity]
        assert names == ["T33_B02_10m.tif", "T33_B8A_20m.tif"]
        assert scene.identity[0][1:] == ((tmp_path / names[0]).stat().st_size, (tmp_path / names[0]).stat().st_mtime_ns)


@pytest.mark.parametrize(
    ("second", "place", "text"),
    [
        (ones(6, 8), coarser(2), "not on the grid"),  # another size
        (ones(6, 9), coarser(2, c=600010), "not on the grid"),  # moved by a pixel
        (ones(6, 9), coarser(3), "not on the grid"),  # pixels of another size
        (ones(6, 9), {**coarser(2), "crs": "EPSG:32632"}, "not on the grid"),
        (ones(6, 9, "uint8"), coarser(2), "is uint8 and"),
        (ones(6, 9, bands=2), coarser(2), "has 2 bands"),
    ],
)
def test_band_files_that_do_not_belong_together_are_refused(
    tmp_path: Path, second: np.ndarray, place: dict[str, Any], text: str
) -> None:
    make(tmp_path / "a_B02.tif", ones(12, 18), **UTM)
    make(tmp_path / "a_B05.tif", second, **place)
    with pytest.raises(SceneError, match=text):
        open_scene(tmp_path)


def test_a_folder_without_bands_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SceneError, match="no band files"):
        open_scene(tmp_path)
    make(tmp_path / "a_SCL_20m.tif", ones(6, 9, "uint8"), **UTM)
    with pytest.raises(SceneError, match="no image band, only scl"):
        open_scene(tmp_path)


def test_files_that_name_no_band_are_called_by_their_names(tmp_path: Path) -> None:
    paths = [make(tmp_path / f"{name}.tif", ones(3, 4), **UTM) for name in ("red", "green")]
    with open_scene(paths) as scene:
        assert [band.name for band in scene.bands] == ["green", "red"]
        assert [band.colour for band in scene.bands] == [ColorInterp.gray, ColorInterp.undefined]
    with open_scene(paths[:1]) as scene:
        assert scene.source == str(paths[0])


def test_a_band_is_named_by_its_description_its_tag_or_its_colour(tmp_path: Path) -> None:
    def describe(file: Any) -> None:
        file.set_band_description(1, "B04")
        file.update_tags(2, BANDNAME="B03", STATISTICS_MEAN="7", OWN="kept")
        file.update_tags(PROCESSING_BASELINE="05.09", HELLO="world")

    path = make(tmp_path / "in.tif", ones(3, 4, "uint8", 3), describe, photometric="RGB", **UTM)
    with open_scene(path) as scene:
        assert [band.name for band in scene.bands] == ["B04", "B03", "blue"]
        assert [band.index for band in scene.bands] == [1, 2, 3]
        assert scene.bands[1].tags == {"BANDNAME": "B03", "OWN": "kept"}
        assert scene.hints == {"name": str(path), "PROCESSING_BASELINE": "05.09"}


def test_scale_offset_unit_and_nodata_are_read_band_by_band(tmp_path: Path) -> None:
    def describe(file: Any) -> None:
        file.scales, file.offsets, file.units = (1e-4, 2e-4), (-0.1, 0.0), ("reflectance", "K")

    with open_scene(make(tmp_path / "in.tif", ones(3, 4, bands=2), describe, nodata=9, **UTM)) as scene:
        told = [(band.scale, band.offset, band.unit, band.nodata) for band in scene.bands]
    assert told == [(1e-4, -0.1, "reflectance", 9.0), (2e-4, 0.0, "K", 9.0)]


def landsat(folder: Path, product: str, value: int) -> Path:
    """A Landsat product of two bands and its metadata."""
    folder.mkdir(exist_ok=True, parents=True)
    for band in ("SR_B4", "SR_B3"):
        make(folder / f"{product}_{band}.TIF", ones(8, 9) * value, **UTM)
    metadata = folder / f"{product}_MTL.txt"
    metadata.write_text("GROUP = LANDSAT_METADATA_FILE")
    return metadata


def test_a_landsat_product_is_opened_by_its_metadata_without_its_neighbours(tmp_path: Path) -> None:
    first = landsat(tmp_path, "LC08_L2SP_192026_20190807_20200827_02_T1", 7)
    landsat(tmp_path, "LC09_L2SP_192026_20220807_20230827_02_T1", 9)
    with open_scene(first) as scene:
        assert [band.name for band in scene.bands] == ["B3", "B4"]
        assert np.array_equal(scene.read(0, 8), ones(8, 9, bands=2) * 7)
    with pytest.raises(SceneError, match="does not exist: check the path"):
        open_scene(tmp_path / "LC07_MTL.txt")


def test_a_safe_is_opened_by_its_metadata_and_its_quality_masks_are_no_bands(tmp_path: Path) -> None:
    safe = tmp_path / "S2A_MSIL2A_20220501T100021_N0400_R122_T33UXQ_20220501T140000.SAFE"
    for folder, name, dtype in (
        ("IMG_DATA", "T33UXQ_20220501T100021_B04_10m.tif", "uint16"),
        ("QI_DATA", "MSK_DETFOO_B10.tif", "uint8"),
    ):
        (safe / "GRANULE" / folder).mkdir(parents=True)
        make(safe / "GRANULE" / folder / name, ones(8, 9, dtype), **UTM)
    for name in ("MTD_MSIL2A.xml", "manifest.safe"):
        (safe / name).write_text("<xml/>")
        with open_scene(safe / name) as scene:
            assert [band.name for band in scene.bands] == ["B04"]
            assert "N0400" in scene.hints["name"]


@pytest.mark.parametrize("ending", [".zip", ".tar"])
def test_an_archive_is_read_where_it_is(tmp_path: Path, ending: str) -> None:
    product = "LC08_L2SP_192026_20190807_20200827_02_T1"
    landsat(tmp_path / product, product, 7)
    archive = shutil.make_archive(str(tmp_path / product), ending[1:], tmp_path / product)
    shutil.rmtree(tmp_path / product)
    with open_scene(archive) as scene:
        assert [band.name for band in scene.bands] == ["B3", "B4"]
        assert np.array_equal(scene.read(2, 8), ones(6, 9, bands=2) * 7)
        assert scene.source == archive
        assert {local_file(href) for href in scene.files} == {Path(archive)}
    (tmp_path / f"half{ending}").write_bytes(Path(archive).read_bytes()[:700])
    (tmp_path / f"no{ending}").write_bytes(b"")
    for name in ("half", "no"):
        with pytest.raises(SceneError, match=r"cannot be read|holds no band files"):
            open_scene(tmp_path / f"{name}{ending}")
    with pytest.raises(SceneError, match="does not exist"):
        open_scene(tmp_path / f"nowhere{ending}")


def test_alpha_is_the_last_band_and_one_before_it_keeps_its_place(tmp_path: Path) -> None:
    red, green, blue, alpha = ColorInterp.red, ColorInterp.green, ColorInterp.blue, ColorInterp.alpha

    def alphas(*colours: ColorInterp) -> tuple[list[int], int | None]:
        def colour(file: Any) -> None:
            file.colorinterp = colours

        path = make(tmp_path / "in.tif", ones(8, 8, "uint8", 4), colour, **UTM)
        with open_scene(path) as scene:
            return [band.index for band in scene.bands], scene.alpha.index if scene.alpha else None

    assert alphas(red, green, blue, alpha) == ([1, 2, 3], 4)
    assert alphas(red, alpha, green, blue) == ([1, 2, 3, 4], None)


def test_a_scene_is_of_the_product_named_else_of_the_one_its_name_tells(tmp_path: Path) -> None:
    name = "S2A_MSIL2A_20220501T100021_N0400_R122_T33UXQ_20220501T140000_B04.tif"
    path = make(tmp_path / name, ones(2, 2), **UTM)
    for source in (path, [path], [path, make(tmp_path / name.replace("B04", "B03"), ones(2, 2), **UTM)]):
        with open_scene(source) as scene:
            assert scene.product == SENTINEL2_L2A_N0400
            assert scene.select([0]).product == SENTINEL2_L2A_N0400
    with open_scene(path, sensor=LANDSAT_C2_L2) as scene:
        assert scene.product is LANDSAT_C2_L2


def test_a_scene_that_does_not_say_its_product_opens_and_is_refused_when_asked_for_it(tmp_path: Path) -> None:
    with open_scene(make(tmp_path / "in.tif", ones(2, 2), **UTM)) as scene:
        assert scene.known_product is None
        with pytest.raises(SceneError, match=r"holds uint16 values and does not name its product: .*`sensor`"):
            _ = scene.product


def test_the_files_own_scale_rules_over_what_its_name_tells(tmp_path: Path) -> None:
    def scaled(file: Any) -> None:
        file.scales, file.offsets = (0.5, 0.5), (0.25, 0.25)

    with open_scene(make(tmp_path / "in.tif", ones(2, 2, bands=2), scaled, **UTM)) as scene:
        assert (scene.product.name, scene.product.scale, scene.product.offset) == ("scaled by its tags", 0.5, 0.25)


@pytest.mark.parametrize(
    ("value", "share", "names", "product"),
    [
        (899, 0.11, ("B02", "B03", "B04", "B8A"), "s2-l2a"),
        (900, 1.0, ("B02", "B03", "B04", "B8A"), "s2-l2a-n0400"),
        (899, 0.09, ("B02", "B03", "B04", "B8A"), "s2-l2a-n0400"),
        (0, 0.5, ("B02", "B03", "B04", "B8A"), "s2-l2a-n0400"),  # no data
        (899, 1.0, ("B05", "B06", "B11", "B04"), "s2-l2a-n0400"),  # infrared may be dark in water
        (899, 1.0, (None,) * 4, "s2-l2a"),
    ],
)
def test_numbers_that_are_too_small_for_it_show_that_1000_was_not_added(
    value: int, share: float, names: tuple[str | None, ...], product: str, tmp_path: Path
) -> None:
    def describe(file: Any) -> None:
        file.descriptions = names

    values = np.full((4, 192, 192), 1500, np.uint16)
    values[2, :, : round(share * 192)] = value
    path = make(tmp_path / "S2A_MSIL2A_20220902T142701_T20LMR.tif", values, describe, **UTM)
    with open_scene(path) as scene:
        assert scene.product.name == product


def test_a_folder_of_bare_bands_and_a_single_band_file_name_their_bands(tmp_path: Path) -> None:
    for band in ("B02", "B04", "SCL"):
        make(tmp_path / f"{band}.tif", ones(8, 9) * 500, **UTM)
    with open_scene(tmp_path) as scene:
        assert (scene.names, list(scene.companions)) == (["B02", "B04"], ["scl"])
        assert scene.product.name == "s2-l2a"
    single = make(tmp_path / "T20LMR_20220902T142701_B04_10m.tif", ones(8, 9) * 1500, **UTM)
    with open_scene(single) as scene:
        assert (scene.names, scene.product.name) == (["B04"], "s2-l2a-n0400")
    two = make(tmp_path / "two_B04.tif", ones(8, 9, bands=2), **UTM)
    with open_scene(two) as scene:
        assert scene.names == ["", ""]


def test_a_scene_that_leaves_its_product_open_is_refused_with_the_few_it_can_be(tmp_path: Path) -> None:
    path = make(tmp_path / "S2A_MSIL2A_20210902T142701_T20LMR.tif", ones(8, 9) * 1500, **UTM)
    with open_scene(path) as scene, pytest.raises(SceneError, match=r"one of s2-l2a, s2-l2a-n0400 \(n0400: of"):
        _ = scene.product
    bands = [make(tmp_path / f"{band}.tif", ones(8, 9) * 500, **UTM) for band in ("B02", "B03")]
    with open_scene(bands) as scene, pytest.raises(SceneError, match=r"one of s2-l1c, s2-l2a\.$"):
        _ = scene.product


def test_reflectance_named_by_the_user_is_as_the_file_stores_it(tmp_path: Path) -> None:
    with open_scene(make(tmp_path / "planet.tif", ones(8, 9, bands=4), **UTM), sensor=REFLECTANCE) as scene:
        assert (scene.product.name, scene.product.scale) == ("reflectance", 1e-4)
