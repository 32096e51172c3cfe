"""How to restore: one object of options. What is said of an option stands at its field; all else is made from it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from attcr.addresses import redact
from attcr.bands.sensors import SENSORS, Sensor
from attcr.errors import ConfigError
from attcr.predict import Backend
from attcr.scenes.clouds.rim import Rim
from attcr.scenes.tiles import grid
from attcr.scenes.vrt import VrtRule

Dtype = Literal["auto", "float32", "bfloat16", "float16"]
MASKS = ("scl", "qa_pixel", "csmask", "s2cloudless", "auto", "none")
"""What a mask may be beside a raster."""
NO_WEIGHTS = "none"
"""What stands for no network, where clouds are only filled from other dates."""
AUTO, AUTO_MOST = "auto", 3
"""What stands for references that are searched for, and how many are taken then."""
DEFAULTS = 4
"""Counts changes of the defaults below: the digest names only what differs from them."""
GROUPS = ("", "input", "clouds", "references", "network", "output")
"""The groups of options, in the order in which they are shown; what most people need stands before all groups."""


@dataclass(frozen=True)
class Option:
    """What is said of an option. The command line, fleets, the service, QGIS and the reference are made from it."""

    help: str
    group: str
    metavar: str = ""
    """What the command line writes in the place of a value."""
    shown: str = ""
    """The default in words, where the value does not say what happens."""
    least: int | None = None
    """The smallest value."""
    share: tuple[int, int] | None = None
    """The smallest and largest value that a service takes, because others use the machine's memory too."""
    served: bool = True
    """Whether those who use a service may set it; else its operator does."""
    decides: bool = True
    """Whether it decides the result; else it says where and how that is computed, or how references are found."""
    names: Literal["", "raster", "mask", "scenes"] = ""
    """The files that it names, if any: told without their secrets; for a service, uploads or addresses."""
    choices: tuple[str, ...] = ()
    """Values to choose from; those of a Literal are found by themselves."""
    spelt: tuple[str, ...] = ()
    """How the command line spells it, where not by its name."""
    switch: str = ""
    """The value that a flag without a value stands for."""
    switch_help: str = ""
    name: str = ""
    """With kind and default: taken from the field."""
    kind: Any = None
    default: Any = None

    @property
    def flags(self) -> tuple[str, ...]:
        """How the command line spells it."""
        return tuple(f"--{name.replace('_', '-')}" for name in self.spelt or (self.name,))

    def check(self, value: object) -> None:
        """Refuse a value that is none of the choices, or too small."""
        if get_origin(self.kind) is Literal and value not in self.choices:
            listed = f"{', '.join(self.choices[:-1])} or {self.choices[-1]}"
            raise ConfigError(f"`{self.name}` is {value!r}; expected {listed}.")
        if self.least is not None and isinstance(value, int | float) and value < self.least:
            raise ConfigError(f"`{self.name}` is {value} and must be at least {self.least}.")


@dataclass(frozen=True)
class RestoreOptions:
    """How to restore a scene. Scenes with equal options are treated alike."""

    # fmt: off
    tile: Annotated[int, Option(
        "Width and height of a tile; the weights were trained on about this size.",
        "network", "PIXELS", least=8, share=(16, 2048))] = 256
    overlap: Annotated[int, Option(
        "Pixels that neighbouring tiles share and are blended over.",
        "network", "PIXELS", least=0, share=(0, 1024))] = 32
    batch: Annotated[int, Option(
        "Tiles that go through the network at once.",
        "network", "TILES", least=1, share=(1, 32), decides=False)] = 1
    device: Annotated[str, Option(
        "Where networks run, as torch names it: cpu, cuda, cuda:1, mps.",
        "network", "DEVICE", served=False, decides=False)] = "cpu"
    dtype: Annotated[Dtype, Option(
        "Number type of the network: float32, bfloat16, float16, or auto: bfloat16 on CPUs that multiply in it.",
        "network", "TYPE")] = "auto"
    backend: Annotated[Backend, Option(
        "What runs the network: torch, onnxruntime or openvino; auto: chosen by the weights file.",
        "network", "NAME")] = "auto"
    sensor: Annotated[str | Sensor | None, Option(
        f"The product, if the metadata does not say it: {', '.join(SENSORS)}.",
        "input", "PRODUCT", choices=tuple(SENSORS))] = None
    bands: Annotated[tuple[str, ...] | str | None, Option(
        "Bands for the network, by name or number from 1, in the order it takes them, such as B04,B03,B02.",
        "input", "BANDS")] = None
    bbox: Annotated[tuple[float, ...] | str | None, Option(
        "Restore only the part of the scene in this box, in degrees. As little else is read as it needs.",
        "input", "W,S,E,N")] = None
    aoi: Annotated[str | None, Option(
        "A vector file (GeoJSON, GeoPackage): restore only the part of the scene in the box around its features.",
        "input", "FILE", served=False)] = None
    mask: Annotated[str | None, Option(
        "Where the clouds are: scl[=FILE], qa_pixel[=FILE], s2cloudless, csmask, auto, a raster (0 is clear), or "
        "none: restore every pixel.",
        "", "MASK", "the product's own mask or detectors, and the network, vote", names="mask", choices=MASKS)] = None
    ground: Annotated[Literal["scene", "network"], Option(
        "How thin cloud and shadow are removed: scene: by the scene's clear ground, and by the network "
        "where there is none; network: by the network everywhere.",
        "clouds", "HOW")] = "scene"
    unseen: Annotated[Literal["keep", "fill", "nodata"], Option(
        "What to do with cloud that the weights do not remove: keep it, fill it with the network (low confidence), "
        "or make it nodata.",
        "clouds", "HOW")] = "keep"
    dilate: Annotated[int, Option(
        "Pixels around a cloud that are restored too.",
        "clouds", "PIXELS", least=0, share=(0, 512))] = 8
    feather: Annotated[int, Option(
        "Pixels beyond these, over which the result fades into the original.",
        "clouds", "PIXELS", least=0, share=(0, 512))] = 8
    radar: Annotated[str | None, Option(
        "Radar of the same place (Sentinel-1 VV and VH, terrain-corrected, as decibels or power, on any grid): it "
        "says a part of what is under thick cloud.",
        "input", "FILE", names="raster")] = None
    nodata: Annotated[float | None, Option(
        "The value that means no data, if the file does not declare it.",
        "input", "VALUE")] = None
    references: Annotated[tuple[str, ...] | str, Option(
        "Other dates of the same place, in any form that a scene may have: they fill what is under cloud. auto "
        "(auto:5): find up to 3 (5) in the catalog of a STAC item that see the ground under its clouds.",
        "", "SCENE", names="scenes", spelt=("reference", "references"))] = ()
    reference_days: Annotated[int, Option(
        "How many days before and after a scene to search for references.",
        "references", "DAYS", least=1, served=False, decides=False)] = 60  # a service does not search
    reference_mask: Annotated[str | None, Option(
        "Where the clouds of the references are, as for `mask`; none: they are clear.",
        "references", "MASK", "chosen for each", names="mask", choices=MASKS)] = None
    reference_fill: Annotated[Literal["network", "classical"], Option(
        "How references fill: network: a network corrects the filled values where that helps on this scene; "
        "classical: without it.",
        "references", "HOW")] = "network"
    confidence: Annotated[bool, Option(
        "Write how much eight flips and turns of each tile differ (8 times the work).",
        "output")] = False
    vrt: Annotated[VrtRule, Option(
        "Which VRTs are accepted: beside: those of plain files in or below their own folder; any; never: none.",
        "input", served=False, decides=False, switch="any",
        switch_help="Accept VRTs that read files and addresses elsewhere.")] = "beside"
    # fmt: on

    def __post_init__(self) -> None:
        if self.bands is not None:
            listed = self.bands.split(",") if isinstance(self.bands, str) else self.bands
            object.__setattr__(self, "bands", tuple(str(name).strip() for name in listed))
            if not self.bands or not all(self.bands):
                raise ConfigError(f"`bands` is {self.bands}; expected names or numbers, such as B04,B03,B02.")
        if self.bbox is not None:
            object.__setattr__(self, "bbox", _box(self.bbox))
            if self.aoi is not None:
                raise ConfigError("Both `bbox` and `aoi` say which part of the scene to restore: give one of them.")
        if isinstance(self.references, str):
            object.__setattr__(self, "references", (self.references,))
        told = [one for one in self.references if one == AUTO or one.startswith(f"{AUTO}:")]
        if told and (self.references != (told[0],) or not re.fullmatch(rf"{AUTO}(:[1-9]\d?)?", told[0])):
            shown = " ".join(redact(one) for one in self.references)
            raise ConfigError(f"`references` is {shown}; expected auto or auto:NUMBER (1 to 99) alone, or scenes.")
        if isinstance(self.sensor, str):
            object.__setattr__(self, "sensor", self.sensor.lower())
        if isinstance(self.sensor, str) and self.sensor not in SENSORS:
            raise ConfigError(f"There is no sensor {self.sensor!r}; `sensor` is one of {', '.join(SENSORS)}.")
        for name, option in restore_options().items():
            option.check(getattr(self, name))
        grid(1, 1, tile=self.tile, overlap=self.overlap)

    @property
    def searched(self) -> int:
        """The largest number of references to search for; 0 if they are named, or not wanted."""
        first, _, number = next(iter(self.references), "").partition(":")
        return int(number or AUTO_MOST) if first == AUTO else 0

    def describe(self) -> dict[str, Any]:
        """Give the options that decide the result, as plain values: how references were found does not."""
        told = asdict(self) | {"aoi": redact(self.aoi) if self.aoi else None}
        for name, option in restore_options().items():
            if not option.decides:
                del told[name]
            elif option.names == "scenes":
                told[name] = tuple(redact(href) for href in told[name])
            elif option.names:
                told[name] = redact(told[name]) if told[name] else None
        return told

    def digest(self) -> str:
        """Give a sha256 of the options that decide the result and are not at their default.

        So a new option does not change the digest of those who do not use it. float32, the default of earlier
        versions, counts as the default of `dtype`.
        """
        default = {**{field.name: field.default for field in fields(self)}, "dtype": "float32"}
        told = {key: value for key, value in self.describe().items() if value != default[key]}
        return hashlib.sha256(json.dumps({"defaults": DEFAULTS, **told}, sort_keys=True).encode()).hexdigest()

    def on_any_machine(self) -> RestoreOptions:
        """Give options by which all machines compute the same: float32 where the type is left to each."""
        return replace(self, dtype="float32") if self.dtype == "auto" else self

    @property
    def rim(self) -> Rim:
        """Pixels around a cloud that are restored too."""
        return Rim(self.dilate, self.feather)

    def named_sensor(self) -> Sensor | None:
        """Give the sensor that the options name, or hold."""
        return SENSORS[self.sensor] if isinstance(self.sensor, str) else self.sensor


def _box(given: tuple[float, ...] | str) -> tuple[float, ...]:
    """Give a box in degrees as numbers; one over the date line goes on beyond 180."""
    try:
        box = tuple(float(edge) for edge in (given.split(",") if isinstance(given, str) else given))
        west, south, east, north = box
    except (TypeError, ValueError):
        raise ConfigError(
            f"`bbox` is {given!r}; expected west,south,east,north, such as 13.1,52.3,13.2,52.4."
        ) from None
    if not (-180 <= west <= 180 and -180 <= east <= 360 and west != east and -90 <= south < north <= 90):
        raise ConfigError(
            f"`bbox` is {','.join(f'{edge:g}' for edge in box)}; expected west,south,east,north in degrees, with south "
            "below north, such as 13.1,52.3,13.2,52.4."
        )
    return west, south, east + 360 * (east < west), north


@cache
def restore_options() -> Mapping[str, Option]:
    """Give every option of RestoreOptions by its name."""
    return options_of(RestoreOptions)


def options_of(owner: type) -> Mapping[str, Option]:
    """Give every option that is said at a field of a dataclass, by its name."""
    kinds = get_type_hints(owner, include_extras=True)
    told = {}
    for field in fields(owner):
        if get_origin(kinds[field.name]) is not Annotated:
            continue
        kind, option = get_args(kinds[field.name])
        choices = get_args(kind) if get_origin(kind) is Literal else option.choices
        told[field.name] = replace(option, name=field.name, kind=kind, default=field.default, choices=choices)
    return told
