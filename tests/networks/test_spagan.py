"""The peer that is measured beside ours runs its published weights and removes cloud."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import torch

from attcr.data import RICE2
from attcr.protocols import psnr

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "peers" / "spagan.py"


@pytest.fixture(scope="module")
def spagan() -> ModuleType:
    spec = importlib.util.spec_from_file_location("spagan", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_published_weights_fill_the_generator_and_beat_the_input(spagan: ModuleType, shared_data: Path) -> None:
    generator = spagan.load_generator(shared_data / "peers" / "spagan" / "RICE2.pth")
    unused = 32 * 32 * 9 + (32 * 16 * 9 + 16) + (16 * 16 * 9 + 16) + (16 * 4 + 4)
    assert sum(parameter.numel() for parameter in generator.parameters()) == 219_300 - unused
    data = RICE2(shared_data / "rice2", "test")
    torch.set_flush_denormal(True)
    try:
        for index in (0, 3, 8):  # 655, 83, 122: it harms clearer ones
            cloudy, clear = (data[index][role][:, 200:328, 200:328] for role in ("cloudy", "clear"))
            with torch.inference_mode():
                restored = generator(cloudy[None])[0]
            assert psnr(restored, clear) > psnr(cloudy, clear) + 3, data.names[index]
    finally:
        torch.set_flush_denormal(False)


def test_a_direction_passes_one_pixel(spagan: ModuleType) -> None:
    neighbours = spagan.Neighbours()
    for layer in (neighbours.up_weight, neighbours.right_weight, neighbours.down_weight, neighbours.left_weight):
        torch.nn.init.constant_(layer.weight, 0.5)
        torch.nn.init.zeros_(layer.bias)
    x = torch.zeros(1, spagan.WIDTH, 5, 5)
    x[:, :, 2, 2] = 1
    out = neighbours(x).view(4, spagan.WIDTH, 5, 5)[:, 0]
    for direction, (row, col) in enumerate(((3, 2), (2, 1), (1, 2), (2, 3))):
        expected = torch.zeros(5, 5)
        expected[2, 2], expected[row, col] = 1, 0.5
        assert torch.equal(out[direction], expected)
