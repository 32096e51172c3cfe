"""OGC API - Processes 1.0: landing page, conformance, the process, its execution, jobs and results."""

import json
import os
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool

from attcr.errors import AttcrError
from attcr.serve.guard import base_of, job_of, supervisor_of, user_of
from attcr.serve.inputs import read_json, read_request
from attcr.serve.limits import NotAllowedError, file_name
from attcr.serve.models import (
    JSON,
    OPENAPI,
    OUTPUTS,
    PROCESS,
    REL,
    Conformance,
    JobList,
    LandingPage,
    Link,
    Process,
    ProcessList,
    Results,
    Status,
    description,
    ref,
    summary,
)
from attcr.serve.page import page
from attcr.serve.problems import INVALID, NO_SUCH_PROCESS, NOT_READY, Problem, documented
from attcr.serve.store import JobState, JobStore
from attcr.serve.viewer import POLICY

_CLASSES = ("core", "json", "job-list", "dismiss", "ogc-process-description", "oas30")
CONFORMS = tuple(f"http://www.opengis.net/spec/ogcapi-processes-1/1.0/conf/{name}" for name in _CLASSES)
_STAGES = {
    "mask": (5, 15, "finding clouds: {done} of {total} rows"),
    "restore": (15, 95, "restoring: {done} of {total} tiles"),
    "write": (95, 99, "writing"),
}
"""Percent at which a stage begins and ends, and what is said of it."""

Limit = Annotated[int, Query(ge=1, le=10000)]
Listed = Annotated[list[str] | None, Query()]
_NO_RESULTS = documented(400, 401, 404, 410, 422, 500)
routes = APIRouter()


def when(seconds: float) -> str:
    """Give a time as RFC 3339 does."""
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def status_of(store: JobStore, job: JobState, base: str) -> Status:
    """Give a job's status as the standard has it, with what else is known."""
    told = store.progress(job.id) if job.status == "running" else {}
    stage = told.get("stage", job.stage) if not job.over else "end"
    message, percent = job.message, 100 if job.status == "successful" else job.percent
    if not job.over:
        message = {"fetch": "its files are being fetched", "queue": "waiting for its turn"}.get(stage, "")
        if stage in _STAGES:
            first, last, words = _STAGES[stage]
            done, total = int(told.get("done", 0)), max(int(told.get("total", 1)), 1)
            message = words.format(done=done, total=total) if told else "beginning"
            percent = int(first + (last - first) * min(done / total, 1))
        percent = job.percent = max(percent, job.percent)  # also where its process died and it began again
    links = [Link(rel="self", href=f"{base}/jobs/{job.id}", type=JSON, title="Status")]
    if job.status == "successful":
        links.append(Link(rel=f"{REL}/results", href=f"{base}/jobs/{job.id}/results", type=JSON))
        tiles = f"{base}/jobs/{job.id}/tiles/result.json"
        links.append(Link(rel=f"{REL}/tilesets-map", href=tiles, type=JSON, title="Tiles of the result (TileJSON)"))
    return Status(
        jobID=job.id,
        processID=PROCESS,
        type="process",
        status=job.status,
        message=message,
        created=when(job.created),
        started=when(job.started) if job.started else None,
        finished=when(job.finished) if job.finished else None,
        updated=when(job.updated) if job.updated else None,
        progress=percent,
        stage=stage,
        title=job.title,
        weights=job.weights or None,
        notes=[store.public(note) for note in job.notes or told.get("notes", [])],
        links=links,
    )


def _ready(request: Request, name: str) -> tuple[JobState, dict[str, Path]]:
    """Give a job that has results, and their files; refuse others as the standard says."""
    job = job_of(request, name)
    if job.status == "failed":
        status = 500 if job.error == "WorkerDied" else 422
        raise Problem(status, job.message, INVALID if status == 422 else job.error)
    if job.status == "dismissed":
        raise Problem(410, f"The job {name} was dismissed, and its results with it.")
    if job.status != "successful":
        raise Problem(404, f"The job {name} is {job.status}: its results are not ready.", NOT_READY)
    return job, supervisor_of(request).store.results(job)


def _cleaned(value: Any, store: JobStore) -> Any:
    if isinstance(value, dict):
        return {key: _cleaned(one, store) for key, one in value.items()}
    if isinstance(value, list):
        return [_cleaned(one, store) for one in value]
    return store.public(value) if isinstance(value, str) else value


def _link(request: Request, path: str, rel: str = "self", type: str | None = JSON, title: str | None = None) -> Link:
    return Link(rel=rel, href=f"{base_of(request)}{path}", type=type, title=title)


@routes.get("/", tags=["service"], responses={200: ref(LandingPage)})
async def landing_page(request: Request) -> Response:
    """Give the links of the service; to a browser, its first page."""
    if "text/html" in request.headers.get("Accept", ""):
        return HTMLResponse(page(request.app.openapi()), headers={"Content-Security-Policy": POLICY, "Vary": "Accept"})
    links = [
        _link(request, "/", title="This page"),
        _link(request, "/api", "service-desc", OPENAPI, "The API"),
        _link(request, "/conformance", f"{REL}/conformance"),
        _link(request, "/processes", f"{REL}/processes"),
        _link(request, "/jobs", f"{REL}/job-list"),
        _link(request, "/viewer/", "alternate", "text/html", "In the browser"),
    ]
    links_page = LandingPage(title="attcr", description="Removes clouds from satellite images.", links=links)
    return JSONResponse(links_page.plain(), headers={"Vary": "Accept"})


@routes.get("/conformance", tags=["service"], responses={200: ref(Conformance)})
async def conformance() -> JSONResponse:
    """Give the classes of OGC API - Processes that the service conforms to."""
    return JSONResponse(Conformance(conformsTo=list(CONFORMS)).plain())


@routes.get("/processes", tags=["processes"], responses={200: ref(ProcessList), **documented(400)})
async def process_list(request: Request, limit: Limit = 10) -> JSONResponse:
    """List the processes."""
    listed = [summary(base_of(request))][:limit]
    return JSONResponse(ProcessList(processes=listed, links=[_link(request, "/processes")]).plain())


@routes.get("/processes/{process}", tags=["processes"], responses={200: ref(Process), **documented(404)})
async def process_description(request: Request, process: str) -> JSONResponse:
    """Describe a process: its inputs and outputs."""
    _known(process)
    return JSONResponse(description(base_of(request), supervisor_of(request).weights).plain())


def _known(process: str) -> None:
    if process != PROCESS:
        raise Problem(404, f"There is no process {process[:64]!r}; there is {PROCESS}.", NO_SUCH_PROCESS)


async def read_body(request: Request, most: int) -> object:
    """Read a request's JSON, and no more bytes than are taken."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > most:
            raise Problem(413, f"The request has more than the {most:,} bytes that are allowed.")
    try:
        return await run_in_threadpool(read_json, bytes(body))  # megabytes of it hold up nobody else
    except ValueError as error:
        raise Problem(400, f"The request is no JSON: {str(error)[:200]}.", INVALID) from error


@routes.post(
    "/processes/{process}/execution",
    tags=["processes"],
    status_code=201,
    responses={201: ref(Status), **documented(400, 401, 403, 404, 413, 429, 503, 507)},
)
async def execute(request: Request, process: str) -> JSONResponse:
    """Take a job; it is computed when its turn comes."""
    supervisor, owner = supervisor_of(request), user_of(request)
    _known(process)
    body = await read_body(request, supervisor.settings.limits.body_bytes)
    try:
        limits, hosts = supervisor.settings.limits, supervisor.hosts
        asked = await run_in_threadpool(read_request, body, hosts, limits, supervisor.weights)
    except NotAllowedError as error:
        raise Problem(403, str(error), INVALID) from error
    except AttcrError as error:
        raise Problem(400, str(error), INVALID) from error
    job = await run_in_threadpool(supervisor.accept, owner, asked)
    headers = {"Location": f"{base_of(request)}/jobs/{job.id}"}
    if "respond-async" in request.headers.get("Prefer", ""):
        headers["Preference-Applied"] = "respond-async"
    return _status(request, job, 201, headers)


def _status(request: Request, job: JobState, code: int = 200, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse(status_of(supervisor_of(request).store, job, base_of(request)).plain(), code, headers)


def _interval(text: str) -> tuple[float, float]:
    """Read a time or an interval of the standard, with open ends."""
    first, slash, last = text.partition("/")

    def moment(part: str, open_end: float) -> float:
        if slash and part in ("", ".."):
            return open_end
        read = datetime.fromisoformat(part.upper().replace("Z", "+00:00"))
        return (read if read.tzinfo else read.replace(tzinfo=timezone.utc)).timestamp()

    try:
        low = moment(first, float("-inf"))
        return low, moment(last, float("inf")) if slash else low + 1
    except (ValueError, OverflowError) as error:
        raise Problem(
            400,
            f"datetime is {text[:60]!r}; expected a time such as 2026-01-31T12:00:00Z, or two with a slash.",
            INVALID,
        ) from error


def _durations(given: list[str] | None, name: str) -> list[float]:
    try:
        return [float(int(part)) for text in given or [] for part in text.split(",")]
    except (ValueError, OverflowError):
        raise Problem(400, f"{name} is {str(given)[:60]}; expected whole seconds.", INVALID) from None


def lasting(jobs: list[JobState], least: list[float], most: list[float]) -> list[JobState]:
    """Give the jobs that were begun and took as many seconds as all the bounds allow."""
    now = time.time()
    took = [(job, (job.finished or now) - job.started) for job in jobs if job.started is not None]
    return [job for job, seconds in took if max(least, default=0.0) <= seconds <= min(most, default=seconds)]


def _split(given: list[str] | None) -> set[str] | None:
    return None if given is None else {part for text in given for part in text.split(",")}


@routes.get("/jobs", tags=["jobs"], responses={200: ref(JobList), **documented(400, 401)})
async def job_list(
    request: Request,
    limit: Limit = 10,
    offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
    type: Listed = None,  # the standard's name
    processID: Listed = None,
    status: Listed = None,
    datetime: str | None = None,
    minDuration: Listed = None,
    maxDuration: Listed = None,
) -> JSONResponse:
    """List your jobs, newest first."""
    found = supervisor_of(request).queue.of(user_of(request))
    kinds, processes, states = _split(type), _split(processID), _split(status)
    if (kinds is not None and "process" not in kinds) or (processes is not None and PROCESS not in processes):
        found = []
    if states is not None:
        found = [job for job in found if job.status in states]
    if datetime is not None:
        low, high = _interval(datetime)
        found = [job for job in found if low <= job.created <= high]
    least, most = _durations(minDuration, "minDuration"), _durations(maxDuration, "maxDuration")
    found = lasting(found, least, most) if least or most else found
    links = [Link(rel="self", href=str(request.url), type=JSON)]
    if len(found) > offset + limit:
        onward = request.url.include_query_params(offset=offset + limit)
        links.append(Link(rel="next", href=str(onward), type=JSON))
    store, base = supervisor_of(request).store, base_of(request)
    part = found[offset : offset + limit]

    def listed() -> JSONResponse:
        shown = [status_of(store, job, base) for job in part]
        return JSONResponse(JobList(jobs=shown, links=links, numberMatched=len(found)).plain())

    return await run_in_threadpool(listed)  # thousands of jobs hold up nobody else


@routes.get("/jobs/{job}", tags=["jobs"], responses={200: ref(Status), **documented(401, 404)})
async def job_status(request: Request, job: str) -> JSONResponse:
    """Say how far a job is."""
    return _status(request, job_of(request, job))


@routes.delete("/jobs/{job}", tags=["jobs"], responses={200: ref(Status), **documented(401, 403, 404)})
async def dismiss(request: Request, job: str) -> JSONResponse:
    """Dismiss a job: stop it, and remove its files."""
    return _status(request, await run_in_threadpool(supervisor_of(request).dismiss, user_of(request), job))


@routes.get("/jobs/{job}/results", tags=["jobs"], responses={200: ref(Results), **_NO_RESULTS})
async def results(request: Request, job: str, outputs: Listed = None) -> Response:
    """Give the results of a successful job, by reference."""
    found, files = _ready(request, job)
    asked = supervisor_of(request).store.asked(found)
    wanted = _split(outputs) or set(asked.outputs) or set(files)
    missing = sorted(wanted - set(files))
    if missing:
        raise Problem(400, f"The job has no output {missing[0][:60]!r}; it has {', '.join(files)}.", INVALID)
    if asked.raw and outputs is None and asked.outputs and len(wanted) == 1:
        return _file(request, found, files, wanted.pop())
    start = f"{base_of(request)}/jobs/{job}/results"
    listed = {name: media for name, (_, media) in OUTPUTS.items() if name in wanted}
    return JSONResponse({name: {"href": f"{start}/{name}", "type": media} for name, media in listed.items()})


@routes.get(
    "/jobs/{job}/results/{output}",
    tags=["jobs"],
    responses={
        200: {"description": "The file", "content": {media: {} for _, media in OUTPUTS.values()}},
        206: {"description": "A part of it"},
        **_NO_RESULTS,
        **documented(416),
    },
)
async def result(request: Request, job: str, output: str) -> Response:
    """Give one result."""
    found, files = _ready(request, job)
    if output not in files:
        raise Problem(404, f"The job has no output {output[:60]!r}; it has {', '.join(files)}.")
    return _file(request, found, files, output)


def _file(request: Request, job: JobState, files: dict[str, Path], output: str) -> Response:
    """Give a file; the STAC item with the addresses of the results, and without places on this machine."""
    media = OUTPUTS[output][1]
    scene = file_name(job.title)
    name = f"{scene.removesuffix(Path(scene).suffix)}_{output}{files[output].suffix}"
    if output != "item":
        file = files[output].open("rb")  # it stays whole while it is sent, whoever removes the job meanwhile
        path, told = f"/dev/fd/{file.fileno()}", os.fstat(file.fileno())
        return FileResponse(
            path, media_type=media, filename=name, stat_result=told, background=BackgroundTask(file.close)
        )
    item = json.loads(files["item"].read_bytes())
    for key, asset in item["assets"].items():
        asset["href"] = f"{base_of(request)}/jobs/{job.id}/results/{key}"
    headers = {"Content-Disposition": f'inline; filename="{name}"'}
    return JSONResponse(_cleaned(item, supervisor_of(request).store), headers=headers, media_type=media)
