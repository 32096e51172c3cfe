"""SpA-GAN's generator (Pan 2020, arXiv:2009.13015), a rival to measure beside ours on the same images.

Written from the paper's description and the shapes of its published weights (MIT); no code of theirs is used.
Four things the shapes leave open were settled by measurement (docs/reference/protocols.md): the bands are in the order
blue, green, red in [0, 1]; the 3x3 of the bottlenecks is dilated by 2; a direction passes one pixel, not a whole
row; and two layers in the file are not used, since in both files they still hold the values they were made with.
"""

# B batch, C channels inside (`width`), H W pixels

from collections import OrderedDict
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from attcr.errors import ConfigError, ShapeError

BOTTLENECKS = 17
ATTENDED = (4, 7, 10, 13)
"""The bottlenecks before which the attention is computed again; it weights them and the later ones, up to the 15th."""
COLOURS = 3


@dataclass(frozen=True)
class SpAGANConfig:
    """What makes one SpA-GAN generator differ from another."""

    width: int = 32
    """Channels inside; those of the published weights have 32."""

    def __post_init__(self) -> None:
        if self.width < 1:
            raise ConfigError(f"width={self.width} must be at least 1")

    @property
    def in_channels(self) -> int:
        """Channels of the input."""
        return COLOURS

    @property
    def out_channels(self) -> int:
        """Channels of the output."""
        return COLOURS


class Neighbours(nn.Module):
    """Each pixel plus a weighted neighbour, from four sides: (B, C, H, W) -> (B, 4C, H, W)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.up_weight, self.right_weight, self.down_weight, self.left_weight = (
            nn.Conv2d(width, width, 1, groups=width) for _ in range(4)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Give what comes from above, from the right, from below and from the left, in this order."""
        from_up, from_right, from_down, from_left = x.clone(), x.clone(), x.clone(), x.clone()
        from_up[:, :, 1:] = torch.relu(x[:, :, 1:] + _weighted(self.up_weight, x[:, :, :-1]))
        from_right[..., :-1] = torch.relu(x[..., :-1] + _weighted(self.right_weight, x[..., 1:]))
        from_down[:, :, :-1] = torch.relu(x[:, :, :-1] + _weighted(self.down_weight, x[:, :, 1:]))
        from_left[..., 1:] = torch.relu(x[..., 1:] + _weighted(self.left_weight, x[..., :-1]))
        return torch.cat([from_up, from_right, from_down, from_left], 1)

    def products(self, height: int, width: int) -> int:
        """Multiply-adds of the four weighted neighbours on height x width pixels."""
        inner = (height - 1) * width + height * (width - 1)
        return 2 * inner * self.up_weight.in_channels


def _weighted(layer: nn.Conv2d, x: Tensor) -> Tensor:
    """Apply a depthwise 1x1 convolution as what it is, a factor and an offset per channel."""
    assert layer.bias is not None
    return x * layer.weight.view(1, -1, 1, 1) + layer.bias.view(1, -1, 1, 1)


class SpatialAttention(nn.Module):
    """Where the cloud is: (B, C, H, W) -> (B, 1, H, W) in 0..1, by two rounds of neighbours."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 1)
        self.irnn1 = Neighbours(width)
        self.conv2 = nn.Conv2d(4 * width, width, 1)
        self.irnn2 = Neighbours(width)
        self.conv3 = nn.Conv2d(4 * width, width, 1)
        self.conv_out = nn.Conv2d(width, 1, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Look twice at the neighbours."""
        x = self.conv2(self.irnn1(self.conv1(x)))
        return torch.sigmoid(self.conv_out(torch.relu(self.conv3(self.irnn2(x)))))


class Bottleneck(nn.Module):
    """1x1, dilated 3x3, 1x1."""

    def __init__(self, width: int) -> None:
        super().__init__()
        layers = OrderedDict[str, nn.Module](
            conv1=nn.Conv2d(width, width, 1, bias=False),
            relu1=nn.ReLU(),
            conv2=nn.Conv2d(width, width, 3, padding=2, dilation=2, bias=False),
            relu2=nn.ReLU(),
            conv3=nn.Conv2d(width, width, 1, bias=False),
        )
        self.group1 = nn.Sequential(layers)

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) to the same."""
        return self.group1(x)  # type: ignore[no-any-return]


class SpAGAN(nn.Module):
    """Three bottlenecks, four times three weighted by one shared attention, two more.

    Takes and gives (B, 3, H, W) in 0..1, for red, green and blue or what stands in their places.
    """

    def __init__(self, config: SpAGANConfig) -> None:
        super().__init__()
        self.config = config
        self.conv_in = nn.Sequential(nn.Conv2d(COLOURS, config.width, 3, padding=1, bias=False), nn.ReLU())
        self.SAM1 = SpatialAttention(config.width)
        for number in range(1, BOTTLENECKS + 1):
            self.add_module(f"res_block{number}", Bottleneck(config.width))
        self.conv_out = nn.Sequential(nn.Conv2d(config.width, COLOURS, 3, padding=1, bias=False))

    def forward(self, rgb: Tensor) -> Tensor:
        """Remove the cloud."""
        if rgb.dim() != 4 or rgb.shape[1] != COLOURS:
            raise ShapeError(f"input came as {tuple(rgb.shape)}; expected (B, {COLOURS}, H, W)")
        bgr = rgb.flip(1).contiguous(memory_format=torch.channels_last)  # it was trained on blue, green, red
        x = self.conv_in(bgr)
        attention: Tensor | float = 1.0
        for number in range(1, BOTTLENECKS + 1):
            if number in ATTENDED:
                attention = self.SAM1(x)
            elif number == ATTENDED[-1] + 3:
                attention = 1.0
            x = torch.relu(x + attention * self.get_submodule(f"res_block{number}")(x))
        restored: Tensor = self.conv_out(x)
        return restored.flip(1).clamp(0, 1)
