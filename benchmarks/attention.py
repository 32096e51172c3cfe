"""Speed and memory of the operator, as ratios from one run; `benchmarks/paper/bench.py` measures whole networks.

python benchmarks/attention.py [--default-malloc]

Two threads, best of five, float32. Unless --default-malloc is given, glibc is told to keep freed memory
(M_MMAP_THRESHOLD, M_TRIM_THRESHOLD): otherwise both sides of a ratio measure page faults more than arithmetic.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from attcr.cli.threads import keep_memory
from attcr.ops import linear_attention, triangular_attention

HEADS, DIM = 2, 48
Product = Callable[[Tensor, Tensor, Tensor], Tensor]


def race(runs: Mapping[str, Callable[[], object]], rounds: int = 5) -> dict[str, float]:
    """Best seconds of each, taken in turn so that the machine's moods meet all alike."""
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(rounds + 1):  # the first round warms up
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def make_qkv(n: int) -> list[Tensor]:
    return [torch.randn(1, HEADS, n, DIM) for _ in range(3)]


def forward(product: Product, n: int) -> Callable[[], object]:
    qkv = make_qkv(n)

    def run() -> None:
        with torch.no_grad():
            product(*qkv)

    return run


def forward_backward(product: Product, n: int) -> Callable[[], object]:
    qkv = [x.requires_grad_() for x in make_qkv(n)]
    grad = torch.randn(1, HEADS, n, DIM)
    return lambda: torch.autograd.grad(product(*qkv), qkv, grad)


def peak_mib(n: int) -> float:
    """Peak memory of a forward and backward in a process of its own, above what its inputs take (Linux)."""
    answer = subprocess.run([sys.executable, __file__, "--peak", str(n)], capture_output=True, text=True, check=True)
    return float(answer.stdout)


def peak_here(n: int) -> float:
    run = forward_backward(triangular_attention, n)
    forward_backward(triangular_attention, 16_384)()  # code and buffers that do not depend on n
    Path("/proc/self/clear_refs").write_text("5")  # start the peak anew
    before = status_mib("VmRSS")
    run()
    return status_mib("VmHWM") - before


def status_mib(field: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1024


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--default-malloc", action="store_true")
    parser.add_argument("--peak", type=int)
    args = parser.parse_args()
    torch.set_num_threads(2)
    torch.manual_seed(0)
    if args.peak:
        print(peak_here(args.peak))
        return
    if not args.default_malloc:
        keep_memory({})  # not those that measure peaks, which it starts
    n = 65_536
    times = race({"plain": forward(linear_attention, n), "chunked": forward(triangular_attention, n)})
    print(f"forward, N = {n:,}: chunked {times['chunked'] / times['plain']:.2f} x plain", seconds(times))
    times = race({"plain": forward_backward(linear_attention, n), "chunked": forward_backward(triangular_attention, n)})
    print(f"forward + backward: chunked {times['chunked'] / times['plain']:.2f} x plain", seconds(times))
    runs = {f"{m:,}": forward_backward(triangular_attention, m) for m in (n, 4 * n)}
    short, long = race(runs).values()
    print(f"time, forward + backward, N x 4: {long / short:.2f} x")
    print(f"peak memory, forward + backward, N x 4: {peak_mib(4 * n) / peak_mib(n):.2f} x")


def seconds(times: Mapping[str, float]) -> str:
    return "(" + ", ".join(f"{name} {1e3 * value:.0f} ms" for name, value in times.items()) + ")"


if __name__ == "__main__":
    main()
