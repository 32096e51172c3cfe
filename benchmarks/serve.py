"""Many clients of one server: none lost, none doubled, memory bounded, and how long a status takes; or its tiles.

    python benchmarks/serve.py --clients 50 --seconds 300
    python benchmarks/serve.py --tiles SCENE
    python benchmarks/serve.py --beside 4 --size 256

Each client sends a small scene, asks for a job, looks at its status every half second until it ends, and begins again.
The server is the command's own, with a small network of random numbers.

With `--tiles` a scene is restored with the weights that fit it. Then each of its tiles is asked for at every zoom of
the viewer, input, result and quality: one at a time, and as many at once as a browser asks of one server.

With `--beside` a user's jobs are timed one after the other, first alone, then beside another key that sends jobs of the
same size without pause on so many connections; three times each.
"""

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2 as httpx
import morecantile
import numpy as np
import psutil

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from fake_fleets import completed, make_weights  # type: ignore[import-not-found]
from fake_services import KEYS, as_user, tiff  # type: ignore[import-not-found]

PAUSE = 0.5
AT_ONCE = 6
"""Connections that a browser has to one server."""
A_ZOOM = 100
"""Tiles of one zoom that are asked for, of a scene that has more."""
TURNS = 3
"""Times that jobs are timed alone and beside others."""


class Load:
    """What the clients saw."""

    def __init__(self, pause: float = PAUSE) -> None:
        self.pause = pause
        self.status_seconds: list[float] = []
        self.job_seconds: list[float] = []
        self.accepted: list[str] = []
        self.ends: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()

    async def client(
        self, url: str, number: int, until: float, content: bytes, headers: dict[str, str] | None = None
    ) -> None:
        """Send scenes one after the other until the time is over, and see each to its end."""
        async with httpx.AsyncClient(base_url=url, timeout=120, headers=headers) as client:
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
            await asyncio.sleep(self.pause)


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
def served(store: Path, *arguments: str) -> Iterator[tuple[int, str]]:
    """Run the command; give its process and address."""
    line = [sys.executable, "-m", "attcr", "serve", str(store), "--port", "0", *arguments]
    with (store.parent / "log").open("w") as log:
        process = subprocess.Popen(
            line,
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


async def restored(client: httpx.AsyncClient, scene: Path, sensor: str | None) -> dict[str, Any]:
    """Let a scene be restored; give what the viewer is told of it."""
    upload = (await client.post("/uploads", params={"name": scene.name}, content=scene.read_bytes())).json()["id"]
    inputs = {"scene": {"upload": upload}, **({"sensor": sensor} if sensor else {})}
    answer = await client.post("/processes/restore/execution", json={"inputs": inputs})
    answer.raise_for_status()
    job = answer.json()["jobID"]
    while (told := (await client.get(f"/jobs/{job}")).json())["status"] not in ("successful", "failed"):
        await asyncio.sleep(PAUSE)
    assert told["status"] == "successful", told["message"]
    info: dict[str, Any] = (await client.get(f"/jobs/{job}/info")).json()
    return info


def tiles_of(info: dict[str, Any]) -> list[tuple[str, str]]:
    """Give layer and address of the tiles of a scene, zoom by zoom as one who looks closer asks for them."""
    grid, chance, found = morecantile.tms.get("WebMercatorQuad"), random.Random(0), []
    west, south, east, north = info["bounds"]
    for zoom in range(info["minzoom"], info["maxzoom"] + 1):
        tiles = list(grid.tiles(west, south, east, north, [zoom]))
        chance.shuffle(tiles)
        found += [
            (layer, info["tiles"][layer].format(**tile._asdict())) for tile in tiles[:A_ZOOM] for layer in info["tiles"]
        ]
    return found


async def draw(client: httpx.AsyncClient, tiles: list[tuple[str, str]], at_once: int) -> dict[str, list[int]]:
    """Ask for tiles, so many at once; give the median and the 95th percentile of what each layer took, in ms."""
    waiting = iter(tiles)
    took: list[tuple[str, float]] = []

    async def look() -> None:
        for layer, address in waiting:
            asked = time.perf_counter()
            (await client.get(address)).raise_for_status()
            took.append((layer, time.perf_counter() - asked))

    await asyncio.gather(*(look() for _ in range(at_once)))
    layers = {"all": took, **{name: [one for one in took if one[0] == name] for name in dict(tiles)}}
    return {
        name: [round(1000 * float(q)) for q in np.percentile([seconds for _, seconds in some], [50, 95])]
        for name, some in layers.items()
    }


async def look_at(url: str, scene: Path, sensor: str | None) -> dict[str, Any]:
    """Restore a scene and ask for its tiles; give the figures."""
    async with httpx.AsyncClient(base_url=url, timeout=120) as client:
        info = await restored(client, scene, sensor)
        tiles = tiles_of(info)
        return {
            "pixels, bands": [info["width"], info["height"], len(info["bands"])],
            "zooms": [info["minzoom"], info["maxzoom"]],
            "tiles": len(tiles),
            "tile ms p50 p95, one at a time": await draw(client, tiles, 1),
            f"tile ms p50 p95, {AT_ONCE} at once": await draw(client, tiles, AT_ONCE),
            "load": round(os.getloadavg()[0], 1),
        }


async def beside(url: str, given: argparse.Namespace) -> dict[str, Any]:
    """Time a user's jobs alone and beside another's; give the figures."""
    content = tiff(given.size)
    medians: dict[str, list[float]] = {"alone": [], "beside": []}
    others = 0
    for turn in range(2 * TURNS):
        mine, theirs, until = Load(0.01), Load(0.01), time.monotonic() + given.seconds / (2 * TURNS)
        tasks = [mine.client(url, 0, until, content, as_user("ada"))]
        if turn % 2:
            tasks += [theirs.client(url, n, until, content, as_user("bob")) for n in range(given.beside)]
        await asyncio.gather(*tasks)
        assert not mine.errors, mine.errors
        medians["beside" if turn % 2 else "alone"].append(float(np.median(mine.job_seconds)))
        others += len(theirs.job_seconds)
    ratios = [late / soon for soon, late in zip(medians["alone"], medians["beside"], strict=True)]
    return {
        **{f"{name} s, median of each turn": [round(one, 2) for one in seen] for name, seen in medians.items()},
        "beside / alone": [round(one, 2) for one in ratios],
        "median": round(float(np.median(ratios)), 2),
        "jobs of the other key": others,
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
    }


def shared(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Serve two keys; give what a user's jobs take beside another's."""
    weights = make_weights(folder / "tiny.safetensors") if given.tiny else "rgb-thin"
    (folder / "keys").write_text("".join(f"{name} {key}\n" for name, key in KEYS.items()))
    with served(folder / "store", "--weights", str(weights), "--keys", str(folder / "keys")) as (_, url):
        return asyncio.run(beside(url, given))


def measure(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Let the clients work; give what they saw."""
    store, weights = folder / "store", make_weights(folder / "tiny.safetensors")
    with served(store, "--threads", "1", "--weights", str(weights), "--limit", "jobs=1000") as (pid, url):
        load, memory = asyncio.run(run(url, pid, given.clients, given.seconds, given.size))
    counts = completed(store)
    mine = [counts.get(job, 0) for job in load.accepted]
    half = len(memory) // 2
    return {
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


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--beside", type=int, metavar="CONNECTIONS")
    parser.add_argument("--tiny", action="store_true", help="a small network of random numbers with --beside")
    parser.add_argument("--tiles", type=Path, metavar="SCENE")
    parser.add_argument("--sensor", help="of SCENE, where it does not say")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if given.tiles:
            with served(Path(folder, "store"), "--threads", "1") as (_, url):
                told = asyncio.run(look_at(url, given.tiles, given.sensor))
        elif given.beside:
            told = shared(given, Path(folder))
        else:
            told = measure(given, Path(folder))
    print(json.dumps(told, indent=2))


if __name__ == "__main__":
    main()
