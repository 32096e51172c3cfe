"""What the process `restore` takes and gives; its inputs are made from the options of RestoreOptions."""

from __future__ import annotations

from typing import Any

from attcr.fleet.settings import adapter
from attcr.restore.options import MASKS, Option, RestoreOptions, restore_options
from attcr.version import __version__

PROCESS = "restore"
MASK_KINDS = ("scl", "qa_pixel")
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


def options_taken() -> dict[str, Option]:
    """Give the options that a request may set."""
    return {name: option for name, option in restore_options().items() if option.served}


def schema_of(option: Option) -> dict[str, Any]:
    """Give the JSON schema of one option."""
    if option.names == "scenes":
        return {"type": "array", "items": REFERENCE, "maxItems": 16, "default": []}
    if option.names == "raster":
        return {"oneOf": [UPLOAD, LINK]}
    if option.names == "mask":
        kinded = {"kind": {"type": "string", "enum": list(MASK_KINDS), "description": "Else 0 is clear."}}
        files = [{**one, "properties": {**one["properties"], **kinded}} for one in (UPLOAD, LINK)]  # type: ignore[dict-item]
        return {"oneOf": [{"type": "string", "enum": list(MASKS)}, *files]}
    if option.choices:
        told: dict[str, Any] = {"type": "string", "enum": list(option.choices)}
    else:
        made = adapter(option.name).json_schema()
        kinds = [one for one in made.get("anyOf", [made]) if one["type"] != "null"]
        kinds = [{**one, "minItems": 1, "maxItems": 64} if one["type"] == "array" else one for one in kinds]
        told = {"oneOf": kinds} if kinds[1:] else kinds[0]
    if option.share:
        told |= {"minimum": option.share[0], "maximum": option.share[1]}
    if option.name == "dtype":
        told["enum"].remove("auto")  # what a job gives does not depend on the machine that computes it
    default = getattr(RestoreOptions().on_any_machine(), option.name)
    return told if default is None else {**told, "default": default}


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
    for name, option in options_taken().items():
        described[name] = {
            "title": name,
            "description": option.help,
            "minOccurs": 0,
            "maxOccurs": 16 if option.names == "scenes" else 1,
            "schema": schema_of(option),
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
