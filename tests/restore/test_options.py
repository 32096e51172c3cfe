"""Options as people write them."""

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


def test_a_product_is_known_in_any_case() -> None:
    assert attcr.RestoreOptions(sensor="S2-L2A-N0400") == attcr.RestoreOptions(sensor="s2-l2a-n0400")
    with pytest.raises(ConfigError, match="There is no sensor 'l8'; `sensor` is one of rgb8, picture"):
        attcr.RestoreOptions(sensor="L8")


def test_every_option_is_documented() -> None:
    text = (Path(__file__).parents[2] / "docs" / "guides" / "restore.md").read_text()
    table = text[text.index("| `RestoreOptions(...)`") : text.index("## Which weights fit")]
    told = {
        name
        for row in table.splitlines()[2:]
        if row.startswith("|")
        for name in re.findall(r"`(\w+)`", row.split("|")[1])
    }
    assert told == {field.name for field in fields(attcr.RestoreOptions)}
