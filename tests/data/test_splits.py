import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tools.audit.listing import shared_names, substring_leaks
from tools.audit.splits import hold_out

from attcr.data.splits import PARTS, load_split, shipped_splits
from attcr.errors import ConfigError

SIZES = {
    "rice1": (360, 40, 100),
    "rice2": (479, 52, 148),
    "tcloud": (2115, 236, 588),
    "sen12mscr": (155, 10, 10),
}


@pytest.mark.parametrize("dataset", SIZES)
def test_parts_have_their_sizes_and_share_no_name(dataset: str) -> None:
    parts = {part: load_split(dataset, part).names for part in PARTS}
    assert tuple(len(names) for names in parts.values()) == SIZES[dataset]
    assert all(len(set(names)) == len(names) for names in parts.values())
    assert shared_names(parts) == {}


def test_sha256_is_that_of_the_names_one_a_line() -> None:
    split = load_split("rice1", "test")
    assert split.sha256 == hashlib.sha256(("\n".join(split.names) + "\n").encode()).hexdigest()


def test_an_unknown_split_is_refused_and_the_known_ones_named() -> None:
    with pytest.raises(ConfigError, match=r"'dev' of 'rice2'.*train, val, test of rice1"):
        load_split("rice2", "dev")


@pytest.mark.parametrize(
    ("dataset", "lists"), [("rice1", "splits/rice1_spagan"), ("tcloud", "splits/tcloud"), ("rice2", None)]
)
def test_shipped_lists_are_the_published_ones(shared_data: Path, dataset: str, lists: str | None) -> None:
    start = lists or "rice2/"
    ending = ".txt" if lists else "_list.txt"
    join = "_" if lists else ""
    published = {
        part: [Path(line).stem for line in (shared_data / f"{start}{join}{part}{ending}").read_text().split()]
        for part in ("train", "test")
    }
    assert list(load_split(dataset, "test").names) == published["test"]
    ours = {*load_split(dataset, "train").names, *load_split(dataset, "val").names}
    assert ours <= set(published["train"])
    assert len(published["train"]) - len(ours) == (57 if dataset == "rice2" else 0)


def test_sen12mscr_regions_are_the_published_ones(shared_data: Path) -> None:
    published = json.loads((shared_data / "splits" / "sen12mscr_rois.json").read_text())["splits"]
    assert {part: list(load_split("sen12mscr", part).names) for part in PARTS} == published


def test_substring_matching_would_leak_6_of_10_test_regions() -> None:
    leaks = substring_leaks({part: load_split("sen12mscr", part).names for part in PARTS})
    assert sorted(leaks["test", "train"]) == [
        "ROIs1158_spring/106",
        "ROIs1158_spring/123",
        "ROIs1158_spring/140",
        "ROIs1868_summer/119",
        "ROIs1868_summer/73",
        "ROIs1970_fall/139",
    ]


def test_shared_names_are_found_by_pair_of_parts() -> None:
    assert shared_names({"train": ["1", "2"], "val": ["3"], "test": ["2", "12"]}) == {("train", "test"): ["2"]}


def test_hold_out_keeps_groups_whole_and_does_not_depend_on_their_order() -> None:
    groups = [[str(i)] for i in range(40)] + [["a", "b", "c"]]
    kept, held = hold_out(groups, 5)
    again_kept, again_held = hold_out(groups[::-1], 5)
    assert set(held) == set(again_held)
    assert set(kept) == set(again_kept)
    assert len({"a", "b", "c"} & set(held)) in (0, 3)
    first = min(kept + held, key=lambda name: hashlib.sha256(name.encode()).digest())
    assert first in held
    assert set(kept) | set(held) == {name for group in groups for name in group}
    assert not set(kept) & set(held)


@pytest.mark.slow
def test_the_shipped_lists_are_made_from_the_published_ones(shared_data: Path, tmp_path: Path) -> None:
    repository = Path(__file__).parents[2]
    command = [sys.executable, "-m", "tools.audit.splits", str(shared_data), str(tmp_path)]
    subprocess.run(command, cwd=repository, env=os.environ | {"PYTHONPATH": "src"}, check=True)
    for dataset in shipped_splits():
        shipped = repository / "src" / "attcr" / "data" / "splits" / f"{dataset}.json"
        assert (tmp_path / shipped.name).read_bytes() == shipped.read_bytes()
