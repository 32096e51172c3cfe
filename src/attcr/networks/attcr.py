"""The ATT-CR network, top to bottom.

Paper: ATT-CR, Adaptive Triangular Transformer for Cloud Removal. Where the paper and the authors' released code
differ this follows the code; docs/engineering/fidelity.md lists each point.
"""

# B batch, C channels of the stage, H W pixels, N = H*W, h heads, d head dim, s scales

from dataclasses import dataclass, fields
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attcr.errors import ConfigError, ShapeError
from attcr.ops import depthwise_conv, linear_attention, triangular_attention

STAGES = 5
STAGE_WIDTH = (1, 2, 4, 2, 2)
"""Channels of each stage as multiples of `dim`."""

_RICE1_SCALES = ((3, 5), (3, 5), (1, 3), (3, 5), (3, 5))
_RICE2_SCALES = ((3, 5), (1, 3), (1, 3), (1, 3), (3, 5))


@dataclass(frozen=True)
class ATTCRConfig:
    """What makes one ATT-CR network differ from another."""

    in_channels: int = 3
    """Channels of the input, auxiliary ones (SAR) included."""
    out_channels: int = 3
    """Channels of the output."""
    residual: tuple[int, ...] = (0, 1, 2)
    """The input channels that the network's result is added to, for the first output channels; not for the others."""
    dim: int = 48
    """Channels of the first stage; the others have 2, 4, 2 and 2 times as many."""
    blocks: tuple[int, ...] = (1, 2, 8, 2, 1)
    """Transformer blocks of each stage."""
    heads: tuple[int, ...] = (2, 2, 8, 2, 2)
    """Attention heads of each stage, even; the first half looks back, the second half ahead."""
    scales: tuple[tuple[int, ...], ...] = _RICE2_SCALES
    """Odd kernel sizes of the key and value tokens of each stage; 1 means no spatial kernel."""
    attention: Literal["triangular", "linear"] = "triangular"
    """`linear` is the paper's ablation: the same product without the triangles."""
    gate: bool = True
    """Whether the attention's output is multiplied by the learned gate (the paper's FSGM)."""

    def __post_init__(self) -> None:
        for field in fields(self):  # lists, as JSON and YAML give them, become tuples
            value = getattr(self, field.name)
            if isinstance(value, list):
                object.__setattr__(self, field.name, tuple(tuple(v) if isinstance(v, list) else v for v in value))
        if min(self.in_channels, self.out_channels, self.dim) < 1:
            raise ConfigError("in_channels, out_channels and dim must be at least 1")
        if len(self.residual) > self.out_channels or not all(0 <= c < self.in_channels for c in self.residual):
            raise ConfigError(
                f"residual={self.residual} must name one of the {self.in_channels} input channels "
                f"for each of the {self.out_channels} output channels, or for the first of them"
            )
        for name in ("blocks", "heads", "scales"):
            if len(getattr(self, name)) != STAGES:
                raise ConfigError(
                    f"{name} came with {len(getattr(self, name))} entries; expected {STAGES}, one a stage"
                )
        if self.dim % 4:
            raise ConfigError(f"dim={self.dim} must be a multiple of 4, for the gate's bottleneck")
        for stage, (heads, channels) in enumerate(zip(self.heads, self.channels, strict=True), 1):
            if heads < 2 or heads % 2 or channels % heads:
                raise ConfigError(f"stage {stage}: {heads} heads must be even and divide its {channels} channels")
        if min(self.blocks) < 1:
            raise ConfigError(f"blocks={self.blocks}: each stage needs at least one")
        if any(not scales or any(s < 1 or s % 2 == 0 for s in scales) for scales in self.scales):
            raise ConfigError(f"scales={self.scales}: each stage needs at least one odd kernel size")
        if self.attention not in ("triangular", "linear"):
            raise ConfigError(f"attention={self.attention!r}; choose 'triangular' or 'linear'")

    @property
    def channels(self) -> tuple[int, ...]:
        """Channels of each stage."""
        return tuple(self.dim * width for width in STAGE_WIDTH)

    @staticmethod
    def preset(name: str) -> "ATTCRConfig":
        """The paper's networks by data set, and two smaller ones: `small` (dim 24) and `tiny` (dim 16)."""
        presets: dict[str, dict[str, Any]] = {
            "rice1": {"scales": _RICE1_SCALES},
            "rice2": {},
            "tcloud": {"scales": _RICE1_SCALES},
            "sen12mscr": {
                "in_channels": 15,
                "out_channels": 13,
                "residual": tuple(range(2, 15)),  # SAR VV and VH come first
                "scales": _RICE1_SCALES,
            },
            "small": {"dim": 24},
            "tiny": {"dim": 16},
        }
        if name not in presets:
            raise ConfigError(f"no preset {name!r}; there are {', '.join(presets)}")
        return ATTCRConfig(**presets[name])


class ChannelNorm(nn.Module):
    """Layer norm over the channels of each pixel."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        """Normalise (B, C, H, W)."""
        x = F.layer_norm(x.permute(0, 2, 3, 1), self.weight.shape, self.weight, self.bias, eps=1e-5)
        return x.permute(0, 3, 1, 2)


class Gate(nn.Module):
    """The paper's FSGM, as the authors' code has it: a bottleneck without a final sigmoid."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.shrink = nn.Conv2d(channels, channels // 4, 1)
        self.look = nn.Conv2d(channels // 4, channels // 4, 3, padding=1)
        self.expand = nn.Conv2d(channels // 4, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Give the factor for each channel and pixel of (B, C, H, W)."""
        x = F.leaky_relu(self.shrink(x), 0.2)
        x = F.leaky_relu(self.look(x), 0.2)
        return self.expand(x)  # type: ignore[no-any-return]


class DepthwiseConv(nn.Conv2d):
    """A convolution of each channel by itself, same size out, without bias."""

    def __init__(self, channels: int, kernel: int) -> None:
        super().__init__(channels, channels, kernel, padding=kernel // 2, groups=channels, bias=False)

    def _conv_forward(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return depthwise_conv(x, weight.to(x.dtype))


class ScaleTokens(nn.Module):
    """Keys and values of one scale: a projection, then a depthwise kernel unless the scale is 1."""

    def __init__(self, channels: int, scale: int) -> None:
        super().__init__()
        self.project = nn.Conv2d(channels, 2 * channels, 1, bias=False)
        self.spread = DepthwiseConv(2 * channels, scale) if scale > 1 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """Give (B, 2C, H, W), keys first."""
        return self.spread(self.project(x))  # type: ignore[no-any-return]


class Attention(nn.Module):
    """The paper's ATAM: one query, keys and values at each scale, triangular attention, gate."""

    def __init__(self, config: ATTCRConfig, stage: int) -> None:
        super().__init__()
        channels, scales = config.channels[stage], config.scales[stage]
        self.heads = config.heads[stage]
        self.attend = triangular_attention if config.attention == "triangular" else linear_attention
        self.query = nn.Conv2d(channels, channels, 1)
        self.scales = nn.ModuleList(ScaleTokens(channels, scale) for scale in scales)
        self.merge = nn.Linear(len(scales) * channels, channels) if len(scales) > 1 else nn.Identity()
        self.gate = Gate(channels) if config.gate else None
        self.out = nn.Conv2d(channels, channels, 1)

    def _tokens(self, x: Tensor) -> Tensor:
        """(B, C, H, W) as (B, h, N, d), pixels in row-major order."""
        tokens: Tensor = x.permute(0, 2, 3, 1).flatten(1, 2).unflatten(2, (self.heads, -1))
        return tokens.transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        """Attend over all pixels of (B, C, H, W)."""
        query = self._tokens(self.query(x))
        attended = []
        for scale in self.scales:
            keys, values = scale(x).chunk(2, dim=1)
            attended.append(self.attend(query, self._tokens(keys), self._tokens(values)).transpose(1, 2).flatten(2))
        merged: Tensor = self.merge(torch.cat(attended, dim=2))  # B, N, C
        y = merged.unflatten(1, x.shape[2:]).permute(0, 3, 1, 2)  # B, C, H, W
        if self.gate is not None:
            y = y * self.gate(x)
        return self.out(y)  # type: ignore[no-any-return]


class FeedForward(nn.Module):
    """The gated depthwise feed-forward of Restormer (GDFN)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        hidden = int(2.66 * channels)
        self.expand = nn.Conv2d(channels, 2 * hidden, 1, bias=False)
        self.spread = DepthwiseConv(2 * hidden, 3)
        self.shrink = nn.Conv2d(hidden, channels, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Mix the channels of (B, C, H, W) with a look at the neighbours."""
        a, b = self.spread(self.expand(x)).chunk(2, dim=1)
        a = a.contiguous(
            memory_format=torch.channels_last
        )  # GELU of half the channels in place takes six times as long
        return self.shrink(F.gelu(a) * b)  # type: ignore[no-any-return]


class Block(nn.Module):
    """A transformer block: attention, then feed-forward, each on the normalised input and added to it."""

    def __init__(self, config: ATTCRConfig, stage: int) -> None:
        super().__init__()
        channels = config.channels[stage]
        self.norm1 = ChannelNorm(channels)
        self.attention = Attention(config, stage)
        self.norm2 = ChannelNorm(channels)
        self.feed = FeedForward(channels)

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) to the same."""
        x = x + self.attention(self.norm1(x))
        return x + self.feed(self.norm2(x))  # type: ignore[no-any-return]


class ATTCR(nn.Module):
    """Cloudy image (B, in_channels, H, W) to clear image (B, out_channels, H, W), for any H, W >= 8."""

    def __init__(self, config: ATTCRConfig) -> None:
        super().__init__()
        self.config = config
        c1, c2, c3, c4, c5 = config.channels
        self.embed = nn.Conv2d(config.in_channels, c1, 3, padding=1, bias=False)
        self.stages = nn.ModuleList(
            nn.Sequential(*(Block(config, stage) for _ in range(config.blocks[stage]))) for stage in range(STAGES)
        )
        self.down = nn.ModuleList(nn.Conv2d(c, c // 2, 3, padding=1, bias=False) for c in (c1, c2))
        self.up = nn.ModuleList(nn.Conv2d(c, 2 * c, 3, padding=1, bias=False) for c in (c3, c4))
        self.fuse = nn.Conv2d(c3 // 2 + c2, c4, 1, bias=False)
        self.output = nn.Conv2d(c5, config.out_channels, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Remove the cloud. Input and output are in the range that the weights were trained in."""
        if x.dim() != 4 or x.shape[1] != self.config.in_channels or min(x.shape[2:]) < 8:
            raise ShapeError(
                f"input came as {tuple(x.shape)}; expected (B, {self.config.in_channels}, H, W) with H, W >= 8"
            )
        height, width = x.shape[2:]
        x = x.contiguous(memory_format=torch.channels_last)  # tokens are then a view, convolutions faster
        padded = F.pad(x, (0, -width % 4, 0, -height % 4), mode="reflect")

        e1 = self.stages[0](self.embed(padded))  # B, dim, H, W
        e2 = self.stages[1](F.pixel_unshuffle(self.down[0](e1), 2))  # B, 2 dim, H/2, W/2
        e3 = self.stages[2](F.pixel_unshuffle(self.down[1](e2), 2))  # B, 4 dim, H/4, W/4
        d2 = self.fuse(torch.cat([F.pixel_shuffle(self.up[0](e3), 2), e2], dim=1))  # B, 2 dim, H/2, W/2
        d1 = torch.cat([F.pixel_shuffle(self.up[1](self.stages[3](d2)), 2), e1], dim=1)  # B, 2 dim, H, W
        y = self.output(self.stages[4](d1))  # B, out_channels, H, W

        y, added = y[:, :, :height, :width], len(self.config.residual)
        if added == self.config.out_channels:
            return y + x[:, self.config.residual]  # type: ignore[no-any-return]
        return torch.cat([y[:, :added] + x[:, self.config.residual], y[:, added:]], dim=1)
