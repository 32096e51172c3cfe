"""Depthwise convolution whose backward is as fast as its forward on the CPU."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attcr import compiled

DTYPES = (torch.float32, torch.bfloat16)


def plain_depthwise_conv(x: Tensor, weight: Tensor) -> Tensor:
    """Convolve each channel of (B, C, H, W) with its own odd kernel (C, 1, s, s), zero padded to the same size."""
    return F.conv2d(x, weight, padding=weight.shape[-1] // 2, groups=x.shape[1])


class _Depthwise(torch.autograd.Function):
    """The same; subclasses have a backward of their own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return plain_depthwise_conv(x, weight)


class SplitDepthwise(_Depthwise):
    """For kernels above 3 x 3, where oneDNN's gradient to the weights takes 20 to 60 times as long as for 3 x 3.

    The gradient to the input is the convolution of the gradient with the kernel turned by 180 degrees. The gradient
    to the weights is put together from gradients to 3 x 3 kernels, one for each shift of the image.
    """

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Give the gradients that are wanted, to image and kernel."""
        x, weight = ctx.saved_tensors
        grad, size, channels = grads[0], weight.shape[-1], x.shape[1]
        grad_x = grad_weight = None
        if ctx.needs_input_grad[0]:
            grad_x = F.conv2d(grad, weight.flip(2, 3), padding=size // 2, groups=channels)
        if ctx.needs_input_grad[1]:
            grad_weight = torch.empty_like(weight)
            padded = F.pad(x, (size // 2,) * 4)
            height, width = x.shape[2] + 2, x.shape[3] + 2
            for row in range(0, size - 2, 2):
                for col in range(0, size - 2, 2):
                    corner = padded[:, :, row : row + height, col : col + width]
                    grad_weight[:, :, row : row + 3, col : col + 3] = torch.ops.aten.convolution_backward(
                        grad,
                        corner.contiguous(memory_format=torch.channels_last),
                        weight[:, :, :3, :3].contiguous(),
                        None,
                        (1, 1),
                        (0, 0),
                        (1, 1),
                        False,
                        (0, 0),
                        channels,
                        (False, True, False),
                    )[1]
        return grad_x, grad_weight


def compiled_serves(x: Tensor, weight: Tensor) -> bool:
    """Whether the compiled gradients can take an image and a kernel like these."""
    there = compiled.DEPTHWISE and x.shape[1] >= compiled.LANES and weight.shape[-1] in compiled.KERNELS
    return there and x.device.type == "cpu" and x.dtype in DTYPES and weight.dtype == x.dtype


class CompiledDepthwise(_Depthwise):
    """Both gradients in one walk over the image, channels last; for what `compiled_serves` accepts."""

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Give the gradients that are wanted, to image and kernel."""
        x, weight = ctx.saved_tensors
        dx, dweight = _compiled_grads(grads[0], x, weight)
        wanted = ctx.needs_input_grad
        return dx if wanted[0] else None, dweight if wanted[1] else None


@torch.library.custom_op("attcr::depthwise_grads", mutates_args=())
def _compiled_grads(grad: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Give the gradients to image and kernel; sums are in float32."""
    return run_compiled(grad, x, weight, width=compiled.LANES, threads=torch.get_num_threads())


@_compiled_grads.register_fake
def _empty_grads(grad: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    return torch.empty_like(x, memory_format=torch.channels_last), torch.empty_like(weight)


def run_compiled(grad: Tensor, x: Tensor, weight: Tensor, *, width: int, threads: int) -> tuple[Tensor, Tensor]:
    """The same by vectors of `width` floats."""
    batch, channels, height, columns = x.shape
    size = weight.shape[-1]
    seen = {name: one.contiguous(memory_format=torch.channels_last) for name, one in (("x", x), ("grad", grad))}
    seen["dx"] = torch.empty_like(x, memory_format=torch.channels_last)
    strides = (height * columns * channels, columns * channels, channels)
    kernel = weight.reshape(channels, size * size).T.contiguous().float()
    sums = torch.empty_like(kernel)
    job = compiled.DepthwiseCall(
        **{name: compiled.Strided(one.data_ptr(), *strides) for name, one in seen.items()},
        weight=kernel.data_ptr(),
        dweight=sums.data_ptr(),
        batch=batch,
        height=height,
        width=columns,
        channels=channels,
        size=size,
        bfloat16=x.dtype == torch.bfloat16,
        threads=threads,
    )
    compiled.run_depthwise(job, width)
    return seen["dx"], sums.T.reshape(weight.shape).to(weight.dtype)
