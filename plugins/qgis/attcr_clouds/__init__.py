"""Removes clouds from satellite images in QGIS, by attcr."""

from __future__ import annotations

from typing import Any


def classFactory(iface: Any) -> Any:  # noqa: N802  # QGIS's own name
    """Give the plugin to QGIS."""
    from .plugin import AttcrPlugin

    return AttcrPlugin(iface)
