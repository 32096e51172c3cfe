"""The app: routes put together, and the server that runs them."""

import asyncio
import json
import logging
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Any

import uvicorn
from fastapi import APIRouter, FastAPI, Query, Request
from fastapi.openapi.utils import get_openapi
from fastapi.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.concurrency import run_in_threadpool

from attcr.errors import FleetError
from attcr.files import replacing
from attcr.scenes.sample import write_sample
from attcr.serve import metrics, pictures, problems, processes, viewer
from attcr.serve.clients import HEADERS, Protocol, Watch, places
from attcr.serve.guard import Guard, base_of, job_of, supervisor_of, user_of
from attcr.serve.models import COG, JSON, OPENAPI, SCHEMAS, Health, Upload, execute_schema, ref
from attcr.serve.problems import Problem, documented
from attcr.serve.settings import ServeSettings
from attcr.serve.store import JobState
from attcr.serve.supervisor import Supervisor
from attcr.version import __version__

_log = logging.getLogger("attcr.serve")
GRACE = 5
"""Seconds that running requests have when the server stops."""
BEAT = 10.0
"""Seconds between two signs of life in a stream of events."""
_LOOK = 0.25  # seconds between two looks at a job that is watched
_OPEN = ("/", "/conformance", "/processes", "/api", "/health", "/ready", "/sample.tif")
_SECURITY = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}


routes = APIRouter()


def _text(description: str, kind: str) -> dict[str, Any]:
    return {"description": description, "content": {f"text/{kind}": {"schema": {"type": "string"}}}}


def create_app(settings: ServeSettings) -> FastAPI:
    """Give the app of a store; it takes up its jobs when it starts."""
    supervisor = Supervisor(settings)
    tiles = pictures.pool()
    counted = metrics.Metrics(supervisor)

    def ended(job: JobState) -> None:
        counted.job(job)
        told = {"job": job.id, "user": job.owner, "status": job.status, "error": job.error}
        _log.info("job ended", extra={**told, "detail": job.message if job.error else ""})

    supervisor.on_end = ended

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        await run_in_threadpool(supervisor.start)
        tiles.start()
        yield
        await run_in_threadpool(supervisor.stop)
        await run_in_threadpool(tiles.stop)

    app = FastAPI(
        title="attcr", version=__version__, lifespan=life, openapi_url=None, exception_handlers=problems.HANDLERS
    )
    app.state.supervisor, app.state.metrics = supervisor, counted
    app.state.pictures = pictures.Pictures(supervisor.store, tiles, settings.limits)
    for some in (processes.routes, pictures.routes, routes):
        app.include_router(some)
    viewer.mount(app)
    described = _description(app, supervisor)
    app.state.described = json.dumps(described)
    app.openapi = lambda: described  # type: ignore[method-assign]
    app.add_middleware(Guard, settings=settings, count=counted.request)
    return app


@routes.get("/api", tags=["service"], include_in_schema=False)
async def api(request: Request) -> Response:
    """Give the API's description, OpenAPI 3.0."""
    return Response(request.app.state.described, media_type=OPENAPI)


@routes.post(
    "/uploads",
    tags=["uploads"],
    status_code=201,
    responses={201: ref(Upload), **documented(400, 401, 403, 413, 415, 507)},
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
async def upload(request: Request, name: Annotated[str, Query(max_length=500)] = "scene.tif") -> JSONResponse:
    """Take a file: the body of the request, streamed to disk."""
    owner, supervisor = user_of(request), supervisor_of(request)
    length, most = request.headers.get("Content-Length", ""), supervisor.settings.limits.upload_bytes
    told = int(length) if length.isdecimal() else 0
    if told > most:
        raise Problem(413, f"The file has {told:,} bytes, and at most {most:,} are allowed.")
    found = await supervisor.uploads.receive(owner, name, request.stream(), told)
    request.app.state.metrics.upload(found.bytes)
    return JSONResponse(Upload(id=found.id, name=found.name, bytes=found.bytes).plain(), 201)


@routes.delete("/uploads/{upload}", tags=["uploads"], status_code=204, responses=documented(401, 403, 404))
async def remove_upload(request: Request, upload: str) -> Response:
    """Remove a file that was sent."""
    await run_in_threadpool(supervisor_of(request).uploads.remove, user_of(request), upload)
    return Response(status_code=204)


async def _events(supervisor: Supervisor, job: JobState, base: str) -> AsyncIterator[str]:
    last, quiet = "", 0.0
    while not supervisor.stopping.is_set():
        over = job.over
        told = json.dumps(processes.status_of(supervisor.store, job, base).plain())
        if told != last:
            last, quiet = told, 0.0
            yield f"event: status\ndata: {told}\n\n"
        elif quiet >= BEAT:
            quiet = 0.0
            yield ": alive\n\n"
        if over:
            return
        await asyncio.sleep(_LOOK)
        quiet += _LOOK


@routes.get(
    "/jobs/{job}/events", tags=["jobs"], responses={200: _text("Events", "event-stream"), **documented(401, 404)}
)
async def watch_job(request: Request, job: str) -> StreamingResponse:
    """Tell how far a job is, as server-sent events, until it ends."""
    events = _events(supervisor_of(request), job_of(request, job), base_of(request))
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(events, 200, headers, "text/event-stream")


@routes.get("/sample.tif", tags=["service"], responses={200: {"description": "The sample", "content": {COG: {}}}})
async def sample(request: Request) -> FileResponse:
    """Give the real scene that comes with the package, to try the service with."""
    path = supervisor_of(request).store.root / "sample.tif"
    if not path.exists():
        with replacing(path) as partial:
            await run_in_threadpool(write_sample, "scene", partial)
    return FileResponse(path, media_type="image/tiff", filename="sample.tif")


@routes.get("/health", tags=["service"], responses={200: ref(Health)})
async def health() -> JSONResponse:
    """Say that the server lives."""
    return JSONResponse(Health(status="ok").plain())


@routes.get("/ready", tags=["service"], responses={200: ref(Health), **documented(503)})
async def ready(request: Request) -> JSONResponse:
    """Say whether the server takes work."""
    supervisor = supervisor_of(request)
    if supervisor.stopping.is_set() or not supervisor.ready:
        raise Problem(503, "No process is ready to compute yet.", headers={"Retry-After": "5"})
    return JSONResponse(Health(status="ready").plain())


@routes.get("/metrics", tags=["service"], responses={200: _text("Figures", "plain"), **documented(401)})
async def figures(request: Request) -> Response:
    """Give the figures for Prometheus."""
    user_of(request)
    return Response(request.app.state.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _description(app: FastAPI, supervisor: Supervisor) -> dict[str, Any]:
    """Describe the API as OpenAPI 3.0 does."""
    told = get_openapi(
        title="attcr",
        version=__version__,
        openapi_version="3.0.3",
        description="Removes clouds from satellite images.",
        routes=app.routes,
    )
    schemas = {**told.get("components", {}).get("schemas", {}), **SCHEMAS}
    schemas = {name: one for name, one in schemas.items() if name not in ("HTTPValidationError", "ValidationError")}
    told["components"] = {"schemas": schemas}
    keyed = supervisor.settings.keys is not None
    body = {"required": True, "content": {JSON: {"schema": execute_schema(supervisor.weights)}}}
    told["paths"]["/processes/{process}/execution"]["post"]["requestBody"] = body
    for path, operations in told["paths"].items():
        for operation in operations.values():
            answers = operation["responses"]
            if "HTTPValidationError" in json.dumps(answers.get("422", {})):
                del answers["422"]
            if "application/json" in answers.get("200", {}).get("content", {}) and len(answers["200"]["content"]) > 1:
                del answers["200"]["content"]["application/json"]
            if keyed and path not in _OPEN and not path.startswith("/processes/{process}"):
                operation["security"] = [{name: []} for name in _SECURITY]
    if keyed:
        told["components"]["securitySchemes"] = _SECURITY
    plain: dict[str, Any] = _as_3_0(told)
    return plain


def _as_3_0(value: Any) -> Any:
    """Give a schema without what OpenAPI 3.0 has no word for: a type that is null."""
    if isinstance(value, list):
        return [_as_3_0(one) for one in value]
    if not isinstance(value, dict):
        return value
    made = {key: _as_3_0(one) for key, one in value.items()}
    choices = made.get("anyOf")
    if isinstance(choices, list) and {"type": "null"} in choices:
        (kept,) = [one for one in choices if one != {"type": "null"}]
        made = {**{key: one for key, one in made.items() if key != "anyOf"}, **kept, "nullable": True}
    for old, new in (("exclusiveMaximum", "maximum"), ("exclusiveMinimum", "minimum")):
        if old in made:
            made |= {new: made.pop(old), old: True}
    return made


class Server(uvicorn.Server):
    """A server that ends slow connections, and whose event streams end when it stops."""

    def __init__(self, config: uvicorn.Config, stopping: Callable[[], None], most: int) -> None:
        super().__init__(config)
        self._stopping, self._watch = stopping, Watch(most)

    async def main_loop(self) -> None:
        """Serve until told to stop."""
        watching = asyncio.ensure_future(self._watch.run(self.server_state.connections))
        await super().main_loop()
        watching.cancel()

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Hear that it is to stop."""
        self._stopping()
        super().handle_exit(sig, frame)


def serve(settings: ServeSettings, announce: Callable[[str], None] = lambda _: None) -> None:
    """Serve a store until told to stop; `announce` hears the address."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host, settings.port))
        listening.listen(1024)  # who comes before the app is ready waits
    except OSError as error:
        listening.close()
        raise FleetError(f"{settings.host}:{settings.port} cannot be listened at: {error.strerror}.") from error
    with listening:
        app = create_app(settings)
        metrics.log_as_json()
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        announce(f"http://{host}:{listening.getsockname()[1]}")
        most = places(settings.limits.connections)
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=GRACE,
            timeout_keep_alive=int(HEADERS),
            limit_concurrency=2 * most,
            http=Protocol,  # not httptools, which has no bound for headers
            h11_max_incomplete_event_size=16 << 10,
            server_header=False,
            proxy_headers=False,
        )
        Server(config, app.state.supervisor.stopping.set, most).run([listening])
