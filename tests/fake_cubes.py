"""A small archive that cubes are made of: four dates of one place, whose ground and cloud are known."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from attcr.cubes.icechunk import _storage
from attcr.cubes.odc_stac import Loaded
from attcr.cubes.options import CubeOptions
from attcr.cubes.place import Grid
from attcr.cubes.search import Acquisition, Found
from attcr.cubes.sources import Source
from fake_catalogs import COLLECTION, SIDE, add_date, box, counted, scl_with, stac_api

DAYS = ("2024-05-01", "2024-05-11", "2024-05-21", "2024-05-31")
CLOUDS: tuple[tuple[tuple[slice, slice], ...], ...] = (
    (),
    ((slice(0, 30), slice(0, 40)),),
    ((slice(10, 50), slice(10, 60)), (slice(60, 64), slice(0, 4))),
    ((slice(20, 24), slice(30, 40)),),
)
"""Cells of 20 m under cloud on each day."""
SOURCE = """
api = "{api}"
collection = "{collection}"
mask = ["SCL", "scl"]
by_baseline = true
[bands]
blue = "B02"
green = "B03"
red = "B04"
"""


@dataclass(frozen=True)
class Archive:
    """A STAC API, and the source that reads it."""

    folder: Path
    host: str
    items: list[dict[str, Any]]

    @contextmanager
    def source(self, count: int | None = None) -> Iterator[str]:
        """Serve the first so many items, and give the file that names the source."""
        with stac_api(self.items[:count], self.folder) as api:
            path = self.folder / "mine.toml"
            path.write_text(SOURCE.format(api=api, collection=COLLECTION))
            yield str(path)


@contextmanager
def archive(folder: Path, days: Sequence[str] = DAYS, clouds: Sequence[Any] = CLOUDS) -> Iterator[Archive]:
    """Make the files of some days, and serve them."""
    files = folder / "files"
    files.mkdir(parents=True)
    with counted(files, folder / "asked") as (host, _):
        tones = [(1.0 + 0.01 * i, 0.002 * i) for i in range(len(days))]
        items = [
            add_date(files, host, day, scl_with(*cloud), tone)
            for day, cloud, tone in zip(days, clouds, tones, strict=True)
        ]
        yield Archive(folder, host, items)


def place() -> str:
    """The place that all of it shows, in degrees, but for the outermost pixels."""
    west, south, east, north = box()
    return f"{west + 3e-4},{south + 3e-4},{east - 3e-4},{north - 3e-4}"


def cloudy(day: int) -> np.ndarray:
    """Where a day is under cloud, in pixels of 10 m."""
    under: np.ndarray = (scl_with(*CLOUDS[day]) == 9).repeat(2, 0).repeat(2, 1)
    assert under.shape == (SIDE, SIDE)
    return under


@dataclass
class Drawn:
    """An archive in memory: ground that is a function of place, band and day, under clouds that are one too."""

    days: tuple[str, ...] = DAYS
    tone: int = 10
    """What each day's numbers are higher than those of the day before."""
    loads: int = 0

    def search(self, *_: Any, **__: Any) -> list[Acquisition]:
        found = []
        for day in self.days:
            taken = datetime.fromisoformat(f"{day}T10:00:00+00:00")
            found.append(Acquisition((Found(f"S2_{day}", taken, {}, 0.0, "", (-180.0, -90.0, 180.0, 90.0), 0.3, ""),)))
        return found

    def numbers(self, day: int, grid: Grid, bands: int) -> np.ndarray:
        """The ground of a day, without cloud."""
        rows, cols = _places(grid)
        plane = 1000 + (rows * 7 + cols * 13) % 97 + self.tone * day
        made: np.ndarray = (plane + 200 * np.arange(bands)[:, None, None]).astype(np.uint16)
        return made

    def cloudy(self, day: int, grid: Grid) -> np.ndarray:
        """Where a day is under cloud: blocks of 24 pixels; the second day's and the third's are the same."""
        rows, cols = _places(grid)
        made: np.ndarray = (rows // 24 + 2 * (cols // 24) + (0, 1, 1, 2)[day % 4]) % 3 == 0
        return made

    def load(
        self, acquisition: Acquisition, source: Source, bands: Sequence[str], grid: Grid, *, offset: float | None = None
    ) -> Loaded:
        self.loads += 1
        day = self.days.index(f"{acquisition.taken:%Y-%m-%d}")
        cloud = self.cloudy(day, grid)
        numbers = np.where(cloud, 9000, self.numbers(day, grid, len(bands))).astype(np.uint16)
        return Loaded(numbers, np.where(cloud, 2, 0).astype(np.uint8))

    def install(self, setattr: Callable[[str, Any], None]) -> None:
        """Stand for the network, in this process."""
        setattr("attcr.cubes.plan.search", self.search)
        setattr("attcr.cubes.block.load", self.load)


def _places(grid: Grid) -> tuple[np.ndarray, np.ndarray]:
    rows, cols = np.indices((grid.height, grid.width))
    return rows - int(grid.transform.f // 10), cols + int(grid.transform.c // 10)


def options(**more: Any) -> CubeOptions:
    """Blocks of 64 pixels, for three bands of four days."""
    return CubeOptions(
        **{"first": DAYS[0], "last": DAYS[-1], "bands": "red,green,blue", "memory": 0.525, "dilate": 0, **more}
    )


HERE = "49.64,16.39,1590"
"""160 x 160 pixels, which are nine blocks."""


def contents(target: Path | str, branch: str = "main") -> dict[str, bytes]:
    """Every key of a cube's store, as readers see it; nothing where there is none."""
    from icechunk import Repository
    from zarr.core.buffer import default_buffer_prototype

    storage = _storage(str(target))
    if not Repository.exists(storage):
        return {}
    store = Repository.open(storage).readonly_session(branch).store

    async def read() -> dict[str, bytes]:
        made = {}
        async for key in store.list():
            value = await store.get(key, default_buffer_prototype())
            made[key] = value.to_bytes() if value is not None else b""
        return made

    return asyncio.run(read())
