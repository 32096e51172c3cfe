"""The network against the paper's figures and against itself."""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attcr.errors import ConfigError, ShapeError
from attcr.networks.attcr import ATTCR, ATTCRConfig, Attention, Block, ChannelNorm, FeedForward, Gate

SMALL = ATTCRConfig(dim=8, blocks=(1, 1, 1, 1, 1), heads=(2, 2, 2, 2, 2))


def count(config: ATTCRConfig) -> int:
    return sum(p.numel() for p in ATTCR(config).parameters())


def build(config: ATTCRConfig, seed: int = 0) -> ATTCR:
    torch.manual_seed(seed)
    return ATTCR(config).eval()


@pytest.mark.parametrize(
    ("preset", "parameters"),
    [("rice1", 6_930_060), ("rice2", 6_910_860), ("tcloud", 6_930_060), ("sen12mscr", 6_943_884), ("small", 1_768_380)],
)
def test_presets_have_the_published_number_of_parameters(preset: str, parameters: int) -> None:
    assert count(ATTCRConfig.preset(preset)) == parameters


@pytest.mark.parametrize(("height", "width"), [(8, 8), (9, 17), (16, 31), (30, 8)])
def test_any_size_from_8_pixels_comes_back_in_the_same_size(height: int, width: int) -> None:
    assert build(SMALL)(torch.rand(2, 3, height, width)).shape == (2, 3, height, width)


def test_padding_does_not_change_an_image_that_needs_none() -> None:
    model, image = build(SMALL), torch.rand(1, 3, 16, 16)
    with torch.no_grad():
        odd = model(image[:, :, :, :15])
    assert odd.shape == (1, 3, 16, 15)
    assert (odd - image[:, :, :, :15]).abs().max() > 0


@pytest.mark.parametrize("shape", [(3, 16, 16), (1, 4, 16, 16), (1, 3, 7, 16)])
def test_other_shapes_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match="expected"):
        build(SMALL)(torch.rand(shape))


def test_the_result_is_added_to_the_channels_the_config_names() -> None:
    config = dataclasses.replace(SMALL, in_channels=5, residual=(4, 0, 2))
    model, image = build(config), torch.rand(1, 5, 16, 16)
    nn.init.zeros_(model.output.weight)
    assert torch.equal(model(image), image[:, [4, 0, 2]])


@pytest.mark.parametrize("residual", [(4, 0), (1,), ()])
def test_outputs_without_a_residual_come_as_the_network_gives_them(residual: tuple[int, ...]) -> None:
    whole = dataclasses.replace(SMALL, in_channels=5, residual=(4, 0, 2))
    image = torch.rand(1, 5, 16, 16)
    with torch.no_grad():
        bare = build(whole)(image) - image[:, [4, 0, 2]]
        got = build(dataclasses.replace(whole, residual=residual))(image)
    assert torch.allclose(got[:, len(residual) :], bare[:, len(residual) :], atol=1e-6)
    added = got[:, : len(residual)] - image[:, list(residual)]
    assert torch.allclose(added, bare[:, : len(residual)], atol=1e-6)


@pytest.mark.parametrize(
    "change",
    [
        {"in_channels": 4},
        {"out_channels": 2, "residual": (0, 1)},
        {"residual": (2, 1, 0)},
        {"dim": 16},
        {"blocks": (1, 1, 2, 1, 1)},
        {"heads": (2, 2, 4, 2, 2)},
        {"scales": ((1,), (3,), (5,), (3,), (1,))},
        {"attention": "linear"},
        {"gate": False},
    ],
    ids=str,
)
def test_every_field_changes_the_network(change: dict[str, Any]) -> None:
    changed = dataclasses.replace(SMALL, **change)
    image = torch.rand(1, 4, 16, 16, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        before = build(SMALL)(image[:, :3])
        after = build(changed)(image[:, : changed.in_channels])
    assert before.shape != after.shape or not torch.equal(before, after)
    assert set(change) <= {field.name for field in dataclasses.fields(ATTCRConfig)}


def test_the_changes_above_name_every_field() -> None:
    marks = test_every_field_changes_the_network.pytestmark  # type: ignore[attr-defined]
    named = {name for change in marks[0].args[1] for name in change}
    assert named == {field.name for field in dataclasses.fields(ATTCRConfig)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"residual": (0, 1, 2, 0)}, "residual"),
        ({"residual": (0, 1, 3)}, "residual"),
        ({"dim": 10}, "multiple of 4"),
        ({"heads": (2, 2, 3, 2, 2)}, "stage 3"),
        ({"blocks": (1, 1)}, "one a stage"),
        ({"blocks": (1, 0, 1, 1, 1)}, "at least one"),
        ({"scales": ((2,), (3,), (3,), (3,), (3,))}, "odd"),
        ({"scales": ((), (3,), (3,), (3,), (3,))}, "odd"),
        ({"attention": "softmax"}, "triangular"),
        ({"in_channels": 0}, "at least 1"),
    ],
    ids=str,
)
def test_settings_that_cannot_be_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        dataclasses.replace(SMALL, **change)


def test_an_unknown_preset_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="rice1, rice2"):
        ATTCRConfig.preset("rice3")


def test_the_gradient_reaches_every_parameter() -> None:
    model = build(SMALL)
    model(torch.rand(1, 3, 16, 16)).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in model.parameters())


def test_the_network_can_be_compiled_and_exported_whole() -> None:
    model, image = build(SMALL), torch.rand(1, 3, 16, 24)
    with torch.no_grad():
        expected = model(image)
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")(image)
        program = torch.export.export(model, (image,))
    assert torch.allclose(compiled, expected, atol=1e-6)
    assert torch.allclose(program.module()(image), expected, atol=1e-6)


def test_bfloat16_stays_close_to_float32() -> None:
    model, image = build(SMALL), torch.rand(1, 3, 32, 32)
    with torch.no_grad():
        expected, got = model(image), model.bfloat16()(image.bfloat16())
    assert got.dtype == torch.bfloat16
    assert (got.float() - expected).abs().max() < 0.02


@pytest.mark.parametrize("heads", [(2, 2, 6, 2, 2), (2, 2, 0, 2, 2), (2, 2, 32, 2, 6)])
def test_heads_that_do_not_divide_their_channels_are_refused(heads: tuple[int, ...]) -> None:
    stage = 5 if heads[2] == 32 else 3
    with pytest.raises(ConfigError, match=f"stage {stage}: {heads[stage - 1]} heads must be even and divide its"):
        dataclasses.replace(SMALL, heads=heads)
    assert dataclasses.replace(SMALL, heads=(2, 2, 32, 2, 2)).heads[2] == 32


def test_an_odd_number_of_heads_is_refused_though_it_divides() -> None:
    with pytest.raises(ConfigError, match="stage 3: 3 heads must be even"):
        dataclasses.replace(SMALL, dim=12, heads=(2, 2, 3, 2, 2))


def test_presets_are_those_of_the_paper_where_the_count_does_not_tell() -> None:
    assert {ATTCRConfig.preset(name).heads for name in ("rice1", "rice2", "tcloud", "sen12mscr")} == {(2, 2, 8, 2, 2)}
    assert ATTCRConfig.preset("rice1").scales == ((3, 5), (3, 5), (1, 3), (3, 5), (3, 5))
    assert ATTCRConfig.preset("rice2").scales == ((3, 5), (1, 3), (1, 3), (1, 3), (3, 5))
    assert ATTCRConfig.preset("sen12mscr").residual == tuple(range(2, 15))
    assert ATTCRConfig.preset("tiny").channels == (16, 32, 64, 32, 32)


def test_a_size_that_is_no_multiple_of_4_is_mirrored_below_and_to_the_right() -> None:
    model, image, seen = build(SMALL), torch.rand(1, 3, 9, 14), []
    model.embed.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    with torch.no_grad():
        model(image)
    assert np.array_equal(seen[0].numpy(), np.pad(image.numpy(), ((0, 0), (0, 0), (0, 3), (0, 2)), mode="reflect"))


def delta(conv: nn.Conv2d, into: int | slice, source: int) -> None:
    """Make a convolution copy one channel into another, or into several, and nothing else."""
    nn.init.zeros_(conv.weight)
    with torch.no_grad():
        conv.weight[into, source, conv.kernel_size[0] // 2, conv.kernel_size[1] // 2] = 1


@pytest.fixture
def bare() -> ATTCR:
    """A network whose stages do nothing and whose skip connections carry nothing yet."""
    model = build(SMALL)
    model.stages = nn.ModuleList(nn.Identity() for _ in range(5))
    for conv in (*model.down, *model.up, model.fuse, model.output, model.embed):
        nn.init.zeros_(conv.weight)
    return model


def test_the_first_stage_reaches_the_last_behind_what_comes_up(bare: ATTCR) -> None:
    image = torch.rand(1, 3, 9, 14)
    delta(bare.embed, 3, 1)
    delta(bare.output, 2, 8 + 3)  # 8 channels come up, then those of the first stage
    expected = image + F.pad(image[:, 1:2], (0, 0, 0, 0, 2, 0))
    with torch.no_grad():
        assert torch.allclose(bare(image), expected, atol=1e-6)


def test_the_second_stage_reaches_the_fourth_behind_what_comes_up(bare: ATTCR) -> None:
    image = torch.rand(1, 3, 8, 12)
    delta(bare.embed, 0, 0)
    delta(bare.down[0], 0, 0)
    delta(bare.fuse, 5, 16)  # 16 channels come up, then those of the second stage
    delta(bare.up[1], slice(0, 4), 5)  # four channels are one at twice the size
    delta(bare.output, 0, 0)
    halved = image[:, 0, ::2, ::2].repeat_interleave(2, 1).repeat_interleave(2, 2)
    with torch.no_grad():
        assert torch.allclose((bare(image) - image)[:, 0], halved, atol=1e-6)


def test_the_third_stage_comes_up_first(bare: ATTCR) -> None:
    image = torch.rand(1, 3, 8, 12)
    delta(bare.embed, 0, 0)
    delta(bare.down[0], 0, 0)
    delta(bare.down[1], 0, 0)
    delta(bare.up[0], slice(0, 4), 0)
    delta(bare.fuse, 0, 0)
    delta(bare.up[1], slice(0, 4), 0)
    delta(bare.output, 0, 0)
    quartered = image[:, 0, ::4, ::4].repeat_interleave(4, 1).repeat_interleave(4, 2)
    with torch.no_grad():
        assert torch.allclose((bare(image) - image)[:, 0], quartered, atol=1e-6)


def test_the_norm_is_over_channels_with_an_eps_of_1e_5() -> None:
    norm = ChannelNorm(2)
    with torch.no_grad():
        norm.weight[:], norm.bias[:] = torch.tensor([1.0, 2.0]), torch.tensor([0.0, 0.5])
    small = 1e-5**0.5
    x = torch.tensor([[3.0, -1.0], [small, -small]])  # pixel, channel
    got = norm(x.T.reshape(1, 2, 1, 2))[0, :, 0].T
    expected = torch.tensor([[1.0, -1.5], [0.5**0.5, 0.5 - 2**0.5]])
    assert torch.allclose(got, expected, atol=1e-4, rtol=0)


def test_the_gate_leaks_a_fifth_twice_and_has_no_sigmoid() -> None:
    gate = Gate(4)
    for parameter in gate.parameters():
        nn.init.zeros_(parameter)
    with torch.no_grad():
        gate.shrink.weight[0, 2] = 1
        gate.look.weight[0, 0, 1, 0] = 1  # the pixel to the left; beyond the edge is 0
        gate.expand.weight[:, 0] = 1
    x = torch.tensor([5.0, -10.0, 3.0, 7.0]).view(1, 1, 1, 4).repeat(1, 4, 1, 1)
    assert torch.allclose(gate(x)[0, 3, 0], torch.tensor([0.0, 5.0, -0.4, 3.0]), atol=1e-6)


@pytest.mark.parametrize(("channels", "hidden"), [(1, 2), (16, 42), (48, 127), (96, 255)])
def test_the_feed_forward_is_2_66_times_as_wide_cut_off(channels: int, hidden: int) -> None:
    feed = FeedForward(channels)
    assert feed.expand.weight.shape == (2 * hidden, channels, 1, 1)
    assert feed.shrink.weight.shape == (channels, hidden, 1, 1)


def test_the_feed_forward_gates_the_second_half_by_the_exact_gelu_of_the_first() -> None:
    feed = FeedForward(1)  # two hidden channels
    with torch.no_grad():
        feed.expand.weight[:, 0, 0, 0] = torch.tensor([-1.0, 2.0, 3.0, 0.5])
        delta_each = torch.zeros(4, 1, 3, 3)
        delta_each[:, 0, 1, 1] = 1
        feed.spread.weight.copy_(delta_each)
        feed.shrink.weight.fill_(1)

    def gelu(x: float) -> float:
        return x * (1 + math.erf(x / 2**0.5)) / 2

    expected = gelu(-1.2) * 3.6 + gelu(2.4) * 0.6
    assert feed(torch.full((1, 1, 1, 1), 1.2)).item() == pytest.approx(expected, abs=1e-6)


class Line(nn.Module):
    """a x + b in place of a part of a block."""

    def __init__(self, a: float, b: float) -> None:
        super().__init__()
        self.a, self.b = a, b

    def forward(self, x: Tensor) -> Tensor:
        return self.a * x + self.b


def test_a_block_adds_attention_and_then_feed_forward_each_of_the_normalised_input() -> None:
    block = Block(SMALL, 0)
    block.norm1, block.attention, block.norm2, block.feed = Line(2, 0), Line(1, 1), Line(3, 0), Line(1, 5)
    assert block(torch.ones(1)).item() == 21  # 1 + (2*1 + 1) = 4, then 4 + (3*4 + 5)


def test_attention_is_its_definition_written_out() -> None:
    config = dataclasses.replace(SMALL, heads=(4, 2, 2, 2, 2), scales=((1, 3), (3,), (3,), (3,), (3,)))
    torch.manual_seed(0)
    attention, x = Attention(config, 0).double(), torch.randn(1, 8, 3, 2, dtype=torch.float64)
    phi = lambda t: torch.where(t > 0, t + 1, t.exp())  # noqa: E731
    query = attention.query(x)[0].flatten(1)  # C, N in row-major order
    attended = []
    for scale in attention.scales:
        both = scale.spread(scale.project(x))[0].flatten(1)
        keys, values = both[:8], both[8:]
        result = torch.zeros(8, 6, dtype=torch.float64)
        for head in range(4):
            own = slice(2 * head, 2 * head + 2)
            for token in range(6):
                seen = slice(0, token + 1) if head < 2 else slice(token, 6)
                weights = (phi(query[own, token : token + 1]) * phi(keys[own, seen])).sum(0)
                result[own, token] = (values[own, seen] * weights).sum(1) / (weights.sum() + 1e-6)
        attended.append(result)
    merged = attention.merge(torch.cat(attended).T).T.reshape(1, 8, 3, 2)
    expected = attention.out(merged * attention.gate(x))
    assert torch.allclose(attention(x), expected, atol=1e-12, rtol=0)
