"""Predictors on torch: what they give, and that the caller's module is left as it is."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from attcr import ATTCR, ATTCRConfig
from attcr.bands.spec import SEN12MSCR, TRUE_COLOUR
from attcr.errors import ConfigError, ShapeError
from attcr.files import sha256
from attcr.predict import Predictor, open_predictor, settle_dtype
from attcr.predict.predictor import as_a_veil
from attcr.predict.torch import TorchPredictor
from attcr.weights import find_weights, load_model

TINY = ATTCRConfig(dim=8, blocks=(1,) * 5, heads=(2,) * 5)


def image(planes: int = 3, size: int = 16) -> np.ndarray:
    return np.random.default_rng(0).random((2, planes, size, size + 4), np.float32)


class Half(nn.Module):
    """Says what it takes, and halves it."""

    spec = TRUE_COLOUR

    def __init__(self) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(0.5))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.factor


def test_weights_by_name_give_what_the_module_gives() -> None:
    predictor = open_predictor("rgb-thin")
    x = image()
    with torch.inference_mode():
        expected = load_model("rgb-thin")(torch.from_numpy(x)).numpy()
    assert np.array_equal(predictor(x), as_a_veil(predictor.spec, x, expected))
    assert predictor.spec == replace(TRUE_COLOUR, only_light=True)
    assert predictor.identity["weights_sha256"] == sha256(find_weights("rgb-thin"))
    assert predictor.identity["backend"] == "torch"
    assert predictor.identity["dtype"] == "float32"


def test_threads_are_set_where_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", heard.append)
    open_predictor(Half())
    open_predictor(Half(), threads=3)
    assert heard == [3]


def test_what_computes_and_how_is_part_of_the_identity() -> None:
    module = Half().eval()
    one, other = open_predictor(module), open_predictor(module, dtype="bfloat16")
    assert one.identity["weights_sha256"] == other.identity["weights_sha256"]
    assert one.identity != other.identity
    with torch.no_grad():
        module.factor += 1
    assert open_predictor(module).identity["weights_sha256"] != one.identity["weights_sha256"]


def test_the_callers_module_is_neither_moved_nor_switched() -> None:
    module = Half().double().train()
    predictor = open_predictor(module)
    assert np.array_equal(predictor(image()), image() / 2)
    assert module.training
    assert module.factor.dtype == torch.float64
    ready = Half().eval()
    assert open_predictor(ready)._module is ready  # type: ignore[attr-defined]


def test_a_submodule_in_training_mode_is_copied_too() -> None:
    module = nn.Sequential(Half(), nn.Dropout(0.5)).eval()
    module.spec = TRUE_COLOUR  # type: ignore[assignment]
    module[1].train()
    predictor = open_predictor(module)
    assert np.array_equal(predictor(image()), image() / 2)
    assert module[1].training


def test_in_low_precision_what_is_not_changed_comes_back_to_the_bit() -> None:
    class Same(nn.Module):
        spec = TRUE_COLOUR

        def forward(self, x: Tensor) -> Tensor:
            return x + 0

    x = image()
    assert np.array_equal(open_predictor(Same(), dtype="bfloat16")(x), x)
    halved = open_predictor(Half(), dtype="bfloat16")(x)
    assert 0 < np.abs(halved - x / 2).max() < 2e-3


def test_a_predictor_passes_through_and_several_threads_may_call_it() -> None:
    model = ATTCR(TINY).eval()
    predictor = TorchPredictor(model, spec=TRUE_COLOUR)
    assert isinstance(predictor, Predictor)
    assert open_predictor(predictor) is predictor
    x = image()
    alone = predictor(x)
    with ThreadPoolExecutor(4) as pool:
        assert all(np.array_equal(y, alone) for y in pool.map(predictor, [x] * 8))


def test_the_planes_of_a_spread_follow_the_bands() -> None:
    class WithSpread(nn.Module):
        spec = replace(TRUE_COLOUR, spread=True)

        def forward(self, x: Tensor) -> Tensor:
            return torch.cat([x, torch.ones_like(x)], dim=1)

    given = open_predictor(WithSpread(), dtype="bfloat16")(image())
    assert given.shape == (2, 6, 16, 20)
    assert np.array_equal(given[:, :3], image())
    assert (given[:, 3:] == 1).all()


def test_what_cannot_be_asked_is_refused() -> None:
    with pytest.raises(ConfigError, match="does not say what it takes"):
        open_predictor(ATTCR(TINY))
    with pytest.raises(ConfigError, match="is not a predictor"):
        open_predictor(3)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="cannot go to device 'nowhere'"):
        open_predictor(Half(), device="nowhere")
    with pytest.raises(ShapeError, match=r"gave \(2, 3, 16, 20\) for \(2, 3, 16, 20\); expected \(2, 13, 16, 20\)"):
        TorchPredictor(Half(), spec=SEN12MSCR)(image())


def test_the_same_numbers_under_another_name_are_other_weights() -> None:
    class Other(nn.Module):
        spec = TRUE_COLOUR

        def __init__(self) -> None:
            super().__init__()
            self.share = nn.Parameter(torch.tensor(0.5))

    one, other = (open_predictor(module.eval()).identity["weights_sha256"] for module in (Half(), Other()))
    assert one != other


@pytest.mark.parametrize(
    ("told", "settled"),
    [
        ("flags\t\t: fpu avx2 avx512_bf16\nflags\t\t: fpu avx2 avx512_bf16\n", "bfloat16"),
        ("flags\t\t: fpu amx_bf16\n", "bfloat16"),
        ("Features\t: fp asimd bf16\n", "bfloat16"),
        ("flags\t\t: fpu avx512_bf16\nflags\t\t: fpu avx2\n", "float32"),
        ("flags\t\t: fpu avx2 avx512f\nmodel name\t: a bf16 of sorts\n", "float32"),
        ("", "float32"),
        (None, "float32"),
    ],
)
def test_auto_is_bfloat16_where_the_processor_multiplies_in_it(
    told: str | None, settled: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if told is not None:
        (tmp_path / "cpuinfo").write_text(told)
    monkeypatch.setattr("attcr.predict.CPU_INFO", tmp_path / "cpuinfo")
    assert open_predictor(Half(), dtype="auto").identity["dtype"] == settled
    assert settle_dtype("auto", "cpu", "openvino") == settled
    for device, backend in (("cuda", "torch"), ("cpu", "onnxruntime")):
        assert settle_dtype("auto", device, backend) == "float32"
    assert settle_dtype("float16", "cpu", "torch") == "float16"
