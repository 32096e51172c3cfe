"""What keeps a token that hardly sees anything from dividing by 0 is the same in every implementation."""

import math

import pytest
import torch

from attcr.ops import linear_attention, triangular_attention


@pytest.mark.parametrize("impl", ["naive", "chunked"])
@pytest.mark.parametrize("n", [1, 70])
def test_1e_6_is_added_to_the_normaliser(impl: str, n: int) -> None:
    q = torch.full((1, 2, n, 1), -7.0, dtype=torch.float64)  # phi is e^-7: one token sees e^-14, 8e-7, of another
    v = torch.full((1, 2, n, 1), 3.0, dtype=torch.float64)
    out = triangular_attention(q, q, v, impl=impl)  # type: ignore[arg-type]
    seen = torch.arange(1, n + 1, dtype=torch.float64) * math.exp(-14)
    expected = 3 * seen / (seen + 1e-6)
    assert torch.allclose(out[0, 0, :, 0], expected, atol=1e-12, rtol=0)
    assert torch.allclose(out[0, 1, :, 0], expected.flip(0), atol=1e-12, rtol=0)


def test_linear_attention_adds_the_same() -> None:
    q, v = torch.full((1, 2, 5, 1), -7.0, dtype=torch.float64), torch.ones(1, 2, 5, 1, dtype=torch.float64)
    seen = 5 * math.exp(-14)
    expected = torch.full_like(v, seen / (seen + 1e-6))
    assert torch.allclose(linear_attention(q, q, v), expected, atol=1e-12, rtol=0)
