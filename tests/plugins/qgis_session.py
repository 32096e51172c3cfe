"""A session of the real QGIS without a window, in the Python it was built for: python3 qgis_session.py ASKED.json

ASKED names the profile, in which the plugin is already, the attcr to use, a scene, its SCL, a folder to write to and
the cases. What each case gave goes to stdout as JSON, after a line that says so.
"""

import json
import sys
import time
from pathlib import Path
from types import SimpleNamespace

ASKED = json.loads(Path(sys.argv[1]).read_text())
sys.path[:0] = ["/usr/share/qgis/python/plugins", "/usr/share/qgis/python"]

from qgis.core import (  # noqa: E402
    QgsApplication,
    QgsProcessingContext,
    QgsProcessingException,
    QgsProcessingFeedback,
    QgsProcessingModelAlgorithm,
    QgsProcessingModelChildAlgorithm,
    QgsProcessingModelChildParameterSource,
    QgsProcessingModelOutput,
    QgsProcessingModelParameter,
    QgsProcessingOutputLayerDefinition,
    QgsProcessingParameterRasterLayer,
    QgsProject,
    QgsRasterLayer,
)

application = QgsApplication([], True, ASKED["profile"])
application.initQgis()

import processing  # noqa: E402
import qgis.utils  # noqa: E402
from processing.core.Processing import Processing  # noqa: E402
from processing.core.ProcessingConfig import ProcessingConfig  # noqa: E402

FOLDER = Path(ASKED["folder"])
SCENE = {"SENSOR": "s2-l2a", "MASK": "scl", "MASK_LAYER": ASKED["scl"]}


class Feedback(QgsProcessingFeedback):
    """Hears what an algorithm says, and may cancel it at its first progress."""

    def __init__(self, cancel: bool = False) -> None:
        super().__init__(False)
        self.lines: list[str] = []
        self.percent: list[float] = []
        self._cancel = cancel
        self.progressChanged.connect(self._hear)

    def _hear(self, percent: float) -> None:
        self.percent.append(percent)
        if self._cancel:
            self.cancelled_at = time.monotonic()
            self.cancel()

    def pushInfo(self, text: str) -> None:  # noqa: N802
        self.lines.append(text)

    def pushWarning(self, text: str) -> None:  # noqa: N802
        self.lines.append(text)

    def reportError(self, text: str, fatalError: bool = False) -> None:  # noqa: N802
        self.lines.append(text)


def algorithm(name: str):
    return QgsApplication.processingRegistry().createAlgorithmById(name)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def case_installed() -> dict:
    qgis.utils.plugin_paths = [str(Path(ASKED["profile"]) / "python" / "plugins")]
    sys.path.insert(0, qgis.utils.plugin_paths[0])
    qgis.utils.updateAvailablePlugins()
    loaded = qgis.utils.loadPlugin("attcr_clouds") and qgis.utils.startProcessingPlugin("attcr_clouds")
    can, why = algorithm("attcr:removeclouds").canExecute()
    ProcessingConfig.setSettingValue("ATTCR_ENVIRONMENT", str(FOLDER))
    nothing_there = algorithm("attcr:removeclouds").canExecute()
    ProcessingConfig.setSettingValue("ATTCR_ENVIRONMENT", ASKED["attcr"])
    ids = [one.id() for one in QgsApplication.processingRegistry().providerById("attcr").algorithms()]
    found = algorithm("attcr:removeclouds").canExecute()
    return {"loaded": loaded, "without": [can, why], "elsewhere": nothing_there, "with": found, "algorithms": ids}


def case_layers() -> dict:
    """Through a layer of the project, as from the toolbox; results are loaded as there."""
    project = QgsProject.instance()
    shown = QgsRasterLayer(ASKED["scene"], "Moravia")
    renderer = shown.renderer().clone()
    for part, band in (("Red", 3), ("Green", 2), ("Blue", 1)):
        getattr(renderer, f"set{part}Band")(band)
    shown.setRenderer(renderer)
    project.addMapLayer(shown)
    feedback = Feedback()
    target = FOLDER / "layers" / "clear.tif"
    target.parent.mkdir()
    done = processing.runAndLoadResults(
        "attcr:removeclouds", {**SCENE, "INPUT": shown, "OUTPUT": str(target)}, feedback=feedback
    )
    group = next(iter(project.layerTreeRoot().findGroups()))
    layers = {node.name(): node.layer() for node in group.findLayers()}
    quality = layers["Quality"].renderer()
    bands = {name: _bands(layer) for name, layer in layers.items() if name != "Quality"}
    return {
        "done": done,
        "group": [group.name(), [node.name() for node in group.findLayers()]],
        "left outside": [node.name() for node in project.layerTreeRoot().findLayers() if node.parent() is not group],
        "legend": [[one.value, one.color.name(), one.label] for one in quality.classes()],
        "bands": bands,
        "percent": feedback.percent,
        "lines": feedback.lines,
    }


def _bands(layer: QgsRasterLayer) -> list:
    renderer = layer.renderer()
    stretch = renderer.redContrastEnhancement()
    numbers = [renderer.redBand(), renderer.greenBand(), renderer.blueBand()]
    return [*numbers, stretch.minimumValue(), stretch.maximumValue()]


def case_cancelled() -> dict:
    folder = FOLDER / "cancelled"
    folder.mkdir()
    feedback, context = Feedback(cancel=True), QgsProcessingContext()
    asked = {**SCENE, "INPUT": ASKED["scene"], "OUTPUT": str(folder / "clear.tif")}
    result, _ = algorithm("attcr:removeclouds").run(asked, context, feedback)
    return {"result": result, "left": names(folder), "took": time.monotonic() - feedback.cancelled_at}


def case_refused() -> dict:
    """What cannot go together, what is an input, and what is somebody else's."""
    told = []
    other = FOLDER / "refused" / "mine.tif"
    other.parent.mkdir()
    other.write_bytes(b"mine")
    for asked in (
        {"OUTPUT": "TEMPORARY_OUTPUT"},
        {"INPUT": ASKED["scene"], "MASK": "auto", "MASK_LAYER": ASKED["scl"], "OUTPUT": "TEMPORARY_OUTPUT"},
        {**SCENE, "INPUT": ASKED["scene"], "OUTPUT": ASKED["scene"]},
        {**SCENE, "INPUT": ASKED["scene"], "OUTPUT": str(other)},
        {
            "INPUT": ASKED["scene"],
            "WEIGHTS": "rice2-small",
            "SENSOR": "s2-l2a",
            "OUTPUT": str(other.with_name("out.tif")),
        },
    ):
        feedback = Feedback()
        try:
            processing.run("attcr:removeclouds", asked, feedback=feedback)
            told.append("ran")
        except Exception as error:
            told.append(str(error) + " ".join(feedback.lines[1:]))
    return {"told": told, "left": names(other.parent)}


def case_weights() -> dict:
    done = processing.run(
        "attcr:whichweights",
        {"INPUT": ASKED["scene"], "SENSOR": "s2-l2a", "REPORT": str(FOLDER / "weights.html")},
    )
    return {"weights": done["WEIGHTS"], "report": Path(done["REPORT"]).read_text()}


def case_options() -> dict:
    """The command that the parameters make, and what a program that is no attcr ends in."""
    asked = {
        **SCENE,
        "INPUT": ASKED["scene"],
        "WEIGHTS": "rgb-thin",
        "WEIGHTS_FILE": "hf://me/mine",
        "REFERENCES": [ASKED["scl"], ASKED["scene"]],
        "UNSEEN": "fill",
        "BANDS": "3,2,1",
        "EXTRA": "--dilate 12",
        "OUTPUT": str(FOLDER / "options.tif"),
    }
    feedback, told = Feedback(), ""
    ProcessingConfig.setSettingValue("ATTCR_ENVIRONMENT", "/bin/false")
    try:
        processing.run("attcr:removeclouds", asked, feedback=feedback)
    except QgsProcessingException as error:
        told = str(error)
    ProcessingConfig.setSettingValue("ATTCR_ENVIRONMENT", ASKED["attcr"])
    return {"command": feedback.lines[0], "told": told}


def case_addresses() -> dict:
    """What attcr is given of layers as QGIS names them."""
    from attcr_clouds.scene import address_of

    told = []
    for provider, source in (
        ("gdal", "/data/scene.tif|option:NUM_THREADS=2"),
        ("gdal", "SENTINEL2_L2A:/data/S2A.SAFE/MTD_MSIL2A.xml:10m:EPSG_32633"),
        ("gdal", "SENTINEL2_L1C:/vsizip//data/S2A.zip/S2A.SAFE/MTD_MSIL1C.xml:TCI:EPSG_32633"),
        ("gdal", "SENTINEL2_L1C:C:/data/MTD_MSIL1C.xml:20m:EPSG_32633"),
        ("wms", "url=https://tiles.example"),
    ):
        layer = SimpleNamespace(providerType=lambda p=provider: p, source=lambda s=source: s, name=lambda: "a layer")
        try:
            told.append(address_of(layer))
        except QgsProcessingException as error:
            told.append(str(error))
    return {"told": told}


def case_model() -> dict:
    """A model that asks which weights fit, then removes the clouds with them; saved as .model3 and opened again."""
    model = QgsProcessingModelAlgorithm("clear", "models")
    model.addModelParameter(QgsProcessingParameterRasterLayer("image"), QgsProcessingModelParameter("image"))
    source = QgsProcessingModelChildParameterSource
    fit = QgsProcessingModelChildAlgorithm("attcr:whichweights")
    fit.setChildId("fit")
    fit.addParameterSources("INPUT", [source.fromModelParameter("image")])
    fit.addParameterSources("SENSOR", [source.fromStaticValue("s2-l2a")])
    model.addChildAlgorithm(fit)
    clear = QgsProcessingModelChildAlgorithm("attcr:removeclouds")
    clear.setChildId("clear")
    clear.addParameterSources("INPUT", [source.fromModelParameter("image")])
    clear.addParameterSources("WEIGHTS", [source.fromChildOutput("fit", "WEIGHTS")])
    for name, value in SCENE.items():
        clear.addParameterSources(name, [source.fromStaticValue(value)])
    output = QgsProcessingModelOutput("result")
    output.setChildId("clear")
    output.setChildOutputName("OUTPUT")
    clear.setModelOutputs({"result": output})
    model.addChildAlgorithm(clear)
    model.updateDestinationParameters()
    saved = FOLDER / "clear.model3"
    model.toFile(str(saved))
    opened = QgsProcessingModelAlgorithm()
    opened.fromFile(str(saved))
    context, feedback = QgsProcessingContext(), Feedback()
    context.setProject(QgsProject.instance())
    (FOLDER / "model").mkdir()
    asked = {"image": ASKED["scene"], "clear:result": str(FOLDER / "model" / "clear.tif")}
    result, ok = opened.run(asked, context, feedback)
    return {"ok": ok, "result": result, "lines": feedback.lines, "loads": list(context.layersToLoadOnCompletion())}


def case_batch() -> dict:
    """The batch dialog itself, with two rows."""
    from processing.gui.BatchAlgorithmDialog import BatchAlgorithmDialog

    folder = FOLDER / "batch"
    folder.mkdir()
    dialog = BatchAlgorithmDialog(algorithm("attcr:removeclouds"))
    panel, rows = dialog.mainWidget(), ("one", "two")

    def parameters_of(row: int, destinationProject=None, warnOnInvalid=True):
        output = QgsProcessingOutputLayerDefinition(str(folder / f"{rows[row]}.tif"), destinationProject)
        return {**SCENE, "INPUT": ASKED["scene"], "OUTPUT": output}, True

    panel.batchRowCount, panel.parametersForRow = lambda: len(rows), parameters_of
    root = QgsProject.instance().layerTreeRoot()
    before = len(root.findGroups())
    panel.checkLoadLayersOnCompletion.setChecked(True)
    dialog.runAlgorithm()
    return {"left": names(folder), "groups": len(root.findGroups()) - before}


def main() -> None:
    Processing.initialize()
    told = {}
    for name in ASKED["cases"]:
        began = time.monotonic()
        told[name] = globals()[f"case_{name}"]()
        told[name]["seconds"] = time.monotonic() - began
    print("told:", json.dumps(told, default=str), sep="\n", flush=True)
    QgsProject.instance().clear()


main()
