"""The algorithm that installs attcr, once, into an environment in the user's profile."""

from __future__ import annotations

from typing import Any

from qgis.core import (
    QgsProcessingAlgorithm,
    QgsProcessingContext,
    QgsProcessingException,
    QgsProcessingFeedback,
    QgsProcessingOutputString,
    QgsProcessingParameterFile,
    QgsProcessingParameterString,
)
from qgis.PyQt.QtGui import QIcon

from .engine import EngineError, environment_in, set_up
from .scene import advanced, of_qgis
from .setting import ICON, profile

WHEELS, VERSION, PYTHON, ATTCR = "WHEELS", "VERSION", "PYTHON", "ATTCR"

HELP = """
<p>Installs attcr, which does the work of the other algorithms, into an environment of its own in your QGIS profile. It
needs the internet and about 2 GB of disk, once. QGIS's own Python stays as it is. Run it again to get a newer one.</p>
<p>Without internet, name a folder of wheels, made on a similar machine by: pip download 'attcr[scenes]'</p>
<p>It uses uv where that is installed, else a Python of 3.10 or later that it finds.</p>
""".replace("\n", " ")


class SetUp(QgsProcessingAlgorithm):
    """Makes an environment by uv or venv."""

    def createInstance(self) -> SetUp:  # noqa: N802
        """Give a new one."""
        return SetUp()

    def name(self) -> str:
        """Give the name for scripts."""
        return "setup"

    def displayName(self) -> str:  # noqa: N802
        """Give the name in the toolbox."""
        return "Set up attcr"

    def shortDescription(self) -> str:  # noqa: N802
        """Give what it does in a line."""
        return "Installs attcr into an environment of its own in the QGIS profile."

    def shortHelpString(self) -> str:  # noqa: N802
        """Give the help beside the dialog."""
        return HELP

    def tags(self) -> list[str]:
        """Give what it is found by in the toolbox."""
        return ["install", "setup", "set up", "update", "environment"]

    def icon(self) -> QIcon:
        """Give its picture."""
        return QIcon(str(ICON))

    def initAlgorithm(self, configuration: dict[str, Any] | None = None) -> None:  # noqa: N802
        """Add the parameters and outputs."""
        folder = of_qgis("ProcessingFileParameterBehavior", "Folder", lambda: QgsProcessingParameterFile.Folder)
        wheels = "Folder of wheels (without internet)"
        self.addParameter(QgsProcessingParameterFile(WHEELS, wheels, behavior=folder, optional=True))
        version = "Version (empty: the newest)"
        self.addParameter(advanced(QgsProcessingParameterString(VERSION, version, optional=True)))
        python = "Python to use (empty: one that is found)"
        self.addParameter(advanced(QgsProcessingParameterFile(PYTHON, python, optional=True)))
        self.addOutput(QgsProcessingOutputString(ATTCR, "The program"))

    def processAlgorithm(  # noqa: N802
        self, parameters: dict[str, Any], context: QgsProcessingContext, feedback: QgsProcessingFeedback
    ) -> dict[str, Any]:
        """Install it, and tell what the installer says."""
        feedback.setProgressText("Installing attcr; this takes some minutes.")
        wheels, python = (self.parameterAsFile(parameters, name, context) for name in (WHEELS, PYTHON))
        version = self.parameterAsString(parameters, VERSION, context).strip()
        folder = environment_in(profile())
        try:
            with folder.with_name("attcr-set-up.log").open("w", encoding="utf-8") as log:

                def on_line(line: str) -> None:
                    feedback.pushInfo(line)
                    print(line, file=log, flush=True)

                program = set_up(folder, wheels, version, python, on_line, feedback.isCanceled)
        except EngineError as error:
            raise QgsProcessingException(f"{error} The log is {log.name}.") from error
        if program is None:
            feedback.pushInfo("Stopped: nothing was changed.")
            return {}
        feedback.pushInfo(f"attcr is installed: {program}")
        return {ATTCR: program}
