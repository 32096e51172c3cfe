"""Train one network for any bands of Sentinel-2 on simulated haze, thin cloud, cloud edges and shadow.

    python -m tools.s2_thin.train --data FOLDER --out FOLDER --until 20:25 --flat-until 19:45
    python -m tools.s2_thin.train --data FOLDER --out FOLDER --steps 0 --calibration 0.8 --mean-with FILE --share 0.7

It resumes from OUT/last.pt where that is there, stops at the time, after the steps or on SIGTERM, and writes
OUT/s2-thin.safetensors: the averaged weights in float16. The second line writes them again with another
calibration, as their mean with other weights.

In: 13 reflectances x 2.5, 13 planes of presence, 1 of the level (0 top of atmosphere, 1 surface). Out: 13 reflectances
x 2.5, then 13 numbers u: exp(u - 3) / 2.5 is the Laplace scale of the band's error in reflectance.
"""

import argparse
import math
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor

from attcr import ATTCR, ATTCRConfig, save_model
from attcr.bands.spec import ANY_BANDS
from attcr.files import replacing, sha256
from attcr.predict import multiplies_bfloat16
from attcr.weights import find_weights, load_model

from .clear import Batch, ClearImages
from .simulate import BANDS, Draw

SHIFT = 3.0
"""The network's u is the logarithm of the scale plus this: it begins near 0, and so the scale near what errors are."""
CONFIG = ATTCRConfig(
    in_channels=2 * BANDS + 1,
    out_channels=2 * BANDS,
    residual=tuple(range(BANDS)),
    dim=24,
    blocks=(1, 1, 4, 1, 1),
    heads=(2, 2, 4, 2, 2),
)
FLOOR = 0.011
"""Reflectance by which two clear dates of a place differ at least: no simulated pair teaches it."""
SIZES = {"small": (5, 64), "middle": (2, 96), "large": (1, 128), "wide": (1, 192)}
"""Crops of a batch, and their pixels a side."""
SHARES = {"small": 0.35, "middle": 0.15, "large": 0.25, "wide": 0.25}
"""How often each is drawn."""
SAVE_EVERY = 600.0
"""Seconds."""
DATA = (
    "simulated haze, cloud and shadow on clear Sentinel-2 images: S1-S2-DataFusion (L1C), rbngz/submission_dataset "
    "(L2A), sits 20LKP (L2A); cells of 2 degrees held out. Contains modified Copernicus Sentinel data"
)


def losses(out: Tensor, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """Give L1, the logarithm of the mean square (both each image by itself), and the scales' Laplace likelihood.

    Only bands that are there count. The likelihood teaches the scales alone: it does not move the bands.
    """
    out = out.float()
    presence = batch.presence
    count = presence.sum((1, 2, 3)) * out.shape[2] * out.shape[3]
    error = (out[:, :BANDS] - batch.clear) * presence
    mean = error.abs().sum((1, 2, 3)) / count
    square = error.square().sum((1, 2, 3)) / count
    scale = (out[:, BANDS:] - SHIFT).clamp(-7.0, 1.0)  # logarithm
    likelihood = ((error.detach().abs() + 2e-4) * torch.exp(-scale) + scale) * presence
    return mean.mean(), torch.log(square + 2e-5).mean(), (likelihood.sum((1, 2, 3)) / count).mean()


@dataclass(frozen=True)
class Schedule:
    """How fast to learn, and until when."""

    lr: float
    until: float
    """Seconds since 1970; infinite without end."""
    flat_until: float
    """From here on the rate falls, by a cosine, to a hundredth of `lr` at `until`."""
    steps: int
    """At most so many in this run."""

    def rate(self, now: float, done: int, *, resumed: bool) -> float:
        """Give the learning rate after so many steps of this run."""
        rate = self.lr * min(1.0, (done + 1) / (20 if resumed else 100))
        if now > self.flat_until:
            gone = (now - self.flat_until) / (self.until - self.flat_until)
            rate *= 0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * gone))
        return rate


class Training:
    """The network, its optimizer and its running average, as they are kept in OUT/last.pt."""

    def __init__(self, out: Path, *, lr: float, start: Path | None) -> None:
        torch.manual_seed(0)
        self.network = ATTCR(CONFIG).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        if start:
            widen(start, self.network)
        self.optimizer = torch.optim.AdamW(self.network.parameters(), lr, betas=(0.9, 0.99), weight_decay=1e-4)
        self.average = {name: value.clone() for name, value in self.network.state_dict().items()}
        self.step, self.seconds, self.start = 0, 0.0, start.name if start else None
        self.path = out / "last.pt"
        if self.path.exists():
            saved = torch.load(self.path, weights_only=True)
            self.network.load_state_dict(saved["network"])
            self.optimizer.load_state_dict(saved["optimizer"])
            self.average, self.step, self.seconds = saved["ema"], saved["step"], saved["spent"]
            self.start = saved.get("start", self.start)
            print("resumed from step", self.step, flush=True)
        self.first = self.step

    def save(self) -> None:
        """Write all that is needed to resume."""
        state = {"network": self.network.state_dict(), "optimizer": self.optimizer.state_dict(), "ema": self.average}
        with replacing(self.path) as partial:
            torch.save({**state, "step": self.step, "spent": self.seconds, "start": self.start}, partial)

    def learn(self, batch: Batch, rate: float) -> tuple[float, float, float]:
        """Take one step, and give the three losses."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        with torch.autocast("cpu", torch.bfloat16, enabled=multiplies_bfloat16()):
            out = self.network(batch.inputs)
        mean, log, likelihood = losses(out, batch)
        loss = mean + 0.03 * log + 0.03 * likelihood
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()
        self.step += 1
        if self.step % 5 == 0:
            done = self.step - self.first
            decay = 0.99 if self.first else min(0.99, (done + 1) / (done + 50))
            for name, value in self.network.state_dict().items():
                self.average[name].lerp_(value, 1 - decay)
        return mean.item(), log.item(), likelihood.item()


def widen(path: Path, network: ATTCR) -> None:
    """Give a network the weights of one with fewer planes in and out; what belongs to the others is 0."""
    given, state = load_file(path), network.state_dict()
    for name, value in state.items():
        old = given[name].float()
        if old.shape == value.shape:
            value.copy_(old)
        else:
            value.zero_()
            value[: old.shape[0], : old.shape[1]] = old
    network.load_state_dict(state)


def run(training: Training, data: ClearImages, schedule: Schedule) -> None:
    """Train until the schedule ends or SIGTERM comes; saved now and then, and at the end."""
    stop: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: stop.append(number))  # ends after the step
    begun = saved = last = time.time()
    running = np.zeros(3)
    try:
        while (now := time.time()) < schedule.until and training.step - training.first < schedule.steps and not stop:
            rate = schedule.rate(now, training.step - training.first, resumed=training.first > 0)
            batch = data.batch(*SIZES[data.draw.choice(SHARES)])
            running = 0.99 * running + 0.01 * np.array(training.learn(batch, rate))
            training.seconds, last = training.seconds + time.time() - last, time.time()
            done = training.step - training.first
            if training.step % 50 == 0:
                mean, log, likelihood = running / (1 - 0.99**done)
                told = f"l1 {mean:.4f} log-mse {log:.3f} nll {likelihood:.3f} {(last - begun) / done:.3f} s/step"
                print(f"{time.strftime('%H:%M:%S')} step {training.step} lr {rate:.1e} {told}", flush=True)
            if last - saved > SAVE_EVERY:
                saved = last
                training.save()
    finally:
        signal.signal(signal.SIGTERM, before)
    training.save()
    print("done at step", training.step, "after", round(training.seconds / 3600, 2), "hours", flush=True)


def export(
    training: Training, target: Path, *, calibration: float, mean_with: str | None = None, share: float = 0.5
) -> str:
    """Write the averaged weights in float16, with what they take and give; give the file's sha256.

    With a name or a file of other weights, the mean of both is written; `share` is that of the others in it.
    """
    network = ATTCR(CONFIG)
    weights = training.average
    if mean_with:
        other = load_model(mean_with).state_dict()
        weights = {name: torch.lerp(value, other[name].float(), share) for name, value in weights.items()}
    network.load_state_dict(weights)
    if not all(value.isfinite().all() for value in network.half().state_dict().values()):
        raise SystemExit("the averaged weights are not all numbers in float16: resume from an earlier checkpoint")
    provenance = {
        "recipe": "tools/s2_thin/train.py",
        "data": DATA,
        "steps": training.step,
        "hours": round(training.seconds / 3600, 2),
        "start": training.start,
        "mean_with": sha256(find_weights(mean_with)) if mean_with else None,
        "share": share if mean_with else None,
        "calibration": calibration,
    }
    spec = replace(ANY_BANDS, spread_factor=math.exp(-SHIFT) * calibration, spread_floor=FLOOR)
    return save_model(network, target, spec=spec, provenance=provenance)


def clock(text: str) -> float:
    """Give the seconds since 1970 when it is next HH:MM."""
    with suppress(ValueError):
        hour, minute = map(int, text.split(":"))
        now = datetime.now()
        then = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
        return (then if then > now else then + timedelta(days=1)).timestamp()
    raise argparse.ArgumentTypeError(f"{text!r} is no time of day: give HH:MM")


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, and write the weights."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of df.npz, eu.npz and lkp.npz")
    parser.add_argument("--out", type=Path, required=True, help="folder of last.pt and the weights")
    parser.add_argument("--until", type=clock, default=math.inf, help="HH:MM, the next")
    parser.add_argument("--flat-until", type=clock, default=math.inf, help="HH:MM: from here on the rate falls")
    parser.add_argument("--steps", type=int, default=10**9, help="at most so many in this run")
    parser.add_argument("--lr", type=float, default=8e-4)
    parser.add_argument("--start", type=Path, help="weights to begin with, of fewer planes in and out")
    parser.add_argument("--calibration", type=float, default=1.0, help="factor of the predicted scales")
    parser.add_argument("--mean-with", metavar="WEIGHTS", help="name or file: write the mean with these weights")
    parser.add_argument("--share", type=float, default=0.5, help="of these weights in the mean")
    args = parser.parse_args(arguments)
    if args.flat_until < math.inf and args.until == math.inf:
        parser.error("--flat-until says from when on the rate falls and --until until when: give both")
    args.out.mkdir(parents=True, exist_ok=True)
    training = Training(args.out, lr=args.lr, start=args.start)
    if args.steps > 0:
        data = ClearImages(args.data, Draw(torch.Generator().manual_seed(1000 + training.step)))
        print(data, flush=True)
        run(training, data, Schedule(args.lr, args.until, args.flat_until, args.steps))
    target = args.out / "s2-thin.safetensors"
    print(target, export(training, target, calibration=args.calibration, mean_with=args.mean_with, share=args.share))


if __name__ == "__main__":
    main()
