"""The shapes of answers in the API description, following the standard's own schemas."""

from __future__ import annotations

from typing import Any

from attcr.serve.problems import SCHEMA as PROBLEM

_TEXT = {"type": "string"}
_TIME = {"type": "string", "format": "date-time"}
_LINK = {
    "type": "object",
    "required": ["href"],
    "properties": {"href": _TEXT, "rel": _TEXT, "type": _TEXT, "title": _TEXT},
}
_LINKS = {"type": "array", "items": {"$ref": "#/components/schemas/Link"}}


def _object(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": required, "properties": properties}


def _list(name: str) -> dict[str, Any]:
    return {"type": "array", "items": {"$ref": f"#/components/schemas/{name}"}}


_SUMMARY = {
    "id": _TEXT,
    "title": _TEXT,
    "description": _TEXT,
    "version": _TEXT,
    "keywords": {"type": "array", "items": _TEXT},
    "jobControlOptions": {
        "type": "array",
        "items": {"type": "string", "enum": ["sync-execute", "async-execute", "dismiss"]},
    },
    "outputTransmission": {"type": "array", "items": {"type": "string", "enum": ["value", "reference"]}},
    "links": _LINKS,
}
SCHEMAS: dict[str, Any] = {
    "Problem": PROBLEM,
    "Link": _LINK,
    "LandingPage": _object(["links"], title=_TEXT, description=_TEXT, links=_LINKS),
    "Conformance": _object(["conformsTo"], conformsTo={"type": "array", "items": _TEXT}),
    "ProcessSummary": _object(["id", "version"], **_SUMMARY),
    "ProcessList": _object(["processes", "links"], processes=_list("ProcessSummary"), links=_LINKS),
    "Process": _object(
        ["id", "version", "inputs", "outputs"], **_SUMMARY, inputs={"type": "object"}, outputs={"type": "object"}
    ),
    "Status": _object(
        ["jobID", "processID", "type", "status", "created"],
        jobID=_TEXT,
        processID=_TEXT,
        type={"type": "string", "enum": ["process"]},
        status={"type": "string", "enum": ["accepted", "running", "successful", "failed", "dismissed"]},
        message=_TEXT,
        created=_TIME,
        started=_TIME,
        finished=_TIME,
        updated=_TIME,
        progress={"type": "integer", "minimum": 0, "maximum": 100},
        stage=_TEXT,
        title=_TEXT,
        weights=_TEXT,
        notes={"type": "array", "items": _TEXT},
        links=_LINKS,
    ),
    "JobList": _object(["jobs", "links"], jobs=_list("Status"), links=_LINKS, numberMatched={"type": "integer"}),
    "Results": {"type": "object", "additionalProperties": {"$ref": "#/components/schemas/Link"}},
    "Upload": _object(["id", "name", "bytes"], id=_TEXT, name=_TEXT, bytes={"type": "integer"}),
    "Info": _object(
        ["jobID", "layers", "bounds", "georeferenced", "classes", "tiles"],
        jobID=_TEXT,
        layers={"type": "object"},
        bounds={"type": "array", "items": {"type": "number"}, "minItems": 4, "maxItems": 4},
        georeferenced={"type": "boolean"},
        classes={"type": "array", "items": {"type": "object"}},
        tiles={"type": "object"},
    ),
    "Point": _object(
        ["lon", "lat", "bands"],
        lon={"type": "number"},
        lat={"type": "number"},
        bands={"type": "array", "items": {"type": "object"}},
    ),
    "Health": _object(["status"], status=_TEXT),
}


def ref(name: str, description: str = "") -> dict[str, Any]:
    """Give what the description says of an answer in one of these shapes."""
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}
    return {"description": description or name, "content": content}


CONFORMANCE = ref("Conformance")
