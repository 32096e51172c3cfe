"""Weights on their way into the package."""

import importlib
import math
from pathlib import Path
from types import ModuleType

import pytest
import torch
from tools.s2_thin.samples import SPEC

import attcr
from attcr.files import sha256
from attcr.weights import published

CONFIG = attcr.ATTCRConfig(27, 26, tuple(range(13)), dim=8, blocks=(1, 1, 1, 1, 1), heads=(2, 2, 2, 2, 2))


@pytest.fixture
def publish(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))
    return importlib.import_module("tools.publish")


@pytest.fixture
def weights(tmp_path: Path) -> tuple[str, str]:
    """Two files of weights of one kind."""
    for seed, name in enumerate(("one", "other")):
        torch.manual_seed(seed)
        file = tmp_path / f"{name}.safetensors"
        attcr.save_model(attcr.ATTCR(CONFIG), file, spec=SPEC, provenance={"steps": seed})
    return str(tmp_path / "one.safetensors"), str(tmp_path / "other.safetensors")


def test_half_of_the_bits_with_what_the_weights_tell(
    publish: ModuleType, weights: tuple[str, str], tmp_path: Path
) -> None:
    publish.half(weights[0], str(tmp_path / "half.safetensors"))
    header = attcr.read_header(tmp_path / "half.safetensors")
    assert (header.spec, header.provenance) == (SPEC, {"steps": 0})
    before, after = (attcr.load_model(file).state_dict() for file in (weights[0], tmp_path / "half.safetensors"))
    assert all(torch.equal(before[name].half().float(), value.float()) for name, value in after.items())
    assert (tmp_path / "half.safetensors").stat().st_size < 0.6 * Path(weights[0]).stat().st_size


def test_the_mean_with_other_weights_and_the_calibration_are_written(
    publish: ModuleType, weights: tuple[str, str], tmp_path: Path
) -> None:
    publish.half(weights[0], str(tmp_path / "mean.safetensors"), "0.8", weights[1], "0.7")
    header = attcr.read_header(tmp_path / "mean.safetensors")
    assert header.provenance == {"steps": 0, "mean_with": sha256(weights[1]), "share": 0.7}
    assert header.spec.spread_factor == pytest.approx(0.8 * math.exp(-3))
    assert header.spec.spread_floor == SPEC.spread_floor
    one, other = (attcr.load_model(file).state_dict() for file in weights)
    for name, value in attcr.load_model(tmp_path / "mean.safetensors").state_dict().items():
        torch.testing.assert_close(value.float(), 0.3 * one[name] + 0.7 * other[name], atol=1e-3, rtol=1e-3)


def test_weights_that_float16_cannot_hold_are_refused(
    publish: ModuleType, weights: tuple[str, str], tmp_path: Path
) -> None:
    model = attcr.load_model(weights[0])
    torch.nn.init.constant_(model.get_parameter("embed.weight"), 1e6)
    attcr.save_model(model, tmp_path / "large.safetensors", spec=SPEC)
    with pytest.raises(SystemExit, match="not all of them are numbers in float16"):
        publish.half(str(tmp_path / "large.safetensors"), str(tmp_path / "half.safetensors"))


def test_the_table_says_how_a_network_of_many_bands_was_trained(publish: ModuleType) -> None:
    told = {"steps": 9, "batch": {"0": 5, "7": 2}, "crop": {"0": 64, "7": 96}, "loss": {"likelihood": 0.03}}
    told |= {"precision": "32-true", "mean_with": "a7b04401ff", "share": 0.7, "start_from": "runs/earlier.safetensors"}
    assert publish._training(told) == (
        "from earlier, 9 steps of 5 or 2 crops, 64 px from step 0 on, 96 px from step 7 on, L1 and the likelihood of "
        "the expected error, 32-true, 2 CPU cores, mean with 70% of a7b04401"
    )


@pytest.mark.parametrize("name", sorted(attcr.list_models()))
def test_the_card_in_the_documentation_is_the_one_made_now(publish: ModuleType, name: str) -> None:
    assert (publish.CARDS / f"{name}.md").read_text() == publish.card(published()[name])
