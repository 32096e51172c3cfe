"""The algorithm that says which weights fit a layer, and why the others do not."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

from qgis.core import (
    QgsProcessingAlgorithm,
    QgsProcessingContext,
    QgsProcessingException,
    QgsProcessingFeedback,
    QgsProcessingOutputString,
    QgsProcessingParameterFileDestination,
)
from qgis.PyQt.QtGui import QIcon

from .engine import EngineError, which_weights
from .remove_clouds import listener_of
from .scene import add_scene, add_sensor, missing_scene, scene_of, sensor_options
from .setting import ICON, can_run, chosen_attcr

REPORT, WEIGHTS = "REPORT", "WEIGHTS"


class WhichWeights(QgsProcessingAlgorithm):
    """Runs `attcr weights --for`."""

    def createInstance(self) -> WhichWeights:  # noqa: N802
        """Give a new one."""
        return WhichWeights()

    def name(self) -> str:
        """Give the name for scripts."""
        return "whichweights"

    def displayName(self) -> str:  # noqa: N802
        """Give the name in the toolbox."""
        return "Which weights fit this layer"

    def shortDescription(self) -> str:  # noqa: N802
        """Give what it does in a line."""
        return "Says which of attcr's weights fit an image, which bands they use, and why others do not fit."

    def shortHelpString(self) -> str:  # noqa: N802
        """Give the help beside the dialog."""
        return f"<p>{self.shortDescription()}</p><p>In a model, the output WEIGHTS goes into <i>Remove clouds</i>.</p>"

    def tags(self) -> list[str]:
        """Give what it is found by in the toolbox."""
        return ["cloud", "clouds", "weights", "bands", "sensor"]

    def icon(self) -> QIcon:
        """Give its picture."""
        return QIcon(str(ICON))

    def initAlgorithm(self, configuration: dict[str, Any] | None = None) -> None:  # noqa: N802
        """Add the parameters and outputs."""
        add_scene(self)
        add_sensor(self)
        self.addParameter(
            QgsProcessingParameterFileDestination(
                REPORT, "Report", fileFilter="HTML files (*.html)", optional=True, createByDefault=True
            )
        )
        self.addOutput(QgsProcessingOutputString(WEIGHTS, "The first weights that fit"))

    def canExecute(self) -> tuple[bool, str]:  # noqa: N802
        """Say whether there is an attcr to run."""
        return can_run()

    def checkParameterValues(  # noqa: N802
        self, parameters: dict[str, Any], context: QgsProcessingContext
    ) -> tuple[bool, str]:
        """Refuse what cannot go together before anything runs."""
        wrong = missing_scene(parameters)
        return (False, wrong) if wrong else super().checkParameterValues(parameters, context)

    def prepareAlgorithm(  # noqa: N802
        self, parameters: dict[str, Any], context: QgsProcessingContext, feedback: QgsProcessingFeedback
    ) -> bool:
        """Turn the layer into its address, in the main thread, where layers live."""
        self._scene, _ = scene_of(self, parameters, context)
        self._options = sensor_options(self, parameters, context)
        return True

    def processAlgorithm(  # noqa: N802
        self, parameters: dict[str, Any], context: QgsProcessingContext, feedback: QgsProcessingFeedback
    ) -> dict[str, Any]:
        """Ask attcr, and tell what it said."""
        try:
            fits = which_weights(chosen_attcr(), self._scene, self._options, listener_of(feedback))
        except EngineError as error:
            raise QgsProcessingException(str(error)) from error
        if fits is None:
            return {}
        for fit in fits:
            feedback.pushInfo(f"{fit['weights']}: {'fits' if fit['fits'] else 'does not fit'}. {fit['reason']}")
        report = self.parameterAsFileOutput(parameters, REPORT, context)
        if report:
            Path(report).write_text(page_of(self._scene, fits), encoding="utf-8")
        fitting = [str(fit["weights"]) for fit in fits if fit["fits"]]
        return {REPORT: report, WEIGHTS: fitting[0] if fitting else ""}


def page_of(scene: str, fits: list[dict[str, Any]]) -> str:
    """Give what attcr said as a page of HTML."""
    rows = "".join(
        f"<tr><td><b>{html.escape(fit['weights'])}</b></td><td>{'yes' if fit['fits'] else 'no'}</td>"
        f"<td>{html.escape(fit['reason'])}</td></tr>"
        for fit in fits
    )
    title = f"Weights for {html.escape(Path(scene).name)}"
    head = f'<!DOCTYPE html><html><head><meta charset="utf-8"><title>{title}</title></head>'
    table = f'<table border="1" cellpadding="4"><tr><th>weights</th><th>fit</th><th>why</th></tr>{rows}</table>'
    return f"{head}<body><h1>{title}</h1>{table}</body></html>\n"
