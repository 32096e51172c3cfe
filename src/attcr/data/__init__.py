"""Data sets of cloudy and clear images, their splits, simulated cloud, and an audit that finds leaks."""

from attcr.data.pairs import Pair, PairFolder
from attcr.data.rice import RICE1, RICE2
from attcr.data.sen12mscr import SEN12MSCR
from attcr.data.simulate import HAZE, THICK, THIN, THIN_BROKEN, CloudKind, SimulateClouds, simulate_clouds
from attcr.data.splits import Split, load_split
from attcr.data.tcloud import TCLOUD
from attcr.data.transforms import Chain, PairedAugment

__all__ = [
    "HAZE",
    "RICE1",
    "RICE2",
    "SEN12MSCR",
    "TCLOUD",
    "THICK",
    "THIN",
    "THIN_BROKEN",
    "Chain",
    "CloudKind",
    "Pair",
    "PairFolder",
    "PairedAugment",
    "SimulateClouds",
    "Split",
    "load_split",
    "simulate_clouds",
]
