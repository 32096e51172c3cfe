"""Every entry of DATASETS is whole, and images of one's own are what one says."""

import sys
from pathlib import Path

import numpy as np
import pytest

from attcr.bands.spec import CLOUDS, RICE2, SEN12MSCR, TRUE_COLOUR
from attcr.data import DATASETS, DataSet, PairFolder, find_set, load_split
from attcr.data.splits import PARTS, shipped_splits
from attcr.errors import ConfigError
from attcr.evaluate.protocols import IMAGE_PROTOCOLS
from fakes import make_pairs, write_tif


@pytest.mark.parametrize("data", DATASETS.values(), ids=lambda data: data.name)
def test_an_entry_says_all_that_is_asked_of_it(data: DataSet) -> None:
    assert data.obtain
    assert data.about
    assert data.listed == (data.name in shipped_splits())
    if data.protocol not in IMAGE_PROTOCOLS:
        assert (data.parts, data.listed, data.paper) == (("test",), False, None)
        return
    rule = IMAGE_PROTOCOLS[data.protocol]
    assert rule.bands in (None, len(data.spec.outputs))
    assert data.listed == bool(data.parts)
    assert data.parts in ((), PARTS)
    assert data.peak == data.spec.span
    if data.paper is not None:
        assert data.paper.scores.keys() == rule.metrics.keys()


def test_the_sets_hold_the_bands_that_they_were_made_of() -> None:
    slots = {name: [slot.name for slot in data.spec.slots] for name, data in DATASETS.items()}
    assert slots["rice1"] == slots["tcloud"] == slots["pairs"] == ["red", "green", "blue"]
    assert slots["rice2"] == ["swir16", "nir08", "red"]
    assert slots["sen12mscr"][:3] == ["sar:vv", "sar:vh", "coastal"]
    assert DATASETS["sen12mscr"].spec == SEN12MSCR
    reflectance = {"sen12mscr", "cloudsen12", "sen12mscr-pairs", "sen12mscrts-146", "haze-20lmr", "dates"}
    assert {name: data.levels for name, data in DATASETS.items() if data.levels != 255} == dict.fromkeys(
        reflectance, 10000
    )
    assert (DATASETS["rice1"].spec.removes, DATASETS["rice2"].spec.removes) == (("thin",), CLOUDS)


def test_a_part_is_opened_by_name_and_an_unknown_one_refused(tmp_path: Path) -> None:
    names = load_split("rice1", "val").names
    make_pairs(tmp_path, ("cloud", "label"), names)
    samples = find_set("rice1").open(tmp_path, "val", cache=True)
    assert list(samples.names) == list(names)
    assert samples.spec == DATASETS["rice1"].spec
    assert DATASETS["rice1"].part_sha256("val", samples) == load_split("rice1", "val").sha256
    with pytest.raises(ConfigError, match="rice1 has no part 'dev'; it has train, val, test"):
        find_set("rice1").open(tmp_path, "dev")
    with pytest.raises(ConfigError, match="not held in memory"):
        find_set("sen12mscr").open(tmp_path, "test", cache=True)


def test_a_data_set_of_ones_own_is_named_by_its_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "from dataclasses import replace\nfrom attcr.data import DATASETS\nFOLDER = '.'\n"
    (tmp_path / "meadow_sets.py").write_text(f"{text}MEADOWS = replace(DATASETS['pairs'], name='meadows')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [path for path in sys.path if path not in ("", str(tmp_path))])
    assert find_set("meadow_sets:MEADOWS").name == "meadows"
    for name, message in (
        ("meadow_sets:FOLDER", r"meadow_sets:FOLDER is '\.'; expected an attcr\.data\.DataSet"),
        ("meadow_sets:FIELDS", "has no attribute 'FIELDS'; expected a module that Python finds from"),
        ("no_sets:MEADOWS", "No module named 'no_sets'; expected a module"),
        (":MEADOWS", "expected a module"),
    ):
        with pytest.raises(ConfigError, match=message):
            find_set(name)


def test_images_of_ones_own_are_held_out_by_the_start_of_their_names(tmp_path: Path) -> None:
    make_pairs(tmp_path, ("cloudy", "clear"), ["a1", "a2", "b1", "c1"])
    data = find_set("pairs")
    assert list(data.open(tmp_path, "all").names) == ["a1", "a2", "b1", "c1"]
    told = data.told(hold_out=("b", "c"))
    assert list(told.open(tmp_path, "train").names) == ["a1", "a2"]
    assert list(told.open(tmp_path, "val").names) == ["b1", "c1"]
    assert told.told() is told
    with pytest.raises(ConfigError, match="leaves no train image"):
        data.told(hold_out=("a", "b", "c")).open(tmp_path, "train")


def test_images_of_ones_own_hold_the_bands_that_one_names(tmp_path: Path) -> None:
    for folder in ("cloudy", "clear"):
        write_tif(tmp_path / folder / "x.tif", np.full((4, 16, 16), 51, np.uint8))
    told = find_set("pairs").told(slots=("blue", "green", "red", "nir"), gsd=3.0, removes=("thin",))
    samples = told.open(tmp_path, "all")
    assert isinstance(samples, PairFolder)
    assert samples.spec == told.spec
    assert [slot.wavelength for slot in told.spec.slots] == [490.0, 560.0, 665.0, 842.0]
    assert (told.spec.gsd, told.spec.removes, told.spec.products) == ((3.0, 3.0), ("thin",), ("rgb8", "picture"))
    assert samples[0]["inputs"].shape == (4, 16, 16)
    assert float(samples[0]["clear"].mean()) == pytest.approx(0.2)
    assert find_set("pairs").told(slots=("swir16", "nir08", "red")).spec.slots == RICE2.slots
    turned = find_set("pairs").told(slots=("blue", "green", "red")).spec
    assert (turned.slots, turned.products) == (TRUE_COLOUR.slots[::-1], TRUE_COLOUR.products)
