"""What a run trains on: data sets, mixed by weight, in an order that depends on nothing but the seed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Literal

import lightning.pytorch as pl
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, Sampler, Subset

from attcr.data import (
    HAZE,
    RICE1,
    RICE2,
    SEN12MSCR,
    TCLOUD,
    THICK,
    THIN_BROKEN,
    Pair,
    PairFolder,
    load_split,
    simulate_clouds,
)
from attcr.data.transforms import crop_pair, retone, turn_pair
from attcr.errors import ConfigError, DataError

Pairs = PairFolder | SEN12MSCR


@dataclass(frozen=True)
class Source:
    """One data set of a run."""

    dataset: Literal["rice1", "rice2", "tcloud", "sen12mscr", "pairs", "simulated"]
    """A published set by name; `pairs` for ROOT/cloudy and ROOT/clear; `simulated` for cloud put on ROOT's images."""
    root: str = "."
    """Where it lies, below the run's `root`."""
    weight: float = 1.0
    """How often it is drawn from, relative to the others."""
    hold_out: tuple[str, ...] = ()
    """For `pairs` and `simulated`: files whose names begin so are kept for validation."""
    clouds: Literal["thin", "thick", "both"] = "both"
    """For `simulated`: what cloud."""
    retone: bool = False
    """For `simulated`: whether each image gets other tones before the cloud, so as not to learn one product's."""

    def open(self, part: Literal["train", "val"], cache: bool) -> Pairs:
        """Open the part of the data set that is trained on, or that is held out of it."""
        if self.dataset == "rice1":
            return RICE1(self.root, part, cache=cache)
        if self.dataset == "rice2":
            return RICE2(self.root, part, cache=cache)
        if self.dataset == "tcloud":
            return TCLOUD(self.root, part, cache=cache)
        if self.dataset == "sen12mscr":
            return SEN12MSCR(self.root, part)
        if not self.hold_out:
            raise ConfigError(f"source {self.dataset} at {self.root}: hold_out must name files for validation")
        folders = (Path(self.root, "cloudy"), Path(self.root, "clear"))
        if self.dataset == "simulated":
            folders = (Path(self.root), Path(self.root))
        every = PairFolder(*folders).names
        held = [name for name in every if name.startswith(tuple(self.hold_out))]
        kept = [name for name in every if name not in set(held)]
        names = held if part == "val" else kept
        if not names:
            raise ConfigError(f"source {self.dataset} at {self.root}: hold_out={self.hold_out} leaves no {part} image")
        return PairFolder(*folders, names=names, cache=cache)


class NumberedPairs(Dataset[Pair]):
    """Training pairs by their number in the run: the n-th is the same in every process, at every start.

    One data set is gone through in a fresh order each time; of several, each number draws a set by weight and an
    image of it. Crop, flip, turn and simulated cloud are drawn from a generator seeded by the number.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        sets: Sequence[Pairs],
        *,
        crops: Mapping[int, int | None],
        augment: bool,
        clear_share: float,
        seed: int,
        shrinks: Sequence[int] = (1,),
    ) -> None:
        self.sources, self.sets, self.shrinks = sources, sets, shrinks
        self.weights = torch.tensor([source.weight for source in sources], dtype=torch.float64)
        self.augment, self.clear_share, self.seed = augment, clear_share, seed
        self.crops = crops
        """By the step from which on each holds."""
        self.items = 1
        """Pairs in a step."""

    def __getitem__(self, number: int) -> Pair:
        """Pair `number` of the run."""
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + number)
        which = int(torch.multinomial(self.weights, 1, generator=generator)) if len(self.sets) > 1 else 0
        pairs = self.sets[which]
        if len(self.sets) > 1:
            index = int(torch.randint(len(pairs), (), generator=generator))
        else:
            index = _order(len(pairs), self.seed, number // len(pairs))[number % len(pairs)]
        pair = pairs[index]
        crop = self.crops[max(step for step in self.crops if step <= number // self.items)]
        cloudy, clear = self._cut(pair["cloudy"], pair["clear"], crop, generator)
        if self.augment:
            cloudy, clear = turn_pair(cloudy, clear, generator=generator)
        if self.sources[which].dataset == "simulated":
            clear = retone(clear, generator=generator) if self.sources[which].retone else clear
            cloudy = _simulate(clear, self.sources[which].clouds, generator)
        if self.clear_share and float(torch.rand((), generator=generator)) < self.clear_share:
            cloudy = clear.clone()
        return {"cloudy": cloudy.contiguous(), "clear": clear.contiguous(), "name": pair["name"]}

    def _cut(
        self, cloudy: Tensor, clear: Tensor, crop: int | None, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """A random square of `crop` pixels, of the pair as it is or averaged down by one of the shrinks that fit."""
        if crop is None or tuple(self.shrinks) == (1,):
            return crop_pair(cloudy, clear, crop, generator=generator)
        fit = [shrink for shrink in self.shrinks if crop * shrink <= min(clear.shape[-2:])]
        shrink = fit[int(torch.randint(len(fit), (), generator=generator))] if fit else min(self.shrinks)
        cloudy, clear = crop_pair(cloudy, clear, crop * shrink, generator=generator)
        return (cloudy, clear) if shrink == 1 else (F.avg_pool2d(cloudy, shrink), F.avg_pool2d(clear, shrink))


@lru_cache(maxsize=4)
def _order(count: int, seed: int, time: int) -> list[int]:
    """The order in which `count` images are gone through the `time`-th time."""
    generator = torch.Generator().manual_seed(seed * 7919 + time)
    order: list[int] = torch.randperm(count, generator=generator).tolist()
    return order


def _simulate(clear: Tensor, clouds: str, generator: torch.Generator) -> Tensor:
    kinds = {"thin": (HAZE, THIN_BROKEN), "thick": (THICK,), "both": (HAZE, THIN_BROKEN, THICK)}[clouds]
    kind = kinds[int(torch.randint(len(kinds), (), generator=generator))]
    return simulate_clouds(clear, kind, generator=generator).cloudy


class NumberSampler(Sampler[int]):
    """The numbers of one process's items, from a step of the run on: batch after batch its share of each."""

    def __init__(self, *, start: int, steps: int, batch: int, rank: int, world: int) -> None:
        self.start, self.steps, self.batch, self.rank, self.world = start, steps, batch, rank, world

    def __iter__(self) -> Iterator[int]:
        """Number after number."""
        for step in range(self.start, self.steps):
            first = (step * self.world + self.rank) * self.batch
            yield from range(first, first + self.batch)

    def __len__(self) -> int:
        """Items of the whole run, those before the start included, as the progress of a resumed run counts them."""
        return self.steps * self.batch


class PairData(pl.LightningDataModule):
    """Training pairs in a resumable order, and validation on a part held out of train, never on test."""

    def __init__(
        self,
        sources: list[Source],
        *,
        root: str = ".",
        batch_size: int = 16,
        crop: int | dict[int, int] | None = 256,
        shrinks: tuple[int, ...] = (1,),
        augment: bool = True,
        clear_share: float = 0.0,
        val_crop: int | None = None,
        val_count: int | None = None,
        cache: bool = False,
        workers: int = 4,
        seed: int = 0,
    ) -> None:
        """Describe the data of a run.

        Args:
            sources: the data sets, mixed by their weights.
            root: the folder that the sources' own roots start from.
            batch_size: pairs in a step and process.
            crop: pixels of the random square cut from each pair; None for whole images. `{0: 64, 1500: 128}` is 64 from
                step 0 on and 128 from step 1500 on: small squares are more images for the same work.
            shrinks: factors by which pairs are averaged down before the crop, drawn anew for each pair among those that
                leave it as large as the crop: a whole image at an eighth of its size teaches tone and what cloud hides
                at a 64th of the work. Name a factor twice to draw it twice as often.
            augment: flips and quarter turns.
            clear_share: share of the pairs whose cloudy side is the clear one, so that clear images stay as they are.
            val_crop: pixels of the middle square that is validated on; None for whole images.
            val_count: how many of the held-out pairs are validated on, evenly spread; None for all.
            cache: hold all decoded images in memory.
            workers: processes that read ahead.
            seed: what the order and all draws depend on.

        """
        super().__init__()
        if not sources:
            raise ConfigError("no source was given: name at least one data set")
        if not 0 <= clear_share < 1:
            raise ConfigError(f"clear_share={clear_share} must be at least 0 and below 1")
        self.sources = [replace(source, root=str(Path(root, source.root))) for source in sources]
        if isinstance(crop, dict) and 0 not in crop:
            raise ConfigError(f"crop={crop} does not say the crop from step 0 on")
        if not shrinks or min(shrinks) < 1 or (crop is None and tuple(shrinks) != (1,)):
            raise ConfigError(
                f"shrinks={tuple(shrinks)} with crop={crop}: factors of at least 1, and a crop to cut after"
            )
        self.batch_size, self.crop, self.augment = batch_size, crop, augment
        self.shrinks = tuple(shrinks)
        self.clear_share, self.val_crop, self.val_count = clear_share, val_crop, val_count
        self.cache, self.workers, self.seed = cache, workers, seed
        self._train: NumberedPairs | None = None
        self._val: list[Dataset[Pair]] = []

    def setup(self, stage: str) -> None:
        """Open the data and look at a few pairs of each set before the first step."""
        if self._train is not None:
            return
        sets = [source.open("train", self.cache) for source in self.sources]
        held = [source.open("val", self.cache) for source in self.sources]
        for source, pairs, others in zip(self.sources, sets, held, strict=True):
            _look(source, pairs, others)
        self._train = NumberedPairs(
            self.sources,
            sets,
            crops=self.crops(),
            augment=self.augment,
            clear_share=self.clear_share,
            seed=self.seed,
            shrinks=self.shrinks,
        )
        self._val = [self._held_out(source, pairs) for source, pairs in zip(self.sources, held, strict=True)]

    def reseed(self, seed: int) -> None:
        """Go through the training pairs in another order, with other draws; the held-out pairs stay as they are."""
        self.setup("fit")
        assert self._train is not None
        self._train.seed = seed

    def _held_out(self, source: Source, pairs: Pairs) -> Dataset[Pair]:
        count = min(self.val_count or len(pairs), len(pairs))
        chosen = [i * len(pairs) // count for i in range(count)]
        return Subset(_Middle(source, pairs, self.val_crop, self.seed), chosen)

    def crops(self) -> dict[int, int | None]:
        """The crop by the step from which on it holds."""
        return dict(self.crop) if isinstance(self.crop, dict) else {0: self.crop}

    def describe(self) -> list[dict[str, object]]:
        """What was trained on, for the provenance of the weights."""
        described: list[dict[str, object]] = []
        for source in self.sources:
            entry: dict[str, object] = {"dataset": source.dataset, "weight": source.weight}
            if source.dataset in ("rice1", "rice2", "tcloud", "sen12mscr"):
                entry["train_split_sha256"] = load_split(source.dataset, "train").sha256
            else:
                entry["hold_out"] = list(source.hold_out)
            described.append(entry)
        return described

    def train_dataloader(self) -> DataLoader[Pair]:
        """Items from the trainer's present step on."""
        assert self._train is not None
        assert self.trainer is not None
        share = self.trainer.accumulate_grad_batches
        self._train.items = share * self.batch_size * self.trainer.world_size
        if self.trainer.max_steps < 1:
            raise ConfigError("a run is measured in steps here: set trainer.max_steps")
        sampler = NumberSampler(
            start=self.trainer.global_step * share,
            steps=self.trainer.max_steps * share,
            batch=self.batch_size,
            rank=self.trainer.global_rank,
            world=self.trainer.world_size,
        )
        return DataLoader(
            self._train,
            batch_size=self.batch_size,
            sampler=sampler,
            num_workers=self.workers,
            persistent_workers=self.workers > 0,
            prefetch_factor=4 if self.workers else None,
        )

    def val_dataloader(self) -> list[DataLoader[Pair]]:
        """One loader for each source."""
        return [DataLoader(pairs, batch_size=1) for pairs in self._val]


class _Middle(Dataset[Pair]):
    """Held-out pairs, cut to the middle square; simulated cloud is the same at each look."""

    def __init__(self, source: Source, pairs: Pairs, crop: int | None, seed: int) -> None:
        self.source, self.pairs, self.crop, self.seed = source, pairs, crop, seed

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, index: int) -> Pair:
        pair = self.pairs[index]
        cloudy, clear = pair["cloudy"], pair["clear"]
        if self.crop is not None:
            height, width = clear.shape[-2:]
            row, col = max(height - self.crop, 0) // 2, max(width - self.crop, 0) // 2
            window = (..., slice(row, row + self.crop), slice(col, col + self.crop))
            cloudy, clear = cloudy[window], clear[window]
        if self.source.dataset == "simulated":
            generator = torch.Generator().manual_seed(self.seed * 104_729 + index)
            cloudy = _simulate(clear, self.source.clouds, generator)
        return {"cloudy": cloudy, "clear": clear, "name": pair["name"]}


def _look(source: Source, train: Pairs, val: Pairs, count: int = 8) -> None:
    """Refuse data that a run would be wasted on: parts that overlap, pairs that are unreadable or no pairs."""
    shared = sorted(set(train.names) & set(val.names))
    if shared:
        raise DataError(
            f"{source.dataset} at {source.root}: {len(shared)} names are in train and val, e.g. {shared[0]}"
        )
    for index in range(0, len(train), max(len(train) // count, 1)):
        pair = train[index]
        if not (torch.isfinite(pair["cloudy"]).all() and torch.isfinite(pair["clear"]).all()):
            raise DataError(f"{source.dataset} at {source.root}: {pair['name']} has NaN or infinite values")
        if float(pair["clear"].max()) == float(pair["clear"].min()):
            raise DataError(f"{source.dataset} at {source.root}: the clear image of {pair['name']} is of one value")
