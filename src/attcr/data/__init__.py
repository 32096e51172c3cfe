"""Data sets of cloudy and clear images, their splits, simulated cloud, and an audit that finds leaks."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from attcr.data.pairs import PairFolder, Sample, Samples
from attcr.data.rice import RICE1, RICE2
from attcr.data.sen12mscr import SEN12MSCR
from attcr.data.sets import DATASETS, DataSet, PaperScores, find_set
from attcr.data.splits import Split, load_split
from attcr.data.tcloud import TCLOUD

if TYPE_CHECKING:
    from attcr.data.simulate import BROKEN_VEIL as BROKEN_VEIL
    from attcr.data.simulate import HAZE as HAZE
    from attcr.data.simulate import THICK_CLOUD as THICK_CLOUD
    from attcr.data.simulate import THIN_VEIL as THIN_VEIL
    from attcr.data.simulate import CloudKind as CloudKind
    from attcr.data.simulate import SimulateClouds as SimulateClouds
    from attcr.data.simulate import simulate_clouds as simulate_clouds
    from attcr.data.transforms import Chain as Chain
    from attcr.data.transforms import PairedAugment as PairedAugment

_NEED_TORCH = {
    "BROKEN_VEIL": "simulate",
    "HAZE": "simulate",
    "THICK_CLOUD": "simulate",
    "THIN_VEIL": "simulate",
    "CloudKind": "simulate",
    "SimulateClouds": "simulate",
    "simulate_clouds": "simulate",
    "Chain": "transforms",
    "PairedAugment": "transforms",
}
"""Names that are imported when first asked for, by module: `evaluate` reads data where there is no torch."""

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


def __getattr__(name: str) -> Any:
    """Import a name that needs torch when it is first asked for."""
    if name in _NEED_TORCH:
        return getattr(import_module(f"attcr.data.{_NEED_TORCH[name]}"), name)
    raise AttributeError(f"module 'attcr.data' has no attribute {name!r}")
