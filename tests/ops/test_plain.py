"""The operator in ordinary tensor operations against the definition, and exported."""

import pytest
import torch
from test_chunked import TOLERANCE, make_qkv, relative_error, run_with_gradients
from torch import Tensor

from attcr.networks.attcr import ATTCR, ATTCRConfig
from attcr.ops import triangular_attention, using
from attcr.ops.plain import CHUNK


def assert_plain_is_naive(qkv: list[Tensor], tolerance: float) -> None:
    """Compare with the definition in float64 on the same numbers."""
    grad = torch.randn(qkv[0].shape, generator=torch.Generator().manual_seed(1)).to(qkv[0].dtype)
    exact = [x.detach().double().requires_grad_() for x in qkv]
    expected, expected_grads = run_with_gradients("naive", exact, grad.double())
    got, got_grads = run_with_gradients("plain", qkv, grad)
    assert got.shape == expected.shape
    assert got.dtype == qkv[0].dtype
    assert relative_error(got, expected) < tolerance
    scale = max(float(g.abs().max()) for g in expected_grads)
    for got_grad, expected_grad in zip(got_grads, expected_grads, strict=True):
        assert got_grad.dtype == qkv[0].dtype
        assert relative_error(got_grad, expected_grad, scale) < tolerance


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("dim", [8, 12, 24, 48])
@pytest.mark.parametrize("n", [1, 63, 64, 65, 1000])
def test_output_and_gradients_equal_the_definition(n: int, dim: int, dtype: torch.dtype) -> None:
    tolerance = {torch.float64: 1e-12, torch.float32: 2e-6, torch.bfloat16: 1e-2}[dtype]
    assert_plain_is_naive(make_qkv(2, 4, n, dim, dtype=dtype), tolerance)


def test_nothing_is_lost_far_below_zero() -> None:
    """phi(-15) = 3e-7 is what float32 can no longer add to 1."""
    q, k, v = make_qkv(1, 2, 100, 8)
    assert_plain_is_naive([(q - 15).detach().requires_grad_(), (k - 15).detach().requires_grad_(), v], 2e-6)


def test_the_slope_at_zero_is_one() -> None:
    zeros = torch.zeros(1, 2, 3, 8)
    qkv = [zeros.clone().requires_grad_(), zeros.clone().requires_grad_(), make_qkv(1, 2, 3, 8)[2]]
    expected = run_with_gradients("naive", qkv, torch.ones(1, 2, 3, 8))[1]
    got = run_with_gradients("plain", qkv, torch.ones(1, 2, 3, 8))[1]
    assert expected[1].abs().max() > 0.1
    for got_grad, expected_grad in zip(got, expected, strict=True):
        assert torch.allclose(got_grad, expected_grad, rtol=0, atol=1e-6)


@pytest.mark.parametrize("fast", [True, pytest.param(False, marks=pytest.mark.nightly)])
def test_gradients_pass_gradcheck(fast: bool) -> None:
    qkv = make_qkv(1, 2, CHUNK + 6, 3, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda *x: triangular_attention(*x, impl="plain"), qkv, fast_mode=fast)


def test_long_sums_keep_their_precision() -> None:
    q, k, v = (x.detach() for x in make_qkv(1, 2, 65_536, 4))
    v += 1
    expected = triangular_attention(q.double(), k.double(), v.double(), impl="chunked")
    assert relative_error(triangular_attention(q, k, v, impl="plain"), expected) < 1e-6


def operators(program: torch.export.ExportedProgram) -> set[str]:
    return {str(node.target) for module in program.graph_module.modules() for node in module.graph.nodes}


@pytest.mark.parametrize("strict", [False, True])
def test_export_takes_any_number_of_tokens(strict: bool) -> None:
    class Module(torch.nn.Module):
        def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return triangular_attention(q, k, v, impl="plain")

    qkv = tuple(x.detach() for x in make_qkv(2, 4, 100, 8))
    free = {0: torch.export.Dim.DYNAMIC, 2: torch.export.Dim.DYNAMIC}
    program = torch.export.export(Module(), qkv, dynamic_shapes=[free] * 3, strict=strict)
    assert not any("attcr" in name for name in operators(program))
    for batch, n in ((1, 1), (2, 63), (1, 64), (3, 65), (1, 1000)):
        others = [x.detach() for x in make_qkv(batch, 4, n, 8)]
        assert relative_error(program.module()(*others), triangular_attention(*others, impl="naive")) < 1e-6


@pytest.mark.nightly
def test_a_network_is_exported_for_any_size_with_no_operator_of_ours() -> None:
    """Any multiple of 4: to these the network pads. With gradients on, where the 5 x 5 kernel would be ours."""
    torch.manual_seed(0)
    scales = ((3, 5), (1,), (3,), (1,), (1,))  # few: the tracing takes seconds for each
    network = ATTCR(ATTCRConfig(dim=8, blocks=(1,) * 5, heads=(2,) * 5, scales=scales)).eval()
    batch, height, width = (torch.export.Dim(name, min=least) for name, least in (("b", 1), ("h", 2), ("w", 2)))
    with using("plain"):
        program = torch.export.export(
            network, (torch.rand(2, 3, 48, 80),), dynamic_shapes=({0: batch, 2: 4 * height, 3: 4 * width},)
        )
    names = operators(program)
    assert "aten.cumsum.default" in names
    assert not any("attcr" in name or "autograd" in name for name in names)
    for count, *size in ((1, 16, 24), (3, 40, 56), (2, 64, 64), (1, 100, 36), (1, 8, 8), (1, 32, 128)):
        image = torch.rand(count, 3, *size)
        with torch.no_grad():
            assert (program.module()(image) - network(image)).abs().max() < 1e-5


def test_compile_takes_what_the_region_names() -> None:
    qkv = [x.detach() for x in make_qkv(1, 2, 100, 8)]
    graphs = []

    def keep(graph: torch.fx.GraphModule, _: object) -> torch.fx.GraphModule:
        graphs.append(graph)
        return graph

    with using("plain"):
        got = torch.compile(lambda q, k, v: triangular_attention(q, k, v), fullgraph=True, backend=keep)(*qkv)
    assert torch.equal(got, triangular_attention(*qkv, impl="plain"))
    assert not any("attcr" in str(node.target) for node in graphs[0].graph.nodes)
