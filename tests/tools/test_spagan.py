"""The rival that is measured beside ours runs its published weights and removes cloud."""

from pathlib import Path

import pytest
import torch
from benchmarks.paper.complexity import measure
from benchmarks.paper.import_spagan import import_spagan
from benchmarks.paper.official import convert_official
from benchmarks.paper.spagan import Neighbours, SpAGAN, SpAGANConfig

from attcr.data import DATASETS, RICE2
from attcr.errors import ConfigError, ShapeError, WeightsError
from attcr.evaluate.protocols import psnr
from attcr.weights import load_model, read_header

WIDTH = 32
UNUSED = 32 * 32 * 9 + (32 * 16 * 9 + 16) + (16 * 16 * 9 + 16) + (16 * 4 + 4)


@pytest.mark.parametrize("name", ["rice1", "rice2"])
def test_the_published_weights_are_saved_with_what_they_take(name: str, shared_data: Path, tmp_path: Path) -> None:
    source = shared_data / "peers" / "spagan" / f"{name.upper()}.pth"
    import_spagan(source, tmp_path / "w.safetensors", DATASETS[name].spec)
    header = read_header(tmp_path / "w.safetensors")
    assert (header.network, header.config, header.spec) == ("spagan", {"width": 32}, DATASETS[name].spec)
    model = load_model(tmp_path / "w.safetensors")
    assert isinstance(model, SpAGAN)
    assert sum(parameter.numel() for parameter in model.parameters()) == 219_300 - UNUSED
    state = torch.load(source, map_location="cpu", weights_only=True)
    assert torch.equal(
        model.state_dict()["res_block5.group1.conv2.weight"], state["gen.gen.res_block5.group1.conv2.weight"]
    )


def test_the_published_weights_beat_the_input(shared_data: Path, tmp_path: Path) -> None:
    source = shared_data / "peers" / "spagan" / "RICE2.pth"
    model = import_spagan(source, tmp_path / "w.safetensors", DATASETS["rice2"].spec)
    data = RICE2(shared_data / "rice2", "test")
    torch.set_flush_denormal(True)
    try:
        for index in (0, 3, 8):  # 655, 83, 122: it harms clearer ones
            cloudy, clear = (data[index][role][:, 200:328, 200:328] for role in ("inputs", "clear"))
            with torch.inference_mode():
                restored = model(cloudy[None])[0]
            assert psnr(restored, clear) > psnr(cloudy, clear) + 3, data.names[index]
    finally:
        torch.set_flush_denormal(False)


def test_checkpoints_of_others_are_refused(shared: Path, shared_data: Path, tmp_path: Path) -> None:
    spec, target = DATASETS["rice2"].spec, tmp_path / "w.safetensors"
    theirs = shared_data / "peers" / "spagan" / "RICE2.pth"
    with pytest.raises(WeightsError, match="not of the authors' ATT-CR"):
        convert_official(theirs, target, spec=spec)
    with pytest.raises(WeightsError, match="only SpA-GAN's generator"):
        import_spagan(shared / "parity" / "official_rgb.safetensors", target, spec)
    assert not target.exists()


def test_a_direction_passes_one_pixel() -> None:
    neighbours = Neighbours(WIDTH)
    for layer in (neighbours.up_weight, neighbours.right_weight, neighbours.down_weight, neighbours.left_weight):
        torch.nn.init.constant_(layer.weight, 0.5)
        assert layer.bias is not None
        torch.nn.init.zeros_(layer.bias)
    x = torch.zeros(1, WIDTH, 5, 5)
    x[:, :, 2, 2] = 1
    out = neighbours(x).view(4, WIDTH, 5, 5)[:, 0]
    for direction, (row, col) in enumerate(((3, 2), (2, 1), (1, 2), (2, 3))):
        expected = torch.zeros(5, 5)
        expected[2, 2], expected[row, col] = 1, 0.5
        assert torch.equal(out[direction], expected)


def test_the_bands_are_turned_round_inside() -> None:
    """The first layer sees blue, green, red, and what it gives is turned back."""
    torch.manual_seed(0)
    model, image = SpAGAN(SpAGANConfig(width=4)).eval(), torch.rand(1, 3, 12, 12)
    seen: list[torch.Tensor] = []
    model.conv_in.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    model.conv_out.register_forward_hook(lambda _, args, out: torch.arange(3.0).view(1, 3, 1, 1).expand_as(out) / 4)
    with torch.no_grad():
        restored = model(image)
    assert torch.equal(seen[0], image[:, [2, 1, 0]])
    assert restored[0, :, 0, 0].tolist() == [0.5, 0.25, 0.0]


def test_settings_and_shapes_that_cannot_be_are_refused_and_the_width_counts() -> None:
    with pytest.raises(ConfigError, match="width=0"):
        SpAGANConfig(width=0)
    with pytest.raises(ShapeError, match=r"expected \(B, 3, H, W\)"):
        SpAGAN(SpAGANConfig(width=4))(torch.rand(1, 4, 16, 16))
    narrow, wide = (measure(SpAGANConfig(width=width), 64, 64) for width in (16, 32))
    assert narrow.parameters < wide.parameters == 203_072
    assert wide.stages == ()
    assert wide.multiply_adds == wide.multiply_adds_paper > 3.9 * 64**2 * 32**2
