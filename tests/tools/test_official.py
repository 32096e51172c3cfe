"""The authors' checkpoints: parity with their code, conversion, and what is refused."""

import json
import pickle
from pathlib import Path

import pytest
import safetensors
import safetensors.torch
import torch
from benchmarks.paper.official import convert_official, from_official
from torch import Tensor

import attcr.networks.attcr
from attcr.bands.spec import RICE2, SEN12MSCR, TRUE_COLOUR
from attcr.errors import WeightsError
from attcr.files import sha256
from attcr.networks.attcr import ATTCRConfig
from attcr.ops import naive_triangular_attention
from attcr.weights import load_model, read_header


def read_parity(shared: Path, name: str) -> tuple[dict[str, Tensor], dict[str, Tensor], tuple[int, ...]]:
    """The authors' weights under their names; input, output and gradients; heads."""
    path = shared / "parity" / f"official_{name}.safetensors"
    tensors = safetensors.torch.load_file(path)
    with safetensors.safe_open(path, framework="pt") as file:
        heads = tuple(json.loads(file.metadata()["config"])["heads"])
    weights = {key.removeprefix("weights."): t for key, t in tensors.items() if key.startswith("weights.")}
    return weights, {key: t for key, t in tensors.items() if not key.startswith("weights.")}, heads


@pytest.mark.parametrize("impl", ["naive", "chunked"])
@pytest.mark.parametrize("name", ["rgb", "rice2", "sar", "single"])
def test_the_authors_network_is_reproduced(shared: Path, name: str, impl: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if impl == "naive":
        monkeypatch.setattr(attcr.networks.attcr, "triangular_attention", naive_triangular_attention)
    weights, tensors, heads = read_parity(shared, name)
    model = from_official({"params": weights}, heads=heads)
    image = tensors["input"].requires_grad_()
    output = model(image)
    output.backward(tensors["grad_output"])
    assert (output - tensors["output"]).abs().max() < 2e-6
    assert image.grad is not None
    error = (image.grad - tensors["grad_input"]).abs().max() / tensors["grad_input"].abs().max()
    assert error < 1e-4


def test_convert_reads_a_checkpoint_and_its_heads(shared: Path, tmp_path: Path) -> None:
    weights, tensors, heads = read_parity(shared, "rgb")
    torch.save({"params": weights}, tmp_path / "official.pth")
    convert_official(tmp_path / "official.pth", tmp_path / "out.safetensors", spec=TRUE_COLOUR, heads=heads)
    with torch.no_grad():
        output = load_model(tmp_path / "out.safetensors")(tensors["input"])
    assert (output - tensors["output"]).abs().max() < 2e-6
    torch.save(weights, tmp_path / "bare.pth")
    bare = convert_official(tmp_path / "bare.pth", tmp_path / "out.safetensors", spec=TRUE_COLOUR)
    assert bare.config.heads == (2, 2, 8, 2, 2)


def test_convert_reads_the_first_training(shared: Path, tmp_path: Path) -> None:
    source = shared / "weights" / "rice2-dim24-629steps.safetensors"
    model = convert_official(source, tmp_path / "out.safetensors", spec=RICE2)
    assert model.config == ATTCRConfig.preset("small")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"extra.weight": torch.zeros(1)}, "'extra.weight' is not of the authors'"),
        ({"output.weight": None}, "not whole"),
        ({"encoder_level2.1.norm1.body.bias": None}, "1 tensors missing"),
        ({"encoder_level1.0.norm1.body.bias": torch.zeros(9)}, "1 of another shape"),
    ],
    ids=["unknown key", "no output", "missing key", "wrong shape"],
)
def test_what_is_not_the_authors_network_is_refused(
    shared: Path, change: dict[str, Tensor | None], message: str
) -> None:
    weights, _, heads = read_parity(shared, "rgb")
    changed = {key: t for key, t in {**weights, **change}.items() if t is not None}
    with pytest.raises(WeightsError, match=message):
        from_official(changed, heads=heads)


@pytest.mark.parametrize("state", [{}, {"params": 1}, {"a": "b"}], ids=str)
def test_what_is_no_dict_of_tensors_is_refused(state: dict[str, object]) -> None:
    with pytest.raises(WeightsError, match="dict of tensors"):
        from_official(state)


def test_a_pickled_checkpoint_is_not_unpickled(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (Path(tmp_path / "exploded").touch, ())  # type: ignore[return-value]

    (tmp_path / "w.pth").write_bytes(pickle.dumps(Bomb(), protocol=2))
    with pytest.raises(WeightsError, match="weights_only=True"):
        convert_official(tmp_path / "w.pth", tmp_path / "out.safetensors", spec=TRUE_COLOUR)
    assert {path.name for path in tmp_path.iterdir()} == {"w.pth"}


def test_prefixes_of_training_wrappers_are_taken_off(shared: Path) -> None:
    weights, tensors, heads = read_parity(shared, "rgb")
    model = from_official({"params": {f"module.{key}": tensor for key, tensor in weights.items()}}, heads=heads)
    with torch.no_grad():
        assert (model(tensors["input"]) - tensors["output"]).abs().max() < 2e-6


def test_a_converted_file_says_where_it_came_from_and_what_it_takes(shared: Path, tmp_path: Path) -> None:
    weights, _, heads = read_parity(shared, "sar")
    torch.save({"params": weights}, tmp_path / "official.pth")
    model = convert_official(tmp_path / "official.pth", tmp_path / "out.safetensors", spec=SEN12MSCR, heads=heads)
    assert (model.config.in_channels, model.config.residual) == (15, tuple(range(2, 15)))
    header = read_header(tmp_path / "out.safetensors")
    assert header.provenance == {"converted_from": "official.pth", "sha256": sha256(tmp_path / "official.pth")}
    assert header.spec == SEN12MSCR
    assert header.config["heads"] == list(heads)
