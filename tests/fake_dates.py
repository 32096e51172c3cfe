"""Two drawn dates of one place, whose tones differ by a known rule, under a known gap."""

import numpy as np
from numpy.typing import NDArray

from attcr.references.check import Evidence
from attcr.references.harmonise import Cells

Float32 = NDArray[np.float32]


def ground(height: int = 96, width: int = 128, bands: int = 3, seed: int = 0) -> Float32:
    """Fields of several kinds with fine texture, as reflectance."""
    draw = np.random.default_rng(seed)
    kinds = draw.uniform(0.05, 0.4, (6, bands))
    fields = draw.integers(0, 6, (-(-height // 16), -(-width // 16))).repeat(16, 0).repeat(16, 1)[:height, :width]
    texture = draw.normal(0, 0.02, (bands, height, width))
    return (kinds[fields].transpose(2, 0, 1) + texture).clip(0.001).astype(np.float32)


def a_gap(height: int = 96, width: int = 128) -> NDArray[np.bool_]:
    row, col = np.indices((height, width))
    return (row - 40) ** 2 + (col - 60) ** 2 < 24**2


def evidence_of(
    reference: Float32, target: Float32, gap: NDArray[np.bool_], clear: NDArray[np.bool_] | None = None
) -> Evidence:
    evidence = Evidence(Cells.over(*gap.shape), len(target))
    evidence.add(0, reference, target, ~gap if clear is None else clear, gap)
    return evidence
