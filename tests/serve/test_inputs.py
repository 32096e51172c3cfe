"""What a request may ask for: the options of a scene, within a server's share."""

from typing import Any

import pytest

from attcr.errors import ConfigError
from attcr.serve.inputs import read_request
from attcr.serve.limits import Hosts
from attcr.serve.settings import Limits

SCENE = {"upload": "0" * 32}


def ask(**inputs: Any) -> Any:
    return read_request({"inputs": {"scene": SCENE, **inputs}}, Hosts(()), Limits(), ("rgb-thin", "none"))


def test_options_within_the_share_are_taken_as_they_came() -> None:
    options = {"tile": 16, "overlap": 0, "batch": 32, "dilate": 512, "mask": "auto", "bands": [3, "red"], "nodata": 0}
    assert ask(**options, sensor=None).options == options


def test_files_are_kept_apart_from_options() -> None:
    asked = ask(mask={"upload": "1" * 32, "kind": "scl"}, radar={"upload": "2" * 32}, references=[{"upload": "3" * 32}])
    assert [(ref.slot, ref.kind) for ref in asked.refs] == [
        *(("scene", ""), ("references", ""), ("mask", "scl"), ("radar", ""))
    ]
    assert asked.options == {}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"tile": 15, "overlap": 0}, "The option tile is 15; this server takes 16 to 2048."),
        ({"tile": 2049}, "The option tile is 2049; this server takes 16 to 2048."),
        ({"batch": 33}, "The option batch is 33; this server takes 1 to 32."),
        ({"batch": 0}, "`batch` is 0 and must be at least 1."),
        ({"tile": "big"}, "The option tile is 'big'; expected int."),
        (
            {"device": "cuda"},
            "There is no input 'device'; expected some of scene, weights, tile, overlap, batch, dtype",
        ),
        ({"vrt": "any"}, "There is no input 'vrt'"),
        (
            {"mask": "/etc/passwd"},
            "The option mask is '/etc/passwd'; expected scl, qa_pixel, csmask, s2cloudless, auto, ",
        ),
        ({"reference_mask": 1}, "The option reference_mask is '1'; expected scl"),
        ({"radar": "none"}, "The option radar is 'none'; expected an upload or an address."),
        ({"nodata": float("inf")}, "The option nodata is inf; expected a finite number."),
        ({"bands": ["x" * 2000]}, "The option bands is too long."),
        ({"dtype": "auto"}, "The option dtype is 'auto', which differs between machines"),
        ({"weights": "s2-thin"}, "There are no weights 's2-thin' here; expected one of rgb-thin, none."),
        ({"weights": "none"}, "`weights=none` fills clouds from other dates, and none was given"),
        ({"references": [[SCENE]]}, "A reference is one file or STAC item, not a list of bands."),
    ],
    ids=str,
)
def test_a_refusal_names_the_input_and_what_is_taken(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as told:
        ask(**wrong)
    assert str(told.value).startswith(words)
