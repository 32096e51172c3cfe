"""The compiled scan against the chunked operator, in turn: time in bfloat16, and rounding over tokens all alike.

python benchmarks/scan.py, with the environment of docs/speed.md, "A training step"; 2 threads.
"""

import time
from collections.abc import Callable

import torch

from attcr.networks.attcr import ATTCR, ATTCRConfig
from attcr.ops import native, triangular_attention


def in_turn(run: Callable[[], object], times: int) -> str:
    """Give the best time of both."""
    best = {False: float("inf"), True: float("inf")}
    for _ in range(times):
        for native.ASKED in best:
            began = time.perf_counter()
            run()
            best[native.ASKED] = min(best[native.ASKED], time.perf_counter() - began)
    return f"chunked {1e3 * best[False]:.0f} ms, scan {1e3 * best[True]:.0f} ms"


def main() -> None:
    """Measure and print."""
    torch.set_num_threads(2)
    torch.manual_seed(0)
    for tokens, dim in ((4096, 24), (16384, 12)):
        q, k, v, grad = (torch.randn(8, tokens, 2, dim).bfloat16().transpose(1, 2) for _ in range(4))
        qkv = [x.requires_grad_() for x in (q, k, v)]
        took = in_turn(lambda: torch.autograd.grad(triangular_attention(*qkv), qkv, grad), 8)  # noqa: B023
        print(f"8 items, 2 heads, {tokens} tokens, d = {dim}: {took}")
    network = ATTCR(ATTCRConfig.preset("small")).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    images = torch.rand(8, 3, 128, 128)

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16):
            restored = network(images)
        restored.float().square().mean().backward()

    print(f"step of 8 x 128 px: {in_turn(step, 4)}")
    for tokens in (16384, native.MOST_TOKENS):
        for native.ASKED in (False, True):
            worst = 0.0
            for _ in range(10):
                q, k, v = (torch.randn(1, 2, 1, 12).expand(1, 2, tokens, 12) for _ in range(3))
                error = (triangular_attention(q, k, v) - v).abs().max() / v.abs().max()
                worst = max(worst, float(error))
            print(f"{tokens} tokens all alike, {'scan' if native.ASKED else 'chunked'}: off by {worst:.1e} at most")


if __name__ == "__main__":
    main()
