"""Scenes: rasters, tiles, blending and cloud masks, without torch."""
