"""Published weights are what the table says, and weights are found by name or path."""

import hashlib
import json
import math
from dataclasses import asdict, replace
from pathlib import Path

import pystac
import pytest
import safetensors.torch
import torch
from pystac.extensions.mlm import AssetGeneralMLMExtension, MLMExtension

from attcr.bands.spec import ANY_BANDS, OTHER_DATES, RICE2, TRUE_COLOUR
from attcr.errors import ConfigError, WeightsError
from attcr.files import sha256
from attcr.weights import Published, find_weights, list_models, load_model, published, read_header, restoring

SHIPPED_TENSORS = {
    "s2-thin": "a000859a5a3b5af41f8b78f043e863a27b3b73332774381bf166755193a7832f",
    "rice2-small": "7432aea70e39d19e88e5b9039439f6647ed020ccacf1a864481ae220269b9de4",
    "rgb-thin": "b3e7c4f932c5f03229590a790fa3a961df35bbe67455dc3d86913122002f2501",
    "s2-dates": "33657c25707d9d955d46da5406451d862a5a74f595f030d5de1e1fa928c6b017",
}
"""Of the numbers as they were trained: a file may be saved anew with other words, never with other numbers."""


SHIPPED_SPECS = {
    "s2-thin": replace(ANY_BANDS, spread_factor=math.exp(-3) * 0.8, spread_floor=0.011),
    "rice2-small": RICE2,
    "rgb-thin": replace(TRUE_COLOUR, only_light=True),
    "s2-dates": OTHER_DATES,
}


def _tensors_sha256(path: Path) -> str:
    whole = hashlib.sha256()
    for name, tensor in sorted(safetensors.torch.load_file(path).items()):
        whole.update(name.encode() + tensor.numpy().tobytes())
    return whole.hexdigest()


@pytest.mark.parametrize("name", sorted(published()))
def test_a_published_network_is_what_the_table_says(name: str) -> None:
    entry = published()[name]
    assert find_weights(name) == entry.path
    assert (sha256(entry.path), entry.path.stat().st_size) == (entry.sha256, entry.bytes)
    model = load_model(name)
    assert json.loads(json.dumps(asdict(model.config))) == entry.config
    assert model.spec == entry.spec == read_header(name).spec == SHIPPED_SPECS[name]
    assert {tensor.dtype for tensor in safetensors.torch.load_file(entry.path).values()} == {torch.float16}
    assert _tensors_sha256(entry.path) == SHIPPED_TENSORS[name]
    assert entry.scores
    assert entry.limits
    assert (Path(__file__).parents[2] / "docs" / "reference" / "models" / f"{name}.md").is_file()


def test_scores_say_what_they_are_compared_with() -> None:
    told = {name: {score.copied for score in entry.scores} for name, entry in published().items()}
    assert told.pop("s2-dates") == {"other date"}
    assert set.union(*told.values()) == {"input"}
    score = published()["s2-dates"].scores[0]
    assert str(score).endswith(f", other date copied {score.input_copied:#.4g}")


def test_the_published_networks_take_at_most_8_mib() -> None:
    assert "rice2-small" in published()
    assert sum(entry.bytes for entry in published().values()) <= 8 * 2**20


def test_a_published_file_that_was_changed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = tmp_path / "rice2-small.safetensors"
    changed.write_bytes(published()["rice2-small"].path.read_bytes()[:-1] + b"x")
    monkeypatch.setattr(Published, "path", changed)
    with pytest.raises(WeightsError, match="not the published rice2-small"):
        load_model("rice2-small")


@pytest.mark.parametrize("name", sorted(published()))
def test_its_stac_item_is_read_by_pystac(name: str) -> None:
    item = pystac.Item.from_file(str(Path(__file__).parents[2] / "docs" / "reference" / "models" / f"{name}.json"))
    mlm = MLMExtension.ext(item)
    entry = published()[name]
    assert mlm.mlm_name == name
    assert mlm.total_parameters == sum(p.numel() for p in load_model(name).parameters())
    assert [len(i.input.shape) for i in mlm.input] == [4]
    assert AssetGeneralMLMExtension.ext(item.assets["weights"]).artifact_type == "safetensors"
    assert {band["name"] for band in item.properties.get("bands", [])} == set(mlm.input[0].bands)
    assert item.assets["weights"].extra_fields["file:checksum"] == f"1220{entry.sha256}"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="no such file"):
        load_model(tmp_path / "none.safetensors")


@pytest.mark.parametrize("name", ["a" * 5000, "a\0b", "/dev/zero", "."])
def test_what_can_be_no_file_is_refused_in_words(name: str) -> None:
    with pytest.raises(WeightsError, match="no such file"):
        load_model(name)


def test_the_published_names_are_listed_and_load_on_a_device() -> None:
    assert list_models() == list(restoring()) == [name for name in published() if name != "s2-dates"]
    assert {parameter.device.type for parameter in load_model("rgb-thin", device="cpu").parameters()} == {"cpu"}
    assert next(load_model("rgb-thin", device=torch.device("meta")).parameters()).is_meta
    with pytest.raises(ConfigError, match="the network cannot go to device 'nowhere'"):
        load_model("rgb-thin", device="nowhere")
