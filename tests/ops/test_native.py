"""The compiled scan against the definition."""

import os
import shutil
from pathlib import Path

import pytest
import torch
from test_chunked import TOLERANCE, empty_memory_is_nan, make_qkv, relative_error, run_with_gradients
from torch import Tensor

from attcr.errors import ConfigError
from attcr.networks.attcr import ATTCR, ATTCRConfig
from attcr.ops import chosen, native, triangular_attention

__all__ = ["empty_memory_is_nan"]  # a fixture

needs_compiler = pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler here")


@pytest.fixture
def asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "ASKED", True)


@needs_compiler
@pytest.mark.usefixtures("asked_for")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("dim", native.SIZES)
@pytest.mark.parametrize("tokens", [1, 31, 33, 1000])
def test_scan_is_the_definition(dtype: torch.dtype, dim: int, tokens: int) -> None:
    qkv = make_qkv(2, 4, tokens, dim, dtype=dtype)
    assert chosen(qkv[0]) == "native"
    grad = torch.randn(2, 4, tokens, dim, generator=torch.Generator().manual_seed(1)).to(dtype)
    expected, expected_grads = run_with_gradients("naive", qkv, grad)
    got, got_grads = run_with_gradients("auto", qkv, grad)
    assert got.dtype == dtype
    assert relative_error(got, expected) < TOLERANCE[dtype]
    scale = max(float(g.abs().max()) for g in expected_grads)
    for got_grad, expected_grad in zip(got_grads, expected_grads, strict=True):
        assert relative_error(got_grad, expected_grad, scale) < TOLERANCE[dtype]


@needs_compiler
@pytest.mark.usefixtures("asked_for")
def test_far_below_and_above_zero() -> None:
    """The feature map underflows far below zero, and there its gradient is 0."""
    q, k, v = make_qkv(1, 2, 40, 12)
    q, k = ((x * 60).detach().requires_grad_() for x in (q, k))
    grad = torch.ones(1, 2, 40, 12)
    expected, expected_grads = run_with_gradients("naive", [q, k, v], grad)
    got, got_grads = run_with_gradients("auto", [q, k, v], grad)
    assert relative_error(got, expected) < 1e-5
    for got_grad, expected_grad in zip(got_grads, expected_grads, strict=True):
        assert relative_error(got_grad, expected_grad) < 1e-4


@needs_compiler
@pytest.mark.usefixtures("asked_for")
def test_tokens_in_any_layout() -> None:
    """Gradients come expanded from one number, tokens transposed."""
    qkv = [x.detach().mT.contiguous().mT.requires_grad_() for x in make_qkv(2, 2, 50, 12)]
    assert qkv[0].stride(3) != 1
    expected, got = (torch.autograd.grad(triangular_attention(*qkv, impl=i).sum(), qkv) for i in ("naive", "auto"))
    for got_grad, expected_grad in zip(got, expected, strict=True):
        assert relative_error(got_grad, expected_grad, float(expected[2].abs().max())) < 1e-5


@needs_compiler
@pytest.mark.usefixtures("asked_for")
def test_many_tokens_that_are_all_alike() -> None:
    q, k, v = (x.detach()[:, :, :1].expand(1, 2, native.MOST_TOKENS, 12) for x in make_qkv(1, 2, 1, 12))
    assert chosen(q) == "native"
    assert relative_error(triangular_attention(q, k, v), v) < 1e-3


@needs_compiler
@pytest.mark.usefixtures("asked_for")
def test_nan_stays_in_its_item_and_direction() -> None:
    q, k, v = (x.detach() for x in make_qkv(2, 2, 100, 12))
    k[0, 0, 50, 3] = float("nan")
    out = triangular_attention(q, k, v)
    assert out[0, 0, 50:].isnan().all()
    out[0, 0, 50:] = 0
    assert not out.isnan().any()


@needs_compiler
def test_network_is_the_same_with_and_without(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    network = ATTCR(ATTCRConfig(dim=24, blocks=(1, 1, 2, 1, 1)))
    image = torch.rand(2, 3, 40, 36)

    def run() -> tuple[Tensor, list[Tensor]]:
        out = network(image)
        return out, list(torch.autograd.grad(out.square().mean(), list(network.parameters())))

    monkeypatch.setattr(native, "ASKED", False)
    plain, plain_grads = run()
    monkeypatch.setattr(native, "ASKED", True)
    scanned, scanned_grads = run()
    assert not torch.equal(plain, scanned)  # it did run
    assert relative_error(scanned, plain) < 1e-5
    for got, expected in zip(scanned_grads, plain_grads, strict=True):
        assert relative_error(got, expected) < 1e-3


@pytest.mark.parametrize(
    "tokens",
    [
        torch.zeros(1, 2, 5, 12, dtype=torch.float64),
        torch.zeros(1, 2, 5, 20),
        torch.zeros(1, 2, 1, 12).expand(1, 2, native.MOST_TOKENS + 1, 12),
    ],
    ids=["float64", "a head of 20", "a long sequence"],
)
@pytest.mark.usefixtures("asked_for")
def test_others_stay_chunked(tokens: Tensor) -> None:
    assert chosen(tokens) == "chunked"
    with pytest.raises(ConfigError, match="at most 65536 of 8, 12, 16, 24, 32, 48, float32 or bfloat16 on the CPU"):
        chosen(tokens, impl="native")


def test_nothing_is_compiled_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "ASKED", False)
    monkeypatch.setattr(native, "_load", lambda: pytest.fail("it was built"))
    tokens = torch.zeros(1, 2, 5, 12)
    assert chosen(tokens) == "chunked"
    triangular_attention(tokens, tokens, tokens)


@needs_compiler
def test_it_runs_unasked_where_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "ASKED", False)
    qkv = [x.detach() for x in make_qkv(1, 2, 500, 12)]
    got = triangular_attention(*qkv, impl="native")
    assert not torch.equal(got, triangular_attention(*qkv))
    assert relative_error(got, triangular_attention(*qkv, impl="naive")) < 1e-5


@needs_compiler
def test_the_backward_is_the_scan_s_whatever_is_asked_for_by_then(monkeypatch: pytest.MonkeyPatch) -> None:
    qkv, grad = make_qkv(1, 2, 200, 12), torch.ones(1, 2, 200, 12)
    monkeypatch.setattr(native, "ASKED", True)
    expected = torch.autograd.grad(triangular_attention(*qkv), qkv, grad)
    out = triangular_attention(*qkv)
    monkeypatch.setattr(native, "ASKED", False)
    assert all(torch.equal(a, b) for a, b in zip(torch.autograd.grad(out, qkv, grad), expected, strict=True))


@needs_compiler
@pytest.mark.usefixtures("asked_for")
def test_compile_takes_the_scan_whole() -> None:
    torch.use_deterministic_algorithms(False)
    qkv, grad = make_qkv(1, 2, 100, 12), torch.ones(1, 2, 100, 12)

    def double(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return triangular_attention(q, k, v) * 2

    compiled = torch.compile(double, fullgraph=True, backend="aot_eager")
    expected = torch.autograd.grad(double(*qkv), qkv, grad)
    assert torch.equal(compiled(*qkv), double(*qkv))
    assert all(torch.equal(a, b) for a, b in zip(torch.autograd.grad(compiled(*qkv), qkv, grad), expected, strict=True))


@needs_compiler
@pytest.mark.filterwarnings("ignore:.*is not currently")
def test_the_registration_passes_torch_s_own_checks() -> None:
    torch.library.opcheck(torch.ops.attcr.native_triangular_attention.default, tuple(make_qkv(2, 2, 70, 12)))


@pytest.mark.usefixtures("asked_for")
def test_a_graph_for_any_number_of_tokens_has_no_scan() -> None:
    class Module(torch.nn.Module):
        def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return triangular_attention(q, k, v)

    qkv = tuple(x.detach() for x in make_qkv(1, 2, 100, 12))
    program = torch.export.export(Module(), qkv, dynamic_shapes=[{2: torch.export.Dim("n")}] * 3, strict=False)
    assert "attcr.triangular_attention.default" in [str(node.target) for node in program.graph.nodes]


@pytest.mark.parametrize(("compiler", "message"), [("no-such-compiler", "needs a C"), ("false", "the compiler failed")])
def test_a_missing_or_failing_compiler_is_told(
    compiler: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CXX", compiler)
    with pytest.raises(ConfigError, match=message):
        native._build()
    assert not any(name.endswith(".so") for _, _, names in os.walk(tmp_path) for name in names)


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "attcr").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(ConfigError, match="XDG_CACHE_HOME"):
        native._load.__wrapped__()


def test_a_library_that_was_changed_is_built_again_in_a_folder_of_ours_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[list[str]] = []

    def compile_nothing(command: list[str]) -> None:
        built.append(command)
        Path(command[-1]).write_bytes(b"library")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(native, "_run", compile_nothing)
    (tmp_path / "attcr" / "native").mkdir(parents=True, mode=0o777)
    library = native._build()
    assert library.parent.stat().st_mode & 0o777 == 0o700
    assert (native._build(), len(built)) == (library, 2)
    for damage in (b"", b"lib"):
        library.write_bytes(damage)
        assert native._build().read_bytes() == b"library"
    assert len(built) == 6
    library.parent.rename(tmp_path / "elsewhere")
    library.parent.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PermissionError):
        native._build()
