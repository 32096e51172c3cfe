"""Many clients of one server: none lost, none doubled, memory bounded, and how long a status takes.

    python benchmarks/serve.py --clients 50 --seconds 300

Each client sends a small scene, asks for a job, looks at its status every half second until it ends, and begins again.
The server is the command's own, with a small network of random numbers.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2 as httpx
import numpy as np
import psutil

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from fake_fleets import completed, make_weights  # type: ignore[import-not-found]
from fake_services import tiff  # type: ignore[import-not-found]

PAUSE = 0.5


class Load:
    """What the clients saw."""

    def __init__(self) -> None:
        self.status_seconds: list[float] = []
        self.job_seconds: list[float] = []
        self.accepted: list[str] = []
        self.ends: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()

    async def client(self, url: str, number: int, until: float, content: bytes) -> None:
        """Send scenes one after the other until the time is over, and see each to its end."""
        async with httpx.AsyncClient(base_url=url, timeout=120) as client:
            upload = (await client.post("/uploads", content=content)).json()["id"]
            while time.monotonic() < until:
                await self.tried(client, upload)

    async def tried(self, client: httpx.AsyncClient, upload: str) -> None:
        """See a job to its end; whatever goes wrong is counted."""
        try:
            await self.job(client, upload)
        except Exception as error:
            self.errors[f"{type(error).__name__}: {error}"[:100]] += 1
            await asyncio.sleep(PAUSE)

    async def job(self, client: httpx.AsyncClient, upload: str) -> None:
        began = time.monotonic()
        body = {"inputs": {"scene": {"upload": upload}, "mask": "none"}}
        answer = await client.post("/processes/restore/execution", json=body)
        answer.raise_for_status()
        job = answer.json()["jobID"]
        self.accepted.append(job)
        while True:
            asked = time.perf_counter()
            answer = await client.get(f"/jobs/{job}")
            answer.raise_for_status()
            self.status_seconds.append(time.perf_counter() - asked)
            status = answer.json()["status"]
            if status in ("successful", "failed", "dismissed"):
                self.ends[status] += 1
                self.job_seconds.append(time.monotonic() - began)
                return
            await asyncio.sleep(PAUSE)


def _size(process: psutil.Process) -> float:
    try:
        return float(process.memory_info().rss) / 2**20
    except psutil.NoSuchProcess:
        return 0.0


async def watch(pid: int, until: float) -> list[tuple[float, float]]:
    """Give the memory of the server, and of it with all its processes, in MiB, every second."""
    seen, server = [], psutil.Process(pid)
    while time.monotonic() < until:
        sizes = [_size(one) for one in (server, *server.children(recursive=True))]
        seen.append((sizes[0], sum(sizes)))
        await asyncio.sleep(1)
    return seen


@contextmanager
def served(store: Path, weights: Path) -> Iterator[tuple[int, str]]:
    """Run the command; give its process and address."""
    line = [sys.executable, "-m", "attcr", "serve", str(store), "--port", "0", "--weights", str(weights)]
    with (store.parent / "log").open("w") as log:
        process = subprocess.Popen(
            [*line, "--limit", "jobs=1000", "--threads", "1"],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=dict(os.environ),
        )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().rpartition(" ")[2].strip()
        while httpx.get(f"{url}/ready", timeout=60).status_code != 200:
            time.sleep(0.5)
        yield process.pid, url
    finally:
        process.terminate()
        process.wait(20)


async def run(url: str, pid: int, clients: int, seconds: float, size: int) -> tuple[Load, list[tuple[float, float]]]:
    load, until = Load(), time.monotonic() + seconds
    tasks = [load.client(url, number, until, tiff(size, seed=number)) for number in range(clients)]
    watching = asyncio.create_task(watch(pid, until))
    await asyncio.gather(*tasks)
    return load, await watching


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--size", type=int, default=32)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store, weights = Path(folder) / "store", make_weights(Path(folder) / "tiny.safetensors")
        with served(store, weights) as (pid, url):
            load, memory = asyncio.run(run(url, pid, given.clients, given.seconds, given.size))
        counts = completed(store)
    mine = [counts.get(job, 0) for job in load.accepted]
    half = len(memory) // 2
    told = {
        "clients": given.clients,
        "seconds": given.seconds,
        "jobs accepted": len(load.accepted),
        "ended": dict(load.ends),
        "errors": dict(load.errors),
        "lost": mine.count(0),
        "doubled": sum(count > 1 for count in mine),
        "status calls": len(load.status_seconds),
        "status ms p50 p95 p99": [round(1000 * float(q)) for q in np.percentile(load.status_seconds, [50, 95, 99])],
        "job s p50 p95": [round(float(q), 1) for q in np.percentile(load.job_seconds, [50, 95])],
        "server MiB, half way and at the end": [round(memory[half][0]), round(memory[-1][0])],
        "all processes MiB, most": round(max(every for _, every in memory)),
    }
    print(json.dumps(told, indent=2))


if __name__ == "__main__":
    main()
