"""Small fleets for tests: tiny scenes, a tiny network, and what an output holds."""

import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from obstore.store import from_url

import attcr
from attcr.bands.spec import TRUE_COLOUR
from attcr.fleet.fetch import Fetched
from attcr.fleet.ledger import SCHEMA, read_tables
from attcr.fleet.manifest import Work
from attcr.fleet.store import Store
from attcr.fleet.worker import SceneWorker
from attcr.predict import Predictor
from attcr.restore.options import RestoreOptions
from fake_scenes import UTM, make, noise

SOURCE = Path(attcr.__file__).parents[1]


def make_weights(path: Path) -> Path:
    torch.manual_seed(0)
    config = attcr.ATTCRConfig(dim=4, blocks=(1,) * 5, heads=(2,) * 5, scales=((1,),) * 5)
    attcr.save_model(attcr.ATTCR(config), path, spec=TRUE_COLOUR)
    return path


def make_scenes(folder: Path, count: int, size: int = 64) -> Path:
    """Write scenes of noise and give a glob of them."""
    folder.mkdir()
    for i in range(count):
        make(folder / f"s{i:03d}_20200101.tif", noise("uint8", (3, size, size), i), photometric="RGB", **UTM)
    return folder / "*.tif"


def write_rows(path: Path, rows: list[dict[str, object]]) -> Path:
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def contents(out: Path) -> dict[str, bytes]:
    """Every file of an output by its path, but for the log."""
    return {
        str(path.relative_to(out)): path.read_bytes()
        for path in sorted(out.rglob("*"))
        if path.is_file() and path.parent.name != "ledger"
    }


def bucket_contents(url: str) -> dict[str, bytes]:
    """The same of a bucket's prefix."""
    bucket = from_url(url)
    entries = [entry["path"] for batch in obstore.list(bucket) for entry in batch]
    return {key: bytes(obstore.get(bucket, key).bytes()) for key in entries if not key.startswith("ledger/")}


def ledger(out: Path | str) -> list[dict[str, object]]:
    """All rows of an output's log, in order of time."""
    tables = list(read_tables(Store(str(out)), SCHEMA.names))
    return pa.concat_tables(tables).sort_by("time").to_pylist() if tables else []


def completed(out: Path | str) -> dict[str, int]:
    """Scene to how often the log says that it was completed."""
    counts: dict[str, int] = {}
    for row in ledger(out):
        if row["status"] in ("done", "found"):
            counts[str(row["id"])] = counts.get(str(row["id"]), 0) + 1
    return counts


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "attcr", "fleet", *map(str, arguments)]


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1", **more}


def run(*arguments: object, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=600, env=environment(**env))


def item(out: Path, name: str) -> dict[str, object]:
    return json.loads((out / "items" / f"{name}.json").read_text())


def stac_item(name: str, **properties: object) -> dict[str, object]:
    """A STAC item of three bands whose addresses are signed."""
    return {
        "type": "Feature",
        "stac_version": "1.0.0",
        "stac_extensions": [],
        "id": name,
        "geometry": {"type": "Point", "coordinates": [16.0, 49.0]},
        "bbox": [16.0, 49.0, 16.0, 49.0],
        "properties": {"datetime": "2020-01-01T00:00:00Z", **properties},
        "links": [],
        "assets": {
            band: {"href": f"https://host/{name}/{band}.tif?sig=secret", "type": "image/tiff", "proj:shape": [100, 50]}
            for band in ("red", "green", "blue")
        },
    }


Answer = tuple[int, dict[str, str], bytes]


def told(body: bytes) -> list[Answer]:
    """The answer that gives a file and its length."""
    return [(200, {"Content-Length": str(len(body))}, body)]


@contextmanager
def host(answers: Mapping[str, list[Answer]]) -> Iterator[tuple[str, list[tuple[str, str | None]]]]:
    """Serve answers by path, each in its turn, the last one for ever.

    Gives the server's address and what it was asked: path and login.
    """
    asked: list[tuple[str, str | None]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, self.headers.get("Authorization")))
            turns = answers[self.path]
            status, headers, body = turns.pop(0) if len(turns) > 1 else turns[0]
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    server.server_close()


class Publisher(SceneWorker):
    """A worker without network and rasters: it only publishes items, of 2 megapixels each."""

    def load(self, options: RestoreOptions) -> Predictor:
        return None  # type: ignore[return-value]

    def restore(self, work: Work, fetched: Fetched | None) -> float | None:
        if work.block < work.blocks:
            return None
        made = self.scratch.folder / "made" / "item.json"
        made.parent.mkdir(exist_ok=True)
        made.write_text(json.dumps({"properties": {"attcr:work": work.key}}))
        return 2.0 if self.publish(work, made) else None
