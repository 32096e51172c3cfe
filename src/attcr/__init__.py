"""Cloud removal for satellite images with ATT-CR, the Adaptive Triangular Transformer."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from attcr.version import __version__

if TYPE_CHECKING:
    from attcr import evaluate as evaluate
    from attcr.bands.sensors import Sensor as Sensor
    from attcr.bands.spec import InputSpec as InputSpec
    from attcr.bands.spec import Slot as Slot
    from attcr.errors import AttcrError as AttcrError
    from attcr.fleet.run import FleetOptions as FleetOptions
    from attcr.fleet.run import run_fleet as run_fleet
    from attcr.networks import build_network as build_network
    from attcr.networks.attcr import ATTCR as ATTCR
    from attcr.networks.attcr import ATTCRConfig as ATTCRConfig
    from attcr.notebook import show as show
    from attcr.predict import Predictor as Predictor
    from attcr.predict import open_predictor as open_predictor
    from attcr.restore import RestoreOptions as RestoreOptions
    from attcr.restore import find_clouds as find_clouds
    from attcr.restore import plan_scene as plan_scene
    from attcr.restore import restore_array as restore_array
    from attcr.restore import restore_scene as restore_scene
    from attcr.restore import which_weights as which_weights
    from attcr.weights import list_models as list_models
    from attcr.weights import load_model as load_model
    from attcr.weights import read_header as read_header
    from attcr.weights import save_model as save_model

# Public names and the module each lives in, imported on first use: `attcr --help` loads no torch.
_PUBLIC = {
    "ATTCR": "attcr.networks.attcr",
    "ATTCRConfig": "attcr.networks.attcr",
    "AttcrError": "attcr.errors",
    "FleetOptions": "attcr.fleet.run",
    "InputSpec": "attcr.bands.spec",
    "Predictor": "attcr.predict",
    "RestoreOptions": "attcr.restore",
    "Sensor": "attcr.bands.sensors",
    "Slot": "attcr.bands.spec",
    "build_network": "attcr.networks",
    "find_clouds": "attcr.restore",
    "list_models": "attcr.weights",
    "load_model": "attcr.weights",
    "open_predictor": "attcr.predict",
    "plan_scene": "attcr.restore",
    "read_header": "attcr.weights",
    "restore_array": "attcr.restore",
    "restore_scene": "attcr.restore",
    "run_fleet": "attcr.fleet.run",
    "save_model": "attcr.weights",
    "show": "attcr.notebook",
    "which_weights": "attcr.restore",
}

__all__ = ["__version__", "evaluate", *_PUBLIC]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    if name == "evaluate":
        return import_module("attcr.evaluate")
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'attcr' has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the public names, imported or not."""
    return sorted([*globals(), *__all__])
