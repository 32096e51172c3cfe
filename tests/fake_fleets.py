"""Small fleets for tests: tiny scenes, a tiny network, and what an output holds."""

import json
import os
import subprocess
import sys
from pathlib import Path

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from obstore.store import from_url

import attcr
from attcr.fleet.ledger import SCHEMA, read_parts
from attcr.fleet.store import Store
from attcr.spec import TRUE_COLOUR
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
    tables = list(read_parts(Store(str(out)), SCHEMA.names))
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
