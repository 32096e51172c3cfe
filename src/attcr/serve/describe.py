"""What the process `restore` takes and gives, told from RestoreOptions itself so that the two cannot differ."""

from __future__ import annotations

import ast
import inspect
import itertools
import textwrap
import types
from dataclasses import MISSING, fields
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from attcr.bands.sensors import SENSORS, Sensor
from attcr.restore.options import RestoreOptions
from attcr.version import __version__

PROCESS = "restore"
SERVER_DECIDES = ("device", "vrt", "reference_days")
"""Options that are the operator's, or of a search for references, which a service does not do."""
FILES = ("mask", "reference_mask", "sar")
"""Options that name a file: here an upload or an address."""
MASKS = ("none", "auto", "csmask", "s2cloudless", "scl", "qa_pixel")
MASK_KINDS = ("scl", "qa_pixel")
MOST = {"tile": 2048, "overlap": 1024, "batch": 32, "dilate": 512, "feather": 512}
"""The largest values allowed, because others use the machine's memory too."""
LEAST = {"tile": 16, "overlap": 0, "batch": 1, "dilate": 0, "feather": 0}
COG = "image/tiff; application=geotiff; profile=cloud-optimized"
OUTPUTS: dict[str, tuple[str, str]] = {
    "restored": ("The scene without cloud, with its own grid and type", COG),
    "quality": ("What of it is original, reconstructed, left or from another date", COG),
    "preview": ("Before and after, as a picture", "image/png"),
    "item": ("The STAC item that says how it was made", "application/geo+json"),
    "spread": ("The expected error, if the network predicts it or `confidence` was requested", COG),
    "dates": ("Days to the date that each pixel is from, with `references`", COG),
}
"""Name to what it is and its media type."""
ALWAYS = ("restored", "quality", "preview", "item")
"""Those that every job has."""

UPLOAD = {
    "type": "object",
    "title": "A file that was sent to /uploads",
    "required": ["upload"],
    "properties": {"upload": {"type": "string", "pattern": "^[0-9a-f]{32}$"}},
    "additionalProperties": False,
}
LINK = {
    "type": "object",
    "title": "The address of a raster, or of a STAC item (.json)",
    "required": ["href"],
    "properties": {"href": {"type": "string", "format": "uri"}, "type": {"type": "string"}},
}
ITEM = {
    "type": "object",
    "title": "A STAC item",
    "required": ["type", "stac_version", "id", "assets"],
    "properties": {
        "type": {"type": "string", "enum": ["Feature"]},
        "stac_version": {"type": "string"},
        "id": {"type": "string"},
        "assets": {"type": "object"},
    },
}
QUALIFIED = {
    "type": "object",
    "title": "A STAC item as a qualified value",
    "required": ["value"],
    "properties": {"value": ITEM, "mediaType": {"type": "string"}},
}
BANDS = {"type": "array", "title": "Band files", "minItems": 1, "maxItems": 32, "items": {"oneOf": [UPLOAD, LINK]}}
SCENE = {"oneOf": [UPLOAD, LINK, ITEM, QUALIFIED, BANDS]}
REFERENCE = {"oneOf": [UPLOAD, LINK, ITEM, QUALIFIED]}


@cache
def docstrings() -> dict[str, str]:
    """Give the sentence under each field of RestoreOptions."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(RestoreOptions)))
    (body,) = [node.body for node in tree.body if isinstance(node, ast.ClassDef)]
    told: dict[str, str] = {}
    for field, text in itertools.pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr):
            told[field.target.id] = str(ast.literal_eval(text.value))
    return told


def options_taken() -> list[str]:
    """Give the names of the options that a request may set."""
    return [field.name for field in fields(RestoreOptions) if field.name not in SERVER_DECIDES]


def schema_of(name: str) -> dict[str, Any]:
    """Give the JSON schema of one option."""
    if name == "references":
        return {"type": "array", "items": REFERENCE, "maxItems": 16, "default": []}
    if name == "sar":
        return {"oneOf": [UPLOAD, LINK]}
    if name in FILES:
        kinded = {"kind": {"type": "string", "enum": list(MASK_KINDS), "description": "Else 0 is clear."}}
        files = [{**one, "properties": {**one["properties"], **kinded}} for one in (UPLOAD, LINK)]  # type: ignore[dict-item]
        return {"oneOf": [{"type": "string", "enum": list(MASKS)}, *files]}
    if name == "sensor":
        return {"type": "string", "enum": list(SENSORS)}
    field = next(one for one in fields(RestoreOptions) if one.name == name)
    schema = _schema(get_type_hints(RestoreOptions)[name])
    if name in MOST:
        schema |= {"minimum": LEAST[name], "maximum": MOST[name]}
    if name == "dtype":
        schema["enum"].remove("auto")  # what a job gives does not depend on the machine that computes it
    default = getattr(RestoreOptions().on_any_machine(), name)
    if field.default is not MISSING and default is not None:
        schema["default"] = default
    return schema


def _schema(kind: Any) -> dict[str, Any]:
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        kinds = [one for one in inner if one not in (types.NoneType, Sensor)]
        return _schema(kinds[0]) if not kinds[1:] else {"oneOf": [_schema(one) for one in kinds]}
    if origin is Literal:
        return {"type": "string", "enum": list(inner)}
    if origin is tuple:
        return {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 64}
    return {"type": {bool: "boolean", int: "integer", float: "number", str: "string"}[kind]}


def inputs(weights: tuple[str, ...]) -> dict[str, Any]:
    """Describe the inputs of the process; `weights` are the names that may be asked for."""
    described: dict[str, Any] = {
        "scene": {
            "title": "scene",
            "description": "The scene: a file sent to /uploads, an address, a STAC item, or a list of band files.",
            "minOccurs": 1,
            "maxOccurs": 1,
            "schema": SCENE,
        },
        "weights": {
            "title": "weights",
            "description": "The network; without it one that fits the scene. none: clouds are only filled from "
            "references.",
            "minOccurs": 0,
            "schema": {"type": "string", "enum": list(weights)},
        },
    }
    for name in options_taken():
        described[name] = {
            "title": name,
            "description": docstrings()[name],
            "minOccurs": 0,
            "maxOccurs": 16 if name == "references" else 1,
            "schema": schema_of(name),
        }
    return described


def outputs() -> dict[str, Any]:
    """Describe the outputs of the process."""
    described = {}
    for name, (title, media) in OUTPUTS.items():
        schema: dict[str, Any] = {"type": "object", "contentMediaType": media}
        if name != "item":
            schema = {"type": "string", "contentEncoding": "binary", "contentMediaType": media}
        described[name] = {"title": name, "description": title, "schema": schema}
    return described


def summary(base: str) -> dict[str, Any]:
    """Give the summary of the process."""
    return {
        "id": PROCESS,
        "title": "Remove clouds",
        "description": "Removes the clouds of a scene: same grid, same type, clear pixels untouched, and a layer that "
        "says what is new.",
        "version": __version__,
        "jobControlOptions": ["async-execute", "dismiss"],
        "outputTransmission": ["reference", "value"],
        "keywords": ["cloud removal", "satellite images"],
        "links": [
            {"rel": "self", "href": f"{base}/processes/{PROCESS}", "type": "application/json", "title": "Description"},
            {
                "rel": "http://www.opengis.net/def/rel/ogc/1.0/execute",
                "href": f"{base}/processes/{PROCESS}/execution",
                "title": "Execute",
            },
        ],
    }


def description(base: str, weights: tuple[str, ...]) -> dict[str, Any]:
    """Give the description of the process."""
    return {**summary(base), "inputs": inputs(weights), "outputs": outputs()}
