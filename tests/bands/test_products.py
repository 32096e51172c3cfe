"""Which product a scene is of by what it says about itself, and which of its bands is which."""

from typing import Any

import numpy as np
import pytest

from attcr.bands.products import (
    COMMON_WAVELENGTHS,
    as_stored,
    band_names,
    candidates,
    could_be_picture,
    find_band,
    find_bands,
    recognise,
    wavelength_of,
)
from attcr.bands.sensors import (
    LANDSAT_C2_L1,
    LANDSAT_C2_L2,
    LANDSAT_TM_C2_L2,
    REFLECTANCE,
    RGB8,
    SENTINEL2_L1C,
    SENTINEL2_L1C_N0400,
    SENTINEL2_L2A,
    SENTINEL2_L2A_N0400,
    Sensor,
)

L2A_TAGS = {"PROCESSING_LEVEL": "Level-2A", "PROCESSING_BASELINE": "05.09"}
EARTH_SEARCH = {"name": "S2B_10TDQ_20230815_0_L2A", "PROCESSING_LEVEL": "L2A", "PROCESSING_BASELINE": "05.09"}
TM_NAME = "LT05_L2SP_195025_20110505_20200822_02_T1_SR_B3.TIF"


@pytest.mark.parametrize(
    ("hints", "name", "red", "reflectance"),
    [
        # What names and tags say -> the product, where its red is, and the reflectance of digital number 10000.
        ({"name": "S2A_MSIL1C_20180305T134211_N0206_R124_T22MCT_20180305T153130.SAFE"}, "s2-l1c", 3, 1.0),
        ({"name": "S2B_MSIL1C_20211231T102339_N0301_R065_T32TQM_20211231T122455"}, "s2-l1c", 3, 1.0),
        ({"name": "S2B_MSIL1C_20220125T102229_N0400_R065_T32TQM_20220125T122455.SAFE"}, "s2-l1c-n0400", 3, 0.9),
        ({"name": "S2A_MSIL2A_20190807T101031_N0213_R022_T32TQM_20190807T134525"}, "s2-l2a", 3, 1.0),
        ({"name": "S2A_MSIL2A_20230702T100601_N0509_R022_T32TQM_20230702T162358"}, "s2-l2a-n0400", 3, 0.9),
        ({"name": "S2C_MSIL2A_20250412T101051_N0511_R022_T32TQM_20250412T140611"}, "s2-l2a-n0400", 3, 0.9),
        ({"PRODUCT_URI": "S2A_MSIL2A_20230702T100601_N0509_R022_T32TQM_20230702T162358.SAFE"}, "s2-l2a-n0400", 3, 0.9),
        ({"name": "scene.tif", **L2A_TAGS}, "s2-l2a-n0400", 3, 0.9),
        ({"PROCESSING_LEVEL": "Level-1C", "PROCESSING_BASELINE": "04.00"}, "s2-l1c-n0400", 3, 0.9),
        ({"PROCESSING_LEVEL": "Level-1C", "PROCESSING_BASELINE": "03.01"}, "s2-l1c", 3, 1.0),
        ({"PROCESSING_LEVEL": "l2a", "PROCESSING_BASELINE": "02.14"}, "s2-l2a", 3, 1.0),
        ({**EARTH_SEARCH, "offset_applied": "true"}, "s2-l2a", 3, 1.0),
        ({**EARTH_SEARCH, "offset_applied": "false"}, "s2-l2a-n0400", 3, 0.9),
        (EARTH_SEARCH, "s2-l2a-n0400", 3, 0.9),
        ({"name": "LC08_L1TP_195025_20200805_20200821_02_T1_B4.TIF"}, "landsat-c2-l1", 3, 0.1),
        ({"name": "LC09_L1GT_195025_20220805_20220821_02_T2"}, "landsat-c2-l1", 3, 0.1),
        ({"name": "LO08_L1TP_195025_20200805_20200821_02_T1"}, "landsat-c2-l1", 3, 0.1),
        ({"name": "LC08_L2SP_195025_20200805_20200821_02_T1_SR_B4.TIF"}, "landsat-c2-l2", 3, 0.075),
        ({"LANDSAT_PRODUCT_ID": "LC09_L2SP_195025_20220805_20220821_02_T1"}, "landsat-c2-l2", 3, 0.075),
        ({"name": TM_NAME}, "landsat-tm-c2-l2", 2, 0.075),
        ({"name": "LE07_L2SP_195025_20020505_20200822_02_T1"}, "landsat-tm-c2-l2", 2, 0.075),
        ({"name": "LT04_L2SP_195025_19880505_20200822_02_T1"}, "landsat-tm-c2-l2", 2, 0.075),
    ],
    ids=lambda it: str(it.get("name") or next(iter(it.values()))) if isinstance(it, dict) else None,
)
def test_a_product_is_known_by_its_name_or_its_tags(
    hints: dict[str, str], name: str, red: int, reflectance: float
) -> None:
    sensor = recognise(hints, "uint16", [1.0] * 4, [0.0] * 4)
    assert sensor is not None
    assert sensor.name == name
    assert find_bands(sensor, [""] * len(sensor.bands), ["red"]) == [red]
    assert sensor.to_reflectance(np.array([[[10000]]], "uint16")).item() == pytest.approx(reflectance, abs=1e-6)


@pytest.mark.parametrize(
    "hints",
    [
        {},
        {"name": "scene.tif"},
        {"PROCESSING_LEVEL": "Level-2A"},  # an unknown baseline leaves the offset open
        {"PROCESSING_BASELINE": "05.09"},
        {"PROCESSING_LEVEL": "Level-1B", "PROCESSING_BASELINE": "05.09"},
        {"name": "LT05_L1TP_195025_20110505_20200822_02_T1"},  # radiance
        {"name": "LC08_L1TP_195025_20160805_20170221_01_T1"},  # Collection 1
        {"name": "LM03_L1TP_195025_19800505_20200822_02_T2"},
    ],
    ids=str,
)
def test_what_does_not_say_its_product_is_left_to_the_user(hints: dict[str, str]) -> None:
    assert recognise(hints, "uint16", [1.0], [0.0]) is None


FOUR = ("B02", "B03", "B04", "B08")
L1C_BANDS = ("B01", "B02", "B03", "B04", "B05", "B06", "B07", "B08", "B8A", "B09", "B10", "B11", "B12")
EITHER_1C, EITHER_2A = ("s2-l1c", "s2-l1c-n0400"), ("s2-l2a", "s2-l2a-n0400")


@pytest.mark.parametrize(
    ("name", "bands", "dark", "products"),
    [
        # ESA's name without its baseline: values or, else, the day tell whether 1000 was added.
        ("S2A_MSIL2A_20220902T142701_T20LMR.tif", FOUR, False, ("s2-l2a-n0400",)),
        ("S2A_MSIL2A_20220125T142701.tif", (), False, ("s2-l2a-n0400",)),
        ("S2A_MSIL2A_20220124T142701.tif", (), False, EITHER_2A),
        ("S2A_MSIL1C_20220124T142701.tif", (), False, EITHER_1C),
        ("S2A_MSIL2A_20220902T142701.tif", FOUR, True, ("s2-l2a",)),
        ("S2A_MSIL2A_20210902T142701.tif", FOUR, True, ("s2-l2a",)),
        ("S2A_MSIL2A_20220902T142701_N0400_R053.tif", FOUR, True, ("s2-l2a-n0400",)),  # its baseline rules
        ("a/L1C_T20LMR_A037574_20220902T142704/IMG_DATA/B04.jp2", ("B04",), False, ("s2-l1c-n0400",)),
        ("L2A_T20LMR_20170902T142701_B04_10m.jp2", ("B04",), True, ("s2-l2a",)),
        # Earth Search may have taken the 1000 out, whatever the day.
        ("S2A_20LMR_20220902_0_L2A/B04.tif", ("B04",), False, EITHER_2A),
        ("S2A_20LMR_20220902_0_L2A/B04.tif", ("B04",), True, ("s2-l2a",)),
        # ESA's band files end in a size where they are L2A.
        ("T20LMR_20220902T142701_B04_10m.jp2", ("B04",), False, ("s2-l2a-n0400",)),
        ("T20LMR_20220902T142701_B04.jp2", ("B04",), False, ("s2-l1c-n0400",)),
        ("T33UXQ_20210410T100021_B04_60m.jp2", ("B04", "scl"), True, ("s2-l2a",)),
        ("T33UXQ_20210410T100021_B04_60m.jp2", ("B04", "scl"), False, EITHER_2A),
        ("T33UXQ_20210410T100021_B04.jp2", ("B04", "scl"), True, ("s2-l1c", "s2-l2a")),  # they contradict each other
        ("T33UXQ_20210410T100021_B02_B03.jp2", (), True, ()),
        # Bands that only one level has.
        ("B04.jp2", ("B04", "scl"), True, ("s2-l2a",)),
        ("gee.tif", ("B2", "B3", "B4", "B8A", "SCL"), True, ("s2-l2a",)),
        ("all.tif", L1C_BANDS, True, ("s2-l1c",)),
        ("all.tif", L1C_BANDS, False, EITHER_1C),
        ("all.tif", tuple(f"{band}, central wavelength" for band in L1C_BANDS), True, ("s2-l1c",)),
        ("all.tif", tuple(band for band in L1C_BANDS if band != "B10"), True, ("s2-l2a",)),
        ("some.tif", tuple(band for band in L1C_BANDS if band not in ("B10", "B01")), True, ("s2-l1c", "s2-l2a")),
        ("four.tif", FOUR, True, ("s2-l1c", "s2-l2a")),
        ("four.tif", FOUR, False, (*EITHER_1C, *EITHER_2A)),
        ("landsat.tif", ("B2", "B3", "B4", "B10"), True, ()),
        ("planet.tif", ("blue", "green", "red", "nir"), True, ()),
        ("unnamed.tif", ("", "", "", ""), True, ()),
        # Names of Landsat that were shortened, and band names that only one product has.
        ("LC08_L2SP_190025_20210620.tif", (), False, ("landsat-c2-l2",)),
        ("LT05_L2SP_190025_20050620.tif", (), False, ("landsat-tm-c2-l2",)),
        ("LC09_L1TP_190025_20220620.tif", (), False, ("landsat-c2-l1",)),
        ("LC08_L1TP_190025_20160620.tif", (), False, ()),  # of Collection 1, maybe
        ("LC08_L1TP_195025_20160805_20170221_01_T1.tif", ("SR_B6",), False, ()),
        ("gee.tif", ("SR_B4", "SR_B6"), False, ("landsat-c2-l2",)),
        ("landsat/SR_B6.TIF", ("B6",), False, ("landsat-c2-l2",)),
        ("gee.tif", ("SR_B4", "SR_B5"), False, ()),  # red and infrared of 8 and 9, or infrared of 5 and 7
        ("a.tif", ("USR_B6", "SR_B61"), False, ()),
    ],
)
def test_a_scene_can_be_of_no_more_products_than_it_says(
    name: str, bands: tuple[str, ...], dark: bool, products: tuple[str, ...]
) -> None:
    found = candidates({"name": name}, "uint16", [1.0], [0.0], bands, lambda: dark)
    assert tuple(product.name for product in found) == products


def test_bands_tell_of_sentinel_2_only_in_its_own_type() -> None:
    assert candidates({}, "int16", [1.0], [0.0], L1C_BANDS, lambda: True) == ()  # HLS, whose B10 is of the surface too


def test_tags_rule_over_names_of_bands_and_a_level_alone_does_not_make_sentinel_2() -> None:
    told = {"PROCESSING_LEVEL": "Level-2A"}
    assert candidates(told, "uint16", [1.0], [0.0], L1C_BANDS, lambda: True) == (SENTINEL2_L2A,)
    assert candidates(told, "uint16", [1.0], [0.0], ("red", "nir"), lambda: True) == ()
    applied = {**told, "offset_applied": "true"}
    assert candidates(applied, "uint16", [1.0], [0.0], FOUR) == (SENTINEL2_L2A,)
    assert len(candidates({**told, "offset_applied": "false"}, "uint16", [1.0], [0.0], FOUR)) == 2


def test_values_are_looked_at_only_where_names_and_tags_leave_it_open() -> None:
    def fail() -> bool:
        raise AssertionError

    for name, kind in (("N0400.tif", "float32"), ("S2A_MSIL2A_20220902T142701_N0400.tif", "uint16"), ("x", "uint16")):
        candidates({"name": name}, kind, [1.0], [0.0], (), fail)
    candidates({"name": "S2A_MSIL2A_20220902T142701.tif"}, "uint16", [1e-4], [0.0], (), fail)


def test_a_scale_of_the_file_settles_what_the_day_leaves_open() -> None:
    (found,) = candidates({"name": "S2A_MSIL2A_20210902T142701.tif"}, "uint16", [1e-4], [-0.1])
    assert (found.product, found.scale, found.offset, found.surface) == ("s2-l2a", 1e-4, -0.1, True)
    (found,) = candidates({"name": "four.tif"}, "uint16", [1e-4], [-0.1], FOUR)
    assert (found.product, found.surface) == ("reflectance", None)


def test_reflectance_that_the_user_names_is_scaled_by_the_file_or_in_ten_thousandths() -> None:
    def of(dtype: str, scale: float = 1.0, offset: float = 0.0, sensor: Sensor = REFLECTANCE) -> tuple[float, float]:
        stored = as_stored(sensor, dtype, [scale] * 2, [offset] * 2)
        assert (stored.name, stored.product) == (sensor.name, sensor.product)
        return stored.scale, stored.offset

    assert of("float32", 2.0) == (1, 0)
    assert of("uint16") == of("int16") == of("int32") == (1e-4, 0)
    assert of("uint16", 2e-5, -0.1) == of("uint8", 2e-5, -0.1) == (2e-5, -0.1)
    assert of("uint8") == (1, 0)  # which is refused
    assert of("uint16", 2e-5, -0.1, SENTINEL2_L2A) == (1e-4, 0)


def test_bytes_are_a_picture_and_floats_reflectance_whatever_the_name() -> None:
    hints = {"name": "S2A_MSIL2A_20230702T100601_N0509_R022_T32TQM_20230702T162358_TCI.jp2"}
    assert recognise(hints, "uint8", [1.0], [0.0]) == RGB8
    assert recognise(hints, "float32", [1.0], [0.0]) == REFLECTANCE
    assert recognise(hints, "float64", [2.0], [1.0]) == REFLECTANCE


def test_the_files_own_scale_and_offset_rule() -> None:
    def of(hints: dict[str, str], scales: list[float], offsets: list[float]) -> Any:
        return recognise(hints, "int16", scales, offsets)

    plain = of({"name": "mosaic.tif"}, [2e-4] * 3, [-0.05] * 3)
    assert (plain.name, plain.product, plain.bands) == ("scaled by its tags", "reflectance", ())
    assert plain.to_reflectance(np.array([[[1000]]])).item() == pytest.approx(0.15, abs=1e-6)
    landsat = of({"name": TM_NAME}, [1e-4], [0.0])
    assert (landsat.name, landsat.scale, landsat.offset) == ("landsat-tm-c2-l2", 1e-4, 0.0)
    sentinel = of({"name": "x.tif", **L2A_TAGS}, [1e-4], [-0.1])
    assert sentinel == SENTINEL2_L2A_N0400
    # Bands scaled each by its own number are not one sensor.
    assert of({"name": "mosaic.tif"}, [1e-4, 2e-4], [0.0, 0.0]) is None
    assert of({"name": "mosaic.tif"}, [1e-4, 1e-4], [0.0, 0.1]) is None
    assert of({"name": "mosaic.tif"}, [1.0, 1.0], [0.5, 0.5]) is None


BANDS: dict[str, list[tuple[str, str, float]]] = {
    "s2-l1c": [
        ("B01", "coastal", 443), ("B02", "blue", 490), ("B03", "green", 560), ("B04", "red", 665),
        ("B05", "rededge1", 705), ("B06", "rededge2", 740), ("B07", "rededge3", 783), ("B08", "nir", 842),
        ("B8A", "nir08", 865), ("B09", "nir09", 945), ("B10", "cirrus", 1375), ("B11", "swir16", 1610),
        ("B12", "swir22", 2190),
    ],
    "s2-l2a": [
        ("B01", "coastal", 443), ("B02", "blue", 490), ("B03", "green", 560), ("B04", "red", 665),
        ("B05", "rededge1", 705), ("B06", "rededge2", 740), ("B07", "rededge3", 783), ("B08", "nir", 842),
        ("B8A", "nir08", 865), ("B09", "nir09", 945), ("B11", "swir16", 1610), ("B12", "swir22", 2190),
    ],
    "landsat-c2-l2": [
        ("B1", "coastal", 443), ("B2", "blue", 482), ("B3", "green", 561), ("B4", "red", 655),
        ("B5", "nir08", 865), ("B6", "swir16", 1609), ("B7", "swir22", 2201),
    ],
    "landsat-tm-c2-l2": [
        ("B1", "blue", 485), ("B2", "green", 560), ("B3", "red", 660), ("B4", "nir08", 830),
        ("B5", "swir16", 1650), ("B7", "swir22", 2215),
    ],
    "rgb8": [("red", "red", 665), ("green", "green", 560), ("blue", "blue", 490)],
}  # fmt: skip
SENSORS_OF = {
    "s2-l1c": (SENTINEL2_L1C, SENTINEL2_L1C_N0400),
    "s2-l2a": (SENTINEL2_L2A, SENTINEL2_L2A_N0400),
    "landsat-c2-l2": (LANDSAT_C2_L1, LANDSAT_C2_L2),
    "landsat-tm-c2-l2": (LANDSAT_TM_C2_L2,),
    "rgb8": (RGB8,),
}


@pytest.mark.parametrize("product", BANDS)
def test_the_bands_of_a_product_have_their_names_and_wavelengths(product: str) -> None:
    for sensor in SENSORS_OF[product]:
        assert list(zip(sensor.bands, sensor.common, sensor.wavelengths, strict=True)) == BANDS[product]
        for at, (band, common, nm) in enumerate(BANDS[product]):
            assert find_bands(sensor, [""] * len(sensor.bands), [common, band]) == [at, at]
            assert wavelength_of(sensor, band) == wavelength_of(sensor, common) == nm


@pytest.mark.parametrize(
    "spelling", ["B04", "B4", "b04", "b4", "SR_B4", "sr_b4", "B4, central wavelength 665 nm", "B04 - 10m", " B04"]
)
@pytest.mark.parametrize("wanted", ["B04", "B4", "b4", "SR_B4", "red", "Red"])
@pytest.mark.parametrize("sensor", [SENTINEL2_L2A, LANDSAT_C2_L2], ids=lambda sensor: sensor.name)
def test_a_band_is_found_in_all_its_spellings(sensor: Sensor, spelling: str, wanted: str) -> None:
    assert find_band(sensor, ["B2", "B3", spelling, "B40"], wanted) == 2


def test_b8a_is_not_b8() -> None:
    names = ["B8A", "B08", "B8"]
    assert find_band(SENTINEL2_L2A, names, "B8A") == 0
    assert find_band(SENTINEL2_L2A, names, "b8a") == 0
    assert find_band(SENTINEL2_L2A, names, "nir08") == 0
    assert find_band(SENTINEL2_L2A, names, "B08") == 1
    assert find_band(SENTINEL2_L2A, names, "nir") == 1
    assert find_band(SENTINEL2_L2A, ["B08"], "B8A") is None


def test_the_numbers_of_tm_are_its_own() -> None:
    names = ["SR_B1", "SR_B2", "SR_B3", "SR_B4", "SR_B5", "SR_B7"]
    assert find_bands(LANDSAT_TM_C2_L2, names, ["red", "green", "blue"]) == [2, 1, 0]
    assert find_bands(LANDSAT_TM_C2_L2, names, ["nir08", "swir22"]) == [3, 5]
    assert find_bands(LANDSAT_C2_L2, [*names[:5], "SR_B6", "SR_B7"], ["red", "green", "blue"]) == [3, 2, 1]


def test_bands_are_numbered_from_1() -> None:
    assert [find_band(REFLECTANCE, ["", "", ""], number) for number in ("1", "3", "0", "4")] == [0, 2, None, None]
    assert find_bands(SENTINEL2_L2A, ["B02", "B03", "B04"], ["3", "1"]) == [2, 0]


def test_a_missing_band_is_none_and_so_are_all() -> None:
    assert find_band(SENTINEL2_L2A, ["B02", "B03"], "B04") is None
    assert find_bands(SENTINEL2_L2A, ["B02", "B03"], ["B02", "B04"]) is None
    assert find_bands(SENTINEL2_L2A, ["B02", "B03"], ["B03", "B02"]) == [1, 0]


def test_common_names_of_the_file_are_known_too() -> None:
    assert find_bands(SENTINEL2_L2A, ["nir", "red", "green", "blue"], ["B04", "B08"]) == [1, 0]
    assert find_bands(REFLECTANCE, ["Blue", "Green", "Red"], ["red", "green", "blue"]) == [2, 1, 0]


def test_of_an_unknown_product_only_spellings_of_one_product_are_known() -> None:
    assert find_band(REFLECTANCE, ["B02", "B03", "B04"], "red") == 2
    assert find_band(REFLECTANCE, ["SR_B3", "SR_B4", "SR_B5"], "red") == 1
    assert find_band(REFLECTANCE, ["SR_B3", "SR_B4", "SR_B5"], "nir08") == 2
    assert find_band(REFLECTANCE, ["b8a", "B08"], "nir08") == 0
    assert find_band(REFLECTANCE, ["B3", "B4"], "red") is None  # green and red of Landsat 8, red and infrared of 5
    assert find_band(REFLECTANCE, ["B3", "B4"], "B4") == 1
    assert find_band(REFLECTANCE, ["B04"], "sharpness") is None
    assert find_band(LANDSAT_C2_L2, ["B04", "B05"], "rededge1") is None  # B05 of Sentinel-2, which this is not


def test_unnamed_bands_take_their_products_names_where_there_are_as_many() -> None:
    assert band_names(SENTINEL2_L2A, [""] * 12) == SENTINEL2_L2A.bands
    assert band_names(SENTINEL2_L2A, [""] * 13) == [""] * 13
    assert band_names(RGB8, ["", "x", ""]) == ["", "x", ""]


@pytest.mark.parametrize(
    ("sensor", "name", "nm"),
    [
        (SENTINEL2_L2A, "B4, central wavelength 664.6 nm", 664.6),  # its own words first
        (SENTINEL2_L2A, "B12, central wavelength 2202nm", 2202.0),
        (LANDSAT_C2_L2, "SR_B5", 865.0),
        (LANDSAT_C2_L2, "swir22", 2201.0),
        (LANDSAT_C2_L2, "rededge1", None),
        (SENTINEL2_L2A, "B10", None),
        (REFLECTANCE, "B05", 705.0),
        (REFLECTANCE, "SR_B5", 865.0),
        (REFLECTANCE, "swir22", 2190.0),
        (REFLECTANCE, "B5", None),
        (REFLECTANCE, "band at 12345 nm", None),
        (REFLECTANCE, "850 nm", 850.0),
        (REFLECTANCE, "", None),
    ],
)
def test_a_wavelength_comes_from_words_product_or_common_name(sensor: Sensor, name: str, nm: float | None) -> None:
    assert wavelength_of(sensor, name) == nm


def test_common_names_stand_for_the_bands_of_sentinel_2() -> None:
    assert {common: nm for _, common, nm in BANDS["s2-l1c"]} == COMMON_WAVELENGTHS


@pytest.mark.parametrize(
    ("sensor", "name", "bands", "could"),
    [
        (REFLECTANCE, "photo.tif", ("", "", ""), True),
        (REFLECTANCE, "photo.tif", ("Red", "green", "blue"), True),
        (REFLECTANCE, "photo.tif", ("B04", "B03", "B02"), False),
        (REFLECTANCE, "photo.tif", ("", "", "", ""), False),
        (REFLECTANCE, "S2A_MSIL2A_20220501T100021_N0400_R122.tif", ("", "", ""), False),
        (RGB8, "photo.tif", ("", "", ""), False),
    ],
)
def test_floats_of_three_colours_without_a_product_could_be_a_picture(
    sensor: Sensor, name: str, bands: tuple[str, ...], could: bool
) -> None:
    assert could_be_picture(sensor, {"name": name}, bands) is could
