"""The algorithm that fills cloud from images of other dates, without a network."""

from __future__ import annotations

from typing import Any

from qgis.core import QgsProcessingContext

from .remove_clouds import RemoveClouds, add_mask, add_outputs, add_references
from .scene import add_scene, add_sensor

HELP = """
<p>Replaces the cloud of a satellite image by what images of the same place on other dates show there, brought into the
tones of the image. No network is used. Where none of them is clear, the image stays as it came. The quality layer says
which pixels are from another date; NAME_dates.tif says from which.</p>
<p>The images may have other grids: each is laid on that of the cloudy one. Clouds in them are found and left out.</p>
""".replace("\n", " ")


class FillFromDates(RemoveClouds):
    """Runs `attcr restore --weights none --reference ...`."""

    def createInstance(self) -> FillFromDates:  # noqa: N802
        """Give a new one."""
        return FillFromDates()

    def name(self) -> str:
        """Give the name for scripts."""
        return "fillfromdates"

    def displayName(self) -> str:  # noqa: N802
        """Give the name in the toolbox."""
        return "Fill from other dates"

    def shortDescription(self) -> str:  # noqa: N802
        """Give what it does in a line."""
        return "Replaces cloud by what images of other dates show there, and says which pixels these are."

    def shortHelpString(self) -> str:  # noqa: N802
        """Give the help beside the dialog."""
        return HELP

    def initAlgorithm(self, configuration: dict[str, Any] | None = None) -> None:  # noqa: N802
        """Add the parameters and outputs."""
        add_scene(self)
        add_sensor(self)
        add_references(self, optional=False)
        add_mask(self)
        add_outputs(self)

    def weights(self, parameters: dict[str, Any], context: QgsProcessingContext) -> list[str]:
        """Use no network."""
        return ["--weights", "none"]

    def further(self, parameters: dict[str, Any], context: QgsProcessingContext) -> list[str]:
        """Have none."""
        return []
