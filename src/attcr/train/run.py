"""`attcr train`: Lightning's own command line over our task and data, with checkpoints that are whole or absent."""

import dataclasses
import warnings
from datetime import timedelta
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
import torch.nn.functional as F
from lightning.pytorch.callbacks import Callback, LearningRateMonitor, ModelCheckpoint, RichProgressBar
from lightning.pytorch.cli import LightningCLI
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from lightning.pytorch.plugins.io import TorchCheckpointIO
from torch import Tensor

from attcr.bands.spec import InputSpec
from attcr.data import Sample
from attcr.errors import ConfigError
from attcr.files import replacing
from attcr.networks import name_of
from attcr.networks.attcr import ATTCR, Block
from attcr.train.data import PairData
from attcr.train.task import Pace, RestorationTask
from attcr.version import __version__
from attcr.weights import save_model


def train(args: list[str]) -> None:
    """Run `args` as Lightning's `fit`; a value of --config that is no file may name a shipped recipe."""
    # DDP starts its other processes with sys.argv, so it stays as it is, and Lightning warns that it is there.
    warnings.filterwarnings("ignore", "LightningCLI's args parameter is intended")
    # Ours resumes where it stopped (NumberSampler), in a way that Lightning does not look for.
    warnings.filterwarnings("ignore", ".*your dataloader is not resumable")
    with as_file(files("attcr.train") / "recipes") as recipes:
        _CLI(
            RestorationTask,
            PairData,
            args=["fit", *with_recipes(args, recipes)],
            save_config_kwargs={"overwrite": True},  # a resumed run writes into the folder of the first
        )


def with_recipes(args: list[str], recipes: Path) -> list[str]:
    """Replace the name of a shipped recipe after --config by its file."""
    known = sorted(path.stem for path in recipes.glob("*.yaml"))
    resolved = []
    for before, argument in zip(["", *args], args, strict=False):
        flag, equals, value = argument.partition("=") if argument.startswith("--config=") else ("", "", argument)
        if (before == "--config" or equals) and not Path(value).is_file():
            if value not in known:
                raise ConfigError(f"--config {value}: no such file, and no recipe. Recipes are {', '.join(known)}")
            value = str(recipes / f"{value}.yaml")
        resolved.append(flag + equals + value)
    return resolved


class _CLI(LightningCLI):
    def instantiate_trainer(self, **kwargs: Any) -> pl.Trainer:
        settings = self._get(self.config_init, "trainer", default={})
        root = settings.get("default_root_dir") or "runs"
        ours: list[Callback] = [
            *([RichProgressBar()] if settings.get("enable_progress_bar") is not False else []),
            LearningRateMonitor("step"),
            Pace(),
            Pictures(),
            ModelCheckpoint(
                Path(root, "checkpoints"),
                "last",
                train_time_interval=timedelta(minutes=10),
                enable_version_counter=False,
            ),
            Publish(),
        ]
        return super().instantiate_trainer(
            **{
                "default_root_dir": root,
                "use_distributed_sampler": False,  # the sampler knows its rank and where it stopped
                "callbacks": [*(settings.get("callbacks") or []), *ours],
                "logger": [TensorBoardLogger(root, "tensorboard"), CSVLogger(root, "csv", flush_logs_every_n_steps=10)],
                "plugins": [*(settings.get("plugins") or []), WholeCheckpointIO()],
                **kwargs,
            }
        )


class WholeCheckpointIO(TorchCheckpointIO):
    """Lightning's checkpoints, written beside their place and moved there once they are on the disk.

    A full disk or a killed process leaves the checkpoint before it as it was.
    """

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any | None = None) -> None:
        """Write, flush to the disk, then rename."""
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        with replacing(target) as partial, partial.open("wb") as file:
            torch.save(checkpoint, file)


class Pictures(Callback):
    """At each validation a picture: cloudy, restored, clear, and the mean gate of each stage's last block."""

    def __init__(self, count: int = 3) -> None:
        self.count = count

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Write PANELS/step.png in the run's folder, and to TensorBoard."""
        if trainer.sanity_checking or not trainer.is_global_zero or not isinstance(pl_module, RestorationTask):
            return
        held = trainer.val_dataloaders[0].dataset  # type: ignore[index]
        rows = [_row(pl_module, held[i], pl_module.data.spec) for i in range(min(self.count, len(held)))]
        picture = torch.cat(rows, dim=1)
        for logger in trainer.loggers:
            if isinstance(logger, TensorBoardLogger):
                logger.experiment.add_image("cloudy, restored, clear, gates", picture, trainer.global_step)
        from PIL import Image

        folder = Path(trainer.default_root_dir, "panels")
        folder.mkdir(parents=True, exist_ok=True)
        array = (picture.permute(1, 2, 0) * 255).round().byte().numpy()
        Image.fromarray(array).save(folder / f"step{trainer.global_step:06d}.png")


def _row(task: RestorationTask, sample: Sample, spec: InputSpec) -> Tensor:
    """One row of the picture, (3, H, ...), values 0..1; of networks without gates there are none."""
    gates: list[Tensor] = []
    stages = list(task.network.stages) if isinstance(task.network, ATTCR) else []
    last = [list(stage.children())[-1] for stage in stages]
    hooks = [
        block.attention.gate.register_forward_hook(lambda *call: gates.append(call[2].float().mean(1)))
        for block in last
        if isinstance(block, Block) and block.attention.gate is not None
    ]
    clear = sample["clear"]
    restored = task(sample["inputs"][None].to(task.device))[0].cpu()
    for hook in hooks:
        hook.remove()
    shown = (sample["inputs"][spec.optical], restored, clear)
    parts = [(spec.gain * image[spec.colours] / spec.span).clamp(0, 1) for image in shown]
    for gate in gates:
        gate = F.interpolate(gate[None].cpu(), clear.shape[-2:], mode="nearest")[0]
        gate = (gate - gate.min()) / (gate.max() - gate.min() + 1e-9)
        parts.append(gate.expand(3, -1, -1))
    return torch.cat(parts, dim=2)


class Publish(Callback):
    """At the end of a run, write its weights in published form with a model card filled from the run."""

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Write `weights.safetensors` and `model-card.md` into the run's folder."""
        if not trainer.is_global_zero or not isinstance(pl_module, RestorationTask):
            return
        folder = Path(trainer.default_root_dir)
        data: PairData = trainer.datamodule  # type: ignore[attr-defined]
        metrics = trainer.callback_metrics.items()
        times = trainer.world_size * trainer.accumulate_grad_batches
        batch = {step: size * times for step, size in data.batches.items()}
        provenance = {
            "attcr": __version__,
            "torch": torch.__version__,
            "steps": trainer.global_step,
            "batch": batch[0] if len(batch) == 1 else batch,
            "crop": data.crop,
            "crop_cycle": data.crop_cycle,
            "shrinks": list(data.shrinks),
            "start_from": pl_module.hparams["start_from"],
            "data": data.describe(),
            "protocol": [data.held_out(source).protocol for source in range(len(data.sources))],
            "loss": dataclasses.asdict(pl_module.spread) if pl_module.spread else pl_module.hparams["loss"],
            "optimizer": pl_module.hparams["optimizer"],
            "lr": pl_module.lr,
            "precision": str(trainer.precision),
            "validation": {key: round(float(value), 4) for key, value in metrics if key.startswith("val_")},
        }
        digest = save_model(pl_module.network, folder / "weights.safetensors", spec=data.spec, provenance=provenance)
        (folder / "model-card.md").write_text(_card(pl_module, data.spec, provenance, digest))


def _card(task: RestorationTask, spec: InputSpec, provenance: dict[str, Any], digest: str) -> str:
    settings = dataclasses.asdict(task.network.config)  # type: ignore[call-overload]
    return "\n".join(
        [
            "# Model card",
            "",
            f"sha256 of the weights: `{digest}`",
            "",
            "| | |",
            "|---|---|",
            *(f"| {name} | {value} |" for name, value in provenance.items()),
            f"| network | {name_of(task.network.config)} |",
            *(f"| config.{name} | {value} |" for name, value in settings.items()),
            f"| takes | {' '.join(slot.name for slot in spec.slots)} |",
            f"| gives | {' '.join(spec.outputs)} |",
            f"| removes | {', '.join(spec.removes)} |",
            "",
            "Scores are on a held-out part of train, under the protocol above; the test list was not looked at.",
            "What is reconstructed under thick cloud is plausible, not measured: do not measure surfaces on it.",
            "",
        ]
    )
