"""Find a scene's clouds with the product's own mask, the user's mask, or a detector on its reflectance."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from attcr.addresses import is_local
from attcr.bands.products import find_bands
from attcr.bands.sensors import PICTURE_RANGE, RGB, RGB_RANGE
from attcr.errors import SceneError
from attcr.extras import has
from attcr.scenes import write
from attcr.scenes.clouds import s2cloudless, ukis_csmask
from attcr.scenes.clouds.brightness import classes_of_brightness
from attcr.scenes.clouds.masks import (
    CLEAR,
    CLOUD,
    THICK,
    THIN,
    Classes,
    classes_of_qa_pixel,
    classes_of_raster,
    classes_of_scl,
)
from attcr.scenes.clouds.opaque import is_opaque, settle
from attcr.scenes.clouds.rim import CloudMap, Rim
from attcr.scenes.clouds.vote import (
    CLASS,
    CLEAR_BELOW,
    NETWORK,
    SAYS,
    SURE,
    against,
    clear_bit,
)
from attcr.scenes.clouds.voters import Network, Voters, Votes, odds_of_file, times_of
from attcr.scenes.open import open_scene
from attcr.scenes.scene import AlignedRaster, Band, Scene

Array = NDArray[Any]

BLOCK = 1024
"""Side, in pixels, of the block that a detector sees at once."""
CLOUDS = "clouds.tif"
"""The cloud map in a working folder; a resumed run uses it again."""
VOTES = "votes.unfinished.tif"
"""What witnesses have said, while the scene's clear ground is not known yet."""
MARGIN = 64
"""Pixels beyond the block that it also sees, so that its answer does not depend on where blocks end."""
DETECTORS = {"s2cloudless": "s2cloudless", "csmask": "ukis_csmask", "auto": ""}
"""What finds clouds in the image, the best first, and the library that each needs."""
_READERS: dict[str, Callable[[Array], Classes]] = {"scl": classes_of_scl, "qa_pixel": classes_of_qa_pixel}


def choose_mask(scene: Scene, rgb: Sequence[int] | None = None, *, network: bool = False) -> str:
    """Choose the best mask for a scene: the product's own, else an installed detector that fits, else `auto`.

    With a network they vote together with it, and so do all detectors: `s2cloudless+csmask+network`. `rgb` says where
    red, green and blue are, if the names of the bands do not.
    """
    fitting = [name for name in _READERS if name in scene.companions][:1]
    for name, library in DETECTORS.items() if not fitting else ():
        if _bands_for(name, scene, rgb) and (not library or has(library)) and not (fitting and name == "auto"):
            fitting.append(name)
    if fitting:
        return "+".join([*fitting, NETWORK]) if network else fitting[0]
    raise SceneError(
        f"{scene.source} has no cloud mask, and no installed detector can use its bands: give a raster with "
        "`mask` (0 is clear), or restore every pixel with `mask=none`."
    )


def find_clouds(
    scene: Scene,
    mask: str,
    folder: Path,
    *,
    rim: Rim,
    rgb: Sequence[int] | None = None,
    untold: int = THICK,
    network: Network | None = None,
    on_rows: Callable[[int], None] | None = None,
) -> CloudMap | None:
    """Give the scene's cloud map, kept as clouds.tif in the working folder; None stands for no mask.

    `mask` is none, auto, csmask, s2cloudless, scl[=FILE], qa_pixel[=FILE], a raster, or several detectors, the
    product's own mask and `network` with a plus sign between: these vote. Give the scene with all its bands: a detector
    may need others than the network. `rgb` says where red, green and blue are among them, if their names do not. Cloud
    that is opaque in these three becomes thick, whatever the mask says. Where a mask does not tell thin from thick,
    other cloud is thin; where the scene lacks these bands, all of it gets the class `untold`. An
    existing clouds.tif is used as it is; for a new one, `on_rows` is called with the number of rows done.
    """
    if mask == "none":
        return None
    path = folder / CLOUDS
    if not path.exists():
        unfinished = folder / "clouds.unfinished.tif"
        plain = replace(scene.profile, dtype="uint8", tags={}, gcps=([], None), rpcs=None, has_mask=False)
        write.create(unfinished, plain, [Band("clouds", "", 1)])
        colours = _bands_for("auto", scene, rgb)
        votes = _vote(scene, mask, folder, rgb, network, on_rows) if is_vote(mask) else None
        for top, found in votes or _detect(scene, mask, rgb):
            classes = _settled(found & CLASS, top, scene.select(colours) if colours else None, untold)
            classes |= found & ~CLASS
            write.write_rows(unfinished, top, classes[None])
            if on_rows and not votes:
                on_rows(top + classes.shape[0])
        unfinished.replace(path)

    def read(top: int, bottom: int) -> Classes:
        with open_scene(path) as made:
            return made.read(top, bottom)[0]  # type: ignore[no-any-return]

    if not is_vote(mask):
        return CloudMap(read, scene.height, rim)
    surely = _clear_bit(read, scene.height)

    def bits(top: int, bottom: int) -> Classes:
        told = read(top, bottom)
        out: Classes = ((told & ~SURE) | np.where(told & surely, SURE, 0)).astype(np.uint8)
        return out

    return CloudMap(lambda top, bottom: read(top, bottom) & CLASS, scene.height, rim, bits=bits)


def _clear_bit(read: Callable[[int, int], Classes], height: int) -> np.uint8:
    """Look at a cloud map, and choose the bit that says what is surely clear."""
    counts, pixels = np.zeros(len(CLEAR_BELOW), np.int64), 0
    for top in range(0, height, BLOCK):
        told = read(top, min(top + BLOCK, height))
        counts += [np.count_nonzero(told & np.uint8(int(SURE) << i)) for i in range(len(CLEAR_BELOW))]
        pixels += np.count_nonzero(told)  # where there is no data, there is neither cloud nor a bit
    return clear_bit(counts.tolist(), pixels)


def is_vote(mask: str) -> bool:
    """Say whether a mask is a vote of several witnesses."""
    names = mask.split("+")
    return len(names) > 1 and set(names) <= {*SAYS, NETWORK}


def _vote(
    scene: Scene,
    mask: str,
    folder: Path,
    rgb: Sequence[int] | None,
    network: Network | None,
    on_rows: Callable[[int], None] | None,
) -> Iterator[tuple[int, Classes]]:
    """Give cloud classes with their bits in blocks of rows, by all witnesses of a mask together.

    What all say is kept in the folder until the clear ground of the whole scene is known.
    """
    names = mask.split("+")
    if NETWORK in names and network is None:
        raise SceneError(f"`mask={mask}` asks the network, and there is none: leave it out.")
    seen = {name: _detector(scene, name, rgb) for name in names if name in DETECTORS}
    files = {name: mask_file(scene, name) for name in names if name in _READERS}
    if None in files.values():
        raise SceneError(f"{scene.source} has no file for `mask={mask}`: choose another mask.")
    voters = Voters(scene, times_of(scene), seen, network if NETWORK in names else None, against(names))
    path = folder / VOTES
    with ExitStack() as opened:
        for name, href in files.items():
            raster = AlignedRaster(str(href), scene.profile, scene.vrt)
            opened.callback(raster.close)
            voters.masks.append(odds_of_file(name, _READERS[name], raster))
        opened.callback(path.unlink, missing_ok=True)
        plain = replace(scene.profile, dtype="int16", tags={}, gcps=([], None), rpcs=None, has_mask=False)
        write.create(path, plain, [Band(name, "", 1) for name in ("odds", "shadow", "bits")])
        usual = voters.usual()
        for top in range(0, scene.height, voters.step):
            votes = voters.votes(top, usual)
            write.write_rows(path, top, votes.packed())
            if on_rows:
                on_rows(top + len(votes.odds))
        ground = voters.survey.ground()
        kept = opened.enter_context(open_scene(path))
        for top in range(0, scene.height, voters.step):
            votes = Votes.unpacked(kept.read(top, min(top + voters.step, scene.height)))
            yield top, voters.classes(top, votes, ground)


def _settled(classes: Classes, top: int, colours: Scene | None, untold: int) -> Classes:
    """Decide the classes of rows from `top` on; the image is read only where there is something to decide."""
    if colours is None or not ((classes == THIN) | (classes == CLOUD)).any():
        return settle(classes, None, untold=untold)
    return settle(classes, is_opaque(colours.read(top, top + classes.shape[0]), colours.product))


def mask_file(scene: Scene, mask: str) -> str | None:
    """Give the file that a mask is read from; None for a detector, or where the scene comes with none."""
    name, _, given = mask.partition("=")
    if mask == "none" or mask in DETECTORS:
        return None
    if is_vote(mask):
        files = (scene.companions.get(one) for one in mask.split("+") if one in _READERS)
        return next(files, None)
    return (given or scene.companions.get(name)) if name in _READERS else mask


def _detect(scene: Scene, mask: str, rgb: Sequence[int] | None) -> Iterator[tuple[int, Classes]]:
    """Give cloud classes in blocks of rows, from the product's mask, the user's, or a detector."""
    height = scene.height
    name = mask.partition("=")[0]
    if mask in DETECTORS:
        yield from _run_detector(*_detector(scene, mask, rgb))
        return
    href = mask_file(scene, mask)
    if name in _READERS:
        if not href:
            raise SceneError(
                f"{scene.source} has no {name.upper()} file: give it with `mask={name}=FILE`, or choose another mask."
            )
        read = _READERS[name]
    else:
        href, read = mask, classes_of_raster
        if is_local(href) and not os.path.exists(href):  # noqa: PTH110  # it may be too long for a name
            raise SceneError(
                f"There is no mask {href!r}: `mask` is none, auto, csmask, s2cloudless, scl, qa_pixel, or a raster."
            )
    raster = AlignedRaster(href, scene.profile, scene.vrt)
    try:
        for top in range(0, height, 512):
            yield top, read(raster.read(top, min(top + 512, height), band=1)[0])
    finally:
        raster.close()


def _run_detector(detect: Callable[[Array], Classes], scene: Scene) -> Iterator[tuple[int, Classes]]:
    height, width = scene.height, scene.width
    for top in range(0, height, BLOCK):
        first, last = max(top - MARGIN, 0), min(top + BLOCK + MARGIN, height)
        values = scene.read(first, last)
        valid = scene.valid(values, first, blank=scene.product.nodata).any(axis=0)
        classes = np.zeros(valid.shape, np.uint8)
        for left in range(0, width, BLOCK):
            near = slice(max(left - MARGIN, 0), min(left + BLOCK + MARGIN, width))
            found = detect(values[:, :, near])
            right = min(left + BLOCK, width)
            classes[:, left:right] = found[:, left - near.start : right - near.start]
        classes[~valid] = CLEAR
        yield top, classes[top - first : min(top + BLOCK, height) - first]


def _detector(scene: Scene, mask: str, rgb: Sequence[int] | None) -> tuple[Callable[[Array], Classes], Scene]:
    """Give a detector and the scene with the bands it looks at."""
    at, product = _bands_for(mask, scene, rgb), scene.product
    if at is None:
        raise SceneError(
            {
                "auto": "`mask=auto` needs red, green and blue, which "
                f"{scene.source} does not have: choose another mask.",
                "s2cloudless": f"`mask=s2cloudless` takes Sentinel-2 L1C with bands {' '.join(s2cloudless.BANDS)}, and "
                f"{scene.source} is {product.name}: use `mask=csmask` or `mask=scl`.",
                "csmask": "`mask=csmask` takes reflectance with at least blue, green, red and near infrared, and "
                f"{scene.source} does not have all four: use `mask=auto` or a raster.",
            }[mask]
        )
    seen = scene.select(at)
    if mask == "auto":  # bright, colourless pixels
        picture = product.into(PICTURE_RANGE if product.picture else RGB_RANGE).unnamed()
        return lambda values: classes_of_brightness(picture.to_model(values)), seen
    if mask == "s2cloudless":
        return lambda values: s2cloudless.classify(product.to_reflectance(values)), seen
    level: Literal["l1c", "l2a"] = "l1c" if "l1" in product.name else "l2a"
    called = ukis_csmask.BANDS[: len(at)]
    return lambda values: ukis_csmask.classify(product.to_reflectance(values), called, level), seen


def _bands_for(mask: str, scene: Scene, rgb: Sequence[int] | None) -> Sequence[int] | None:
    """Say where the bands are that a detector looks at; None where the scene lacks one, or is not for it."""
    name = scene.product.name
    if mask == "auto":
        wanted: list[Sequence[str]] = [RGB]
        if rgb:
            return rgb
    elif mask == "s2cloudless":
        wanted = [s2cloudless.BANDS] if name.startswith("s2-l1c") else []
    else:
        sets = [] if name in ("rgb8", "picture") else [ukis_csmask.BANDS, ukis_csmask.BANDS[:4]]
        wanted = [[nir if band == "nir" else band for band in bands] for bands in sets for nir in ("nir", "nir08")]
    found = (find_bands(scene.product, scene.names, names) for names in wanted)
    return next((at for at in found if at is not None), None)
