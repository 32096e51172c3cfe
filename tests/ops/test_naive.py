"""The definition, by value."""

import math

import pytest
import torch

from attcr.ops.naive import naive_triangular_attention


def test_a_head_looks_back_or_ahead_and_takes_a_weighted_mean() -> None:
    # phi is 1 + 1 = 2, 1 and e^-1 for k = 1, 0, -1; q = 0 weighs by phi(k) alone.
    k = torch.tensor([1.0, 0.0, -1.0], dtype=torch.float64).view(1, 1, 3, 1).repeat(1, 2, 1, 1)
    v = torch.tensor([10.0, 20.0, 30.0], dtype=torch.float64).view(1, 1, 3, 1).repeat(1, 2, 1, 1)
    out = naive_triangular_attention(torch.zeros_like(k), k, v)[0, :, :, 0]
    low = math.exp(-1)
    back = [20 / (2 + 1e-6), 40 / (3 + 1e-6), (40 + 30 * low) / (3 + low + 1e-6)]
    ahead = [(40 + 30 * low) / (3 + low + 1e-6), (20 + 30 * low) / (1 + low + 1e-6), 30 * low / (low + 1e-6)]
    assert out[0].tolist() == pytest.approx(back, abs=1e-12, rel=0)
    assert out[1].tolist() == pytest.approx(ahead, abs=1e-12, rel=0)


def test_half_precision_is_computed_in_float32_and_given_back_as_it_came() -> None:
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, 2, 300, 4, generator=generator).bfloat16() for _ in range(3))
    out = naive_triangular_attention(q, k, v)
    assert out.dtype == torch.bfloat16
    assert torch.equal(out, naive_triangular_attention(q.float(), k.float(), v.float()).bfloat16())
