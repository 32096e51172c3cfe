"""The command that measures networks on this machine: bench."""

import os
from pathlib import Path
from typing import Annotated

import typer

from attcr.cli.arguments import option

_NETWORKS = "A preset, ablation, restormer, spagan, published or stored weights; may be repeated."
_BACKENDS = "torch, torch-chunked, torch-plain, torch-naive, onnxruntime, openvino; may be repeated."


def bench(
    network: Annotated[list[str] | None, option("", _NETWORKS)] = None,
    size: Annotated[list[int] | None, option("", "Pixels along the image; may be repeated.")] = None,
    backend: Annotated[list[str] | None, option("", _BACKENDS)] = None,
    dtype: Annotated[list[str] | None, option("", "float32, bfloat16, float16; may be repeated.")] = None,
    batch: Annotated[int, option("", "Images at once.", min=1)] = 1,
    rounds: Annotated[int, option("", "Rounds; each runs all networks in turn.", min=1)] = 5,
    device: Annotated[str, option("", "cpu, cuda, cuda:1, mps.")] = "cpu",
    threads: Annotated[int, option("", "Threads of each network; 0: the library decides.", min=0)] = 0,
    most_seconds: Annotated[float, option("", "Skip a size that takes longer for one run.")] = 30.0,
    memory: Annotated[bool, option("", "Measure peak memory, each in its own process.")] = True,
    plot: Annotated[Path | None, option("", "Draw time against size: .svg, .png or .pdf.")] = None,
    as_json: Annotated[bool, option("", "Print JSON with all samples.", "--json")] = False,
) -> None:
    """Measure networks on this machine: parameters, multiply-adds, time, memory, and the cost of the attention."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch is loaded: threads that wait must not work
    from attcr.bench import BenchOptions, draw, run_bench

    default = BenchOptions()
    options = BenchOptions(
        networks=tuple(network or default.networks),
        sizes=tuple(size or default.sizes),
        backends=tuple(backend or default.backends),
        dtypes=tuple(dtype or default.dtypes),
        batch=batch,
        rounds=rounds,
        device=device,
        threads=threads,
        most_seconds=most_seconds,
        memory=memory,
    )
    report = run_bench(options, on_size=lambda told: typer.echo(f"measuring {told}", err=True))
    typer.echo(report.to_json() if as_json else report.table())
    if plot:
        typer.echo(f"plot: {draw(report, plot)}", err=True)
