"""Restormer (Zamir et al. 2022, arXiv:2111.09881), a rival to measure beside ours: channels attend to channels.

Written from the paper's description; no code of theirs is used. Parameters and multiply-adds are the paper's.
"""

# B batch, C channels of the level, H W pixels, N = H*W, h heads, d = C/h

from dataclasses import dataclass, fields

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attcr.errors import ConfigError, ShapeError
from attcr.networks.attcr import ChannelNorm, DepthwiseConv, FeedForward

LEVELS = 4
MULTIPLE = 2 ** (LEVELS - 1)
"""Height and width are filled up to multiples of it."""


@dataclass(frozen=True)
class RestormerConfig:
    """What makes one Restormer differ from another; the defaults are the paper's."""

    in_channels: int = 3
    """Channels of the input."""
    out_channels: int = 3
    """Channels of the output; the result is added to as many of the input's first channels."""
    dim: int = 48
    """Channels of the first level; each further one has twice as many."""
    blocks: tuple[int, ...] = (4, 6, 6, 8)
    """Transformer blocks of each level."""
    refinement: int = 4
    """Transformer blocks at full size after the decoder."""
    heads: tuple[int, ...] = (1, 2, 4, 8)
    """Attention heads of each level."""

    def __post_init__(self) -> None:
        for field in fields(self):  # lists, as JSON and YAML give them, become tuples
            if isinstance(getattr(self, field.name), list):
                object.__setattr__(self, field.name, tuple(getattr(self, field.name)))
        if len(self.blocks) != LEVELS or len(self.heads) != LEVELS:
            raise ConfigError(f"blocks={self.blocks} and heads={self.heads} need {LEVELS} entries each, one a level")
        if min(*self.blocks, *self.heads, self.refinement, self.dim, self.in_channels) < 1:
            raise ConfigError("blocks, heads, refinement, dim and in_channels must be at least 1")
        if not 1 <= self.out_channels <= self.in_channels:
            raise ConfigError(f"out_channels={self.out_channels} must be 1 to in_channels={self.in_channels}")
        if self.dim % 2 or any(self.dim * 2**level % heads for level, heads in enumerate(self.heads)):
            raise ConfigError(f"dim={self.dim} must be even, and heads={self.heads} must divide each level's channels")


class ChannelAttention(nn.Module):
    """MDTA: a head's channels attend to each other over all pixels, linear in their number."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.temperature = nn.Parameter(torch.ones(heads, 1, 1))
        self.project = nn.Conv2d(channels, 3 * channels, 1, bias=False)
        self.spread = DepthwiseConv(3 * channels, 3)
        self.out = nn.Conv2d(channels, channels, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Attend over (B, C, H, W)."""
        q, k, v = (part.flatten(2).unflatten(1, (self.heads, -1)) for part in self.spread(self.project(x)).chunk(3, 1))
        return self.out(self.mix(q, k, v).reshape(x.shape))  # type: ignore[no-any-return]

    def mix(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Give (B, h, d, N) of the attention's product."""
        similarity = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-1, -2)  # B, h, d, d
        return torch.softmax(similarity * self.temperature, dim=-1) @ v

    def products(self, height: int, width: int) -> int:
        """Multiply-adds of Q K^T and of its product with V."""
        channels = self.out.in_channels
        return height * width * 2 * channels * channels // self.heads


class Block(nn.Module):
    """Attention, then the gated feed-forward, each on the normalised input and added to it."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.norm1 = ChannelNorm(channels)
        self.attention = ChannelAttention(channels, heads)
        self.norm2 = ChannelNorm(channels)
        self.feed = FeedForward(channels)

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) to the same."""
        x = x + self.attention(self.norm1(x))
        return x + self.feed(self.norm2(x))  # type: ignore[no-any-return]


class Restormer(nn.Module):
    """Cloudy image (B, in_channels, H, W) to clear image (B, out_channels, H, W), for any H, W >= 8."""

    def __init__(self, config: RestormerConfig) -> None:
        super().__init__()
        self.config = config
        c = [config.dim * 2**level for level in range(LEVELS)]

        def stage(channels: int, level: int, count: int) -> nn.Sequential:
            return nn.Sequential(*(Block(channels, config.heads[level]) for _ in range(count)))

        self.embed = nn.Conv2d(config.in_channels, c[0], 3, padding=1, bias=False)
        self.encoder = nn.ModuleList(stage(c[level], level, config.blocks[level]) for level in range(LEVELS))
        self.down = nn.ModuleList(nn.Conv2d(width, width // 2, 3, padding=1, bias=False) for width in c[:-1])
        self.up = nn.ModuleList(nn.Conv2d(width, 2 * width, 3, padding=1, bias=False) for width in c[:0:-1])
        self.fuse = nn.ModuleList(nn.Conv2d(2 * width, width, 1, bias=False) for width in (c[2], c[1]))
        widths = ((2, c[2]), (1, c[1]), (0, 2 * c[0]))  # the last level is not made narrower
        self.decoder = nn.ModuleList(stage(width, level, config.blocks[level]) for level, width in widths)
        self.refine = stage(2 * c[0], 0, config.refinement)
        self.output = nn.Conv2d(2 * c[0], config.out_channels, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Remove the cloud."""
        if x.dim() != 4 or x.shape[1] != self.config.in_channels or min(x.shape[2:]) < MULTIPLE:
            raise ShapeError(
                f"input came as {tuple(x.shape)}; expected (B, {self.config.in_channels}, H, W), H, W >= {MULTIPLE}"
            )
        height, width = x.shape[2:]
        x = x.contiguous(memory_format=torch.channels_last)
        y = self.embed(F.pad(x, (0, -width % MULTIPLE, 0, -height % MULTIPLE), mode="reflect"))
        skipped = []
        for level, blocks in enumerate(self.encoder):
            y = blocks(y)
            if level < LEVELS - 1:
                skipped.append(y)
                y = F.pixel_unshuffle(self.down[level](y), 2)
        for step, blocks in enumerate(self.decoder):
            y = torch.cat([F.pixel_shuffle(self.up[step](y), 2), skipped.pop()], dim=1)
            y = blocks(self.fuse[step](y) if step < len(self.fuse) else y)
        y = self.output(self.refine(y))[:, :, :height, :width]
        return y + x[:, : self.config.out_channels]  # type: ignore[no-any-return]
