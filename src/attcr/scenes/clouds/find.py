"""Find a scene's clouds with the product's own mask, the user's mask, or a detector on its reflectance."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attcr.addresses import is_local
from attcr.bands.products import find_bands
from attcr.bands.sensors import PICTURE_RANGE, RGB, RGB_RANGE
from attcr.errors import SceneError
from attcr.evidence.pyramid import expand
from attcr.extras import has, need
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
    BLIND_TO_HAZE,
    BLIND_TO_SHADOW,
    CLASS,
    CLEAR_BELOW,
    ENOUGH_CLEAR,
    LIKELY,
    NETWORK,
    SAYS,
    SOME_CLOUD,
    SURE,
    change_says,
    clear_bit,
    says,
    settled,
    shadow_odds,
    with_shadow,
)
from attcr.scenes.open import open_scene
from attcr.scenes.scene import AlignedRaster, Band, Scene

Array = NDArray[Any]

BLOCK = 1024
"""Side, in pixels, of the block that a detector sees at once."""
CLOUDS = "clouds.tif"
"""The cloud map in a working folder; a resumed run uses it again."""
MARGIN = 64
"""Pixels beyond the block that it also sees, so that its answer does not depend on where blocks end."""
DETECTORS = {"s2cloudless": "s2cloudless", "csmask": "ukis_csmask", "auto": ""}
"""What finds clouds in the image, the best first, and the library that each needs."""
_READERS: dict[str, Callable[[Array], Classes]] = {"scl": classes_of_scl, "qa_pixel": classes_of_qa_pixel}
VOTED, VOTED_MARGIN = 256, 32
"""Side, in pixels of the voters' resolution, of the block that they see at once, and what they see beyond it."""
VOTED_METRES, COARSEST = 40.0, 4
"""Size of a pixel that voters look at, and how many pixels of the scene are one of them at most."""
METRES = {"landsat": 30.0}
"""Size of a pixel of products whose files do not say it, by the first word of their names; of others it is 10."""

SHORE = 5
"""Pixels of theirs over which water makes the ground dark."""
MOST_ASKED = 3
"""Rows of blocks that are asked before all others, for what the network takes away from clear ground."""
SEEN_BY_OTHERS, LEAST_BIAS, LEAST_DARK = 0.05, 0.015, 0.01
"""The least share of cloud, and of none, that other witnesses must see; the least change that is a bias, and the least
brightening that is shadow."""
DARK_IN_SHADOW = ("red", "swir16", "swir22")
"""Bands besides the near infrared that are darker in shadow, as far as a scene has them."""

Look = Callable[[Array, NDArray[np.bool_]], NDArray[np.float32]]
"""What a voter makes of values (C, h, w) that are data here: (.., h, w)."""


class Network(NamedTuple):
    """The network as a witness of cloud."""

    change: Look
    """Says what it takes away from the visible bands (h, w), in reflectance, of values (C, h, w) that are data here."""
    scene: Scene
    """With the bands that it takes."""


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
        for top, found in _vote(scene, mask, rgb, network) if is_vote(mask) else _detect(scene, mask, rgb):
            classes = _settled(found & CLASS, top, scene.select(colours) if colours else None, untold)
            classes |= found & ~CLASS
            write.write_rows(unfinished, top, classes[None])
            if on_rows:
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


def _vote(scene: Scene, mask: str, rgb: Sequence[int] | None, network: Network | None) -> Iterator[tuple[int, Classes]]:
    """Give cloud classes with their bits in blocks of rows, by all witnesses of a mask together."""
    names = mask.split("+")
    if NETWORK in names and network is None:
        raise SceneError(f"`mask={mask}` asks the network, and there is none: leave it out.")
    seen = {name: _detector(scene, name, rgb) for name in names if name in DETECTORS}
    files = {name: mask_file(scene, name) for name in names if name in _READERS}
    if None in files.values():
        raise SceneError(f"{scene.source} has no file for `mask={mask}`: choose another mask.")
    voters = _Voters(scene, _times(scene), seen, network if NETWORK in names else None)
    rasters = {name: AlignedRaster(str(href), scene.profile, scene.vrt) for name, href in files.items()}
    try:
        for name, raster in rasters.items():
            voters.masks.append(_odds_of_file(name, raster))
        usual = voters.usual()
        for top in range(0, scene.height, voters.step):
            yield top, voters.classes(top, usual)
    finally:
        for raster in rasters.values():
            raster.close()


class _Said(NamedTuple):
    """What was said about the rows of a block, each (h, w)."""

    odds: NDArray[np.float32]
    """Of cloud or shadow, by detectors and masks together."""
    shadow: NDArray[np.float32]
    """How far one of them calls it shadow."""
    blind: NDArray[np.float32]
    """What of the odds is said against cloud by those that see no shadow."""
    change: NDArray[np.float32] | None
    """The network's."""
    logs: NDArray[np.float32]
    """Logarithms of reflectance (n, h, w) in the voters' resolution, not a number where there is no data: green, near
    infrared, and others that are dark in shadow; none where a scene lacks these."""

    def cloud(self, bias: float) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Give the odds with what the network says, and where it is dark."""
        dark = self.shadow > 0.5
        if self.change is None:
            return self.odds, dark
        change = self.change - np.float32(bias)
        odds = self.odds + change_says(change) - np.where(change < -LEAST_BIAS, self.blind, 0)
        return odds, dark | (change < -LEAST_DARK)


class _Usual(NamedTuple):
    """What is usual in a scene."""

    bias: float
    """What the network takes away from clear ground too, as bright deserts: 0 unless it is much."""
    logs: NDArray[np.float64] | None
    """The medians (n,) of clear ground; None where nothing can be told to be shadow."""


class _Voters:
    """All witnesses of a scene, which look at blocks of rows together."""

    def __init__(
        self,
        scene: Scene,
        times: int,
        detectors: Mapping[str, tuple[Callable[[Array], Classes], Scene]],
        network: Network | None,
    ) -> None:
        self.scene, self.times, self.detectors, self.network = scene, times, detectors, network
        self.step, self.margin = VOTED * times, VOTED_MARGIN * times
        self.masks: list[Callable[[int, int], NDArray[np.float32]]] = []
        self.coloured = _coloured(scene)
        self.ask = lru_cache(maxsize=1)(self._ask)  # a scene of one block is looked at once

    def _ask(self, top: int) -> _Said:
        """Ask all about a block's rows."""
        first, last = max(top - self.margin, 0), min(top + self.step + self.margin, self.scene.height)
        inner = np.s_[top - first : min(top + self.step, self.scene.height) - first, : self.scene.width]
        odds = np.zeros((last - first, self.scene.width), np.float32)
        blind, shadow = np.zeros_like(odds), np.zeros_like(odds)
        for name, (detect, bands) in self.detectors.items():
            said, seen = self._across(bands, first, last, _odds_of(name, detect))
            odds += said
            shadow += seen
            if name in BLIND_TO_SHADOW:
                blind += np.minimum(said, 0)
        for mask in self.masks:
            said, seen = mask(first, last)
            odds += said
            shadow += seen
        blur = need("scipy.ndimage").gaussian_filter
        odds, blind, shadow = (blur(one, 1.5)[inner] for one in (odds, blind, np.minimum(shadow, 1)))
        change = self._across(self.network.scene, first, last, self.network.change)[inner] if self.network else None
        begin, end = (top - first) // self.times, -(-(inner[0].stop) // self.times)
        return _Said(odds, shadow, blind, change, self._logs(first, last)[:, begin:end])

    def _logs(self, first: int, last: int) -> NDArray[np.float32]:
        rows, columns = (-(-size // self.times) for size in (last - first, self.scene.width))
        if self.coloured is None:
            return np.zeros((0, rows, columns), np.float32)
        small, there = self._small(self.coloured, first, last)
        data = there.all(axis=0).astype(np.float32)
        seen = np.log(np.maximum(self.coloured.product.to_reflectance(small), 0) + np.float32(0.01)) * data
        blur = need("scipy.ndimage").gaussian_filter
        seen = blur(seen, (0, 0.7, 0.7)) / np.maximum(
            blur(data, 0.7), np.float32(1e-6)
        )  # beside no data it is not dark
        logs: NDArray[np.float32] = np.where(data > 0, seen, np.float32(np.nan))[:, :rows, :columns]
        return logs

    def usual(self) -> _Usual:
        """Look at some blocks, and give what is usual in the scene.

        The network's bias is known where other witnesses, of which one sees haze, see cloud in one part and none in
        another. Where none sees any, it is haze. What is shadow is known where there is some cloud, and enough
        that is surely clear.
        """
        blocks = range(0, self.scene.height, self.step)
        asked = [self.ask(top) for top in blocks[:: max(len(blocks) // MOST_ASKED, 1)]]
        bias, sees_haze = 0.0, bool(self.masks) or not set(self.detectors) <= set(BLIND_TO_HAZE)
        if self.network is not None:
            odds = np.concatenate([one.odds.ravel() for one in asked])
            change = np.concatenate([one.change.ravel() for one in asked if one.change is not None])
            cloudy = odds > LIKELY
            if sees_haze and SEEN_BY_OTHERS <= cloudy.mean() <= 1 - SEEN_BY_OTHERS:
                least = float(np.quantile(change[~cloudy], 0.1))
                bias = least if least > LEAST_BIAS else 0.0
        odds = np.concatenate([one.cloud(bias)[0][:: self.times, :: self.times] for one in asked])
        logs = np.concatenate([one.logs for one in asked], axis=1)
        there = np.isfinite(logs).all(axis=0)
        cloud, clear = (one & there for one in (odds > LIKELY, odds < CLEAR_BELOW[0]))
        told = len(logs) > 0 and cloud.sum() >= SOME_CLOUD * there.sum() and clear.sum() >= ENOUGH_CLEAR * there.sum()
        return _Usual(bias, np.median(logs[:, clear], axis=1) if told and clear.any() else None)

    def classes(self, top: int, usual: _Usual) -> Classes:
        """Give the classes of a block's rows with their bits."""
        said = self.ask(top)
        odds, dark = said.cloud(usual.bias)
        if usual.logs is not None:
            rows, columns = odds.shape
            logs = np.where(np.isfinite(said.logs), said.logs, usual.logs[:, None, None])
            darker = (usual.logs[:, None, None] - logs)[1:].min(axis=0)
            water = need("scipy.ndimage").maximum_filter(logs[0] - logs[1], SHORE)
            darker, water = self._expanded(np.stack([darker, water]))[:, :rows, :columns]
            odds, dark = with_shadow(odds, dark, shadow_odds(said.shadow, darker, water > 0))
        found = settled(odds, dark)
        values = self.scene.read(top, top + len(found))
        found[~self.scene.valid(values, top, blank=self.scene.product.nodata).any(axis=0)] = CLEAR
        return found

    def _small(self, scene: Scene, first: int, last: int) -> tuple[Array, NDArray[np.bool_]]:
        """Read rows in the voters' resolution, and where they are data."""
        values = scene.read(first, last)
        valid = scene.valid(values, first, blank=scene.product.nodata)
        _, height, width = values.shape
        pad = [(0, 0), (0, -height % COARSEST), (0, -width % COARSEST)]
        return _coarser(np.pad(values, pad, mode="edge"), np.pad(valid, pad), self.times)

    def _expanded(self, small: NDArray[np.float32]) -> NDArray[np.float32]:
        for _ in range(self.times.bit_length() - 1):
            small = expand(small)
        return small

    def _across(self, scene: Scene, first: int, last: int, look: Look) -> NDArray[np.float32]:
        """Let a voter look at blocks of rows in its own resolution; give what it says in the scene's."""
        small, there = self._small(scene, first, last)
        parts = []
        for left in range(0, small.shape[2], VOTED):
            near = slice(max(left - VOTED_MARGIN, 0), min(left + VOTED + VOTED_MARGIN, small.shape[2]))
            right = min(left + VOTED, small.shape[2])
            parts.append(look(small[:, :, near], there[:, :, near])[..., left - near.start : right - near.start])
        return self._expanded(np.concatenate(parts, axis=-1))[..., : last - first, : self.scene.width]


def _odds_of(name: str, detect: Callable[[Array], Classes]) -> Look:
    """Give what looks with a detector: its odds, and what it calls shadow, which no other than csmask knows."""

    def look(values: Array, _: NDArray[np.bool_]) -> NDArray[np.float32]:
        classes = detect(values)
        return np.stack([says(name, classes), classes == THIN]).astype(np.float32)

    return look


def _odds_of_file(name: str, raster: AlignedRaster) -> Callable[[int, int], NDArray[np.float32]]:
    """Give what reads a product's own mask: its odds, and what it calls shadow."""

    def look(top: int, bottom: int) -> NDArray[np.float32]:
        values = raster.read(top, bottom, band=1)[0]
        shadow = values == 3 if name == "scl" else (values.astype(np.uint16) & 0b10000) > 0
        return np.stack([says(name, _READERS[name](values)), shadow]).astype(np.float32)

    return look


def _coloured(scene: Scene) -> Scene | None:
    """Give the scene with the bands that tell shadow: green, near infrared, and others; None where it lacks these."""
    if scene.product.picture:
        return None
    for infrared in ("nir", "nir08"):
        at = find_bands(scene.product, scene.names, ["green", infrared])
        if at is not None:
            others = [find_bands(scene.product, scene.names, [name]) for name in DARK_IN_SHADOW]
            return scene.select([*at, *(i for found in others if found is not None for i in found)])
    return None


def _times(scene: Scene) -> int:
    """Say how many pixels of the scene, along a side, are one pixel of the voters."""
    crs, metres = scene.profile.crs, METRES.get(scene.product.name.partition("-")[0], VOTED_METRES / COARSEST)
    if crs is not None and crs.is_projected:
        metres = abs(scene.profile.transform.a) or VOTED_METRES
    return next(n for n in (COARSEST, 2, 1) if n * metres <= VOTED_METRES or n == 1)


def _coarser(values: Array, valid: NDArray[np.bool_], times: int) -> tuple[Array, NDArray[np.bool_]]:
    """Give means of squares of pixels that are data, and where there are any."""
    if times == 1:
        return values, valid
    bands, height, width = values.shape
    shape = (bands, height // times, times, width // times, times)
    count = valid.reshape(shape).sum(axis=(2, 4))
    total = np.where(valid, values, 0).reshape(shape).sum(axis=(2, 4), dtype=np.float64)
    return (total / np.maximum(count, 1)).astype(np.float32), count > 0


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
