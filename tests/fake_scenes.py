"""Small scenes and cheap networks for tests."""

import functools
import http.server
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
import torch
from affine import Affine
from torch import Tensor, nn

from attcr.bands.sensors import PICTURE_RANGE, Sensor
from attcr.bands.spec import TRUE_COLOUR, InputSpec, band_slots

UTM = {"crs": "EPSG:32633", "transform": Affine(10, 0, 600000, 0, -10, 5500020)}
SENSORS = {
    "uint8": Sensor("any uint8", (), 1 / 255, 0.0, wanted=PICTURE_RANGE),
    "uint16": Sensor("any uint16", (), 1e-4, 0.0, wanted=PICTURE_RANGE),  # clips above 10000
    "int16": Sensor("any int16", (), 1e-4, 0.0, wanted=PICTURE_RANGE),  # clips below 0 and above 10000
    "float32": Sensor("any float32", (), 1.0, 0.0, wanted=PICTURE_RANGE),  # clips outside 0..1
}


def by_position(bands: int) -> InputSpec:
    """A network of so many bands without names that removes any cloud: the scene's bands go in as they stand."""
    names = tuple(f"band {number}" for number in range(1, bands + 1))
    slots = band_slots(names, high=TRUE_COLOUR.slots[0].high)
    return replace(TRUE_COLOUR, slots=slots, outputs=names, removes=("thin", "thick"))


def noise(dtype: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Every value of the type can occur, infinities and NaN aside."""
    rng = np.random.default_rng(seed)
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return (rng.normal(size=shape) * 10.0 ** rng.integers(-6, 6, shape)).astype(kind)
    info = np.iinfo(kind)
    return rng.integers(info.min, info.max, shape, endpoint=True).astype(kind)


def make(path: Path, values: np.ndarray, after: Callable[[Any], None] | None = None, **profile: Any) -> Path:
    """Write a GeoTIFF (or what `driver` says); `after` sees it open for writing."""
    count, height, width = values.shape
    options = {"driver": "GTiff", "count": count, "height": height, "width": width, "dtype": values.dtype}
    with (
        rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True),
        rasterio.open(path, "w", **{**options, **profile}) as file,
    ):
        file.write(values)
        if after:
            after(file)
    return path


def read(path: Path | str) -> np.ndarray:
    """All of a raster's values."""
    with rasterio.open(path) as file:
        return file.read()


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal to the bit, NaN and the sign of zero included."""
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


class Same(nn.Module):
    """A network that returns its input."""

    def __init__(self, bands: int = 3, spec: InputSpec | None = None) -> None:
        super().__init__()
        self.spec = spec or by_position(bands)
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        """Change nothing."""
        return x


class Counting(nn.Module):
    """A network that darkens its input and counts the tiles it saw."""

    def __init__(self, factor: float = 0.5, bands: int = 3, spec: InputSpec | None = None) -> None:
        super().__init__()
        self.spec = spec or by_position(bands)
        self.eval()
        self.factor = factor
        self.tiles = 0

    def forward(self, x: Tensor) -> Tensor:
        """Multiply."""
        self.tiles += x.shape[0]
        return x * self.factor


class Smooth(nn.Module):
    """Random but smooth weights that see each tile's own edges and mean, as a real network does."""

    def __init__(self, channels: int = 3, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.mix = nn.Conv2d(channels, 16, 5, padding=2)
        self.out = nn.Conv2d(16, channels, 5, padding=2)
        self.spec = by_position(channels)
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        """Add a small change that depends on the neighbourhood and on the whole tile."""
        hidden = torch.tanh(self.mix(x - x.mean(dim=(2, 3), keepdim=True)))
        return x + 0.2 * self.out(hidden) + 0.05 * x.mean(dim=(2, 3), keepdim=True)


def smooth_picture(bands: int, height: int, width: int) -> np.ndarray:
    """A picture without edges, 0..1, of slanted waves: the mean step is the same in every row and column."""
    y, x = np.mgrid[0:height, 0:width]
    waves: Sequence[np.ndarray] = [
        0.5 + 0.4 * np.sin(2 * np.pi * ((5 + b) * x / width + (4 + b) * y / height)) for b in range(bands)
    ]
    return np.stack(waves).astype(np.float32)


def peak_bytes() -> int:
    """The most memory this process has had (Linux). `ru_maxrss` would start from what its parent had at the fork."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024


class RangeHandler(http.server.SimpleHTTPRequestHandler):
    """Serves parts of files, as object stores do."""

    def send_head(self):  # type: ignore[no-untyped-def]
        asked = self.headers.get("Range")
        path = Path(self.translate_path(self.path))
        if not asked or not path.is_file():
            return super().send_head()
        first, _, last = asked.removeprefix("bytes=").partition("-")
        size = path.stat().st_size
        begin, end = int(first), min(int(last or size - 1), size - 1)
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {begin}-{end}/{size}")
        self.send_header("Content-Length", str(end - begin + 1))
        self.end_headers()
        file = path.open("rb")
        file.seek(begin)
        self.wfile.write(file.read(end - begin + 1))
        file.close()
        return None

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    """Serve a folder's files on this machine and give the address."""
    handler = functools.partial(RangeHandler, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
