"""How to restore: one object of options, with a digest of those that decide the result."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, get_args

from attcr.addresses import redact
from attcr.bands.sensors import SENSORS, Sensor
from attcr.errors import ConfigError
from attcr.predict import Backend
from attcr.scenes.clouds.rim import Rim
from attcr.scenes.tiles import grid
from attcr.scenes.vrt import VrtRule

Dtype = Literal["auto", "float32", "bfloat16", "float16"]
AUTO, AUTO_MOST = "auto", 3
"""What stands for references that are searched for, and how many are taken then."""
DEFAULTS = 3
"""Counts changes of the defaults below: the digest names only what differs from them."""

_ASIDE = ("device", "batch", "vrt", "reference_days")
"""Options that do not decide the result: where and how it is computed and read, and how references were found."""


@dataclass(frozen=True)
class RestoreOptions:
    """How to restore a scene. Scenes with equal options are treated alike."""

    tile: int = 256
    """Width and height of a tile; the weights were trained on about this size."""
    overlap: int = 32
    """Pixels that neighbouring tiles share and are blended over."""
    batch: int = 1
    """Tiles that go through the network at once."""
    device: str = "cpu"
    """Where the network runs, as torch names it."""
    dtype: Dtype = "auto"
    """Number type of the network; auto is bfloat16 on CPUs that multiply in it and float32 elsewhere."""
    backend: Backend = "auto"
    """What runs the network: torch, onnxruntime or openvino; auto: chosen by the weights file."""
    sensor: str | Sensor | None = None
    """The product, if the scene's metadata does not say it."""
    bands: tuple[str, ...] | str | None = None
    """Bands to give the network, by name or number from 1, in the order it takes them; also as "B04,B03,B02"."""
    mask: str | None = None
    """Where the clouds are: none, auto, csmask, s2cloudless, scl[=FILE], qa_pixel[=FILE], a raster; None chooses."""
    unseen: Literal["keep", "fill", "nodata"] = "keep"
    """What to do with cloud that the weights do not remove: keep it, let the network paint it, or make it no data."""
    dilate: int = 8
    """Pixels around a cloud that are restored too."""
    feather: int = 8
    """Pixels beyond those, over which the result fades into the original."""
    sar: str | None = None
    """Radar raster (VV, VH in dB) for weights that take it."""
    nodata: float | None = None
    """The value that means no data, if the file does not declare it."""
    references: tuple[str, ...] | str = ()
    """Other dates of the same place, in any form that a scene may have: they fill what is under cloud. auto finds up to
    three in the catalog of a STAC item, auto:5 up to five."""
    reference_days: int = 60
    """How many days before and after the scene to search for references."""
    reference_mask: str | None = None
    """Where the clouds of references are, as for `mask`; None chooses for each, none: all of them are clear."""
    reference_fill: Literal["network", "classical"] = "network"
    """How references are brought to the scene's tones: a network corrects what classical methods give, where that is
    better on hidden ground of the scene itself, or they are left at that."""
    confidence: bool = False
    """Run all eight flips and turns of each tile and write how much they differ."""

    vrt: VrtRule = "beside"
    """Which VRTs are accepted: "beside" those of plain files in or below their own folder, "any", or "never" one."""

    def __post_init__(self) -> None:
        if self.bands is not None:
            listed = self.bands.split(",") if isinstance(self.bands, str) else self.bands
            object.__setattr__(self, "bands", tuple(str(name).strip() for name in listed))
            if not self.bands or not all(self.bands):
                raise ConfigError(f"bands is {self.bands}; expected names or numbers, such as B04,B03,B02.")
        if isinstance(self.references, str):
            object.__setattr__(self, "references", (self.references,))
        self._check_references()
        if isinstance(self.sensor, str):
            object.__setattr__(self, "sensor", self.sensor.lower())
        if self.batch < 1:
            raise ConfigError(f"batch is {self.batch} and must be at least 1.")
        if self.dilate < 0 or self.feather < 0:
            raise ConfigError(f"dilate ({self.dilate}) and feather ({self.feather}) must not be negative.")
        if self.dtype not in get_args(Dtype):
            raise ConfigError(f"dtype is {self.dtype!r}; expected auto, float32, bfloat16 or float16.")
        if self.unseen not in ("keep", "fill", "nodata"):
            raise ConfigError(f"unseen is {self.unseen!r}; expected keep, fill or nodata.")
        if self.backend not in get_args(Backend):
            raise ConfigError(f"backend is {self.backend!r}; expected {', '.join(get_args(Backend))}.")
        if self.vrt not in ("beside", "any", "never"):
            raise ConfigError(f"vrt is {self.vrt!r}; expected beside, any or never.")
        if isinstance(self.sensor, str) and self.sensor not in SENSORS:
            raise ConfigError(f"There is no sensor {self.sensor!r}; `sensor` is one of {', '.join(SENSORS)}.")
        grid(1, 1, tile=self.tile, overlap=self.overlap)

    def _check_references(self) -> None:
        told = [one for one in self.references if one == AUTO or one.startswith(f"{AUTO}:")]
        if told and (self.references != (told[0],) or not re.fullmatch(rf"{AUTO}(:[1-9]\d?)?", told[0])):
            shown = " ".join(redact(one) for one in self.references)
            raise ConfigError(f"references is {shown}; expected auto or auto:NUMBER (1 to 99) alone, or scenes.")
        if self.reference_fill not in ("network", "classical"):
            raise ConfigError(f"reference_fill is {self.reference_fill!r}; expected network or classical.")
        if self.reference_days < 1:
            raise ConfigError(f"reference_days is {self.reference_days} and must be at least 1.")

    @property
    def searched(self) -> int:
        """The largest number of references to search for; 0 if they are named, or not wanted."""
        first, _, number = next(iter(self.references), "").partition(":")
        return int(number or AUTO_MOST) if first == AUTO else 0

    def describe(self) -> dict[str, Any]:
        """Give the options that decide the result, as plain values: how references were found does not."""
        told = asdict(self)
        told["sar"] = redact(self.sar) if self.sar else None
        told["mask"] = redact(self.mask) if self.mask else None
        told["references"] = tuple(redact(href) for href in self.references)
        told["reference_mask"] = redact(self.reference_mask) if self.reference_mask else None
        return {key: value for key, value in told.items() if key not in _ASIDE}

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
