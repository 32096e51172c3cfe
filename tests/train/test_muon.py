"""Muon: what it does to matrices, and that all else is AdamW's."""

import pytest
import torch
from torch import nn

from attcr.train.muon import Muon, orthogonal

SETTINGS = {"lr": 0.01, "betas": (0.9, 0.999), "weight_decay": 0.1}


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3, groups=8), nn.Flatten(), nn.Linear(8, 2))


@pytest.mark.parametrize("shape", [(4, 30), (30, 4), (9, 9)])
def test_a_step_has_the_directions_of_the_gradient_and_singular_values_near_one(shape: tuple[int, int]) -> None:
    torch.manual_seed(0)
    matrix = torch.randn(shape)
    u, before, v = torch.linalg.svd(matrix, full_matrices=False)
    assert before.max() / before.min() > 1.5
    after = u.T @ orthogonal(matrix) @ v.T
    assert ((after.diagonal() > 0.6) & (after.diagonal() < 1.25)).all()
    assert (after - after.diagonal().diag()).abs().max() < 1e-4


def test_a_matrix_moves_by_the_orthogonal_step_at_the_size_of_adamw() -> None:
    p = nn.Parameter(torch.eye(4, 16))
    optimizer = Muon([p], **SETTINGS)  # type: ignore[arg-type]
    gradients = [torch.randn(4, 16), torch.randn(4, 16)]
    expected, momentum = p.detach().clone(), torch.zeros(4, 16)
    for gradient in gradients:
        momentum = 0.95 * momentum + gradient
        expected = expected * (1 - 0.01 * 0.1) - 0.01 * 0.2 * 4 * orthogonal(gradient + 0.95 * momentum)
        p.grad = gradient.clone()
        optimizer.step()
    assert torch.allclose(p, expected, atol=1e-6)


def test_kernels_that_mix_channels_are_matrices_and_all_else_is_adamw() -> None:
    ours, theirs = network(), network()
    optimizers = (Muon(ours.parameters(), **SETTINGS), torch.optim.AdamW(theirs.parameters(), **SETTINGS))  # type: ignore[arg-type]
    image = torch.rand(1, 3, 5, 5)
    for net, optimizer in zip((ours, theirs), optimizers, strict=True):
        net(image).square().sum().backward()
        optimizer.step()
    pairs = zip(ours.named_parameters(), theirs.named_parameters(), strict=True)
    same = {name for (name, a), (_, b) in pairs if torch.equal(a, b)}
    assert same == {"0.bias", "1.weight", "1.bias", "3.bias"}


def test_a_resumed_run_goes_on_exactly() -> None:
    image = torch.rand(1, 3, 5, 5)

    def train(net: nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> None:
        for _ in range(steps):
            optimizer.zero_grad()
            net(image).square().sum().backward()
            optimizer.step()

    whole, half, rest = network(), network(), network()
    train(whole, Muon(whole.parameters(), **SETTINGS), 4)  # type: ignore[arg-type]
    first = Muon(half.parameters(), **SETTINGS)  # type: ignore[arg-type]
    train(half, first, 2)
    second = Muon(rest.parameters(), **SETTINGS)  # type: ignore[arg-type]
    rest.load_state_dict(half.state_dict())
    second.load_state_dict(first.state_dict())
    train(rest, second, 2)
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), rest.parameters(), strict=True))
