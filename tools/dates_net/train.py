"""Train the network that corrects harmonised references inside gaps.

    python -m tools.dates_net.train --pool POOL --held POOL --out OUT --until 02:40 --flat-until 02:00

It resumes from OUT/last.pt where that is there, stops at the time (today), after the steps or on SIGTERM, and writes
OUT/s2-dates.safetensors then; with --steps 0 it only does that. The pool may grow meanwhile.
"""

import argparse
import math
import signal
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tools.s2_thin.train import Schedule, clock
from torch import Tensor

from attcr import ATTCR, ATTCRConfig, save_model
from attcr.bands.spec import OTHER_DATES
from attcr.files import replacing
from attcr.predict import multiplies_bfloat16
from attcr.references.correct import BANDS, PLANES, see

from .pool import Sample

CONFIG = ATTCRConfig(
    in_channels=PLANES, out_channels=2 * BANDS, residual=(), dim=16, blocks=(1, 1, 4, 1, 1), heads=(2, 2, 4, 2, 2)
)
SIZES = {(2, 128): 0.75, (1, 192): 0.25}
"""Crops of a batch and their pixels a side, and how often each is drawn."""
SAVE_EVERY = 600.0
"""Seconds."""
MOST = 6.0
"""Mean errors beyond which one counts no more: what nobody can know."""


class Batch:
    """Crops of samples, turned at random."""

    def __init__(self, samples: list[Sample], draw: np.random.Generator, size: int) -> None:
        inputs, wanted, counted = [], [], []
        for sample in samples:
            seen = see(sample.target, sample.harmonised, sample.reference, sample.clear, sample.gap, sample.bands)
            error = np.zeros((BANDS, *sample.gap.shape), np.float32)
            error[list(sample.bands)] = ((sample.target - sample.harmonised) / seen.unit).clip(-MOST, MOST)
            there = np.zeros((BANDS, 1, 1), np.float32)
            there[list(sample.bands)] = 1
            row, col = _window(sample.gap, draw, size)
            here = (slice(None), slice(row, row + size), slice(col, col + size))
            turn, flip = int(draw.integers(4)), bool(draw.integers(2))

            def turned(planes: NDArray[Any], turn: int = turn, flip: bool = flip) -> Tensor:
                planes = np.rot90(planes[..., ::-1] if flip else planes, turn, (1, 2))
                return torch.from_numpy(np.ascontiguousarray(planes))

            inputs.append(turned(seen.planes[here]))
            wanted.append(turned(error[here]))
            counted.append(turned(sample.gap[here[1:]][None] * there))
        self.inputs, self.wanted, self.counted = torch.stack(inputs), torch.stack(wanted), torch.stack(counted)


def _window(gap: NDArray[np.bool_], draw: np.random.Generator, size: int) -> tuple[int, int]:
    """Draw where a crop lies that holds some of the gap."""
    for _ in range(20):
        row, col = (int(draw.integers(side - size + 1)) for side in gap.shape)
        if gap[row : row + size, col : col + size].mean() > 0.1:
            break
    return row, col


class Pool:
    """The samples that there are by now."""

    def __init__(self, folder: Path, draw: np.random.Generator) -> None:
        self.folder, self.draw, self.looked = folder, draw, 0.0
        self.paths: list[Path] = []

    def batch(self) -> tuple[Batch, list[str]]:
        """Give crops of some samples, and where they are from."""
        if time.time() - self.looked > 60:
            self.paths = sorted(path for path in self.folder.glob("*.npz") if ".partial" not in path.name)
            self.looked = time.time()
        count, size = list(SIZES)[int(self.draw.choice(len(SIZES), p=list(SIZES.values())))]
        chosen = [self.paths[self.draw.integers(len(self.paths))] for _ in range(count)]
        samples = [Sample.load(path) for path in chosen]
        size = min(size, *(side for sample in samples for side in sample.gap.shape))
        return Batch(samples, self.draw, size), [path.name.split("-")[0] for path in chosen]


def losses(out: Tensor, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """Give the mean error of each image, that without the network, and the scales' Laplace likelihood.

    Only pixels of the gaps and bands that are there count. The likelihood teaches the scales alone.
    """
    out = out.float()
    count = batch.counted.sum((1, 2, 3)).clamp_min(1)
    error = (out[:, :BANDS] - batch.wanted).abs() * batch.counted
    mean = error.sum((1, 2, 3)) / count
    before = (batch.wanted.abs() * batch.counted).sum((1, 2, 3)) / count
    scale = out[:, BANDS:].clamp(-5.0, 3.0)
    likelihood = ((error.detach() + 1e-2) * torch.exp(-scale) + scale) * batch.counted
    return mean, before, (likelihood.sum((1, 2, 3)) / count).mean()


class Training:
    """The network, its optimizer and its running average, as they are kept in OUT/last.pt."""

    def __init__(self, out: Path, *, lr: float) -> None:
        torch.manual_seed(0)
        self.network = ATTCR(CONFIG).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        torch.nn.init.zeros_(self.network.output.weight)  # begins with what the classical method gives
        self.optimizer = torch.optim.AdamW(self.network.parameters(), lr, betas=(0.9, 0.99), weight_decay=1e-4)
        self.average = {name: value.clone() for name, value in self.network.state_dict().items()}
        self.step, self.seconds = 0, 0.0
        self.path = out / "last.pt"
        if self.path.exists():
            saved = torch.load(self.path, weights_only=True)
            self.network.load_state_dict(saved["network"])
            self.optimizer.load_state_dict(saved["optimizer"])
            self.average, self.step, self.seconds = saved["ema"], saved["step"], saved["spent"]
            print("resumed from step", self.step, flush=True)
        self.first = self.step

    def save(self) -> None:
        """Write all that is needed to resume."""
        state = {"network": self.network.state_dict(), "optimizer": self.optimizer.state_dict(), "ema": self.average}
        with replacing(self.path) as partial:
            torch.save({**state, "step": self.step, "spent": self.seconds}, partial)

    def learn(self, batch: Batch, rate: float) -> tuple[Tensor, Tensor, float]:
        """Take one step; give the error of each image with and without the network, and the likelihood."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        with torch.autocast("cpu", torch.bfloat16, enabled=multiplies_bfloat16()):
            out = self.network(batch.inputs)
        mean, before, likelihood = losses(out, batch)
        loss = mean.mean() + 0.1 * likelihood
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()
        self.step += 1
        decay = min(0.998, (self.step + 1) / (self.step + 10))
        for name, value in self.network.state_dict().items():
            self.average[name].lerp_(value, 1 - decay)
        return mean.detach(), before, likelihood.item()

    def averaged(self) -> ATTCR:
        """Give the network with the averaged weights."""
        network = ATTCR(CONFIG)
        network.load_state_dict(self.average)
        return network.eval()


def validate(network: ATTCR, folder: Path, most: int = 60) -> dict[str, float]:
    """Give, for each source of held-out samples, the error with the network as a share of that without."""
    ratios = defaultdict(list)
    paths = sorted(folder.glob("*.npz"))
    for path in paths[:: max(len(paths) // most, 1)]:
        sample = Sample.load(path)
        seen = see(sample.target, sample.harmonised, sample.reference, sample.clear, sample.gap, sample.bands)
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=multiplies_bfloat16()):
            out = network(torch.from_numpy(seen.planes)[None])[0].float().numpy()
        better = seen.corrected(out, sample.harmonised, sample.bands)
        was, now = (np.abs(image - sample.target)[:, sample.gap].mean() for image in (sample.harmonised, better))
        ratios[path.name.split("-")[0]].append(now / was)
    return {source: round(float(np.mean(some)), 4) for source, some in ratios.items()}


def run(training: Training, pool: Pool, held: Path, schedule: Schedule) -> None:
    """Train until the schedule ends or SIGTERM comes; saved now and then, and at the end."""
    stop: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: stop.append(number))  # ends after the step
    begun = saved = last = time.time()
    ratios: dict[str, float] = {}
    likelihood = 0.0
    while (now := time.time()) < schedule.until and training.step - training.first < schedule.steps and not stop:
        rate = schedule.rate(now, training.step - training.first, resumed=training.first > 0)
        batch, sources = pool.batch()
        after, was, scale = training.learn(batch, rate)
        likelihood = 0.99 * likelihood + 0.01 * scale
        for source, a, b in zip(sources, after.tolist(), was.tolist(), strict=True):
            if b > 0 and math.isfinite(a):
                ratios[source] = 0.98 * ratios.get(source, 1.0) + 0.02 * a / b
        training.seconds, last = training.seconds + time.time() - last, time.time()
        if training.step % 100 == 0:
            told = " ".join(f"{name} {ratio:.3f}" for name, ratio in sorted(ratios.items()))
            each = (time.time() - begun) / (training.step - training.first)
            print(training.step, f"{each:.3f} s {likelihood:.3f} of {len(pool.paths)}:", told, flush=True)
        if time.time() - saved > SAVE_EVERY:
            training.save()
            print("held out", validate(training.averaged(), held), flush=True)
            saved = last = time.time()
    training.save()
    print(
        "end", training.step, round(training.seconds / 3600, 2), "hours; held out", validate(training.averaged(), held)
    )
    signal.signal(signal.SIGTERM, before)


def export(training: Training, target: Path) -> str:
    """Write the averaged weights in float16, with what they take and give; give the file's sha256."""
    network = training.averaged().half()
    if not all(value.isfinite().all() for value in network.state_dict().values()):
        raise SystemExit("the averaged weights are not all numbers in float16: resume from an earlier checkpoint")
    hours = round(training.seconds / 3600, 2)
    told = f"tools/dates_net/train.py, {training.step} steps, {hours} h on one CPU core"
    return save_model(network, target, spec=OTHER_DATES, provenance={"training": told})


def main() -> None:
    """Train, and write the weights."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pool", type=Path, required=True, help="samples that tools.dates_net.pool made")
    parser.add_argument("--held", type=Path, required=True, help="samples of places that are not trained on")
    parser.add_argument("--out", type=Path, required=True, help="folder of last.pt")
    parser.add_argument("--until", type=clock, default=math.inf, help="HH:MM, today")
    parser.add_argument("--flat-until", type=clock, default=math.inf, help="HH:MM: from here on the rate falls")
    parser.add_argument("--steps", type=int, default=10**9, help="at most so many in this run")
    parser.add_argument("--lr", type=float, default=1e-3)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    training = Training(args.out, lr=args.lr)
    if args.steps > 0:
        pool = Pool(args.pool, np.random.default_rng(1000 + training.step))
        run(training, pool, args.held, Schedule(args.lr, args.until, args.flat_until, args.steps))
    target = args.out / "s2-dates.safetensors"
    print(target, export(training, target))


if __name__ == "__main__":
    main()
