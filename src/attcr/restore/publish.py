"""What is written beside a restored scene: quality, spread, a preview, and last the STAC item that describes them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rasterio.enums import ColorInterp

from attcr.addresses import is_item, local_file, redact
from attcr.bands.spec import shown_bands
from attcr.files import to_disk
from attcr.restore.filler import UNKNOWN_DAYS
from attcr.restore.outputs import Outputs
from attcr.restore.prepare import Prepared
from attcr.restore.resume import State
from attcr.restore.walk import NODATA, QUALITY_COLOURS, QUALITY_NAMES, Array
from attcr.scenes import write
from attcr.scenes.open import open_scene
from attcr.scenes.scene import Band, Profile, Scene
from attcr.version import __version__

Layers = dict[str, tuple[Profile, list[Band]]]
"""The rasters of a result: name to how they are described."""


def layers_of(job: Prepared) -> Layers:
    """Describe the restored raster and those that go beside it."""
    whole = job.whole
    return {"restored": (whole.profile, [*whole.bands, *([whole.alpha] if whole.alpha else [])]), **_side_layers(job)}


def _side_layers(job: Prepared) -> Layers:
    """Describe the rasters that go beside the restored one."""
    plain = replace(job.scene.profile, tags={}, has_mask=False)
    classes = {f"CLASS_{value}": name for value, name in enumerate(QUALITY_NAMES)}
    quality = Band(
        "quality",
        "",
        1,
        nodata=NODATA,
        description="quality",
        colour=ColorInterp.palette,
        colormap=QUALITY_COLOURS,
        tags=classes,
    )
    groups = [quality]
    if job.passed:  # TIFF has a colour table only for a single band
        plainer = replace(quality, colour=ColorInterp.undefined, colormap=None, counted=True)
        names = [job.whole.bands[at].name or str(at + 1) for at in range(len(job.whole.bands))]
        restored = " ".join(name for at, name in enumerate(names) if at not in job.passed)
        passed = " ".join(names[at] for at in job.passed)
        groups = [
            replace(plainer, colour=ColorInterp.gray, description=f"quality of {restored}"),
            replace(plainer, index=2, description=f"quality of {passed}"),
        ]
    layers = {"quality": (replace(plain, dtype="uint8"), groups)}
    if job.has_spread:
        kind = "expected error in reflectance" if job.predictor.spec.spread else "spread of eight views"
        spread = Band("spread", "", 1, nodata=float("nan"), description=kind)
        layers["spread"] = (replace(plain, dtype="float32"), [replace(spread, colour=ColorInterp.gray)])
    if job.references:
        days = Band("days", "", 1, nodata=UNKNOWN_DAYS, description="days", unit="d", counted=True)
        number = Band("reference", "", 2, nodata=UNKNOWN_DAYS, description="reference", counted=True)
        layers["dates"] = (replace(plain, dtype="int16"), [replace(days, colour=ColorInterp.gray), number])
    return layers


def publish(
    job: Prepared,
    outputs: Outputs,
    layers: Layers,
    state: State,
    preview: Preview,
) -> None:
    """Make every file in the working folder, then give each its name, the item last: where it is, all is there."""
    scene, folder = job.scene, state.folder
    if scene.profile.has_mask:
        for top in range(0, scene.height, 1024):
            mask = scene.read_mask(top, min(top + 1024, scene.height))
            if mask is not None:
                write.write_mask_rows(folder / "restored.tif", top, mask)
    made = folder / "publish"
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir()
    for name, (profile, bands) in layers.items():
        write.finish(folder / f"{name}.tif", made / outputs.rasters[name].name, profile, bands)
    write.write_png(made / outputs.preview.name, preview.picture())
    (made / outputs.item.name).write_text(_item(job, outputs, state))
    for path in made.iterdir():
        to_disk(path)
    if not state.publishing:
        outputs.check(job.read)  # again: the work may have taken hours
        state.publishing = True
        state.save()
    outputs.item.unlink(missing_ok=True)  # there are never new pixels under an old item
    for path in outputs:
        if (made / path.name).exists():
            (made / path.name).replace(path)
        elif path.suffix == ".xml":
            path.unlink(missing_ok=True)
    to_disk(outputs.target.parent)


def _item(job: Prepared, outputs: Outputs, state: State) -> str:
    """Give the text of the item that says what was made, and how."""
    from attcr.scenes.pystac import item_of

    scene = job.whole
    titles = {
        "restored": "The scene without cloud",
        "quality": "; ".join(f"{value} {name}" for value, name in enumerate(QUALITY_NAMES)),
        "spread": "Expected absolute error in reflectance, mean over the bands"
        if job.predictor.spec.spread
        else "Standard deviation over eight flips and turns, as a part of the model's range",
        "preview": "Before and after",
        "dates": "Days to the date that a pixel is from, and the number of the reference, from 1",
    }
    files = {**outputs.rasters, "preview": outputs.preview}
    assets = {name: (path, titles[name]) for name, path in files.items()}
    properties = {
        "processing:software": {"attcr": __version__},
        "attcr:weights_sha256": job.predictor.identity["weights_sha256"],
        "attcr:predictor": dict(job.predictor.identity),
        "attcr:sensor": job.sensor.name,
        "attcr:options": job.options.describe(),
        "attcr:options_sha256": job.options.digest(),
        "attcr:input": [{"name": name, "bytes": size} for name, size, _ in scene.identity],
        "attcr:fingerprint": state.fingerprint,
        "attcr:pixels": dict(zip(QUALITY_NAMES, state.pixels, strict=True)),
    }
    if job.references:
        properties["attcr:references"] = told_references(job, state.folder)
    return item_of(scene, outputs.target, assets, properties)


def told_references(job: Prepared, folder: Path) -> list[dict[str, Any]]:
    """Say of each reference what it is, how it was harmonised, and what of the scene is from it."""
    if not job.references:
        return []
    path = folder / "references.json"
    if not path.exists():  # the rows came ready from elsewhere
        job.find_filler(folder, job.find_clouds(folder))
    found = json.loads(path.read_text())
    count = len(job.references) + 1
    pixels = np.zeros(count, np.int64)
    for top in range(0, job.scene.height, 1024):
        numbers = write.read_rows(folder / "dates.tif", top, min(top + 1024, job.scene.height))[1]
        pixels += np.bincount(np.clip(numbers, 0, None).ravel(), minlength=count)
    return [
        {
            "name": reference.scene.source,
            "days": reference.days,
            "mask": redact(reference.mask),
            "files": [_told_file(href, job.identities[href]) for href in reference.inputs],
            "pixels": int(filled),
            "share": round(int(filled) / (job.scene.height * job.scene.width), 6),
            **how,
        }
        for reference, filled, how in zip(job.references, pixels[1:], found, strict=True)
    ]


def _told_file(href: str, identity: tuple[str, ...] | None) -> dict[str, Any]:
    """Identify an input without its modification time, so that the same work gives the same bytes."""
    if identity is None or not identity[1:]:
        return {"name": redact(href)}
    if local_file(href) is not None:
        return {"name": redact(href), "bytes": int(identity[1]), "ends_sha256": identity[3]}
    kind = "sha256" if is_item(href) else "etag"
    return {"name": redact(href), kind: identity[1]}


class Preview:
    """A small picture of before and after, gathered as rows come by: JPEG 2000 shrinks in minutes only."""

    def __init__(self, path: Path, scene: Scene, slots: Sequence[str]) -> None:
        self._bands = shown_bands(slots)
        self._step = -(-max(scene.height, scene.width) // 768)
        height, width = (-(-size // self._step) for size in (scene.height, scene.width))
        self._path = path
        self._profile = replace(
            scene.profile, height=height, width=width, tags={}, gcps=([], None), rpcs=None, has_mask=False
        )

    def create(self) -> None:
        """Make its working raster."""
        write.create(self._path, self._profile, [Band("", "", i) for i in range(6)])

    def rows(self, top: int, before: Array, after: Array) -> Array:
        """Give what of these rows is in the picture, as (6, rows, W): before and after."""
        first = -top % self._step
        return np.concatenate([one[self._bands, first :: self._step, :: self._step] for one in (before, after)])

    def add(self, top: int, rows: Array) -> None:
        """Write what `rows` gave for the rows from `top` on."""
        if rows.shape[1]:
            write.write_rows(self._path, (top + -top % self._step) // self._step, rows)

    def read(self, top: int, bottom: int) -> Array:
        """Give what `add` wrote for the rows [top, bottom)."""
        first, last = (-(-row // self._step) for row in (top, bottom))
        return write.read_rows(self._path, first, last)

    def picture(self) -> NDArray[np.uint8]:
        """Give (3, H, W): before at the left, after at the right, stretched alike."""
        with open_scene(self._path) as small:
            both = small.read(0, small.height).astype(np.float64)
        before, after = both[:3], both[3:]
        seen = after[:, np.isfinite(after).all(axis=0) & (after != 0).any(axis=0)]
        low, high = np.percentile(seen, [1, 99]) if seen.size else (0.0, 1.0)
        gap = np.full((3, both.shape[1], 4), high)
        joined = np.concatenate([before, gap, after], axis=2)
        scaled = np.nan_to_num((joined - low) / max(high - low, 1e-9), posinf=1, neginf=0)
        picture: NDArray[np.uint8] = (np.clip(scaled, 0, 1) * 255).astype(np.uint8)
        return picture
