"""What a run trains on: data sets, mixed by weight, in an order that depends on nothing but the seed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Literal, Protocol, TypeVar, runtime_checkable

import lightning.pytorch as pl
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, Sampler, Subset

from attcr.bands.spec import CLOUDS, InputSpec
from attcr.data import DataSet, Sample, Samples, find_set
from attcr.data.sets import DATASETS, open_pairs
from attcr.data.simulate import BROKEN_VEIL, HAZE, THICK_CLOUD, cover, simulate_clouds
from attcr.data.splits import load_split
from attcr.data.transforms import change_planes, crop_sample, retone, turn_sample
from attcr.errors import ConfigError, DataError

SIMULATED = DataSet(
    "simulated",
    "clear images of your own, with cloud put on them",
    DATASETS["pairs"].spec,
    partial(open_pairs, folders=("", "")),
    "ROOT holds clear images",
    parts=(),
)
"""Its input is made from its target."""


@runtime_checkable
class Drawn(Protocol):
    """Samples that are drawn, with crop, turn and cloud of their own."""

    def draw(self, size: int, generator: torch.Generator) -> Sample:
        """Draw a sample of so many pixels a side."""


@dataclass(frozen=True)
class Source:
    """One data set of a run."""

    dataset: str
    """A data set by its name in DATASETS, or MODULE:NAME of one in Python; `pairs` is ROOT/cloudy and ROOT/clear;
    `simulated` puts cloud on ROOT's."""
    root: str = "."
    """Where it lies, below the run's `root`."""
    weight: float = 1.0
    """How often it is drawn from, relative to the others."""
    hold_out: tuple[str, ...] = ()
    """For images of your own (`pairs`, `simulated`): files whose names begin so are kept for validation; without it the
    last tenth of them by name."""
    slots: tuple[str, ...] = ()
    """For images of your own: their bands by common name, in order, where they are not red, green and blue."""
    gsd: float | None = None
    """For images of your own: metres of a pixel, where they are not 10."""
    clouds: Literal["thin", "thick", "both"] = "both"
    """For images of your own: what cloud is on them, or is to be put on them."""
    retone: bool = False
    """For `simulated`: whether each image gets other tones before the cloud, so as not to learn one product's."""

    @property
    def simulated(self) -> bool:
        """Whether its cloud is put on by the run."""
        return self.dataset == SIMULATED.name

    @property
    def data(self) -> DataSet:
        """The data set, with what the source says of it."""
        data = SIMULATED if self.simulated else find_set(self.dataset)
        if data.parts:
            return data.told(slots=self.slots, gsd=self.gsd, hold_out=self.hold_out)
        removes = {"thin": ("thin",), "thick": ("thick", "shadow"), "both": CLOUDS}[self.clouds]
        return data.told(slots=self.slots, gsd=self.gsd, removes=removes, hold_out=self.hold_out)

    def open(self, part: Literal["train", "val"], cache: bool) -> Samples:
        """Open the part of the data set that is trained on, or that is held out of it."""
        return self.data.open(self.root, part, cache=cache)

    def describe(self) -> dict[str, object]:
        """What it is, for the provenance of the weights."""
        entry: dict[str, object] = {"dataset": self.data.name, "weight": self.weight}
        if self.data.listed:
            return {**entry, "train_split_sha256": load_split(self.data.name, "train").sha256}
        if self.data.parts:
            return entry
        return {**entry, "hold_out": list(self.hold_out) or "the last tenth by name"}


def common_spec(sources: Sequence[Source]) -> InputSpec:
    """Give the spec of weights trained on all the sources; those of other planes do not mix."""
    first, *others = (source.data.spec for source in sources)
    for source, spec in zip(sources[1:], others, strict=True):
        if (spec.slots, spec.outputs) != (first.slots, first.outputs):
            raise ConfigError(
                f"the sources {sources[0].dataset} ({_planes(first)}) and {source.dataset} ({_planes(spec)}) have "
                "other bands or ranges: one network cannot learn from both; train one for each"
            )
    every = (first, *others)
    return replace(
        first,
        products=tuple(product for product in first.products if all(product in spec.products for spec in every)),
        gsd=(min(spec.gsd[0] for spec in every), max(spec.gsd[1] for spec in every)),
        removes=tuple(cloud for cloud in CLOUDS if any(cloud in spec.removes for spec in every)),
    )


def _planes(spec: InputSpec) -> str:
    return " ".join(f"{slot.name} to {slot.high:g}" for slot in spec.slots)


class NumberedPairs(Dataset[Sample]):
    """Training pairs by their number in the run: the n-th is the same in every process, at every start.

    One data set is gone through in a fresh order each time; of several, each number draws a set by weight and an
    image of it. Crop, flip, turn and simulated cloud are drawn from a generator seeded by the number.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        sets: Sequence[Samples],
        *,
        crops: Mapping[int, int | None],
        augment: bool,
        clear_share: float,
        seed: int,
        shrinks: Sequence[int] = (1,),
        cycle: int | None = None,
    ) -> None:
        self.sources, self.sets, self.shrinks = sources, sets, shrinks
        self.weights = torch.tensor([source.weight for source in sources], dtype=torch.float64)
        self.augment, self.clear_share, self.seed = augment, clear_share, seed
        self.crops, self.cycle = crops, cycle
        """Crops by the step from which on each holds, counted anew in each cycle of so many steps."""
        self.items = 1
        """Pairs in a step."""

    def __getitem__(self, number: int) -> Sample:
        """Sample `number` of the run."""
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + number)
        which = int(torch.multinomial(self.weights, 1, generator=generator)) if len(self.sets) > 1 else 0
        source, samples = self.sources[which], self.sets[which]
        crop = at_step(self.crops, number // self.items, self.cycle)
        if isinstance(samples, Drawn):
            assert crop is not None, "setup refuses it"
            return samples.draw(crop, generator)
        if len(self.sets) > 1:
            index = int(torch.randint(len(samples), (), generator=generator))
        else:
            index = _order(len(samples), self.seed, number // len(samples))[number % len(samples)]
        sample = self._cut(samples[index], crop, generator)
        if self.augment:
            sample = turn_sample(sample, generator=generator)
        if source.simulated:
            if source.retone:
                sample = {**sample, "clear": retone(sample["clear"], generator=generator)}
            sample = _simulate(sample, source.clouds, samples.spec, generator)
        if self.clear_share and float(torch.rand((), generator=generator)) < self.clear_share:
            sample = cover(sample, sample["clear"], samples.spec)
        return change_planes(sample, Tensor.contiguous)

    def _cut(self, sample: Sample, crop: int | None, generator: torch.Generator) -> Sample:
        """A random square of `crop` pixels, of the sample as it is or averaged down by one of the shrinks that fit."""
        if crop is None or tuple(self.shrinks) == (1,):
            return crop_sample(sample, crop, generator=generator)
        fit = [shrink for shrink in self.shrinks if crop * shrink <= min(sample["clear"].shape[-2:])]
        shrink = fit[int(torch.randint(len(fit), (), generator=generator))] if fit else min(self.shrinks)
        sample = crop_sample(sample, crop * shrink, generator=generator)
        return sample if shrink == 1 else change_planes(sample, partial(_average_down, by=shrink))


T = TypeVar("T")


def at_step(by_step: Mapping[int, T], step: int, cycle: int | None) -> T:
    """Give what holds at a step, of values by the step from which on each does, counted anew in each cycle."""
    now = step % cycle if cycle else step
    return by_step[max(first for first in by_step if first <= now)]


def _average_down(planes: Tensor, by: int) -> Tensor:
    """(C, H, W) or a mask (H, W), each mean over by x by pixels."""
    whole = planes if planes.ndim == 3 else planes[None].float()
    return F.avg_pool2d(whole, by).reshape(*planes.shape[:-2], *(size // by for size in planes.shape[-2:]))


@lru_cache(maxsize=4)
def _order(count: int, seed: int, time: int) -> list[int]:
    """The order in which `count` images are gone through the `time`-th time."""
    generator = torch.Generator().manual_seed(seed * 7919 + time)
    order: list[int] = torch.randperm(count, generator=generator).tolist()
    return order


def _simulate(sample: Sample, clouds: str, spec: InputSpec, generator: torch.Generator) -> Sample:
    """Put cloud of these kinds on the sample's clear bands."""
    kinds = {"thin": (HAZE, BROKEN_VEIL), "thick": (THICK_CLOUD,), "both": (HAZE, BROKEN_VEIL, THICK_CLOUD)}[clouds]
    kind = kinds[int(torch.randint(len(kinds), (), generator=generator))]
    return cover(sample, simulate_clouds(sample["clear"], kind, generator=generator, spec=spec).cloudy, spec)


class NumberSampler(Sampler[list[int]]):
    """The numbers of one process's items, from a step of the run on, a list for each batch.

    Numbers are counted by the largest batch, so that those of a step do not depend on the batches before it.
    """

    def __init__(
        self, sizes: Mapping[int, int], cycle: int | None, *, start: int, steps: int, share: int, rank: int, world: int
    ) -> None:
        self.sizes, self.cycle, self.start, self.steps = sizes, cycle, start, steps
        self.share, self.rank, self.world = share, rank, world
        """Batches in a step, this process and how many there are."""

    def __iter__(self) -> Iterator[list[int]]:
        """Batch after batch."""
        for batch in range(self.start * self.share, self.steps * self.share):
            first = (batch * self.world + self.rank) * max(self.sizes.values())
            yield list(range(first, first + at_step(self.sizes, batch // self.share, self.cycle)))

    def __len__(self) -> int:
        """Batches of the whole run, those before the start included, as the progress of a resumed run counts them."""
        return self.steps * self.share


class PairData(pl.LightningDataModule):
    """Training pairs in a resumable order, and validation on a part held out of train, never on test."""

    def __init__(
        self,
        sources: list[Source],
        *,
        root: str = ".",
        batch_size: int | dict[int, int] = 16,
        crop: int | dict[int, int] | None = 256,
        crop_cycle: int | None = None,
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
            batch_size: pairs in a step and process; by step as `crop`, where large crops need smaller batches.
            crop: pixels of the random square cut from each pair; None for whole images. `{0: 64, 1500: 128}` is 64 from
                step 0 on and 128 from step 1500 on: small squares are more images for the same work.
            crop_cycle: count the steps of `crop` and `batch_size` anew every so many steps, so that crops of all sizes
                take turns.
            shrinks: factors by which pairs are averaged down before the crop, drawn for each pair among those that
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
        self.batch_size, self.crop, self.crop_cycle, self.augment = batch_size, crop, crop_cycle, augment
        self.shrinks = tuple(shrinks)
        self._check_crops()
        self.clear_share, self.val_crop, self.val_count = clear_share, val_crop, val_count
        self.cache, self.workers, self.seed = cache, workers, seed
        self._train: NumberedPairs | None = None
        self._val: list[Dataset[Sample]] = []

    def _check_crops(self) -> None:
        crop, batch_size = self.crop, self.batch_size
        if 0 not in self.crops or 0 not in self.batches:
            raise ConfigError(f"crop={crop} and batch_size={batch_size}: one does not say what holds from step 0 on")
        if self.crop_cycle is not None and self.crop_cycle <= max(*self.crops, *self.batches):
            raise ConfigError(
                f"crop_cycle={self.crop_cycle} ends before the last crop of {crop} or batch of {batch_size} begins"
            )
        if not self.shrinks or min(self.shrinks) < 1 or (crop is None and self.shrinks != (1,)):
            raise ConfigError(
                f"shrinks={self.shrinks} with crop={crop}: factors of at least 1, and a crop to cut after"
            )

    @cached_property
    def spec(self) -> InputSpec:
        """What weights trained on it take and give; sources of different planes are refused."""
        return common_spec(self.sources)

    def held_out(self, source: int) -> DataSet:
        """The data set that a source's validation is of."""
        return self.sources[source].data

    def setup(self, stage: str) -> None:
        """Open the data and look at a few pairs of each set before the first step."""
        if self._train is not None:
            return
        common_spec(self.sources)  # refuses those that do not mix, before a file is opened
        sets = [source.open("train", self.cache) for source in self.sources]
        held = [source.open("val", self.cache) for source in self.sources]
        for source, pairs, others in zip(self.sources, sets, held, strict=True):
            _look(source, pairs, others)
            if isinstance(pairs, Drawn) and (self.crop is None or (*self.shrinks, self.clear_share) != (1, 0)):
                raise ConfigError(f"{source.dataset} is drawn at the size of crop: leave out shrinks and clear_share")
        self._train = NumberedPairs(
            self.sources,
            sets,
            crops=self.crops,
            augment=self.augment,
            clear_share=self.clear_share,
            seed=self.seed,
            shrinks=self.shrinks,
            cycle=self.crop_cycle,
        )
        self._val = [self._held_out(source, pairs) for source, pairs in zip(self.sources, held, strict=True)]

    def reseed(self, seed: int) -> None:
        """Go through the training pairs in another order, with other draws; the held-out pairs stay as they are."""
        self.setup("fit")
        assert self._train is not None
        self._train.seed = seed

    def _held_out(self, source: Source, pairs: Samples) -> Dataset[Sample]:
        count = min(self.val_count or len(pairs), len(pairs))
        chosen = [i * len(pairs) // count for i in range(count)]
        return Subset(_Middle(source, pairs, self.val_crop, self.seed), chosen)

    @property
    def crops(self) -> dict[int, int | None]:
        """The crop by the step from which on it holds."""
        return dict(self.crop) if isinstance(self.crop, dict) else {0: self.crop}

    @property
    def batches(self) -> dict[int, int]:
        """The batch by the step from which on it holds."""
        return self.batch_size if isinstance(self.batch_size, dict) else {0: self.batch_size}

    def describe(self) -> list[dict[str, object]]:
        """What was trained on, for the provenance of the weights."""
        return [source.describe() for source in self.sources]

    def train_dataloader(self) -> DataLoader[Sample]:
        """Items from the trainer's present step on."""
        assert self._train is not None
        assert self.trainer is not None
        share = self.trainer.accumulate_grad_batches
        self._train.items = share * max(self.batches.values()) * self.trainer.world_size
        if self.trainer.max_steps < 1:
            raise ConfigError("a run is measured in steps here: set trainer.max_steps")
        sampler = NumberSampler(
            self.batches,
            self.crop_cycle,
            start=self.trainer.global_step,
            steps=self.trainer.max_steps,
            share=share,
            rank=self.trainer.global_rank,
            world=self.trainer.world_size,
        )
        return DataLoader(
            self._train,
            batch_sampler=sampler,
            num_workers=self.workers,
            persistent_workers=self.workers > 0,
            prefetch_factor=4 if self.workers else None,
        )

    def val_dataloader(self) -> list[DataLoader[Sample]]:
        """One loader for each source."""
        return [DataLoader(pairs, batch_size=1) for pairs in self._val]


class _Middle(Dataset[Sample]):
    """Held-out samples, cut to the middle square; simulated cloud is the same at each look."""

    def __init__(self, source: Source, samples: Samples, crop: int | None, seed: int) -> None:
        self.source, self.samples, self.crop, self.seed = source, samples, crop, seed

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Sample:
        sample = self.samples[index]
        if self.crop is not None:
            height, width = sample["clear"].shape[-2:]
            row, col = max(height - self.crop, 0) // 2, max(width - self.crop, 0) // 2
            window = (..., slice(row, row + self.crop), slice(col, col + self.crop))
            sample = change_planes(sample, lambda planes: planes[window])
        if self.source.simulated:
            generator = torch.Generator().manual_seed(self.seed * 104_729 + index)
            sample = _simulate(sample, self.source.clouds, self.samples.spec, generator)
        return sample


def _look(source: Source, train: Samples, val: Samples, count: int = 8) -> None:
    """Refuse data that a run would be wasted on: parts that overlap, pairs that are unreadable or no pairs."""
    where = f"{source.dataset} at {source.root}"
    shared = sorted(set(train.names) & set(val.names))
    if shared:
        raise DataError(f"{where}: {len(shared)} names are in train and val, e.g. {shared[0]}")
    for index in range(0, len(train), max(len(train) // count, 1)):
        sample = train[index]
        if not (torch.isfinite(sample["inputs"]).all() and torch.isfinite(sample["clear"]).all()):
            raise DataError(f"{where}: {sample['name']} has NaN or infinite values")
        if float(sample["clear"].max()) == float(sample["clear"].min()):
            raise DataError(f"{where}: the clear image of {sample['name']} is of one value")
