import json
from dataclasses import replace

import pytest

from attcr.bands.sensors import SENSORS
from attcr.errors import ConfigError
from attcr.fleet.manifest import Work
from attcr.fleet.settings import options_of, with_settings
from attcr.restore.options import RestoreOptions


@pytest.mark.parametrize(
    "wrong",
    [
        {"tile": "7"},
        {"tile": True},
        {"tile": 7.0},
        {"tile": None},
        {"colour": 1},
        {"confidence": 1},
        {"confidence": None},
        {"nodata": "x"},
        {"nodata": False},
        {"mask": 1},
        {"unseen": "paint"},
        {"unseen": None},
        {"mask": ["scl"]},
        {"radar": 1},
        {"sensor": 7},
        {"dtype": "int8"},
        {"dtype": None},
        {"bands": [1.5, 2, 3]},
        {"bands": [True]},
        {"bands": {"red": 1}},
    ],
    ids=str,
)
def test_settings_that_cannot_be_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        with_settings(RestoreOptions(), wrong)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"tile": "big"}, r"^The option tile is 'big'; expected int\.$"),
        ({"nodata": "x"}, r"^The option nodata is 'x'; expected float or None\.$"),
        ({"sensor": 7}, r"^The option sensor is 7; expected str or Sensor or None\.$"),
        ({"bands": 1.5}, r"^The option bands is 1\.5; expected a list of str or str or None\.$"),
        ({"dtype": 8}, r"^The option dtype is 8; expected auto or float32 or bfloat16 or float16\.$"),
        (
            {"dtype": "auto"},
            r"^The option dtype is 'auto', which differs between machines: name float32 or bfloat16\.$",
        ),
        ({"tyle": 64}, r"^There is no option 'tyle'; expected one of tile, overlap, "),
    ],
)
def test_a_refusal_says_what_came_and_what_was_expected(wrong: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        with_settings(RestoreOptions(), wrong)


def test_settings_take_the_place_of_options() -> None:
    settings = {"bands": "B04,B03,B02", "nodata": 0, "confidence": True, "sensor": "rgb8", "tile": 128}
    options = with_settings(RestoreOptions(overlap=16), settings)
    assert options.bands == ("B04", "B03", "B02")
    assert (options.nodata, options.confidence, options.sensor, options.tile) == (0, True, "rgb8", 128)
    assert options.overlap == 16


@pytest.mark.parametrize(
    ("given", "bands"), [("red", ("red",)), (["red", 4], ("red", "4")), (4, ("4",)), ([4, 3, 2], ("4", "3", "2"))]
)
def test_bands_are_names_or_numbers(given: object, bands: tuple[str, ...]) -> None:
    assert with_settings(RestoreOptions(), {"bands": given}).bands == bands


def test_what_may_be_absent_is_taken_back_by_null() -> None:
    common = RestoreOptions(bands=("red",), nodata=7.5, radar="radar.tif", sensor=SENSORS["rgb8"])
    options = with_settings(common, {"bands": None, "nodata": None, "radar": None, "sensor": None})
    assert options == RestoreOptions()
    assert with_settings(options, {"sensor": SENSORS["rgb8"], "nodata": -0.5}).nodata == -0.5


def test_the_options_of_a_row_stand_over_those_of_the_run() -> None:
    common = RestoreOptions(tile=64, overlap=8, mask="scl")
    assert options_of(Work("a", ("a.tif",)), common) == replace(common, dtype="float32")
    options = options_of(Work("a", ("a.tif",), options=json.dumps({"mask": "none", "dilate": 2})), common)
    assert (options.mask, options.dilate, options.tile) == ("none", 2, 64)


@pytest.mark.parametrize("text", ["{not json", "[1]", "7", '"mask=scl"'])
def test_a_row_whose_options_are_no_object_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="not a JSON object"):
        options_of(Work("a", ("a.tif",), options=text), RestoreOptions())


def test_a_fleet_searches_for_no_references() -> None:
    with pytest.raises(ConfigError, match="let `attcr fleet plan` find those of each scene"):
        options_of(Work("a", ("a.tif",), options=json.dumps({"references": "auto"})), RestoreOptions())


@pytest.mark.parametrize(("given", "references"), [("a.tif,b.tif", ("a.tif", "b.tif")), (["a,b.tif"], ("a,b.tif",))])
def test_references_come_as_a_list_or_with_commas(given: object, references: tuple[str, ...]) -> None:
    assert with_settings(RestoreOptions(), {"references": given}).references == references


@pytest.mark.parametrize("nodata", [0, 0.0])
def test_a_number_stays_what_it_was_because_digests_tell_them_apart(nodata: float) -> None:
    options = with_settings(RestoreOptions(), {"nodata": nodata})
    assert type(options.nodata) is type(nodata)
    assert options.digest() == RestoreOptions(nodata=nodata).digest()
