"""Pairs of two dates are read band by band, and each pixel has its class."""

from pathlib import Path

import numpy as np
import pytest

from attcr.bands.sensors import S2_COMMON, S2_L1C_BANDS
from attcr.data import find_set
from attcr.data.dates import BANDS_10M, BANDS_20M, BANDS_60M, CLASSES_MASK, ClearDates, read_date, tell_classes
from attcr.errors import ConfigError, DataError, DataNotFoundError
from fakes import write_native, write_tif

SIZE = 12
CLEAR, THICK, THIN, SHADOW, NOT_SCORED = 0, 1, 2, 3, 255


def numbers(seed: int) -> np.ndarray:
    """(13, 12, 12) digital numbers as Sentinel-2 has them: coarse bands the same over their pixels."""
    values = np.random.default_rng(seed).integers(1, 9000, (13, SIZE, SIZE)).astype(np.uint16)
    for names, step in ((BANDS_20M, 2), (BANDS_60M, 6)):
        for band in names:
            at = S2_L1C_BANDS.index(band)
            values[at] = values[at, ::step, ::step].repeat(step, 0).repeat(step, 1)
    return values


def test_each_place_pairs_its_clearest_date_with_the_others(tmp_path: Path) -> None:
    mask = np.zeros((SIZE, SIZE), np.uint8)
    cloudy, clear = numbers(0), numbers(1)
    mask[:6] = THIN
    mask[0, :3] = THICK, SHADOW, THIN
    some = np.zeros_like(mask)
    some[11] = SHADOW
    write_native(tmp_path, "roi1_a", cloudy, mask)
    write_native(tmp_path, "roi1_b", clear, some)
    write_native(tmp_path, "roi2_a", clear, mask)
    write_native(tmp_path, "roi2_b", cloudy, some)
    clear[3, 7, 7] = 0
    write_native(tmp_path, "roi1_b", clear, some)
    data = find_set("cloudsen12")
    samples = data.open(tmp_path)
    assert list(samples.names) == ["roi1_a", "roi2_a"]
    sample = samples[0]
    assert samples.spec == data.spec
    assert sample["inputs"].shape == (27, SIZE, SIZE)
    np.testing.assert_allclose(sample["inputs"][:13].numpy() / data.peak, cloudy / 1e4, atol=1e-6)
    np.testing.assert_allclose(sample["clear"].numpy() / data.peak, clear / 1e4, atol=1e-6)
    assert sample["inputs"][13:26].min() == 1
    assert sample["inputs"][26].max() == 0
    classes = sample["masks"][CLASSES_MASK].numpy()
    expected = mask.copy()
    expected[11] = NOT_SCORED  # not clear on the clear date
    expected[7, 7] = NOT_SCORED  # no value there
    np.testing.assert_array_equal(classes, expected)


def test_the_files_of_a_pair_of_sen12mscr_are_put_in_order(tmp_path: Path) -> None:
    clear = numbers(3)
    cloudy = clear + 200  # of 10000: less than cloud, in reflectance
    cloudy[10] = clear[10]
    cloudy[:10, :6] += 200
    for kind, values, ending in (("s2", clear, "jp2"), ("s2_cloudy", cloudy, "tif")):
        for part, names in ((f"{kind}_10m.jp2", BANDS_10M), (f"{kind}_rest.{ending}", BANDS_20M + BANDS_60M)):
            write_tif(tmp_path / f"p1_{part}", values[[S2_L1C_BANDS.index(name) for name in names]])
    sample = find_set("sen12mscr-pairs").open(tmp_path)[0]
    assert sample["name"] == "p1"
    np.testing.assert_allclose(sample["inputs"][:13].numpy(), cloudy / 4e3, atol=1e-6)
    np.testing.assert_allclose(sample["clear"].numpy(), clear / 4e3, atol=1e-6)
    classes = sample["masks"][CLASSES_MASK].numpy()
    assert (set(classes[:6].flat), set(classes[6:].flat)) == ({THIN}, {CLEAR})
    (tmp_path / "p1_s2_rest.jp2").unlink()
    with pytest.raises(DataNotFoundError, match=r"sen12mscr-pairs: looked for one file .*p1_s2_rest.* and found 0"):
        find_set("sen12mscr-pairs").open(tmp_path)


def test_ten_bands_of_the_surface_say_what_they_are_and_are_compared_with_the_mean_around(tmp_path: Path) -> None:
    values = {date: numbers(seed)[:10] for seed, date in enumerate(("2022-08-17", "2022-09-02", "2022-09-18"))}
    for date, bands in values.items():
        write_tif(tmp_path / f"{date}.tif", bands)
    samples = find_set("haze-20lmr").open(tmp_path)
    sample = samples[0]
    assert list(samples.names) == ["2022-09-02"]
    names = list(samples.spec.outputs)
    assert names == [name for name in S2_COMMON if name not in ("coastal", "nir09", "cirrus")]
    at = [S2_COMMON.index(name) for name in names]
    absent = [i for i in range(13) if i not in at]
    np.testing.assert_allclose(sample["inputs"][at].numpy(), values["2022-09-02"] / 4e3, atol=1e-6)
    middle = (values["2022-08-17"].astype(float) + values["2022-09-18"]) / 2
    np.testing.assert_allclose(sample["clear"].numpy(), middle / 4e3, atol=1e-6)
    assert sample["inputs"][absent].abs().max() == 0
    assert sample["inputs"][13:26].mean((1, 2)).tolist() == [float(i in at) for i in range(13)]
    assert sample["inputs"][26].min() == 1


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, CLEAR),
        ({"blue": 0.08, "green": 0.0, "red": 0.0}, CLEAR),
        ({"blue": 0.04, "green": 0.03, "red": 0.03}, THIN),
        ({"cirrus": 0.004}, THIN),
        ({"cirrus": 0.002}, CLEAR),
        ({"blue": 0.2, "green": 0.2, "red": 0.19}, THIN),
        ({"blue": 0.21, "green": 0.21, "red": 0.21}, THICK),
        ({"nir": -0.08, "swir16": -0.08}, SHADOW),
        ({"nir": -0.08, "swir16": -0.07}, CLEAR),
        ({"nir": -0.08, "swir16": -0.08, "blue": 0.3}, THIN),
    ],
)
def test_pixels_without_a_mask_are_told_by_how_the_dates_differ(change: dict[str, float], expected: int) -> None:
    clear = {name: np.full((2, 2), 0.3) for name in S2_COMMON}
    cloudy = {name: values + change.get(name, 0.0) for name, values in clear.items()}
    assert tell_classes(cloudy, clear).tolist() == [[expected] * 2] * 2
    assert tell_classes(cloudy, clear).dtype == np.uint8


def test_without_a_cirrus_band_it_is_not_asked(tmp_path: Path) -> None:
    clear = {name: np.full((1, 1), 0.3) for name in S2_COMMON if name != "cirrus"}
    assert tell_classes({name: values + 0.04 for name, values in clear.items()}, clear).item() == THIN


def test_what_is_missing_or_not_meant_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataNotFoundError, match=r"cloudsen12: there are no pairs in .*_mask\.tif"):
        find_set("cloudsen12").open(tmp_path)
    with pytest.raises(ConfigError, match="cloudsen12 has no part 'train'; it has test"):
        find_set("cloudsen12").open(tmp_path, "train")
    with pytest.raises(ConfigError, match="leave out cache"):
        find_set("cloudsen12").open(tmp_path, cache=True)
    for date in ("2022-08-17", "2022-09-02", "2022-09-18"):
        write_tif(tmp_path / f"{date}.tif", numbers(0))
    with pytest.raises(DataError, match=r"2022-09-02.tif has 13 bands and 10 are expected: B02 B03"):
        find_set("haze-20lmr").open(tmp_path)[0]


def test_clear_dates_are_paired_with_their_neighbours_both_ways_or_as_one_says(tmp_path: Path) -> None:
    for name, value in (("2020-01-01", 1000), ("2020-01-11", 2000), ("20200301", 3000)):
        write_tif(tmp_path / f"{name}.tif", np.full((2, 4, 5), value, np.uint16))
    dates = find_set("dates").open(tmp_path)
    assert isinstance(dates, ClearDates)
    first, second, third = "2020-01-01", "2020-01-11", "20200301"
    assert dates.pairs == [(first, second), (second, first), (second, third), (third, second)]
    assert [dates.days_apart(at) for at in range(len(dates))] == [10, -10, 50, -50]
    sample = dates[2]
    assert sample["name"] == "2020-01-11,20200301"
    assert (float(sample["clear"].mean()), float(sample["inputs"].mean())) == (pytest.approx(0.2), pytest.approx(0.3))
    assert sample["clear"].shape == (2, 4, 5)
    assert (dates.bands, dates.spec.outputs) == (["", ""], ("band 1", "band 2"))
    told = find_set("dates").told(pairs=[(third, first)]).open(tmp_path)
    assert list(told.names) == ["20200301,2020-01-01"]


def test_integers_are_digital_numbers_and_floats_reflectance_whatever_they_are(tmp_path: Path) -> None:
    for dtype, value, expected in ((np.uint16, 9, 9e-4), (np.int16, 12000, 1.2), (np.float32, 12.5, 12.5)):
        write_tif(tmp_path / "x.tif", np.full((1, 2, 2), value, dtype))
        values, names = read_date(tmp_path / "x.tif")
        assert values.dtype == np.float32
        assert values.max() == pytest.approx(expected)
        assert names == [""]


def test_dates_that_are_not_there_or_do_not_fit_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataNotFoundError, match="holds 0 dates: expected at least two"):
        find_set("dates").open(tmp_path)
    write_tif(tmp_path / "first.tif", np.ones((2, 4, 5), np.uint16))
    write_tif(tmp_path / "second.tif", np.ones((2, 4, 6), np.uint16))
    with pytest.raises(DataNotFoundError, match=r"holds no third\.tif: name dates that are there"):
        find_set("dates").told(pairs=[("first", "third")]).open(tmp_path)
    dates = find_set("dates").open(tmp_path)
    assert dates.days_apart(0) is None  # type: ignore[attr-defined]
    with pytest.raises(DataError, match=r"first.tif is \(2, 4, 5\) and .*second.tif \(2, 4, 6\): bring the dates"):
        dates[0]
    with pytest.raises(ConfigError, match="leave out cache"):
        find_set("dates").open(tmp_path, cache=True)
    with pytest.raises(ConfigError, match="cloudsen12 has no dates to choose pairs of"):
        find_set("cloudsen12").told(pairs=[("first", "second")])
