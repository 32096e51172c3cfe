"""Files whose bytes or tags are changed by chance, restored one after the other in a process of their own.

python mutated.py FOLDER FIRST LAST    one line of JSON a seed on stdout
"""

import json
import random
import resource
import shutil
import signal
import struct
import sys
import warnings
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))

import numpy as np
import rasterio
from rasterio.control import GroundControlPoint
from rasterio.crs import CRS

from attcr.cli.voice import quiet_rasterio
from attcr.errors import AttcrError
from attcr.restore import RestoreOptions, restore_scene
from attcr.scenes.dataset import gdal
from fake_scenes import UTM, Same, make, same_bits

MEMORY = 6 << 30
SECONDS = 60
TAGS = (254, 256, 257, 258, 259, 262, 266, 273, 277, 278, 279, 284, 317, 322, 323, 324, 325, 330, 338, 339, 33550,
        33922, 34264, 34735, 34736, 34737, 42112, 42113, 50844)  # fmt: skip
NUMBERS = (0, 1, 2, 3, 7, 8, 16, 255, 256, 257, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1)


def make_whole(folder: Path) -> list[Path]:
    """Write files of every format and kind that scenes come in."""
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(0)
    picture = rng.integers(0, 250, (3, 70, 60)).astype(np.uint8)
    tiles = {"tiled": True, "blockxsize": 32, "blockysize": 32}
    points = [GroundControlPoint(row, col, col, row, 0) for row in (0, 60) for col in (0, 50)]

    def mask(file: Any) -> None:
        file.write_mask((rng.random((70, 60)) > 0.3).astype(np.uint8) * 255)

    def tags(file: Any) -> None:
        file.update_tags(A="b", TIFFTAG_DATETIME="2020:01:01 00:00:00")
        file.update_tags(ns="X", q="r")
        file.update_tags(1, z="1")
        file.descriptions = ["red", "green", "blue"]

    def gcps(file: Any) -> None:
        file.gcps = (points, CRS.from_epsg(4326))

    kinds: dict[str, tuple[np.ndarray, Any, dict[str, Any]]] = {
        "deflate.tif": (picture, None, {"compress": "deflate", "predictor": 2, **tiles, **UTM}),
        "lzw.tif": (picture, None, {"compress": "lzw", "interleave": "pixel", "nodata": 0, **UTM}),
        "plain.tif": (picture, None, UTM),
        "big.tif": (picture, None, {"bigtiff": "YES", "compress": "zstd", **UTM}),
        "float.tif": (rng.random((3, 70, 60)).astype(np.float32), None,
                      {"compress": "deflate", "predictor": 3, "nodata": float("nan"), **UTM}),
        "mask.tif": (picture, mask, {"photometric": "RGB", **UTM}),
        "jpeg.tif": (picture, None,
                     {"compress": "jpeg", "photometric": "YCBCR", "interleave": "pixel", **tiles, **UTM}),
        "tags.tif": (picture, tags, UTM),
        "gcps.tif": (picture, gcps, {}),
        "alpha.tif": (np.concatenate([picture, picture[:1]]), None, {"photometric": "RGB", "alpha": "yes", **UTM}),
        "p.png": (picture, None, {"driver": "PNG"}),
        "j.jpg": (picture, None, {"driver": "JPEG"}),
        "w.webp": (picture, None, {"driver": "WEBP", "lossless": "YES"}),
        "b.bmp": (picture, None, {"driver": "BMP"}),
        "h.img": (picture, None, {"driver": "HFA", **UTM}),
        "e.img": (picture, None, {"driver": "ENVI", **UTM}),
        "k.jp2": (picture, None, {"driver": "JP2OpenJPEG", **UTM}),
    }  # fmt: skip
    return [make(folder / name, values, after, **profile) for name, (values, after, profile) in kinds.items()]


def mutate(content: bytes, chance: random.Random) -> bytes:
    """Change a few bytes, lose or double a part, or change a tag of a TIFF."""
    data, size = bytearray(content), len(content)
    kind = chance.choice(["flip", "flip", "bytes", "cut", "splice", "double", "blank", "head", "tag", "tag", "tag"])
    first, last = sorted((chance.randrange(size), chance.randrange(size)))
    if kind == "flip":
        data[first] ^= 1 << chance.randrange(8)
    elif kind in ("bytes", "head"):
        for _ in range(chance.randint(1, 40 if kind == "bytes" else 6)):
            data[chance.randrange(size if kind == "bytes" else min(size, 400))] = chance.randrange(256)
    elif kind == "cut":
        del data[max(first, 1) :]
    elif kind == "splice":
        del data[first:last]
    elif kind == "double":
        data[last:last] = data[first:last]
    elif kind == "blank":
        last = min(first + chance.randint(1, 64), size)
        data[first:last] = chance.choice([b"\0", b"\xff"]) * (last - first)
    elif data[:4] == b"II*\0":
        _mutate_tag(data, chance)
    return bytes(data)


def _mutate_tag(data: bytearray, chance: random.Random) -> None:
    (directory,) = struct.unpack_from("<I", data, 4)
    (count,) = struct.unpack_from("<H", data, directory)
    place = directory + 2 + 12 * chance.randrange(count)
    number = chance.choice([*NUMBERS, chance.randrange(2**32)])
    field = chance.choice(["value", "count", "type", "tag"])
    if field in ("value", "count"):
        struct.pack_into("<I", data, place + (8 if field == "value" else 4), number)
    elif field == "type":
        struct.pack_into("<H", data, place + 2, number % 65536)
    else:
        struct.pack_into("<H", data, place, chance.choice([*TAGS, number % 65536]))


def try_one(folder: Path, whole: list[Path], seed: int) -> tuple[str, str]:
    """Give what became of a seed (restored, refused, raised), and what was wrong with it."""
    chance = random.Random(seed)
    original = chance.choice(whole)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    source = folder / original.name
    source.write_bytes(mutate(original.read_bytes(), chance))
    if source.name == "e.img":
        shutil.copy(original.with_suffix(".hdr"), folder)
    before = {path.name for path in folder.iterdir()}
    target = folder / "out.tif"
    try:
        restore_scene(source, target, Same(), options=RestoreOptions(mask="none"))
    except AttcrError as error:
        outcome, wrong = "refused", "" if "\n" not in str(error) else f"several lines: {error}"
    except BaseException as error:
        outcome, wrong = "raised", f"{source.name}: {error!r}"
    else:
        return "restored", _difference(source, target)
    left = {path.name for path in folder.iterdir()} - before
    return outcome, wrong or (f"{source.name}: {sorted(left)} is left" if left else "")


def _difference(source: Path, target: Path) -> str:
    """Say how a file differs from the one that a network without effect made of it."""
    try:
        with gdal(), rasterio.open(source) as came, rasterio.open(target) as left:
            # Of pixels of a few bits GDAL makes others by the order in which bands are asked for.
            if "NBITS" not in came.tags(1, ns="IMAGE_STRUCTURE") and not same_bits(came.read(), left.read()):
                with rasterio.open(source) as again:  # of a damaged Imagine file GDAL gives what is in memory
                    return "" if not same_bits(came.read(), again.read()) else f"{source.name}: other pixels"
            grids = [[number + 0.0 for number in file.transform] for file in (came, left)]  # no -0.0
            if not _same_crs(came.crs, left.crs) or repr(grids[0]) != repr(grids[1]):
                return f"{source.name}: {came.crs} {grids[0]} became {left.crs} {grids[1]}"
            if repr(came.nodatavals) != repr(left.nodatavals):
                return f"{source.name}: nodata {came.nodatavals} became {left.nodatavals}"
        json.loads(target.with_suffix(".json").read_text(), parse_constant=float.fromhex)
    except Exception as error:
        return f"{source.name}: cannot be compared: {error!r}"
    return ""


def _same_crs(came: CRS | None, left: CRS | None) -> bool:
    """Whether a GeoTIFF keeps all of a CRS that it can: its code, where the words around it are damaged."""
    if came == left or came is None or left is None:
        return came == left
    return came.to_wkt().endswith(f'AUTHORITY["EPSG","{left.to_epsg()}"]]')


def main() -> None:
    folder, first, last = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    warnings.simplefilter("ignore")
    quiet_rasterio()
    whole = make_whole(folder / "whole")
    for seed in range(first, last):
        signal.alarm(SECONDS)  # its default action ends the process, whatever it is in
        outcome, wrong = try_one(folder / "case", whole, seed)
        signal.alarm(0)
        sys.stdout.write(json.dumps([seed, outcome, wrong]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
