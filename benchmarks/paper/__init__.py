"""The networks that the paper compares with, known to attcr by name once this is imported."""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch is loaded: threads that wait must not work

from attcr.networks import NETWORKS, Entry

from .ablations import Ablation, AblationConfig
from .restormer import Restormer, RestormerConfig
from .spagan import SpAGAN, SpAGANConfig

NETWORKS |= {
    "ablation": Entry(AblationConfig, Ablation),
    "restormer": Entry(RestormerConfig, Restormer),
    "spagan": Entry(SpAGANConfig, SpAGAN),
}
