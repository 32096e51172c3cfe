"""Triangular attention as pure functions of tensors. This file alone chooses which implementation runs.

| name | what |
|---|---|
| naive | the definition: quadratic, masked, obvious |
| plain | chunk by chunk in ordinary tensor operations: easy to read; for export, and for GPUs without Triton |
| chunked | linear time, its own backward, memory reused: the default where there is no kernel |
| kernel | compiled code of the wheel: the default on CPUs with AVX2 or AVX-512; ATTCR_KERNEL=0 turns it off |
| triton | a few launches for any number of tokens: the default on NVIDIA and AMD GPUs |
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from importlib.util import find_spec
from typing import Literal, get_args

import torch
from torch import Tensor

from attcr.errors import ConfigError, ShapeError
from attcr.ops import kernel
from attcr.ops.chunked import chunked_triangular_attention
from attcr.ops.depthwise import CompiledDepthwise, SplitDepthwise, compiled_serves, plain_depthwise_conv
from attcr.ops.naive import linear_attention, naive_triangular_attention
from attcr.ops.plain import plain_triangular_attention

__all__ = [
    "TRITON",
    "Choice",
    "Implementation",
    "chosen",
    "depthwise_conv",
    "linear_attention",
    "naive_triangular_attention",
    "operator_name",
    "triangular_attention",
    "using",
]

Implementation = Literal["naive", "plain", "chunked", "kernel", "triton"]
Choice = Literal["auto", "naive", "plain", "chunked", "kernel", "triton"]

TRITON = find_spec("triton") is not None
"""Whether Triton is installed; it is imported when the first tokens on a GPU arrive."""
MOST_PLAIN = 2**20
"""The most tokens, over all heads, for which "auto" takes the plain operator: it needs about 4 KiB for each."""


def _run_triton(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    from attcr.ops.triton import triton_triangular_attention

    return triton_triangular_attention(q, k, v)


_IMPLEMENTATIONS = {
    "naive": naive_triangular_attention,
    "plain": plain_triangular_attention,
    "chunked": chunked_triangular_attention,
    "kernel": kernel.kernel_triangular_attention,
    "triton": _run_triton,
}
_region: ContextVar[Choice] = ContextVar("attcr_operator", default="auto")


def _region_now() -> Choice:
    return _region.get()


# torch.compile cannot trace a ContextVar. This is torch.compiler.assume_constant_result without its import of the
# whole compiler, which takes longer than the rest of attcr.
_region_now._dynamo_marked_constant = True  # type: ignore[attr-defined]


def triangular_attention(q: Tensor, k: Tensor, v: Tensor, *, impl: Choice = "auto") -> Tensor:
    """Linear attention with phi = ELU + 1 where each token sees itself and one side of the sequence.

    q, k, v are (B, heads, N, d) before the feature map, all of one shape and dtype; heads is even. The first half
    of the heads sees what comes before (lower triangle), the second half what comes after (upper triangle). The
    output has the shape and dtype of v; chunked, kernel and triton lay it out in memory as (B, N, heads, d).

    `impl` names an implementation. "auto" takes the one that `using` set, or else the fastest one here.
    """
    if q.dim() != 4 or q.shape != k.shape or q.shape != v.shape:
        raise ShapeError(
            f"q, k, v came as {tuple(q.shape)}, {tuple(k.shape)}, {tuple(v.shape)}; "
            "expected one shape (B, heads, N, d) for all three"
        )
    if q.dtype != k.dtype or q.dtype != v.dtype or not q.dtype.is_floating_point:
        raise ShapeError(f"q, k, v came as {q.dtype}, {k.dtype}, {v.dtype}; expected one floating dtype for all")
    if q.shape[1] % 2:
        raise ShapeError(f"got {q.shape[1]} heads; triangular attention needs an even number, half for each direction")
    name = chosen(q, impl=impl)
    with _no_autocast(q) if name in ("naive", "plain") else nullcontext():
        return _IMPLEMENTATIONS[name](q, k, v)


def chosen(q: Tensor, *, impl: Choice = "auto") -> Implementation:
    """The implementation that `triangular_attention` would run on tokens like q (B, heads, N, d)."""
    _check(impl)
    name = _region_now() if impl == "auto" else impl
    batch, heads, tokens, dim = q.shape
    if name == "auto":
        # Where the graph is traced for any number of tokens there is none to compare, nor for the kernel to walk.
        return _fastest(q.device, q.dtype, dim, batch * heads * tokens if isinstance(tokens, int) else None)
    if name == "kernel" and not kernel.serves(q):
        if not kernel.LANES:
            raise ConfigError(
                "impl='kernel' needs the compiled operator, which is not installed or cannot run on this processor"
            )
        raise ConfigError(
            f"impl='kernel' got heads of {q.shape[3]} numbers, {q.dtype} on {q.device.type}; it takes "
            f"{', '.join(map(str, kernel.SIZES))} numbers, float32 or bfloat16 on the CPU. Use 'auto' or 'chunked'"
        )
    if name == "triton" and not (TRITON and _triton_takes(q.device, q.dtype, dim)):
        if not TRITON:
            raise ConfigError("impl='triton' needs Triton, which is not installed: pip install triton, or use 'auto'")
        raise ConfigError(
            f"impl='triton' got heads of {q.shape[3]} numbers, {q.dtype} on {q.device.type}; it takes up to 64 "
            "numbers, float32, bfloat16 or float16, on AMD GPUs and on NVIDIA GPUs from sm_80 on. Use 'auto' or 'plain'"
        )
    return name


def _fastest(device: torch.device, dtype: torch.dtype, dim: int, count: int | None) -> Implementation:
    """The implementation that "auto" takes where `using` set none; `count` are the tokens of all heads."""
    if device.type not in ("cuda", "mps"):
        return "kernel" if count is not None and kernel.takes(device, dtype, dim) else "chunked"
    if device.type == "cuda" and TRITON and _triton_takes(device, dtype, dim):
        return "triton"
    return "plain" if count is None or count <= MOST_PLAIN else "chunked"


def _triton_takes(device: torch.device, dtype: torch.dtype, dim: int) -> bool:
    from attcr.ops import triton

    return triton.serves(device, dtype, dim)


_triton_takes._dynamo_marked_constant = True  # type: ignore[attr-defined]  # it asks the driver


def operator_name(device: str, dtype: str) -> Implementation:
    """The implementation for a device ("cpu", "cuda:0") and dtype ("float32", "bfloat16"), to record with a result.

    "kernel" stands for the compiled operator on all heads that it can take and "chunked" on the others; the network
    decides which heads there are. In the same way "triton" stands for Triton and "plain".
    """
    kind = getattr(torch, dtype, None)
    if not isinstance(kind, torch.dtype):
        raise ConfigError(f"dtype is {dtype!r}; expected the name of a torch dtype, such as 'float32' or 'bfloat16'")
    name = _region_now()
    return _fastest(torch.device(device), kind, kernel.SIZES[0], 0) if name == "auto" else name


@contextmanager
def using(impl: Choice) -> Iterator[None]:
    """Inside this block, every call in this thread that leaves the choice to "auto" runs the given implementation.

    "plain" and "naive" put no operator of attcr into a graph, not even for depthwise convolutions:

        with using("plain"):
            program = torch.export.export(network, (image,), dynamic_shapes=...)

    Checkpointed blocks run again in the backward pass: keep that inside too. What torch.compile has compiled keeps
    the implementation it was compiled with.
    """
    _check(impl)
    before = _region.set(impl)
    try:
        yield
    finally:
        _region.reset(before)


def depthwise_conv(x: Tensor, weight: Tensor) -> Tensor:
    """Convolve each channel of (B, C, H, W) with its own odd kernel (C, 1, s, s), zero padded to the same size."""
    trained = x.device.type == "cpu" and torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad)
    if not trained or _region_now() in ("naive", "plain"):
        return plain_depthwise_conv(x, weight)
    served, side = _region_now() != "chunked" and compiled_serves(x, weight), weight.shape[-1]
    if not served and side <= 3:
        return plain_depthwise_conv(x, weight)
    return (CompiledDepthwise if served else SplitDepthwise).apply(x, weight)  # type: ignore[no-any-return, no-untyped-call]


def _check(impl: str) -> None:
    if impl not in get_args(Choice):
        raise ConfigError(f"impl={impl!r} is not known; choose {', '.join(map(repr, get_args(Choice)))}")


def _no_autocast(q: Tensor) -> AbstractContextManager[object]:
    """Keep sums in float32 where autocast would use bfloat16. If it is off, do nothing, so that no graph shows it."""
    kind = q.device.type
    on = torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)
    return torch.autocast(kind, enabled=False) if on else nullcontext()
