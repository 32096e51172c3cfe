"""What is written of a restored scene: named once, checked before any work, made, and given its names last."""

from __future__ import annotations

import base64
import html
import json
import math
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rasterio.enums import ColorInterp

from attcr.addresses import is_item, is_local, local_file, redact
from attcr.bands.products import BAND_IN_NAME
from attcr.bands.spec import shown_bands
from attcr.errors import SceneError, warn
from attcr.files import sha256, to_disk
from attcr.restore.filler import DATES, REFERENCES, UNKNOWN_DAYS, WHOLE
from attcr.restore.job import Job
from attcr.restore.resume import State
from attcr.restore.walk import CLOUD_LEFT, NODATA, QUALITY_COLOURS, QUALITY_NAMES, Array
from attcr.scenes import write
from attcr.scenes.open import open_scene
from attcr.scenes.scene import Band, Profile, Scene
from attcr.version import __version__

LONGEST_NAME = 255
"""Bytes of a file name that every common file system takes."""
_ENDINGS = {".png": ".png", ".jpg": ".png", ".jpeg": ".png", ".webp": ".webp", ".bmp": ".png"}
Layers = dict[str, tuple[Profile, list[Band]]]
"""The rasters of a result: name to how they are described."""


@dataclass(frozen=True)
class Outputs:
    """Where everything about a restored scene goes: beside its target, named after it."""

    target: Path
    has_spread: bool = False
    overwrite: bool = False
    """Whether files of these names are replaced; inputs and folders never are."""
    has_dates: bool = False

    @property
    def rasters(self) -> dict[str, Path]:
        """Layer to its file."""
        made = {"quality": True, "spread": self.has_spread, "dates": self.has_dates}
        return {"restored": self.target, **{name: self._beside(f"_{name}.tif") for name in made if made[name]}}

    @property
    def preview(self) -> Path:
        """The picture of before and after."""
        return self._beside("_preview.png")

    @property
    def item(self) -> Path:
        """The STAC item."""
        return self._beside(".json")

    @property
    def folder(self) -> Path:
        """Where unfinished files are, beside the target so that they can be renamed to it."""
        return self.target.with_name(f".{self.target.name}.attcr")

    def _beside(self, ending: str) -> Path:
        return self.target.with_name(self.target.stem + ending)

    def __iter__(self) -> Iterator[Path]:
        """Give every file in the order in which they get their names.

        The .aux.xml that GDAL reads and writes beside a raster comes first: the raster is never without it.
        """
        for raster in self.rasters.values():
            yield aux_of(raster)
            yield raster
        yield self.preview
        yield self.item

    def check(self, inputs: Iterable[str]) -> None:
        """Refuse names that cannot be written, that are inputs, or, without `overwrite`, that are taken."""
        _check_names([*self, self.folder])
        read = {os.path.realpath(path): path for href in inputs if (path := local_file(href)) is not None}
        for path in [*self, self.folder]:
            if (source := read.get(os.path.realpath(path))) is not None or (source := _inside(path, read)) is not None:
                raise SceneError(f"{path} would be written over {source}, which is read here: choose another target.")
        for path in self:
            if path.is_dir():
                raise SceneError(
                    f"{path} is a folder, and a file of this name is to be written: choose another target."
                )
        for path in sorted(self, key=lambda path: path.suffix == ".xml"):
            if not self.overwrite and os.path.lexists(path):
                raise SceneError(f"{path} exists: choose another name, or replace it with `overwrite`.")
        owner = _owner(self.item)
        if owner is not None and owner != self.target.name and self.target.with_name(owner).exists():
            raise SceneError(f"{self.item} and the files it names belong to {owner}: choose a target of another name.")


def check_target(job: Job, target: Path, *, overwrite: bool) -> Outputs:
    """Name all files of a result, or refuse: what cannot be written, is an input, or exists already."""
    if not is_local(str(target)):
        raise SceneError(f"{redact(str(target))} is not a local file: write to disk and copy it up.")
    count = len(job.whole.bands) + bool(job.whole.alpha)
    write.check_target(target, job.scene.profile.dtype, count)
    write.check_space(target.parent, job.disk)
    outputs = Outputs(target, job.has_spread, overwrite, bool(job.references))
    outputs.check(job.read)
    if target.suffix.lower() in (".jpg", ".jpeg"):
        warn(
            f"{target.name} is JPEG, which changes every pixel a little: write .tif or .png to keep clear "
            "pixels unchanged."
        )
    return outputs


def targets_in(folder: Path, sources: Sequence[str]) -> list[tuple[tuple[str, ...], Path]]:
    """Give each scene of these and the file in a folder that it goes to, named after it.

    Files that are named after bands are one scene; else each is one. What a format cannot store without a change, such
    as JPEG, becomes PNG; all that is no picture becomes GeoTIFF.
    """
    named = [BAND_IN_NAME.search(redact(source)) for source in sources]
    if all(named):
        starts = {Path(BAND_IN_NAME.sub("", redact(source))).name for source in sources}
        name = starts.pop() if len(starts) == 1 else ""
        return [(tuple(sources), folder / f"{name or 'restored'}.tif")]
    targets: dict[Path, str] = {}
    for source in sources:
        plain = Path(redact(source))
        target = folder / (plain.stem + _ENDINGS.get(plain.suffix.lower(), ".tif"))
        if target in targets:
            raise SceneError(
                f"{redact(targets[target])} and {redact(source)} would both be written to {target}: restore them one "
                "at a time, each with a target of its own."
            )
        targets[target] = source
    return [((source,), target) for target, source in targets.items()]


def aux_of(raster: Path) -> Path:
    """Give the file in which GDAL keeps what a raster's own format cannot hold."""
    return raster.with_name(raster.name + ".aux.xml")


def _check_names(paths: Iterable[Path]) -> None:
    for path in paths:
        if "\0" in str(path):
            raise SceneError(f"{str(path)!a} holds a NUL, which no file name can: choose another.")
        encoded = os.fsencode(path.name)
        if len(encoded) + len("..partial") > LONGEST_NAME:
            raise SceneError(
                f"{path.name[:40]}... has {len(encoded)} bytes, too many for a file name: choose a shorter one."
            )
        try:
            encoded.decode()
        except UnicodeDecodeError:
            raise SceneError(f"{path.name!a} is not UTF-8, as the names of results are: choose another.") from None


def _inside(folder: Path, read: dict[str, Path]) -> Path | None:
    """Give the input that lies in a folder, which is emptied while working."""
    if not folder.name.endswith(".attcr"):
        return None
    below = os.path.realpath(folder) + os.sep
    return next((path for real, path in read.items() if real.startswith(below)), None)


def _owner(item: Path) -> str | None:
    """Give the name of the restored file that an item of ours describes; None where there is none."""
    try:
        told = json.loads(item.read_bytes())
        if "attcr:fingerprint" not in told["properties"]:
            return None
        return Path(str(told["assets"]["restored"]["href"])).name
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None


def layers_of(job: Job) -> Layers:
    """Describe the restored raster and those that go beside it."""
    whole = job.target
    return {"restored": (whole.profile, [*whole.bands, *([whole.alpha] if whole.alpha else [])]), **_side_layers(job)}


def _side_layers(job: Job) -> Layers:
    """Describe the rasters that go beside the restored one."""
    plain = replace(job.target.profile, tags={}, has_mask=False)
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
        kind = "expected error in reflectance" if job.spec.spread else "spread of eight views"
        spread = Band("spread", "", 1, nodata=float("nan"), description=kind)
        layers["spread"] = (replace(plain, dtype="float32"), [replace(spread, colour=ColorInterp.gray)])
    if job.references:
        names = [*DATES, *(f"weight of reference {i}" for i in range(1, len(job.references) + 1))]
        plainest = Band("", "", 1, nodata=UNKNOWN_DAYS, counted=True)
        said = [replace(plainest, name=name, description=name, index=i) for i, name in enumerate(names, 1)]
        said = [band if band.name in DATES else replace(band, scale=1 / WHOLE) for band in said]
        said[0] = replace(said[0], unit="d", colour=ColorInterp.gray)
        layers["dates"] = (replace(plain, dtype="int16"), said)
    return layers


def publish(
    job: Job,
    outputs: Outputs,
    layers: Layers,
    state: State,
    preview: Preview,
) -> None:
    """Make every file in the working folder, then give each its name, the item last: where it is, all is there."""
    scene, folder = job.target, state.folder
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
    (made / outputs.item.name).write_text(_item(job, outputs, state, layers, made))
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


def _item(job: Job, outputs: Outputs, state: State, layers: Layers, made: Path) -> str:
    """Give the text of the item that says what was made, and how."""
    from attcr.scenes.pystac import item_of
    from attcr.weights.table import published

    scene = job.target
    titles = {
        "restored": "The scene without cloud",
        "quality": "; ".join(f"{value} {name}" for value, name in enumerate(QUALITY_NAMES)),
        "spread": "Expected absolute error in reflectance, mean over the bands"
        if job.spec.spread
        else "Standard deviation over eight flips and turns, as a part of the model's range",
        "preview": "Before and after",
        "dates": "Days to the dates that a pixel is from (weighted mean), the reference that counts most (from 1), the "
        "number of references, and the weight of each",
    }
    files = {**outputs.rasters, "preview": outputs.preview}
    assets = {
        name: (path, {"title": titles[name], **_told_of(name, job, layers), **_told_bytes(made / path.name)})
        for name, path in files.items()
        if (made / path.name).exists()
    }
    named = [name for name, one in published().items() if one.sha256 == job.identity["weights_sha256"]]
    seen = sum(state.pixels) - state.pixels[NODATA]
    properties = {
        "processing:software": {"attcr": __version__},
        "eo:cloud_cover": round(100 * state.pixels[CLOUD_LEFT] / seen, 2) if seen else 0.0,
        **({"attcr:weights": named[0]} if named else {}),
        "attcr:weights_sha256": job.identity["weights_sha256"],
        "attcr:predictor": dict(job.identity),
        "attcr:sensor": job.sensor.name,
        "attcr:options": {name: _plain(value) for name, value in job.options.describe().items()},
        "attcr:options_sha256": job.options.digest(),
        "attcr:input": [{"name": name, "bytes": size} for name, size, _ in scene.identity],
        "attcr:fingerprint": state.fingerprint,
        "attcr:pixels": dict(zip(QUALITY_NAMES, state.pixels, strict=True)),
    }
    if job.window:
        properties["attcr:window"] = _told_window(scene.profile, job.scene.profile)
    if job.references:
        properties["attcr:references"] = told_references(job, state.folder)
    return item_of(scene, outputs.target, assets, properties)


def _told_of(name: str, job: Job, layers: Layers) -> dict[str, Any]:
    """Say what the numbers of a file mean."""
    if name not in layers:
        return {}
    profile, bands = layers[name]
    told: dict[str, Any] = {"data_type": profile.dtype}
    nodata = {band.nodata for band in bands}
    if len(nodata) == 1 and (value := nodata.pop()) is not None:
        told["nodata"] = value if math.isfinite(value) else "nan"
    if name == "restored" and not job.sensor.picture:
        told |= {"raster:scale": job.sensor.scale, "raster:offset": job.sensor.offset}
    if name == "quality":
        told["classification:classes"] = [
            {
                "value": value,
                "name": said.replace(" ", "_"),
                "description": said,
                "color_hint": "".join(f"{part:02X}" for part in QUALITY_COLOURS[value][:3]),
                **({"nodata": True} if value == NODATA else {}),
            }
            for value, said in enumerate(QUALITY_NAMES)
        ]
    return told


def _told_bytes(path: Path) -> dict[str, Any]:
    """Say how large a file is and what its bytes are, as a multihash."""
    return {"file:size": path.stat().st_size, "file:checksum": f"1220{sha256(path)}"}


def _told_window(written: Profile, read: Profile) -> dict[str, Any]:
    """Say where a window lies in its scene, and what was read of that: row, column, rows, columns."""
    assert written.whole is not None, "a window has a whole"
    told = {name: [*one.corner, one.height, one.width] for name, one in (("window", written), ("read", read))}
    return {**told, "scene": [written.whole.height, written.whole.width]}


def told_references(job: Job, folder: Path) -> list[dict[str, Any]]:
    """Say of each reference what it is, how it was harmonised, and what of the scene is from it.

    `share` is its part of the scene, and `weight` of what is filled, both by its weight in each of its `pixels`.
    """
    if not job.references:
        return []
    found = json.loads((folder / REFERENCES).read_text())
    pixels, total = np.zeros((2, len(job.references)), np.int64)
    for top in range(0, job.target.height, 1024):
        rows = write.read_rows(folder / "dates.tif", top, min(top + 1024, job.target.height))[len(DATES) :]
        weights = np.clip(rows, 0, None).astype(np.int64)
        pixels += (weights > 0).sum(axis=(1, 2))
        total += weights.sum(axis=(1, 2))
    return [
        {
            "name": reference.scene.source,
            "days": reference.days,
            "mask": redact(reference.mask),
            "files": [_told_file(href, job.identities[href]) for href in reference.inputs],
            "pixels": int(pixels[i]),
            "share": round(int(total[i]) / (WHOLE * job.target.height * job.target.width), 6),
            "weight": round(int(total[i]) / max(int(total.sum()), 1), 6),
            **how,
        }
        for i, (reference, how) in enumerate(zip(job.references, found, strict=True))
    ]


def _plain(value: Any) -> Any:
    """Give an option as JSON has it, which has neither NaN nor infinity."""
    return str(value) if isinstance(value, float) and not np.isfinite(value) else value


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
        self._bands, self._picture = shown_bands(slots), scene.product.picture
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
        """Give (3, H, W): before at the left, after at the right, stretched alike; bands of reflectance each by itself.

        So the air's blue, which top-of-atmosphere products have, does not tint all of it.
        """
        with open_scene(self._path) as small:
            both = small.read(0, small.height).astype(np.float64)
        before, after = both[:3], both[3:]
        seen = after[:, np.isfinite(after).all(axis=0) & (after != 0).any(axis=0)]
        ends = np.percentile(seen, [1, 99], axis=None if self._picture else 1) if seen.size else np.array([0.0, 1.0])
        low, high = ends.reshape(2, -1, 1, 1)
        gap = np.broadcast_to(high, (3, both.shape[1], 4))
        joined = np.concatenate([before, gap, after], axis=2)
        scaled = np.nan_to_num((joined - low) / np.maximum(high - low, 1e-9), posinf=1, neginf=0)
        picture: NDArray[np.uint8] = (np.clip(scaled, 0, 1) * 255).astype(np.uint8)
        return picture


def legend(counts: Sequence[int]) -> str:
    """Give the classes of a quality raster that there are, each with its colour and its share of what is data."""
    total = max(sum(count for value, count in enumerate(counts) if value != NODATA), 1)
    rows = "".join(
        f'<tr><td style="background:rgb{QUALITY_COLOURS[value][:3]};width:1.5em"></td>'
        f'<td style="text-align:left">{html.escape(name)}</td><td>{counts[value] / total:.2%}</td></tr>'
        for value, name in enumerate(QUALITY_NAMES)
        if counts[value] and value != NODATA
    )
    return f"<table>{rows}</table>"


def address_of(png: bytes) -> str:
    """Give a picture as an address that holds it."""
    return "data:image/png;base64," + base64.b64encode(png).decode()


def html_of(target: Path, preview: Path, counts: Sequence[int]) -> str:
    """Give a restored scene as its picture of before and after and the shares of its classes."""
    name = html.escape(target.name)
    try:
        picture = f'<img src="{address_of(preview.read_bytes())}" alt="before and after" style="max-width:100%">'
    except OSError:  # it may have been moved since
        picture = ""
    return (
        f"<figure style='margin:0'>{picture}<figcaption>{name}: before and after</figcaption></figure>{legend(counts)}"
    )
