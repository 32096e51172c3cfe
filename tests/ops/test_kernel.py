"""The compiled operator against the definition, and how it comes into the wheel."""

import itertools
import os
import platform
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch
from test_chunked import TOLERANCE, empty_memory_is_nan, make_qkv, relative_error, run_with_gradients
from torch import Tensor
from torch.nn.functional import elu

from attcr.errors import ConfigError
from attcr.networks.attcr import ATTCR, ATTCRConfig
from attcr.ops import chosen, kernel, triangular_attention

__all__ = ["empty_memory_is_nan"]  # a fixture

needs_kernel = pytest.mark.skipif(not kernel.LANES, reason="attcr was installed without its compiled operator")
needs_compiler = pytest.mark.skipif(
    shutil.which("c++") is None or platform.machine() != "x86_64", reason="no C++ compiler for x86_64 here"
)
WIDTHS = [width for width in (4, 8, 16) if width <= kernel.LANES and (width == 4) == (platform.machine() == "aarch64")]


def run(qkv: list[Tensor], grad: Tensor, *, width: int, threads: int) -> list[Tensor]:
    """Give the output and the gradients to q, k and v of the code for one instruction set."""
    q, k, v = (x.detach() for x in qkv)
    out, z = kernel._empty_results(q, k, v)
    kernel._run({"q": q, "k": k, "v": v, "out": out}, z, width=width, threads=threads)
    grads = kernel.empty_grads(grad, q, k, v)
    named = dict(zip(("dq", "dk", "dv"), grads, strict=True))
    kernel._run({"grad": grad, "q": q, "k": k, "v": v, "out": out, **named}, z, width=width, threads=threads)
    return [out, *grads]


@needs_kernel
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("dim", kernel.SIZES)
@pytest.mark.parametrize("tokens", [1, 15, 33, 1000])
def test_every_instruction_set_is_the_definition(dtype: torch.dtype, dim: int, tokens: int) -> None:
    qkv = make_qkv(2, 4, tokens, dim, dtype=dtype)
    assert chosen(qkv[0]) == "kernel"
    grad = torch.randn(2, 4, tokens, dim, generator=torch.Generator().manual_seed(1)).to(dtype)
    expected, expected_grads = run_with_gradients("naive", qkv, grad)
    scale = max(float(g.abs().max()) for g in expected_grads)
    for width in WIDTHS:
        got, *got_grads = run(qkv, grad, width=width, threads=1)
        assert got.dtype == dtype
        assert relative_error(got, expected) < TOLERANCE[dtype]
        for got_grad, expected_grad in zip(got_grads, expected_grads, strict=True):
            assert relative_error(got_grad, expected_grad, scale) < TOLERANCE[dtype]


@needs_kernel
@pytest.mark.parametrize("width", WIDTHS)
def test_more_threads_than_heads_cut_the_sequence(width: int) -> None:
    qkv = make_qkv(1, 2, 9001, 24)
    grad = torch.randn(1, 2, 9001, 24, generator=torch.Generator().manual_seed(1))
    double = [x.detach().double().requires_grad_() for x in qkv]
    out = triangular_attention(*double, impl="chunked")
    expected = [out, *torch.autograd.grad(out, double, grad.double())]
    alone, shared = (run(qkv, grad, width=width, threads=threads) for threads in (2, 7))
    for one, other, right in zip(alone, shared, expected, strict=True):
        assert not torch.equal(one, other)  # it was cut
        assert relative_error(one, right) < 1.5e-6
        assert relative_error(other, right) < 1.5e-6


@needs_kernel
def test_the_output_does_not_depend_on_the_number_of_threads() -> None:
    qkv = [x.detach() for x in make_qkv(1, 2, 9001, 24)]
    before, results = torch.get_num_threads(), []
    try:
        for threads in (1, 7):
            torch.set_num_threads(threads)
            results.append(triangular_attention(*qkv, impl="kernel"))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*results)


@needs_kernel
def test_rounding_does_not_grow_with_the_number_of_tokens() -> None:
    for width in WIDTHS:
        q, k, v = (x.detach()[:, :, :1].expand(1, 2, 2**16, 12).contiguous() for x in make_qkv(1, 2, 1, 12))
        out, z = kernel._empty_results(q, k, v)
        kernel._run({"q": q, "k": k, "v": v, "out": out}, z, width=width, threads=1)
        assert relative_error(out, v) < 1e-6


@needs_kernel
@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_four_million_tokens_are_the_definition(dtype: torch.dtype) -> None:
    """An image of 2048 x 2048: 64 tokens of it, each against the sum of all that it sees in float64; about 2 GiB."""
    torch.use_deterministic_algorithms(False)  # or memory would be filled
    q, k, v = (x.detach() for x in make_qkv(1, 2, 2**22, 12, dtype=dtype))
    out = triangular_attention(q, k, v, impl="kernel")
    places = [0, 1, 2**21, 2**22 - 1, *torch.randint(2**22, (28,), generator=torch.Generator().manual_seed(1)).tolist()]
    largest = float(out.abs().max())
    for head, at in itertools.product((0, 1), places):
        seen = slice(0, at + 1) if head == 0 else slice(at, None)
        query, keys = elu(q[0, head, at].double()) + 1, elu(k[0, head, seen].double()) + 1
        weights = keys @ query
        right = weights @ v[0, head, seen].double() / (weights.sum() + 1e-6)
        wrong, own = float((out[0, head, at] - right).abs().max()), float(right.abs().max())
        assert wrong < (2e-7 * largest if dtype == torch.float32 else 2**-8 * own)
        assert wrong < 4e-7 * own or dtype == torch.bfloat16  # values of many tokens nearly cancel


@needs_kernel
def test_far_below_and_above_zero() -> None:
    """The feature map underflows far below zero, and there its gradient is 0."""
    q, k, v = make_qkv(1, 2, 40, 12)
    q, k = ((x * 60).detach().requires_grad_() for x in (q, k))
    grad = torch.ones(1, 2, 40, 12)
    expected, expected_grads = run_with_gradients("naive", [q, k, v], grad)
    got, got_grads = run_with_gradients("kernel", [q, k, v], grad)
    assert relative_error(got, expected) < 1e-5
    for got_grad, expected_grad in zip(got_grads, expected_grads, strict=True):
        assert relative_error(got_grad, expected_grad) < 1e-4


@needs_kernel
def test_tokens_in_any_layout() -> None:
    """Gradients come expanded from one number, tokens transposed."""
    qkv = [x.detach().mT.contiguous().mT.requires_grad_() for x in make_qkv(2, 2, 50, 12)]
    assert qkv[0].stride(3) != 1
    expected, got = (torch.autograd.grad(triangular_attention(*qkv, impl=i).sum(), qkv) for i in ("naive", "kernel"))
    for got_grad, expected_grad in zip(got, expected, strict=True):
        assert relative_error(got_grad, expected_grad, float(expected[2].abs().max())) < 1e-5


@needs_kernel
def test_nan_stays_in_its_item_and_direction() -> None:
    q, k, v = (x.detach() for x in make_qkv(2, 2, 100, 12))
    k[0, 0, 50, 3] = float("nan")
    out = triangular_attention(q, k, v, impl="kernel")
    assert out[0, 0, 50:].isnan().all()
    out[0, 0, 48:] = 0  # its chunk
    assert not out.isnan().any()


@needs_kernel
def test_network_is_the_same_with_and_without(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    network = ATTCR(ATTCRConfig(dim=24, blocks=(1, 1, 2, 1, 1)))
    image = torch.rand(2, 3, 40, 36)

    def once() -> tuple[Tensor, list[Tensor]]:
        out = network(image)
        return out, list(torch.autograd.grad(out.square().mean(), list(network.parameters())))

    compiled, compiled_grads = once()
    monkeypatch.setattr(kernel, "LANES", 0)
    plain, plain_grads = once()
    assert not torch.equal(plain, compiled)  # it did run
    assert relative_error(compiled, plain) < 1e-5
    for got, expected in zip(compiled_grads, plain_grads, strict=True):
        assert relative_error(got, expected) < 1e-3


@needs_kernel
@pytest.mark.parametrize(
    "tokens", [torch.zeros(1, 2, 5, 12, dtype=torch.float64), torch.zeros(1, 2, 5, 20)], ids=["float64", "a head of 20"]
)
def test_others_stay_chunked(tokens: Tensor) -> None:
    assert chosen(tokens) == "chunked"
    with pytest.raises(ConfigError, match="takes 8, 12, 16, 24, 32, 48 numbers, float32 or bfloat16 on the CPU"):
        chosen(tokens, impl="kernel")


def test_naming_it_where_it_is_not_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "LANES", 0)
    with pytest.raises(ConfigError, match="needs the compiled operator, which is not installed"):
        chosen(torch.zeros(1, 2, 5, 12), impl="kernel")


def test_one_variable_turns_it_off() -> None:
    code = "from attcr.ops import kernel, operator_name; print(kernel.LANES, operator_name('cpu', 'float32'))"
    environment = {**os.environ, "ATTCR_KERNEL": "0"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.split() == ["0", "chunked"]


@needs_kernel
def test_sizes_that_were_not_compiled_are_told() -> None:
    x = torch.zeros(1, 2, 5, 20)
    with pytest.raises(RuntimeError, match="heads of 20 numbers were not compiled"):
        kernel._run({"q": x, "k": x, "v": x, "out": torch.empty_like(x)}, torch.empty(1, 2, 5, 1))


@needs_kernel
def test_compile_takes_the_kernel_whole() -> None:
    torch.use_deterministic_algorithms(False)
    qkv, grad = make_qkv(1, 2, 100, 12), torch.ones(1, 2, 100, 12)

    def double(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return triangular_attention(q, k, v) * 2

    compiled = torch.compile(double, fullgraph=True, backend="aot_eager")
    expected = torch.autograd.grad(double(*qkv), qkv, grad)
    assert torch.equal(compiled(*qkv), double(*qkv))
    assert all(torch.equal(a, b) for a, b in zip(torch.autograd.grad(compiled(*qkv), qkv, grad), expected, strict=True))


@needs_kernel
@pytest.mark.filterwarnings("ignore:.*is not currently")
def test_the_registration_passes_torch_s_own_checks() -> None:
    torch.library.opcheck(torch.ops.attcr.kernel_triangular_attention.default, tuple(make_qkv(2, 2, 70, 12)))


def test_a_graph_for_any_number_of_tokens_has_no_kernel() -> None:
    class Module(torch.nn.Module):
        def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return triangular_attention(q, k, v)

    qkv = tuple(x.detach() for x in make_qkv(1, 2, 100, 12))
    program = torch.export.export(Module(), qkv, dynamic_shapes=[{2: torch.export.Dim("n")}] * 3, strict=False)
    assert "attcr.triangular_attention.default" in [str(node.target) for node in program.graph.nodes]


@needs_compiler
@pytest.mark.nightly
def test_the_wheel_brings_it_and_names_the_platform(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    copy = tmp_path / "copy"
    shutil.copytree(root, copy, ignore=shutil.ignore_patterns(".git", "*.so", "__pycache__", ".mypy_cache", "tests"))
    here = copy / "src/attcr/ops/_kernel.so"
    here.write_bytes(b"in use")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=copy, check=True, capture_output=True)
    subprocess.run(build, cwd=copy, check=True, capture_output=True, env={**os.environ, "ATTCR_KERNEL": "0"})
    assert here.read_bytes() == b"in use", "programs that run from the sources keep their operator"
    for name, has in (("py3-none-manylinux_2_17_x86_64", True), ("py3-none-any", False)):
        with zipfile.ZipFile(next(tmp_path.glob(f"attcr-*-{name}.whl"))) as wheel:
            assert ("attcr/ops/_kernel.so" in wheel.namelist()) == has
            if has:
                wheel.extract("attcr/ops/_kernel.so", tmp_path)
    library = (tmp_path / "attcr/ops/_kernel.so").read_bytes()
    asked = {tuple(map(int, found.split(b"."))) for found in re.findall(rb"GLIBC_([0-9.]+)", library)}
    assert asked
    assert max(asked) <= (2, 17)
    assert b"libstdc++" not in library


@pytest.fixture(scope="module")
def emulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with a program that runs the library of a wheel for AArch64."""
    cross, folder = "aarch64-linux-gnu-g++", tmp_path_factory.mktemp("aarch64")
    if shutil.which(cross) is None or shutil.which("qemu-aarch64") is None:
        pytest.skip("no cross-compiler or emulator: apt-get install g++-aarch64-linux-gnu qemu-user")
    root, copy = Path(__file__).parents[2], folder / "copy"
    shutil.copytree(root, copy, ignore=shutil.ignore_patterns(".git", "*.so", "__pycache__", ".mypy_cache", "tests"))
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=copy, check=True, capture_output=True, env={**os.environ, "CXX": cross})
    with zipfile.ZipFile(next(folder.glob("attcr-*-py3-none-manylinux_2_17_aarch64.whl"))) as wheel:
        library = wheel.read("attcr/ops/_kernel.so")
    asked = {tuple(map(int, found.split(b"."))) for found in re.findall(rb"GLIBC_([0-9.]+)", library)}
    assert max(asked) <= (2, 17)
    (folder / "_kernel.so").write_bytes(library)
    source = Path(__file__).with_name("run_kernel.cpp")
    link = ["-O1", "_kernel.so", "-Wl,-rpath,$ORIGIN", "-o", "run"]
    subprocess.run([cross, str(source), *link], cwd=folder, check=True, capture_output=True)
    return folder


def emulate(numbers: Tensor, folder: Path, *, threads: int) -> Tensor:
    """Give the output and the gradients of q, k, v and grad, stacked, as the code for AArch64 computes them."""
    half = numbers.dtype == torch.bfloat16
    sizes = torch.tensor([*numbers.shape[1:], half, threads, 4], dtype=torch.int64)
    (folder / "in").write_bytes(bytes(sizes.view(torch.uint8)) + bytes(numbers.view(torch.uint8).flatten()))
    command = ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu", "./run", "in", "out"]
    subprocess.run(command, cwd=folder, check=True)
    return torch.frombuffer(bytearray((folder / "out").read_bytes()), dtype=numbers.dtype).view(numbers.shape)


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((1, 2, 1, 8), torch.float32),
        ((2, 4, 63, 12), torch.float32),
        ((1, 2, 1000, 48), torch.float32),
        ((1, 2, 4500, 24), torch.float32),
        ((1, 4, 33, 16), torch.bfloat16),
        ((1, 2, 200, 32), torch.bfloat16),
        ((1, 2, 4500, 12), torch.bfloat16),
    ],
    ids=str,
)
def test_the_code_for_aarch64_is_the_definition(shape: tuple[int, ...], dtype: torch.dtype, emulated: Path) -> None:
    """More tokens than 4,096 are cut into segments by three threads."""
    qkv = make_qkv(*shape, dtype=dtype)
    grad = torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(dtype)
    numbers = torch.stack([*(x.detach() for x in qkv), grad]).contiguous()
    came = emulate(numbers, emulated, threads=3)
    alone = emulate(numbers, emulated, threads=1)
    assert torch.equal(came, alone) == (shape[2] <= 4096)  # it was cut
    double = [x.detach().double().requires_grad_() for x in qkv]
    expected, expected_grads = run_with_gradients("naive" if shape[2] <= 1000 else "chunked", double, grad.double())
    scale = max(float(g.abs().max()) for g in expected_grads)
    tolerance = 2e-6 if dtype == torch.float32 else TOLERANCE[dtype]
    assert relative_error(came[0], expected) < tolerance
    for got, right in zip(came[1:], expected_grads, strict=True):
        assert relative_error(got, right, scale) < tolerance


@needs_compiler
def test_without_a_compiler_the_wheel_is_for_any_platform(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    copy = tmp_path / "copy"
    shutil.copytree(root, copy, ignore=shutil.ignore_patterns(".git", "*.so", "__pycache__", ".mypy_cache", "tests"))
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    environment = {**os.environ, "CXX": "no-such-compiler"}
    done = subprocess.run(build, cwd=copy, check=True, capture_output=True, text=True, env=environment)
    assert [path.name.split("-", 2)[2] for path in tmp_path.glob("*.whl")] == ["py3-none-any.whl"]
    assert "built without its compiled operator" in done.stdout + done.stderr
