"""The GPU operator under Triton's interpreter, against the definition: test_triton.py runs this in its own process."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
import triton.language as tl
from test_chunked import empty_memory_is_nan, make_qkv
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from triton._C.libtriton import ir
from triton.runtime import interpreter

from attcr.errors import ConfigError
from attcr.ops import chosen, naive_triangular_attention, triangular_attention, triton, using

__all__ = ["empty_memory_is_nan"]  # a fixture

TOLERANCE = {torch.float32: 5e-7, torch.bfloat16: 2e-3, torch.float16: 1e-3}


def rounded(x: np.ndarray, bits: int) -> np.ndarray:
    """Float32 numbers with `bits` bits less of their mantissa, the nearest, ties to even."""
    whole = x.view(np.uint32)
    kept = (whole >> bits) + (((whole >> (bits - 1)) & 1) & (((whole & ((1 << (bits - 1)) - 1)) > 0) | (whole >> bits)))
    return np.where(np.isfinite(x), (kept << bits).astype(np.uint32).view(np.float32), x)


@pytest.fixture(autouse=True)
def rounds_as_a_gpu_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Round to bfloat16 and multiply in tf32: the interpreter cuts bits off, and multiplies in float32 always."""
    builder = interpreter.InterpreterBuilder
    cast, multiply = builder.cast_impl, builder.create_dot

    def round_and_cast(self: object, source: interpreter.TensorHandle, kind: tl.dtype) -> interpreter.TensorHandle:
        if source.dtype.scalar == tl.float32 and kind.scalar == tl.bfloat16:
            source = interpreter.TensorHandle(rounded(source.data, 16), tl.float32)
        return cast(self, source, kind)

    def dot(self: object, a: object, b: object, c: object, how: object, most: int) -> interpreter.TensorHandle:
        def parts(x: object) -> tuple[np.ndarray, np.ndarray]:
            data = np.ascontiguousarray(x.data)  # type: ignore[attr-defined]
            high = rounded(data, 13)
            return high, rounded(data - high, 13)

        if how == ir.INPUT_PRECISION.IEEE:
            return multiply(self, a, b, c, how, most)
        (a_high, a_low), (b_high, b_low) = parts(a), parts(b)
        result = np.matmul(a_high, b_high)
        if how == ir.INPUT_PRECISION.TF32x3:
            result = np.matmul(a_low, b_high) + np.matmul(a_high, b_low) + result
        return interpreter.TensorHandle(result + c.data, tl.float32)  # type: ignore[attr-defined]

    monkeypatch.setattr(builder, "cast_impl", round_and_cast)
    monkeypatch.setattr(builder, "create_fp_trunc", round_and_cast)
    monkeypatch.setattr(builder, "create_dot", dot)


@pytest.fixture(autouse=True)
def functions_are_called_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Save time: the interpreter looks through the whole language at each call of a function, ours too."""
    function = interpreter.InterpretedFunction
    careful = function.__call__

    def call(self: interpreter.InterpretedFunction, *given: object, **named: object) -> object:
        ours = self.fn.__module__ == triton.__name__
        return self.rewrite()(*given, **named) if ours else careful(self, *given, **named)

    monkeypatch.setattr(function, "__call__", call)


@pytest.fixture(autouse=True)
def few_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments of several chunks for few tokens too, and few programs, which take the interpreter's time."""
    monkeypatch.setattr(triton, "PROGRAMS", 4)
    monkeypatch.setattr(triton, "COLUMNS", 4096)


def with_gradients(qkv: list[Tensor], grad: Tensor) -> list[Tensor]:
    out = triangular_attention(*qkv, impl="triton")
    return [out.detach(), *torch.autograd.grad(out, qkv, grad)]


def definition(qkv: list[Tensor], grad: Tensor) -> list[Tensor]:
    """The same by the definition, in float64 from the same numbers."""
    wide = [x.detach().double().requires_grad_() for x in qkv]
    out = naive_triangular_attention(*wide)
    return [out.detach(), *torch.autograd.grad(out, wide, grad.double())]


def errors(got: list[Tensor], expected: list[Tensor]) -> list[float]:
    """Root mean square errors over root mean squares; gradients to one token are almost 0, so over the largest's."""
    out, *grads = (x.norm() for x in expected)
    scales = [out, *([max(grads)] * 3 if expected[0].shape[2] == 1 else grads)]
    return [float((a.double() - b).norm() / s) for a, b, s in zip(got, expected, scales, strict=True)]


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((1, 2, 1, 48), torch.float32),
        ((2, 4, 63, 12), torch.float32),
        ((1, 2, 520, 24), torch.float32),
        ((2, 2, 130, 8), torch.float32),
        ((1, 2, 70, 16), torch.float32),
        ((1, 2, 150, 32), torch.float32),
        ((1, 2, 257, 48), torch.float32),
        ((1, 2, 300, 48), torch.bfloat16),
        ((1, 4, 100, 12), torch.bfloat16),
        ((1, 2, 90, 24), torch.float16),
    ],
    ids=str,
)
def test_output_and_gradients_equal_the_definition(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    qkv = make_qkv(*shape, dtype=dtype)
    grad = torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(dtype)
    got = with_gradients(qkv, grad)
    assert all(x.dtype == dtype and x.shape == shape for x in got)
    assert max(errors(got, definition(qkv, grad))) < TOLERANCE[dtype]


@pytest.mark.parametrize("major", [8, 9])
def test_chunks_of_both_sizes_equal_the_definition(major: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton, "target_of", lambda _: triton.Target("cuda", major))
    qkv = make_qkv(1, 2, 200, 12, dtype=torch.bfloat16)
    grad = torch.ones(1, 2, 200, 12, dtype=torch.bfloat16)
    assert max(errors(with_gradients(qkv, grad), definition(qkv, grad))) < TOLERANCE[torch.bfloat16]


def test_states_are_added_up_part_by_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """More segments than one step of the launch between takes, and more numbers than one program."""
    monkeypatch.setattr(triton, "PROGRAMS", 512)
    monkeypatch.setattr(triton, "ROWS", 2)
    monkeypatch.setattr(triton, "COLUMNS", 64)
    qkv = make_qkv(1, 2, 300, 8)
    grad = torch.randn(1, 2, 300, 8, generator=torch.Generator().manual_seed(1))
    assert max(errors(with_gradients(qkv, grad), definition(qkv, grad))) < 5e-7


def test_tokens_in_any_layout() -> None:
    """Halves of one tensor, numbers apart from each other, a gradient expanded from one number."""
    q, k, v = (x.detach() for x in make_qkv(2, 2, 90, 12))
    packed = torch.cat([k.transpose(1, 2), v.transpose(1, 2)], dim=-1)
    views = [q.mT.contiguous().mT, *(x.transpose(1, 2) for x in packed.split(12, dim=-1))]
    assert [x.stride(3) for x in views] == [90, 1, 1]
    assert views[1].stride(2) == 2 * 2 * 12
    got = with_gradients([x.requires_grad_() for x in views], torch.ones(()).expand(2, 2, 90, 12))
    assert max(errors(got, definition([q, k, v], torch.ones(2, 2, 90, 12)))) < 5e-7
    assert got[0].transpose(1, 2).is_contiguous()


def test_nan_stays_in_its_item_and_direction() -> None:
    q, k, v = (x.detach() for x in make_qkv(2, 2, 100, 12))
    k[0, 0, 70, 3] = float("nan")
    out = triangular_attention(q, k, v, impl="triton")
    assert out[0, 0, 70:].isnan().all()
    assert not out[0, 0, :64].isnan().any()
    assert not out[1].isnan().any()
    assert not out[0, 1].isnan().any()


class Launches(TorchDispatchMode):
    """What is sent to a GPU: operations of torch, apart from taking memory and looking at it."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        name = func.__name__.partition(".")[0]
        if name not in ("empty", "new_empty", "empty_like", "transpose", "device"):
            self.seen.append(name)
        return func(*args, **(kwargs or {}))


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The names of what is launched, none of which runs."""
    torch.use_deterministic_algorithms(False)  # or memory would be filled
    mode = Launches()
    monkeypatch.setattr(interpreter.GridExecutor, "__call__", lambda self, *_, **__: mode.seen.append(self.fn.__name__))
    monkeypatch.setattr(triton, "PROGRAMS", 512)
    with FakeTensorMode(), mode:
        yield mode.seen


@pytest.mark.parametrize("tokens", [1, 1000, 4_194_304])
def test_three_launches_forward_and_four_backward(tokens: int, launches: list[str]) -> None:
    q, k, v, grad = (torch.empty(1, tokens, 2, 48).transpose(1, 2) for _ in range(4))
    results = triton._attend._init_fn(q, k, v)
    assert launches == ["_sum_keys", "_scan", "_give_out"]
    launches.clear()
    triton._attend_backward._init_fn(grad, q, k, v, *results[1:])
    assert launches == ["_give_dq", "_sum_queries", "_scan", "_give_dk_dv"]


@pytest.mark.filterwarnings("ignore:.*is not currently")
def test_the_registration_passes_torch_s_own_checks() -> None:
    torch.library.opcheck(torch.ops.attcr.triton_triangular_attention.default, tuple(make_qkv(1, 2, 33, 8)))


def test_compile_takes_the_operator_whole() -> None:
    torch.use_deterministic_algorithms(False)
    qkv, grad = make_qkv(1, 2, 40, 8), torch.ones(1, 2, 40, 8)
    graphs = []

    def keep(graph: torch.fx.GraphModule, _: object) -> torch.fx.GraphModule:
        graphs.append(graph)
        return graph

    with using("triton"):
        compiled = torch.compile(lambda q, k, v: triangular_attention(q, k, v) * 2, fullgraph=True, backend=keep)(*qkv)
    assert "attcr.triton_triangular_attention" in str(graphs[0].graph)
    got = [compiled.detach(), *torch.autograd.grad(compiled, qkv, grad)]
    expected = with_gradients(qkv, 2 * grad)
    assert torch.equal(got[0], 2 * expected[0])
    assert all(torch.equal(a, b) for a, b in zip(got[1:], expected[1:], strict=True))


def test_others_are_refused() -> None:
    assert chosen(torch.empty(1, 2, 5, 64), impl="triton") == "triton"
    for tokens in (torch.empty(1, 2, 5, 65), torch.empty(1, 2, 5, 8, dtype=torch.float64)):
        with pytest.raises(ConfigError, match="it takes up to 64 numbers, float32, bfloat16 or float16, on AMD GPUs"):
            chosen(tokens, impl="triton")
