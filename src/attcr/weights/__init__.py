"""Weights: files that carry their spec, the table of published ones, and those from elsewhere."""

from attcr.weights.files import WRONG as WRONG
from attcr.weights.files import WeightsHeader as WeightsHeader
from attcr.weights.files import check_fit as check_fit
from attcr.weights.files import fill as fill
from attcr.weights.files import header_of as header_of
from attcr.weights.files import read_metadata as read_metadata
from attcr.weights.files import read_tensors as read_tensors
from attcr.weights.files import save_model as save_model
from attcr.weights.table import Published as Published
from attcr.weights.table import Score as Score
from attcr.weights.table import find_weights as find_weights
from attcr.weights.table import list_models as list_models
from attcr.weights.table import load_model as load_model
from attcr.weights.table import published as published
from attcr.weights.table import read_header as read_header
from attcr.weights.table import restoring as restoring
