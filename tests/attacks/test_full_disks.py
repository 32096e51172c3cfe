"""A disk that fills up at any moment is told in a line; nothing is left, and what is written is right."""

import os
import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from counts import Record, seeds_of

from attcr.errors import AttcrError
from attcr.restore import Progress, RestoreOptions, restore_scene
from fake_scenes import SENSORS, UTM, Counting, make, noise

ROOMS = (0, 0, 4096, 20_000, 40_000, 60_000, 90_000, 150_000, 300_000, 500_000)
"""Bytes that are left."""
SIZE = 160


def make_scene(folder: Path, kind: str) -> Path:
    values = noise("uint16" if kind == "wide" else "uint8", (3, SIZE, SIZE)) // 3

    def mask(file: Any) -> None:
        file.write_mask((np.random.default_rng(0).random((SIZE, SIZE)) > 0.1).astype(np.uint8) * 255)

    more = {"nodata": 7} if kind == "nodata" else {}
    path = make(folder / f"{kind}.tif", values, mask if kind == "mask" else None, **UTM, **more)
    os.utime(path, (1e9, 1e9))  # it is in the item
    return path


def options_of(kind: str, source: Path) -> RestoreOptions:
    sensor = SENSORS["uint16" if kind == "wide" else "uint8"]
    mask = str(source.with_name("clouds.tif")) if kind == "clouds" else "none"
    return RestoreOptions(sensor=sensor, tile=64, overlap=8, mask=mask, confidence=kind == "spread")


def filling(disk: Path, chance: random.Random) -> Callable[[Progress], None]:
    """Fill the disk at a moment by chance, but for some room."""
    moment, room, heard = chance.randint(0, 16), chance.choice(ROOMS), 0

    def fill(progress: Progress) -> None:
        nonlocal heard
        heard += 1
        last = progress.stage == "write"
        if (heard > moment or last) and not (disk / "ballast").exists():
            left = os.statvfs(disk)
            (disk / "ballast").write_bytes(bytes(max(left.f_bavail * left.f_frsize - room, 0)))

    return fill


def made_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "ballast"}


def test_a_disk_that_fills_up_at_any_moment_is_told_in_a_line(small_disk: Path, tmp_path: Path) -> None:
    record = Record("full disks", seeds := seeds_of("full disks"))
    clouds = (np.arange(SIZE * SIZE).reshape(1, SIZE, SIZE) % 97 == 0).astype(np.uint8)
    make(tmp_path / "clouds.tif", clouds, **UTM)
    right: dict[str, dict[str, bytes]] = {}
    for seed in seeds:
        chance = random.Random(seed)
        kind = chance.choice(["plain", "mask", "wide", "nodata", "spread", "clouds"])
        source = make_scene(tmp_path, kind)
        options, target = options_of(kind, source), small_disk / "out.tif"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if kind not in right:
                restore_scene(source, target, Counting(), options=options)
                right[kind] = made_in(small_disk)
                for path in small_disk.iterdir():
                    path.unlink()
            try:
                restore_scene(source, target, Counting(), options=options, progress=filling(small_disk, chance))
                made = made_in(small_disk)
                wrong = sorted(name for name, content in right[kind].items() if made.pop(name, None) != content)
                record.add(seed, "restored", (wrong or made) and f"other bytes in {wrong}, more files {sorted(made)}")
            except AttcrError as error:
                left = sorted(made_in(small_disk))
                told = "\n" not in str(error) and any(word in str(error) for word in ("disk", "room"))
                record.add(seed, "refused", (left and f"{left} is left") or (not told and str(error)))
            except Exception as error:
                record.add(seed, "raised", repr(error))
        for path in small_disk.iterdir():
            path.unlink()
    record.check()
    if len(seeds) > 20:
        assert record.counts["refused"] > 0.5 * len(seeds), record.counts
