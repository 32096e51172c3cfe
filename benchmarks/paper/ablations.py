"""The attentions that the paper compares with its own, each in the place of the triangular product.

Query, multi-scale tokens, merge, gate and output stay as they are in `attcr.py`. docs/engineering/ablations.md shows
how each fits the paper's table of parameters and multiply-adds.
"""

# B batch, C channels of the stage, H W pixels, N = H*W, h heads, d head dim, W windows of M = 64 pixels

from dataclasses import dataclass
from math import log
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attcr.errors import ConfigError
from attcr.networks.attcr import ATTCR, ATTCRConfig, Attention, Block, ChannelNorm

Kind = Literal["mdta", "efficient", "focused-taylor", "swin", "linear-sra"]
"""The attentions of this module."""

WINDOW = 8
"""Side of a window of `swin`, in pixels."""
POOLED = 7
"""Side of what `linear-sra` pools keys and values to."""


@dataclass(frozen=True)
class AblationConfig(ATTCRConfig):
    """A network with another paper's attention."""

    replacement: Kind = "mdta"
    """The attention that replaces the triangular product."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.attention != "triangular":
            raise ConfigError(
                f"attention={self.attention!r} and replacement={self.replacement!r}: choose one of the two"
            )
        if self.replacement not in get_args(Kind):
            raise ConfigError(f"replacement={self.replacement!r}; choose one of {', '.join(get_args(Kind))}")


class Ablation(ATTCR):
    """The ATT-CR network with a replacement in every block.

    From one seed, all layers that it has in common with ATT-CR begin with the same numbers.
    """

    def __init__(self, config: AblationConfig) -> None:
        super().__init__(config)
        for stage, blocks in enumerate(self.stages):
            for number, block in enumerate(blocks.children()):
                assert isinstance(block, Block)
                replacement = _replacement(config, stage, number)
                replacement.load_state_dict(block.attention.state_dict(), strict=False)
                block.attention = replacement


def _replacement(config: AblationConfig, stage: int, block: int) -> "Replacement":
    if config.replacement == "swin":
        return WindowAttention(config, stage, shift=WINDOW // 2 * (block % 2))
    kinds: dict[Kind, type[Replacement]] = {
        "mdta": TransposedAttention,
        "efficient": EfficientAttention,
        "focused-taylor": FocusedTaylorAttention,
        "linear-sra": PooledAttention,
    }
    return kinds[config.replacement](config, stage)


class Replacement(Attention):
    """The module of `attcr.py` with its product left to a subclass."""

    def forward(self, x: Tensor) -> Tensor:
        """Attend over all pixels of (B, C, H, W)."""
        query = self.query(x)
        mixed = [self.mix(query, *self.keys_values(x, scale)).flatten(2) for scale in range(len(self.scales))]
        merged: Tensor = self.merge(torch.cat(mixed, dim=1).transpose(1, 2))  # B, N, C
        y = merged.unflatten(1, x.shape[2:]).permute(0, 3, 1, 2)  # B, C, H, W
        if self.gate is not None:
            y = y * self.gate(x)
        return self.out(y)  # type: ignore[no-any-return]

    def keys_values(self, x: Tensor, scale: int) -> tuple[Tensor, Tensor]:
        """Keys and values (B, C, H, W) of one scale."""
        keys, values = self.scales[scale](x).chunk(2, dim=1)
        return keys, values

    def mix(self, query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """(B, C, H, W) of the attention's product, in the shape of the query."""
        raise NotImplementedError

    def products(self, height: int, width: int) -> int:
        """Multiply-adds of the products on height x width pixels, all scales; layers not included.

        Here two of d x d for each head and pixel.
        """
        channels = self.out.in_channels
        return len(self.scales) * height * width * 2 * channels * channels // self.heads

    def _image(self, tokens: Tensor, like: Tensor) -> Tensor:
        """(B, h, N, d) back to (B, C, H, W)."""
        return tokens.transpose(-1, -2).reshape(like.shape)


class TransposedAttention(Replacement):
    """MDTA of Restormer: channels attend to channels, over all pixels.

    O = V softmax(t K^T Q) with each channel of Q and K of unit length over the pixels, and t learned for each head.
    """

    def __init__(self, config: ATTCRConfig, stage: int) -> None:
        super().__init__(config, stage)
        self.temperature = nn.Parameter(torch.ones(self.heads, 1, 1))

    def mix(self, query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """(B, C, H, W) of the attention's product, in the shape of the query."""
        q, k = (F.normalize(self._tokens(x), dim=-2) for x in (query, keys))
        weights = torch.softmax(q.transpose(-1, -2) @ k * self.temperature, dim=-1)  # B, h, d, d
        return self._image(self._tokens(values) @ weights.transpose(-1, -2), query)


class EfficientAttention(Replacement):
    """Efficient attention of Shen et al.: softmax of the queries over channels and of the keys over pixels."""

    def mix(self, query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """(B, C, H, W) of the attention's product, in the shape of the query."""
        q, k = torch.softmax(self._tokens(query), dim=-1), torch.softmax(self._tokens(keys), dim=-2)
        return self._image(q @ (k.transpose(-1, -2) @ self._tokens(values)), query)


class FocusedTaylorAttention(Replacement):
    """FT-Attention of CR-former: exp(q.k / sqrt(d)) as 1 + q.k / sqrt(d), on queries and keys that were focused.

    Focused: negative numbers cut off, squared, and brought to unit length over all channels of the pixel.
    """

    def mix(self, query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """(B, C, H, W) of the attention's product, in the shape of the query."""
        q, k = (self._tokens(self._focus(x)) for x in (query, keys))
        v = self._tokens(values)
        q = q * q.shape[-1] ** -0.5
        total = k.shape[-2] + q @ k.sum(-2, keepdim=True).transpose(-1, -2)  # B, h, N, 1
        return self._image((v.sum(-2, keepdim=True) + q @ (k.transpose(-1, -2) @ v)) / total, query)

    @staticmethod
    def _focus(x: Tensor) -> Tensor:
        return F.normalize((F.relu(x) + 1e-6) ** 2, dim=1)

    def products(self, height: int, width: int) -> int:
        """Multiply-adds of K^T V, of its product with Q, and of the normaliser."""
        return super().products(height, width) + len(self.scales) * height * width * self.out.in_channels


class PooledAttention(Replacement):
    """Linear SRA of PVT v2: softmax attention to keys and values made from the image pooled to 7 x 7.

    SR(x) = GELU(Norm(W pool(x))), W for each scale, the norm shared by the scales, as the query is.
    """

    def __init__(self, config: ATTCRConfig, stage: int) -> None:
        super().__init__(config, stage)
        channels = config.channels[stage]
        self.reduce = nn.ModuleList(nn.Conv2d(channels, channels, 1, bias=False) for _ in self.scales)
        self.norm = ChannelNorm(channels)

    def keys_values(self, x: Tensor, scale: int) -> tuple[Tensor, Tensor]:
        """Keys and values (B, C, 7, 7) of one scale."""
        pooled = F.adaptive_avg_pool2d(x, POOLED)
        return super().keys_values(F.gelu(self.norm(self.reduce[scale](pooled))), scale)

    def mix(self, query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """(B, C, H, W) of the attention's product, in the shape of the query."""
        q, k, v = (self._tokens(x) for x in (query, keys, values))
        return self._image(F.scaled_dot_product_attention(q, k, v), query)

    def products(self, height: int, width: int) -> int:
        """Multiply-adds of Q K^T and of its product with V."""
        return len(self.scales) * height * width * 2 * POOLED**2 * self.out.in_channels


class WindowAttention(Replacement):
    """Shifted windows of Swin, in the form of its version 2: cosine similarity and a position bias made by an MLP.

    Softmax attention inside windows of 8 x 8 pixels; every second block of a stage moves the windows by half.
    The MLP and the temperature are shared by the scales.
    """

    offsets: Tensor  # (2*8 - 1)^2, 2
    pairs: Tensor  # M, M: the offset of each pair of pixels of a window

    def __init__(self, config: ATTCRConfig, stage: int, *, shift: int = 0) -> None:
        super().__init__(config, stage)
        self.shift = shift
        self.temperature = nn.Parameter(torch.full((self.heads, 1, 1), log(10)))
        self.position = nn.Sequential(nn.Linear(2, 512), nn.ReLU(), nn.Linear(512, self.heads, bias=False))
        reach = torch.arange(1 - WINDOW, WINDOW)
        steps = torch.cartesian_prod(reach, reach) * (8 / (WINDOW - 1))
        steps = steps.sign() * (1 + steps.abs()).log2() / 3  # Swin v2's log-spaced steps, -1.06 .. 1.06
        self.register_buffer("offsets", steps, persistent=False)
        place = torch.cartesian_prod(torch.arange(WINDOW), torch.arange(WINDOW))
        row, col = (place[:, None] - place[None] + WINDOW - 1).unbind(-1)
        self.register_buffer("pairs", row * (2 * WINDOW - 1) + col, persistent=False)

    def mix(self, query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """(B, C, H, W) of the attention's product, in the shape of the query."""
        height, width = query.shape[2:]
        shift = self.shift if min(height, width) > WINDOW else 0
        q, k, v = (self._windows(x, shift) for x in (query, keys, values))  # B, W, h, M, d
        similarity = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-1, -2)
        bias = 16 * torch.sigmoid(self.position(self.offsets))[self.pairs].permute(2, 0, 1)  # h, M, M
        similarity = similarity * self.temperature.clamp(max=log(100)).exp() + bias
        similarity = similarity.masked_fill(self._apart(query, shift), -torch.inf)
        mixed = torch.softmax(similarity, dim=-1) @ v
        rows, cols = -(-height // WINDOW), -(-width // WINDOW)
        mixed = mixed.unflatten(3, (WINDOW, WINDOW)).unflatten(1, (rows, cols)).permute(0, 3, 6, 1, 4, 2, 5)
        image: Tensor = mixed.reshape(*query.shape[:2], rows * WINDOW, cols * WINDOW)
        return image.roll((shift, shift), (2, 3))[:, :, :height, :width]

    def _windows(self, x: Tensor, shift: int) -> Tensor:
        """(B, C, H, W) as (B, W, h, M, d), filled up with zeros."""
        x = F.pad(x, (0, -x.shape[3] % WINDOW, 0, -x.shape[2] % WINDOW)).roll((-shift, -shift), (2, 3))
        x = x.unflatten(3, (-1, WINDOW)).unflatten(2, (-1, WINDOW)).unflatten(1, (self.heads, -1))
        return x.permute(0, 3, 5, 1, 4, 6, 2).flatten(4, 5).flatten(1, 2)

    @staticmethod
    def _apart(like: Tensor, shift: int) -> Tensor:
        """Which pairs of a window do not belong together (W, 1, M, M): filling, or come round from the other edge."""
        labels = []
        for size in like.shape[2:]:
            place = torch.arange(size + -size % WINDOW, device=like.device)
            labels.append(2 * (place < shift) + (place >= size).long())
        region: Tensor = (4 * labels[0][:, None] + labels[1]).roll((-shift, -shift), (0, 1))
        region = region.unflatten(1, (-1, WINDOW)).unflatten(0, (-1, WINDOW)).transpose(1, 2).reshape(-1, WINDOW**2)
        return region[:, None, :, None] != region[:, None, None, :]

    def products(self, height: int, width: int) -> int:
        """Multiply-adds of Q K^T and of its product with V, in whole windows."""
        windows = -(-height // WINDOW) * -(-width // WINDOW)
        return len(self.scales) * windows * 2 * WINDOW**4 * self.out.in_channels
