"""Options as people write them."""

import hashlib
import json
from typing import Any

import pytest

import attcr
from attcr.bands.sensors import SENSORS
from attcr.errors import ConfigError
from attcr.restore.options import GROUPS, restore_options
from attcr.scenes.clouds.rim import Rim


def test_bands_may_come_as_one_text_and_mean_the_same() -> None:
    text, listed = attcr.RestoreOptions(bands="B04, B03,B02"), attcr.RestoreOptions(bands=("B04", "B03", "B02"))
    assert text.bands == ("B04", "B03", "B02")
    assert text == listed
    assert text.digest() == listed.digest()
    assert attcr.RestoreOptions(bands="3").bands == ("3",)
    for wrong in ("", "B04,,B02", ()):
        with pytest.raises(ConfigError, match="expected names or numbers, such as B04,B03,B02"):
            attcr.RestoreOptions(bands=wrong)


def test_machines_compute_the_same_by_a_type_that_is_named() -> None:
    plain = attcr.RestoreOptions()
    assert plain.dtype == "auto"
    assert plain.on_any_machine() == attcr.RestoreOptions(dtype="float32")
    named = attcr.RestoreOptions(dtype="bfloat16")
    assert named.on_any_machine() is named


def test_work_in_float32_is_known_again_though_it_is_no_longer_the_default() -> None:
    assert attcr.RestoreOptions(dtype="float32").digest() == hashlib.sha256(b'{"defaults": 3}').hexdigest()


def test_a_product_is_known_in_any_case() -> None:
    assert attcr.RestoreOptions(sensor="S2-L2A-N0400") == attcr.RestoreOptions(sensor="s2-l2a-n0400")
    with pytest.raises(ConfigError, match="There is no sensor 'l8'; `sensor` is one of rgb8, picture"):
        attcr.RestoreOptions(sensor="L8")


# Of the version before options were described at their fields: ledgers of fleets hold such digests.
RECORDED: list[tuple[dict[str, Any], str]] = [
    ({}, "9638fbfe0de91fb9ed303b49ebe3d95949000ef56dc485e78b2c8438405086b3"),
    ({"dtype": "float32"}, "c5841b595cf19479e2baf7c36a9b3980b4f9de40e8b9d41f70000f19e5b8bbf4"),
    ({"dtype": "bfloat16"}, "58579126fdd994fa95a420c41087629d0395ce7d7288d936087917bf0fef99f8"),
    ({"tile": 512, "overlap": 64, "batch": 4}, "5736ce326465a376f9db4b3ad18c647684b87d33e322980075f609e7747f6098"),
    (
        {"device": "cuda", "batch": 8, "vrt": "any", "reference_days": 5},
        "9638fbfe0de91fb9ed303b49ebe3d95949000ef56dc485e78b2c8438405086b3",
    ),
    ({"backend": "openvino"}, "80d6c2afdfe8356bf7f767ce19cfe4c33e0bb41a2bcf4d62c8915136230af92e"),
    ({"bands": "B04, B03,B02"}, "36e65d0af6d324599bc1caf94299ee8ad32e9f47a68f00f341f91d0d15cfb146"),
    ({"sensor": "S2-L2A"}, "6908825dd7b18270fd83b4c4918a91e2dbc3459e3dbc15b98c18ec1fd0d1c863"),
    ({"sensor": SENSORS["s2-l1c"]}, "ad587484150772185244427e29fa319ff73ae0d9c1878eebdba57fa7d853184a"),
    (
        {"mask": "https://a.org/m.tif?X-Amz-Signature=secret"},
        "7f671e7c6954662049ca1243f7460d8b66fdc20b373b2217735aa042e0a25d70",
    ),
    ({"unseen": "fill", "dilate": 3, "feather": 0}, "53908c28ace6fb595f1e973ce0a34c1c0d8cbfe54f73da90b883e8b110296432"),
    ({"sar": "s3://key:secret@b/r.tif"}, "e4058b237c4093d8fb5e1b61a65d6024c415aedd44c6ffc6055e16ac4efbf0ca"),
    ({"nodata": 0}, "63059eaa273ed1b7bdd97e4bd4e2c28a7c8e195d2bbe893380dbbaa1bb261e66"),
    ({"nodata": 0.0}, "44e428f2a21c3d9e47e9ddeecaf4a2b5c8c2242eace9e8830a043f69578e6372"),
    (
        {
            "references": ("a.tif", "https://a.org/b.tif?sig=x"),
            "reference_mask": "scl=https://u:p@h.org/scl.tif",
            "reference_fill": "classical",
        },
        "13fc738b5cdd56d2f14aebfed442cb0f96401b243a112ee63260b54b46538b52",
    ),
    ({"references": "a,b.tif"}, "b1378e875ded1fc9364638848f58d0d0b095c35044e3c884d093a5760fca7913"),
    ({"references": "auto:5", "confidence": True}, "b0360eb51282545ce4c797fabe83ee6ad6e3bc50057a02f182269de9e1f41cc7"),
]


@pytest.mark.parametrize(("options", "digest"), RECORDED, ids=[str(list(options)) for options, _ in RECORDED])
def test_the_digest_of_options_never_changes(options: dict[str, Any], digest: str) -> None:
    assert attcr.RestoreOptions(**options).digest() == digest


def test_what_decides_the_result_is_told_without_secrets() -> None:
    options = attcr.RestoreOptions(
        references=("a.tif", "https://a.org/b.tif?sig=x"),
        reference_mask="scl=https://u:p@h.org/scl.tif",
        mask="https://a.org/m.tif?X-Amz-Signature=secret",
        sar="s3://key:secret@b/r.tif",
        **{"device": "cuda", "vrt": "any", "reference_days": 5, "batch": 2},
    )
    assert json.dumps(options.describe()) == (
        '{"tile": 256, "overlap": 32, "dtype": "auto", "backend": "auto", "sensor": null, "bands": null, '
        '"mask": "https://a.org/m.tif", "unseen": "keep", "dilate": 8, "feather": 8, "sar": "s3://b/r.tif", '
        '"nodata": null, "references": ["a.tif", "https://a.org/b.tif"], '
        '"reference_mask": "scl=https://h.org/scl.tif", "reference_fill": "network", "confidence": false}'
    )


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"batch": 0}, "`batch` is 0 and must be at least 1."),
        ({"dilate": -1}, "`dilate` is -1 and must be at least 0."),
        ({"feather": -2}, "`feather` is -2 and must be at least 0."),
        ({"tile": 7}, "`tile` is 7 and must be at least 8."),
        ({"overlap": -1}, "`overlap` is -1 and must be at least 0."),
        ({"overlap": 200}, "overlap is 200 and must lie between 0 and half of the tile (128)."),
        ({"reference_days": 0}, "`reference_days` is 0 and must be at least 1."),
        ({"dtype": "int8"}, "`dtype` is 'int8'; expected auto, float32, bfloat16 or float16."),
        ({"unseen": "paint"}, "`unseen` is 'paint'; expected keep, fill or nodata."),
        ({"backend": "tvm"}, "`backend` is 'tvm'; expected auto, torch, onnxruntime or openvino."),
        ({"vrt": "all"}, "`vrt` is 'all'; expected beside, any or never."),
        ({"reference_fill": "best"}, "`reference_fill` is 'best'; expected network or classical."),
        (
            {"references": ("auto:0",)},
            "`references` is auto:0; expected auto or auto:NUMBER (1 to 99) alone, or scenes.",
        ),
        (
            {"references": ("auto", "https://a.org/b.tif?sig=x")},
            "`references` is auto https://a.org/b.tif; expected auto or auto:NUMBER (1 to 99) alone, or scenes.",
        ),
    ],
)
def test_a_refusal_says_what_came_and_what_was_expected(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as told:
        attcr.RestoreOptions(**wrong)
    assert str(told.value) == words


def test_the_smallest_values_are_taken() -> None:
    options = attcr.RestoreOptions(tile=8, overlap=0, batch=1, dilate=0, feather=0, reference_days=1)
    assert (options.tile, options.rim.reach, options.reference_days) == (8, 0, 1)


@pytest.mark.parametrize(
    ("references", "most"), [((), 0), (("a.tif",), 0), ("auto", 3), ("auto:5", 5), ("auto:99", 99)]
)
def test_how_many_references_are_searched_for(references: str | tuple[str, ...], most: int) -> None:
    assert attcr.RestoreOptions(references=references).searched == most


def test_the_rim_is_dilated_and_then_fades() -> None:
    assert attcr.RestoreOptions(dilate=3, feather=5).rim == Rim(dilate=3, feather=5)


def test_every_option_is_said_with_its_group_and_a_sentence() -> None:
    for option in restore_options().values():
        assert option.group in GROUPS
        assert option.help[-1] == "."
        assert bool(option.metavar) == (option.kind is not bool and not option.switch)
    first = [name for name, option in restore_options().items() if not option.group]
    assert first == ["mask", "references"]
