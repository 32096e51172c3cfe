"""The predictor on OpenVINO."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from small_networks import WITH_SPREAD, image, relative, save_small

pytest.importorskip("onnx")
openvino = pytest.importorskip("openvino")

from attcr import compiled  # noqa: E402
from attcr.errors import ConfigError  # noqa: E402
from attcr.files import sha256  # noqa: E402
from attcr.predict import open_predictor, read_about  # noqa: E402
from attcr.predict.onnx import network_from_weights  # noqa: E402
from attcr.predict.openvino import Attend, put_kernel  # noqa: E402


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_small(tmp_path_factory.mktemp("weights"), spec=WITH_SPREAD)


@pytest.fixture(scope="module")
def exported(weights: Path) -> Path:
    path = weights.with_name("net.onnx")
    path.write_bytes(network_from_weights(weights).content)
    return path


def test_files_and_weights_give_what_torch_gives(weights: Path, exported: Path) -> None:
    torch = open_predictor(weights)
    for source in (exported, weights):
        predictor = open_predictor(source, backend="openvino", threads=1)
        for x in (image(3, 8, 8), image(3, 21, 34, 3), image(3, 72, 64)):
            assert relative(predictor(x), torch(x)) < 1e-6
        assert predictor.identity["weights_sha256"] == sha256(source)
        assert predictor.identity["backend"] == "openvino"
        assert predictor.identity["dtype"] == "float32"
        assert predictor.identity["version"] == openvino.__version__
    assert read_about(exported) == read_about(weights)


def test_in_bfloat16_what_is_not_changed_comes_back_to_the_bit(weights: Path, tmp_path: Path) -> None:
    import torch

    from attcr.weights import load_model, save_model

    x = image()
    exact, rough = (open_predictor(weights, backend="openvino", dtype=kind) for kind in ("float32", "bfloat16"))
    assert rough.identity["dtype"] == "bfloat16"
    assert 1e-5 < relative(rough(x), exact(x)) < 0.05
    network = load_model(weights)
    with torch.no_grad():
        network.output.weight.zero_()  # type: ignore[operator, union-attr]
    save_model(network, tmp_path / "same.safetensors")
    same = open_predictor(tmp_path / "same.safetensors", backend="openvino", dtype="bfloat16")
    assert np.array_equal(same(x)[:, :3], x)


@pytest.mark.skipif(not compiled.LANES, reason="attcr was installed without its compiled operator")
def test_the_compiled_operator_gives_what_standard_operations_give(
    weights: Path, exported: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for source in (exported, weights):
        predictor = open_predictor(source, backend="openvino", threads=1)
        assert predictor.identity["operator"] == "kernel"
        with monkeypatch.context() as without:
            without.setattr(compiled, "LANES", 0)
            standard = open_predictor(source, backend="openvino", threads=1)
        assert standard.identity["operator"] == "standard"
        x = image(3, 21, 34, 3)
        assert 0 < relative(predictor(x), standard(x)) < 1e-6


@pytest.mark.skipif(not compiled.LANES, reason="attcr was installed without its compiled operator")
def test_it_takes_the_place_of_every_attention_that_it_serves(weights: Path) -> None:
    network = network_from_weights(weights)
    config = network.header.config
    served = [blocks for blocks, channels in zip(config["blocks"], (8, 16, 32, 16, 16), strict=True) if channels > 8]
    model = openvino.Core().read_model(network.content)  # heads of 4 numbers, in the first stage, stay as they are
    assert put_kernel(model, config, bfloat16=False, threads=1) == sum(served)
    assert sum(node.get_type_name() == "Attend" for node in model.get_ops()) == sum(served)
    linear = {**config, "attention": "linear"}
    assert put_kernel(openvino.Core().read_model(network.content), linear, bfloat16=False, threads=1) == 0


def test_tokens_of_another_length_are_refused() -> None:
    queries, both = (openvino.Tensor(np.zeros(shape, np.float32)) for shape in ((1, 2, 3, 16), (1, 2, 2, 32)))
    with pytest.raises(ValueError, match=r"came as \[\[1, 2, 2, 32\]\], not \[1, 2, 3, 32\]"):
        Attend().evaluate([openvino.Tensor(np.zeros((1, 2, 3, 16), np.float32))], [queries, both])


def test_shapes_of_the_last_calls_stay_compiled(exported: Path) -> None:
    predictor = open_predictor(exported, backend="openvino", threads=1)
    images = [image(3, 8 + 4 * n, 8) for n in range(3)]
    first = [predictor(x) for x in images]
    kept = dict(predictor._compiled)  # type: ignore[attr-defined]
    assert list(kept) == [x.shape for x in images[-2:]]
    assert all(np.array_equal(predictor(x), y) for x, y in zip(images[1:], first[1:], strict=True))
    assert dict(predictor._compiled) == kept  # type: ignore[attr-defined]
    assert np.array_equal(predictor(images[0]), first[0])


def test_several_threads_may_call_it(exported: Path) -> None:
    predictor = open_predictor(exported, backend="openvino", threads=1)
    images = [image(3, 16 + 4 * n, 24) for n in range(4)]
    alone = [predictor(x) for x in images]
    with ThreadPoolExecutor(4) as pool:
        assert all(np.array_equal(a, b) for a, b in zip(pool.map(predictor, images), alone, strict=True))


def test_what_it_cannot_do_is_refused(exported: Path) -> None:
    with pytest.raises(ConfigError, match="OpenVINO cannot run on device 'nowhere' in float32") as told:
        open_predictor(exported, backend="openvino", device="nowhere")
    assert "\n" not in str(told.value)
    with pytest.raises(ConfigError, match="has float32, bfloat16, float16"):
        open_predictor(exported, backend="openvino", dtype="int8")
