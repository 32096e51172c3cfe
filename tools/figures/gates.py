"""What the gates do to an image: their values in the last block of each stage, traced and drawn (paper, IV-F).

python -m tools.figures.gates a.png b.png --weights rice2-small --out FOLDER
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from attcr.bands.spec import InputSpec
from attcr.data.pairs import EIGHT_BIT, read_image
from attcr.errors import ConfigError, DataError
from attcr.evaluate.figures import new_figure, picture, save_figure
from attcr.networks.attcr import ATTCR, Block
from attcr.weights import load_model

Array = NDArray[Any]


@dataclass(frozen=True)
class StageGate:
    """The gate of one stage's last block on one image, at the stage's size."""

    stage: int
    """1 to 5."""
    gate: Array
    """(C, H, W), the factors as they are: neither bounded nor normalised."""
    before: Array
    """(C, H, W), the attention's output before the gate."""
    brightness: Array
    """(H, W), the input's mean over the bands that are restored: where a cloud is thick it is high."""

    @property
    def after(self) -> Array:
        """The attention's output after the gate, (C, H, W)."""
        return self.before * self.gate

    @property
    def mean(self) -> Array:
        """Mean of the gate over the channels, (H, W)."""
        return np.asarray(self.gate.mean(0))

    @cached_property
    def correlation(self) -> Array:
        """Of each channel's gate with the brightness, (C,)."""
        return _correlation(self.gate, self.brightness)

    @cached_property
    def size_correlation(self) -> Array:
        """Of the magnitude of each channel's gate with the brightness, (C,): below 0, what is bright is held back."""
        return _correlation(np.abs(self.gate), self.brightness)

    def summary(self) -> dict[str, Any]:
        """Its numbers, as JSON can hold them."""
        mean = self.mean
        return {
            "stage": self.stage,
            "channels": len(self.gate),
            "mean": float(mean.mean()),
            "spread_over_pixels": float(mean.std()),
            "percentiles_of_channel_mean": {str(p): float(np.percentile(mean, p)) for p in (5, 25, 50, 75, 95)},
            "share_negative": float((self.gate < 0).mean()),
            "correlation": [round(float(r), 4) for r in self.correlation],
            "size_correlation": [round(float(r), 4) for r in self.size_correlation],
        }


def _correlation(maps: Array, brightness: Array) -> Array:
    """Of each of (C, H, W) with (H, W); 0 where one of the two does not vary."""
    values = maps.reshape(len(maps), -1).astype(np.float64)
    values -= values.mean(1, keepdims=True)
    light = brightness.ravel() - brightness.mean(dtype=np.float64)
    norm = np.sqrt((values**2).sum(1) * (light**2).sum())
    return np.asarray(np.divide(values @ light, norm, out=np.zeros(len(values)), where=norm > 1e-12))


@dataclass(frozen=True)
class GateTrace:
    """One image on its way through the network; images are (C, H, W) in the model's range."""

    cloudy: Array
    """The bands to restore, before restoring."""
    restored: Array
    stages: tuple[StageGate, ...]
    spec: InputSpec
    """What the bands are."""

    def picture(self, image: Array) -> Array:
        """Give (H, W, 3) in [0, 1] of the cloudy or the restored bands."""
        return picture(image / self.spec.span, self.spec)


def trace_gates(model: nn.Module, image: Tensor) -> GateTrace:
    """Restore an image (S, H, W) and keep what the gate of each stage's last block did to it.

    The network needs a `spec`, as those from `load_model` have.
    """
    if not isinstance(model, ATTCR) or not model.config.gate:
        raise ConfigError("this network was made without a gate (gate=False); there is nothing to show")
    spec = _spec_of(model)
    kept: list[dict[str, Tensor]] = [{} for _ in model.stages]
    hooks = []
    for stage, blocks in enumerate(model.stages):
        block = list(blocks.children())[-1]
        assert isinstance(block, Block)
        assert block.attention.gate is not None
        for name, module in (("gate", block.attention.gate), ("before", block.attention.merge)):
            keep = partial(lambda kept, name, *call: kept.update({name: call[2]}), kept[stage], name)
            hooks.append(module.register_forward_hook(keep))
    try:
        with torch.no_grad():
            restored = model(image[None])[0]
    finally:
        for hook in hooks:
            hook.remove()
    cloudy = image[spec.optical]
    light = cloudy.mean(0, keepdim=True)
    light = F.pad(light[None], (0, -light.shape[2] % 4, 0, -light.shape[1] % 4), mode="reflect")  # as the network does
    stages = []
    for number, values in enumerate(kept, 1):
        gate = values["gate"][0].float()  # C, H, W
        before = values["before"].float().reshape(*gate.shape[1:], -1).permute(2, 0, 1)  # from N, C
        brightness = F.adaptive_avg_pool2d(light, (gate.shape[1], gate.shape[2]))[0, 0]
        stages.append(StageGate(number, gate.numpy(), before.numpy(), brightness.numpy()))
    bands = restored[: len(spec.outputs)].float()  # a predicted spread may follow
    return GateTrace(cloudy.numpy(), bands.numpy(), tuple(stages), spec)


def _spec_of(model: nn.Module) -> InputSpec:
    spec = getattr(model, "spec", None)
    if not isinstance(spec, InputSpec):
        raise ConfigError("this network does not say what it takes: set model.spec, as attcr.load_model does")
    return spec


def trace_files(model: nn.Module, paths: Sequence[Path]) -> dict[str, GateTrace]:
    """Trace 8-bit pictures, each under its name without ending."""
    names = [path.stem for path in paths]
    if len(set(names)) < len(names):
        raise ConfigError(
            f"images {', '.join(map(str, paths))}: no two may have the same name, because figures are named after them"
        )
    spec, traces = _spec_of(model), {}
    for path in paths:
        image = read_image(path)
        if image.dtype != np.uint8 or len(image) != len(spec.slots):
            raise DataError(
                f"{path} has {len(image)} bands of {image.dtype}; these weights take {len(spec.slots)} "
                f"({' '.join(slot.name for slot in spec.slots)}), and figures are drawn of 8-bit pictures"
            )
        traces[path.stem] = trace_gates(model, torch.from_numpy(spec.fit(EIGHT_BIT).to_model(image)))
    return traces


def save_channels(path: Path, trace: GateTrace, *, each: int = 4) -> None:
    """Draw, for each stage, the mean gate and the channels that follow the brightness most clearly, down and up.

    Each map has its own grey scale from its 1st to its 99th percentile, written under it; values are signed.
    """
    columns = 1 + 2 * each
    figure = new_figure(1.55 * columns, 1.9 * (len(trace.stages) + 1))
    axes = figure.subplots(len(trace.stages) + 1, columns, squeeze=False)
    _show_ends(axes[0], trace)
    for row, stage in zip(axes[1:], trace.stages, strict=True):
        _show(row[0], stage.mean, f"stage {stage.stage}: mean of {len(stage.gate)}")
        order = np.argsort(stage.correlation, kind="stable")
        for axis, channel in zip(row[1:], [*order[:each], *order[-each:]], strict=True):
            _show(axis, stage.gate[channel], f"{channel}, r = {stage.correlation[channel]:+.2f}")
    figure.suptitle(
        "Gate of the last block of each stage; r is its correlation with the input's brightness", fontsize=10
    )
    save_figure(figure, path)


def save_before_after(path: Path, trace: GateTrace) -> None:
    """Draw, for each stage, the attention's output before the gate, the gate, and the output after it.

    The two channels are those whose gate holds back and lets through most clearly what is bright. All is drawn as
    magnitude in units of its own mean, from 0 to 3: a gate may be negative, and then passes with another sign.
    """
    figure = new_figure(10.5, 1.9 * (len(trace.stages) + 1))
    axes = figure.subplots(len(trace.stages) + 1, 6, squeeze=False)
    _show_ends(axes[0], trace)
    for row, stage in zip(axes[1:], trace.stages, strict=True):
        r = stage.size_correlation
        for first, channel in ((0, int(r.argmin())), (3, int(r.argmax()))):
            titles = (f"stage {stage.stage}, channel {channel}: before", f"gate, r = {r[channel]:+.2f}", "after")
            maps = (stage.before[channel], stage.gate[channel], stage.after[channel])
            for axis, values, title in zip(row[first : first + 3], maps, titles, strict=True):
                _show(axis, _relative(values), title, (0.0, 3.0))
    figure.suptitle("What goes into and comes out of the gate: magnitude, 1 is the mean of the map", fontsize=10)
    save_figure(figure, path)


def save_distributions(path: Path, traces: Mapping[str, GateTrace]) -> None:
    """Draw the distribution over the pixels of the gate's mean over channels: a row an image, a column a stage."""
    every = list(traces.values())
    stages = len(every[0].stages)
    figure = new_figure(2.2 * (stages + 1), 2 * len(every))
    axes = figure.subplots(len(every), stages + 1, squeeze=False)
    for row, (name, trace) in zip(axes, traces.items(), strict=True):
        _show_picture(row[0], trace, trace.cloudy, name)
    for column in range(stages):
        values = [trace.stages[column].mean for trace in every]
        low, high = min(v.min() for v in values), max(v.max() for v in values)
        margin = 0.02 * (high - low) or 1e-3
        for row, mean in zip(axes, values, strict=True):
            axis = row[column + 1]
            axis.hist(mean.ravel(), bins=60, range=(low - margin, high + margin), density=True, color="tab:blue")
            axis.axvline(float(mean.mean()), color="black", linewidth=1)
            axis.set_title(f"stage {column + 1}: {mean.mean():.3f} ± {mean.std():.3f}", fontsize=8)
            axis.tick_params(labelsize=7)
            axis.locator_params(axis="x", nbins=4)
            axis.set_yticks([])
    save_figure(figure, path)


def save_one_channel(path: Path, traces: Mapping[str, GateTrace], *, stage: int = 2) -> int:
    """Draw one channel of a stage's gate under each image, and give its number.

    It is the channel that, over all the images, holds back most clearly what is bright. Drawn is its magnitude.
    """
    gates = [trace.stages[stage - 1] for trace in traces.values()]
    channel = int(np.argmin(np.mean([gate.size_correlation for gate in gates], axis=0)))
    figure = new_figure(2.2 * max(2, len(gates)), 4.8)
    axes = figure.subplots(2, len(gates), squeeze=False)
    for column, (name, trace), gate in zip(axes.T, traces.items(), gates, strict=True):
        _show_picture(column[0], trace, trace.cloudy, name)
        _show(column[1], np.abs(gate.gate[channel]), f"r = {gate.size_correlation[channel]:+.2f}")
    figure.suptitle(f"Gate of stage {stage}, channel {channel} (magnitude)", fontsize=10)
    save_figure(figure, path)
    return channel


def draw_gates(traces: Mapping[str, GateTrace], folder: Path) -> list[Path]:
    """Write all figures of the named images and their numbers (`gates.json`) into a folder; give the files."""
    written = []
    for name, trace in traces.items():
        for ending, save in (("channels", save_channels), ("before-after", save_before_after)):
            written.append(folder / f"{name}-{ending}.png")
            save(written[-1], trace)
    save_distributions(folder / "distributions.png", traces)
    channel = save_one_channel(folder / "stage-2-channel.png", traces)
    numbers = {
        "images": {name: [stage.summary() for stage in trace.stages] for name, trace in traces.items()},
        "channel_of_stage_2": channel,
    }
    (folder / "gates.json").write_text(json.dumps(numbers, indent=2) + "\n")
    return [*written, folder / "distributions.png", folder / "stage-2-channel.png", folder / "gates.json"]


def _relative(values: Array) -> Array:
    """Magnitude in units of its mean."""
    size = np.abs(values)
    return np.asarray(size / max(float(size.mean()), 1e-12))


def _show(axis: Any, values: Array, title: str, limits: tuple[float, float] | None = None) -> None:
    low, high = limits or (float(np.percentile(values, 1)), float(np.percentile(values, 99)))
    axis.imshow(values, cmap="gray", vmin=low, vmax=high)
    axis.set_title(title, fontsize=7)
    axis.set_xlabel(f"{low:.3g} .. {high:.3g}", fontsize=7)
    axis.set_xticks([])
    axis.set_yticks([])


def _show_ends(row: Sequence[Any], trace: GateTrace) -> None:
    """Draw the input and the result into the first two places of a row; the others stay empty."""
    for axis in row:
        axis.set_axis_off()
    _show_picture(row[0], trace, trace.cloudy, "cloudy")
    _show_picture(row[1], trace, trace.restored, "restored")


def _show_picture(axis: Any, trace: GateTrace, image: Array, title: str) -> None:
    axis.imshow(trace.picture(image))
    axis.set_title(title, fontsize=8)
    axis.set_axis_off()


def main() -> None:
    """Draw what the gates of a network do to images: channels, before and after, distributions."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images", nargs="+", type=Path, help="cloudy RGB images")
    parser.add_argument("--weights", required=True, help="a published name (see attcr weights), or a path")
    parser.add_argument("--out", required=True, type=Path, help="the folder for figures and gates.json")
    given = parser.parse_args()
    for path in draw_gates(trace_files(load_model(given.weights), given.images), given.out):
        print(path)


if __name__ == "__main__":
    main()
