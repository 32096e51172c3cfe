"""Muon: a step of momentum along each matrix, made orthogonal, so that all its directions learn at one pace.

After Jordan and others (2024), at the scale of AdamW's steps (Liu and others, 2025): one learning rate serves both.
torch's own Muon takes no convolutions and computes in bfloat16, which is slow on processors without it.
"""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

MOMENTUM = 0.95
ROUNDS = 5
"""Newton-Schulz steps, enough to bring the singular values near 1."""
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
RMS = 0.2
"""The root mean square of AdamW's steps, in learning rates."""


class Muon(torch.optim.AdamW):
    """Muon for matrices, kernels of convolutions among them; AdamW for all else: biases, norms, depthwise kernels."""

    def __init__(self, params: Iterable[Tensor], *, lr: float, betas: tuple[float, float], weight_decay: float) -> None:
        """Sort the parameters into matrices and others."""
        params = list(params)
        groups = [
            {"params": [p for p in params if _is_matrix(p) == matrix], "matrices": matrix} for matrix in (True, False)
        ]
        super().__init__([group for group in groups if group["params"]], lr=lr, betas=betas, weight_decay=weight_decay)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Move the matrices by Muon, then the others by AdamW, which leaves out what has no gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"] if group["matrices"] else ():
                if p.grad is None:
                    continue
                if not self.state[p]:
                    self.state[p].update(step=torch.zeros(()), momentum=torch.zeros_like(p))  # AdamW reads `step`
                momentum = self.state[p]["momentum"]
                momentum.mul_(MOMENTUM).add_(p.grad)
                step = orthogonal(p.grad.add(momentum, alpha=MOMENTUM).flatten(1))
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(step.view_as(p), alpha=-group["lr"] * RMS * max(step.shape) ** 0.5)
                p.grad = None
        super().step()
        return loss


def _is_matrix(p: Tensor) -> bool:
    """Whether rows mix channels: (out, in), or (out, in, height, width) of a convolution that is not depthwise."""
    return p.ndim in (2, 4) and p.shape[1] > 1


def orthogonal(matrix: Tensor) -> Tensor:
    """Bring the singular values of a matrix near 1 (0.7 to 1.2) and leave its directions."""
    wide = matrix.T if matrix.shape[0] > matrix.shape[1] else matrix
    x: Tensor = wide / (wide.norm() + 1e-7)
    a, b, c = COEFFICIENTS
    for _ in range(ROUNDS):
        square = x @ x.T
        x = a * x + (b * square + c * square @ square) @ x
    return x.T if matrix.shape[0] > matrix.shape[1] else x
