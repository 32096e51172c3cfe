"""Options as people write them."""

import hashlib
import re
from dataclasses import fields
from pathlib import Path

import pytest

import attcr
from attcr.errors import ConfigError


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


def test_every_option_is_documented() -> None:
    text = (Path(__file__).parents[2] / "docs" / "guides" / "restore.md").read_text()
    table = text[text.index("| `RestoreOptions(...)`") : text.index("## In Python")]
    told = {
        name
        for row in table.splitlines()[2:]
        if row.startswith("|")
        for name in re.findall(r"`(\w+)`", row.split("|")[1])
    }
    assert told == {field.name for field in fields(attcr.RestoreOptions)}
