"""Cloud removal for satellite images with ATT-CR, the Adaptive Triangular Transformer."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from attcr.extras import on_first_use
from attcr.version import __version__

if TYPE_CHECKING:
    from attcr import evaluate as evaluate
    from attcr.bands.sensors import Sensor as Sensor
    from attcr.bands.spec import InputSpec as InputSpec
    from attcr.bands.spec import Slot as Slot
    from attcr.cubes.composite import composite as composite
    from attcr.cubes.dataset import cube as cube
    from attcr.cubes.icechunk import open_cube as open_cube
    from attcr.cubes.options import CubeOptions as CubeOptions
    from attcr.cubes.write import write_cube as write_cube
    from attcr.errors import AttcrError as AttcrError
    from attcr.fleet.options import FleetOptions as FleetOptions
    from attcr.fleet.run import run_fleet as run_fleet
    from attcr.networks import build_network as build_network
    from attcr.networks.attcr import ATTCR as ATTCR
    from attcr.networks.attcr import ATTCRConfig as ATTCRConfig
    from attcr.notebook import show as show
    from attcr.predict import Predictor as Predictor
    from attcr.predict import open_predictor as open_predictor
    from attcr.restore.array import restore_array as restore_array
    from attcr.restore.look import find_clouds as find_clouds
    from attcr.restore.look import which_weights as which_weights
    from attcr.restore.options import RestoreOptions as RestoreOptions
    from attcr.restore.scene import plan_scene as plan_scene
    from attcr.restore.scene import restore_scene as restore_scene
    from attcr.weights import list_models as list_models
    from attcr.weights import load_model as load_model
    from attcr.weights import read_header as read_header
    from attcr.weights import save_model as save_model

# Public names by the module where each lives, imported on first use: `attcr --help` loads no torch.
_PUBLIC = {
    "bands.sensors": ("Sensor",),
    "bands.spec": ("InputSpec", "Slot"),
    "cubes.composite": ("composite",),
    "cubes.dataset": ("cube",),
    "cubes.icechunk": ("open_cube",),
    "cubes.options": ("CubeOptions",),
    "cubes.write": ("write_cube",),
    "errors": ("AttcrError",),
    "fleet.options": ("FleetOptions",),
    "fleet.run": ("run_fleet",),
    "networks": ("build_network",),
    "networks.attcr": ("ATTCR", "ATTCRConfig"),
    "notebook": ("show",),
    "predict": ("Predictor", "open_predictor"),
    "restore.array": ("restore_array",),
    "restore.look": ("find_clouds", "which_weights"),
    "restore.options": ("RestoreOptions",),
    "restore.scene": ("plan_scene", "restore_scene"),
    "weights": ("list_models", "load_model", "read_header", "save_model"),
}

__all__ = ["__version__", "evaluate", *sorted(name for names in _PUBLIC.values() for name in names)]
_find = on_first_use(__name__, _PUBLIC)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    return import_module("attcr.evaluate") if name == "evaluate" else _find(name)


def __dir__() -> list[str]:
    """List the public names, imported or not."""
    return sorted([*globals(), *__all__])
