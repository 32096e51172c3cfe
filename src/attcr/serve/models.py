"""What requests hold and what answers say: models, and the schemas that the API's description shows of them."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, RootModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, models_json_schema
from pydantic_core import core_schema

from attcr.addresses import redact
from attcr.fleet.settings import adapter
from attcr.restore.options import MASKS, Option, RestoreOptions, restore_options
from attcr.version import __version__

PROCESS = "restore"
MASK_KINDS = ("scl", "qa_pixel")
REL = "http://www.opengis.net/def/rel/ogc/1.0"
JSON, OPENAPI = "application/json", "application/vnd.oai.openapi+json;version=3.0"
COG = "image/tiff; application=geotiff; profile=cloud-optimized"
OutputName = Literal["restored", "quality", "preview", "item", "spread", "dates"]
OUTPUTS: dict[str, tuple[str, str]] = {
    "restored": ("The scene without cloud, with its own grid and type", COG),
    "quality": ("What of it is original, reconstructed, left, or from another date or radar", COG),
    "preview": ("Before and after, as a picture", "image/png"),
    "item": ("The STAC item that says how it was made", "application/geo+json"),
    "spread": ("The expected error, if the network predicts it or `confidence` was requested", COG),
    "dates": ("Days to the date that each pixel is from, with `references`", COG),
}
"""Name to what it is and its media type."""
JobStatus = Literal["accepted", "running", "successful", "failed", "dismissed"]


class Ref(BaseModel):
    """One file, or STAC item, that a request names."""

    model_config = ConfigDict(frozen=True)
    slot: str
    """scene, references, mask, reference_mask or radar."""
    upload: str = ""
    href: str = ""
    item: dict[str, Any] | None = None
    kind: Annotated[Literal["", "scl", "qa_pixel"], BeforeValidator(lambda given: given or "")] = ""
    """Of a mask; else 0 is clear."""

    def shown(self) -> str:
        """Name it without secrets."""
        return self.upload or redact(self.href) or str((self.item or {}).get("id", ""))


class Asked(BaseModel):
    """What a request asks for, as it is kept on the disk."""

    model_config = ConfigDict(frozen=True)
    refs: tuple[Ref, ...]
    options: dict[str, Any] = {}
    """Of RestoreOptions, but for those that name files."""
    weights: str | None = None
    outputs: tuple[OutputName, ...] = ()
    """Those that were named; none named are all."""
    raw: bool = False
    """Whether a single output is asked for as it is, not in a document."""


class Output(BaseModel):
    """How an output is wanted; all are given by reference."""

    transmissionMode: Literal["value", "reference"] = "reference"


class Execute(BaseModel):
    """The body of an execute request; the inputs are read by `attcr.serve.inputs`."""

    inputs: dict[str, Any]
    outputs: Annotated[dict[OutputName, Output], BeforeValidator(lambda given: given or {})] = {}
    response: Literal["document", "raw"] = "document"


def refusal_of(errors: Sequence[Mapping[str, Any]], start: int = 0) -> str:
    """Give what pydantic says of a value, in one line; `start` parts of its place are left out."""
    told = [(".".join(str(part) for part in one["loc"][start:]) or "The request", one["msg"]) for one in errors]
    return f"{'; '.join(f'{place}: {message}' for place, message in told)}."


class Answer(BaseModel):
    """An answer; what is None is left out."""

    model_config = ConfigDict(extra="allow")

    def plain(self) -> dict[str, Any]:
        """Give it as plain values."""
        return self.model_dump(mode="json", exclude_none=True)

    def whole(self) -> dict[str, Any]:
        """Give it as plain values, and what is not known as null."""
        return self.model_dump(mode="json")


Time = Annotated[str, Field(json_schema_extra={"format": "date-time"})]


class Problem(Answer):
    """Why a request is refused (RFC 7807)."""

    model_config = ConfigDict(title="Problem")
    type: str
    title: str
    status: int
    detail: str
    instance: str | None = None


class Link(Answer):
    """Where else to look."""

    rel: str | None = None
    href: str
    type: str | None = None
    title: str | None = None


class LandingPage(Answer):
    """The links of the service."""

    title: str | None = None
    description: str | None = None
    links: list[Link]


class Conformance(Answer):
    """The classes of the standard."""

    conformsTo: list[str]


class ProcessSummary(Answer):
    """A process in the list of processes."""

    id: str
    title: str | None = None
    description: str | None = None
    version: str
    jobControlOptions: list[Literal["sync-execute", "async-execute", "dismiss"]] | None = None
    outputTransmission: list[Literal["value", "reference"]] | None = None
    keywords: list[str] | None = None
    links: list[Link] | None = None


class Process(ProcessSummary):
    """A process with what it takes and gives."""

    inputs: dict[str, Any]
    outputs: dict[str, Any]


class ProcessList(Answer):
    """The processes."""

    processes: list[ProcessSummary]
    links: list[Link]


class Status(Answer):
    """How far a job is."""

    jobID: str
    processID: str
    type: Literal["process"]
    status: JobStatus
    message: str | None = None
    created: Time
    started: Time | None = None
    finished: Time | None = None
    updated: Time | None = None
    progress: Annotated[int, Field(ge=0, le=100)] | None = None
    stage: str | None = None
    title: str | None = None
    weights: str | None = None
    notes: list[str] | None = None
    links: list[Link] | None = None


class JobList(Answer):
    """Jobs, newest first."""

    jobs: list[Status]
    links: list[Link]
    numberMatched: int | None = None


class Results(RootModel[dict[str, Link]]):
    """Where the outputs of a job are."""


class Upload(Answer):
    """A file that was sent."""

    id: str
    name: str
    bytes: int


class Info(Answer):
    """Where a scene is, its bands, classes and tiles."""

    jobID: str
    layers: dict[str, Any]
    bounds: Annotated[list[float], Field(min_length=4, max_length=4)]
    georeferenced: bool
    classes: list[dict[str, Any]]
    tiles: dict[str, Any]


class Point(Answer):
    """The numbers at a place."""

    lon: float
    lat: float
    bands: list[dict[str, Any]]


class Health(Answer):
    """How the server is."""

    status: str


class _Schemas(GenerateJsonSchema):
    """Schemas as OpenAPI 3.0 and the standard write them: no titles made of names, no null, no const."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def literal_schema(self, schema: core_schema.LiteralSchema) -> JsonSchemaValue:
        return {"type": "string", "enum": list(schema["expected"])}

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        made = super().dict_schema(schema)
        return {key: value for key, value in made.items() if (key, value) != ("additionalProperties", True)}

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        made = super().model_schema(schema)
        left_out = {"description"} if "title" in schema["cls"].model_config else {"description", "title"}
        if not schema.get("root_model"):
            left_out.add("additionalProperties")
        return {key: value for key, value in made.items() if key not in left_out}


_ANSWERS = (
    Problem, Link, LandingPage, Conformance, ProcessSummary, ProcessList, Process, Status, JobList, Results, Upload,
    Info, Point, Health,
)  # fmt: skip
SCHEMAS: dict[str, Any] = models_json_schema(
    [(model, "validation") for model in _ANSWERS],
    ref_template="#/components/schemas/{model}",
    schema_generator=_Schemas,
)[1]["$defs"]
"""The shapes of answers in the API's description."""


def ref(model: type[BaseModel]) -> dict[str, Any]:
    """Give what the API's description says of an answer of this model."""
    content = {JSON: {"schema": {"$ref": f"#/components/schemas/{model.__name__}"}}}
    return {"description": model.__name__, "content": content}


def _object(title: str, *required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "title": title, "required": list(required), "properties": properties}


TEXT = {"type": "string"}
UPLOAD = {
    **_object("A file that was sent to /uploads", "upload", upload={**TEXT, "pattern": "^[0-9a-f]{32}$"}),
    "additionalProperties": False,
}
LINK = _object("The address of a raster, or of a STAC item (.json)", "href", href={**TEXT, "format": "uri"}, type=TEXT)
_KEYS = ("type", "stac_version", "id", "assets")
ITEM = _object(
    "A STAC item", *_KEYS, type={**TEXT, "enum": ["Feature"]}, stac_version=TEXT, id=TEXT, assets={"type": "object"}
)
QUALIFIED = _object("A STAC item as a qualified value", "value", value=ITEM, mediaType=TEXT)
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
        files = [{**one, "properties": {**one["properties"], **kinded}} for one in (UPLOAD, LINK)]
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

    def one(name: str, description: str, schema: dict[str, Any], **occurs: int) -> dict[str, Any]:
        return {"title": name, "description": description, **occurs, "schema": schema}

    scene = "The scene: a file sent to /uploads, an address, a STAC item, or a list of band files."
    network = "The network; without it one that fits the scene. none: clouds are only filled from references."
    described = {
        "scene": one("scene", scene, SCENE, minOccurs=1, maxOccurs=1),
        "weights": one("weights", network, {"type": "string", "enum": list(weights)}, minOccurs=0),
    }
    for name, option in options_taken().items():
        most = 16 if option.names == "scenes" else 1
        described[name] = one(name, option.help, schema_of(option), minOccurs=0, maxOccurs=most)
    return described


def outputs() -> dict[str, Any]:
    """Describe the outputs of the process."""
    described = {}
    for name, (title, media) in OUTPUTS.items():
        kind = {"type": "object"} if name == "item" else {"type": "string", "contentEncoding": "binary"}
        described[name] = {"title": name, "description": title, "schema": {**kind, "contentMediaType": media}}
    return described


def execute_schema(weights: tuple[str, ...]) -> dict[str, Any]:
    """Give the JSON schema of an execute request."""
    taken = {name: one["schema"] for name, one in inputs(weights).items()}
    given = {name: {"type": "object"} for name in OUTPUTS}
    closed = {"additionalProperties": False}
    properties = {
        "inputs": {"type": "object", "required": ["scene"], "properties": taken, **closed},
        "outputs": {"type": "object", "properties": given, **closed},
        "response": {"type": "string", "enum": ["document", "raw"], "default": "document"},
    }
    return {"type": "object", "required": ["inputs"], "properties": properties}


def summary(base: str) -> ProcessSummary:
    """Give the summary of the process."""
    at = f"{base}/processes/{PROCESS}"
    return ProcessSummary(
        id=PROCESS,
        title="Remove clouds",
        description="Removes the clouds of a scene: same grid, same type, clear pixels untouched, and a layer that "
        "says what is new.",
        version=__version__,
        jobControlOptions=["async-execute", "dismiss"],
        outputTransmission=["reference", "value"],
        keywords=["cloud removal", "satellite images"],
        links=[
            Link(rel="self", href=at, type=JSON, title="Description"),
            Link(rel=f"{REL}/execute", href=f"{at}/execution", title="Execute"),
        ],
    )


def description(base: str, weights: tuple[str, ...]) -> Process:
    """Give the description of the process."""
    return Process(**summary(base).plain(), inputs=inputs(weights), outputs=outputs())
