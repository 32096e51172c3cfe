"""The provider in the Processing toolbox, and its one setting: which attcr does the work."""

from __future__ import annotations

from processing.core.ProcessingConfig import ProcessingConfig, Setting
from qgis.core import QgsProcessingProvider
from qgis.PyQt.QtGui import QIcon

from .fill_dates import FillFromDates
from .remove_clouds import RemoveClouds
from .set_up import SetUp
from .setting import CHOSEN, ICON
from .which_weights import WhichWeights


class AttcrProvider(QgsProcessingProvider):
    """Gives the algorithms."""

    def id(self) -> str:
        """Give the name by which models and scripts know it."""
        return "attcr"

    def name(self) -> str:
        """Give the name in the toolbox."""
        return "attcr"

    def longName(self) -> str:  # noqa: N802
        """Give the name where there is room for it."""
        return "attcr: cloud removal"

    def icon(self) -> QIcon:
        """Give the picture in the toolbox."""
        return QIcon(str(ICON))

    def load(self) -> bool:
        """Add the setting, then the algorithms."""
        ProcessingConfig.settingIcons[self.name()] = self.icon()
        ProcessingConfig.addSetting(
            Setting(
                self.name(),
                CHOSEN,
                "Folder of attcr's environment, or the program (empty: what Set up attcr made, or that on the path)",
                "",
                valuetype=Setting.FOLDER,
            )
        )
        ProcessingConfig.readSettings()
        self.refreshAlgorithms()
        return True

    def unload(self) -> None:
        """Take the setting away."""
        ProcessingConfig.removeSetting(CHOSEN)

    def loadAlgorithms(self) -> None:  # noqa: N802
        """Add the algorithms."""
        for algorithm in (SetUp(), RemoveClouds(), FillFromDates(), WhichWeights()):
            self.addAlgorithm(algorithm)

    def defaultRasterFileExtension(self) -> str:  # noqa: N802
        """Give what results are by default."""
        return "tif"

    def supportedOutputRasterLayerExtensions(self) -> list[str]:  # noqa: N802
        """Give what results may be: only formats that keep every clear pixel as it came."""
        return ["tif", "tiff", "png"]
