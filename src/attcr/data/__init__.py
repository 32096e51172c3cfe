"""Data sets of cloudy and clear images, their splits, simulated cloud, and an audit that finds leaks."""

from attcr.data.pairs import PairFolder, Sample, Samples
from attcr.data.rice import RICE1, RICE2
from attcr.data.sen12mscr import SEN12MSCR
from attcr.data.sets import DATASETS, DataSet, PaperScores, find_set
from attcr.data.simulate import (
    BROKEN_VEIL,
    HAZE,
    THICK_CLOUD,
    THIN_VEIL,
    CloudKind,
    SimulateClouds,
    simulate_clouds,
)
from attcr.data.splits import Split, load_split
from attcr.data.tcloud import TCLOUD
from attcr.data.transforms import Chain, PairedAugment

__all__ = [
    "BROKEN_VEIL",
    "DATASETS",
    "HAZE",
    "RICE1",
    "RICE2",
    "SEN12MSCR",
    "TCLOUD",
    "THICK_CLOUD",
    "THIN_VEIL",
    "Chain",
    "CloudKind",
    "DataSet",
    "PairFolder",
    "PairedAugment",
    "PaperScores",
    "Sample",
    "Samples",
    "SimulateClouds",
    "Split",
    "find_set",
    "load_split",
    "simulate_clouds",
]
