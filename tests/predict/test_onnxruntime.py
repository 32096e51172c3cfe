"""The predictor on ONNX Runtime."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from small_networks import image, relative, save_small

pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from attcr.errors import ConfigError, SceneError, ShapeError  # noqa: E402
from attcr.files import sha256  # noqa: E402
from attcr.predict import Predictor, open_predictor  # noqa: E402
from attcr.predict.onnx import network_from_weights  # noqa: E402


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_small(tmp_path_factory.mktemp("weights"))


@pytest.fixture(scope="module")
def exported(weights: Path) -> Path:
    path = weights.with_name("net.onnx")
    path.write_bytes(network_from_weights(weights).content)
    return path


def test_a_file_by_its_ending_and_weights_by_the_backend_run_here(weights: Path, exported: Path) -> None:
    x = image()
    expected = open_predictor(weights)(x)
    for source, backend in ((exported, "auto"), (exported, "onnxruntime"), (weights, "onnxruntime")):
        predictor = open_predictor(source, backend=backend, threads=1)  # type: ignore[arg-type]
        assert isinstance(predictor, Predictor)
        assert relative(predictor(x), expected) < 1e-6
        assert predictor.identity == {
            "weights_sha256": sha256(source),
            "backend": "onnxruntime",
            "version": onnxruntime.__version__,
            "dtype": "float32",
        }


def test_several_threads_may_call_it(exported: Path) -> None:
    predictor = open_predictor(exported, threads=1)
    images = [image(3, 16 + 4 * n, 24) for n in range(4)]
    alone = [predictor(x) for x in images]
    with ThreadPoolExecutor(4) as pool:
        assert all(np.array_equal(a, b) for a, b in zip(pool.map(predictor, images), alone, strict=True))


def test_what_it_cannot_do_is_refused(weights: Path, exported: Path) -> None:
    with pytest.raises(ConfigError, match="dtype bfloat16 came with the backend onnxruntime"):
        open_predictor(exported, dtype="bfloat16")
    with pytest.raises(ConfigError, match="cannot use device 'mps' here: it has cpu"):
        open_predictor(exported, device="mps")
    with pytest.raises(ConfigError, match=r"net.onnx does not run on torch, but on onnxruntime"):
        open_predictor(exported, backend="torch")
    with pytest.raises(ConfigError, match="expected auto, torch, onnxruntime, openvino"):
        open_predictor(exported, backend="tensorrt")  # type: ignore[arg-type]
    predictor = open_predictor(exported)
    with pytest.raises(ShapeError, match=r"expected \(B, 3, H, W\) with H, W >= 8"):
        predictor(image(3, 7, 20))
    with pytest.raises(ShapeError, match=r"expected \(B, 3, H, W\)"):
        predictor(image(4))


def test_a_failure_of_the_runtime_is_one_line(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    predictor = open_predictor(exported)

    class Broken:
        def run(self, *_: object) -> None:
            raise RuntimeError("bad allocation\nwith details")

    monkeypatch.setattr(predictor, "_session", Broken())
    with pytest.raises(SceneError, match="1 tiles of 36 x 24: bad allocation") as told:
        predictor(image())
    assert "\n" not in str(told.value)


def test_a_module_does_not_run_here(weights: Path) -> None:
    from attcr.weights import load_model

    with pytest.raises(ConfigError, match="A module runs on torch, not on onnxruntime"):
        open_predictor(load_model(weights), backend="onnxruntime")
