"""Two hundred files that are not scenes, each broken in its own way."""

import json
import os
import struct
import zlib
from pathlib import Path

import numpy as np
import rasterio

from fake_scenes import make, noise

SUFFIXES = (".tif", ".jp2", ".png", ".jpg", ".webp", ".bmp", ".img", ".vrt", ".json")
DRIVERS = {".tif": "GTiff", ".png": "PNG", ".jpg": "JPEG", ".jp2": "JP2OpenJPEG", ".webp": "WEBP", ".bmp": "BMP"}
MOST = 2**31 - 1


def make_malformed(folder: Path) -> dict[str, Path]:
    """Write them all and give each its name."""
    cases: dict[str, Path] = {}

    def put(name: str, content: bytes | str) -> None:
        path = folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        cases[name] = path

    _damaged_rasters(folder, put)
    _other_files(put)
    _absurd_sizes(folder, put, cases)
    _wrong_content(folder, put, cases)
    _odd_paths(folder, cases)
    return cases


def _damaged_rasters(folder: Path, put) -> None:  # type: ignore[no-untyped-def]
    for suffix, driver in DRIVERS.items():
        tiled = {"compress": "deflate", "tiled": True, "blockxsize": 32, "blockysize": 32} if suffix == ".tif" else {}
        exact = {"lossless": "YES"} if suffix == ".webp" else {}
        path = make(folder / f"good{suffix}", noise("uint8", (3, 96, 96)), driver=driver, **tiled, **exact)
        whole = path.read_bytes()
        for percent in (1, 3, 5, 10, 20, 40, 60, 70, 80, 90, 95):
            put(f"truncated_{percent}{suffix}", whole[: len(whole) * percent // 100])
        put(f"wrong_magic{suffix}", bytes(16) + whole[16:])
        put(f"header_only{suffix}", whole[:16])
        put(f"reversed{suffix}", whole[::-1])


def _other_files(put) -> None:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(0)
    for suffix in SUFFIXES:
        put(f"empty{suffix}", b"")
        put(f"one_byte{suffix}", b"I")
        put(f"text{suffix}", "this is not a raster, it is a letter to the reader\n")
        put(f"noise{suffix}", rng.bytes(5000))
    for suffix in (".tif", ".vrt", ".json", ".png"):
        put(f"html{suffix}", "<!DOCTYPE html><html><body>404 Not Found</body></html>")
        put(f"json{suffix}", json.dumps({"type": "FeatureCollection", "features": []}))
        put(f"service{suffix}", "<GDAL_WMS><Service><ServerUrl>http://127.0.0.1:9</ServerUrl></Service></GDAL_WMS>")
        put(f"grid{suffix}", "ncols 2\nnrows 2\nxllcorner 0\nyllcorner 0\ncellsize 1\n1 2\n3 4\n")
    put("pickle.tif", b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00\x8c\x02os\x94\x8c\x06system\x94\x93\x94.")
    put("program.tif", b"\x7fELF\x02\x01\x01" + bytes(200))
    put("line\nbreak.tif", b"")
    item = {"type": "Feature", "stac_version": "1.0.0", "id": "x", "geometry": None, "links": [], "assets": {}}
    put("item.json", json.dumps({**item, "properties": {"datetime": "2020-01-01T00:00:00Z"}}))
    put("item_half.json", '{"type": "Feature", "stac_version": "1.0.0", "id": ')


def _absurd_sizes(folder: Path, put, cases: dict[str, Path]) -> None:  # type: ignore[no-untyped-def]
    plain = make(folder / "plain.tif", noise("uint8", (3, 32, 32))).read_bytes()
    tags = {"width": 256, "height": 257, "bits": 258, "compression": 259, "samples": 277, "offset": 273}
    tags |= {"rows": 278, "format": 339}
    for name, number in [
        ("width", 0), ("width", MOST), ("width", 2**32 - 1), ("height", 0), ("height", MOST), ("height", 2**32 - 1),
        ("bits", 0), ("bits", 9999), ("compression", 12345), ("samples", 0), ("samples", 65535),
        ("offset", 2**31), ("rows", 0), ("format", 77),
    ]:  # fmt: skip
        put(f"tag_{name}_{number}.tif", _with_tag(plain, tags[name], number))
    put("directory_far.tif", plain[:4] + struct.pack("<I", 2**31) + plain[8:])
    put("directory_loop.tif", plain[:4] + struct.pack("<I", 4) + plain[8:])
    for name, width, height in [("zero", 0, 0), ("max", MOST, MOST), ("wide", MOST, 1), ("tall", 1, MOST)]:
        put(f"dimensions_{name}.png", _png(width, height, b""))
    put("bomb.png", _png(30000, 30000, _zeros(30000 * (30000 * 3 + 1))))
    put("bomb_wide.png", _png(2**20, 2000, _zeros(2000 * (2**20 * 3 + 1))))
    sparse = {"driver": "GTiff", "sparse_ok": True, "bigtiff": "YES"}
    for name, size, options in [
        ("bomb", 60000, {"compress": "zstd", "tiled": True, "count": 3, "dtype": "uint8"}),
        ("bomb_large", 130000, {"compress": "deflate", "tiled": True, "count": 3, "dtype": "uint8"}),
        ("whole_block", 40000, {"blockysize": 40000, "count": 1, "dtype": "float64"}),
        ("one_strip", 100000, {"blockysize": 100000, "count": 1, "dtype": "float64"}),
    ]:
        with rasterio.open(folder / f"{name}.tif", "w", height=size, width=size, **sparse, **options):
            cases[f"{name}.tif"] = folder / f"{name}.tif"
    sizes = {"huge": (MOST, MOST), "wide": (MOST, 4), "zero": (0, 0), "negative": (-5, 7), "large": (10**6, 10**4)}
    for name, (width, height) in sizes.items():
        put(f"dimensions_{name}.vrt", _vrt("good.tif", width=width, height=height))


def _wrong_content(folder: Path, put, cases: dict[str, Path]) -> None:  # type: ignore[no-untyped-def]
    put("no_bands.vrt", _vrt("good.tif", kinds=()))
    put("missing_source.vrt", _vrt("nowhere.tif"))
    put("itself.vrt", _vrt("itself.vrt"))
    put("broken.vrt", _vrt("good.tif")[:90])
    put("over_truncated.vrt", _vrt("truncated_40.tif"))
    put("mixed.vrt", _vrt("good.tif", kinds=("Byte", "Float32", "UInt16")))
    arrays = {
        "thousand_bands": noise("uint8", (1000, 8, 8)),
        "one_band": noise("uint8", (1, 8, 8)),
        "two_bands": noise("uint8", (2, 8, 8)),
        "seven_bands": noise("uint16", (7, 8, 8)),
        "complex": np.zeros((3, 9, 9), np.complex64),
        "complex_double": np.zeros((3, 9, 9), np.complex128),
        "digital_floats": np.full((3, 9, 9), 5000, np.float32),
        "unknown_product": noise("uint16", (3, 9, 9)),
        "unknown_signed": noise("int32", (3, 9, 9)),
    }
    for name, values in arrays.items():
        cases[f"{name}.tif"] = make(folder / f"{name}.tif", values)
    for name in ("empty_folder", "folder_without_bands", "folder_of_broken_bands", "folder_of_two_grids", "only_mask"):
        (folder / name).mkdir()
        cases[name] = folder / name
    (folder / "folder_without_bands" / "readme.txt").write_text("nothing here")
    for band, size in (("B02", 64), ("B03", 50), ("B04", 64)):
        (folder / "folder_of_broken_bands" / f"T33UXQ_{band}.jp2").write_bytes(b"broken")
        make(folder / "folder_of_two_grids" / f"T33UXQ_{band}.tif", noise("uint16", (1, size, size)))
    make(folder / "only_mask" / "T33UXQ_SCL.tif", noise("uint8", (1, 9, 9)))


def _odd_paths(folder: Path, cases: dict[str, Path]) -> None:
    for name in ("nowhere.tif", "nowhere/deep/x.tif", "nowhere.json", "nowhere.vrt"):
        cases[name] = folder / "absent" / name
    links = {"dangling.tif": "absent.tif", "dangling.json": "absent.json", "loop.tif": "loop.tif"}
    for name, to in {**links, "null.tif": "/dev/null", "endless.tif": "/dev/zero"}.items():
        (folder / name).symlink_to(to)
        cases[name] = folder / name
    os.mkfifo(folder / "fifo.tif")
    cases["fifo.tif"] = folder / "fifo.tif"


def _vrt(source: str, kinds: tuple[str, ...] = ("Byte", "Byte", "Byte"), width: int = 96, height: int = 96) -> str:
    bands = "".join(
        f'<VRTRasterBand dataType="{kind}" band="{i}"><SimpleSource><SourceFilename relativeToVRT="1">{source}'
        f"</SourceFilename><SourceBand>{i}</SourceBand></SimpleSource></VRTRasterBand>"
        for i, kind in enumerate(kinds, 1)
    )
    return f'<VRTDataset rasterXSize="{width}" rasterYSize="{height}">{bands}</VRTDataset>'


def _with_tag(tiff: bytes, tag: int, number: int) -> bytes:
    """Give a little-endian TIFF with one tag's value replaced, as one LONG."""
    out = bytearray(tiff)
    (at,) = struct.unpack_from("<I", out, 4)
    (count,) = struct.unpack_from("<H", out, at)
    for entry in range(count):
        place = at + 2 + 12 * entry
        if struct.unpack_from("<H", out, place)[0] == tag:
            struct.pack_into("<HII", out, place + 2, 4, 1, number)
            return bytes(out)
    raise AssertionError(f"the file has no tag {tag}")


def _png(width: int, height: int, data: bytes) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def _zeros(count: int) -> bytes:
    """So many zeros as a zlib stream: one deflated block of 1 MiB, over and over."""
    block = zlib.compressobj(9, zlib.DEFLATED, -15)
    million = block.compress(bytes(1 << 20)) + block.flush(zlib.Z_FULL_FLUSH)
    rest = zlib.compressobj(9, zlib.DEFLATED, -15)
    last = rest.compress(bytes(count % (1 << 20))) + rest.flush(zlib.Z_FINISH)
    checksum = struct.pack(">I", ((count % 65521) << 16) | 1)
    return b"\x78\x9c" + million * (count >> 20) + last + checksum
