"""Networks as ONNX files for other programs. What is written is checked against torch first."""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from attcr.errors import ConfigError, WeightsError
from attcr.files import replacing, sha256
from attcr.predict import EXPORTED, Predictor, open_predictor
from attcr.predict.onnx import network_from_onnx, network_from_weights
from attcr.predict.onnxruntime import OnnxRuntimePredictor
from attcr.weights import find_weights

SIZES = ((8, 12), (67, 53), (96, 128))
"""Heights and widths that a file is checked at; the second is no multiple of anything."""
BATCHES = (1, 3)
TOLERANCE = 1e-6
"""What a file may differ from torch by in float32: the root mean square over the result's standard deviation."""


@dataclass(frozen=True)
class Exported:
    """A network that was written, and how near it is to what torch computes."""

    path: Path
    bytes: int
    sha256: str
    error: float
    """Root mean square of the difference from torch over the result's standard deviation; the worst of all sizes."""
    largest: float
    """Largest difference of a single value, over the largest value."""


def export(weights: str | os.PathLike[str], target: str | os.PathLike[str]) -> Exported:
    """Write the network of weights as TARGET, an .onnx file.

    Batch, height and width are free. The spec, the provenance and the weights' sha256 are in the file's metadata. The
    file gets its name only when it gives what torch gives.
    """
    source, path = find_weights(weights), Path(target)
    if path.suffix.lower() != EXPORTED:
        raise ConfigError(f"{path} ends in {path.suffix.lower() or 'nothing'}: name a file .onnx.")
    if source.suffix.lower() == EXPORTED:
        raise ConfigError(f"{source} is exported already: give the .safetensors file that it was made from.")
    if not path.parent.is_dir():
        raise ConfigError(f"{path.parent} is not a folder: make it first, or name another.")
    network = network_from_weights(source)
    torch = open_predictor(source, backend="torch")
    with replacing(path) as partial:
        partial.write_bytes(network.content)
        error, largest = compare(OnnxRuntimePredictor(network_from_onnx(partial)), torch, path)
    return Exported(path, path.stat().st_size, sha256(path), error, largest)


def compare(exported: Predictor, torch: Predictor, path: Path) -> tuple[float, float]:
    """Give the largest errors of an exported network over all sizes and batches, or refuse it."""
    rng = np.random.default_rng(0)
    spec, worst, largest = torch.spec, 0.0, 0.0
    for height, width in SIZES:
        for batch in BATCHES:
            x = rng.random((batch, len(spec.slots), height, width), np.float32) * np.float32(spec.span)
            expected = torch(x).astype(np.float64)
            difference = exported(x) - expected
            error = float(np.sqrt((difference**2).mean()) / expected.std())
            if not error <= TOLERANCE:  # also where it is no number
                raise WeightsError(
                    f"{path}: not written: for {batch} x {height} x {width} it would differ from torch by {error:.1e} "
                    f"of the result's standard deviation, where {TOLERANCE:g} is allowed. Please report this"
                )
            worst = max(worst, error)
            largest = max(largest, float(np.abs(difference).max() / np.abs(expected).max()))
    return worst, largest
