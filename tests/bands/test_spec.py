"""What weights say they take and give: slots, ranges, which bands of a scene fit, and what is refused."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from attcr.bands.sensors import (
    LANDSAT_C2_L2,
    LANDSAT_TM_C2_L2,
    PICTURE,
    REFLECTANCE,
    RGB,
    RGB8,
    S2_COMMON,
    SENTINEL2_L1C,
    SENTINEL2_L1C_N0400,
    SENTINEL2_L2A,
    SENTINEL2_L2A_N0400,
    ModelRange,
    Sensor,
)
from attcr.bands.spec import (
    ANY_BANDS,
    PRODUCTS,
    RICE2,
    SEN12MSCR,
    SEN12MSCR_OPTICAL,
    TRUE_COLOUR,
    InputSpec,
    Slot,
    band_slots,
)
from attcr.errors import ConfigError, SceneError


def spec_of(*slots: Slot, products: tuple[str, ...] = PRODUCTS) -> InputSpec:
    return InputSpec(slots, (slots[0].name,), products, (10.0, 30.0), ("thin",))


def column(*values: float) -> np.ndarray:
    return np.array(values).reshape(-1, 1, 1)


def into_model(sensor: Sensor, *values: float, dtype: str = "uint16") -> list[float]:
    return [round(float(x), 6) for x in sensor.to_model(np.array(values, dtype).reshape(1, 1, -1)).ravel()]


def test_a_slot_knows_its_kind() -> None:
    assert [Slot(name).kind for name in ("red", "sar:vv", "reference:red", "mask:cloud")] == [
        "band", "sar", "reference", "mask",
    ]  # fmt: skip
    assert [slot.name for slot in SEN12MSCR.of_kind("sar")] == ["sar:vv", "sar:vh"]
    assert [slot.name for slot in SEN12MSCR.bands] == list(S2_COMMON)
    assert SEN12MSCR.positions(["red", "sar:vh", "coastal"]) == [5, 1, 2]
    assert SEN12MSCR.positions(SEN12MSCR.outputs) == list(range(2, 15))
    assert (TRUE_COLOUR.span, SEN12MSCR.span) == (1.0, 5.0)  # the span of bands, not of the radar before them


def test_the_specs_of_the_data_sets_are_what_they_were_trained_on() -> None:
    assert [(s.name, s.wavelength, s.low, s.high, s.span) for s in TRUE_COLOUR.slots] == [
        ("red", 665, 0, 0.3558, 1), ("green", 560, 0, 0.3558, 1), ("blue", 490, 0, 0.3558, 1),
    ]  # fmt: skip
    assert (TRUE_COLOUR.outputs, TRUE_COLOUR.gsd, TRUE_COLOUR.removes) == (RGB, (10, 10), ("thin",))
    assert [(s.name, s.wavelength) for s in RICE2.slots] == [("swir16", 1610), ("nir08", 865), ("red", 665)]
    assert (RICE2.products, RICE2.gsd) == (("rgb8", "picture"), (30, 30))
    assert RICE2.removes == SEN12MSCR.removes == ("thin", "thick", "shadow")
    assert SEN12MSCR.products == ("s2-l1c",)
    assert [(s.low, s.high, s.span) for s in SEN12MSCR.slots[:3]] == [(-25, 0, 2), (-35, 0, 2), (0, 1, 5)]
    assert SEN12MSCR_OPTICAL.slots == SEN12MSCR.slots[2:]
    assert PRODUCTS == (
        "rgb8", "picture", "reflectance", "s2-l1c", "s2-l2a", "landsat-c2-l1", "landsat-c2-l2", "landsat-tm-c2-l2",
    )  # fmt: skip
    assert band_slots(["nir", "band 1"], high=0.5, span=2.0) == (
        Slot("nir", 842.0, 0.0, 0.5, 2.0), Slot("band 1", None, 0.0, 0.5, 2.0),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"slots": ()}, r"the slots \[\] must be at least one"),
        ({"slots": band_slots(["red", "red", "blue"])}, r"'red', 'red', 'blue'\] must be at least one, and each named"),
        ({"outputs": ()}, "must be bands among the slots"),
        ({"outputs": ("red", "nir")}, r"outputs \('red', 'nir'\) must be bands among the slots \['red', 'green'"),
        ({"outputs": ("red", "red")}, "each named once"),
        ({"products": ("rgb8", "s2-l2a-n0400")}, "must be among rgb8, picture, reflectance, s2-l1c"),
        ({"removes": ()}, r"removes=\(\) must name some of thin, thick, shadow"),
        ({"removes": ("thin", "haze")}, "must name some of thin, thick, shadow"),
        ({"gsd": (10.0,)}, "the finest and the coarsest distance"),
        ({"gsd": (20.0, 10.0)}, "the finest and the coarsest distance"),
        ({"gsd": (0.0, 10.0)}, "the finest and the coarsest distance"),
        ({"slots": (Slot("red"), Slot("green", span=2.0), Slot("blue"))}, "the band slots have several spans"),
        ({"slots": (Slot("red", low=1.0), Slot("green"), Slot("blue"))}, "low < high"),
        ({"slots": tuple(Slot(name, span=0.0) for name in RGB)}, "a span above 0"),
    ],
    ids=str,
)
def test_a_spec_that_cannot_be_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        replace(TRUE_COLOUR, **change)


def test_an_output_that_is_no_band_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"bands among the slots \['red'\]"):
        InputSpec((Slot("sar:vv"), Slot("red")), ("sar:vv",), PRODUCTS, (10.0, 10.0), ("thin",))


@pytest.mark.parametrize("gsd", [(10.0, 10.0), (0.5, 30.0)], ids=str)
def test_one_distance_may_be_the_finest_and_the_coarsest(gsd: tuple[float, float]) -> None:
    assert replace(TRUE_COLOUR, gsd=gsd).gsd == gsd


@pytest.mark.parametrize("spec", [TRUE_COLOUR, RICE2, SEN12MSCR, replace(SEN12MSCR_OPTICAL, spread=True)])
def test_a_spec_comes_back_from_json_the_same(spec: InputSpec) -> None:
    assert InputSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"slots": None}, "not a description"),
        ({"colour": 1}, "unexpected keyword argument 'colour'"),
        ({"slots": [{"name": "red", "wave": 1}]}, "unexpected keyword argument 'wave'"),
        ({"removes": ["haze"]}, "must name some of"),
    ],
    ids=str,
)
def test_what_is_no_spec_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        InputSpec.from_json({**TRUE_COLOUR.to_json(), **change})
    with pytest.raises(ConfigError, match=r"not a description of a network's input: 'slots'"):
        InputSpec.from_json({"outputs": ["red"]})
    with pytest.raises(ConfigError, match="not a description"):
        InputSpec.from_json([])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("spec", "sensor", "values", "wanted", "dtype"),
    [
        (TRUE_COLOUR, SENTINEL2_L2A, (0, 1779, 3558, 9000), [0, 0.5, 1, 1], "uint16"),
        (TRUE_COLOUR, SENTINEL2_L2A_N0400, (0, 1000, 2779, 4558), [0, 0, 0.5, 1], "uint16"),
        (TRUE_COLOUR, LANDSAT_C2_L2, (7000, 20211), [0, 1], "uint16"),
        (TRUE_COLOUR, RGB8, (0, 51, 255), [0, 0.2, 1], "uint8"),
        (TRUE_COLOUR, REFLECTANCE, (-1, 0.1779, 1), [0, 0.5, 1], "float32"),
        (TRUE_COLOUR, PICTURE, (0.25, 1), [0.25, 1], "float32"),
        (SEN12MSCR, SENTINEL2_L1C, (2000, 10000, 20000), [1, 5, 5], "uint16"),
        (SEN12MSCR, SENTINEL2_L1C_N0400, (1000, 3000, 11000), [0, 1, 5], "uint16"),
        (SEN12MSCR, RGB8, (0, 51, 255), [0, 1, 5], "uint8"),
    ],
    ids=lambda it: it.name if isinstance(it, Sensor) else None,
)
def test_values_become_what_the_slots_want(
    spec: InputSpec, sensor: Sensor, values: tuple[float, ...], wanted: list[float], dtype: str
) -> None:
    fitted = spec.fit(sensor)
    assert into_model(fitted, *values, dtype=dtype) == pytest.approx(wanted, abs=2e-5)
    assert (fitted.bands, fitted.common, fitted.wavelengths) == ((), (), ())
    assert fitted.name == sensor.name


@pytest.mark.parametrize("other", [{"low": 0.1}, {"high": 0.5}, {"span": 2.0}])
def test_planes_of_another_range_are_refused(other: dict[str, float]) -> None:
    have = [replace(slot, **other) if slot.name == "green" else slot for slot in TRUE_COLOUR.slots]
    with pytest.raises(ConfigError, match=r"^green of the images is .* and other numbers"):
        TRUE_COLOUR.pick(have)
    assert TRUE_COLOUR.pick(TRUE_COLOUR.slots[::-1]) == [2, 1, 0]


def test_slots_of_different_ranges_each_have_their_own() -> None:
    spec = spec_of(Slot("red", 665, 0.0, 0.4, 2.0), Slot("nir", 842, 0.1, 0.5, 2.0), Slot("blue", 490, 0.0, 1.0, 2.0))
    x = spec.fit(SENTINEL2_L2A).to_model(column(2000, 2000, 2000).astype("uint16"))
    assert x.ravel().tolist() == pytest.approx([1.0, 0.5, 0.4], abs=1e-6)
    back = spec.fit(SENTINEL2_L2A).from_model(x, "uint16")
    assert back.ravel().tolist() == [2000, 2000, 2000]
    assert spec.fit(RGB8).to_model(column(255, 51, 0).astype("uint8")).ravel().tolist() == pytest.approx([2, 0.4, 0])
    some = spec.fit(SENTINEL2_L2A, spec.slots[:2]).to_model(column(4000, 1000).astype("uint16"))
    assert some.ravel().tolist() == pytest.approx([2, 0], abs=1e-6)
    tops = spec.fit(SENTINEL2_L2A, spec.slots[::2]).to_model(column(2000, 5000).astype("uint16"))
    assert tops.ravel().tolist() == pytest.approx([1, 1], abs=1e-6)
    one = spec.fit(SENTINEL2_L2A, spec.slots[1:2]).to_model(column(3000, 3000, 3000, 3000).astype("uint16"))
    assert one.ravel().tolist() == pytest.approx([1] * 4, abs=1e-6)


def test_a_sensor_that_says_its_own_range_keeps_it() -> None:
    own = SENTINEL2_L2A.into(ModelRange((0.0,), (0.5,), 4.0))
    assert into_model(TRUE_COLOUR.fit(own), 2500, 5000, 9000) == [2, 4, 4]
    assert TRUE_COLOUR.fit(own).bands == ()


def test_radar_becomes_what_its_slots_want() -> None:
    radar = SEN12MSCR.radar()
    db = np.array([[-30.0, -25.0, -12.5, 0.0, 3.0], [-40.0, -35.0, -17.5, 0.0, 3.0]]).reshape(2, 1, 5)
    assert radar.to_model(db).reshape(2, 5).tolist() == [[0, 0, 1, 2, 2], [0, 0, 1, 2, 2]]
    spec = spec_of(Slot("red"), Slot("sar:vh", None, -30.0, -10.0, 4.0))
    assert spec.radar().to_model(column(-25.0)).item() == 1


@pytest.mark.parametrize(
    ("spec", "sensor", "names", "places"),
    [
        (TRUE_COLOUR, SENTINEL2_L1C, [""] * 13, [3, 2, 1]),
        (TRUE_COLOUR, SENTINEL2_L2A_N0400, [""] * 12, [3, 2, 1]),
        (TRUE_COLOUR, SENTINEL2_L2A, ["B08", "B04", "B03", "B02"], [1, 2, 3]),
        (TRUE_COLOUR, SENTINEL2_L2A, ["blue", "green", "red", "nir"], [2, 1, 0]),
        (TRUE_COLOUR, LANDSAT_C2_L2, ["SR_B2", "SR_B3", "SR_B4"], [2, 1, 0]),
        (TRUE_COLOUR, LANDSAT_TM_C2_L2, ["SR_B1", "SR_B2", "SR_B3", "SR_B4"], [2, 1, 0]),
        (TRUE_COLOUR, RGB8, ["", "", ""], [0, 1, 2]),
        (TRUE_COLOUR, REFLECTANCE, ["B02", "B03", "B04"], [2, 1, 0]),
        (TRUE_COLOUR, REFLECTANCE, ["490 nm", "560 nm", "665 nm"], [2, 1, 0]),
        (SEN12MSCR, SENTINEL2_L1C_N0400, [""] * 13, list(range(13))),
        (RICE2, RGB8, ["red", "nir08", "swir16"], [2, 1, 0]),
    ],
)
def test_a_scenes_bands_go_into_the_slots(
    spec: InputSpec, sensor: Sensor, names: Sequence[str], places: list[int]
) -> None:
    assert spec.match(sensor, names) == places


@pytest.mark.parametrize(
    ("spec", "sensor", "names", "message"),
    [
        (RICE2, SENTINEL2_L2A_N0400, [""] * 12, "The scene is s2-l2a-n0400 and the weights take rgb8, picture: give"),
        (SEN12MSCR, SENTINEL2_L2A, [""] * 12, "The scene is s2-l2a and the weights take s2-l1c"),
        (
            RICE2,
            RGB8,
            [""] * 3,
            "The scene's bands are red green blue and the weights take swir16 nir08 red: use",
        ),
        (
            TRUE_COLOUR,
            REFLECTANCE,
            [""] * 4,
            "4 bands have no names and the weights take red green blue: .* `bands`",
        ),
        (TRUE_COLOUR, SENTINEL2_L2A, ["B02", "B03", ""], r"bands are B02 B03 \? and the weights take red green blue"),
        (TRUE_COLOUR, REFLECTANCE, ["x"] * 21, r"bands are (x ){20}\.\.\. and"),
        (TRUE_COLOUR, REFLECTANCE, ["x"] * 20, r"bands are (x ){20}and"),
    ],
)
def test_a_scene_that_does_not_fit_is_refused_with_what_came_and_what_is_wanted(
    spec: InputSpec, sensor: Sensor, names: Sequence[str], message: str
) -> None:
    with pytest.raises(SceneError, match=message):
        spec.match(sensor, names)


LANDSAT = list(LANDSAT_C2_L2.bands)


@pytest.mark.parametrize(
    ("slot", "sensor", "names", "place"),
    [
        (Slot("nir", 842.0), LANDSAT_C2_L2, LANDSAT, 4),  # 865, 23 aside
        (Slot("nir", 840.0), LANDSAT_C2_L2, LANDSAT, 4),  # 25
        (Slot("nir", 839.0), LANDSAT_C2_L2, LANDSAT, None),
        (Slot("rededge3", 783.0), LANDSAT_C2_L2, LANDSAT, None),
        (Slot("x", 850.0), SENTINEL2_L2A, [""] * 12, 7),  # B08 at 842 before B8A at 865
        (Slot("x", 855.0), SENTINEL2_L2A, [""] * 12, 8),
        (Slot("x", 1670.0), SENTINEL2_L2A, [""] * 12, 10),  # 1610, 60 aside
        (Slot("x", 1671.0), SENTINEL2_L2A, [""] * 12, None),
        (Slot("x", 1000.0), REFLECTANCE, ["1060 nm"], 0),
        (Slot("x", 999.0), REFLECTANCE, ["1025 nm"], None),
        (Slot("x", 999.0), REFLECTANCE, ["1024 nm"], 0),
        (Slot("x", None), SENTINEL2_L2A, [""] * 12, None),
        (Slot("red", 842.0), SENTINEL2_L2A, [""] * 12, 3),  # its name before its wavelength
    ],
)
def test_without_its_name_a_slot_takes_the_nearest_wavelength_within_reach(
    slot: Slot, sensor: Sensor, names: Sequence[str], place: int | None
) -> None:
    if place is not None:
        assert spec_of(slot).match(sensor, names) == [place]
        return
    with pytest.raises(SceneError, match=f"the weights take {slot.name}"):
        spec_of(slot).match(sensor, names)


def test_no_band_goes_into_two_slots_and_names_choose_first() -> None:
    both = spec_of(Slot("nir", 842.0), Slot("nir08", 865.0))
    with pytest.raises(SceneError, match="the weights take nir nir08"):
        both.match(LANDSAT_C2_L2, LANDSAT)
    optional = spec_of(Slot("nir", 842.0, optional=True), Slot("nir08", 865.0))
    assert optional.match(LANDSAT_C2_L2, LANDSAT) == [None, 4]
    assert spec_of(Slot("x", 850.0), Slot("y", 845.0)).match(SENTINEL2_L2A, [""] * 12) == [7, 8]


def test_optional_slots_may_be_empty_but_not_all() -> None:
    spec = spec_of(Slot("red", 665.0), Slot("nir", 842.0, optional=True))
    assert spec.match(RGB8, [""] * 3) == [0, None]
    with pytest.raises(SceneError, match="the weights take red: use other weights"):
        spec.match(SENTINEL2_L2A, ["B08"])
    with pytest.raises(SceneError, match="the weights take at least one of theirs"):
        spec_of(Slot("nir", 842.0, optional=True)).match(RGB8, [""] * 3)


def test_weights_without_band_names_take_as_many_by_position() -> None:
    spec = spec_of(*band_slots(["band 1", "band 2"]))
    assert spec.match(REFLECTANCE, ["", ""]) == [0, 1]
    assert spec.match(SENTINEL2_L2A, ["B08", "B04"]) == [0, 1]
    with pytest.raises(SceneError, match="the weights take band 1 band 2"):
        spec.match(REFLECTANCE, ["", "", ""])


def test_names_are_given_to_bands_that_have_none() -> None:
    assert TRUE_COLOUR.match(REFLECTANCE, [""] * 4, ["blue", "green", "red", "nir"]) == [2, 1, 0]
    assert TRUE_COLOUR.match(SENTINEL2_L2A, [""] * 3, ["B04", "B03", "B02"]) == [0, 1, 2]
    with pytest.raises(SceneError, match="Band B04 is not among the scene's 4 bands"):
        TRUE_COLOUR.match(SENTINEL2_L2A, [""] * 4, ["B04", "B03", "B02"])
    four = dict(zip(S2_COMMON, ANY_BANDS.match(SENTINEL2_L2A, [""] * 4, ["B02", "B03", "B04", "B08"]), strict=True))
    assert {name: at for name, at in four.items() if at is not None} == {"blue": 0, "green": 1, "red": 2, "nir": 3}


def test_of_optional_bands_some_may_be_asked_for() -> None:
    places = ANY_BANDS.match(SENTINEL2_L2A, ["B02", "B03", "B04", "B8A"], ["B04", "2"])
    assert {name: at for name, at in zip(S2_COMMON, places, strict=True) if at is not None} == {"green": 1, "red": 2}
    with pytest.raises(SceneError, match=r"and 2 of `bands` is none of these: leave it out or, if"):
        ANY_BANDS.match(SENTINEL2_L2A, ["B04", "angle"], ["1", "2"])
    with pytest.raises(SceneError, match=r"and 3 1 of `bands` is none of these"):
        ANY_BANDS.match(SENTINEL2_L2A, [""] * 4, ["3", "1"])


def test_the_users_own_choice_rules() -> None:
    for count in (3, 4):
        assert TRUE_COLOUR.match(REFLECTANCE, [""] * count, ["3", "2", "1"]) == [2, 1, 0]
    assert TRUE_COLOUR.match(SENTINEL2_L2A, [""] * 12, ["B12", "B8A", "red"]) == [11, 8, 3]
    assert RICE2.match(RGB8, ["red", "green", "blue"], ["1", "2", "3"]) == [0, 1, 2]
    with pytest.raises(SceneError, match="is s2-l2a and the weights take rgb8, picture"):
        RICE2.match(SENTINEL2_L2A, ["B02", "B03", "B04"], ["B04", "B03", "B02"])
    with pytest.raises(SceneError, match=r"`bands` names 2 bands and the weights take 3 \(red green blue\): name 3"):
        TRUE_COLOUR.match(SENTINEL2_L2A, [""] * 12, ["B04", "B03"])
    with pytest.raises(SceneError, match=r"Band B10 is not among the scene's 3 bands \(B02 B03 \?\)"):
        TRUE_COLOUR.match(SENTINEL2_L2A, ["B02", "B03", ""], ["B02", "B03", "B10"])
    with pytest.raises(SceneError, match="Band 5 is not among the scene's 4 bands"):
        TRUE_COLOUR.match(REFLECTANCE, [""] * 4, ["3", "2", "5"])


@pytest.mark.parametrize(("low", "high", "span"), [(0.1, 1.0, 1.0), (0.0, 2.0, 1.0), (0.0, 1.0, 5.0)])
def test_planes_of_the_same_name_in_another_range_are_refused(low: float, high: float, span: float) -> None:
    wanted = spec_of(Slot("red", 665.0, 0.0, 1.0, 1.0))
    assert wanted.pick([Slot("nir", 842.0), Slot("red", 665.0, 0.0, 1.0, 1.0)]) == [1]
    with pytest.raises(ConfigError, match="the same name, and other numbers"):
        wanted.pick([Slot("red", 665.0, low, high, span)])


def test_a_picture_of_dark_bands_is_not_dimmed() -> None:
    dark = replace(TRUE_COLOUR, slots=band_slots(RGB, high=0.1), products=("s2-l2a",))
    assert dark.gain == 1.0
    bright = replace(dark, slots=band_slots(RGB, high=0.7116))
    assert bright.gain == pytest.approx(2.0)
