"""The routes of tiles, facts and points; the processes that draw them are `attcr.serve.tiles`."""

import json
import re
import sys
import uuid
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any, Literal

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import JSONResponse, Response

from attcr.restore.walk import QUALITY_COLOURS, QUALITY_NAMES
from attcr.serve.guard import base_of, job_of
from attcr.serve.inputs import READY
from attcr.serve.models import Info, Point, TileSet, ref
from attcr.serve.pool import Pool, Reply, WorkerDied
from attcr.serve.problems import INVALID, NOT_READY, Problem, documented
from attcr.serve.settings import Limits
from attcr.serve.store import JobState, JobStore, read_object

PROCESSES = 2
WAITING = 8
"""Requests of a user that may wait for them at once; others wait before they take a thread of the server's."""
SECONDS = 30.0
"""That one tile may take."""
LAYERS = ("input", "result", "quality")
SIZES = {"": 256, "@1x": 256, "@2x": 512}
DEEPEST = 24
_ROW = re.compile(r"(?P<y>\d{1,8})(?P<size>@[12]x)?\.png")
_REFUSALS = documented(400, 401, 404, 422)
_PNG = {"image/png": {"schema": {"type": "string", "format": "binary"}}}
routes = APIRouter(tags=["pictures"])


def pool() -> Pool:
    """Give the processes that draw: one, and another where requests wait."""
    return Pool((sys.executable, "-m", "attcr.serve.tiles"), least=1, most=PROCESSES, seconds=SECONDS)


def classes(pixels: dict[str, int]) -> list[dict[str, Any]]:
    """Give the classes of a quality raster with their colours."""
    return [
        {
            "value": value,
            "name": name,
            "colour": "#{:02x}{:02x}{:02x}".format(*QUALITY_COLOURS[value][:3]),
            "opacity": QUALITY_COLOURS[value][3] / 255,
            "pixels": pixels.get(name, 0),
        }
        for value, name in enumerate(QUALITY_NAMES)
    ]


class Pictures:
    """What of a job can be shown."""

    def __init__(self, store: JobStore, pool: Pool, limits: Limits) -> None:
        self._store, self._pool, self._limits = store, pool, limits
        self._waiting: dict[str, CapacityLimiter] = {}

    def waiting(self, owner: str) -> CapacityLimiter:
        """Give what a user's requests wait for."""
        return self._waiting.setdefault(owner, CapacityLimiter(WAITING))

    def _ask(self, job: JobState, request: dict[str, Any]) -> Reply:
        """Give the answer of a process; a file that cannot be shown is refused."""
        try:
            answer = self._pool.submit(uuid.uuid4().hex, request, owner=job.owner).result()
        except WorkerDied:
            raise Problem(422, "The file cannot be shown: whatever reads it died or took too long.", INVALID) from None
        if "error" in answer.told:
            raise Problem(422, f"The file cannot be shown: {answer.told['error']}", INVALID)
        return answer

    def files(self, job: JobState) -> dict[str, Any]:
        """Give the files of a job that are there."""
        folder = self._store.folder(job.id)
        try:
            ready = json.loads((folder / READY).read_bytes())
        except (OSError, ValueError):
            raise Problem(404, f"The files of the job {job.id} are not there.", NOT_READY) from None
        files = self._store.results(job) if job.status == "successful" else {}
        shown = {name: str(path) for name, path in files.items() if name in ("restored", "quality", "dates")}
        source, sensor = [str(folder / place) for place in ready["scene"]], ready["options"].get("sensor") or ""
        return {"source": source, "sensor": sensor, "files": shown, "limits": asdict(self._limits)}

    def tile(self, job: JobState, layer: str, at: tuple[int, int, int], size: int, show: str) -> bytes:
        """Give a tile as PNG."""
        files = self.files(job)
        if layer != "input" and not files["files"]:
            raise Problem(404, f"The job {job.id} is {job.status}: its {layer} is not there.", NOT_READY)
        z, x, y = at
        asked = {"call": "tile", "layer": layer, "z": z, "x": x, "y": y, "size": size, "show": show}
        return self._ask(job, {**asked, **files}).content

    def info(self, job: JobState, base: str) -> Info:
        """Give where a job's scene is, its bands, classes and tiles."""
        files = self.files(job)
        told = self._ask(job, {"call": "info", **files}).told["told"]
        there = {name: name == "input" or bool(files["files"]) for name in LAYERS}
        version = 2 if files["files"] else 1
        start = f"{base}/jobs/{job.id}/tiles"
        properties = self._properties(job)
        return Info.model_validate(
            {
                "jobID": job.id,
                "layers": there,
                **told,
                "classes": classes(properties.get("attcr:pixels", {})),
                "references": self._references(properties),
                "tiles": {name: f"{start}/{name}/{{z}}/{{x}}/{{y}}.png?v={version}" for name in LAYERS if there[name]},
            }
        )

    def _properties(self, job: JobState) -> dict[str, Any]:
        """Give those of a job's STAC item; none while there is none."""
        item = read_object(self._store.results(job)["item"]) if job.status == "successful" else {}
        return dict(item.get("properties", {}))

    def _references(self, properties: dict[str, Any]) -> list[dict[str, Any]]:
        kept = ("days", "share", "pixels", "method", "expected_error")
        return [
            {
                "number": number,
                "name": self._store.public(str(one.get("name", ""))),
                **{name: one.get(name) for name in kept},
            }
            for number, one in enumerate(properties.get("attcr:references", []), 1)
        ]

    def point(self, job: JobState, lon: float, lat: float) -> Point:
        """Give the numbers at a place before and after, its class and date."""
        told = self._ask(job, {"call": "point", "lon": lon, "lat": lat, **self.files(job)}).told["told"]
        if told is None:
            raise Problem(404, f"The place {lon:g}, {lat:g} is outside the scene.")
        value = told["quality"]
        if value is not None:
            told["quality"] = {"value": value, "name": QUALITY_NAMES[value]}
        if told["date"] is not None:
            named = self._references(self._properties(job))
            number = told["date"]["reference"]
            told["date"]["name"] = next((one["name"] for one in named if one["number"] == number), "")
            if told["date"]["days"] == -(1 << 15):
                told["date"]["days"] = None
        return Point(lon=lon, lat=lat, **told)


async def _made(request: Request, make: Callable[..., Any], job: JobState, *told: Any) -> Any:
    """Make something of a job's pictures, in a thread."""
    pictures: Pictures = request.app.state.pictures
    return await run_sync(make, pictures, job, *told, limiter=pictures.waiting(job.owner))


@routes.get("/jobs/{job}/info", responses={200: ref(Info), **_REFUSALS})
async def job_info(request: Request, job: str) -> JSONResponse:
    """Say where a scene is, what its bands and classes are, and where its tiles are."""
    return JSONResponse((await _made(request, Pictures.info, job_of(request, job), base_of(request))).whole())


@routes.get(
    "/jobs/{job}/tiles/{layer}/{z}/{x}/{y}",
    responses={200: {"description": "A tile", "content": _PNG}, **_REFUSALS},
    response_class=Response,
)
async def tile(
    request: Request,
    job: str,
    layer: str,
    z: Annotated[int, Path(ge=0, le=DEEPEST)],
    x: Annotated[int, Path(ge=0, lt=1 << DEEPEST)],
    y: str,
    show: Literal["true", "false", "swir", "ndvi"] = "true",
) -> Response:
    """Draw a tile of the input, the result or the quality; y ends in .png, or in @2x.png; `show` are its colours."""
    found, row = job_of(request, job), _ROW.fullmatch(y)
    if layer not in LAYERS or row is None or max(x, int(row["y"])) >= 1 << z:
        raise Problem(404, f"There is no such tile; layers are {', '.join(LAYERS)}.")
    content = await _made(request, Pictures.tile, found, layer, (z, x, int(row["y"])), SIZES[row["size"] or ""], show)
    return Response(content, media_type="image/png", headers={"Cache-Control": "private, max-age=3600"})


@routes.get("/jobs/{job}/tiles/{layer}.json", responses={200: ref(TileSet), **_REFUSALS})
async def tile_set(request: Request, job: str, layer: str) -> JSONResponse:
    """Say where the tiles of a layer are, as TileJSON: the input, the result or the quality."""
    told = await _made(request, Pictures.info, found := job_of(request, job), base_of(request))
    if layer not in told.tiles:
        raise Problem(404, f"The job {job} has no layer {layer[:60]!r}; it has {', '.join(told.tiles)}.")
    place = {name: getattr(told, name) for name in ("bounds", "center", "minzoom", "maxzoom")}
    tiles = [told.tiles[layer]]
    return JSONResponse(TileSet(tilejson="3.0.0", name=f"{found.title}: {layer}", tiles=tiles, **place).plain())


@routes.get("/jobs/{job}/point", responses={200: ref(Point), **_REFUSALS})
async def point(
    request: Request,
    job: str,
    lon: Annotated[float, Query(ge=-180, le=180, allow_inf_nan=False)],
    lat: Annotated[float, Query(ge=-90, le=90, allow_inf_nan=False)],
) -> JSONResponse:
    """Give the digital numbers at a place before and after, its class and date."""
    return JSONResponse((await _made(request, Pictures.point, job_of(request, job), lon, lat)).whole())
