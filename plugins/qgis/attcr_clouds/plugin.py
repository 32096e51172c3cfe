"""The plugin: it brings its provider to the Processing toolbox, and takes it away again."""

from __future__ import annotations

from typing import Any

from qgis.core import QgsApplication

from .provider import AttcrProvider


class AttcrPlugin:
    """What QGIS loads and unloads; `iface` is None where there is no window."""

    def __init__(self, iface: Any) -> None:
        self._provider: AttcrProvider | None = None

    def initProcessing(self) -> None:  # noqa: N802
        """Add the algorithms; qgis_process calls this alone."""
        self._provider = AttcrProvider()
        QgsApplication.processingRegistry().addProvider(self._provider)

    def initGui(self) -> None:  # noqa: N802
        """Add the algorithms."""
        self.initProcessing()

    def unload(self) -> None:
        """Take them away."""
        if self._provider is not None:
            QgsApplication.processingRegistry().removeProvider(self._provider)
            self._provider = None
