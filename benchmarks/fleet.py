"""Figures of docs/guides/fleet.md: python benchmarks/fleet.py simulate|resume|efficiency [--rows N] [--folder DIR]"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import attcr
from attcr.fleet.fetch import Fetched
from attcr.fleet.manifest import Work, read_manifest
from attcr.fleet.run import FleetOptions, recipe_of, run_fleet
from attcr.fleet.worker import SceneWorker
from attcr.predict import Predictor
from attcr.restore.options import RestoreOptions


class Stub(SceneWorker):
    """A worker whose network and rasters cost nothing: it only publishes items, as every worker does."""

    def load(self, options: RestoreOptions) -> Predictor:
        return None  # type: ignore[return-value]

    def restore(self, work: Work, fetched: Fetched | None) -> float | None:
        item = self.scratch.folder / f"{work.id}.out" / "item.json"
        item.parent.mkdir()
        item.write_text(json.dumps({"properties": {"attcr:work": work.key}}))
        try:
            return 120.56 if self.publish(work, item) else None
        finally:
            item.parent.rmdir()


def make_manifest(path: Path, rows: int) -> None:
    schema = pa.schema([("id", pa.string()), ("hrefs", pa.list_(pa.string())), ("version", pa.string()),
                        ("megapixels", pa.float64())])  # fmt: skip
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, rows, 50_000):
            ids = [f"S2B_MSIL2A_20240101T000000_N0510_R001_T{i:07d}" for i in range(start, min(start + 50_000, rows))]
            table = {
                "id": ids,
                "hrefs": [[f"/archive/{name[-2:]}/{name}.tif"] for name in ids],
                "version": [f"{i:032x}" for i in range(len(ids))],
                "megapixels": [120.56] * len(ids),
            }
            writer.write_table(pa.table(table, schema))


def peak_mib() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def simulate(folder: Path, rows: int) -> None:
    """Feed made rows through manifest, Ray and ledger; stop half way, and go on."""
    make_manifest(folder / "manifest.parquet", rows)
    (folder / "weights").write_bytes(b"stub")
    for _ in range(2):
        done = subprocess.run([sys.executable, __file__, "_half", str(folder), str(rows)], check=True, text=True,
                              capture_output=True)  # fmt: skip
        print(done.stdout, end="", flush=True)


def half(folder: Path, rows: int) -> None:
    """One half of the simulation, in a process of its own for its memory's sake."""
    out = folder / "out"
    first = not (out / "items").exists()
    began = time.perf_counter()
    started: list[float] = []

    class EnoughError(Exception):
        pass

    def seen(outcome: object, tally: object) -> None:
        if not started:
            started.append(time.perf_counter())
        if first and tally.done >= rows // 2:  # type: ignore[attr-defined]
            raise EnoughError

    try:
        tally = run_fleet(
            str(folder / "manifest.parquet"),
            str(out),
            str(folder / "weights"),
            fleet=FleetOptions(engine="ray", workers=2, readers=2),
            on_outcome=seen,
            make=Stub,
        )
        done = tally.done
        print(f"  {tally}")
    except EnoughError:
        done = rows // 2
    now = time.perf_counter()
    print(
        f"{'first' if first else 'second'} half: {started[0] - began:.1f} s to the first row done (survey, scan of "
        f"{0 if first else rows // 2:,} done, Ray), then {done / (now - started[0]):,.0f} rows a second; "
        f"driver's peak {peak_mib():,.0f} MiB",
        flush=True,
    )


def resume(folder: Path, rows: int) -> None:
    """Scan a half-done output: every row of the manifest is keyed, found in the ledger and among the items."""
    from attcr.fleet.ledger import Ledger, Outcome
    from attcr.fleet.run import Tally, _Todo
    from attcr.fleet.store import Scratch, Store

    manifest, out = folder / "resume.parquet", folder / "resume"
    recipe = recipe_of("weights", RestoreOptions())
    if not manifest.exists():
        make_manifest(manifest, rows)
        store = Store(str(out))
        (out / "items").mkdir(parents=True)
        with Scratch(store.scratch) as scratch:
            ledger = Ledger(store, scratch, recipe)
            for i, work in enumerate(read_manifest(str(manifest))):
                if i % 2 == 0:
                    ledger.add(Outcome(work.id, work.keyed(recipe).key, "done", 1.0, 120.56, 1, worker="h:1"))
                    (out / "items" / f"{work.id}.json").touch()
            ledger.flush()
    store, tally = Store(str(out)), Tally()
    began = time.perf_counter()
    with Scratch(store.scratch) as scratch:
        todo = _Todo(str(manifest), recipe, FleetOptions(), store, tally, Ledger(store, scratch, recipe))
        left = sum(1 for _ in todo)
    print(f"scan of {rows:,} rows: {time.perf_counter() - began:.1f} s, {tally.skipped:,} done, {left:,} left; "
          f"peak {peak_mib():,.0f} MiB")  # fmt: skip


def bare(weights: Path, tiles: int, tile: int, barrier: object, queue: object) -> None:
    """The network alone on tiles from memory, in this process."""
    import torch

    from attcr.predict import open_predictor

    torch.set_num_threads(1)
    predictor = open_predictor(weights)
    x = np.random.default_rng(0).random((1, 3, tile, tile), np.float32)
    predictor(x)
    barrier.wait()  # type: ignore[attr-defined]
    began = time.perf_counter()
    for _ in range(tiles):
        predictor(x)
    queue.put((began, time.perf_counter()))  # type: ignore[attr-defined]


def efficiency(folder: Path, scenes: int, weights: Path) -> None:
    """Compare scenes through the fleet with the network alone, both with two processes of one thread."""
    import rasterio

    size, tile = 480, 256  # 2 x 2 tiles with the default overlap
    (folder / "in").mkdir(exist_ok=True)
    for i in range(scenes):
        values = np.random.default_rng(i).integers(0, 255, (3, size, size)).astype(np.uint8)
        with rasterio.open(folder / "in" / f"s{i}.tif", "w", driver="GTiff", count=3, height=size, width=size,
                           dtype="uint8", photometric="RGB") as file:  # fmt: skip
            file.write(values)
    shutil.rmtree(folder / "out", ignore_errors=True)
    context = multiprocessing.get_context("spawn")
    barrier, queue = context.Barrier(2), context.Queue()
    tiles = scenes * 4
    both = [context.Process(target=bare, args=(weights, tiles // 2, tile, barrier, queue)) for _ in range(2)]
    for process in both:
        process.start()
    spans = [queue.get(timeout=1800) for _ in both]
    for process in both:
        process.join()
    alone = max(end for _, end in spans) - min(begin for begin, _ in spans)
    fleet = FleetOptions(engine="ray", workers=2, threads=1)
    tally = run_fleet(str(folder / "in" / "*.tif"), str(folder / "out"), str(weights), fleet=fleet)
    print(f"{scenes} scenes of {size} x {size}, {tiles} tiles, {weights.name}")
    print(f"bare: {alone:.1f} s, {tiles / alone:.2f} tiles a second")
    print(f"fleet: {tally.seconds:.1f} s, {tiles / tally.seconds:.2f} tiles a second")
    print(f"ratio {alone / tally.seconds:.3f}, start-up {tally.startup_seconds:.1f} s apart")


def main() -> None:
    if sys.argv[1] == "_half":
        half(Path(sys.argv[2]), int(sys.argv[3]))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["simulate", "resume", "efficiency"])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--scenes", type=int, default=12)
    parser.add_argument("--weights", type=Path, help="by default untrained ones of the preset rice2")
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="attcr-fleet-"))
    folder.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if given.what == "simulate":
        simulate(folder, given.rows)
    elif given.what == "resume":
        resume(folder, given.rows)
    else:
        weights = given.weights or folder / "rice2.safetensors"
        if not weights.exists():
            attcr.save_model(attcr.ATTCR(attcr.ATTCRConfig.preset("rice2")), weights)
        efficiency(folder, given.scenes, weights)


if __name__ == "__main__":
    main()
