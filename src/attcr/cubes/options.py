"""How to make a cube: one object of options, each said at its field."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Annotated, Any

from attcr.cubes.fill import MARGIN
from attcr.cubes.place import RESOLUTION
from attcr.cubes.search import period
from attcr.cubes.sources import SOURCES
from attcr.errors import ConfigError
from attcr.restore.options import Option, options_of

DEFAULT_SOURCE = "earth-search"


@dataclass(frozen=True)
class CubeOptions:
    """How to make a cube. Those with equal options, place and found acquisitions are alike."""

    # fmt: off
    first: Annotated[str, Option(
        "The first day, such as 2024-05-01.",
        "", "DAY", spelt=("from",))]
    last: Annotated[str | None, Option(
        "The last day, such as 2024-09-30.",
        "", "DAY", "today", spelt=("to",), decides=False)] = None
    source: Annotated[str, Option(
        f"Where acquisitions come from: {', '.join(SOURCES)}, https://API#collection, or a TOML file.",
        "", "SOURCE", choices=tuple(SOURCES), decides=False)] = DEFAULT_SOURCE
    bands: Annotated[tuple[str, ...] | str | None, Option(
        "Bands by their common names, such as red,green,blue,nir.",
        "", "BANDS", "all of the source")] = None
    every: Annotated[str | None, Option(
        "A regular axis, such as 10d: of each step the nearest acquisition; the others still fill its gaps.",
        "", "DAYS", "every acquisition")] = None
    resolution: Annotated[float, Option(
        "Size of a pixel in metres, or in the units of `crs`.",
        "", "METRES")] = RESOLUTION
    crs: Annotated[str | None, Option(
        "The projection, such as EPSG:3035.",
        "", "CRS", "UTM of the place")] = None
    most_cloud: Annotated[float, Option(
        "Leave out acquisitions with more cloud than this, in percent, by what the catalog says.",
        "", "PERCENT")] = 95.0
    dilate: Annotated[int, Option(
        "Pixels around cloud and shadow that count as cloud too: masks end where haze goes on.",
        "", "PIXELS", least=0)] = 8
    memory: Annotated[float, Option(
        "Memory to use at most, in GB. It decides the size of the blocks that a cube is made and stored in.",
        "", "GB", decides=False)] = 4.0
    # fmt: on

    def __post_init__(self) -> None:
        if self.bands is not None:
            listed = self.bands.split(",") if isinstance(self.bands, str) else self.bands
            object.__setattr__(self, "bands", tuple(str(name).strip() for name in listed))
        if not 0 < self.most_cloud <= 100:
            raise ConfigError(f"`most_cloud` is {self.most_cloud:g}; expected percent, above 0 and up to 100.")
        if not 0 <= self.dilate <= MARGIN // 2:
            raise ConfigError(f"`dilate` is {self.dilate}; expected 0 to {MARGIN // 2} pixels.")
        if self.every is not None and self.step is None:
            raise ConfigError(f"`every` is {self.every!r}; expected days, such as 10d.")
        _ = self.period

    @property
    def period(self) -> tuple[datetime, datetime]:
        """The first and the last moment."""
        return period(self.first, self.last or f"{datetime.now(timezone.utc):%Y-%m-%d}")

    @property
    def step(self) -> timedelta | None:
        """The step of a regular axis; None where every acquisition is a date."""
        told = re.fullmatch(r"([1-9]\d{0,2})d?", self.every or "")
        return timedelta(days=int(told[1])) if told else None

    def describe(self) -> dict[str, Any]:
        """Give the options that decide what a cube is, whatever its last day."""
        return {name: getattr(self, name) for name, option in options_of(type(self)).items() if option.decides}
