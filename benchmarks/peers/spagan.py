"""SpA-GAN's generator (Pan 2020, arXiv:2009.13015), to measure a peer beside ours on the same images.

Written from the paper's description and the shapes of its published weights (MIT); no code of theirs is used.
Four things the shapes leave open were settled by measurement, see docs/protocols.md: the bands are in the order
blue, green, red in [0, 1]; the 3x3 of the bottlenecks is dilated by 2; a direction passes one pixel, not a whole
row; and two layers in the file are not used, since in both files they still hold the values they were made with.

    python benchmarks/peers/spagan.py --weights RICE2.pth --data rice2 --root RICE2 --out predictions/SpA-GAN
    attcr evaluate --predictions predictions/SpA-GAN --data rice2 --root RICE2 --out report
"""

import argparse
from collections import OrderedDict
from pathlib import Path

import torch
from PIL import Image
from torch import Tensor, nn

from attcr.data import RICE1, RICE2

WIDTH = 32
UNUSED = ("SAM1.conv_in.", "SAM1.attention_layer.")


class Neighbours(nn.Module):
    """Each pixel plus a weighted neighbour, from four sides: (B, C, H, W) -> (B, 4C, H, W)."""

    def __init__(self) -> None:
        super().__init__()
        self.up_weight, self.right_weight, self.down_weight, self.left_weight = (
            nn.Conv2d(WIDTH, WIDTH, 1, groups=WIDTH) for _ in range(4)
        )

    def forward(self, x: Tensor) -> Tensor:
        from_up, from_right, from_down, from_left = x.clone(), x.clone(), x.clone(), x.clone()
        from_up[:, :, 1:] = torch.relu(x[:, :, 1:] + weighted(self.up_weight, x[:, :, :-1]))
        from_right[..., :-1] = torch.relu(x[..., :-1] + weighted(self.right_weight, x[..., 1:]))
        from_down[:, :, :-1] = torch.relu(x[:, :, :-1] + weighted(self.down_weight, x[:, :, 1:]))
        from_left[..., 1:] = torch.relu(x[..., 1:] + weighted(self.left_weight, x[..., :-1]))
        return torch.cat([from_up, from_right, from_down, from_left], 1)


def weighted(layer: nn.Conv2d, x: Tensor) -> Tensor:
    """Apply a depthwise 1x1 convolution as what it is, a factor and an offset per channel."""
    assert layer.bias is not None
    return x * layer.weight.view(1, -1, 1, 1) + layer.bias.view(1, -1, 1, 1)


class SpatialAttention(nn.Module):
    """Where the cloud is: (B, C, H, W) -> (B, 1, H, W) in 0..1, by two rounds of neighbours."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(WIDTH, WIDTH, 1)
        self.irnn1 = Neighbours()
        self.conv2 = nn.Conv2d(4 * WIDTH, WIDTH, 1)
        self.irnn2 = Neighbours()
        self.conv3 = nn.Conv2d(4 * WIDTH, WIDTH, 1)
        self.conv_out = nn.Conv2d(WIDTH, 1, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv2(self.irnn1(self.conv1(x)))
        return torch.sigmoid(self.conv_out(torch.relu(self.conv3(self.irnn2(x)))))


class Bottleneck(nn.Module):
    """1x1, dilated 3x3, 1x1."""

    def __init__(self) -> None:
        super().__init__()
        layers = OrderedDict[str, nn.Module](
            conv1=nn.Conv2d(WIDTH, WIDTH, 1, bias=False),
            relu1=nn.ReLU(),
            conv2=nn.Conv2d(WIDTH, WIDTH, 3, padding=2, dilation=2, bias=False),
            relu2=nn.ReLU(),
            conv3=nn.Conv2d(WIDTH, WIDTH, 1, bias=False),
        )
        self.group1 = nn.Sequential(layers)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.group1(x)
        return out


class Generator(nn.Module):
    """Three bottlenecks, four times three weighted by one shared attention, two more: RGB -> RGB in 0..1."""

    def __init__(self) -> None:
        super().__init__()
        self.conv_in = nn.Sequential(nn.Conv2d(3, WIDTH, 3, padding=1, bias=False), nn.ReLU())
        self.SAM1 = SpatialAttention()
        for number in range(1, 18):
            self.add_module(f"res_block{number}", Bottleneck())
        self.conv_out = nn.Sequential(nn.Conv2d(WIDTH, 3, 3, padding=1, bias=False))

    def forward(self, rgb: Tensor) -> Tensor:
        x = self.conv_in(rgb.flip(1))  # it was trained on blue, green, red
        attention: Tensor | float = 1.0
        for number in range(1, 18):
            if number in (4, 7, 10, 13):
                attention = self.SAM1(x)
            elif number == 16:
                attention = 1.0
            x = torch.relu(x + attention * self.get_submodule(f"res_block{number}")(x))
        bgr: Tensor = self.conv_out(x)
        return bgr.flip(1).clamp(0, 1)


def load_generator(path: Path) -> Generator:
    """Read the published weights."""
    state = torch.load(path, map_location="cpu", weights_only=True)
    state = {name.removeprefix("gen.gen."): values for name, values in state.items()}
    generator = Generator()
    generator.load_state_dict({name: values for name, values in state.items() if not name.startswith(UNUSED)})
    return generator.eval().to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def main() -> None:
    """Write a prediction for each image of a split, as 8-bit PNG like the peer's own; those there are kept."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--data", choices=["rice1", "rice2"], default="rice2")
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--split", default="test")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    torch.set_flush_denormal(True)  # its activations are full of them: 7 times as quick, the same output
    generator = load_generator(options.weights)
    data = (RICE1 if options.data == "rice1" else RICE2)(options.root, options.split)
    options.out.mkdir(parents=True, exist_ok=True)
    for index, name in enumerate(data.names):
        path = options.out / f"{name}.png"
        if path.exists():
            continue
        with torch.inference_mode():
            restored = generator(data[index]["cloudy"][None])[0]
        half = path.with_suffix(".half")
        Image.fromarray((restored * 255).round().byte().permute(1, 2, 0).numpy()).save(half, format="PNG")
        half.replace(path)
        print(f"{index + 1}/{len(data)} {path}", flush=True)


if __name__ == "__main__":
    main()
