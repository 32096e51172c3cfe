"""The algorithm that removes clouds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from qgis.core import (
    QgsProcessing,
    QgsProcessingAlgorithm,
    QgsProcessingContext,
    QgsProcessingException,
    QgsProcessingFeedback,
    QgsProcessingOutputRasterLayer,
    QgsProcessingParameterEnum,
    QgsProcessingParameterFile,
    QgsProcessingParameterMultipleLayers,
    QgsProcessingParameterRasterDestination,
    QgsProcessingParameterRasterLayer,
    QgsProcessingParameterString,
)
from qgis.PyQt.QtGui import QIcon

from .engine import EngineError, Listener, restore, split_options, told_pixels
from .layers import show_results
from .scene import (
    CHOICES,
    add_scene,
    add_sensor,
    address_of,
    advanced,
    missing_scene,
    of_qgis,
    scene_of,
    sensor_options,
)
from .setting import ICON, can_run, chosen_attcr

WEIGHTS, WEIGHTS_FILE, MASK, MASK_LAYER = "WEIGHTS", "WEIGHTS_FILE", "MASK", "MASK_LAYER"
REFERENCES, UNSEEN, BANDS, EXTRA = "REFERENCES", "UNSEEN", "BANDS", "EXTRA"
OUTPUT, QUALITY = "OUTPUT", "QUALITY"
FITTING, CHOSEN_MASK = "those that fit", "best available"

HELP = """
<p>Removes clouds from a satellite image. The result has the grid, type and numbers of the image: only what is under
cloud changes. A quality layer says what was reconstructed, what is still cloud and what is from another date.</p>
<h3>Weights</h3>
<p><i>those that fit</i> takes the first of attcr's own weights that fit the image; <i>Which weights fit this layer</i>
names them and says why. <i>none</i> uses no network: clouds are only filled from images of other dates. Weights of your
own, or from hf://OWNER/NAME or a URL, go into <i>Other weights</i>.</p>
<h3>Where the clouds are</h3>
<p><i>best available</i>: the product's own mask or detectors, and the network, vote. <i>auto</i> alone is (what
is bright and grey). With a mask layer, whatever is not 0 in it is cloud; with <i>scl</i> or <i>qa_pixel</i> the layer
is read as Sentinel-2's scene classification or Landsat's QA_PIXEL. <i>none</i>: every pixel goes through the
network.</p>
<h3>Images of other dates</h3>
<p>Under thick cloud one image holds nothing. Images of the same place fill it, but for their own clouds.</p>
<h3>Cloud that cannot be removed</h3>
<p><i>keep</i> leaves it as it came, <i>fill</i> lets the network paint over it (low confidence), <i>nodata</i> makes
it no data.</p>
<h3>Output</h3>
<p>Beside the output are written NAME_quality.tif, NAME_preview.png and NAME.json, which says how it was made.</p>
""".replace("\n", " ")  # QGIS would break the lines here


class RemoveClouds(QgsProcessingAlgorithm):
    """Runs `attcr restore`."""

    def createInstance(self) -> RemoveClouds:  # noqa: N802
        """Give a new one."""
        return RemoveClouds()

    def name(self) -> str:
        """Give the name for scripts."""
        return "removeclouds"

    def displayName(self) -> str:  # noqa: N802
        """Give the name in the toolbox."""
        return "Remove clouds"

    def shortDescription(self) -> str:  # noqa: N802
        """Give what it does in a line."""
        return "Removes clouds from a satellite image and says what of it is reconstructed."

    def shortHelpString(self) -> str:  # noqa: N802
        """Give the help beside the dialog."""
        return HELP

    def tags(self) -> list[str]:
        """Give what it is found by in the toolbox."""
        return ["cloud", "clouds", "haze", "cirrus", "sentinel", "landsat", "restore", "gap filling"]

    def icon(self) -> QIcon:
        """Give its picture."""
        return QIcon(str(ICON))

    def initAlgorithm(self, configuration: dict[str, Any] | None = None) -> None:  # noqa: N802
        """Add the parameters and outputs."""
        add_scene(self)
        add_sensor(self)
        self.addParameter(_choice(WEIGHTS, "Weights", [FITTING, *CHOICES["weights"]]))
        add_mask(self)
        add_references(self, optional=True)
        other = QgsProcessingParameterFile(
            WEIGHTS_FILE, "Other weights (a file, hf://OWNER/NAME or a URL)", optional=True
        )
        other.setFileFilter("Weights (*.safetensors *.onnx);;All files (*)")
        self.addParameter(advanced(other))
        self.addParameter(advanced(_choice(UNSEEN, "Cloud that cannot be removed", CHOICES["unseen"])))
        bands = "Bands for the network, where the file does not name them (numbers from 1, as 3,2,1)"
        self.addParameter(advanced(QgsProcessingParameterString(BANDS, bands, optional=True)))
        extra = "Additional options of attcr restore (as --dilate 12 --confidence)"
        self.addParameter(advanced(QgsProcessingParameterString(EXTRA, extra, optional=True)))
        add_outputs(self)

    def canExecute(self) -> tuple[bool, str]:  # noqa: N802
        """Say whether there is an attcr to run."""
        return can_run()

    def checkParameterValues(  # noqa: N802
        self, parameters: dict[str, Any], context: QgsProcessingContext
    ) -> tuple[bool, str]:
        """Refuse what cannot go together before anything runs."""
        wrong = missing_scene(parameters) or self._wrong_mask(parameters, context)
        return (False, wrong) if wrong else super().checkParameterValues(parameters, context)

    def _wrong_mask(self, parameters: dict[str, Any], context: QgsProcessingContext) -> str:
        mask = self.parameterAsEnumString(parameters, MASK, context)
        if parameters.get(MASK_LAYER) and mask not in (CHOSEN_MASK, "scl", "qa_pixel", ""):
            return f"The mask is {mask!r}, which takes no layer: leave the mask layer empty, or choose {CHOSEN_MASK!r}."
        return ""

    def prepareAlgorithm(  # noqa: N802
        self, parameters: dict[str, Any], context: QgsProcessingContext, feedback: QgsProcessingFeedback
    ) -> bool:
        """Turn layers into addresses, in the main thread, where layers live."""
        try:
            self._attcr = chosen_attcr()
            self._scene, layer = scene_of(self, parameters, context)
            self._before, self._before_id, self._name = "", "", Path(self._scene).name
            if layer is not None:
                self._before, self._name, project = self._scene, layer.name(), context.project()
                self._before_id = layer.id() if project and project.mapLayer(layer.id()) else ""
            given = self.parameterAsLayerList(parameters, REFERENCES, context) if parameters.get(REFERENCES) else []
            references = [address_of(layer) for layer in given]
            self._inputs = list(references)
            self._options = [
                *self.weights(parameters, context),
                *self._mask(parameters, context),
                *(word for reference in references for word in ("--reference", reference)),
                *sensor_options(self, parameters, context),
                *self.further(parameters, context),
            ]
        except EngineError as error:
            raise QgsProcessingException(str(error)) from error
        return True

    def weights(self, parameters: dict[str, Any], context: QgsProcessingContext) -> list[str]:
        """Give the option that names the network."""
        other = self.parameterAsFile(parameters, WEIGHTS_FILE, context).strip()
        weights = other or self.parameterAsEnumString(parameters, WEIGHTS, context)
        return [] if weights in ("", FITTING) else ["--weights", weights]

    def _mask(self, parameters: dict[str, Any], context: QgsProcessingContext) -> list[str]:
        mask = self.parameterAsEnumString(parameters, MASK, context)
        layer = self.parameterAsRasterLayer(parameters, MASK_LAYER, context) if parameters.get(MASK_LAYER) else None
        if layer is not None:
            self._inputs.append(address_of(layer))
            raster = self._inputs[-1]
            return ["--mask", raster if mask in ("", CHOSEN_MASK) else f"{mask}={raster}"]
        if parameters.get(MASK_LAYER):
            raise QgsProcessingException(self.invalidRasterError(parameters, MASK_LAYER))
        return [] if mask in ("", CHOSEN_MASK) else ["--mask", mask]

    def further(self, parameters: dict[str, Any], context: QgsProcessingContext) -> list[str]:
        """Give the advanced options."""
        bands = self.parameterAsString(parameters, BANDS, context).strip()
        unseen = self.parameterAsEnumString(parameters, UNSEEN, context)
        return [
            *(["--bands", bands] if bands else []),
            *(["--unseen", unseen] if unseen not in ("", CHOICES["unseen"][0]) else []),
            *split_options(self.parameterAsString(parameters, EXTRA, context)),
        ]

    def processAlgorithm(  # noqa: N802
        self, parameters: dict[str, Any], context: QgsProcessingContext, feedback: QgsProcessingFeedback
    ) -> dict[str, Any]:
        """Run attcr, and have its results loaded where the output is."""
        target = Path(self.parameterAsOutputLayer(parameters, OUTPUT, context))
        feedback.pushInfo(f"{self._attcr} restore {self._scene} {target} {' '.join(self._options)}")
        try:
            result = restore(self._attcr, self._scene, target, self._options, self._inputs, listener_of(feedback))
        except EngineError as error:
            raise QgsProcessingException(str(error)) from error
        if result is None:
            feedback.pushInfo("Stopped: nothing was written.")
            return {}
        feedback.pushInfo(f"Clouds by: {result.get('mask')}")
        for line in told_pixels(result):
            feedback.pushInfo(line)
        quality = target.with_name(f"{target.stem}_quality.tif")
        shown = {"name": self._name, "before_id": self._before_id, "before": self._before}
        show_results(context, str(target), str(quality), **shown)
        return {OUTPUT: str(target), QUALITY: str(quality)}


def listener_of(feedback: QgsProcessingFeedback) -> Listener:
    """Give what hands attcr's words on to QGIS."""

    def progress(percent: float, text: str) -> None:
        feedback.setProgress(percent)
        feedback.setProgressText(text)

    return Listener(progress, feedback.pushInfo, feedback.pushWarning, feedback.isCanceled)


def add_mask(algorithm: QgsProcessingAlgorithm) -> None:
    """Add what says where the clouds are."""
    algorithm.addParameter(_choice(MASK, "Where the clouds are", [CHOSEN_MASK, *CHOICES["mask"]]))
    algorithm.addParameter(QgsProcessingParameterRasterLayer(MASK_LAYER, "Mask layer", optional=True))


def add_references(algorithm: QgsProcessingAlgorithm, *, optional: bool) -> None:
    """Add the images of other dates."""
    raster = of_qgis("ProcessingSourceType", "Raster", lambda: QgsProcessing.TypeRaster)
    given = QgsProcessingParameterMultipleLayers(
        REFERENCES, "Images of other dates", layerType=raster, optional=optional
    )
    algorithm.addParameter(given)


def add_outputs(algorithm: QgsProcessingAlgorithm) -> None:
    """Add the result and its quality layer."""
    algorithm.addParameter(QgsProcessingParameterRasterDestination(OUTPUT, "Without clouds"))
    algorithm.addOutput(QgsProcessingOutputRasterLayer(QUALITY, "Quality"))


def _choice(name: str, description: str, options: list[str]) -> QgsProcessingParameterEnum:
    return QgsProcessingParameterEnum(
        name, description, options=options, defaultValue=options[0], usesStaticStrings=True
    )
