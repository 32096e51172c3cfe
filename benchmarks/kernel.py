"""The compiled operator against the chunked one, in turn, on one thread: forward, and forward with backward.

python benchmarks/kernel.py prints the table of docs/engineering/speed.md.
"""

import time

import torch

from attcr.ops import triangular_attention, using

ROUNDS = 8
SHAPES = ((2, 16384, 12), (4, 4096, 24), (2, 65536, 24), (2, 16384, 48))


def milliseconds(heads: int, tokens: int, dim: int, dtype: torch.dtype) -> dict[str, tuple[float, float]]:
    """Give the best processor times of both operators: forward, and forward with backward."""
    generator = torch.Generator().manual_seed(0)
    q, k, v, grad = (
        torch.randn(1, tokens, heads, dim, generator=generator).to(dtype).transpose(1, 2) for _ in range(4)
    )
    qkv = [x.requires_grad_() for x in (q, k, v)]
    best = {"chunked": (float("inf"),) * 2, "kernel": (float("inf"),) * 2}
    for _ in range(ROUNDS):
        for name, before in best.items():
            with using(name):  # type: ignore[arg-type]
                times = [time.process_time()]
                with torch.no_grad():
                    triangular_attention(*qkv)
                times.append(time.process_time())
                torch.autograd.grad(triangular_attention(*qkv), qkv, grad)
                times.append(time.process_time())
            best[name] = tuple(min(a, 1e3 * (t - s)) for a, s, t in zip(before, times, times[1:], strict=False))  # type: ignore[assignment]
    return best


def main() -> None:
    """Measure and print."""
    torch.set_num_threads(1)
    for heads, tokens, dim in SHAPES:
        cells = []
        for dtype in (torch.float32, torch.bfloat16):
            best = milliseconds(heads, tokens, dim, dtype)
            cells += [f"{best[name][0]:.1f} / {best[name][1]:.1f}" for name in ("chunked", "kernel")]
        print(f"| {heads} x {tokens:,} x {dim} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
