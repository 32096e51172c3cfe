"""What goes in: parameters that both algorithms have, and the address of a layer as attcr takes it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Callable

from qgis.core import (
    Qgis,
    QgsMapLayer,
    QgsProcessingAlgorithm,
    QgsProcessingContext,
    QgsProcessingException,
    QgsProcessingParameterDefinition,
    QgsProcessingParameterEnum,
    QgsProcessingParameterFile,
    QgsProcessingParameterRasterLayer,
    QgsRasterLayer,
)

INPUT, PRODUCT, SENSOR = "INPUT", "PRODUCT", "SENSOR"
RECOGNISED = "recognised"
CHOICES: dict[str, list[str]] = json.loads(Path(__file__).with_name("choices.json").read_text(encoding="utf-8"))
"""What attcr takes for its options, as `python tools/qgis_zip.py --choices` wrote it."""
_SENTINEL = re.compile(r"^SENTINEL2_L\w+:(?P<file>.+\.(?:xml|zip))(?::[^:]*)*$", re.IGNORECASE)
_IN_ARCHIVE = re.compile(r"^/vsi(?:zip|tar)/(?P<file>.+?\.(?:zip|tar))(?:/.*)?$", re.IGNORECASE)


def add_scene(algorithm: QgsProcessingAlgorithm) -> None:
    """Add what says which scene is meant."""
    algorithm.addParameter(QgsProcessingParameterRasterLayer(INPUT, "Cloudy image (layer or file)", optional=True))
    downloaded = "…or a product as downloaded (.zip, .tar, MTD_*.xml, *_MTL.txt)"
    product = QgsProcessingParameterFile(PRODUCT, downloaded, optional=True)
    product.setFileFilter("Products (*.zip *.tar MTD_*.xml *_MTL.txt manifest.safe *.json);;All files (*)")
    algorithm.addParameter(product)


def add_sensor(algorithm: QgsProcessingAlgorithm) -> None:
    """Add what says of which product the values are."""
    sensor = QgsProcessingParameterEnum(
        SENSOR,
        "Product (the image's own, unless it is named here)",
        options=[RECOGNISED, *CHOICES["sensor"]],
        defaultValue=RECOGNISED,
        usesStaticStrings=True,
    )
    algorithm.addParameter(sensor)


def of_qgis(kind: str, member: str, older: Callable[[], Any]) -> Any:
    """Give a member of an enumeration by its name in QGIS 4, or what was called otherwise before."""
    found = getattr(Qgis, kind, None)
    return older() if found is None else getattr(found, member)


def advanced(parameter: QgsProcessingParameterDefinition) -> QgsProcessingParameterDefinition:
    """Put a parameter among the advanced ones."""
    flag = of_qgis("ProcessingParameterFlag", "Advanced", lambda: QgsProcessingParameterDefinition.FlagAdvanced)
    parameter.setFlags(parameter.flags() | flag)
    return parameter


def missing_scene(parameters: dict[str, Any]) -> str:
    """Say what is wrong where not exactly one scene is given."""
    given = [name for name in (INPUT, PRODUCT) if parameters.get(name)]
    if not given:
        return "Choose a cloudy image, or a product as it was downloaded."
    return "Choose either an image or a product, not both." if given[1:] else ""


def scene_of(
    algorithm: QgsProcessingAlgorithm, parameters: dict[str, Any], context: QgsProcessingContext
) -> tuple[str, QgsRasterLayer | None]:
    """Give the scene's address, and its layer where it is one."""
    if parameters.get(PRODUCT):
        return algorithm.parameterAsFile(parameters, PRODUCT, context), None
    layer = algorithm.parameterAsRasterLayer(parameters, INPUT, context)
    if layer is None:
        raise QgsProcessingException(algorithm.invalidRasterError(parameters, INPUT))
    return address_of(layer), layer


def address_of(layer: QgsMapLayer) -> str:
    """Give the file or address behind a layer; of a product that QGIS shows as layers, the product."""
    if layer.providerType() != "gdal":
        raise QgsProcessingException(
            f"{layer.name()} comes from {layer.providerType()!r}, not from a raster file: save it as a GeoTIFF first "
            "(Export > Save As, raw data)."
        )
    source = str(layer.source()).partition("|")[0]  # options of QGIS follow
    sentinel = _SENTINEL.match(source)
    if not sentinel:
        return source
    archive = _IN_ARCHIVE.match(sentinel["file"])
    return archive["file"] if archive else sentinel["file"]


def sensor_options(
    algorithm: QgsProcessingAlgorithm, parameters: dict[str, Any], context: QgsProcessingContext
) -> list[str]:
    """Give the option that names the product, where one was chosen."""
    sensor = algorithm.parameterAsEnumString(parameters, SENSOR, context)
    return [] if sensor in ("", RECOGNISED) else ["--sensor", sensor]
