"""The command that measures networks on this machine: bench."""

import os
from pathlib import Path
from typing import Annotated

import typer


def bench(
    network: Annotated[
        list[str] | None,
        typer.Option(help="A preset, ablation, restormer, spagan, published or stored weights; may be repeated."),
    ] = None,
    size: Annotated[list[int] | None, typer.Option(help="Pixels along the image; may be repeated.")] = None,
    backend: Annotated[
        list[str] | None,
        typer.Option(help="torch, torch-chunked, torch-plain, torch-naive, onnxruntime, openvino; may be repeated."),
    ] = None,
    dtype: Annotated[list[str] | None, typer.Option(help="float32, bfloat16, float16; may be repeated.")] = None,
    batch: Annotated[int, typer.Option(min=1, help="Images at once.")] = 1,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; each runs all networks in turn.")] = 5,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps.")] = "cpu",
    threads: Annotated[int, typer.Option(min=0, help="Threads of each network; 0: the library decides.")] = 0,
    most_seconds: Annotated[float, typer.Option(help="Skip a size that takes longer for one run.")] = 30.0,
    memory: Annotated[bool, typer.Option(help="Measure peak memory, each in its own process.")] = True,
    plot: Annotated[Path | None, typer.Option(help="Draw time against size: .svg, .png or .pdf.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON with all samples.")] = False,
) -> None:
    """Measure networks on this machine: parameters, multiply-adds, time, memory, and what the attention costs."""
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
