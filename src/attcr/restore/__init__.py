"""Restore arrays and whole scenes; the only room that knows both networks, as predictors, and geography."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attcr.restore.array import RestoredArray as RestoredArray
    from attcr.restore.array import restore_array as restore_array
    from attcr.restore.blocks import join_blocks as join_blocks
    from attcr.restore.blocks import restore_block as restore_block
    from attcr.restore.look import Fit as Fit
    from attcr.restore.look import choose_weights as choose_weights
    from attcr.restore.look import find_clouds as find_clouds
    from attcr.restore.look import which_weights as which_weights
    from attcr.restore.options import RestoreOptions as RestoreOptions
    from attcr.restore.publish import targets_in as targets_in
    from attcr.restore.scene import Progress as Progress
    from attcr.restore.scene import RestoreResult as RestoreResult
    from attcr.restore.scene import ScenePlan as ScenePlan
    from attcr.restore.scene import plan_scene as plan_scene
    from attcr.restore.scene import restore_scene as restore_scene

# Imported on first use: arrays are restored without rasterio.
_PUBLIC = {
    "Fit": "look",
    "Progress": "scene",
    "RestoreOptions": "options",
    "RestoreResult": "scene",
    "RestoredArray": "array",
    "ScenePlan": "scene",
    "choose_weights": "look",
    "find_clouds": "look",
    "join_blocks": "blocks",
    "plan_scene": "scene",
    "restore_array": "array",
    "restore_block": "blocks",
    "restore_scene": "scene",
    "targets_in": "publish",
    "which_weights": "look",
}

__all__ = [*_PUBLIC]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    if name in _PUBLIC:
        return getattr(import_module(f"attcr.restore.{_PUBLIC[name]}"), name)
    raise AttributeError(f"module 'attcr.restore' has no attribute {name!r}")
