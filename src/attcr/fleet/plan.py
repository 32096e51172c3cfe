"""Plan a run: turn a STAC search or a prefix into a manifest, and say what it will take."""

import json
import os
import random
import re
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime as datetime_type
from datetime import timedelta
from functools import partial
from itertools import groupby
from pathlib import Path

import numpy as np

from attcr.addresses import is_local, redact
from attcr.bands.products import BAND_IN_NAME
from attcr.errors import AttcrError, ManifestError, SceneError
from attcr.fleet.manifest import Work, default_id, guarded, list_bucket, work_of_href, work_of_item, write_manifest
from attcr.fleet.store import split_url
from attcr.predict import open_predictor
from attcr.references.choose import (
    Candidate,
    Wanted,
    candidate_of,
    choose_candidates,
    few_requests,
    look,
    rank,
    read_mask,
)
from attcr.references.harmonise import Float32
from attcr.restore.options import RestoreOptions
from attcr.scenes.clouds.masks import CLEAR
from attcr.scenes.dataset import gdal
from attcr.scenes.open import SUFFIXES, open_scene
from attcr.scenes.pystac_client import interval_of, search_items
from attcr.scenes.scene import Profile

SAMPLE = 8
"""Scenes that are opened to tell how large the others are, where the source does not say."""


@dataclass(frozen=True)
class Plan:
    """What a manifest asks for."""

    scenes: int
    megapixels: float
    estimated: int
    """Scenes whose size is the mean of a few that were opened."""
    refused: int
    """Rows that cannot be run; each says why when it is run."""

    def worker_hours(self, megapixels_per_second: float) -> float:
        """Hours of one worker at a rate."""
        return self.megapixels / megapixels_per_second / 3600


def search(url: str, collections: Sequence[str], bbox: Sequence[float] | None, datetime: str | None) -> Iterator[Work]:
    """Give the items that a STAC API finds, page by page."""
    make = partial(work_of_item, folder=redact(url))
    try:
        yield from (guarded(make, item) for item in search_items(url, collections, bbox=bbox, datetime=datetime))
    except SceneError as error:
        raise ManifestError(str(error)) from error


def search_with_references(
    url: str,
    collections: Sequence[str],
    bbox: Sequence[float] | None,
    datetime: str | None,
    most: int,
    days: int,
) -> Iterator[Work]:
    """Give the items that a STAC API finds, each with up to so many references among its options.

    One search, widened by so many days on both sides, finds scenes and references; the mask of each item is read once,
    from its overviews, for all scenes of a tile. All items are held in memory.
    """
    first, last = (_moment(end) for end in interval_of(datetime).split("/")) if datetime else (None, None)
    span = timedelta(days=days)
    wide = f"{_text(first and first - span)}/{_text(last and last + span)}" if datetime else None
    try:
        items = list(search_items(url, collections, bbox=bbox, datetime=wide))
    except SceneError as error:
        raise ManifestError(str(error)) from error
    known = [candidate_of(item, url) for item in items]
    by_tile: defaultdict[str, list[Candidate]] = defaultdict(list)
    for candidate in filter(None, known):
        by_tile[candidate.tile].append(candidate)
    shares: dict[tuple[str, str], Float32 | None] = {}
    for item, one in zip(items, known, strict=True):
        if one is not None and ((first and one.taken < first) or (last and one.taken > last)):
            continue
        work = guarded(partial(work_of_item, folder=redact(url)), item)
        if one is None or work.problem or one.mask is None:
            yield work
            continue
        chosen = _references_of(one, by_tile[one.tile], shares, most, days)
        yield replace(work, options=json.dumps({"references": chosen})) if chosen else work


def _references_of(
    scene: Candidate,
    candidates: Sequence[Candidate],
    shares: dict[tuple[str, str], Float32 | None],
    most: int,
    days: int,
) -> list[str]:
    """Give the references of one scene; what was looked at for others of its grid is not read again."""
    assert scene.mask is not None, "scenes without a mask come without references"
    try:
        with gdal(), few_requests(), open_scene(scene.mask[1], vrt="never") as opened:
            profile = opened.profile
            data, classes = read_mask(*scene.mask, profile)
    except AttcrError:
        return []  # whoever runs the scene says what is wrong with it
    grid = f"{profile.crs} {tuple(profile.transform)} {profile.height} {profile.width}"

    def seen(one: Candidate, _: Profile) -> Float32 | None:
        if (one.href, grid) not in shares:
            with gdal():
                shares[one.href, grid] = look(one, profile)
        return shares[one.href, grid]

    shares[scene.href, grid] = np.asarray(data & (classes == CLEAR), np.float32)
    wanted = Wanted(scene.id, scene.taken, scene.tile, profile, np.asarray(data & (classes > CLEAR)))
    if not wanted.cloud.any():
        return []
    return [one.href for one in choose_candidates(wanted, rank(wanted, candidates, days), most, seen)]


def _moment(text: str) -> datetime_type | None:
    return None if text in ("", "..") else datetime_type.fromisoformat(text.replace("Z", "+00:00"))


def _text(moment: datetime_type | None) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}" if moment else ".."


def list_prefix(url: str) -> Iterator[Work]:
    """Give the rasters under a folder or a bucket's prefix; band files in one folder are one scene."""
    for folder, files in groupby(_files(url), key=lambda pair: pair[0].rpartition("/")[0]):
        bands: list[tuple[str, str]] = []
        for href, version in files:
            if BAND_IN_NAME.search(href.rpartition("/")[2]):
                bands.append((href, version))
            else:
                yield work_of_href((href,), default_id(href), version)
        if bands:
            hrefs, versions = zip(*bands, strict=True)
            yield work_of_href(hrefs, _id_of_folder(folder, url), " ".join(versions).strip())


def _id_of_folder(folder: str, url: str) -> str:
    """Give the id of a scene of band files: where its folder is below the prefix, for many end in R10m."""
    root = os.path.abspath(url) if is_local(url) else redact(url).rstrip("/")  # noqa: PTH100
    below = folder.removeprefix(root).strip("/") if folder.startswith(f"{root}/") else folder.rpartition("/")[2]
    return re.sub(r"[^A-Za-z0-9._-]", "_", below.replace(".SAFE", "")).lstrip(".-")[-200:] or "_"


def write_plan(works: Iterator[Work], path: Path) -> Plan:
    """Write a manifest and add it up."""
    scenes = refused = unsized = 0
    megapixels = 0.0
    sample: list[Work] = []
    chance = random.Random(0)

    def counted() -> Iterator[Work]:
        nonlocal scenes, refused, unsized, megapixels
        for work in works:
            scenes += 1
            refused += bool(work.problem)
            megapixels += work.megapixels or 0.0
            if work.megapixels is None and not work.problem:
                unsized += 1
                if len(sample) < SAMPLE:
                    sample.append(work)
                elif (place := chance.randrange(unsized)) < SAMPLE:
                    sample[place] = work
            yield work

    write_manifest(counted(), path)
    if not scenes:
        raise ManifestError("Nothing was found: check the address, the collection, the box and the dates.")
    sizes = [size for work in sample if (size := measure(work)) is not None]
    return Plan(scenes, megapixels + unsized * (sum(sizes) / len(sizes) if sizes else 0.0), unsized, refused)


def megapixels_of(work: Work) -> float | None:
    """Give a scene's size if its row or a local file says it."""
    if work.megapixels is not None or work.item or not all(is_local(href) for href in work.hrefs):
        return work.megapixels
    return measure(work)


def measure(work: Work) -> float | None:
    """Open a scene and give its megapixels; None where it does not open."""
    try:
        with gdal(), open_scene(list(work.hrefs), vrt="never") as scene:
            return scene.height * scene.width / 1e6
    except AttcrError:
        return None


def measure_rate(weights: str | Path, options: RestoreOptions) -> float:
    """Give the megapixels a second that these weights restore here, from one tile, reading and writing aside."""
    options = options.on_any_machine()
    predictor = open_predictor(weights, device=options.device, dtype=options.dtype, backend=options.backend)
    tile = np.zeros((1, len(predictor.spec.slots), options.tile, options.tile), np.float32)
    predictor(tile)  # the first one also warms up
    began = time.perf_counter()
    for _ in range(8 if options.confidence else 1):
        predictor(tile)
    return (options.tile - options.overlap) ** 2 / 1e6 / (time.perf_counter() - began)


def _files(url: str) -> Iterator[tuple[str, str]]:
    """Give rasters with their versions, folder by folder."""
    if not is_local(url):
        bucket, prefix = split_url(url)
        yield from (pair for pair in list_bucket(bucket, prefix) if pair[0].lower().endswith(SUFFIXES))
        return
    if not Path(url).is_dir():
        raise ManifestError(
            f"{url} is not a folder: give a folder, a bucket's prefix, or a STAC API with a `collection`."
        )
    for folder, folders, names in os.walk(os.path.abspath(url)):  # noqa: PTH100
        folders.sort()
        yield from ((f"{folder}/{name}", "") for name in sorted(names) if name.lower().endswith(SUFFIXES))
