"""Clear images that are not trained on, to measure on. README.md tells of the files."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from .samples import patches_held_out, places_held_out, with_cirrus


def held_out_l1c(data: Path) -> Tensor:
    """Give the clear L1C places: (N, 13, 240, 240) reflectance."""
    places = np.load(data / "df.npz")
    ok = (places["cloud"] < 0.01) & (places["qa"] < 0.02) & places_held_out(places["lon"], places["lat"])
    return torch.from_numpy(places["a"][ok].astype(np.float32) / 1e4)


def held_out_l2a(data: Path) -> Tensor:
    """Give the L2A patches: (N, 13, 64, 64) reflectance, the cirrus band 0."""
    patches = np.load(data / "eu.npz")
    return with_cirrus(torch.from_numpy(patches["a"][patches_held_out(patches["ids"])].astype(np.float32) / 1e4))
