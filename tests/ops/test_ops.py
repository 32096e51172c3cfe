"""What the public operator refuses, which implementation it chooses, and what all of them share."""

import math
import threading

import pytest
import torch
from test_chunked import make_qkv

from attcr.errors import ConfigError, ShapeError
from attcr.networks.attcr import ATTCR, ATTCRConfig
from attcr.ops import (
    chosen,
    depthwise_conv,
    kernel,
    linear_attention,
    naive_triangular_attention,
    operator_name,
    triangular_attention,
    using,
)

needs_kernel = pytest.mark.skipif(not kernel.LANES, reason="attcr was installed without its compiled operator")
EACH = pytest.mark.parametrize(
    ("impl", "dtype"),
    [
        ("naive", torch.float64),
        ("plain", torch.float64),
        ("plain", torch.float32),
        ("chunked", torch.float64),
        ("chunked", torch.float32),
        pytest.param("kernel", torch.float32, marks=needs_kernel),
    ],
)
TOKENS = 130
"""Two chunks and a bit."""


def test_unlike_shapes_are_refused() -> None:
    with pytest.raises(ShapeError, match="expected one shape"):
        triangular_attention(torch.zeros(1, 2, 4, 3), torch.zeros(1, 2, 5, 3), torch.zeros(1, 2, 4, 3))


@pytest.mark.parametrize("impl", ["auto", "naive", "plain", "chunked", "kernel"])
def test_an_odd_number_of_heads_is_refused(impl: str) -> None:
    with pytest.raises(ShapeError, match="got 3 heads; triangular attention needs an even number"):
        triangular_attention(*(torch.zeros(1, 3, 4, 8),) * 3, impl=impl)  # type: ignore[arg-type]


def test_mixed_dtypes_are_refused() -> None:
    x = torch.zeros(1, 2, 4, 3)
    with pytest.raises(ShapeError, match="one floating dtype"):
        triangular_attention(x, x.double(), x)


def test_an_unknown_implementation_is_refused() -> None:
    with pytest.raises(
        ConfigError, match="'fast' is not known; choose 'auto', 'naive', 'plain', 'chunked', 'kernel', 'triton'"
    ):
        triangular_attention(*(torch.zeros(1, 2, 4, 3),) * 3, impl="fast")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="'fast' is not known"), using("fast"):  # type: ignore[arg-type]
        pass


def test_naive_is_the_formula_of_the_paper() -> None:
    q, k, v = (torch.randn(1, 2, 5, 3, dtype=torch.float64) for _ in range(3))
    phi = lambda x: torch.where(x > 0, x + 1, x.exp())  # noqa: E731
    out = naive_triangular_attention(q, k, v)
    for head, seen in ((0, range(0, 3)), (1, range(2, 5))):  # token 2: itself and before, itself and after
        weights = torch.stack([(phi(q[0, head, 2]) * phi(k[0, head, j])).sum() for j in seen])
        mean = sum(w * v[0, head, j] for w, j in zip(weights, seen, strict=True)) / (weights.sum() + 1e-6)
        assert torch.allclose(out[0, head, 2], mean, atol=1e-12)


def test_linear_attention_is_what_the_last_token_looking_back_sees() -> None:
    q, k, v = (torch.randn(1, 2, 50, 3, dtype=torch.float64) for _ in range(3))
    assert torch.allclose(linear_attention(q, k, v)[:, 0, -1], triangular_attention(q, k, v)[:, 0, -1])
    assert torch.allclose(linear_attention(q, k, v)[:, 1, 0], triangular_attention(q, k, v)[:, 1, 0])


@EACH
def test_first_half_of_heads_averages_what_came_before_and_second_what_comes_after(
    impl: str, dtype: torch.dtype
) -> None:
    """With q = k = 0 all weights are alike: token i of 0, 1, 2, ... gets the mean of what it sees."""
    zeros = torch.zeros(1, 4, TOKENS, 8, dtype=dtype)
    index = torch.arange(TOKENS, dtype=dtype)
    out = triangular_attention(zeros, zeros, zeros + index[:, None], impl=impl)  # type: ignore[arg-type]
    assert torch.allclose(out[0, :2], (index / 2)[:, None], rtol=0, atol=1e-4)
    assert torch.allclose(out[0, 2:], ((index + TOKENS - 1) / 2)[:, None], rtol=0, atol=1e-4)


@EACH
def test_one_millionth_is_added_to_the_normaliser(impl: str, dtype: torch.dtype) -> None:
    """phi(-8) is so small that a token's weight on itself is 9e-7, less than what is added."""
    low = torch.full((1, 2, TOKENS, 8), -8.0, dtype=dtype)
    out = triangular_attention(low, low, torch.ones_like(low), impl=impl)  # type: ignore[arg-type]
    seen = 8 * math.exp(-16) * torch.arange(1, TOKENS + 1, dtype=torch.float64)
    expected = seen / (seen + 1e-6)
    assert 0.47 < expected[0] < 0.48  # 1 without it, 0.08 with 1e-5
    assert torch.allclose(out[0, 0].double(), expected[:, None], rtol=0, atol=2e-6)
    assert torch.allclose(out[0, 1].double(), expected.flip(0)[:, None], rtol=0, atol=2e-6)


@EACH
def test_gradients_know_of_the_millionth(impl: str, dtype: torch.dtype) -> None:
    """With one token out = s v / (s + eps), so d out / d v = s / (s + eps); and q and k have a gradient at all."""
    low = torch.full((1, 2, 1, 8), -8.0, dtype=dtype)
    qkv = [low.clone().requires_grad_(), low.clone().requires_grad_(), torch.ones_like(low).requires_grad_()]
    out = triangular_attention(*qkv, impl=impl)  # type: ignore[arg-type]
    dq, dk, dv = torch.autograd.grad(out[0, 0, 0, 0], qkv)
    seen = 8 * math.exp(-16)
    assert math.isclose(dv[0, 0, 0, 0], seen / (seen + 1e-6), abs_tol=2e-6)
    slope = math.exp(-16) * 1e-6 / (seen + 1e-6) ** 2  # phi is its own derivative below zero
    for got in (dq, dk):
        assert torch.allclose(got[0, 0, 0].double(), torch.full((8,), slope, dtype=torch.float64), rtol=0, atol=2e-6)


def test_auto_is_the_kernel_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = torch.zeros(1, 2, 5, 12)
    for lanes, expected in ((0, "chunked"), (8, "kernel")):
        monkeypatch.setattr(kernel, "LANES", lanes)
        assert chosen(tokens) == expected
        assert operator_name("cpu", "float32") == expected
        assert operator_name("cpu", "bfloat16") == expected
        assert operator_name("cpu", "float16") == "chunked"
        assert chosen(tokens.to("meta")) == "chunked"
        assert chosen(tokens.half()) == "chunked"


def test_a_dtype_that_torch_does_not_know_is_refused() -> None:
    with pytest.raises(ConfigError, match="'bf16'; expected the name of a torch dtype"):
        operator_name("cpu", "bf16")


def test_a_region_decides_for_auto_and_no_longer_than_it_is_open() -> None:
    tokens = torch.zeros(1, 2, 5, 12)
    before = chosen(tokens)
    with using("plain"):
        assert chosen(tokens) == operator_name("cpu", "float32") == operator_name("cuda", "float16") == "plain"
        assert chosen(tokens, impl="naive") == "naive"
        with using("naive"):
            assert chosen(tokens) == "naive"
            with using("auto"):
                assert chosen(tokens) == before
        assert chosen(tokens) == "plain"
    with pytest.raises(RuntimeError, match="on purpose"), using("plain"):
        raise RuntimeError("on purpose")
    assert chosen(tokens) == before


def test_a_region_does_not_reach_other_threads() -> None:
    seen = []
    with using("plain"):
        thread = threading.Thread(target=lambda: seen.append(chosen(torch.zeros(1, 2, 5, 12))))
        thread.start()
        thread.join()
    assert seen == [chosen(torch.zeros(1, 2, 5, 12))] != ["plain"]


@pytest.mark.parametrize("impl", ["naive", "plain", "chunked"])
def test_a_region_runs_what_it_names(impl: str, monkeypatch: pytest.MonkeyPatch) -> None:
    qkv = [x.detach() for x in make_qkv(1, 2, 500, 12)]
    monkeypatch.setattr(kernel, "LANES", 0)
    with using(impl):  # type: ignore[arg-type]
        got = triangular_attention(*qkv)
    results = {name: triangular_attention(*qkv, impl=name) for name in ("naive", "plain", "chunked")}  # type: ignore[arg-type]
    assert [name for name, result in results.items() if torch.equal(got, result)] == [impl]


def test_a_whole_network_runs_in_a_region() -> None:
    torch.manual_seed(0)
    network = ATTCR(ATTCRConfig(dim=8, blocks=(1,) * 5, heads=(2,) * 5))
    image = torch.rand(2, 3, 40, 36)
    results = {}
    for impl in ("naive", "plain", "chunked"):
        with using(impl):  # type: ignore[arg-type]
            out = network(image)
            results[impl] = (out, *torch.autograd.grad(out.square().mean(), list(network.parameters())))
    for impl in ("plain", "chunked"):
        for got, expected in zip(results[impl], results["naive"], strict=True):
            assert torch.allclose(got, expected, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("impl", ["naive", "plain"])
def test_depthwise_convolutions_are_torch_s_own_in_a_region_without_our_operators(impl: str) -> None:
    x, weight = torch.rand(1, 2, 8, 8, requires_grad=True), torch.rand(2, 1, 5, 5, requires_grad=True)
    assert "Depthwise" in str(depthwise_conv(x, weight).grad_fn)
    with using(impl):  # type: ignore[arg-type]
        assert "Convolution" in str(depthwise_conv(x, weight).grad_fn)


@pytest.mark.parametrize("impl", ["naive", "plain", "chunked"])
def test_autocast_does_not_round_the_sums(impl: str) -> None:
    qkv = [x.detach() for x in make_qkv(1, 2, 300, 8)]
    expected = triangular_attention(*qkv, impl=impl)  # type: ignore[arg-type]
    with torch.autocast("cpu", torch.bfloat16):
        got = triangular_attention(*qkv, impl=impl)  # type: ignore[arg-type]
    assert got.dtype == torch.float32
    assert torch.equal(got, expected)
