"""The training task: loss, optimiser, schedule, validation under the protocol of the data."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import lightning.pytorch as pl
import torch
from lightning.pytorch.utilities.types import OptimizerLRScheduler
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from attcr.bands.spec import InputSpec
from attcr.data import Sample
from attcr.data.sets import ERROR_LEFT
from attcr.errors import AttcrError, ConfigError
from attcr.evaluate.protocols import IMAGE_PROTOCOLS
from attcr.networks import build_network, make_config, name_of
from attcr.networks.attcr import Block
from attcr.train.data import PairData
from attcr.train.muon import Muon
from attcr.weights import load_model


class NotFiniteError(AttcrError, FloatingPointError):
    """A loss that is NaN or infinite: the run stops, and the names of its batch are on disk."""


@dataclass(frozen=True)
class SpreadLoss:
    """The loss of a network that gives its expected error after the bands: L1, and the parts that are weighed here.

    Only bands that are there count, and of other dates only the gap; each image counts the same.
    """

    likelihood: float = 0.1
    """Weight of the expected errors' Laplace likelihood. It teaches them alone: it does not move the bands."""
    log_mse: float = 0.0
    """Weight of the logarithm of the mean square."""
    least: float = 1e-2
    """Added to each error in the likelihood, so that none is expected to be 0."""
    limits: tuple[float, float] = (-5.0, 3.0)
    """Of the logarithm of the expected error."""

    def __call__(self, out: Tensor, batch: Sample, spec: InputSpec) -> Tensor:
        """Give the loss of (B, 2C, H, W)."""
        bands = len(spec.outputs)
        counted = _counted(batch["inputs"], spec)
        count = counted.sum((1, 2, 3)).clamp_min(1)
        error = (out[:, :bands] - batch["clear"]) * counted
        loss = (error.abs().sum((1, 2, 3)) / count).mean()
        if self.log_mse:
            loss = loss + self.log_mse * torch.log(error.square().sum((1, 2, 3)) / count + 2e-5).mean()
        scale = (out[:, bands:] + math.log(spec.spread_factor)).clamp(*self.limits)
        likelihood = ((error.detach().abs() + self.least) * torch.exp(-scale) + scale) * counted
        return loss + self.likelihood * (likelihood.sum((1, 2, 3)) / count).mean()


def _counted(inputs: Tensor, spec: InputSpec) -> Tensor:
    """Give (B, C, H, W) of 1 where an output counts: its band is there and, of other dates, it lies in the gap."""
    present = inputs[:, spec.positions(f"present:{name}" for name in spec.outputs)]
    return present * inputs[:, spec.positions(["mask:gap"])] if spec.corrects_references else present


class RestorationTask(pl.LightningModule):
    """Learn to restore: a network under one loss and one schedule."""

    def __init__(
        self,
        network: str = "attcr",
        config: dict[str, Any] | None = None,
        *,
        loss: Literal["l1", "mse", "log-mse"] = "l1",
        spread: SpreadLoss | None = None,
        optimizer: Literal["adamw", "muon"] = "adamw",
        lr: float = 4e-4,
        betas: tuple[float, float] = (0.9, 0.999),
        weight_decay: float = 1e-4,
        schedule: Literal["flat-cosine", "multistep"] = "flat-cosine",
        flat: float = 0.3,
        min_lr: float = 2e-6,
        milestones: tuple[float, ...] = (0.5, 2 / 3, 5 / 6),
        warmup_steps: int = 0,
        start_from: str | None = None,
        zero_output: bool = False,
        checkpoint_blocks: bool = False,
    ) -> None:
        """Describe how a network is trained.

        Args:
            network: its name in NETWORKS.
            config: the network's settings; those not named are as its config class has them.
            loss: mean absolute or mean squared difference; `log-mse` is the mean over images of the squared one's
                logarithm, what PSNR is made of: images that are almost clear weigh as much as hidden ones.
            spread: for a network that gives its expected error after the bands: the loss in place of `loss`.
            optimizer: AdamW, or Muon for matrices and AdamW for all else, which learns more in each step.
            lr: learning rate at its height.
            betas: of AdamW.
            weight_decay: of AdamW and Muon.
            schedule: flat then cosine down to `min_lr`, or halved at each of the `milestones`.
            flat: share of the steps before the cosine begins.
            min_lr: where the cosine ends.
            milestones: shares of the steps at which `multistep` halves the rate.
            warmup_steps: steps over which the rate first rises, in a line from 0.
            start_from: weights to begin from instead of random ones, by name or path; the settings are theirs where
                `config` is not given.
            zero_output: begin with a last layer of 0, so that nothing is added to the input at first.
            checkpoint_blocks: recompute each block in the backward instead of keeping its activations.

        """
        super().__init__()
        self.save_hyperparameters()
        self.network = _begin(network, config, start_from)
        if zero_output:
            torch.nn.init.zeros_(self.network.get_parameter("output.weight"))
        self.network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        if checkpoint_blocks:
            _recompute_blocks(self.network, network)
        losses: dict[str, Callable[[Tensor, Tensor], Tensor]]
        losses = {"l1": F.l1_loss, "mse": F.mse_loss, "log-mse": _log_mse}
        self.loss, self.spread = losses[loss], spread
        self.optimizer = {"adamw": torch.optim.AdamW, "muon": Muon}[optimizer]
        self.lr, self.betas, self.weight_decay = lr, betas, weight_decay
        self.schedule, self.flat, self.min_lr, self.milestones = schedule, flat, min_lr, tuple(milestones)
        self.warmup_steps = warmup_steps

    @property
    def data(self) -> PairData:
        """The data of the run."""
        data = self.trainer.datamodule  # type: ignore[attr-defined]
        assert isinstance(data, PairData), "a task is trained on PairData"
        return data

    def setup(self, stage: str) -> None:
        """Refuse data whose planes are not those of the network."""
        spec = self.data.spec
        config: Any = self.network.config
        given = (len(spec.slots), len(spec.outputs) * (1 + spec.spread))
        wanted = (config.in_channels, config.out_channels)
        if given != wanted:
            raise ConfigError(
                f"the network takes {wanted[0]} planes and gives {wanted[1]}, and the data has {given[0]} "
                f"({' '.join(slot.name for slot in spec.slots)}) and {given[1]}: start from weights of these bands, or "
                "set --model.config's in_channels and out_channels"
            )
        if spec.spread != (self.spread is not None):
            raise ConfigError("--model.spread is for data of which the error is learned too, and only for it")

    def forward(self, inputs: Tensor) -> Tensor:
        """Restore a batch; the result is float32."""
        return self.network(inputs).float()  # type: ignore[no-any-return]

    def training_step(self, batch: Sample, batch_idx: int) -> Tensor:
        """Give the loss of a batch; stop the run if it is not finite."""
        restored = self(batch["inputs"])
        spec = self.data.spec
        loss: Tensor = self.spread(restored, batch, spec) if self.spread else self.loss(restored, batch["clear"])
        if not torch.isfinite(loss):
            path = Path(self.trainer.default_root_dir, f"not-finite-step{self.global_step}.txt")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n".join(batch["name"]) + "\n")
            raise NotFiniteError(
                f"the loss is {float(loss)} at step {self.global_step}. The names of its batch are in {path}: "
                "look at these images, or lower the learning rate"
            )
        self.log("loss", loss, prog_bar=True, batch_size=len(batch["name"]))
        if not self.spread:
            with torch.no_grad():
                difference = (restored / spec.span).clamp(0, 1) - batch["clear"] / spec.span
                psnr = -10 * torch.log10(difference.square().mean())
            self.log("train_psnr", psnr, prog_bar=True, batch_size=len(batch["name"]))
        return loss

    def validation_step(self, batch: Sample, batch_idx: int, dataloader_idx: int = 0) -> None:
        """Score one held-out image under the protocol of its data set."""
        held = self.data.held_out(dataloader_idx)
        if held.protocol == ERROR_LEFT:
            left = error_left(self(batch["inputs"]), batch, held.spec)
            self.log("val_error_left", left, prog_bar=True, batch_size=1, add_dataloader_idx=dataloader_idx > 0)
            return
        restored, clear = (image / held.spec.span for image in (self(batch["inputs"])[0], batch["clear"][0]))
        scores = IMAGE_PROTOCOLS[held.protocol].score(restored, clear)
        for key, value in scores.items():
            if math.isfinite(value):
                self.log(
                    f"val_{key}", value, prog_bar=key == "psnr", batch_size=1, add_dataloader_idx=dataloader_idx > 0
                )

    def configure_optimizers(self) -> OptimizerLRScheduler:
        """The optimizer under the schedule, stepped every step."""
        optimizer = self.optimizer(self.parameters(), lr=self.lr, betas=self.betas, weight_decay=self.weight_decay)
        total = int(self.trainer.estimated_stepping_batches)
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: self.rate(step, total))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def rate(self, step: int, total: int) -> float:
        """The share of `lr` at a step out of `total`."""
        warm = min((step + 1) / self.warmup_steps, 1.0) if self.warmup_steps else 1.0
        done = step / max(total, 1)
        if self.schedule == "multistep":
            return float(warm * 0.5 ** sum(done >= milestone for milestone in self.milestones))
        if done <= self.flat:
            return warm
        low = self.min_lr / self.lr
        return warm * (low + (1 - low) * (1 + math.cos(math.pi * (done - self.flat) / (1 - self.flat))) / 2)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Keep the random state; the order of the data depends on seed and step alone, which are kept too."""
        checkpoint["torch_rng_state"] = torch.get_rng_state()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Go on with the random state of the checkpoint."""
        if "torch_rng_state" in checkpoint:
            torch.set_rng_state(checkpoint["torch_rng_state"])


def error_left(out: Tensor, batch: Sample, spec: InputSpec) -> Tensor:
    """Give the absolute error of what is counted, as a share of what it is without the network."""
    counted, came = _counted(batch["inputs"], spec), batch["inputs"][:, spec.optical]
    without = batch["clear"] if spec.corrects_references else came - batch["clear"]
    error = out[:, : len(spec.outputs)] - batch["clear"]
    return (error.abs() * counted).sum() / (without.abs() * counted).sum().clamp_min(1e-9)


def _log_mse(restored: Tensor, clear: Tensor) -> Tensor:
    """Mean over images of log(mse + 1e-4): above 40 dB no image draws more than its share."""
    return ((restored - clear).square().mean((1, 2, 3)) + 1e-4).log().mean()


def _begin(network: str, config: dict[str, Any] | None, start_from: str | None) -> torch.nn.Module:
    """Give a network of these settings, with random weights or those that it starts from."""
    started = None if start_from is None else load_model(start_from)
    own = started is not None and config is None and network == name_of(started.config)
    settings = started.config if started is not None and own else make_config(network, config or {})
    model = build_network(settings)
    if started is not None:
        if started.config != settings:
            raise ConfigError(f"start_from={start_from} is of {started.config}; the run's config is {settings}")
        model.load_state_dict(started.state_dict())
    return model


def _recompute_blocks(model: torch.nn.Module, name: str) -> None:
    """Let a network recompute each block in the backward."""
    blocks = [module for module in model.modules() if isinstance(module, Block)]
    if not blocks:
        raise ConfigError(f"checkpoint_blocks has no effect on {name}, which has no blocks: leave it out")
    for block in blocks:
        _recompute(block)


def _recompute(block: Block) -> None:
    plain = block.forward

    def forward(x: Tensor) -> Tensor:
        if torch.is_grad_enabled():
            return checkpoint(plain, x, use_reentrant=False)  # type: ignore[no-any-return]
        return plain(x)

    block.forward = forward  # type: ignore[method-assign]


class Pace(pl.Callback):
    """Images a second, and the share of the time that steps wait for data."""

    def __init__(self) -> None:
        self._began = self._ended = 0.0
        self._waited = self._worked = 0.0

    def on_train_batch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: Any) -> None:
        """Note when a step begins."""
        self._began = time.perf_counter()
        if self._ended:
            self._waited += self._began - self._ended

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Sample, batch_idx: int
    ) -> None:
        """Note when it ends, and log the pace since the start of the run."""
        self._ended = time.perf_counter()
        self._worked += self._ended - self._began
        images = len(batch["name"]) * trainer.world_size
        pl_module.log("images_per_s", images / max(self._ended - self._began, 1e-9), prog_bar=True, batch_size=images)
        pl_module.log("wait_share", self._waited / max(self._waited + self._worked, 1e-9), batch_size=images)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Do not count the validation as waiting."""
        self._ended = 0.0
