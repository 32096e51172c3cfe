"""The network against the paper's figures and against itself."""

import dataclasses
from typing import Any

import pytest
import torch
from torch import nn

from attcr.errors import ConfigError, ShapeError
from attcr.networks.attcr import ATTCR, ATTCRConfig

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
