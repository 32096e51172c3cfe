"""Digital numbers, reflectance and the model's range."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from attcr.bands.sensors import (
    LANDSAT_C2_L1,
    LANDSAT_C2_L2,
    LANDSAT_TM_C2_L2,
    PICTURE,
    REFLECTANCE,
    RGB8,
    SEN12MSCR_SAR_RANGE,
    SENSORS,
    SENTINEL2_L1C,
    SENTINEL2_L1C_N0400,
    SENTINEL2_L2A,
    SENTINEL2_L2A_N0400,
    ModelRange,
    Sensor,
    check_floats,
    check_level,
    check_values,
    into_dtype,
)
from attcr.errors import AttcrWarning, SceneError, ShapeError

SEN12MSCR_OPTICAL = replace(SENTINEL2_L1C, name="sen12mscr-optical", wanted=ModelRange((0.0,), (1.0,), 5.0))
SEN12MSCR_SAR = Sensor("sar-db", ("VV", "VH"), 1.0, 0.0, wanted=SEN12MSCR_SAR_RANGE)
ONE_BAND = {name: replace(sensor, bands=(), common=(), wavelengths=()) for name, sensor in SENSORS.items()}


def ramp(bands: int, stop: int, dtype: str) -> np.ndarray:
    return np.broadcast_to(np.arange(stop).astype(dtype).reshape(1, 1, -1), (bands, 1, stop))


def line(*values: float, dtype: str = "float64") -> np.ndarray:
    return np.array(values, dtype=dtype).reshape(1, 1, -1)


def test_sen12mscr_optical_is_the_clip_to_10000_over_2000_to_the_last_bit() -> None:
    dn = ramp(13, 65536, "uint16")
    x = SEN12MSCR_OPTICAL.to_model(dn)
    assert x.dtype == np.float32
    assert np.array_equal(x, np.clip(dn, 0, 10000).astype(np.float32) / np.float32(2000))


def test_sen12mscr_radar_goes_from_its_decibels_to_0_2() -> None:
    db = np.array([[-30, -25, -12.5, 0, 3], [-40, -35, -17.5, 0, 3]], dtype=np.float32).reshape(2, 1, 5)
    wanted = np.array([[0, 0, 1, 2, 2], [0, 0, 1, 2, 2]], dtype=np.float32).reshape(2, 1, 5)
    assert np.array_equal(SEN12MSCR_SAR.to_model(db), wanted)
    back = SEN12MSCR_SAR.from_model(wanted, "float32")
    assert back[:, 0, 1:4].tolist() == [[-25, -12.5, 0], [-35, -17.5, 0]]


def test_baseline_0400_sees_the_same_reflectance_1000_digital_numbers_higher() -> None:
    dn = ramp(13, 11000, "uint16")
    before, after = SENTINEL2_L1C.to_model(dn), SENTINEL2_L1C_N0400.to_model(dn + 1000)
    assert np.allclose(before, after, atol=1e-6, rtol=0)
    assert SENTINEL2_L1C_N0400.to_model(np.full((13, 1, 1), 1000, "uint16")).max() == 0


@pytest.mark.parametrize(
    ("sensor", "number", "reflectance"),
    [
        (RGB8, 51, 0.2),
        (REFLECTANCE, 0.25, 0.25),
        (PICTURE, 0.25, 0.25),
        (SENTINEL2_L1C, 3000, 0.3),
        (SENTINEL2_L1C_N0400, 3000, 0.2),
        (SENTINEL2_L2A, 20000, 2.0),
        (SENTINEL2_L2A_N0400, 0, -0.1),
        (LANDSAT_C2_L1, 20000, 0.3),
        (LANDSAT_C2_L2, 20000, 0.35),
        (LANDSAT_TM_C2_L2, 20000, 0.35),
        (SEN12MSCR_SAR, -12.5, -12.5),
    ],
    ids=lambda it: it.name if isinstance(it, Sensor) else str(it),
)
def test_reflectance_is_by_the_published_scale_and_offset_and_not_clipped(
    sensor: Sensor, number: float, reflectance: float
) -> None:
    got = sensor.to_reflectance(np.array([[[number]]]))
    assert got.dtype == np.float32
    assert got.item() == pytest.approx(reflectance, abs=1e-7)


def whole_numbers(name: str, dtype: str) -> tuple[int, int]:
    """The least and the largest digital number that a type holds of a sensor's range."""
    zero, unit = float(SENSORS[name].zero.max()), float(SENSORS[name].unit.max())
    return max(int(np.ceil(zero)), 0), min(int(zero + unit * SENSORS[name].range.span), np.iinfo(dtype).max)


INTEGERS = [
    (name, dtype)
    for name in sorted(SENSORS.keys() - {"reflectance", "picture"})  # these are for floats
    for dtype in ("uint8", "uint16", "int16")
    if whole_numbers(name, dtype)[0] <= whole_numbers(name, dtype)[1]
]


@pytest.mark.parametrize(("name", "dtype"), INTEGERS)
def test_integers_inside_the_range_come_back_as_they_went(name: str, dtype: str) -> None:
    sensor = SENSORS[name]
    bands = max(len(sensor.bands), 1)
    low, high = whole_numbers(name, dtype)
    dn = np.broadcast_to(np.arange(low, high + 1).astype(dtype), (bands, 1, high - low + 1))
    assert np.array_equal(sensor.from_model(sensor.to_model(dn), dtype), dn)


@pytest.mark.parametrize(
    ("sensor", "zero", "unit"),
    [
        (RGB8, 0, 255),
        (SENTINEL2_L2A, 0, 10000),
        (SENTINEL2_L2A_N0400, 1000, 10000),
        (SENTINEL2_L2A_N0400.into(ModelRange((0.02,), (0.42,), 2.0)), 1200, 2000),
        (LANDSAT_C2_L2, 7272.727273, 36363.636364),
    ],
    ids=lambda it: it.name if isinstance(it, Sensor) else str(it),
)
def test_the_models_0_and_1_are_known_in_digital_numbers(sensor: Sensor, zero: float, unit: float) -> None:
    assert sensor.zero.shape == sensor.unit.shape == (1, 1, 1)
    assert (sensor.zero.item(), sensor.unit.item()) == (zero, unit)


def test_values_beyond_the_range_are_clipped_at_both_ends_on_the_way_in_only() -> None:
    sensor = ONE_BAND["s2-l2a-n0400"].into(ModelRange((0.1,), (0.5,), 2.0))
    assert sensor.to_model(line(0, 2000, 4000, 6000, 9000, dtype="uint16"))[0, 0].tolist() == [0, 0, 1, 2, 2]
    assert sensor.from_model(line(-0.5, 0, 1, 2, 2.5), "uint16")[0, 0].tolist() == [1000, 2000, 4000, 6000, 7000]


def test_large_integers_keep_their_last_digit() -> None:
    sensor = REFLECTANCE.into(ModelRange((16777216.0,), (16777220.0,), 4.0))
    assert sensor.to_model(line(16777216, 16777217, 16777219, dtype="int32"))[0, 0].tolist() == [0, 1, 3]


def test_integers_are_held_within_their_type_and_rounded_to_nearest() -> None:
    x = np.array([-1.0, 0.0, 0.4999 / 255, 0.5001 / 255, 1.0, 9.0]).reshape(1, 1, -1).repeat(3, axis=0)
    assert RGB8.from_model(x, "uint8")[0, 0].tolist() == [0, 0, 0, 1, 255, 255]
    assert into_dtype(line(-40000, -1.6, 1.6, 40000), np.dtype("int16"))[0, 0].tolist() == [-32768, -2, 2, 32767]
    assert into_dtype(line(-0.25, 300.5), np.dtype("float32"))[0, 0].tolist() == [-0.25, 300.5]


def test_nan_stays_nan() -> None:
    assert np.isnan(SEN12MSCR_SAR.to_model(np.full((2, 1, 1), np.nan, "float32"))).all()


def test_one_band_of_a_sensor_has_its_own_range() -> None:
    assert SEN12MSCR_SAR.band(1).to_model(line(-35, -17.5, 0))[0, 0].tolist() == [0, 1, 2]
    assert SEN12MSCR_SAR.band(0).to_model(line(-25, -12.5, 0))[0, 0].tolist() == [0, 1, 2]
    assert SEN12MSCR_OPTICAL.band(12).to_model(line(2000, dtype="uint16")).item() == 1  # one range for all
    assert SEN12MSCR_OPTICAL.band(12).bands == ()


@pytest.mark.parametrize(
    ("sensor", "product"),
    [
        (SENTINEL2_L1C, "s2-l1c"),
        (SENTINEL2_L1C_N0400, "s2-l1c"),
        (SENTINEL2_L2A_N0400, "s2-l2a"),
        (LANDSAT_TM_C2_L2, "landsat-tm-c2-l2"),
        (RGB8, "rgb8"),
        (PICTURE, "picture"),
        (replace(REFLECTANCE, name="scaled by its tags"), "reflectance"),
        (replace(PICTURE, name="stretched"), "picture"),
    ],
    ids=lambda it: it.name if isinstance(it, Sensor) else it,
)
def test_a_product_is_one_through_all_its_baselines(sensor: Sensor, product: str) -> None:
    assert sensor.product == product


def test_0_is_nothing_in_sentinel_2_and_landsat_and_a_value_elsewhere() -> None:
    without = {name for name, sensor in SENSORS.items() if sensor.nodata is None}
    assert without == {"rgb8", "picture", "reflectance"}
    assert {sensor.nodata for name, sensor in SENSORS.items() if name not in without} == {0}


def test_a_wrong_band_count_is_refused_with_the_bands_expected() -> None:
    with pytest.raises(ShapeError, match=r"13 bands B01 .* got an array of shape \(3, 2, 2\)"):
        SEN12MSCR_OPTICAL.to_model(np.zeros((3, 2, 2), "uint16"))
    with pytest.raises(ShapeError, match=r"2 bands.* got an array of shape \(1, 2, 2\)"):
        SEN12MSCR_SAR.unnamed().to_model(np.zeros((1, 2, 2), "float32"))
    with pytest.raises(ShapeError, match=r"any number of bands, got an array of shape \(2, 2\)"):
        REFLECTANCE.from_model(np.zeros((2, 2), "float32"), "float32")
    assert REFLECTANCE.to_model(np.zeros((5, 2, 2), "float32")).shape == (5, 2, 2)


def everywhere(values: np.ndarray) -> Any:
    return np.ones(values.shape, bool)


@pytest.mark.parametrize(
    ("name", "dtype", "message"),
    [
        ("reflectance", "uint16", "uint16 numbers and reflectance is float 0..1: name the product; `sensor` is one of"),
        ("picture", "uint8", "uint8 numbers and picture is float"),
        ("rgb8", "uint16", "uint16 numbers and rgb8 is 0..255 in uint8"),
        ("rgb8", "float32", "float32 numbers and rgb8"),
        ("s2-l1c", "float32", "16 bits: if these were scaled already, say `sensor=reflectance`"),
        ("s2-l2a-n0400", "uint8", "uint8 values and s2-l2a-n0400 is digital numbers of 16 bits: .* say `sensor=rgb8`"),
        ("landsat-c2-l2", "float64", "say `sensor=reflectance`"),
        ("landsat-tm-c2-l2", "int8", "of 16 bits: .* say `sensor=rgb8`"),
    ],
)
def test_numbers_of_a_kind_that_the_sensor_does_not_have_are_refused(name: str, dtype: str, message: str) -> None:
    values = np.ones((1, 2, 2), dtype)
    with pytest.raises(SceneError, match=message):
        check_values(SENSORS[name], values, everywhere(values))


@pytest.mark.parametrize(
    ("name", "top", "fits"),
    [
        ("reflectance", 10.0, True),
        ("reflectance", 10.1, False),
        ("picture", 10.1, False),
        ("s2-l2a", 256, True),
        ("s2-l2a", 255, False),
        ("landsat-c2-l1", 255, False),
    ],
)
def test_values_that_end_where_the_sensors_cannot_are_refused(name: str, top: float, fits: bool) -> None:
    sensor = replace(SENSORS[name], offset=0.0)
    values = np.full((1, 4, 4), top, "float32" if name in ("reflectance", "picture") else "uint16")
    if fits:
        check_values(sensor, values, everywhere(values))
        return
    with pytest.raises(SceneError, match=f"to {top:g} and reflectance is 0..1|end at {top:g} and {name} goes to 10000"):
        check_values(sensor, values, everywhere(values))


def test_integers_that_are_no_ten_thousandths_of_reflectance_are_refused() -> None:
    sensor = replace(REFLECTANCE, scale=1e-4, offset=-0.1)
    values = np.full((1, 4, 4), 21000, "uint16")
    check_values(sensor, values, everywhere(values))
    with pytest.raises(SceneError, match=r"go up to 21100, which is reflectance 2\.0 at 0\.0001 each: .*gdal_edit"):
        check_values(sensor, values + 100, everywhere(values))


def test_one_outlier_in_many_values_says_nothing() -> None:
    values = np.full((1, 100, 100), 0.2, "float32")
    values[0, 0, :5] = 1000
    check_values(REFLECTANCE, values, everywhere(values))
    values[0, 0, :20] = 1000
    with pytest.raises(SceneError, match="floats up to 1000"):
        check_values(REFLECTANCE, values, everywhere(values))


def test_more_than_half_below_reflectance_0_is_refused() -> None:
    values = np.full((1, 1, 10), 3000, "uint16")
    values[0, 0, :5] = 999
    check_values(SENTINEL2_L2A_N0400, values, everywhere(values))
    values[0, 0, 5] = 999
    with pytest.raises(
        SceneError, match=r"below reflectance 0 as s2-l2a-n0400: its offset of -0.1 was already subtracted"
    ):
        check_values(SENTINEL2_L2A_N0400, values, everywhere(values))
    check_values(SENTINEL2_L2A, values, everywhere(values))
    values[0, 0, :9] = 1000  # reflectance 0 itself
    check_values(SENTINEL2_L2A_N0400, values, everywhere(values))


@pytest.mark.parametrize(
    ("name", "blue", "red", "told"),
    [
        ("s2-l1c", 510, 300, None),
        ("s2-l1c", 490, 300, r"blue of the scene is 0\.049 and the darkest red 0\.030 as s2-l1c, .* `sensor=s2-l2a`"),
        ("s2-l1c-n0400", 1490, 1300, r"more like s2-l2a-n0400\. .* `sensor=s2-l2a-n0400`"),
        ("s2-l1c-n0400", 1510, 1300, None),
        ("s2-l2a", 1000, 660, None),
        ("s2-l2a", 1000, 640, "`sensor=s2-l1c`"),
        ("s2-l2a", 590, 300, None),
        ("s2-l2a", 610, 300, "`sensor=s2-l1c`"),
        ("s2-l2a-n0400", 1610, 1300, "`sensor=s2-l1c-n0400`"),
        ("s2-l2a-n0400", 1500, 910, None),
        ("s2-l2a-n0400", 1500, 890, r"red is below reflectance -0\.01 as s2-l2a-n0400: its offset of -0\.1 .*s2-l2a`"),
        ("landsat-c2-l2", 20000, 12000, None),
    ],
)
def test_another_level_than_the_darkest_blue_and_red_show_is_told(
    name: str, blue: int, red: int, told: str | None
) -> None:
    dark = [np.full(1000, number, "uint16") for number in (blue, red)]
    for plane, share in zip(dark, (0.98, 0.89), strict=True):
        plane[: round(share * 1000)] = 3000  # 2 % of blue and 11 % of red are as dark
    if told is None:
        check_level(SENSORS[name], *dark)
        return
    with pytest.warns(AttcrWarning, match=told):
        check_level(SENSORS[name], *dark)


def test_no_level_is_told_from_the_few_darkest_pixels_or_from_none() -> None:
    blue = np.full(1000, 900, "uint16")
    blue[:9] = 100
    check_level(SENSORS["s2-l1c"], blue, blue)
    red = np.full(1000, 1500, "uint16")
    red[:99] = 500
    check_level(SENSORS["s2-l2a-n0400"], red, red)
    check_level(SENSORS["s2-l1c"], blue[:0], blue[:0])


def test_only_valid_values_are_judged() -> None:
    values = np.full((1, 1, 10), 5, "uint16")
    values[0, 0, 9] = 4000
    valid = values > 1000
    check_values(SENTINEL2_L2A, values, valid)
    check_values(SENTINEL2_L2A, values, np.zeros(values.shape, bool))
    with pytest.raises(SceneError, match="look"):
        check_values(SENTINEL2_L2A, values, ~valid)


def test_floats_that_nobody_named_are_told_and_those_of_a_picture_refused() -> None:
    values = np.linspace(0.01, 0.9, 300, dtype=np.float32).reshape(3, 10, 10)
    everything = np.ones(values.shape, bool)
    with pytest.warns(AttcrWarning, match="count as reflectance. If it is a picture.*`sensor=picture`"):
        check_floats(values, everything)
    eight_bits = (np.arange(300) % 256 / 255).astype(np.float32).reshape(3, 10, 10)
    with pytest.raises(SceneError, match=r"multiples of 1/255.*say `sensor=picture`"):
        check_floats(eight_bits, everything)
    eight_bits[0, 0, 0] = 0.123
    only_first = np.zeros(values.shape, bool)
    only_first[0, 0] = True
    with pytest.warns(AttcrWarning):
        check_floats(eight_bits, only_first)
    only_first[0, 0, 0] = False
    with pytest.raises(SceneError, match="1/255"):
        check_floats(eight_bits, only_first)


def test_floats_of_two_values_alone_are_not_known_to_be_a_picture() -> None:
    values = (np.arange(300) % 2).astype(np.float32).reshape(3, 10, 10)
    with pytest.warns(AttcrWarning, match="count as reflectance"):
        check_floats(values, np.ones((10, 10), bool).reshape(1, 10, 10).repeat(3, 0))
    with pytest.raises(SceneError, match="1/255"):
        check_floats(values + np.eye(10, dtype=np.float32), np.ones(values.shape, bool))
