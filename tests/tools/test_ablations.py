"""Each replacement does what its paper's formula says, costs what ATT-CR's table says, and stays out of its weights."""

from math import exp, log, log2, prod
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from benchmarks.paper.ablations import Ablation, AblationConfig, Kind, Replacement
from benchmarks.paper.complexity import measure
from torch import Tensor

from attcr.bands.spec import RICE2
from attcr.errors import ConfigError
from attcr.networks import build_network
from attcr.networks.attcr import ATTCR, ATTCRConfig, Attention
from attcr.weights import load_model, read_header, save_model

KINDS = get_args(Kind)
TINY: dict[str, Any] = {"dim": 8, "blocks": (1, 2, 1, 1, 1), "heads": (2, 2, 4, 2, 2)}


def attention(kind: Kind, *, stage: int = 1, block: int = 0) -> Replacement:
    torch.manual_seed(0)
    model = build_network(AblationConfig(**TINY, replacement=kind))
    found = model.stages[stage][block].attention  # type: ignore[index]
    assert isinstance(found, Replacement)
    return found.double()


def maps(module: Attention, height: int, width: int) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(1)
    q, k, v = torch.randn(3, 2, module.out.in_channels, height, width, dtype=torch.float64)
    return q, k, v


def rows(x: Tensor, heads: int) -> Tensor:
    """(B, C, H, W) as (B, h, N, d)."""
    return x.flatten(2).unflatten(1, (heads, -1)).transpose(2, 3)


def by_weights(weights: Tensor, values: Tensor, heads: int) -> Tensor:
    """Every pixel the sum of all pixels' values by the weights (B, h, N, N)."""
    return (weights @ rows(values, heads)).transpose(2, 3).reshape(values.shape)


@pytest.mark.parametrize(
    ("kind", "parameters", "multiply_adds"),
    [
        ("mdta", 6.91, 56.31),
        ("efficient", 6.91, 56.31),
        ("focused-taylor", 6.91, 56.35),
        ("swin", 6.97, 58.65),
        ("linear-sra", 7.60, 46.27),
    ],
)
def test_the_cost_is_that_of_the_paper_s_table(kind: Kind, parameters: float, multiply_adds: float) -> None:
    cost = measure(AblationConfig(replacement=kind), 256, 256)
    assert round(cost.parameters / 1e6, 2) == parameters
    assert round(cost.multiply_adds_paper / 1e9, 2) == multiply_adds
    assert cost.multiply_adds == cost.multiply_adds_paper  # nothing of these is hidden from the counter


def test_elu_linear_attention_costs_what_the_table_says() -> None:
    cost = measure(ATTCRConfig(attention="linear"), 256, 256)
    assert round(cost.multiply_adds_paper / 1e9, 2) == round(cost.multiply_adds / 1e9, 2) == 56.35


@pytest.mark.parametrize("kind", KINDS)
def test_the_stated_products_are_what_fvcore_counts(kind: Kind) -> None:
    fvcore = pytest.importorskip("fvcore.nn")
    module = attention(kind).float()
    x = torch.rand(1, module.out.in_channels, 20, 12)
    counter = fvcore.FlopCountAnalysis(module, x)
    counter.unsupported_ops_warnings(False).uncalled_modules_warnings(False)

    def attend(inputs: list[Any], outputs: list[Any]) -> int:  # fvcore does not know this operator of torch
        query, keys = (value.type().sizes() for value in inputs[:2])
        return int(2 * prod(query) * keys[-2])

    counter.set_op_handle("aten::scaled_dot_product_attention", attend)
    by_operator = counter.by_operator()
    counted = by_operator["matmul"] + by_operator["scaled_dot_product_attention"] + by_operator["bmm"]
    assert counted == module.products(20, 12) > 0


def test_efficient_attention_is_the_product_of_two_softmaxes() -> None:
    module = attention("efficient")
    q, k, v = maps(module, 5, 6)
    weights = rows(q, 2).softmax(-1) @ rows(k, 2).softmax(-2).transpose(2, 3)
    torch.testing.assert_close(module.mix(q, k, v), by_weights(weights, v, 2))


def test_focused_taylor_weighs_each_pixel_by_one_plus_the_focused_similarity() -> None:
    module = attention("focused-taylor")
    q, k, v = maps(module, 5, 6)

    def focus(x: Tensor) -> Tensor:
        powers = (x.clamp(min=0) + 1e-6) ** 2
        return powers / powers.square().sum(1, keepdim=True).sqrt()

    weights = 1 + rows(focus(q), 2) @ rows(focus(k), 2).transpose(2, 3) / 8**0.5  # d = 16 channels / 2 heads
    torch.testing.assert_close(module.mix(q, k, v), by_weights(weights / weights.sum(-1, keepdim=True), v, 2))


def test_mdta_lets_channels_attend_to_channels() -> None:
    module = attention("mdta")
    assert isinstance(module.temperature, torch.nn.Parameter)
    module.temperature.data = torch.tensor([0.5, 3.0], dtype=torch.float64).view(2, 1, 1)
    q, k, v = maps(module, 5, 6)
    expected = torch.empty_like(v)
    for head, temperature in enumerate((0.5, 3.0)):
        channels = range(8 * head, 8 * head + 8)
        for c in channels:
            similar = torch.stack(
                [
                    torch.nn.functional.cosine_similarity(q[:, c].flatten(1), k[:, other].flatten(1))
                    for other in channels
                ]
            )
            weights = (temperature * similar).softmax(0)
            expected[:, c] = sum(w[:, None, None] * v[:, other] for w, other in zip(weights, channels, strict=True))
    torch.testing.assert_close(module.mix(q, k, v), expected)


def test_linear_sra_attends_to_forty_nine_tokens_of_the_pooled_image() -> None:
    module = attention("linear-sra")
    q, k, v = maps(module, 7, 7)
    weights = (rows(q, 2) @ rows(k, 2).transpose(2, 3) / 8**0.5).softmax(-1)
    torch.testing.assert_close(module.mix(q, k, v), by_weights(weights, v, 2))

    x = torch.randn(1, module.out.in_channels, 21, 14, dtype=torch.float64)
    pooled = x.unflatten(3, (7, 2)).unflatten(2, (7, 3)).mean((3, 5))
    keys, values = module.keys_values(x, 0)
    assert keys.shape == values.shape == (1, module.out.in_channels, 7, 7)
    again = module.keys_values(pooled, 0)  # pooling 7 x 7 to 7 x 7 changes nothing
    torch.testing.assert_close(keys, again[0])
    torch.testing.assert_close(values, again[1])


@pytest.mark.parametrize("block", [0, 1])
@pytest.mark.parametrize("size", [(16, 16), (13, 22), (6, 30)])
def test_swin_attends_inside_its_windows_only(block: int, size: tuple[int, int]) -> None:
    module = attention("swin", block=block)
    q, k, v = maps(module, *size)
    shift = 4 if block and min(size) > 8 else 0
    place = torch.cartesian_prod(torch.arange(size[0]), torch.arange(size[1]))
    window = (place - shift).div(8, rounding_mode="floor")
    together = (window[:, None] == window[None]).all(-1)

    def steps(d: int) -> float:
        return (1 if d > 0 else -1) * log2(1 + abs(d) * 8 / 7) / log2(8)

    offsets = torch.tensor([[steps(d) for d in range(-7, 8)]], dtype=torch.float64)[0]
    difference = (place[:, None] - place[None]).clamp(-7, 7) + 7
    bias = 16 * module.position(offsets[difference]).sigmoid().permute(2, 0, 1)  # type: ignore[operator]
    unit_q, unit_k = (rows(x, 2) / rows(x, 2).norm(dim=-1, keepdim=True) for x in (q, k))
    similarity = exp(log(10)) * unit_q @ unit_k.transpose(2, 3) + bias
    weights = similarity.masked_fill(~together, -torch.inf).softmax(-1)
    torch.testing.assert_close(module.mix(q, k, v), by_weights(weights, v, 2))


@pytest.mark.parametrize("kind", KINDS)
def test_a_network_of_each_kind_takes_awkward_sizes_and_teaches_every_parameter(kind: Kind) -> None:
    torch.manual_seed(0)
    model = build_network(AblationConfig(**TINY, replacement=kind))
    image = torch.rand(1, 3, 37, 52)
    restored = model(image)
    assert restored.shape == image.shape
    (restored * torch.randn_like(restored)).sum().backward()
    still = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().max() > 0]
    assert not still


@pytest.mark.parametrize("kind", KINDS)
def test_common_layers_begin_with_the_same_numbers(kind: Kind) -> None:
    torch.manual_seed(3)
    plain = ATTCR(ATTCRConfig(**TINY)).state_dict()
    torch.manual_seed(3)
    other = build_network(AblationConfig(**TINY, replacement=kind)).state_dict()
    assert plain.keys() <= other.keys()
    assert all(torch.equal(plain[name], other[name]) for name in plain)


def test_another_config_gives_the_network_itself() -> None:
    torch.manual_seed(0)
    model = build_network(ATTCRConfig(**TINY))
    torch.manual_seed(0)
    assert all(map(torch.equal, model.state_dict().values(), ATTCR(ATTCRConfig(**TINY)).state_dict().values()))


@pytest.mark.parametrize("kind", KINDS)
def test_its_weights_come_back_the_same_and_not_as_an_att_cr_network(kind: Kind, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, image = build_network(AblationConfig(**TINY, replacement=kind)).eval(), torch.rand(1, 3, 20, 16)
    save_model(model, tmp_path / "w.safetensors", spec=RICE2)
    assert read_header(tmp_path / "w.safetensors").network == "ablation"
    loaded = load_model(tmp_path / "w.safetensors")
    assert (type(loaded), loaded.config, loaded.spec) == (Ablation, model.config, RICE2)
    with torch.no_grad():
        assert torch.equal(loaded(image), model(image))


def test_a_config_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(ConfigError, match="choose one of the two"):
        AblationConfig(attention="linear", replacement="swin")
    with pytest.raises(ConfigError, match="choose one of mdta"):
        AblationConfig(replacement="flash")  # type: ignore[arg-type]
