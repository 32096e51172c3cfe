"""Hash what attcr writes, so that two versions of its code can be compared byte by byte.

    python tools/outputs.py --data DATA --out before.json [--only NAME ...]
    python tools/outputs.py --compare before.json after.json

DATA is the folder with rice2, clear_s2_rgb, sen12mscr, scenes and s2. The code that runs is the `attcr` that this
Python imports; only its command line and its public names are used. All of it works in one folder of a fixed name,
because keys of work and fingerprints are made from paths too: compare files that were made in the same one.
"""

import argparse
import csv
import fcntl
import fnmatch
import hashlib
import importlib
import io
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import rasterio
from affine import Affine
from numpy.typing import NDArray
from rasterio.errors import NotGeoreferencedWarning

Array = NDArray[Any]
Hashes = dict[str, str]
Case = Callable[[], Hashes]

WHEN = 1_600_000_000
"""The time that all input files get: fingerprints and items hold it."""
UTM: dict[str, Any] = {"crs": "EPSG:32633", "transform": Affine(10, 0, 600000, 0, -10, 5500020)}
L1C = ["B01", "B02", "B03", "B04", "B05", "B06", "B07", "B08", "B8A", "B09", "B10", "B11", "B12"]
TEN = ["B02", "B03", "B04", "B05", "B06", "B07", "B08", "B8A", "B11", "B12"]
SERIES = ("2018-07-05", "2018-06-25", "2018-07-20")
"""Dates of one place, the first under cloud."""
HAZE = ("2022-09-02", "2022-08-17", "2022-09-18")
"""Dates of another place, the first under haze."""
SAFE = "S2B_MSIL2A_{0}T100559_N0509_R022_T33UXQ_{0}T131622.SAFE"
LANDSAT = "LC09_L2SP_190026_{0}_20230827_02_T1"
VERSIONED = " (holds the version)"
"""Ends the names of values that are hashes over the version of attcr too."""


def without_seconds(data: bytes) -> bytes:
    """Take out what a command in JSON says of time."""
    return re.sub(rb'"(seconds|worker_seconds|scenes_per_second|seconds_left|last)": [^,\n]+', rb'"\1": 0', data)


def with_round_sums(data: bytes) -> bytes:
    """Round the megapixels of a fleet to nine decimals."""
    return re.sub(rb'"megapixels": ([\d.e+-]+)', lambda found: b'"megapixels": %.9f' % float(found[1]), data)


def without_durations(data: bytes) -> bytes:
    """Take out the line of a fleet about time."""
    return re.sub(rb"(?m)^.* to start, .* of work$", b"", data)


def without_version(data: bytes) -> bytes:
    """Take out the version of attcr."""
    return re.sub(rb'("attcr": "|\| attcr \| |\battcr )\d[\w.+]*', rb"\1VERSION", data)


def without_pace(data: bytes) -> bytes:
    """Take out the columns of a training's table about time."""
    rows = list(csv.DictReader(io.StringIO(data.decode())))
    return json.dumps(
        [{k: v for k, v in row.items() if k not in ("images_per_s", "wait_share")} for row in rows]
    ).encode()


def with_plain_header(data: bytes) -> bytes:
    """Take the version of attcr out of the header of weights, and sort its metadata; the rest stays as it is."""
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    told = dict(sorted(header.pop("__metadata__", {}).items()))
    if "provenance" in told:
        told["provenance"] = json.dumps({**json.loads(told["provenance"]), "attcr": "VERSION"})
    return json.dumps([told, header]).encode() + data[8 + size :]


def without_digest(data: bytes) -> bytes:
    """Take the hash of the weights file out of a model card."""
    return re.sub(rb"(sha256 of the weights: `)\w+", rb"\1", data)


class Rule(NamedTuple):
    """One thing that may differ between two runs of the same code, or of two versions."""

    files: str
    """Pattern of the names."""
    change: Callable[[bytes], bytes] | None
    """What is done to the content; None: the file is left out."""
    why: str


NORMALISED = (
    Rule("*stdout", without_seconds, "durations, rates, and when the last row of a fleet was written"),
    Rule("*stdout", with_round_sums, "sums of megapixels are added up by files of the log, which are cut by time"),
    Rule("*stdout", without_durations, "durations"),
    Rule("*stdout", without_version, "the version of attcr"),
    Rule("*.json", without_version, "the version of attcr, in items and reports"),
    Rule("*.jsonl", without_version, "the version of attcr, in the first row of an evaluation"),
    Rule("*.md", without_version, "the version of attcr, in reports and model cards"),
    Rule("*.safetensors", with_plain_header, "the version of attcr; the library writes metadata in a random order"),
    Rule("*model-card.md", without_digest, "the hash of the weights file, with its metadata in a random order"),
    Rule("*metrics.csv", without_pace, "images per second, and the share of time spent waiting for data"),
    Rule("*run.log", None, "date, duration and process of an evaluation; nothing else is in it"),
    Rule("*/events.out.tfevents.*", None, "times of TensorBoard, and the machine's name; metrics.csv has the numbers"),
    Rule("*.ckpt", None, "a pickle that names classes by their modules, which may move"),
    Rule("*/ledger/*", None, "times, durations and process of each row; `ledger` has the rest of the rows"),
)
"""Everything that is changed or left out before files are compared."""

HASHES_OF_VERSION = {"*.json": rb'"attcr:fingerprint": "(\w+)"'}
"""Values that are hashes over the version too: they are compared by themselves, where the versions are equal."""


def sha256(data: bytes) -> str:
    """Give the hash of some bytes."""
    return hashlib.sha256(data).hexdigest()


def hashes_of(name: str, data: bytes) -> Hashes:
    """Give the hash of one file or value, and apart from it those that are hashes over the version."""
    found: Hashes = {}
    for pattern, value in HASHES_OF_VERSION.items():
        if fnmatch.fnmatch(name, pattern) and (match := re.search(value, data)):
            found[name + VERSIONED] = match[1].decode()
            data = data.replace(match[1], b"VERSIONED")
    for rule in NORMALISED:
        if fnmatch.fnmatch(name, rule.files):
            if rule.change is None:
                return {}
            data = rule.change(data)
    return {name: sha256(data), **found}


def read(path: Path, rows: slice = slice(None), cols: slice = slice(None)) -> tuple[Array, dict[str, Any]]:
    """Give a window of a raster and its place."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        with rasterio.open(path) as file:
            values = file.read()[:, rows, cols]
            moved = file.transform * Affine.translation(cols.start or 0, rows.start or 0)
            place = {"crs": file.crs, "transform": moved} if file.crs else {}
    return values, place


def write(
    path: Path, values: Array, names: Sequence[str] = (), tags: dict[str, str] | None = None, **more: Any
) -> Path:
    """Write a raster, a GeoTIFF where `driver` does not say otherwise."""
    path.parent.mkdir(parents=True, exist_ok=True)
    count, height, width = values.shape
    about = {"driver": "GTiff", "count": count, "height": height, "width": width, "dtype": values.dtype, **more}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        with rasterio.open(path, "w", **about) as file:
            file.write(values)
            if names:
                file.descriptions = tuple(names)
            if tags:
                file.update_tags(**tags)
    Path(f"{path}.aux.xml").unlink(missing_ok=True)
    return path


def write_jp2(path: Path, plane: Array, place: dict[str, Any]) -> None:
    """Write one band as lossless JPEG 2000."""
    write(path, plane[None], driver="JP2OpenJPEG", QUALITY="100", REVERSIBLE="YES", **place)


def veil(height: int, width: int, seed: int) -> Array:
    """Draw a smooth cloud, 0 to 1, that covers a part of an image."""
    draw = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width] / 64.0
    waves = sum(np.sin(a * x + b * y + c) / (1 + abs(a) + abs(b)) for a, b, c in draw.uniform(-3, 3, (12, 3)))
    return np.asarray(np.clip(waves - np.quantile(waves, 0.6), 0, 1), np.float32)


def clouded(image: Array, seed: int) -> Array:
    """Put a cloud on an 8-bit picture."""
    part = veil(image.shape[1], image.shape[2], seed)
    return np.asarray(np.rint(image * (1 - part) + 235 * part), np.uint8)


def classes_of(height: int, width: int) -> Array:
    """Draw 0 clear, 1 thin, 2 thick, 3 shadow (H, W): a few compact forms on clear ground."""
    first, second = veil(height, width, 9), veil(height, width, 11)
    classes = np.zeros((height, width), np.uint8)
    classes[second > np.quantile(second, 0.93)] = 1
    classes[first > np.quantile(first, 0.95)] = 2
    classes[-20:, :20] = 3
    return classes


def write_safe(folder: Path, stamp: str, values: Array, classes: Array) -> None:
    """Write a product of Sentinel-2 L2A: four bands of 10 m, two of 20 m and SCL, from reflectance by TEN."""
    images = folder / SAFE.format(stamp) / "GRANULE" / f"L2A_T33UXQ_A033602_{stamp}T100559" / "IMG_DATA"
    numbers = np.rint(values * 10_000 + 1000).astype(np.uint16)
    half = {**UTM, "transform": UTM["transform"] * Affine.scale(2)}
    for name in ("B02", "B03", "B04", "B08"):
        write_jp2(images / "R10m" / f"T33UXQ_{stamp}T100559_{name}_10m.jp2", numbers[TEN.index(name)], UTM)
    for name in ("B05", "B11"):
        write_jp2(images / "R20m" / f"T33UXQ_{stamp}T100559_{name}_20m.jp2", numbers[TEN.index(name)][::2, ::2], half)
    scl = np.array([4, 10, 9, 3], np.uint8)[classes[::2, ::2]]
    write_jp2(images / "R20m" / f"T33UXQ_{stamp}T100559_SCL_20m.jp2", scl, half)
    (folder / SAFE.format(stamp) / "MTD_MSIL2A.xml").write_text("<n1:Level-2A_User_Product/>")


def write_landsat(folder: Path, stamp: str, values: Array, classes: Array) -> None:
    """Write a product of Landsat 9, Collection 2 Level 2, from reflectance by TEN."""
    product = LANDSAT.format(stamp)
    place = {**UTM, "transform": UTM["transform"] * Affine.scale(3)}
    for band, name in {"SR_B2": "B02", "SR_B3": "B03", "SR_B4": "B04", "SR_B5": "B08", "SR_B6": "B11"}.items():
        numbers = np.rint((values[TEN.index(name)] + 0.2) / 2.75e-5).astype(np.uint16)
        write(folder / product / f"{product}_{band}.TIF", numbers[None], nodata=0, **place)
    qa = np.array([21824, 21824 | 1 << 2, 22280, 23888], np.uint16)[classes]
    write(folder / product / f"{product}_QA_PIXEL.TIF", qa[None], **place)
    (folder / product / f"{product}_MTL.txt").write_text("GROUP = LANDSAT_METADATA_FILE\nEND_GROUP\nEND\n")


def make_inputs(data: Path, work: Path) -> None:
    """Write all input files into WORK/in, and lead WORK/data to the data."""
    (work / "data").symlink_to(data.resolve(), target_is_directory=True)
    into = work / "in"
    make_series(data, into)
    make_products(data, into)
    make_pictures(data, into)
    make_fleet(data, into)
    for path in sorted(into.rglob("*"), reverse=True):
        os.utime(path, (WHEN, WHEN))
    with tarfile.open(into / "landsat.tar", "w") as tar:
        tar.add(into / LANDSAT.format("20230815"), LANDSAT.format("20230815"), filter=plain)
    os.utime(into / "landsat.tar", (WHEN, WHEN))


def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Take the user out of what a tar holds of a file."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def make_series(data: Path, into: Path) -> None:
    """Write scenes of 13 bands: dates of one place, a patch of SEN12MS-CR, and a scene with a border of no data."""
    part = slice(64, 224)
    for date in SERIES:
        values, place = read(data / "s2/series_l1c_roi146" / f"{date}.tif", part, part)
        write(into / "l1c" / f"{date}.tif", values, L1C, **place)
        write(into / "small" / f"{date}.tif", values[:, :112, :128], L1C, **place)
        whole, its_place = read(data / "s2/series_l1c_roi146" / f"{date}.tif")
        write(into / "dates" / f"{date}.tif", whole, L1C, **its_place)
    clouds = classes_of(112, 128)
    write(into / "small" / "clouds.tif", (clouds % 3)[None], **read(into / "small" / f"{SERIES[0]}.tif")[1])
    for kind in ("s2_cloudy", "s2"):
        values, place = read(data / "sen12mscr" / kind / "ROIs1970_fall_139_p839.tif")
        write(into / kind / "20200815.tif", values, L1C, **place)
    for number, kind in enumerate(("cloudy", "clear")):
        values, place = read(data / "scenes/s2_l1c_roi136" / f"{kind}.tif")
        empty = (values == 0).all(0)
        row, col = (int(max(at.max() - 180, 0)) for at in np.nonzero(empty)) if empty.any() else (0, 0)
        values = values[:, row : row + 201, col : col + 233]
        place["transform"] = place["transform"] * Affine.translation(col, row)
        write(into / "border" / f"2020081{5 + number}_{kind}.tif", values, L1C, nodata=0, **place)


def make_products(data: Path, into: Path) -> None:
    """Write products in folders, band files, an item, and reflectance as float: real haze, and real cirrus."""
    part = slice(48, 208)
    for date in HAZE:
        values, place = read(data / "s2/series_l2a_20LMR" / f"{date}.jp2", part, part)
        write(into / "haze" / f"{date}.tif", values, TEN, **place)
        reflectance = (values / 10_000).astype(np.float32)
        holed = reflectance.copy()
        holed[:, :9, 30:70] = np.nan
        write(into / "float" / f"{date}.tif", holed, TEN, nodata=float("nan"), **place)
        classes = classes_of(160, 160) if date == HAZE[0] else np.zeros(values.shape[1:], np.uint8)
        stamp = "20230815" if date == HAZE[0] else "20230805" if date == HAZE[1] else "20230821"
        write_safe(into, stamp, reflectance, classes)
        write_landsat(into, stamp, reflectance[:, :144, :150], classes[:144, :150])
        for name in ("B02", "B03", "B04", "B8A"):
            band = values[TEN.index(name)][None, :130, :141]
            write(into / "bands" / f"T20LMR_{date.replace('-', '')}T140000_{name}_20m.tif", band, **place)
    assets = {
        name: {"href": f"./bands/T20LMR_20220902T140000_{name}_20m.tif", "bands": [{"name": name}]}
        for name in ("B02", "B03", "B04", "B8A")
    }
    item: dict[str, Any] = {"type": "Feature", "stac_version": "1.0.0", "id": "20LMR", "geometry": None}
    item |= {"links": [], "assets": assets}
    told = {"datetime": "2022-09-02T14:00:00Z", "processing:level": "L2A", "s2:processing_baseline": "03.00"}
    (into / "item.json").write_text(json.dumps({**item, "properties": told}))
    rows, cols = slice(600, 856), slice(900, 1140)
    for path in sorted((data / "scenes/s2_l2a_60m").glob("*.jp2")):
        values, place = read(path, rows, cols)
        write_jp2(into / "l2a" / path.name, values[0], place)


def make_pictures(data: Path, into: Path) -> None:
    """Write pictures of 8 bits: one of RICE2, true colour with drawn cloud, and small sets to evaluate and train on."""
    rice2 = data / "rice2"
    tests = (rice2 / "test_list.txt").read_text().split()
    for name in (Path(line).stem for line in tests):
        for side in ("cloud", "label"):
            values = read(rice2 / side / f"{name}.webp")[0]
            write(into / "rice2" / side / f"{name}.png", values[:, 200:248, 200:248], driver="PNG")
            if name in [Path(line).stem for line in tests[:3]]:
                own = {"cloud": "cloudy", "label": "clear"}[side]
                write(into / "pairs" / own / f"{name}.png", values[:, 100:228, 100:228], driver="PNG")
    write(into / "rice2.png", read(rice2 / "cloud" / f"{Path(tests[0]).stem}.webp")[0][:, :256, :256], driver="PNG")
    for number, path in enumerate(sorted((data / "clear_s2_rgb").glob("*.webp"))[::30]):
        clear = read(path)[0]
        write(into / "rgb" / f"{number}.png", clouded(clear, number)[:, :160, :150], driver="PNG")
        alpha = np.where(veil(256, 256, 50) > 0.5, 0, 255).astype(np.uint8)[None]
        if number == 0:
            tags = {"TIFFTAG_DATETIME": "2023:08:15 10:05:59", "OWN": "kept"}
            write(into / "rgb.tif", clouded(clear, 7)[:, :250, :203], tags=tags, photometric="RGB", **UTM)
            both = np.concatenate([clouded(clear, 8), alpha])[:, :128, :128]
            write(into / "rgba.png", both, driver="PNG")
        for side, image in (("cloudy", clouded(clear, number)), ("clear", clear)):
            for corner in (0, 128):
                square = image[:, corner : corner + 128, corner : corner + 128]
                write(into / "tune" / side / f"{number}_{corner}.png", square, driver="PNG")


def make_fleet(data: Path, into: Path) -> None:
    """Write 20 scenes for a fleet, one of them no raster and one large enough to be split."""
    paths = sorted((data / "clear_s2_rgb").glob("*.webp"))
    for number in range(19):
        size = np.s_[:, :200, :120] if number == 5 else np.s_[:, : 64 + number, :80]
        image = clouded(read(paths[number * 7])[0], 20 + number)[size]
        write(into / "fleet" / f"scene_{number:02d}_20230815.tif", image, photometric="RGB", **UTM)
    hostile = b"II*\0" + np.random.default_rng(1).bytes(3000)
    (into / "fleet" / "hostile_20230815.tif").write_bytes(hostile)


SPOKEN = ("attcr:", "weights:", "quarantined")
"""How lines of attcr's own begin on stderr; others are warnings of libraries, with paths and lines of code."""


def environment() -> dict[str, str]:
    """Give the environment of every run: one thread, no colours, and the same attcr as here."""
    spec = find_spec("attcr")
    if spec is None or spec.origin is None:
        raise SystemExit("attcr is not installed for this Python")
    code = str(Path(spec.origin).resolve().parent.parent)
    paths = os.pathsep.join(
        str(Path(path).resolve()) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path
    )
    same = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
    looks = {"COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1", "TZ": "UTC", "LC_ALL": "C.UTF-8"}
    return {**os.environ, **same, **looks, "PYTHONPATH": os.pathsep.join([code, *([paths] if paths else [])])}


THROUGH: list[str] = []
"""A command that every run is started through, such as one that waits for a free core."""


def run(work: Path, *command: str, expect: int = 0) -> Hashes:
    """Run a command of Python in the working folder; give the hashes of what it said."""
    whole = [*THROUGH, sys.executable, *command]
    done = subprocess.run(whole, cwd=work, env=environment(), capture_output=True, check=False)
    if done.returncode != expect:
        told = (done.stdout + done.stderr).decode(errors="replace")[-3000:]
        raise RuntimeError(f"{' '.join(command)}: exit code {done.returncode}, expected {expect}\n{told}")
    spoken = [line for line in done.stderr.decode(errors="replace").splitlines() if line.startswith(SPOKEN)]
    return {**hashes_of("stdout", done.stdout), **hashes_of("stderr", "\n".join(spoken).encode())}


def files_in(work: Path, folder: str) -> Hashes:
    """Give the hashes of all files in a folder of results."""
    found: Hashes = {}
    for path in sorted((work / folder).rglob("*")):
        if path.is_file():
            found |= hashes_of(path.relative_to(work / folder).as_posix(), path.read_bytes())
    return found


def fresh(work: Path, name: str) -> str:
    """Make an empty folder for the results of a case."""
    shutil.rmtree(work / "out" / name, ignore_errors=True)
    (work / "out" / name).mkdir(parents=True)
    return f"out/{name}"


L1C_SCENE, SMALL = f"in/l1c/{SERIES[0]}.tif", f"in/small/{SERIES[0]}.tif"
AS_L1C = ("--sensor", "s2-l1c")
BEFORE, AFTER = (("--reference", f"in/l1c/{date}.tif") for date in SERIES[1:])
SMALL_BEFORE, SMALL_AFTER = (("--reference", f"in/small/{date}.tif") for date in SERIES[1:])
BANDS = tuple(f"in/bands/T20LMR_20220902T140000_{name}_20m.tif" for name in ("B02", "B03", "B04", "B8A"))

RESTORE: dict[str, tuple[tuple[str, ...], str]] = {
    # A kind of scene each.
    "l1c": ((L1C_SCENE, *AS_L1C), "out.tif"),
    "l1c-reference": ((L1C_SCENE, *AS_L1C, *AFTER), "out.tif"),
    "l1c-references": ((L1C_SCENE, *AS_L1C, *BEFORE, *AFTER), "out.tif"),
    "l2a": (("in/l2a", "--sensor", "s2-l2a"), "out.tif"),
    "sen12mscr": (("in/s2_cloudy/20200815.tif", *AS_L1C), "out.tif"),
    "sen12mscr-reference": (
        ("in/s2_cloudy/20200815.tif", *AS_L1C, "--reference", "in/s2/20200815.tif", "--reference-fill", "classical"),
        "out.tif",
    ),
    "rice2-png": (("in/rice2.png", "--weights", "rice2-small", "--bands", "1,2,3"), "out.png"),
    "rgb-tif": (("in/rgb.tif", "--weights", "rgb-thin"), "out.tif"),
    "rgba-png": (("in/rgba.png", "--weights", "rgb-thin", "--mask", "none"), "out.png"),
    "pictures": (("in/rgb/0.png", "in/rgb/1.png"), ""),
    "float": ((f"in/float/{HAZE[0]}.tif", "--sensor", "reflectance", "--mask", "auto"), "out.tif"),
    "float-references": (
        (
            *(f"in/float/{HAZE[0]}.tif", "--sensor", "reflectance", "--mask", "auto", "--weights", "none"),
            *("--reference", f"in/float/{HAZE[1]}.tif", "--reference", f"in/float/{HAZE[2]}.tif"),
        ),
        "out.tif",
    ),
    "border": (("in/border/20200815_cloudy.tif", *AS_L1C), "out.tif"),
    "border-reference": (
        (
            *("in/border/20200815_cloudy.tif", *AS_L1C, "--reference", "in/border/20200816_clear.tif"),
            *("--reference-mask", "none"),
        ),
        "out.tif",
    ),
    "landsat": ((f"in/{LANDSAT.format('20230815')}",), "out.tif"),
    "landsat-reference": (
        (f"in/{LANDSAT.format('20230815')}", "--reference", f"in/{LANDSAT.format('20230805')}"),
        "out.tif",
    ),
    "landsat-tar": (("in/landsat.tar",), "out.tif"),
    "safe": ((f"in/{SAFE.format('20230815')}",), "out.tif"),
    "safe-references": (
        (
            *(f"in/{SAFE.format('20230815')}", "--reference", f"in/{SAFE.format('20230805')}"),
            *("--reference", f"in/{SAFE.format('20230821')}"),
        ),
        "out.tif",
    ),
    "bands": ((*BANDS, "--sensor", "s2-l2a", "--mask", "auto"), ""),
    "item": (("in/item.json", "--mask", "auto"), "out.tif"),
    # An option each, on one small scene.
    "mask-file": ((SMALL, *AS_L1C, "--mask", "in/small/clouds.tif"), "out.tif"),
    "mask-file-reference": (
        (SMALL, *AS_L1C, "--mask", "in/small/clouds.tif", *SMALL_BEFORE, "--reference-mask", "auto"),
        "out.tif",
    ),
    "mask-none": ((SMALL, *AS_L1C, "--mask", "none", "--tile", "64", "--overlap", "16", "--batch", "2"), "out.tif"),
    "mask-auto": ((SMALL, *AS_L1C, "--mask", "auto", "--dilate", "3", "--feather", "0"), "out.tif"),
    "unseen-nodata": ((SMALL, *AS_L1C, "--unseen", "nodata", "--nodata", "0"), "out.tif"),
    "unseen-fill": ((SMALL, *AS_L1C, "--unseen", "fill"), "out.tif"),
    "confidence": (("in/rgb/2.png", "--confidence"), "out.tif"),
    "reference-classical": ((SMALL, *AS_L1C, *SMALL_BEFORE, *SMALL_AFTER, "--reference-fill", "classical"), "out.tif"),
    "reference-only": ((SMALL, *AS_L1C, *SMALL_AFTER, "--weights", "none"), "out.tif"),
    "three-bands": ((SMALL, *AS_L1C, "--weights", "rgb-thin", "--bands", "B04,B03,B02"), "out.tif"),
}
"""Options of `attcr restore`, and the target in the folder of the case; without a name, the folder is the target."""


def restore(work: Path, name: str) -> Hashes:
    """Restore one scene."""
    options, target = RESTORE[name]
    out = fresh(work, f"restore-{name}")
    first = next((at for at, option in enumerate(options) if option.startswith("--")), len(options))
    common = ("--dtype", "float32", "--json", "--progress", "none")
    said = run(work, "-m", "attcr", "restore", *options[:first], f"{out}/{target}", *options[first:], *common)
    return {**said, **files_in(work, out)}


def library(work: Path) -> Hashes:
    """Run what is public in Python, in a process of its own: see `call_library`."""
    out = fresh(work, "library")
    return {**run(work, str(Path(__file__).resolve()), "--library", out), **files_in(work, out)}


def call_library(out: Path) -> None:
    """Restore stacks of dates and arrays by the public names of attcr, and write them as .npy into a folder."""
    attcr = importlib.import_module("attcr")
    importlib.import_module("attcr.xarray")  # registers the accessor
    torch, xr = importlib.import_module("torch"), importlib.import_module("xarray")

    def keep(name: str, values: Any) -> None:
        np.save(out / f"{name}.npy", np.ascontiguousarray(values))

    options = attcr.RestoreOptions(sensor="s2-l1c", dtype="float32", dilate=2, feather=2)
    images = np.stack([read(Path(f"in/small/{date}.tif"))[0][:, :80, :96] for date in SERIES])
    clouds = np.stack([attcr.find_clouds(f"in/small/{date}.tif", "auto", sensor="s2-l1c") for date in SERIES])
    keep("find_clouds", clouds)
    clouds = clouds[:, :80, :96]
    clouds[0, 20:50, 30:60] = 2
    times = np.array(SERIES, "datetime64[ns]")
    place = {"time": times, "y": np.arange(80) * -10.0, "x": np.arange(96) * 10.0}
    mask = xr.DataArray(clouds, dims=("time", "y", "x"), coords=place)
    stack = xr.DataArray(images, dims=("time", "band", "y", "x"), coords={**place, "band": L1C}, name="scene")
    lazy = stack.isel(time=0).chunk({"y": 40, "x": 50})
    ways = {
        "stack": stack.attcr.restore(dim="time", clouds=mask, options=options),
        "stack-unnamed": stack.drop_vars("band").attcr.restore(dim="time", clouds=mask, options=options),
        "stack-dask": stack.chunk(time=1).attcr.restore(dim="time", clouds=mask.chunk(time=1), options=options),
    }
    for name, filled in ways.items():
        for layer in filled:
            keep(f"{name}-{layer}", filled[layer].compute(scheduler="synchronous").values)
    tiles = attcr.RestoreOptions(sensor="s2-l1c", dtype="float32", tile=64, overlap=16)
    one = lazy.attcr.restore("s2-thin", clouds=mask.isel(time=0), options=tiles)
    keep("date-dask", one.compute(scheduler="synchronous").values)
    restored = attcr.restore_array(images[0], "s2-thin", clouds=clouds[0], bands=L1C, options=tiles)
    for layer in ("image", "quality", "spread"):
        keep(f"array-{layer}", getattr(restored, layer))
    for name in ("rgb-thin", "rice2-small", "s2-thin"):
        model = attcr.load_model(name)
        x = np.random.default_rng(3).uniform(0, 1, (1, len(model.spec.slots), 40, 48)).astype(np.float32)
        with torch.no_grad():
            keep(f"model-{name}", model(torch.from_numpy(x)).numpy())
        keep(f"predictor-{name}", attcr.open_predictor(name, dtype="float32")(x))
    result = attcr.restore_scene(SMALL, out / "scene.tif", "s2-thin", options=options)
    print(json.dumps({"pixels": result.pixels, "left": result.left, "mask": result.mask}))
    (out / "scene.html").write_text(result._repr_html_())


def fleet(work: Path) -> Hashes:
    """Plan and run a fleet of 20 scenes, one of them hostile and one split, twice; give its log without times."""
    out = fresh(work, "fleet")
    found: Hashes = {}

    def step(name: str, *command: str, expect: int = 0) -> None:
        said = run(work, "-m", "attcr", "fleet", *command, expect=expect)
        found.update({f"{name}/{key}": value for key, value in said.items()})

    step("plan", "plan", "in/fleet", f"{out}/manifest.parquet", "--rate", "0.5", "--price", "2")
    settings = [
        f"--set={setting}" for setting in ("mask=auto", "dtype=float32", "tile=64", "overlap=16", "sensor=rgb8")
    ]
    start = ("run", f"{out}/manifest.parquet", f"{out}/results", "--weights", "rgb-thin", *settings)
    again = (*start, "--split-over", "0.012", "--threads", "1", "--attempts", "2")
    step("run", *again, expect=3)
    step("again", *again, expect=3)
    step("status", "status", f"{out}/results", "--json")
    return {**found, **files_in(work, out), "ledger": sha256(json.dumps(ledger(work / out / "results")).encode())}


def ledger(results: Path) -> list[Any]:
    """Give the columns of a fleet's log and its rows, sorted, without times, durations and the process."""
    parquet = importlib.import_module("pyarrow.parquet")
    tables = [parquet.read_table(path) for path in sorted((results / "ledger").glob("*.parquet"))]
    rows = [row for table in tables for row in table.drop_columns(["seconds", "time", "worker"]).to_pylist()]
    return [str(tables[0].schema), sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))]


ALL_PROTOCOLS = ("att-cr", "att-cr-sen12", "uncrtaints", "t-cloud", "cmnet-y", "aca-crnet", "half", "standard")
GAPS = f"{SERIES[1]},{SERIES[2]}"
EVALUATE: dict[str, tuple[str, ...]] = {
    "gap-fill": ("--data", "dates", "--root", "in/dates", "--protocol", "gap-fill", "--pair", GAPS),
    "rice2": ("--data", "rice2", "--root", "in/rice2", "--weights", "rice2-small"),
    "haze": (
        *("--data", "haze-20lmr", "--root", "in/haze", "--weights", "s2-thin"),
        *("--protocol", "two-dates-raw", "--protocol", "two-dates"),
    ),
    "pairs": (
        *("--data", "pairs", "--root", "in/pairs", "--slots", "swir16,nir08,red", "--weights", "rice2-small"),
        *("--predictions", "in/pairs/clear"),
        *(option for name in ALL_PROTOCOLS for option in ("--protocol", name)),
    ),
}
"""Options of `attcr evaluate`."""


def evaluate(work: Path, name: str) -> Hashes:
    """Evaluate by the command line."""
    out = fresh(work, f"evaluate-{name}")
    common = ("--out", out, "--dtype", "float32", "--progress", "none")
    return {**run(work, "-m", "attcr", "evaluate", *EVALUATE[name], *common), **files_in(work, out)}


TRAIN: dict[str, tuple[int, tuple[str, ...]]] = {
    "small-cpu": (50, ("--data.root=data", "--data.val_crop=64")),
    "rgb-thin": (50, ("--data.root=data",)),
    "finetune": (5, ("--data.root=in/tune", "--model.start_from=rgb-thin", "--data.crop=64")),
}
"""Recipes: steps, and what is changed so that they are quick."""


def train(work: Path, name: str) -> Hashes:
    """Train some steps of a recipe, in float32; give its weights, model card, panels and metrics."""
    steps, options = TRAIN[name]
    out = fresh(work, f"train-{name}")
    quick = ("--data.workers=0", "--data.cache=false", "--data.batch_size=2", "--data.val_count=2")
    trainer = {"precision": "32-true", "max_steps": steps, "val_check_interval": steps, "default_root_dir": out}
    trainer |= {"enable_progress_bar": "false", "accelerator": "cpu"}
    told = [f"--trainer.{key}={value}" for key, value in trainer.items()]
    run(work, "-m", "attcr", "train", "--config", name, *quick, *options, *told)
    return files_in(work, out)


WORDS: dict[str, tuple[str, ...]] = {
    "version": ("--version",),
    "help": ("--help",),
    **{f"help of {name}": (*name.split(), "--help") for name in ("restore", "evaluate", "serve", "fleet run")},
    "weights": ("weights",),
    "weights for": ("weights", "--for", "in/rgb.tif"),
}
"""Commands that only print."""


def words(work: Path) -> Hashes:
    """Print help, weights and costs."""
    found: Hashes = {}
    for name, command in WORDS.items():
        said = run(work, "-m", "attcr", *command)
        found |= {f"{name}/{key}": value for key, value in said.items()}
    return found


def cases(work: Path) -> Iterator[tuple[str, Case]]:
    """Give each case by its name."""
    yield "inputs", lambda: files_in(work, "in")
    for name in RESTORE:
        yield f"restore-{name}", lambda name=name: restore(work, name)  # type: ignore[misc]
    yield "library", lambda: library(work)
    yield "fleet", lambda: fleet(work)
    for name in EVALUATE:
        yield f"evaluate-{name}", lambda name=name: evaluate(work, name)  # type: ignore[misc]
    for name in TRAIN:
        yield f"train-{name}", lambda name=name: train(work, name)  # type: ignore[misc]
    yield "words", lambda: words(work)


def about(work: Path) -> dict[str, str]:
    """Give what must be equal in two runs for their hashes to mean the same."""
    libraries = ("torch", "numpy", "scipy", "rasterio", "pyarrow", "matplotlib", "lightning", "xarray", "onnxruntime")
    told = {name: version(name) for name in libraries}
    return {"folder": str(work), "python": platform.python_version(), "gdal": rasterio.__gdal_version__, **told}


def attempt(name: str, case: Case) -> tuple[str, Hashes]:
    """Run a case and say how long it took; one that fails stops no other."""
    began = time.monotonic()
    try:
        found = case()
    except RuntimeError as error:
        found = {"failed": str(error)}
        print(f"FAILED {name}: {error}", file=sys.stderr)
    print(f"{name}: {len(found)} files and values, {time.monotonic() - began:.1f} s", flush=True)
    return name, found


def hash_all(data: Path, out: Path, work: Path, only: Sequence[str], jobs: int) -> int:
    """Run the cases and write their hashes; give the exit code."""
    chosen = [(name, case) for name, case in cases(work) if not only or any(fnmatch.fnmatch(name, p) for p in only)]
    if not chosen:
        raise SystemExit(f"no case is named {' or '.join(only)}: see --list")
    work.parent.mkdir(parents=True, exist_ok=True)
    with Path(f"{work}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SystemExit(f"{work} is in use by another run: wait for it, or give another folder for both") from None
        if work.exists() and not (work / "in").is_dir() and any(work.iterdir()):
            raise SystemExit(f"{work} holds other files, and would be emptied: choose another folder")
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        make_inputs(data, work)
        with ThreadPoolExecutor(jobs) as pool:
            found = dict(pool.map(lambda pair: attempt(*pair), chosen))
        shutil.rmtree(work)
    attcr = importlib.import_module("attcr")
    told = {"attcr": attcr.__version__, "about": about(work), "cases": found}
    out.write_text(json.dumps(told, indent=1, sort_keys=True) + "\n")
    failed = sum("failed" in hashes for hashes in found.values())
    print(f"{out}: {len(found)} cases, {sum(map(len, found.values()))} files and values, {failed} failed")
    return 1 if failed else 0


def compare(one: Path, other: Path) -> int:
    """Print what differs between two files of hashes; give the exit code."""
    first, second = (json.loads(path.read_text()) for path in (one, other))
    for name in sorted(first["about"].keys() | second["about"].keys()):
        values = [told["about"].get(name) for told in (first, second)]
        if values[0] != values[1]:
            print(f"made with different {name}: {values[0]} and {values[1]}; files may differ for that alone")
    same_version = first["attcr"] == second["attcr"]
    if not same_version:
        print(f"attcr {first['attcr']} and {second['attcr']}: fingerprints are not compared")
    differing = total = 0
    for case in sorted(first["cases"].keys() | second["cases"].keys()):
        left, right = (told["cases"].get(case) for told in (first, second))
        if left is None or right is None:
            print(f"{case}: only in {one if right is None else other}")
            differing += 1
            continue
        for name in sorted(left.keys() | right.keys()):
            if name.endswith(VERSIONED) and not same_version:
                continue
            total += 1
            if left.get(name) != right.get(name) or name == "failed":
                missing = [str(path) for path, side in ((one, left), (other, right)) if name not in side]
                print(f"{case}: {name}" + (f" (not in {missing[0]})" if missing else ""))
                differing += 1
    print(f"{differing} differences in {total} files and values")
    return 1 if differing else 0


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, metavar="DIR", help="the folder of real data")
    parser.add_argument("--out", type=Path, metavar="FILE", help="the JSON file to write")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="cases to run, such as 'restore-*'")
    parser.add_argument("--list", action="store_true", help="print the names of the cases, and what is normalised")
    parser.add_argument("--compare", nargs=2, type=Path, metavar="FILE", help="two files of hashes")
    default = Path(tempfile.gettempdir()) / "attcr-outputs"
    parser.add_argument(
        "--work", type=Path, default=default, metavar="DIR", help="the working folder, which is emptied"
    )
    parser.add_argument("--jobs", type=int, default=1, metavar="NUMBER", help="cases to run at once")
    parser.add_argument("--through", default="", metavar="COMMAND", help="start every run through this command")
    parser.add_argument("--library", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.compare:
        return compare(*given.compare)
    if given.library:
        call_library(given.library)
        return 0
    if given.list:
        print("\n".join(name for name, _ in cases(given.work)), end="\n\n")
        for rule in NORMALISED:
            print(f"{rule.files}: {rule.why}{' (left out)' if rule.change is None else ''}")
        return 0
    if not (given.data and given.out):
        parser.error("give --data and --out, or --compare")
    THROUGH.extend(given.through.split())
    return hash_all(given.data, given.out.resolve(), given.work.resolve(), given.only, given.jobs)


if __name__ == "__main__":
    sys.exit(main())
