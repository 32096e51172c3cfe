"""Triangular attention as pure functions of tensors; here alone is chosen which implementation runs.

| name | what |
|---|---|
| naive | the definition: quadratic, masked, obvious |
| plain | chunk by chunk in ordinary tensor operations: the explanation, what is exported, and for GPUs without Triton |
| chunked | linear time, its own backward, memory reused: the default where there is no kernel |
| kernel | compiled code of the wheel: the default on CPUs with AVX2 or AVX-512; ATTCR_KERNEL=0 turns it off |
| triton | a few launches whatever the number of tokens: the default on GPUs of NVIDIA and AMD |
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
from attcr.ops.depthwise import compiled_depthwise_conv, compiled_serves, plain_depthwise_conv, split_depthwise_conv
from attcr.ops.linear import linear_attention
from attcr.ops.naive import naive_triangular_attention
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
"""Whether Triton is installed; it is imported for the first tokens on a GPU."""
MOST_PLAIN = 2**20
"""Tokens of all heads that the plain operator may take unasked: it needs about 4 KiB for each."""


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
    output has the shape and dtype of v; by chunked, kernel and triton it lies in memory as (B, N, heads, d).

    `impl` names an implementation; "auto" leaves it to `using`, and without that to what is fastest here.
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
    if name == "auto":
        return _fastest(q)
    if name == "kernel" and not kernel.serves(q):
        if not kernel.LANES:
            raise ConfigError(
                "impl='kernel' came, and no compiled operator is installed or this processor cannot run it"
            )
        raise ConfigError(
            f"impl='kernel' came with tokens of {q.shape[3]} numbers, {q.dtype} on {q.device.type}; it takes "
            f"{', '.join(map(str, kernel.SIZES))} numbers, float32 or bfloat16 on the CPU. Use 'auto' or 'chunked'"
        )
    if name == "triton" and not _triton_serves(q):
        if not TRITON:
            raise ConfigError("impl='triton' came, and Triton is not installed: pip install triton, or use 'auto'")
        raise ConfigError(
            f"impl='triton' came with tokens of {q.shape[3]} numbers, {q.dtype} on {q.device.type}; it takes up to 64 "
            "numbers, float32, bfloat16 or float16 on GPUs of AMD and, from sm_80 on, NVIDIA. Use 'auto' or 'plain'"
        )
    return name


def _fastest(q: Tensor) -> Implementation:
    """What is chosen where nothing is named."""
    if q.device.type not in ("cuda", "mps"):
        return "kernel" if kernel.serves(q) else "chunked"
    if q.device.type == "cuda" and _triton_serves(q):
        return "triton"
    batch, heads, tokens, _ = q.shape
    free = not isinstance(tokens, int)  # in a graph for any number of them, where none can be compared
    return "plain" if free or batch * heads * tokens <= MOST_PLAIN else "chunked"


def _triton_serves(q: Tensor) -> bool:
    return TRITON and _triton_takes(q.device, q.dtype, q.shape[3])


def _triton_takes(device: torch.device, dtype: torch.dtype, dim: int) -> bool:
    from attcr.ops import triton

    return triton.serves(device, dtype, dim)


_triton_takes._dynamo_marked_constant = True  # type: ignore[attr-defined]  # it asks the driver


def operator_name(device: str, dtype: str) -> Implementation:
    """The implementation for a device ("cpu", "cuda:0") and dtype ("float32", "bfloat16"), to be kept with a result.

    "kernel" means the compiled operator for all heads that it serves and "chunked" for the others, which is settled
    by the network; so does "triton", with "plain" for the others.
    """
    kind = getattr(torch, dtype, None)
    if not isinstance(kind, torch.dtype):
        raise ConfigError(f"dtype came as {dtype!r}; expected torch's name of one, as 'float32' or 'bfloat16'")
    name = _region_now()
    if name != "auto":
        return name
    where = torch.device(device)
    if where.type == "cpu":
        return "kernel" if kernel.LANES and kind in kernel.DTYPES else "chunked"
    if where.type == "cuda" and TRITON and _triton_takes(where, kind, 1):
        return "triton"
    return "plain" if where.type in ("cuda", "mps") else "chunked"


@contextmanager
def using(impl: Choice) -> Iterator[None]:
    """Let every call in this thread that leaves the choice to "auto" run one implementation, as long as this is open.

    "plain" and "naive" leave no operator of attcr in the graph, depthwise convolutions included:

        with using("plain"):
            program = torch.export.export(network, (image,), dynamic_shapes=...)

    Checkpointed blocks run again in the backward: keep that inside too. What torch.compile made keeps the choice it
    was made with.
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
    if _region_now() != "chunked" and compiled_serves(x, weight):
        return compiled_depthwise_conv(x, weight)
    side = weight.shape[-1]
    return split_depthwise_conv(x, weight) if side > 3 else plain_depthwise_conv(x, weight)


def _check(impl: str) -> None:
    if impl not in get_args(Choice):
        raise ConfigError(f"impl={impl!r} is not known; choose {', '.join(map(repr, get_args(Choice)))}")


def _no_autocast(q: Tensor) -> AbstractContextManager[object]:
    """Keep sums in float32 that autocast would make in bfloat16; nothing where it is off, so that no graph shows it."""
    kind = q.device.type
    on = torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)
    return torch.autocast(kind, enabled=False) if on else nullcontext()
