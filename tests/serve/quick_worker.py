"""A computing process without a network, for tests: what is asked of it is in the name of the scene's file.

slow: it takes a minute. fail: the scene is refused. die: the process ends. Anything else is given back as it came.
"""

import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
import rasterio

from attcr.fleet.ledger import Outcome
from attcr.restore.walk import QUALITY_NAMES
from attcr.serve.inputs import work_of
from attcr.serve.pool import read_requests, take_stdout
from attcr.serve.store import INPUTS
from attcr.serve.worker import WorkerSettings, write_progress

KEY = "0" * 64


def give_back(root: Path, name: str, source: Path) -> None:
    """Publish a scene as it came, all of it original, its item last."""
    folder = root / "scenes" / name / KEY[:16]
    folder.mkdir(parents=True, exist_ok=True)
    files = sorted(source.parent.rglob("*.tif"), key=lambda path: path.name) if source.suffix == ".json" else [source]
    planes = []
    for file in files:
        with rasterio.open(file) as scene:
            profile = scene.profile
            planes.append(scene.read())
    values = np.concatenate(planes)
    profile |= {"driver": "GTiff", "count": len(values)}
    with rasterio.open(folder / f"{name}.tif", "w", **profile) as raster:
        raster.write(values)
    with rasterio.open(
        folder / f"{name}_quality.tif", "w", **{**profile, "count": 1, "dtype": "uint8", "nodata": 0}
    ) as file:
        file.write(np.ones((1, *values.shape[1:]), np.uint8))
    (folder / f"{name}_preview.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    made = {"restored": f"{name}.tif", "quality": f"{name}_quality.tif", "preview": f"{name}_preview.png"}
    item = {
        "type": "Feature",
        "id": name,
        "properties": {
            "attcr:work": KEY,
            "attcr:input": [{"name": str(source)}],
            "attcr:pixels": dict.fromkeys(QUALITY_NAMES, 0),
        },
        "links": [{"rel": "derived_from", "href": str(source)}],
        "assets": {key: {"href": f"../scenes/{name}/{KEY[:16]}/{file}"} for key, file in made.items()},
    }
    partial = root / f".{name}"
    partial.write_text(json.dumps(item))
    partial.replace(root / "items" / f"{name}.json")


def run(root: Path, name: str) -> Outcome:
    work = work_of(name, root / INPUTS / name)
    source = Path(work.hrefs[0])
    write_progress(root, name, {"stage": "restore", "done": 1, "total": 4})
    if "die" in source.name:
        os._exit(9)
    if "slow" in source.name:
        time.sleep(60)
    if "fail" in source.name:
        return Outcome(name, KEY, "quarantined", error="SceneError", message=f"{source} is not to be restored.")
    give_back(root, name, source)
    return Outcome(name, KEY, "done", seconds=0.1)


def main() -> None:
    settings = WorkerSettings(**json.loads(sys.argv[1]))
    tell, requests = take_stdout(), read_requests()
    tell({"ready": True})
    while True:
        name = requests.get()["id"]
        tell({"at": name})
        outcome = run(Path(settings.store), name)
        tell({"id": name, "outcome": asdict(outcome), "told": {"weights": "quick", "notes": []}})


if __name__ == "__main__":
    main()
