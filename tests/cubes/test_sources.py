"""Providers by name, from files, and by address."""

from pathlib import Path

import pytest

from attcr.cubes.sources import SOURCES, open_source
from attcr.errors import ConfigError

TOML = """
api = "https://stac.example.org/v1"
collection = "s2"
mask = ["SCL", "scl"]
by_baseline = true
[bands]
red = "B04"
nir = "B08"
"""


def test_every_source_has_red_green_and_blue_by_their_common_names() -> None:
    for source in SOURCES.values():
        assert {"red", "green", "blue"} <= set(source.bands)
        assert source.mask[0]


def test_the_offset_is_that_of_the_processing_and_not_taken_twice() -> None:
    source = SOURCES["earth-search"]
    late = {"s2:processing_baseline": "05.09"}
    assert source.offset_of({"s2:processing_baseline": "02.14"}) == 0
    assert source.offset_of(late) == -0.1
    assert source.offset_of({**late, "earthsearch:boa_offset_applied": True}) == 0
    assert SOURCES["cdse"].offset_of({"processing:version": "04.00"}) == -0.1
    assert SOURCES["landsat-c2"].offset_of({}) == -0.2


def test_a_file_of_a_few_lines_is_a_source(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(TOML)
    source = open_source(str(path))
    assert (source.name, source.choose(["nir"]), source.mask) == ("mine", ("nir",), ("SCL", "scl"))
    path.write_text(TOML.replace("by_baseline", "by_base"))
    with pytest.raises(ConfigError, match="says by_base,"):
        open_source(str(path))


def test_any_api_is_a_source_by_its_address() -> None:
    source = open_source("http://127.0.0.1:8000#roi")
    assert (source.api, source.collection, source.bands["red"]) == ("http://127.0.0.1:8000", "roi", "red")
    assert open_source("https://a.org#landsat-c2").mask[1] == "qa_pixel"


@pytest.mark.parametrize("text", ["https://a.org", "nobody", "absent.toml"])
def test_what_is_no_source_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        open_source(text)


def test_a_band_that_a_source_lacks_is_refused() -> None:
    with pytest.raises(ConfigError, match="has no band thermal"):
        SOURCES["cdse"].choose(["red", "thermal"])
