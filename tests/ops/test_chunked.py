"""The chunked operator against the definition."""

from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from attcr.ops import chunked, triangular_attention

LENGTHS = [1, 2, 63, 64, 65, 1000, 4097]
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5, torch.bfloat16: 2e-2}


@pytest.fixture(autouse=True)
def empty_memory_is_nan() -> Iterator[None]:
    """Fill what `torch.empty` gives with NaN, and take away the buffer kept from earlier calls."""
    chunked._kept.__dict__.clear()
    torch.use_deterministic_algorithms(True)
    assert torch.utils.deterministic.fill_uninitialized_memory
    assert torch.empty(3).isnan().all()
    yield
    torch.use_deterministic_algorithms(False)


def make_qkv(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(*shape, dtype=dtype, generator=generator).requires_grad_() for _ in range(3)]


def relative_error(got: Tensor, expected: Tensor, scale: float | None = None) -> float:
    scale = scale or float(expected.detach().abs().max())
    return float((got.detach().double() - expected.detach().double()).abs().max()) / scale


def run_with_gradients(impl: str, qkv: list[Tensor], grad: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
    out = triangular_attention(*qkv, impl=impl)  # type: ignore[arg-type]
    return out, torch.autograd.grad(out, qkv, grad)


def assert_chunked_is_naive(shape: tuple[int, int, int, int], dtype: torch.dtype, seed: int = 0) -> None:
    qkv = make_qkv(*shape, dtype=dtype, seed=seed)
    grad = torch.randn(shape, generator=torch.Generator().manual_seed(seed + 1)).to(dtype)
    expected, expected_grads = run_with_gradients("naive", qkv, grad)
    got, got_grads = run_with_gradients("chunked", qkv, grad)
    assert got.shape == expected.shape
    assert got.dtype == expected.dtype
    assert relative_error(got, expected) < TOLERANCE[dtype]
    # For one token the gradients to q and k are nothing but the rounding of eps/(phi.phi + eps), so the three are
    # measured against the largest of them.
    scale = max(float(g.abs().max()) for g in expected_grads)
    for got_grad, expected_grad in zip(got_grads, expected_grads, strict=True):
        assert relative_error(got_grad, expected_grad, scale) < TOLERANCE[dtype]


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize(
    ("n", "heads"),
    [
        pytest.param(n, heads, marks=[pytest.mark.nightly] if n > 1000 and heads > 2 else [])
        for n in LENGTHS
        for heads in (2, 8)
    ],
)
def test_output_and_gradients_equal_the_definition(n: int, heads: int, dtype: torch.dtype) -> None:
    assert_chunked_is_naive((1 if n > 1000 else 2, heads, n, 12), dtype)


def test_several_blocks_equal_the_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunked, "BLOCK", 128)
    for n in (128, 500, 1000):
        assert_chunked_is_naive((2, 2, n, 8), torch.float64)


@pytest.mark.parametrize("step", [1, 2**13, 2**20])
def test_items_taken_together_or_apart_equal_the_definition(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunked, "STEP", step)
    assert_chunked_is_naive((6, 4, 200, 5), torch.float64)


@settings(max_examples=40, deadline=None)
@given(
    batch=st.integers(1, 3),
    half=st.integers(1, 3),
    n=st.integers(1, 300),
    dim=st.integers(1, 20),
    seed=st.integers(0, 1000),
)
def test_any_shape_equals_the_definition(batch: int, half: int, n: int, dim: int, seed: int) -> None:
    assert_chunked_is_naive((batch, 2 * half, n, dim), torch.float64, seed)


def test_strides_of_the_inputs_do_not_matter() -> None:
    q, k, v = (x.detach() for x in make_qkv(2, 4, 300, 6, dtype=torch.float64))
    packed = torch.cat([k.transpose(1, 2), v.transpose(1, 2)], dim=-1)  # as a split of one tensor gives them
    k_view, v_view = (x.transpose(1, 2) for x in packed.split(6, dim=-1))
    assert torch.equal(triangular_attention(q, k_view, v_view), triangular_attention(q, k, v))


@pytest.mark.parametrize("fast", [True, pytest.param(False, marks=pytest.mark.nightly)])
def test_gradients_pass_gradcheck(fast: bool) -> None:
    qkv = make_qkv(1, 2, 70, 3, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda *x: triangular_attention(*x, impl="chunked"), qkv, fast_mode=fast)


def test_long_sums_keep_their_precision() -> None:
    n = 1_048_576
    q, k, v = (x.detach() for x in make_qkv(1, 2, n, 4))
    v += 1  # a mean that all tokens share, so that errors of the sums cannot average out
    got = triangular_attention(q, k, v)
    assert relative_error(got, triangular_attention(q.double(), k.double(), v.double())) < 1e-4


def test_a_call_in_inference_mode_leaves_nothing_behind() -> None:
    with torch.inference_mode():
        q, k, v = (torch.randn(1, 2, 70, 4) for _ in range(3))
        triangular_attention(q, k, v)
    assert_chunked_is_naive((1, 2, 70, 4), torch.float32)
    with torch.inference_mode():
        assert triangular_attention(q, k, v).isfinite().all()


def test_a_call_in_another_precision_has_a_buffer_of_its_own() -> None:
    q, k, v = (x.detach() for x in make_qkv(1, 4, 300, 8))
    triangular_attention(q, k, v)
    assert_chunked_is_naive((1, 2, 70, 4), torch.float64)


def test_first_half_of_heads_looks_back_and_second_ahead() -> None:
    q, k, v = (x.detach() for x in make_qkv(1, 4, 200, 4))
    before = triangular_attention(q, k, v)
    v[:, :, 120] += 1
    changed = (triangular_attention(q, k, v) != before).any(-1)[0]
    assert not changed[:2, :120].any()
    assert changed[:2, 120:].all()
    assert changed[2:, :121].all()
    assert not changed[2:, 121:].any()


def test_compile_takes_the_operator_whole() -> None:
    torch.use_deterministic_algorithms(False)
    qkv = make_qkv(1, 2, 100, 4)

    def double(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return triangular_attention(q, k, v) * 2

    compiled = torch.compile(double, fullgraph=True, backend="aot_eager")
    grad = torch.ones(1, 2, 100, 4)
    expected = torch.autograd.grad(double(*qkv), qkv, grad)
    assert all(torch.equal(a, b) for a, b in zip(torch.autograd.grad(compiled(*qkv), qkv, grad), expected, strict=True))


def test_export_takes_any_number_of_tokens() -> None:
    class Module(torch.nn.Module):
        def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return triangular_attention(q, k, v)

    qkv = [x.detach() for x in make_qkv(1, 2, 100, 4)]
    n = torch.export.Dim("n", min=1)
    program = torch.export.export(Module(), tuple(qkv), dynamic_shapes=[{2: n}] * 3)
    names = [str(node.target) for node in program.graph.nodes if node.op == "call_function"]
    assert "attcr.triangular_attention.default" in names
    longer = [x.detach() for x in make_qkv(1, 2, 777, 4)]
    assert torch.equal(program.module()(*longer), triangular_attention(*longer))


@pytest.mark.filterwarnings("ignore:.*is not currently")
def test_the_registration_passes_torch_s_own_checks() -> None:
    qkv = make_qkv(2, 2, 70, 4)
    torch.library.opcheck(torch.ops.attcr.triangular_attention.default, tuple(qkv))


@pytest.mark.slow
def test_four_million_tokens_fit_in_8_gib() -> None:
    import resource

    q, k, v = (torch.randn(1, 2, 4_194_304, 48) for _ in range(3))
    out = triangular_attention(q, k, v)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20 < 8
    assert out[:, :, ::4096].isfinite().all()
