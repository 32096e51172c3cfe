"""ELU linear attention: the paper's ablation, the same product without the triangles."""

from torch import Tensor
from torch.nn.functional import elu

from attcr.ops.naive import EPS


def linear_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Every token attends to every token, as two matmuls; shapes as `triangular_attention`."""
    phi_q, phi_k = elu(q) + 1, elu(k) + 1
    normaliser = phi_q @ phi_k.sum(-2, keepdim=True).transpose(-1, -2) + EPS  # B, h, N, 1
    return phi_q @ (phi_k.transpose(-1, -2) @ v) / normaliser
