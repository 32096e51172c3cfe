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
    assert attcr.RestoreOptions(dtype="float32").digest() == hashlib.sha256(b'{"defaults": 4}').hexdigest()


def test_a_product_is_known_in_any_case() -> None:
    assert attcr.RestoreOptions(sensor="S2-L2A-N0400") == attcr.RestoreOptions(sensor="s2-l2a-n0400")
    with pytest.raises(ConfigError, match="There is no sensor 'l8'; `sensor` is one of rgb8, picture"):
        attcr.RestoreOptions(sensor="L8")


# Ledgers of fleets hold such digests; a changed default (`options.DEFAULTS`) changes them all.
RECORDED: list[tuple[dict[str, Any], str]] = [
    ({}, "729f4020cdd81aec1674e9392c4d340d66148828f9c1bfde5c4257dfbd464e62"),
    ({"dtype": "float32"}, "61e6a1aa4ff8a97401b22372595ccf10efdaba3466181d00393882b282bf5046"),
    ({"dtype": "bfloat16"}, "4bce7152777986c5895a8cebf32026ee3d3d3276b76b7b382e02407ac9fd7833"),
    ({"tile": 512, "overlap": 64, "batch": 4}, "3d04b58bda0e638f9e29717da4f002ff3532d391d1e8c7c7c3f70244b6e18515"),
    (
        {"device": "cuda", "batch": 8, "vrt": "any", "reference_days": 5},
        "729f4020cdd81aec1674e9392c4d340d66148828f9c1bfde5c4257dfbd464e62",
    ),
    ({"backend": "openvino"}, "00ed95bf928535ecb3f4fd0605f7a6ba38b204ca770af80ab478944f78607dcb"),
    ({"bands": "B04, B03,B02"}, "c79143ce218137d17c8a510db5e0e2aedfc7847543165e5c6386884806b1b6be"),
    ({"sensor": "S2-L2A"}, "5f2d7d00eaa5744c5b08bf9973e60a1b9199ec4e9e62b82c1b6476901016973e"),
    ({"sensor": SENSORS["s2-l1c"]}, "e01bce0da61a541487921ee6e64ee2e82800a3e6e024e9d7692d0f60a8a06202"),
    (
        {"mask": "https://a.org/m.tif?X-Amz-Signature=secret"},
        "531e9c4ed14adf301665c9ef68a4e3d9ea941170b73f682f5db830d8e9c08541",
    ),
    ({"unseen": "fill", "dilate": 3, "feather": 0}, "68be6d008536298513451d9cf7973632238ebc51057d33b5be9b1e76f8aa8318"),
    ({"radar": "s3://key:secret@b/r.tif"}, "5cef6754bf2879a77fed8445e7f81bc26cebd64f2d783eb3652c2a5ca8cf5607"),
    ({"nodata": 0}, "25d7f348df5f6e3f58dc188171e3e270f8f981b973984d4c7c0ecfd7ebecffca"),
    ({"nodata": 0.0}, "6d4d1c67099db1df2e292597d1275eae53c20fb84f86160861df6eccb11f095b"),
    (
        {
            "references": ("a.tif", "https://a.org/b.tif?sig=x"),
            "reference_mask": "scl=https://u:p@h.org/scl.tif",
            "reference_fill": "classical",
        },
        "8bc45c8c9cd1338242f22897b3afaa2c45e466aff17588a07659d8190a233f91",
    ),
    ({"references": "a,b.tif"}, "a24b123dfe209c49359a9b71f7cd278646d1c4a48f76fe56c55c68ad603d6d9b"),
    ({"references": "auto:5", "confidence": True}, "c65ff7a8530ec7b2c22fd84912a2216967027739f6d222e216c744e3658190b6"),
]


@pytest.mark.parametrize(("options", "digest"), RECORDED, ids=[str(list(options)) for options, _ in RECORDED])
def test_the_digest_of_options_never_changes(options: dict[str, Any], digest: str) -> None:
    assert attcr.RestoreOptions(**options).digest() == digest


def test_what_decides_the_result_is_told_without_secrets() -> None:
    options = attcr.RestoreOptions(
        references=("a.tif", "https://a.org/b.tif?sig=x"),
        reference_mask="scl=https://u:p@h.org/scl.tif",
        mask="https://a.org/m.tif?X-Amz-Signature=secret",
        radar="s3://key:secret@b/r.tif",
        **{"device": "cuda", "vrt": "any", "reference_days": 5, "batch": 2},
    )
    assert json.dumps(options.describe()) == (
        '{"tile": 256, "overlap": 32, "dtype": "auto", "backend": "auto", "sensor": null, "bands": null, '
        '"bbox": null, "aoi": null, "mask": "https://a.org/m.tif", "ground": "scene", "unseen": "keep", "dilate": 8, '
        '"feather": 8, '
        '"radar": "s3://b/r.tif", "nodata": null, "references": ["a.tif", "https://a.org/b.tif"], '
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
