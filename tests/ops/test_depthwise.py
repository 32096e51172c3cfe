"""The depthwise convolution against torch's own."""

import pytest
import torch
import torch.nn.functional as F

from attcr import compiled
from attcr.ops import depthwise_conv, using
from attcr.ops.depthwise import compiled_serves, run_compiled

needs_kernel = pytest.mark.skipif(not compiled.DEPTHWISE, reason="attcr was installed without its compiled operators")
WIDTHS = [width for width in (4, 8, 16) if width <= compiled.LANES and (width == 4) == (compiled.LANES == 4)]


@pytest.mark.parametrize("size", [1, 3, 5, 7])
def test_output_and_gradients_equal_torch_s_convolution(size: int) -> None:
    generator = torch.Generator().manual_seed(size)
    x = torch.randn(2, 6, 9, 11, dtype=torch.float64, generator=generator, requires_grad=True)
    weight = torch.randn(6, 1, size, size, dtype=torch.float64, generator=generator, requires_grad=True)
    grad = torch.randn(2, 6, 9, 11, dtype=torch.float64, generator=generator)
    expected = F.conv2d(x, weight, padding=size // 2, groups=6)
    expected_grads = torch.autograd.grad(expected, (x, weight), grad)
    got = depthwise_conv(x, weight)
    for a, b in zip((got, *torch.autograd.grad(got, (x, weight), grad)), (expected, *expected_grads), strict=True):
        assert torch.allclose(a, b, atol=1e-12)


def test_a_frozen_kernel_or_image_gets_no_gradient() -> None:
    x, weight = torch.rand(1, 2, 8, 8, requires_grad=True), torch.rand(2, 1, 5, 5)
    depthwise_conv(x, weight).sum().backward()
    assert x.grad is not None
    assert weight.grad is None


@needs_kernel
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("size", compiled.KERNELS)
@pytest.mark.parametrize("width", WIDTHS)
def test_compiled_gradients_equal_the_definition_s(width: int, size: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(size)
    for shape in ((2, 42, 9, 11), (3, 96, 6, 8), (1, 126, 1, 7), (2, 16, 7, 1)):  # also channels beyond whole vectors
        x, grad = (torch.randn(shape, generator=generator).to(dtype) for _ in range(2))
        weight = torch.randn(shape[1], 1, size, size, generator=generator).to(dtype)
        exact = x.double().requires_grad_(), weight.double().requires_grad_()
        expected = torch.autograd.grad(F.conv2d(*exact, padding=size // 2, groups=shape[1]), exact, grad.double())
        alone = run_compiled(grad, x, weight, width=width, threads=1)
        for got, due in zip(alone, expected, strict=True):
            assert got.dtype == dtype
            assert float((got - due).abs().max() / due.abs().max()) < (1e-6 if dtype == torch.float32 else 5e-3)
        together = run_compiled(grad, x, weight, width=width, threads=3)
        assert all(torch.equal(a, b) for a, b in zip(alone, together, strict=True))


@needs_kernel
def test_the_compiled_gradients_run_where_they_serve() -> None:
    generator = torch.Generator().manual_seed(0)
    for size, channels, served in ((3, 16, True), (5, 16, True), (7, 16, False), (3, 2, False)):
        x = torch.randn(2, channels, 8, 8, generator=generator, requires_grad=True)
        weight = torch.randn(channels, 1, size, size, generator=generator, requires_grad=True)
        assert compiled_serves(x, weight) == served
        out = depthwise_conv(x, weight)
        assert ("Compiled" in type(out.grad_fn).__name__) == served
        with using("chunked"):
            other = depthwise_conv(x, weight)
        assert "Compiled" not in type(other.grad_fn).__name__
        grad = torch.randn(out.shape, generator=generator)
        grads = (torch.autograd.grad(one, (x, weight), grad) for one in (out, other))
        assert all(torch.allclose(a, b, atol=1e-4) for a, b in zip(*grads, strict=True))


@needs_kernel
def test_kernels_that_were_not_compiled_are_told() -> None:
    x, weight = torch.zeros(1, 16, 8, 8), torch.zeros(16, 1, 7, 7)
    with pytest.raises(RuntimeError, match="kernels of 7 on 16 channels were not compiled"):
        run_compiled(x, x, weight, width=compiled.LANES, threads=1)
