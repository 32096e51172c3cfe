"""Restore arrays and whole scenes; the only room that knows both networks, as predictors, and geography."""

from attcr.extras import on_first_use

# Arrays are restored without rasterio, so names are imported on first use.
_PUBLIC = {
    "array": ("RestoredArray", "restore_array"),
    "blocks": ("join_blocks", "restore_block"),
    "look": ("Fit", "choose_weights", "find_clouds", "which_weights"),
    "options": ("RestoreOptions",),
    "publish": ("targets_in",),
    "scene": ("Progress", "RestoreResult", "ScenePlan", "plan_scene", "restore_scene"),
}

__all__ = [name for names in _PUBLIC.values() for name in names]
__getattr__ = on_first_use(__name__, _PUBLIC)
