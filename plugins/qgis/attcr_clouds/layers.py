"""How results come into the map: quality, after and before in one group, before and after drawn alike."""

from __future__ import annotations

import re
import uuid
from pathlib import Path

from qgis.core import (
    QgsContrastEnhancement,
    QgsLayerTreeGroup,
    QgsMapLayer,
    QgsMapLayerStyle,
    QgsMultiBandColorRenderer,
    QgsProcessingContext,
    QgsProcessingFeedback,
    QgsProcessingLayerPostProcessorInterface,
    QgsProject,
    QgsRasterLayer,
    QgsRasterMinMaxOrigin,
)

from .scene import of_qgis

STYLE = Path(__file__).with_name("quality.qml")
ORDER = ("Quality", "After", "Before")
"""Layers of a group, from the top."""
_RUN = "attcr/run"
_TRUE_COLOUR = (r"\b(B0?4|red)\b", r"\b(B0?3|green)\b", r"\b(B0?2|blue)\b")
"""What the bands of true colour are called in Sentinel-2 and Landsat 8 and 9."""
_alive: set[QgsProcessingLayerPostProcessorInterface] = set()
"""Post-processors that QGIS has yet to call: it holds only their C++ half."""


def show_results(
    context: QgsProcessingContext, target: str, quality: str, *, name: str, before_id: str, before: str
) -> None:
    """Have QGIS load the quality layer where it loads the result, and put both into a group with the image before.

    `before_id` is the layer that the image is in the project, `before` its file; either may be empty.
    """
    if not context.willLoadLayerOnCompletion(target):
        return
    run = uuid.uuid4().hex
    title = f"Clouds removed from {name}"
    after = _ShowAfter(run, title, before_id, before)
    context.layerToLoadOnCompletionDetails(target).setPostProcessor(after)
    shown = _ShowQuality(run, title)
    details = QgsProcessingContext.LayerDetails(ORDER[0], context.project(), "QUALITY")
    details.setPostProcessor(shown)
    context.addLayerToLoadOnCompletion(quality, details)
    _alive.update((after, shown))


class _Show(QgsProcessingLayerPostProcessorInterface):
    """Puts a layer into the group of its run."""

    def __init__(self, run: str, title: str) -> None:
        super().__init__()
        self._run, self._title = run, title

    def group(self, project: QgsProject) -> QgsLayerTreeGroup:
        """Give the group of the run, at the top of the tree."""
        root = project.layerTreeRoot()
        for group in root.findGroups():
            if group.customProperty(_RUN) == self._run:
                return group
        group = root.insertGroup(0, self._title)
        group.setCustomProperty(_RUN, self._run)
        return group

    def place(self, layer: QgsMapLayer, project: QgsProject, name: str) -> None:
        """Name a layer and move it into the group, where it belongs in the order."""
        layer.setName(name)
        group = self.group(project)
        above = set(ORDER[: ORDER.index(name)])
        at = sum(node.name() in above for node in group.children())
        node = project.layerTreeRoot().findLayer(layer.id())
        if node is None:
            group.insertLayer(at, layer)
            return
        group.insertChildNode(at, node.clone())
        node.parent().removeChildNode(node)


class _ShowQuality(_Show):
    """Shows the quality layer with its classes."""

    def postProcessLayer(  # noqa: N802
        self, layer: QgsMapLayer, context: QgsProcessingContext, feedback: QgsProcessingFeedback
    ) -> None:
        """Give it its style and its place."""
        layer.loadNamedStyle(str(STYLE))
        layer.triggerRepaint()
        self.place(layer, context.project(), ORDER[0])
        _alive.discard(self)


class _ShowAfter(_Show):
    """Shows the result, and under it the image as it was, drawn alike."""

    def __init__(self, run: str, title: str, before_id: str, before: str) -> None:
        super().__init__(run, title)
        self._before_id, self._before = before_id, before

    def postProcessLayer(  # noqa: N802
        self, layer: QgsMapLayer, context: QgsProcessingContext, feedback: QgsProcessingFeedback
    ) -> None:
        """Style both and put them into the group."""
        project = context.project()
        shown = project.mapLayer(self._before_id) if self._before_id else None
        if shown is not None:
            before = shown.clone()
            _copy_style(before, layer)
        else:
            before = QgsRasterLayer(self._before, ORDER[2]) if self._before else None
            show_true_colour(layer)
            if before is not None and before.isValid():
                _copy_style(layer, before)
        self.place(layer, project, ORDER[1])
        if before is not None and before.isValid():
            project.addMapLayer(before, False)
            self.place(before, project, ORDER[2])
        _alive.discard(self)


def _copy_style(source: QgsMapLayer, target: QgsMapLayer) -> None:
    style = QgsMapLayerStyle()
    style.readFromLayer(source)
    style.writeToLayer(target)
    target.triggerRepaint()


def show_true_colour(layer: QgsRasterLayer) -> None:
    """Draw red, green and blue as such, where the bands say which they are."""
    names = [layer.bandName(band) for band in range(1, layer.bandCount() + 1)]
    found = [next((at for at, name in enumerate(names, 1) if re.search(kind, name, re.I)), 0) for kind in _TRUE_COLOUR]
    if not all(found):
        return
    layer.setRenderer(QgsMultiBandColorRenderer(layer.dataProvider(), *found))
    stretch = QgsContrastEnhancement.ContrastEnhancementAlgorithm.StretchToMinimumMaximum
    cut = of_qgis("RasterRangeLimit", "CumulativeCut", lambda: QgsRasterMinMaxOrigin.CumulativeCut)
    layer.setContrastEnhancement(stretch, cut)
    layer.triggerRepaint()
