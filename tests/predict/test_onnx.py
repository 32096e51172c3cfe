"""The ONNX graph against the network, and files that are not what they say."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from small_networks import WITH_SPREAD, image, relative, save_small

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from attcr.bands.spec import TRUE_COLOUR  # noqa: E402
from attcr.errors import WeightsError  # noqa: E402
from attcr.predict import open_predictor, read_about  # noqa: E402
from attcr.predict.onnx import network_from_onnx, network_from_weights  # noqa: E402
from attcr.predict.onnxruntime import OnnxRuntimePredictor  # noqa: E402

Model = Any


@pytest.mark.parametrize(
    "settings",
    [{}, {"attention": "linear"}, {"gate": False}, {"spec": WITH_SPREAD}, {"residual": (2, 0, 1)}],
    ids=["triangular", "linear", "no gate", "spread", "residual"],
)
def test_the_graph_gives_what_the_network_gives(settings: dict[str, Any], tmp_path: Path) -> None:
    path = save_small(tmp_path, **settings)
    network = network_from_weights(path)
    onnx.checker.check_model(onnx.ModelProto.FromString(network.content), full_check=True)
    exported, torch = OnnxRuntimePredictor(network, threads=1), open_predictor(path)
    for height, width, batch in ((8, 8, 1), (21, 34, 3), (72, 64, 1)):  # the last: three groups of 2,048 tokens
        x = image(3, height, width, batch)
        assert relative(exported(x), torch(x)) < 1e-6


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return network_from_weights(save_small(tmp_path_factory.mktemp("weights"))).content


def test_a_file_of_ours_is_read_with_all_that_it_says(exported: bytes, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(exported)
    network = network_from_onnx(path)
    assert network.content == exported
    about = read_about(path)
    assert about.spec == TRUE_COLOUR
    assert about.provenance == {"made": "by a test"}
    assert about.config["dim"] == 8


def external(model: Model) -> None:
    tensor = model.graph.initializer[0]
    tensor.data_location = onnx.TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", "../../etc/passwd"


def foreign_operator(model: Model) -> None:
    model.graph.node[3].domain = "com.evil"


def other_operator(model: Model) -> None:
    model.graph.node.append(onnx.helper.make_node("ConstantOfShape", ["huge"], ["gone"]))


def larger(model: Model) -> None:
    next(node for node in model.graph.node if node.op_type == "Pad").input[1] = "more"
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([0] * 7 + [1 << 40]), "more"))


def absurd_dims(model: Model) -> None:
    model.graph.initializer[0].dims[0] = 1 << 60


def other_constant(model: Model) -> None:
    tensor = next(t for t in model.graph.initializer if t.name.startswith("constant."))
    tensor.raw_data = bytes([tensor.raw_data[0] ^ 1]) + tensor.raw_data[1:]


def missing(model: Model) -> None:
    del model.graph.initializer[0]


def other_format(model: Model) -> None:
    next(entry for entry in model.metadata_props if entry.key == "format").value = "attcr-export-0"


def no_metadata(model: Model) -> None:
    del model.metadata_props[:]


def damaged_spec(model: Model) -> None:
    next(entry for entry in model.metadata_props if entry.key == "spec").value = "[[[["


def function(model: Model) -> None:
    model.functions.add().name = "Relu"


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (external, "keeps tensors in other files"),
        (foreign_operator, "its graph is not the one"),
        (other_operator, "its graph is not the one"),
        (larger, "tensors are not of its network, as more"),
        (absurd_dims, "its tensors are not those of its network"),
        (other_constant, "its graph is not the one"),
        (missing, "has no tensor or setting 'embed.weight'"),
        (other_format, "format 'attcr-export-0' in its metadata, expected 'attcr-export-2'"),
        (no_metadata, "no format in its metadata"),
        (damaged_spec, "its metadata is of another version or damaged"),
        (function, "its graph is not the one"),
    ],
)
def test_what_is_not_ours_is_refused_in_one_line(
    spoil: Callable[[Model], None], told: str, exported: bytes, tmp_path: Path
) -> None:
    model = onnx.ModelProto.FromString(exported)
    spoil(model)
    path = tmp_path / "net.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(WeightsError, match=told) as refused:
        open_predictor(path)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("content", [b"", b"no protobuf at all", b"\xff" * 100])
def test_what_is_no_onnx_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(content)
    with pytest.raises(WeightsError):
        open_predictor(path)


def test_a_file_that_is_too_large_is_not_read(exported: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(exported)
    monkeypatch.setattr("attcr.predict.onnx.MOST_BYTES", len(exported) - 1)
    with pytest.raises(WeightsError, match="has more than"):
        open_predictor(path)
    monkeypatch.setattr("attcr.predict.onnx.MOST_BYTES", len(exported))
    open_predictor(path)


def test_other_networks_stay_on_torch(tmp_path: Path) -> None:
    import torch
    from benchmarks.paper.ablations import Ablation, AblationConfig

    from attcr.weights import save_model

    torch.manual_seed(0)
    save_model(Ablation(AblationConfig(dim=8, heads=(2,) * 5)), tmp_path / "x.safetensors", spec=TRUE_COLOUR)
    with pytest.raises(WeightsError, match="of the network 'ablation', which runs on torch alone"):
        open_predictor(tmp_path / "x.safetensors", backend="onnxruntime")
