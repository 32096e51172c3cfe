"""Callbacks that end a run the hard way, for the tests of resuming."""

import os
import signal
from typing import Any

import lightning.pytorch as pl


class KillAt(pl.Callback):
    """kill -9 the process when a step begins."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_train_batch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: Any) -> None:
        if trainer.global_step == self.step:
            self.end()

    def end(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class BrokenError(Exception):
    """What BreakAt raises."""


class BreakAt(KillAt):
    """End the run alone, for tests that need no process of their own."""

    def end(self) -> None:
        raise BrokenError
