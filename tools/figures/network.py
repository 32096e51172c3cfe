"""What trained weights do, drawn from their own numbers on a real image: masks, a scan, tokens, gates."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor

import attcr
from attcr.networks.attcr import Attention

from .gallery import haze
from .gates import trace_gates
from .style import ORANGE, TEXT, save

Array = NDArray[Any]
WEIGHTS = "s2-thin"


def looked_at(image: Array, stage: int) -> tuple[Attention, Tensor]:
    """The attention of the first block of a stage of the weights, and what came to it for this image."""
    network = attcr.load_model(WEIGHTS)
    stages: Any = network.stages
    attention: Attention = stages[stage][0].attention
    kept: list[Tensor] = []
    attention.register_forward_pre_hook(lambda _, given: kept.append(given[0]))
    with torch.no_grad():
        network(planes(image))
    return attention, kept[0]


def planes(image: Array) -> Tensor:
    """The input of the weights for ten bands of reflectance of Sentinel-2 L2A, (1, 27, H, W)."""
    spec = attcr.read_header(WEIGHTS).spec
    names = ["blue", "green", "red", "rededge1", "rededge2", "rededge3", "nir", "nir08", "swir16", "swir22"]
    given = dict(zip(names, image, strict=True))
    made = []
    for slot in spec.slots:
        band = slot.name.removeprefix("present:")
        if slot.name == "level:surface" or (slot.name.startswith("present:") and band in given):
            made.append(np.full(image.shape[1:], slot.span))
        elif slot.name in given:
            made.append((given[band] - slot.low) / (slot.high - slot.low) * slot.span)
        else:
            made.append(np.zeros(image.shape[1:]))
    return torch.from_numpy(np.stack(made)[None].astype(np.float32))


def weights_of(attention: Attention, x: Tensor, scale: int = 0) -> Array:
    """How much each pixel takes from each other, (heads, N, N): what the scan computes without making it."""
    with torch.no_grad():
        query = torch.nn.functional.elu(attention._tokens(attention.query(x))[0]) + 1
        keys = torch.nn.functional.elu(attention._tokens(attention.scales[scale](x).chunk(2, dim=1)[0])[0]) + 1
    product = query @ keys.transpose(1, 2)  # h, N, N
    back = torch.ones(product.shape[1:]).tril().bool()
    half = len(product) // 2
    masked = torch.cat([product[:half] * back, product[half:] * back.T])
    return np.asarray(masked / masked.sum(-1, keepdim=True))


def triangles(folder: Path, data: Path) -> None:
    """The weights between all pixels of a small image: a lower and an upper triangle."""
    image = haze(data)[0][:, 96:112, 96:112]
    table = weights_of(*looked_at(image, 0))
    figure = Figure((7.4, 3.7), layout="constrained")
    for axes, head, title in zip(figure.subplots(1, 2), (0, -1), ("looks back", "looks ahead"), strict=True):
        seen = np.where(table[head] > 0, np.log10(np.maximum(table[head], 1e-6)), np.nan)
        shown = axes.imshow(seen, cmap="viridis", vmin=-3.5, vmax=0)
        axes.set_title(f"a head that {title}", fontsize=10, color=TEXT)
        axes.set(xlabel="takes from pixel", ylabel="pixel, row by row")
    bar = figure.colorbar(shown, ax=figure.axes, shrink=0.8, label="log10 of the weight")
    bar.outline.set_visible(False)
    save(figure, folder / "triangles.webp")


def scan(folder: Path, data: Path) -> None:
    """From where one pixel takes, over the image: what was scanned before it, and what comes after."""
    image = haze(data)[0][:, 64:128, 64:128]
    attention, x = looked_at(image, 0)
    table = weights_of(attention, x)
    side, row, col = image.shape[1], 34, 30
    figure = Figure((9.0, 3.2), layout="constrained")
    places = figure.subplots(1, 3)
    places[0].imshow(np.clip(image[[2, 1, 0]] / 0.25, 0, 1).transpose(1, 2, 0))
    places[0].set_title("the image, and a pixel", fontsize=10, color=TEXT)
    for axes, head, title in zip(
        places[1:], (0, -1), ("taken by a head that looks back", "... and ahead"), strict=True
    ):
        values = table[head, row * side + col].reshape(side, side)
        axes.imshow(np.where(values > 0, values, np.nan), cmap="viridis", vmin=0, vmax=np.percentile(values, 99.5))
        axes.set_title(title, fontsize=10, color=TEXT)
    for axes in places:
        axes.plot(col, row, "s", markerfacecolor="none", markeredgecolor=ORANGE, markersize=9, markeredgewidth=2)
        axes.axis("off")
    save(figure, folder / "scan.webp")


def tokens(folder: Path, data: Path) -> None:
    """One channel of the keys at both scales of stage 1, and the kernel that each is spread with."""
    image = haze(data)[0][:, 0:128, 0:128]
    attention, x = looked_at(image, 0)
    figure = Figure((9.0, 2.7), layout="constrained")
    places = figure.subplots(1, 5, width_ratios=(1, 1, 0.5, 1, 0.5))
    places[0].imshow(np.clip(image[[2, 1, 0]] / 0.25, 0, 1).transpose(1, 2, 0))
    places[0].set_title("image", fontsize=10, color=TEXT)
    scales: Any = attention.scales
    for number, tokens_of in enumerate(scales):
        with torch.no_grad():
            keys = tokens_of(x).chunk(2, dim=1)[0][0]
        channel = int(keys.flatten(1).std(1).argmax())
        kernel = next(tokens_of.spread.parameters())[channel, 0].detach().numpy()
        low, high = np.percentile(keys[channel].numpy(), (2, 98))
        places[2 * number + 1].imshow(keys[channel].numpy(), cmap="viridis", vmin=low, vmax=high)
        places[2 * number + 1].set_title(f"keys, scale {len(kernel)}", fontsize=10, color=TEXT)
        limit = np.abs(kernel).max()
        places[2 * number + 2].imshow(kernel, cmap="coolwarm", vmin=-limit, vmax=limit)
        places[2 * number + 2].set_title(f"its {len(kernel)} x {len(kernel)}\nkernel", fontsize=9, color=TEXT)
    for axes in places:
        axes.axis("off")
    save(figure, folder / "tokens.webp")


def gates(folder: Path, data: Path) -> None:
    """The gate of stage 2 on real haze: the channel that holds back, and the one that lets through, what is bright."""
    image = haze(data)[0]
    traced = trace_gates(attcr.load_model(WEIGHTS), planes(image)[0]).stages[1]
    order = np.argsort(traced.correlation)
    figure = Figure((9.0, 3.1), layout="constrained")
    places = figure.subplots(1, 3)
    places[0].imshow(np.clip(image[[2, 1, 0]] / 0.25, 0, 1).transpose(1, 2, 0))
    places[0].set_title("haze over Rondonia", fontsize=10, color=TEXT)
    for axes, channel in zip(places[1:], (order[0], order[-1]), strict=True):
        shown = axes.imshow(traced.gate[channel], cmap="magma")
        axes.set_title(
            f"gate, stage 2, channel {channel}: r = {traced.correlation[channel]:+.2f}", fontsize=9.5, color=TEXT
        )
        figure.colorbar(shown, ax=axes, shrink=0.75).outline.set_visible(False)
    for axes in places:
        axes.axis("off")
    save(figure, folder / "gate.webp")


DRAWN = (triangles, scan, tokens, gates)
