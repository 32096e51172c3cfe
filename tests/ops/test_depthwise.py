"""The depthwise convolution against torch's own."""

import pytest
import torch
import torch.nn.functional as F

from attcr.ops import depthwise_conv


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
