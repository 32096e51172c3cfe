"""Triangular attention as pure functions of tensors."""

from typing import Literal

from torch import Tensor

from attcr.errors import ConfigError, ShapeError
from attcr.ops.chunked import chunked_triangular_attention
from attcr.ops.depthwise import depthwise_conv
from attcr.ops.linear import linear_attention
from attcr.ops.naive import naive_triangular_attention

__all__ = ["depthwise_conv", "linear_attention", "naive_triangular_attention", "triangular_attention"]


def triangular_attention(
    q: Tensor, k: Tensor, v: Tensor, *, impl: Literal["auto", "naive", "chunked"] = "auto"
) -> Tensor:
    """Linear attention with phi = ELU + 1 where each token sees itself and one side of the sequence.

    q, k, v are (B, heads, N, d) before the feature map, all of one shape and dtype; heads is even. The first half
    of the heads sees what comes before (lower triangle), the second half what comes after (upper triangle). The
    output has the shape and dtype of v and lies in memory as (B, N, heads, d).
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
    if impl == "naive":
        return naive_triangular_attention(q, k, v)
    if impl in ("auto", "chunked"):
        return chunked_triangular_attention(q, k, v)
    raise ConfigError(f"impl={impl!r} is not known; choose 'auto', 'naive' or 'chunked'")
