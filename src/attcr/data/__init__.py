"""Data sets of cloudy and clear images, their splits, and simulated cloud."""

from attcr.data.pairs import PairFolder as PairFolder
from attcr.data.pairs import Sample as Sample
from attcr.data.pairs import Samples as Samples
from attcr.data.pictures import RICE1 as RICE1
from attcr.data.pictures import RICE2 as RICE2
from attcr.data.pictures import TCLOUD as TCLOUD
from attcr.data.sen12mscr import SEN12MSCR as SEN12MSCR
from attcr.data.sets import DATASETS as DATASETS
from attcr.data.sets import DataSet as DataSet
from attcr.data.sets import PaperScores as PaperScores
from attcr.data.sets import find_set as find_set
from attcr.data.splits import Split as Split
from attcr.data.splits import load_split as load_split
from attcr.extras import on_first_use

# These need torch, and `evaluate` reads data where there is none.
__getattr__ = on_first_use(
    __name__,
    {"simulate": ("BROKEN_VEIL", "HAZE", "THICK_CLOUD", "THIN_VEIL", "CloudKind", "simulate_clouds")},
)
