"""The published network that corrects references of other dates inside gaps, opened for the bands of a scene."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast, get_args

from attcr.bands.products import band_names
from attcr.bands.sensors import Sensor
from attcr.errors import ConfigError, warn
from attcr.predict import Backend, open_predictor
from attcr.references.correct import Corrector
from attcr.weights import find_weights, published, read_header

WEIGHTS = "s2-dates"
"""Its published name."""


@dataclass(frozen=True)
class ReferenceNetwork(Corrector):
    """The network, and everything that its results depend on."""

    identity: Mapping[str, str] = field(default_factory=dict)


def weights_file() -> Path | None:
    """Give the file of the network; None where the package has none."""
    return find_weights(WEIGHTS) if WEIGHTS in published() else None


def network_sha256() -> str:
    """Give the sha256 of the package's network, on which filled pixels depend; "" where the package has none."""
    return published()[WEIGHTS].sha256 if WEIGHTS in published() else ""


def open_corrector(
    product: Sensor,
    names: Sequence[str],
    *,
    weights: str | None = None,
    device: str = "cpu",
    dtype: str = "float32",
    backend: str = "auto",
) -> ReferenceNetwork | None:
    """Give the network for images of a product with these bands ("" where one has no name).

    `weights` name another network than the package's. Gives None where the package has none, or where the network does
    not know the product or any of the bands. Warns where nothing is installed that could run it.
    """
    path = find_weights(weights) if weights else weights_file()
    if path is None:
        return None
    spec = read_header(path).spec
    if not spec.corrects_references:
        raise ConfigError(f"{path.name} restores scenes and does not correct references: give weights that do.")
    places = spec.places(product, band_names(product, names)) if product.product in spec.products else []
    found = sorted((at, slot) for slot, at in enumerate(places) if at is not None)
    if not found:
        return None
    kind = cast(Backend, backend if backend in get_args(Backend) else "auto")
    try:
        predictor = open_predictor(path, device=device, dtype=dtype, backend=kind)
    except ConfigError as error:
        warn(f"References are filled without the network that corrects them: {error}")
        return None
    bands, slots = zip(*found, strict=True)
    return ReferenceNetwork(predictor, bands, slots, predictor.identity)
