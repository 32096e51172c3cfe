"""Servers for tests: in this process with a quick worker, or as the command runs them."""

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx2 as httpx
import numpy as np
import rasterio
from starlette.testclient import TestClient

from attcr.serve import supervisor
from attcr.serve.app import create_app
from attcr.serve.settings import Limits, ServeSettings, digest_of
from fake_fleets import SOURCE, environment
from fake_scenes import UTM, noise

QUICK = (sys.executable, str(Path(__file__).parent / "serve" / "quick_worker.py"))
KEYS = {"ada": "ada-has-a-long-key", "bob": "bob-has-another-key"}
HOME = "http://127.0.0.1:8000"


def tiff(size: int = 32, bands: int = 3, seed: int = 0, dtype: str = "uint8", **profile: Any) -> bytes:
    """A small GeoTIFF of noise."""
    values = noise(dtype, (bands, size, size), seed)
    if dtype == "uint8" and bands == 3:
        profile = {"photometric": "RGB", **profile}
    with rasterio.MemoryFile() as memory:
        with memory.open(
            driver="GTiff", count=bands, height=size, width=size, dtype=dtype, **{**UTM, **profile}
        ) as file:
            file.write(values)
        return bytes(memory.read())


def plain_tiff(width: int, height: int) -> bytes:
    """A TIFF without a place."""
    with rasterio.MemoryFile() as memory:
        with memory.open(driver="GTiff", count=1, height=height, width=width, dtype="uint8") as file:
            file.write(np.arange(width * height, dtype=np.uint8).reshape(1, height, width))
        return bytes(memory.read())


@contextmanager
def quick_server(
    store: Path, *, keys: bool = False, limits: Limits | None = None, allow_hosts: tuple[str, ...] = ()
) -> Iterator[TestClient]:
    """A server in this process whose worker needs no network."""
    before, supervisor.WORKER = supervisor.WORKER, QUICK
    settings = ServeSettings(
        str(store),
        keys={digest_of(key): name for name, key in KEYS.items()} if keys else None,
        limits=limits or Limits(),
        allow_hosts=allow_hosts,
    )
    try:
        with TestClient(create_app(settings), base_url=HOME, raise_server_exceptions=False) as client:
            yield client
    finally:
        supervisor.WORKER = before


def as_user(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {KEYS[name]}"}


def send(client: Any, content: bytes, name: str = "scene.tif", **more: Any) -> str:
    """Send a file; give its id."""
    answer = client.post("/uploads", params={"name": name}, content=content, **more)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def ask(client: Any, inputs: dict[str, Any], **more: Any) -> Any:
    """Ask for a job."""
    return client.post("/processes/restore/execution", json={"inputs": inputs}, **more)


def begin(client: Any, content: bytes, name: str = "scene.tif", **inputs: Any) -> str:
    """Send a file and ask for a job; give its id."""
    answer = ask(client, {"scene": {"upload": send(client, content, name)}, **inputs})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["jobID"])


def ended(client: Any, job: str, seconds: float = 180, **more: Any) -> dict[str, Any]:
    """Wait until a job has ended; give its status."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        status: dict[str, Any] = client.get(f"/jobs/{job}", **more).json()
        if status["status"] in ("successful", "failed", "dismissed"):
            return status
        time.sleep(0.05)
    raise AssertionError(f"{job} has not ended: {status}")


_WITH_WORKER = """
import sys
from attcr.serve import supervisor
supervisor.WORKER = tuple(sys.argv.pop(1).split(chr(10)))
from attcr.cli import main
main()
"""


@contextmanager
def command(
    store: Path, *arguments: str, worker: tuple[str, ...] | None = None, path: Path = Path(__file__).parent
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server as the command runs it, with a folder of modules; gives its process and address."""
    start = [sys.executable, "-m", "attcr"]
    if worker is not None:
        start = [sys.executable, "-c", _WITH_WORKER, "\n".join(worker)]
    with (store.parent / f"{store.name}.log").open("a") as log:
        process = subprocess.Popen(
            [*start, "serve", str(store), "--port", "0", *arguments],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(SOURCE), str(path)]), "OMP_NUM_THREADS": "1"},
        )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert " at http" in line, (store.parent / f"{store.name}.log").read_text()[-2000:]
        yield process, line.rpartition(" ")[2].strip()
    finally:
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()


@contextmanager
def answers(url: str, seconds: float = 60) -> Iterator[httpx.Client]:
    """A client of a server that is starting; it is ready."""
    with httpx.Client(base_url=url, timeout=60) as client:
        until = time.monotonic() + seconds
        while client.get("/ready").status_code != 200:
            assert time.monotonic() < until, "the server is not ready"
            time.sleep(0.1)
        yield client


def pixels(content: bytes) -> np.ndarray:
    with rasterio.open(BytesIO(content)) as file:
        return np.asarray(file.read())


def problem(answer: Any) -> dict[str, Any]:
    """The problem details of a refusal."""
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    told: dict[str, Any] = json.loads(answer.text)
    assert set(told) >= {"type", "title", "status", "detail"}
    assert told["status"] == answer.status_code
    return told


def by_command(folder: Path, content: bytes, weights: Path, *options: str) -> dict[str, str]:
    """The sha256 of what `attcr restore` makes of a scene, by output."""
    folder.mkdir()
    (folder / "scene.tif").write_bytes(content)
    line = [
        sys.executable,
        "-m",
        "attcr",
        "restore",
        "scene.tif",
        "out.tif",
        "--weights",
        str(weights),
        "--dtype",
        "float32",
        *options,
    ]
    subprocess.run(line, cwd=folder, check=True, capture_output=True, env=environment())
    names = {"restored": "out.tif", "quality": "out_quality.tif", "preview": "out_preview.png"}
    return {name: hashlib.sha256((folder / file).read_bytes()).hexdigest() for name, file in names.items()}


def by_service(client: Any, job: str) -> dict[str, str]:
    """The sha256 of what a job gave, by output."""
    return {
        name: hashlib.sha256(client.get(f"/jobs/{job}/results/{name}").content).hexdigest()
        for name in ("restored", "quality", "preview")
    }
