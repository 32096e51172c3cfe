"""A training step of the dim-24 network, in turn: nothing compiled, the attention compiled, all of it compiled.

python benchmarks/step.py prints the table of docs/engineering/speed.md, and all samples below it.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import torch

from attcr import ATTCR, ATTCRConfig, compiled
from attcr.ops import using


@contextmanager
def without_compiled_depthwise() -> Iterator[None]:
    """Let depthwise convolutions have the backward that they have where nothing is compiled."""
    before, compiled.DEPTHWISE = compiled.DEPTHWISE, False
    try:
        yield
    finally:
        compiled.DEPTHWISE = before


@contextmanager
def everything() -> Iterator[None]:
    """Leave all as it is."""
    yield


WAYS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "chunked": lambda: using("chunked"),
    "compiled attention": without_compiled_depthwise,
    "and depthwise gradients": everything,
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("batch", 8), ("size", 128), ("rounds", 5), ("threads", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--dtype", default="bfloat16", choices=("bfloat16", "float32"))
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    network = ATTCR(ATTCRConfig.preset("small"))
    optimiser = torch.optim.AdamW(network.parameters(), 1e-4)
    cloudy, clear = torch.rand(2, args.batch, 3, args.size, args.size)
    walls: dict[str, list[float]] = {name: [] for name in WAYS}
    cpus: dict[str, list[float]] = {name: [] for name in WAYS}
    for number in range(args.rounds + 1):
        for name, way in WAYS.items():
            wall, cpu = time.perf_counter(), time.process_time()
            with way(), torch.autocast("cpu", torch.bfloat16, enabled=args.dtype == "bfloat16"):
                loss = (network(cloudy).float() - clear).abs().mean()
                loss.backward()
            optimiser.step()
            optimiser.zero_grad()
            if number:  # the first warms up
                walls[name].append(time.perf_counter() - wall)
                cpus[name].append(time.process_time() - cpu)
    print(
        f"{args.batch} x {args.size} x {args.size}, {args.dtype}, {torch.get_num_threads()} threads, {os.getloadavg()}"
    )
    for name in WAYS:
        wall, cpu = (statistics.median(times[name]) for times in (walls, cpus))
        print(f"| {name} | {wall:.2f} s | {wall / args.batch:.3f} s | {cpu:.2f} s |")
    for name in WAYS:
        print(name, *(f"{wall:.3f}/{cpu:.3f}" for wall, cpu in zip(walls[name], cpus[name], strict=True)))


if __name__ == "__main__":
    main()
