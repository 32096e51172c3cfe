"""What stands in the place of a network where gaps are only filled from other dates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attcr.bands.products import band_names, wavelength_of
from attcr.bands.sensors import Sensor
from attcr.bands.spec import PRODUCTS, InputSpec, Slot
from attcr.predict import Float32

NO_WEIGHTS = "none"
"""What `--weights` calls it."""


class NoNetwork:
    """A predictor of any bands that changes nothing."""

    def __init__(self, product: Sensor, names: Sequence[str]) -> None:
        told = band_names(product, names)
        common = dict(zip(product.bands, product.common, strict=False))
        slots = [
            Slot(_plain(common.get(name, name), i), wavelength_of(product, name)) for i, name in enumerate(told, 1)
        ]
        unique = len({slot.name for slot in slots}) == len(slots)
        self.spec = InputSpec(
            slots=tuple(slots if unique else [Slot(f"band {i}") for i in range(1, len(slots) + 1)]),
            outputs=tuple(slot.name for slot in slots) if unique else tuple(f"band {i + 1}" for i in range(len(slots))),
            products=PRODUCTS,
            gsd=(0.1, 1e4),
            removes=("thin",),
        )
        self.identity: Mapping[str, str] = {"weights_sha256": NO_WEIGHTS, "backend": NO_WEIGHTS, "dtype": "float32"}

    def __call__(self, x: Float32) -> Float32:
        """Give what came."""
        return x


def _plain(name: str, number: int) -> str:
    """Give a name that a slot can have."""
    return name if name and ":" not in name else f"band {number}"
