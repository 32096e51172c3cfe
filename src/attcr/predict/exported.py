"""What all exported networks share, whatever computes them: metadata, padding, and what is added to the input."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from attcr.bands.spec import InputSpec
from attcr.errors import ShapeError, WeightsError
from attcr.predict.predictor import Float32, as_a_veil
from attcr.version import __version__
from attcr.weights import WRONG, WeightsHeader

FORMAT = "attcr-export-2"
"""Counts changes of the graph: files of another count are exported again."""
CLOUDY, RESTORED, CHANGE = "cloudy", "restored", "change"
"""The input, the result, and what the network adds to its input to make it, by their names in the graph."""
QUERIES, KEYS_VALUES, ATTENDED = ".queries", ".keys_values.", ".attended"
"""What goes into an attention and comes out, by the ends of their names: a runtime may put something faster between.

`stages.2.0.attention.queries` (B, C, H, W), `stages.2.0.attention.keys_values.0` (B, 2C, H, W) for each scale, and
`stages.2.0.attention.attended` (B, scales * C, H, W).
"""
MULTIPLE = 4
"""Height and width of what goes in are multiples of it."""
SMALLEST = 8
"""Pixels along an image, at least."""
MOST_BYTES = 1 << 30
"""Bytes of a file, at most: a hundred times the paper's largest network."""


def read_bounded(path: Path) -> bytes:
    """Read a file of at most MOST_BYTES."""
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise WeightsError(f"{path}: cannot be read ({error.strerror or error})") from error
    if len(content) > MOST_BYTES:
        raise WeightsError(f"{path}: has more than {MOST_BYTES:,} bytes, which no exported network has")
    return content


def metadata_of(header: WeightsHeader, weights_sha256: str) -> dict[str, str]:
    """Give what an exported file says of itself, as text under names."""
    return {
        "format": FORMAT,
        "attcr": __version__,
        "network": header.network,
        "config": json.dumps(dict(header.config)),
        "spec": json.dumps(header.spec.to_json()),
        "provenance": json.dumps(dict(header.provenance)),
        "weights_sha256": weights_sha256,
        "multiple": str(MULTIPLE),
    }


def read_metadata(metadata: Mapping[str, str], path: Path) -> tuple[WeightsHeader, str]:
    """Give what an exported file says of itself, and the sha256 of the weights that it was made from."""
    if metadata.get("format") != FORMAT:
        told = f"format {metadata['format']!r}" if "format" in metadata else "no format"
        raise WeightsError(
            f"{path}: {told} in its metadata, expected {FORMAT!r}: not exported by this version of attcr. Export the "
            f"weights again: attcr export WEIGHTS {path}"
        )
    try:
        config, provenance = json.loads(metadata["config"]), json.loads(metadata["provenance"])
        if not isinstance(config, dict) or not isinstance(provenance, dict):
            raise ValueError("config and provenance must be JSON objects")
        spec = InputSpec.from_json(json.loads(metadata["spec"]))
        return WeightsHeader(metadata["network"], config, spec, provenance), metadata["weights_sha256"]
    except WRONG as error:
        raise WeightsError(f"{path}: its metadata is of another version or damaged ({error})") from error


def run_padded(x: Float32, header: WeightsHeader, run: Callable[[Float32], Float32]) -> Float32:
    """Give (B, outputs, H, W) for (B, slots, H, W) by `run`, which gives the change for sizes of whole multiples.

    The rest is filled by reflection, as the network itself does. The change is added here, in float32, so that where
    it is 0 the input comes back to the bit in whatever type the network computes.
    """
    planes = len(header.spec.slots)
    if x.ndim != 4 or x.shape[1] != planes or min(x.shape[2:]) < SMALLEST:
        raise ShapeError(f"input came as {x.shape}; expected (B, {planes}, H, W) with H, W >= {SMALLEST}")
    height, width = x.shape[2:]
    margins = ((0, 0), (0, 0), (0, -height % MULTIPLE), (0, -width % MULTIPLE))
    change = run(np.ascontiguousarray(np.pad(x, margins, mode="reflect"), np.float32))
    y: Float32 = np.array(change[:, :, :height, :width], np.float32)
    expected = (x.shape[0], len(header.spec.outputs) * (2 if header.spec.spread else 1), height, width)
    if y.shape != expected:
        raise ShapeError(f"The network gave {y.shape} for {x.shape}; expected {expected}.")
    residual = list(header.config["residual"])
    y[:, : len(residual)] += x[:, residual]
    return as_a_veil(header.spec, x, y)


def first_line(error: Exception) -> str:
    """Give what a library says in one line, without the places in its own code."""
    lines = [line.strip() for line in str(error).splitlines()]
    return next((line for line in lines if line and not line.startswith("Exception from")), type(error).__name__)[:300]
