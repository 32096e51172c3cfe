"""What a network takes and gives: input slots by name and wavelength, their range, and which cloud it removes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from attcr.bands.products import COMMON_WAVELENGTHS, band_names, find_band, wavelength_of
from attcr.bands.sensors import PICTURE, RGB, RGB8, S2_COMMON, SEN12MSCR_SAR_RANGE, SENSORS, ModelRange, Sensor
from attcr.errors import ConfigError, SceneError

CLOUDS = ("thin", "thick", "shadow")
"""What a network may remove."""
PRODUCTS = tuple(name for name in SENSORS if not name.endswith("-n0400"))
"""The products by the names that a spec uses."""
VISIBLE_RANGE, BEYOND_RANGE = 25.0, 60.0
"""Nanometres by which a band may lie beside its slot, below and above 1000 nm."""


@dataclass(frozen=True)
class Slot:
    """One plane of a network's input."""

    name: str
    """A band's common name (`red`), or with its kind before a colon: `sar:vv`, `reference:red`, `mask:cloud`.

    `present:red` is 1 where there is a band `red` and else 0; `level:surface` is 1 for reflectance at the surface and 0
    for that at the top of the atmosphere.
    """
    wavelength: float | None = None
    """Centre of the band in nanometres."""
    low: float = 0.0
    """Reflectance (or dB) at the network's 0."""
    high: float = 1.0
    """Reflectance (or dB) at the network's `span`; a picture's white is there too."""
    span: float = 1.0
    """The network's value at `high`."""
    optional: bool = False
    """Whether it may be missing at run time; it is then fed as 0."""

    @property
    def kind(self) -> str:
        """What stands before the colon; `band` for a band of the scene itself."""
        return self.name.partition(":")[0] if ":" in self.name else "band"


@dataclass(frozen=True)
class InputSpec:
    """What a network takes and gives. It is stored in the weights file; nothing is guessed from a channel count."""

    slots: tuple[Slot, ...]
    """The planes of the input, in order."""
    outputs: tuple[str, ...]
    """The bands of the output, in order, by the names of their slots."""
    products: tuple[str, ...]
    """The products that it takes."""
    gsd: tuple[float, float]
    """The finest and the coarsest ground sampling distance that it was trained on, in metres."""
    removes: tuple[str, ...]
    """The cloud that it removes: thin, thick, shadow."""
    spread: bool = False
    """Whether a predicted spread follows the bands: for each the logarithm of the expected absolute error."""
    spread_factor: float = 1.0
    """Factor that calibrates the predicted spread on held-out images."""
    spread_floor: float = 0.0
    """Error in reflectance that the network cannot foresee; it is added to the spread as an independent error."""
    only_light: bool = False
    """Whether it only removes light: no neighbourhood becomes brighter in every band, and an even one stays."""
    corrects_references: bool = False
    """Whether it corrects other dates of a place inside gaps (`attcr.dates`) and restores no scene by itself."""

    def __post_init__(self) -> None:
        names = [slot.name for slot in self.slots]
        if len(set(names)) < len(names) or not names:
            raise ConfigError(f"the slots {names} must be at least one, and each named once")
        bands = [slot.name for slot in self.bands]
        if not self.outputs or not set(self.outputs) <= set(bands) or len(set(self.outputs)) < len(self.outputs):
            raise ConfigError(f"the outputs {self.outputs} must be bands among the slots {bands}, each named once")
        if not set(self.products) <= set(PRODUCTS):
            raise ConfigError(f"the products {self.products} must be among {', '.join(PRODUCTS)}")
        if not self.removes or not set(self.removes) <= set(CLOUDS):
            raise ConfigError(f"removes={self.removes} must name some of {', '.join(CLOUDS)}")
        if len(self.gsd) != 2 or not 0 < self.gsd[0] <= self.gsd[1]:
            raise ConfigError(f"gsd={self.gsd} must be the finest and the coarsest distance in metres")
        absent = {slot.name.partition(":")[2] for slot in self.of_kind("present")} - set(bands)
        if absent or {slot.name for slot in self.of_kind("level")} - {"level:surface"}:
            raise ConfigError(f"present:NAME must name a band ({absent} is none), and a level is level:surface")
        for kind in {slot.kind for slot in self.slots}:
            if len({slot.span for slot in self.of_kind(kind)}) > 1:
                raise ConfigError(f"the {kind} slots have several spans; one is expected")
        if any(slot.high <= slot.low or slot.span <= 0 for slot in self.slots):
            raise ConfigError("each slot needs low < high and a span above 0")

    def of_kind(self, kind: str) -> tuple[Slot, ...]:
        """Give the slots of one kind, in order."""
        return tuple(slot for slot in self.slots if slot.kind == kind)

    @classmethod
    def of_bands(cls, product: Sensor, names: Sequence[str], asked: Sequence[str] | None = None) -> InputSpec:
        """Say what is taken where there is no network: a scene's bands, all or those asked for, as they are."""
        told, common = band_names(product, names), dict(zip(product.bands, product.common, strict=False))
        if asked:
            found = [(find_band(product, told, name), name) for name in asked]
            told = band_names(product, [name if at is None else told[at] for at, name in found])
        plain = [common.get(name, name) for name in told]
        called = [name if name and ":" not in name else f"band {i}" for i, name in enumerate(plain, 1)]
        slots = [Slot(name, wavelength_of(product, band)) for name, band in zip(called, told, strict=True)]
        if len(set(called)) < len(called):
            slots = [Slot(f"band {i}") for i in range(1, len(called) + 1)]
        return cls(tuple(slots), tuple(slot.name for slot in slots), PRODUCTS, gsd=(0.1, 1e4), removes=("thin",))

    @property
    def bands(self) -> tuple[Slot, ...]:
        """Give the slots that are bands of the scene itself, in order."""
        return self.of_kind("band")

    def positions(self, names: Iterable[str]) -> list[int]:
        """Say which planes of the input have these names."""
        places = {slot.name: i for i, slot in enumerate(self.slots)}
        return [places[name] for name in names]

    @property
    def span(self) -> float:
        """The network's value where a band is at its `high`."""
        return self.bands[0].span

    @property
    def wavelengths(self) -> tuple[float, ...]:
        """Give the centres of the bands that come out, in nanometres; a band without one is refused."""
        given = {slot.name: slot.wavelength for slot in self.bands}
        unknown = [name for name in self.outputs if given[name] is None]
        if unknown:
            raise ConfigError(f"the wavelength of {' '.join(unknown)} is not known: give Slot(name, wavelength)")
        return tuple(given[name] or 0.0 for name in self.outputs)

    @property
    def optical(self) -> list[int]:
        """Say which planes of the input are the bands that come out, in their order."""
        return self.positions(self.outputs)

    @property
    def colours(self) -> list[int]:
        """Say which of the bands that come out a picture shows as red, green and blue."""
        return shown_bands(self.outputs)

    @property
    def gain(self) -> float:
        """How much brighter a picture shows the bands than they are: a picture's white is well below reflectance 1."""
        if set(self.products) <= {RGB8.name, PICTURE.name}:
            return 1.0
        return max(self.bands[0].high / PICTURE_WHITE, 1.0)

    def pick(self, have: Sequence[Slot]) -> list[int | None]:
        """Say which plane goes into each slot; None for an optional one that is missing.

        Planes are found by name. What is missing, or scaled to another range, is refused with what came and what is
        wanted.
        """
        places = {slot.name: at for at, slot in enumerate(have)}
        came, wanted = (" ".join(slot.name for slot in slots) for slots in (have, self.slots))
        missing = [slot.name for slot in self.slots if slot.name not in places and not slot.optional]
        if missing:
            raise ConfigError(
                f"the images hold {came} and the weights take {wanted}: {' '.join(missing)} are missing. Give "
                "images of these bands, or other weights"
            )
        for slot in self.slots:
            if slot.name not in places:
                continue
            there = have[places[slot.name]]
            if (there.low, there.high, there.span) != (slot.low, slot.high, slot.span):
                raise ConfigError(
                    f"{slot.name} of the images is {_range(there)} and the weights take {_range(slot)}: the same name, "
                    "and other numbers. Give images of this range, or use other weights"
                )
        return [places.get(slot.name) for slot in self.slots]

    def fit(self, sensor: Sensor, slots: Sequence[Slot] | None = None) -> Sensor:
        """Give the sensor whose values become what the band slots want; a picture's white is the top of their range.

        A sensor that says itself what the model wants to see keeps it.
        """
        if sensor.wanted is not None:
            return sensor.unnamed()
        slots = self.bands if slots is None else slots
        if sensor.picture:
            return sensor.into(ModelRange((0.0,), (1.0,), self.span)).unnamed()
        first = slots[0]
        if all((slot.low, slot.high) == (first.low, first.high) for slot in slots):
            return sensor.into(ModelRange((first.low,), (first.high,), self.span)).unnamed()
        each = ModelRange(tuple(slot.low for slot in slots), tuple(slot.high for slot in slots), self.span)
        return sensor.into(each).unnamed()

    def radar(self) -> Sensor:
        """Give the sensor whose decibels become what the radar slots want."""
        slots = self.of_kind("sar")
        each = ModelRange(tuple(slot.low for slot in slots), tuple(slot.high for slot in slots), slots[0].span)
        return Sensor("sar-db", (), 1.0, 0.0, wanted=each)

    def match(self, sensor: Sensor, names: Sequence[str], asked: Sequence[str] | None = None) -> list[int | None]:
        """Say which of a scene's bands (by name, "" where unnamed) goes into each band slot; None into an absent one.

        `asked` are the user's own choice, by name or by number from 1: one for each slot or, where slots are optional,
        those that are to go in. If none of the scene's bands has a name, as many names are theirs, in their order. What
        does not fit is refused with what came and what is wanted.
        """
        if self.corrects_references:
            raise SceneError(
                "The weights correct other dates inside gaps, which restore does by itself where it has `references`: "
                "take weights that restore a scene."
            )
        if self.of_kind("level") and sensor.surface is None:
            raise SceneError(
                f"The scene is {sensor.name}, and the weights must know whether its values are of the surface or of "
                "the top of the atmosphere: name the product with `sensor`."
            )
        if sensor.product not in self.products:
            raise SceneError(
                f"The scene is {sensor.name} and the weights take {', '.join(self.products)}: give one of these, or "
                "other weights."
            )
        if asked is not None:
            return self._asked(sensor, names, asked)
        if all(slot.name.startswith("band ") for slot in self.bands) and len(names) == len(self.bands):
            return list(range(len(names)))  # the weights name no bands: by position
        names = band_names(sensor, names)
        places = self.places(sensor, names)
        missing = [slot.name for slot, at in zip(self.bands, places, strict=True) if at is None and not slot.optional]
        if missing or all(at is None for at in places):
            wanted = " ".join(slot.name for slot in self.bands if not slot.optional) or "at least one of theirs"
            came = f"bands are {_listed(names)}" if any(names) else f"{len(names)} bands have no names"
            raise SceneError(
                f"The scene's {came} and the weights take {wanted}: use other weights or, if the scene has these "
                "bands under other names, say which with `bands`, by name or number from 1."
            )
        return places

    def _asked(self, sensor: Sensor, names: Sequence[str], asked: Sequence[str]) -> list[int | None]:
        wanted, few = [slot.name for slot in self.bands], any(slot.optional for slot in self.bands)
        names = band_names(sensor, names)
        if not any(names) and len(asked) == len(names) and not any(name.isdigit() for name in asked):
            return self.match(sensor, asked)
        if len(asked) != len(wanted) and not few:
            raise SceneError(
                f"`bands` names {len(asked)} bands and the weights take {len(wanted)} ({' '.join(wanted)}): "
                f"name {len(wanted)}."
            )
        found = [find_band(sensor, names, name) for name in asked]
        for name, at in zip(asked, found, strict=True):
            if at is None:
                raise SceneError(
                    f"Band {name} is not among the scene's {len(names)} bands ({_listed(names)}): choose by name or "
                    "number with `bands`."
                )
        if len(asked) == len(wanted):
            return list(found)
        places = self.places(sensor, [name if at in found else "" for at, name in enumerate(names)])
        lost = [name for name, at in zip(asked, found, strict=True) if at not in places]
        if lost:
            raise SceneError(
                f"The weights take {' '.join(wanted)}, and {' '.join(lost)} of `bands` is none of these: leave it out "
                "or, if the scene's bands have no names, name all of them in their order."
            )
        return places

    def places(self, sensor: Sensor, names: Sequence[str]) -> list[int | None]:
        """Find each slot's band among a scene's: by name first, then by the nearest wavelength among those left."""
        places = [find_band(sensor, names, slot.name) for slot in self.bands]
        centres = [wavelength_of(sensor, name) for name in names]
        for i, slot in enumerate(self.bands):
            if places[i] is not None or slot.wavelength is None:
                continue
            reach = VISIBLE_RANGE if slot.wavelength < 1000 else BEYOND_RANGE
            apart = {at: abs(nm - slot.wavelength) for at, nm in enumerate(centres) if nm is not None}
            near = [at for at, nm in apart.items() if nm <= reach and at not in places]
            places[i] = min(near, key=lambda at: apart[at], default=None)
        return places

    def to_json(self) -> dict[str, Any]:
        """Give it as plain values."""
        return asdict(self)

    @staticmethod
    def from_json(told: Mapping[str, Any]) -> InputSpec:
        """Build it from plain values, refusing what is not there or not known."""
        try:
            values: dict[str, Any] = {key: tuple(it) if isinstance(it, list) else it for key, it in told.items()}
            values["slots"] = tuple(Slot(**slot) for slot in told["slots"])
            return InputSpec(**values)
        except (TypeError, KeyError, AttributeError) as error:
            raise ConfigError(f"not a description of a network's input: {error}") from error


def band_slots(names: Iterable[str], *, high: float = 1.0, span: float = 1.0) -> tuple[Slot, ...]:
    """Give slots for bands by their common names, all of one range; their wavelengths are known."""
    return tuple(Slot(name, COMMON_WAVELENGTHS.get(name), 0.0, high, span) for name in names)


def shown_bands(names: Sequence[str]) -> list[int]:
    """Say which bands a picture shows as red, green and blue: those, else the first three, else the first thrice."""
    if set(RGB) <= set(names):
        return [list(names).index(name) for name in RGB]
    return list(range(len(RGB))) if len(names) >= len(RGB) else [0] * len(RGB)


def _range(slot: Slot) -> str:
    return f"{slot.low:g} to {slot.high:g} as 0 to {slot.span:g}"


def _listed(names: Sequence[str]) -> str:
    return " ".join(name or "?" for name in names[:20]) + (" ..." if len(names) > 20 else "")


PICTURE_WHITE = 0.3558
"""The reflectance of a picture's white, as in ESA's true-colour image."""

TRUE_COLOUR = InputSpec(
    slots=band_slots(RGB, high=PICTURE_WHITE),
    outputs=RGB,
    products=PRODUCTS,
    gsd=(10.0, 10.0),
    removes=("thin",),
)
"""Red, green and blue as a picture shows them, of any product."""

RICE2 = InputSpec(
    slots=band_slots(("swir16", "nir08", "red")),
    outputs=("swir16", "nir08", "red"),
    products=("rgb8", "picture"),
    gsd=(30.0, 30.0),
    removes=("thin", "thick", "shadow"),
)
"""RICE2's false colour: LandsatLook pictures of Landsat 8, bands 6, 5 and 4 in 8 bits by a stretch of their own."""

SEN12MSCR = InputSpec(
    slots=(
        *(
            Slot(f"sar:{name}", None, low, high, SEN12MSCR_SAR_RANGE.span)
            for name, low, high in zip(("vv", "vh"), SEN12MSCR_SAR_RANGE.low, SEN12MSCR_SAR_RANGE.high, strict=True)
        ),
        *band_slots(S2_COMMON, span=5.0),
    ),
    outputs=S2_COMMON,
    products=("s2-l1c",),
    gsd=(10.0, 10.0),
    removes=("thin", "thick", "shadow"),
)
"""SEN12MS-CR: Sentinel-1 VV and VH, then the 13 bands of Sentinel-2 L1C."""

ANY_BANDS = InputSpec(
    slots=(
        *(replace(slot, optional=True) for slot in band_slots(S2_COMMON, high=2.0, span=5.0)),
        *(Slot(f"present:{name}") for name in S2_COMMON),
        Slot("level:surface"),
    ),
    outputs=S2_COMMON,
    products=("s2-l1c", "s2-l2a", "landsat-c2-l1", "landsat-c2-l2", "landsat-tm-c2-l2"),
    gsd=(10.0, 60.0),
    removes=("thin",),
    spread=True,
)
"""Any of Sentinel-2's 13 bands, or Landsat's nearest, at the surface or at the top of the atmosphere."""

OTHER_DATES = InputSpec(
    slots=(
        *(replace(slot, optional=True) for slot in band_slots(S2_COMMON)),
        *(Slot(f"{kind}:{name}", optional=True) for kind in ("reference", "error") for name in S2_COMMON),
        *(Slot(f"present:{name}") for name in S2_COMMON),
        *(Slot(name) for name in ("mask:clear", "mask:gap", "fit:error")),
    ),
    outputs=S2_COMMON,
    products=ANY_BANDS.products,
    gsd=(10.0, 60.0),
    removes=("thin", "thick", "shadow"),
    spread=True,
    corrects_references=True,
)
"""Another date in the scene's tones, as `attcr.references` shows it: any of Sentinel-2's 13 bands, in units of the pair
of dates. What comes out are corrections in mean errors, not bands."""

SEN12MSCR_OPTICAL = replace(SEN12MSCR, slots=SEN12MSCR.bands)
"""The same without radar."""
