"""The order and the draws of a run's data."""

from pathlib import Path

import pytest
import torch

from attcr.bands.spec import RICE2, SEN12MSCR, TRUE_COLOUR, InputSpec
from attcr.errors import ConfigError
from attcr.train.data import NumberedPairs, NumberSampler, PairData, Source
from fakes import make_pairs


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make_pairs(tmp_path, ("cloudy", "clear"), [f"t{i}" for i in range(10)] + ["v0"])
    return tmp_path


def numbered(root: Path, **changes: object) -> NumberedPairs:
    source = Source("pairs", str(root), hold_out=("v",))
    settings = {"crops": {0: 16}, "augment": True, "clear_share": 0.0, "seed": 0, **changes}
    return NumberedPairs([source], [source.open("train", cache=False)], **settings)  # type: ignore[arg-type]


def test_two_processes_together_read_what_one_reads() -> None:
    one = list(NumberSampler({0: 4}, None, start=0, steps=3, share=1, rank=0, world=1))
    two = [list(NumberSampler({0: 2}, None, start=0, steps=3, share=1, rank=rank, world=2)) for rank in (0, 1)]
    assert [[*a, *b] for a, b in zip(*two, strict=True)] == one == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]


def test_a_resumed_run_reads_on_where_it_stopped() -> None:
    whole = NumberSampler({0: 3}, None, start=0, steps=5, share=2, rank=1, world=2)
    rest = NumberSampler({0: 3}, None, start=2, steps=5, share=2, rank=1, world=2)
    assert list(rest) == list(whole)[4:]
    assert len(rest) == len(whole) == len(list(whole)) == 10


def test_batches_of_several_sizes_take_turns_and_no_number_comes_twice() -> None:
    sampler = NumberSampler({0: 3, 1: 1}, 2, start=0, steps=4, share=1, rank=1, world=2)
    assert list(sampler) == [[3, 4, 5], [9], [15, 16, 17], [21]]
    shared = NumberSampler({0: 2, 1: 1}, None, start=0, steps=2, share=2, rank=0, world=1)
    assert list(shared) == [[0, 1], [2, 3], [4], [6]]


def test_a_pair_depends_on_its_number_and_the_seed_alone(root: Path) -> None:
    first, again, other = numbered(root)[7], numbered(root)[7], numbered(root, seed=1)[7]
    assert first["name"] == again["name"]
    assert torch.equal(first["inputs"], again["inputs"])
    assert not torch.equal(first["inputs"], other["inputs"])


def test_each_time_through_every_image_is_seen_once_in_a_fresh_order(root: Path) -> None:
    data = numbered(root)
    first, second = ([data[n]["name"] for n in range(start, start + 10)] for start in (0, 10))
    assert sorted(first) == sorted(second) == sorted(f"t{i}" for i in range(10))
    assert first != second


def test_a_share_of_the_pairs_is_clear_on_both_sides(root: Path) -> None:
    data = numbered(root, clear_share=0.3)
    clear = sum(torch.equal(data[n]["inputs"], data[n]["clear"]) for n in range(200))
    assert 35 < clear < 85


def test_the_first_pairs_are_cut_smaller(root: Path) -> None:
    data = numbered(root, crops={0: 8, 2: 16, 3: 24})
    data.items = 2
    assert [data[n]["clear"].shape[-1] for n in (0, 3, 4, 5, 6, 19)] == [8, 8, 16, 16, 24, 24]


def test_pairs_averaged_down_show_the_same_ground_on_both_sides(root: Path) -> None:
    data = numbered(root, crops={0: 8}, augment=False, shrinks=(1, 4, 64))
    source = data.sets[0]
    side = source[0]["clear"].shape[-1]
    assert side % 8 == 0
    assert side >= 32
    seen = set()
    for number in range(40):
        pair = data[number]
        whole = source[source.names.index(pair["name"])]
        shrink = next((s for s in (1, 4) if (_places(pair["clear"], whole["clear"], s)).any()), None)
        assert shrink is not None  # 64 never fits
        assert pair["inputs"].shape == pair["clear"].shape == (3, 8, 8)
        places = [_places(pair[side], whole[side], shrink) for side in ("inputs", "clear")]
        assert (places[0] & places[1]).any()
        seen.add(shrink)
    assert seen == {1, 4}


def test_one_shrink_alone_is_taken(root: Path) -> None:
    pair = numbered(root, crops={0: 8}, augment=False, shrinks=(4,))[0]
    source = numbered(root).sets[0]
    assert _places(pair["clear"], source[source.names.index(pair["name"])]["clear"], 4).any()


def _places(small: torch.Tensor, whole: torch.Tensor, shrink: int) -> torch.Tensor:
    """At which row and column a crop of `whole`, averaged down, is `small`."""
    windows = whole.unfold(1, 8 * shrink, 1).unfold(2, 8 * shrink, 1)  # C, rows, cols, 8 s, 8 s
    means = windows.unflatten(3, (8, shrink)).unflatten(5, (8, shrink)).mean((4, 6))
    return ((means - small[:, None, None]).abs() < 1e-6).all(-1).all(-1).all(0)


def test_shrinks_below_one_or_of_whole_images_are_refused(root: Path) -> None:
    for shrinks, crop in (((0,), 16), ((), 16), ((1, 2), None)):
        with pytest.raises(ConfigError, match="shrinks="):
            PairData([Source("pairs", hold_out=("v",))], root=str(root), shrinks=shrinks, crop=crop)


def test_crops_of_all_sizes_take_turns_in_a_cycle(root: Path) -> None:
    data = numbered(root, crops={0: 8, 2: 16}, cycle=3)
    data.items = 2
    assert [data[number]["clear"].shape[-1] for number in range(0, 14, 2)] == [8, 8, 16, 8, 8, 16, 8]
    with pytest.raises(ConfigError, match="crop_cycle=2 ends before the last crop"):
        PairData([Source("pairs", hold_out=("v",))], root=str(root), crop={0: 8, 2: 16}, crop_cycle=2)


def test_a_crop_that_begins_late_is_refused(root: Path) -> None:
    with pytest.raises(ConfigError, match="from step 0 on"):
        PairData([Source("pairs", hold_out=("v",))], root=str(root), crop={1: 16})


def test_weights_get_the_spec_of_the_data(root: Path) -> None:
    def spec(*sources: Source) -> InputSpec:
        return PairData(list(sources), root=str(root)).spec

    assert spec(Source("rice2")) == RICE2
    assert spec(Source("sen12mscr")) == SEN12MSCR
    assert spec(Source("simulated", hold_out=("v",), clouds="thin")) == TRUE_COLOUR
    both = spec(Source("rice1"), Source("tcloud"), Source("pairs", hold_out=("v",), clouds="thick"))
    assert (both.slots, both.gsd, both.removes) == (TRUE_COLOUR.slots, (10.0, 30.0), ("thin", "thick", "shadow"))
    own = spec(Source("pairs", hold_out=("v",), slots=("swir16", "nir08", "red"), gsd=30.0))
    assert own == RICE2


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        ([Source("rice1"), Source("rice2")], r"rice1 \(red to 0.3558 .*\) and rice2 \(swir16 to 1 .*other bands"),
        ([Source("rice2"), Source("sen12mscr")], "other bands or ranges"),
        ([Source("rice1", slots=("nir", "red", "green"))], "rice1 says itself what its bands"),
        ([Source("rice3")], "no data set 'rice3'; there are rice1"),
    ],
)
def test_sources_of_other_bands_are_refused(root: Path, sources: list[Source], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        PairData(sources, root=str(root)).setup("fit")


def test_validation_holds_no_training_image(root: Path) -> None:
    data = PairData([Source("pairs", hold_out=("v",))], root=str(root), workers=0)
    data.setup("fit")
    (loader,) = data.val_dataloader()
    assert [batch["name"] for batch in loader] == [["v0"]]


def test_without_a_word_the_last_tenth_is_held_out(tmp_path: Path) -> None:
    make_pairs(tmp_path, ("cloudy", "clear"), [f"s{i:02}" for i in range(25)])
    data = PairData([Source("pairs")], root=str(tmp_path), workers=0)
    data.setup("fit")
    (loader,) = data.val_dataloader()
    assert [batch["name"] for batch in loader] == [["s23"], ["s24"]]
    assert list(Source("pairs", str(tmp_path)).open("train", cache=False).names) == [f"s{i:02}" for i in range(23)]
    assert data.describe()[0]["hold_out"] == "the last tenth by name"


def test_data_that_cannot_be_validated_on_is_refused(root: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="leaves no val image"):
        PairData([Source("pairs", hold_out=("x",))], root=str(root)).setup("fit")
    make_pairs(tmp_path / "one", ("cloudy", "clear"), ["a"])
    with pytest.raises(ConfigError, match="the last tenth leaves no train image"):
        PairData([Source("pairs")], root=str(tmp_path / "one")).setup("fit")
