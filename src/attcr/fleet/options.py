"""How a run is carried out: one object of options. The command line is made from what is said at its fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from attcr.errors import ConfigError
from attcr.restore.options import Option, options_of


@dataclass(frozen=True)
class FleetOptions:
    """How a run is carried out. None of these options changes a result."""

    # fmt: off
    engine: Annotated[Literal["local", "ray"], Option(
        "local: this process. ray: actors, here or on a cluster.",
        "", "ENGINE")] = "local"
    workers: Annotated[int, Option(
        "Worker processes, each with a network (ray).",
        "", "NUMBER", least=1)] = 1
    threads: Annotated[int | None, Option(
        "Threads of each network; 1 on Ray.",
        "", "NUMBER", least=1)] = None
    gpus: Annotated[float, Option(
        "GPUs of each worker (ray), used with the setting device=cuda.",
        "", "NUMBER", least=0)] = 0
    readers: Annotated[int, Option(
        "Scenes read ahead for the workers (ray).",
        "", "NUMBER", least=1)] = 2
    address: Annotated[str | None, Option(
        "Address of a Ray cluster. Default: RAY_ADDRESS, or a new one on this machine.",
        "", "ADDRESS")] = None
    attempts: Annotated[int, Option(
        "Tries before a scene is quarantined.",
        "", "NUMBER", least=1)] = 3
    split_over: Annotated[float | None, Option(
        "Split scenes with more megapixels into blocks of rows for several workers.",
        "", "MEGAPIXELS")] = None
    deadline: Annotated[float | None, Option(
        "Quarantine a scene, or a block of one, that takes more seconds.",
        "", "SECONDS")] = None
    # fmt: on
    shard: tuple[int, int] = (0, 1)
    """Take part i (from 0) of n, for an array of independent jobs."""

    def __post_init__(self) -> None:
        for name, option in options_of(FleetOptions).items():
            option.check(getattr(self, name))
        index, count = self.shard
        if not 0 <= index < count:
            raise ConfigError(f"shard is {index}/{count}; expected i/n with i from 0 to n - 1.")
        if self.split_over is not None and self.split_over <= 0:
            raise ConfigError(f"split_over is {self.split_over} megapixels and must be more than 0.")
        if self.deadline is not None and not 0 < self.deadline < float("inf"):
            raise ConfigError(f"deadline is {self.deadline} seconds and must be more than 0.")
        if self.engine == "local" and (self.workers > 1 or self.gpus or self.address):
            raise ConfigError("workers, gpus and address are for `engine=ray`: the engine local is this process.")
