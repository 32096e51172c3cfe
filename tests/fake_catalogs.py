"""A small catalog of one place on several dates: files served over HTTP, and a real STAC API that knows of them."""

import json
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from affine import Affine
from rasterio.warp import transform_bounds

from fake_dates import ground
from fake_scenes import UTM, make

SERVER = Path(__file__).with_name("file_server.py")
SIDE = 128
BANDS = ("B02", "B03", "B04")
COLLECTION = "sentinel-2-l2a"


@dataclass(frozen=True)
class Asked:
    """What a file server was asked."""

    log: Path

    def of(self, ending: str) -> list[tuple[str, str]]:
        """Path and range of each request for files that end so."""
        lines = [line.split("\t") for line in self.log.read_text().splitlines()]
        return [(path, part) for path, part in lines if path.endswith(ending)]

    def clear(self) -> None:
        self.log.write_text("")


@contextmanager
def counted(folder: Path, log: Path) -> Iterator[tuple[str, Asked]]:
    """Serve a folder from a process of its own (GDAL holds Python's lock while it opens) and keep what was asked."""
    log.write_text("")
    command = [sys.executable, str(SERVER), str(folder), str(log)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield f"http://127.0.0.1:{server.stdout.readline().strip()}", Asked(log)
        finally:
            server.kill()


def box() -> list[float]:
    """West, south, east, north of the place, in degrees."""
    t = UTM["transform"]
    return list(transform_bounds(UTM["crs"], "EPSG:4326", t.c, t.f + t.e * SIDE, t.c + t.a * SIDE, t.f))


def add_date(
    folder: Path, host: str, day: str, scl: np.ndarray, tone: tuple[float, float] = (1.0, 0.0)
) -> dict[str, object]:
    """Write the files of a date, whose ground has these tones (times, plus) and white cloud, and give its item."""
    name = f"S2_{day.replace('-', '')}"
    (folder / name).mkdir()
    values = ground(SIDE, SIDE) * tone[0] + tone[1]
    values = np.where(scl.repeat(2, 0).repeat(2, 1) == 9, 0.9, values)
    for band, plane in zip(BANDS, values, strict=True):
        make(folder / name / f"{band}.tif", np.rint(plane * 10_000).astype(np.uint16)[None], **UTM)
    t = UTM["transform"]
    coarse = {"crs": UTM["crs"], "transform": Affine(2 * t.a, 0, t.c, 0, 2 * t.e, t.f)}
    make(folder / name / "SCL.tif", scl[None], lambda file: file.build_overviews([2, 4]), **coarse, nodata=0)
    west, south, east, north = box()
    ring = [[west, south], [east, south], [east, north], [west, north], [west, south]]
    assets = {
        key: {"href": f"{host}/{name}/{key}.tif", "type": "image/tiff", "bands": [{"name": key}]}
        for key in (*BANDS, "SCL")
    }
    return {
        "type": "Feature",
        "stac_version": "1.1.0",
        "stac_extensions": [],
        "id": name,
        "collection": COLLECTION,
        "geometry": {"type": "Polygon", "coordinates": [ring]},
        "bbox": [west, south, east, north],
        "properties": {
            "datetime": f"{day}T10:00:00Z",
            "s2:processing_baseline": "02.08",
            "grid:code": "MGRS-33UXQ",
            "eo:cloud_cover": float((scl == 9).mean() * 100),
            "proj:shape": [SIDE, SIDE],
        },
        "links": [],
        "assets": assets,
    }


def scl_with(*clouds: tuple[slice, slice]) -> np.ndarray:
    """A scene classification: vegetation, and cloud in these cells of 20 m."""
    scl = np.full((SIDE // 2, SIDE // 2), 4, np.uint8)
    for rows, cols in clouds:
        scl[rows, cols] = 9
    return scl


@contextmanager
def stac_api(items: Sequence[dict[str, object]], folder: Path) -> Iterator[str]:
    """Serve items by rustac, a server of STAC APIs, and give its address; skip where it is not installed."""
    command = shutil.which("rustac")
    if command is None:
        pytest.skip("rustac is not installed: pip install rustac")
    path = folder / "items.json"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": list(items)}))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with subprocess.Popen(
        [command, "serve", "--create-collections", "--addr", address, str(path)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as server:
        try:
            for _ in range(200):
                try:
                    urllib.request.urlopen(f"http://{address}/", timeout=5).close()
                    break
                except (urllib.error.URLError, OSError):
                    time.sleep(0.05)
            yield f"http://{address}"
        finally:
            server.kill()


def item_at(api: str, name: str) -> str:
    """The address of an item in the API."""
    return f"{api}/collections/{COLLECTION}/items/{name}"
