"""Triangular attention by its definition: quadratic, masked, obvious; and the same without the triangles."""

import torch
from torch import Tensor
from torch.nn.functional import elu

EPS = 1e-6
"""Added to the normaliser, as the authors' code does."""


def naive_triangular_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Equation (tri_attn) of the paper with an N x N matrix per head; shapes as `triangular_attention`."""
    heads, n = q.shape[1], q.shape[2]
    wide = torch.promote_types(q.dtype, torch.float32)
    phi_q, phi_k = elu(q.to(wide)) + 1, elu(k.to(wide)) + 1
    ones = torch.ones(n, n, dtype=wide, device=q.device)
    masks = torch.stack([ones.tril() if head < heads // 2 else ones.triu() for head in range(heads)])
    weights = phi_q @ phi_k.transpose(-1, -2) * masks  # B, h, N, N
    return (weights @ v.to(wide) / (weights.sum(-1, keepdim=True) + EPS)).to(v.dtype)


def linear_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """ELU linear attention, the paper's ablation: every token attends to every token, as two matmuls."""
    phi_q, phi_k = elu(q) + 1, elu(k) + 1
    normaliser = phi_q @ phi_k.sum(-2, keepdim=True).transpose(-1, -2) + EPS  # B, h, N, 1
    return phi_q @ (phi_k.transpose(-1, -2) @ v) / normaliser
