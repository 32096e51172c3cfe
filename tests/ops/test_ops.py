"""What the public operator refuses."""

import pytest
import torch

from attcr.errors import ConfigError, ShapeError
from attcr.ops import linear_attention, naive_triangular_attention, triangular_attention


def test_unlike_shapes_are_refused() -> None:
    with pytest.raises(ShapeError, match="expected one shape"):
        triangular_attention(torch.zeros(1, 2, 4, 3), torch.zeros(1, 2, 5, 3), torch.zeros(1, 2, 4, 3))


def test_an_odd_number_of_heads_is_refused() -> None:
    with pytest.raises(ShapeError, match="even number"):
        triangular_attention(*(torch.zeros(1, 3, 4, 3),) * 3)


def test_mixed_dtypes_are_refused() -> None:
    x = torch.zeros(1, 2, 4, 3)
    with pytest.raises(ShapeError, match="one floating dtype"):
        triangular_attention(x, x.double(), x)


def test_an_unknown_implementation_is_refused() -> None:
    with pytest.raises(ConfigError, match="'auto', 'naive' or 'chunked'"):
        triangular_attention(*(torch.zeros(1, 2, 4, 3),) * 3, impl="fast")  # type: ignore[arg-type]


def test_naive_is_the_formula_of_the_paper() -> None:
    q, k, v = (torch.randn(1, 2, 5, 3, dtype=torch.float64) for _ in range(3))
    phi = lambda x: torch.where(x > 0, x + 1, x.exp())  # noqa: E731
    out = naive_triangular_attention(q, k, v)
    for head, seen in ((0, range(0, 3)), (1, range(2, 5))):  # token 2: itself and before, itself and after
        weights = torch.stack([(phi(q[0, head, 2]) * phi(k[0, head, j])).sum() for j in seen])
        mean = sum(w * v[0, head, j] for w, j in zip(weights, seen, strict=True)) / (weights.sum() + 1e-6)
        assert torch.allclose(out[0, head, 2], mean, atol=1e-12)


def test_linear_attention_is_what_the_last_token_looking_back_sees() -> None:
    q, k, v = (torch.randn(1, 2, 50, 3, dtype=torch.float64) for _ in range(3))
    assert torch.allclose(linear_attention(q, k, v)[:, 0, -1], triangular_attention(q, k, v)[:, 0, -1])
    assert torch.allclose(linear_attention(q, k, v)[:, 1, 0], triangular_attention(q, k, v)[:, 1, 0])
