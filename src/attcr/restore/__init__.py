"""Restore arrays and whole scenes; the only room that knows both torch and geography."""

from attcr.restore.array import RestoredArray, RestoreOptions, restore_array
from attcr.restore.scene import (
    Progress,
    RestoreResult,
    ScenePlan,
    join_blocks,
    plan_scene,
    restore_block,
    restore_scene,
)

__all__ = [
    "Progress",
    "RestoreOptions",
    "RestoreResult",
    "RestoredArray",
    "ScenePlan",
    "join_blocks",
    "plan_scene",
    "restore_array",
    "restore_block",
    "restore_scene",
]
