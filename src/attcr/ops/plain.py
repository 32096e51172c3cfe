"""Triangular attention chunk by chunk in ordinary tensor operations: linear in time, differentiable, exportable.

A token's result is the sum of (phi(q) . phi(k_j)) v_j over the tokens j that it sees, and a sum may be cut in two.
What lies in the token's own chunk is summed by the definition, with a small triangle in place of the large one. What
lies in earlier chunks is summed before q comes in, as phi(q) (sum_j phi(k_j)^T v_j): each chunk has one such state of
d x d numbers, and the running sum of the states serves all tokens of the next chunk. The normaliser is the same sum
with v = 1, so v gets a column of ones and each product gives both.

chunked.py does the same block by block, with its memory reused and its own backward. Here all chunks are in memory
at once, with CHUNK weights for each token and head.
"""

# B batch, h heads, N tokens, d head dim, M chunks, c = CHUNK

import torch
import torch.nn.functional as F
from torch import Tensor

from attcr.ops.naive import EPS

CHUNK = 64


def plain_triangular_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Linear in time and memory, on any device, with torch's operators alone; shapes as `triangular_attention`."""
    n, dim = q.shape[2:]
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    phi_q, phi_k = _chunks(_phi(q.to(wide))), _chunks(_phi(k.to(wide)))  # B, h, M, c, d
    values = _chunks(F.pad(v.to(wide), (0, 1), value=1.0))  # B, h, M, c, d+1

    own = (phi_q @ phi_k.mT).tril() @ values
    states = phi_k.mT @ values  # B, h, M, d, d+1
    earlier = states.roll(1, 2).cumsum(2)  # the last chunk is empty: rolled to the front, it is what the first sees
    result = _turn((own + phi_q @ earlier).flatten(2, 3)[:, :, :n])  # B, h, N, d+1
    return (result[..., :dim] / (result[..., dim:] + EPS)).to(v.dtype)


def _phi(x: Tensor) -> Tensor:
    """ELU + 1, written so that values far below zero keep their precision."""
    return F.relu(x) + x.clamp(max=0).exp()


def _turn(x: Tensor) -> Tensor:
    """Reverse the tokens of the heads that look ahead, so that all look back; a second turn undoes the first."""
    back, ahead = x.chunk(2, dim=1)
    return torch.cat([back, ahead.flip(2)], dim=1)


def _chunks(x: Tensor) -> Tensor:
    """Cut turned (B, h, N, j) into (B, h, M, c, j), filled up with zeros to one chunk more than needed.

    Zeros add nothing to the sums. The extra chunk is also for torch.export: with it M is never 1, and there is always
    something to fill up. A graph for any size would otherwise need branches for these cases.
    """
    n = x.shape[2]
    count = (n + CHUNK - 1) // CHUNK + 1
    chunks: Tensor = F.pad(_turn(x), (0, 0, 0, count * CHUNK - n)).unflatten(2, (count, CHUNK))
    return chunks
