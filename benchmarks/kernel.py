"""The compiled operator against the chunked one, in turn: forward, and forward with backward.

python benchmarks/kernel.py prints the table of docs/engineering/speed.md: its time over the chunked one's.
python benchmarks/kernel.py --long runs 4,194,304 tokens and prints time and peak memory.
"""

import argparse
import os
import resource
import statistics
import sys
import time

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import torch
from torch import Tensor

from attcr.ops import kernel, triangular_attention, using

TOKENS = (1024, 4096, 16_384, 65_536, 262_144)
LONG = 2**22
NAMES = ("chunked", "kernel")
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def drawn(shape: tuple[int, int, int, int], dtype: torch.dtype, count: int) -> list[Tensor]:
    """Draw tokens (B, heads, N, d) that lie in memory as in the network."""
    generator = torch.Generator().manual_seed(0)
    batch, heads, tokens, dim = shape
    return [torch.randn(batch, tokens, heads, dim, generator=generator).to(dtype).transpose(1, 2) for _ in range(count)]


def ratios(shape: tuple[int, int, int, int], dtype: torch.dtype, rounds: int) -> tuple[float, float, float]:
    """Give kernel over chunked, the median of the rounds: forward, with backward; and chunked's best ms forward.

    One thread is measured by its processor time, more by the clock.
    """
    now = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    q, k, v, grad = drawn(shape, dtype, 4)
    qkv = [x.requires_grad_() for x in (q, k, v)]
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in NAMES}
    repeats = max(1, 32_768 // (shape[0] * shape[2]))
    for _ in range(rounds + 1):
        for name in NAMES:
            with using(name):  # type: ignore[arg-type]
                start = now()
                with torch.no_grad():
                    for _ in range(repeats):
                        triangular_attention(*qkv)
                middle = now()
                for _ in range(repeats):
                    torch.autograd.grad(triangular_attention(*qkv), qkv, grad)
                times[name].append((middle - start, now() - middle))
    del times["chunked"][0], times["kernel"][0]  # they warm up
    forward, both = (
        statistics.median(b[part] / a[part] for a, b in zip(times["chunked"], times["kernel"], strict=True))
        for part in (0, 1)
    )
    return forward, both, 1e3 * min(a for a, _ in times["chunked"]) / repeats


def table(args: argparse.Namespace) -> None:
    """Print the ratios of all sizes, and what was slower."""
    slower = []
    print(f"load {os.getloadavg()}, vectors of {kernel.LANES} floats")
    print(f"| type, threads, items x 2 heads x d | {' | '.join(f'{tokens:,}' for tokens in TOKENS)} |")
    for dtype in args.dtype or DTYPES:
        for threads in args.threads or (1, 2):
            torch.set_num_threads(threads)
            for dim in args.dim or kernel.SIZES:
                cells = []
                for tokens in TOKENS:
                    shape = (args.batch, 2, tokens, dim)
                    forward, both, _ = ratios(shape, DTYPES[dtype], args.rounds)
                    cells.append(f"{forward:.2f} / {both:.2f}")
                    if max(forward, both) > 1:
                        slower.append((dtype, threads, shape, forward, both))
                print(f"| {dtype}, {threads}, {args.batch} x 2 x {dim} | {' | '.join(cells)} |", flush=True)
    print(f"load {os.getloadavg()}; slower than chunked: {slower or 'none'}")


def long(dim: int, dtype: str) -> tuple[float, float]:
    """Give the seconds of LONG tokens, and the GiB of memory at the peak, tokens and output included."""
    q, k, v = drawn((1, 2, LONG, dim), DTYPES[dtype], 3)
    with torch.no_grad():
        triangular_attention(q[:, :, :64], k[:, :, :64], v[:, :, :64], impl="kernel")
        start = time.perf_counter()
        triangular_attention(q, k, v, impl="kernel")
    return time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--dim", type=int, action="append")
    parser.add_argument("--dtype", choices=DTYPES, action="append")
    parser.add_argument("--threads", type=int, action="append")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--lanes", type=int, help="8 runs the code for AVX2 on a processor with AVX-512")
    args = parser.parse_args()
    if args.lanes:
        kernel.LANES = args.lanes
    if not args.long:
        return table(args)
    if len(args.dim or ()) != 1 or len(args.dtype or ()) != 1:
        sys.exit("--long takes one --dim and one --dtype: the peak of memory is that of the process")
    seconds, peak = long(args.dim[0], args.dtype[0])
    print(
        f"{LONG:,} tokens, {torch.get_num_threads()} threads: {seconds:.2f} s, {peak:.2f} GiB, load {os.getloadavg()}"
    )
    return None


if __name__ == "__main__":
    main()
