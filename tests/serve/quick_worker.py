"""A computing process without a network, for tests: what is asked of it is in the name of the scene's file.

slow: it does not end by itself. long: it is not short. cloudy: most of it is cloud still. fail: the scene is refused.
die: the process ends. Anything else is given back as it came.
It loads little of attcr: each server of a test starts one, and one more after each death.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import rasterio

from attcr.serve.pool import read_requests, take_stdout

KEY = "0" * 64


def give_back(root: Path, name: str, sources: list[Path]) -> None:
    """Publish a scene as it came, all of it original, its item last."""
    folder = root / "scenes" / name / KEY[:16]
    folder.mkdir(parents=True, exist_ok=True)
    source = sources[0]
    files = sorted(source.parent.rglob("*.tif"), key=lambda path: path.name) if source.suffix == ".json" else sources
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
            "attcr:pixels": {"cloud left as it came": 900, "original": 100} if "cloudy" in source.name else {},
        },
        "links": [{"rel": "derived_from", "href": str(source)}],
        "assets": {key: {"href": f"../scenes/{name}/{KEY[:16]}/{file}"} for key, file in made.items()},
    }
    partial = root / f".{name}"
    partial.write_text(json.dumps(item))
    partial.replace(root / "items" / f"{name}.json")


def run(root: Path, name: str) -> dict[str, Any]:
    folder = root / "inputs" / name
    sources = [folder / place for place in json.loads((folder / "ready.json").read_bytes())["scene"]]
    source = sources[0]
    told = root / "progress" / f"{name}.json"
    told.with_suffix(".partial").write_text(json.dumps({"stage": "restore", "done": 1, "total": 4}))
    told.with_suffix(".partial").replace(told)
    if "die" in source.name:
        os._exit(9)
    if "slow" in source.name:
        time.sleep(3600)
    if "fail" in source.name:
        return {"status": "quarantined", "error": "SceneError", "message": f"{source} is not to be restored."}
    try:
        give_back(root, name, sources)
    except ValueError as error:  # an item without a raster
        return {"status": "quarantined", "error": "SceneError", "message": str(error)}
    return {"status": "done", "seconds": 0.1}


def main() -> None:
    settings = json.loads(sys.argv[1])
    root = Path(settings["store"])
    tell, requests = take_stdout(), read_requests()
    tell({"ready": True})
    while True:
        name = requests.get()["id"]
        tell({"at": name})
        if settings["short"] and any((root / "inputs" / name / "0").glob("long*")):
            tell({"id": name, "outcome": {"id": name, "work": KEY, "status": "found"}, "told": {"long": True}})
            continue
        outcome = {"id": name, "work": KEY, **run(root, name)}
        tell({"id": name, "outcome": outcome, "told": {"weights": "quick", "notes": []}})


if __name__ == "__main__":
    main()
