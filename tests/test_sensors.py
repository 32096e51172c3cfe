"""Digital numbers, reflectance and the model's range."""

import numpy as np
import pytest

from attcr.errors import ShapeError
from attcr.sensors import (
    LANDSAT_C2_L2,
    RGB8,
    SEN12MSCR_OPTICAL,
    SEN12MSCR_SAR,
    SENSORS,
    SENTINEL2_L1C,
    SENTINEL2_L1C_N0400,
)


def ramp(bands: int, stop: int, dtype: str) -> np.ndarray:
    return np.broadcast_to(np.arange(stop).astype(dtype).reshape(1, 1, -1), (bands, 1, stop))


def test_sen12mscr_optical_is_the_clip_to_10000_over_2000_to_the_last_bit() -> None:
    dn = ramp(13, 65536, "uint16")
    x = SEN12MSCR_OPTICAL.to_model(dn)
    assert x.dtype == np.float32
    assert np.array_equal(x, np.clip(dn, 0, 10000).astype(np.float32) / np.float32(2000))


def test_sen12mscr_radar_goes_from_its_decibels_to_0_2() -> None:
    db = np.array([[-30, -25, -12.5, 0, 3], [-40, -35, -17.5, 0, 3]], dtype=np.float32).reshape(2, 1, 5)
    wanted = np.array([[0, 0, 1, 2, 2], [0, 0, 1, 2, 2]], dtype=np.float32).reshape(2, 1, 5)
    assert np.array_equal(SEN12MSCR_SAR.to_model(db), wanted)


def test_baseline_0400_sees_the_same_reflectance_1000_digital_numbers_higher() -> None:
    dn = ramp(13, 11000, "uint16")
    before, after = SENTINEL2_L1C.to_model(dn), SENTINEL2_L1C_N0400.to_model(dn + 1000)
    assert np.allclose(before, after, atol=1e-6)
    assert SENTINEL2_L1C_N0400.to_model(np.full((13, 1, 1), 1000, "uint16")).max() == 0


def test_landsat_collection_2_has_its_published_scale_and_offset() -> None:
    dn = np.full((7, 1, 1), 20000, "uint16")
    assert LANDSAT_C2_L2.to_reflectance(dn)[0, 0, 0] == pytest.approx(0.35)


@pytest.mark.parametrize("name", sorted(SENSORS))
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int16"])
def test_integers_inside_the_range_come_back_as_they_went(name: str, dtype: str) -> None:
    sensor = SENSORS[name]
    if name in ("reflectance", "picture"):
        pytest.skip(f"{name} is for floats")
    bands = max(len(sensor.bands), 1)
    zero, unit = float(sensor.zero.max()), float(sensor.unit.max())
    low = max(int(np.ceil(zero)), 0)
    high = min(int(zero + unit * sensor.range.span), np.iinfo(dtype).max)
    if low > high:
        pytest.skip(f"{name} has no values in {dtype}")
    dn = np.broadcast_to(np.arange(low, high + 1).astype(dtype), (bands, 1, high - low + 1))
    assert np.array_equal(sensor.from_model(sensor.to_model(dn), dtype), dn)


def test_integers_are_held_within_their_type_and_rounded_to_nearest() -> None:
    x = np.array([-1.0, 0.0, 0.4999 / 255, 0.5001 / 255, 1.0, 9.0]).reshape(1, 1, -1).repeat(3, axis=0)
    assert RGB8.from_model(x, "uint8")[0, 0].tolist() == [0, 0, 0, 1, 255, 255]


def test_nan_stays_nan() -> None:
    assert np.isnan(SEN12MSCR_SAR.to_model(np.full((2, 1, 1), np.nan, "float32"))).all()


def test_a_wrong_band_count_is_refused_with_the_bands_expected() -> None:
    with pytest.raises(ShapeError, match=r"13 bands B01 .* got an array of shape \(3, 2, 2\)"):
        SEN12MSCR_OPTICAL.to_model(np.zeros((3, 2, 2), "uint16"))
