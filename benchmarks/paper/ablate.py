"""Variants of one network trained under one budget and seed set, and one table of what came out.

python -m benchmarks.paper.ablate --config small-cpu --data.root DATA
"""

import hashlib
import json
import logging
import re
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any, Literal, cast, get_args

import lightning.pytorch as pl
import torch
from jsonargparse import ArgumentParser, Namespace
from lightning.pytorch.utilities.exceptions import SIGTERMException

from attcr.errors import ConfigError
from attcr.files import write_whole
from attcr.networks import name_of
from attcr.networks.attcr import ATTCR, ATTCRConfig
from attcr.train.data import PairData
from attcr.train.run import with_recipes
from attcr.train.task import RestorationTask

from .ablations import AblationConfig, Kind
from .complexity import measure

SHIPPED = Path(__file__).with_name("comparisons")
"""Comparisons by name."""
SIZE = 256
"""Side of the image that multiply-adds are stated for: the paper's."""
PAPER_PIXELS = 37_000 * 16 * 256**2
"""What the paper's RICE2 network was trained on."""


@dataclass(frozen=True)
class Variant:
    """How one network of the comparison differs from the others."""

    name: str
    """What the table calls it."""
    attention: Literal["triangular", "linear"] | Kind = "triangular"
    """The product of queries, keys and values."""
    gate: bool = True
    """Whether what comes out of it is gated."""
    scales: list[list[int]] | None = None
    """Kernel sizes of the tokens of each stage; None for those of the network."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[\w.+-]+", self.name):
            raise ConfigError(f"variant {self.name!r}: a name is made of letters, digits, and _ . + -")

    def config(self, network: ATTCRConfig) -> ATTCRConfig:
        """The network as this variant has it."""
        scales = network.scales if self.scales is None else tuple(tuple(stage) for stage in self.scales)
        changed = replace(network, attention="triangular", gate=self.gate, scales=scales)
        if self.attention in get_args(Kind):
            return AblationConfig(**asdict(changed), replacement=cast(Kind, self.attention))
        return replace(changed, attention=cast(Literal["triangular", "linear"], self.attention))


@dataclass(frozen=True)
class Budget:
    """What each run may use, in the words of Lightning's Trainer."""

    max_steps: int = 300
    """Steps of a run."""
    gradient_clip_val: float = 0.05
    """Norm that gradients are clipped to."""
    precision: Literal["32-true", "bf16-mixed", "16-mixed"] = "32-true"
    """Of the network; its weights stay float32."""
    accelerator: str = "auto"
    """cpu, gpu, or auto; one device."""

    def __post_init__(self) -> None:
        if self.max_steps < 1:
            raise ConfigError(f"trainer.max_steps={self.max_steps}: a run needs at least one step")


def ablate(args: list[str], *, say: Callable[[str], None] = lambda line: None) -> Path:
    """Train what `args` describe, tell `say` of each run, and give the Markdown file with the table.

    Runs that the folder already holds with the same settings are taken as they are, so a comparison that was
    stopped continues where it stopped.
    """
    parser = _parser()
    settings = parser.parse_args(with_recipes(args, SHIPPED))
    ready = parser.instantiate_classes(settings)
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)  # it would greet at each of the runs
    names, seeds = [variant.name for variant in ready.variants], ready.seeds
    if not names or not seeds or len(set(names)) < len(names) or len(set(seeds)) < len(seeds):
        raise ConfigError(f"variants {names}, seeds {seeds}: each needs at least one, and no two of them equal")
    if ready.network.attention != "triangular" or not ready.network.gate:
        raise ConfigError("network.attention and network.gate would have no effect: variants say what theirs are")
    common = {key: settings.as_dict()[key] for key in ("network", "model", "data", "trainer")}
    out = Path(ready.out)
    (out / "runs").mkdir(parents=True, exist_ok=True)
    results: list[dict[str, Any]] = []
    for variant in ready.variants:
        config = variant.config(ready.network)
        digest = hashlib.sha256(json.dumps([asdict(config), common], default=str, sort_keys=True).encode()).hexdigest()
        runs = []
        for seed in seeds:
            path = out / "runs" / f"{variant.name}-seed{seed}.json"
            run = json.loads(path.read_text()) if path.is_file() else {}
            if run.get("settings") != digest:
                run = {"settings": digest, "seed": seed, **_train(config, seed, ready)}
                write_whole(path, json.dumps(run, indent=2) + "\n")
            say(f"{variant.name}, seed {seed}: {run['psnr']:.2f} dB, {1000 * run['step_s']:.0f} ms a step")
            runs.append(run)
        results.append(_result(variant, config, runs, results[0]["runs"] if results else runs))
    budget = {**_budget(ready.network, ready.data, ready.trainer, seeds), "input_copied": _copied(ready)}
    write_whole(out / "ablation.json", json.dumps({"budget": budget, "variants": results}, indent=2) + "\n")
    write_whole(out / "ablation.md", _table(budget, results))
    return out / "ablation.md"


def _parser() -> ArgumentParser:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--config", action="config", help="a YAML file, or the name of a shipped comparison")
    parser.add_argument("--out", type=str, default="runs/ablation", help="the folder for runs and table")
    parser.add_argument(
        "--network", type=ATTCRConfig, default=ATTCRConfig.preset("tiny"), help="what all have in common"
    )
    parser.add_argument(
        "--variants", type=list[Variant], default=[], help="the networks to compare; first the reference"
    )
    parser.add_argument("--seeds", type=list[int], default=[0, 1, 2], help="each variant is trained once with each")
    parser.add_class_arguments(RestorationTask, "model", skip={"network", "config", "start_from"}, instantiate=False)
    parser.add_class_arguments(PairData, "data", skip={"seed"})
    parser.add_class_arguments(Budget, "trainer")
    return parser


class _Clock(pl.Callback):
    """The time of each step, waiting for data not included."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def on_train_batch_start(self, *_: Any) -> None:
        self.began = time.perf_counter()

    def on_train_batch_end(self, *_: Any) -> None:
        self.seconds.append(time.perf_counter() - self.began)


def _trainer(ready: Namespace, *callbacks: pl.Callback) -> pl.Trainer:
    return pl.Trainer(
        **asdict(ready.trainer),
        devices=1,
        callbacks=list(callbacks),
        logger=False,
        num_sanity_val_steps=0,
        enable_checkpointing=False,
        enable_model_summary=False,
        enable_progress_bar=False,
        use_distributed_sampler=False,  # the sampler draws by number
        default_root_dir=ready.out,
    )


def _train(config: ATTCRConfig, seed: int, ready: Namespace) -> dict[str, float]:
    """Train one network from one seed; give its scores on the held-out pairs and the median time of a step."""
    pl.seed_everything(seed, workers=True, verbose=False)
    task = RestorationTask(name_of(config), asdict(config), **ready.model.as_dict())
    ready.data.reseed(seed)
    clock = _Clock()
    trainer = _trainer(ready, clock)
    try:
        trainer.fit(task, ready.data)  # the run is one epoch long, and the held-out pairs are scored at its end
    except SIGTERMException:
        raise SystemExit(128 + signal.SIGTERM) from None  # Lightning would end with 0, as if all had been trained
    return {**_scores(trainer), "step_s": median(clock.seconds[2:] or clock.seconds)}


def _copied(ready: Namespace) -> dict[str, float]:
    """The scores of the input as it is, which a network gives whose last layer is zero."""
    task = RestorationTask(name_of(ready.network), asdict(ready.network), **ready.model.as_dict())
    assert isinstance(task.network, ATTCR)
    torch.nn.init.zeros_(task.network.output.weight)
    trainer = _trainer(ready)
    trainer.validate(task, ready.data, verbose=False)
    return _scores(trainer)


def _scores(trainer: pl.Trainer) -> dict[str, float]:
    return {key: float(trainer.callback_metrics[f"val_{key}"]) for key in ("psnr", "ssim")}


def _result(
    variant: Variant, config: ATTCRConfig, runs: list[dict[str, float]], reference: list[dict[str, float]]
) -> dict[str, Any]:
    """What the table says of a variant; its gain is over the reference's run of the same seed."""
    cost = measure(config, SIZE, SIZE)
    return {
        **asdict(variant),
        "parameters": cost.parameters,
        "multiply_adds": cost.multiply_adds,
        "multiply_adds_paper": cost.multiply_adds_paper,
        "psnr": _spread([run["psnr"] for run in runs]),
        "psnr_gain": _spread([run["psnr"] - other["psnr"] for run, other in zip(runs, reference, strict=True)]),
        "ssim": _spread([run["ssim"] for run in runs]),
        "step_s": median(run["step_s"] for run in runs),
        "runs": runs,
    }


def _spread(values: Sequence[float]) -> dict[str, float | None]:
    """Mean and standard deviation; one value has none."""
    return {"mean": mean(values), "sd": stdev(values) if len(values) > 1 else None}


def _budget(network: ATTCRConfig, data: PairData, trainer: Budget, seeds: list[int]) -> dict[str, Any]:
    """What each run was given, and how little that is."""
    pixels = None
    if isinstance(data.crop, int) and isinstance(data.batch_size, int):
        pixels = trainer.max_steps * data.batch_size * data.crop**2
    return {
        "network": asdict(network),
        "steps": trainer.max_steps,
        "batch": data.batch_size,
        "crop": data.crop,
        "crop_cycle": data.crop_cycle,
        "shrinks": data.shrinks,
        "precision": trainer.precision,
        "seeds": seeds,
        "data": data.describe(),
        "held_out_images": len(data.val_dataloader()[0]),
        "held_out_crop": data.val_crop,
        "share_of_the_paper_s_pixels": pixels / PAPER_PIXELS if pixels else None,
    }


def _table(budget: dict[str, Any], results: list[dict[str, Any]]) -> str:
    """The comparison in Markdown."""
    crop = f"{budget['crop']} x {budget['crop']} px" if budget["crop"] else "whole images"
    share = budget["share_of_the_paper_s_pixels"]
    small = f", {100 * share:.2g} % of the pixels that the paper's RICE2 network saw" if share else ""
    held = f"their middle {budget['held_out_crop']} px" if budget["held_out_crop"] else "whole"
    lines = [
        "# Ablation",
        "",
        f"Budget of each run: {budget['steps']} steps of {budget['batch']} crops ({crop}){small}. Data: "
        f"{', '.join(source['dataset'] for source in budget['data'])}, train part. Network of dim "
        f"{budget['network']['dim']}, {budget['precision']}. Each variant was trained from each of the seeds "
        f"{', '.join(map(str, budget['seeds']))}; with one seed all see the same batches, and begin with the same "
        "numbers in the layers that they have in common.",
        "",
        f"Scores: att-cr protocol on {budget['held_out_images']} held-out images ({held}), never on test; mean ± "
        "standard deviation over the seeds. A gain is over the first variant, seed by seed. A gain that is not "
        "several times its deviation says nothing, and none says what a full training would give. The input as it is "
        f"scores {budget['input_copied']['psnr']:.2f} dB, SSIM {budget['input_copied']['ssim']:.4f}.",
        "",
        f"| variant | parameters | multiply-adds at {SIZE} px (G) | as the paper counts | PSNR (dB) | gain (dB) | SSIM "
        "| ms per step |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines.extend(
        f"| {result['name']} | {result['parameters']:,} | {result['multiply_adds'] / 1e9:.2f} "
        f"| {result['multiply_adds_paper'] / 1e9:.2f} | {_show(result['psnr'], '.2f')} "
        f"| {_show(result['psnr_gain'], '+.2f') if result is not results[0] else ''} "
        f"| {_show(result['ssim'], '.4f')} | {1000 * result['step_s']:.0f} |"
        for result in results
    )
    return "\n".join(lines) + "\n"


def _show(spread: dict[str, float | None], how: str) -> str:
    deviation = "" if spread["sd"] is None else f" ± {spread['sd']:{how.removeprefix('+')}}"
    return f"{spread['mean']:{how}}{deviation}"


if __name__ == "__main__":
    print(ablate(sys.argv[1:], say=print).read_text())
