"""Data sets of cloudy and clear images, their splits, simulated cloud, and an audit that finds leaks."""

from attcr.data.pairs import Pair, PairFolder
from attcr.data.rice import RICE1, RICE2
from attcr.data.sen12mscr import SEN12MSCR
from attcr.data.splits import Split, load_split
from attcr.data.tcloud import TCLOUD
from attcr.data.transforms import PairedAugment

__all__ = [
    "RICE1",
    "RICE2",
    "SEN12MSCR",
    "TCLOUD",
    "Pair",
    "PairFolder",
    "PairedAugment",
    "Split",
    "load_split",
]
