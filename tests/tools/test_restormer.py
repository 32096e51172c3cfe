"""The rival against its paper's figures."""

import pytest
import torch
from benchmarks.paper.complexity import measure
from benchmarks.paper.restormer import ChannelAttention, Restormer, RestormerConfig

from attcr.errors import ConfigError, ShapeError


def test_parameters_and_multiply_adds_are_the_paper_s() -> None:
    """The paper's 140.99 G are of the layers; the products come on top: (channels, heads, side, blocks) below."""
    cost = measure(RestormerConfig(), 256, 256)
    levels = ((48, 1, 256, 4), (96, 2, 128, 12), (192, 4, 64, 12), (384, 8, 32, 8), (96, 1, 256, 8))
    products = sum(count * 2 * channels**2 // heads * side**2 for channels, heads, side, count in levels)
    assert round(cost.parameters / 1e6, 1) == 26.1
    assert (cost.multiply_adds - products) / 1e9 == pytest.approx(140.99, abs=0.01)


def test_channels_attend_to_channels_by_the_definition() -> None:
    torch.manual_seed(0)
    module = ChannelAttention(6, heads=2)
    with torch.no_grad():
        module.temperature.copy_(torch.tensor([2.0, 0.5]).view(2, 1, 1))
    q, k, v = (torch.randn(1, 2, 3, 20) for _ in range(3))
    mixed = module.mix(q, k, v)
    for head in range(2):
        for i in range(3):
            cosines = torch.stack([torch.cosine_similarity(q[0, head, i], k[0, head, j], dim=0) for j in range(3)])
            weights = torch.softmax(cosines * module.temperature[head, 0, 0], 0)
            assert torch.allclose(mixed[0, head, i], weights @ v[0, head], atol=1e-6)


SMALL = RestormerConfig(dim=8, blocks=(1, 1, 1, 1), refinement=1, heads=(1, 2, 2, 4))


@pytest.mark.parametrize("size", [(8, 8), (13, 21), (32, 24)])
def test_any_size_comes_out_as_it_went_in(size: tuple[int, int]) -> None:
    torch.manual_seed(0)
    network = Restormer(SMALL).eval()
    x = torch.rand(2, 3, *size)
    with torch.no_grad():
        assert network(x).shape == x.shape
        network.output.weight.zero_()
        assert torch.equal(network(x), x)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"expected \(B, 3, H, W\), H, W >= 8"):
        Restormer(SMALL)(torch.rand(1, 3, 7, 8))
    with pytest.raises(ConfigError, match="need 4 entries"):
        RestormerConfig(blocks=(1, 2))
    with pytest.raises(ConfigError, match="divide each level's channels"):
        RestormerConfig(dim=48, heads=(5, 2, 4, 8))
    with pytest.raises(ConfigError, match="out_channels=4"):
        RestormerConfig(out_channels=4)
    assert RestormerConfig(blocks=[1, 1, 1, 1]).blocks == (1, 1, 1, 1)  # type: ignore[arg-type]
