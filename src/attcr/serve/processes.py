"""OGC API - Processes 1.0: landing page, conformance, the process, its execution, jobs and results."""

from __future__ import annotations

import json
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import FileResponse, JSONResponse, Response
from starlette.concurrency import run_in_threadpool

from attcr.errors import AttcrError
from attcr.serve.guard import User
from attcr.serve.inputs import read_request
from attcr.serve.limits import NotAllowedError
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
    execute_schema,
    ref,
    summary,
)
from attcr.serve.problems import INVALID, NO_SUCH_PROCESS, NOT_READY, Problem, documented
from attcr.serve.queue import JobQueue
from attcr.serve.store import JobState, JobStore
from attcr.serve.supervisor import Supervisor

_CLASSES = ("core", "json", "job-list", "dismiss", "ogc-process-description", "oas30")
CONFORMS = tuple(f"http://www.opengis.net/spec/ogcapi-processes-1/1.0/conf/{name}" for name in _CLASSES)
_COUNTED = {"mask": "finding clouds: {done} of {total} rows", "restore": "restoring: {done} of {total} tiles"}
_FROM = {"mask": 5, "restore": 15, "write": 95}
"""Percent at which a stage begins."""

Limit = Annotated[int, Query(ge=1, le=10000)]
Listed = Annotated[list[str] | None, Query()]


def when(seconds: float) -> str:
    """Give a time as RFC 3339 does."""
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def status_of(store: JobStore, job: JobState, base: str) -> Status:
    """Give a job's status as the standard has it, with what else is known."""
    told = store.progress(job.id) if job.status == "running" else {}
    stage = told.get("stage", job.stage) if not job.over else "end"
    message, percent = job.message, 100 if job.status == "successful" else 0
    if not job.over:
        message = {"fetch": "its files are being fetched", "queue": "waiting for its turn"}.get(stage, "")
        if stage in _FROM:
            done, total = int(told.get("done", 0)), max(int(told.get("total", 1)), 1)
            message = _COUNTED.get(stage, "writing").format(done=done, total=total) if told else "beginning"
            after = {"mask": 15, "restore": 95, "write": 99}[stage]
            percent = int(_FROM[stage] + (after - _FROM[stage]) * min(done / total, 1))
    links = [Link(rel="self", href=f"{base}/jobs/{job.id}", type=JSON, title="Status")]
    if job.status == "successful":
        links.append(Link(rel=f"{REL}/results", href=f"{base}/jobs/{job.id}/results", type=JSON))
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


def base_of(request: Request) -> str:
    """Give the server's own address as the client knows it."""
    return str(request.base_url).rstrip("/")


def failed(job: JobState) -> Problem:
    """Give why a job has no results, with the code that fits the reason."""
    status = {"WorkerDied": 500, "TimeoutError": 422, "MemoryError": 500}.get(job.error, 422)
    return Problem(status, job.message, INVALID if status == 422 else job.error)


def ready_job(jobs: JobQueue, owner: str, name: str) -> JobState:
    """Give a job that has results; refuse others as the standard says."""
    job = jobs.get(owner, name)
    if job.status == "failed":
        raise failed(job)
    if job.status == "dismissed":
        raise Problem(410, f"The job {name} was dismissed, and its results with it.")
    if job.status != "successful":
        raise Problem(404, f"The job {name} is {job.status}: its results are not ready.", NOT_READY)
    return job


def public_item(store: JobStore, job: JobState, base: str) -> dict[str, Any]:
    """Give a job's STAC item with the addresses of its results, and without places on this machine."""
    files = store.results(job)
    item: dict[str, Any] = json.loads(files["item"].read_bytes())
    for name, asset in item["assets"].items():
        asset["href"] = f"{base}/jobs/{job.id}/results/{name}"

    def cleaned(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: cleaned(one) for key, one in value.items()}
        if isinstance(value, list):
            return [cleaned(one) for one in value]
        return store.public(value) if isinstance(value, str) else value

    cleaned_item: dict[str, Any] = cleaned(item)
    return cleaned_item


def router(supervisor: Supervisor, weights: tuple[str, ...], user: User) -> APIRouter:
    """Give the routes of the standard."""
    routes = APIRouter()
    _describe(routes, weights)
    _execute(routes, supervisor, weights, user)
    _jobs(routes, supervisor, user)
    _results(routes, supervisor, user)
    return routes


def _describe(routes: APIRouter, weights: tuple[str, ...]) -> None:
    @routes.get("/", tags=["service"], responses={200: ref(LandingPage)})
    async def landing_page(request: Request) -> JSONResponse:
        """Give the links of the service."""
        base = base_of(request)
        links = [
            Link(rel="self", href=f"{base}/", type=JSON, title="This page"),
            Link(rel="service-desc", href=f"{base}/api", type=OPENAPI, title="The API"),
            Link(rel=f"{REL}/conformance", href=f"{base}/conformance", type=JSON),
            Link(rel=f"{REL}/processes", href=f"{base}/processes", type=JSON),
            Link(rel=f"{REL}/job-list", href=f"{base}/jobs", type=JSON),
            Link(rel="alternate", href=f"{base}/viewer/", type="text/html", title="In the browser"),
        ]
        page = LandingPage(title="attcr", description="Removes clouds from satellite images.", links=links)
        return JSONResponse(page.plain())

    @routes.get("/conformance", tags=["service"], responses={200: ref(Conformance)})
    async def conformance() -> JSONResponse:
        """Give the classes of OGC API - Processes that the service conforms to."""
        return JSONResponse(Conformance(conformsTo=list(CONFORMS)).plain())

    @routes.get("/processes", tags=["processes"], responses={200: ref(ProcessList), **documented(400)})
    async def process_list(request: Request, limit: Limit = 10) -> JSONResponse:
        """List the processes."""
        base = base_of(request)
        own = Link(rel="self", href=f"{base}/processes", type=JSON)
        return JSONResponse(ProcessList(processes=[summary(base)][:limit], links=[own]).plain())

    @routes.get("/processes/{process}", tags=["processes"], responses={200: ref(Process), **documented(404)})
    async def process_description(request: Request, process: str) -> JSONResponse:
        """Describe a process: its inputs and outputs."""
        _known(process)
        return JSONResponse(description(base_of(request), weights).plain())


def _known(process: str) -> None:
    if process != PROCESS:
        raise Problem(404, f"There is no process {process[:64]!r}; there is {PROCESS}.", NO_SUCH_PROCESS)


async def read_json(request: Request, most: int) -> object:
    """Read a request's JSON, and no more bytes than are taken."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > most:
            raise Problem(413, f"The request has more than the {most:,} bytes that are allowed.")

    def no_number(word: str) -> None:
        raise ValueError(f"{word} is no number of JSON")

    try:
        found: object = json.loads(body, parse_constant=no_number)
    except (ValueError, RecursionError) as error:
        raise Problem(400, f"The request is no JSON: {str(error)[:200]}.", INVALID) from error
    return found


def _execute(routes: APIRouter, supervisor: Supervisor, weights: tuple[str, ...], user: User) -> None:
    extra = {"requestBody": {"required": True, "content": {JSON: {"schema": execute_schema(weights)}}}}
    told = {201: ref(Status), **documented(400, 401, 403, 404, 413, 429, 503, 507)}

    @routes.post(
        "/processes/{process}/execution", tags=["processes"], status_code=201, responses=told, openapi_extra=extra
    )
    async def execute(request: Request, process: str) -> JSONResponse:
        """Take a job; it is computed when its turn comes."""
        owner = user(request)
        _known(process)
        body = await read_json(request, supervisor.settings.limits.body_bytes)
        try:
            asked = read_request(body, supervisor.hosts, supervisor.settings.limits, weights)
        except NotAllowedError as error:
            raise Problem(403, str(error), INVALID) from error
        except AttcrError as error:
            raise Problem(400, str(error), INVALID) from error
        job = await run_in_threadpool(supervisor.accept, owner, asked)
        base = base_of(request)
        headers = {"Location": f"{base}/jobs/{job.id}"}
        if "respond-async" in request.headers.get("Prefer", ""):
            headers["Preference-Applied"] = "respond-async"
        return JSONResponse(status_of(supervisor.store, job, base).plain(), 201, headers)


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
    except ValueError:
        raise Problem(400, f"{name} is {given}; expected whole seconds.", INVALID) from None


def lasting(jobs: list[JobState], least: list[float], most: list[float]) -> list[JobState]:
    """Give the jobs that were begun and took as many seconds as all the bounds allow."""
    now = time.time()
    took = [(job, (job.finished or now) - job.started) for job in jobs if job.started is not None]
    return [job for job, seconds in took if max(least, default=0.0) <= seconds <= min(most, default=seconds)]


def _split(given: list[str] | None) -> set[str] | None:
    return None if given is None else {part for text in given for part in text.split(",")}


def _jobs(routes: APIRouter, supervisor: Supervisor, user: User) -> None:
    queue, store = supervisor.queue, supervisor.store

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
        found = queue.of(user(request))
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
        base = base_of(request)
        links = [Link(rel="self", href=str(request.url), type=JSON)]
        if len(found) > offset + limit:
            onward = request.url.include_query_params(offset=offset + limit)
            links.append(Link(rel="next", href=str(onward), type=JSON))
        shown = [status_of(store, job, base) for job in found[offset : offset + limit]]
        return JSONResponse(JobList(jobs=shown, links=links, numberMatched=len(found)).plain())

    @routes.get("/jobs/{job}", tags=["jobs"], responses={200: ref(Status), **documented(401, 404)})
    async def job_status(request: Request, job: str) -> JSONResponse:
        """Say how far a job is."""
        return JSONResponse(status_of(store, queue.get(user(request), job), base_of(request)).plain())

    @routes.delete("/jobs/{job}", tags=["jobs"], responses={200: ref(Status), **documented(401, 403, 404)})
    async def dismiss(request: Request, job: str) -> JSONResponse:
        """Dismiss a job: stop it, and remove its files."""
        dismissed = await run_in_threadpool(supervisor.dismiss, user(request), job)
        return JSONResponse(status_of(store, dismissed, base_of(request)).plain())


def _results(routes: APIRouter, supervisor: Supervisor, user: User) -> None:
    queue, store = supervisor.queue, supervisor.store
    told = documented(400, 401, 404, 410, 422, 500)

    @routes.get("/jobs/{job}/results", tags=["jobs"], responses={200: ref(Results), **told})
    async def results(request: Request, job: str, outputs: Listed = None) -> Response:
        """Give the results of a successful job, by reference."""
        found = ready_job(queue, user(request), job)
        files, asked, base = store.results(found), store.asked(found), base_of(request)
        wanted = _split(outputs) or set(asked.outputs) or set(files)
        missing = sorted(wanted - set(files))
        if missing:
            raise Problem(400, f"The job has no output {missing[0][:60]!r}; it has {', '.join(files)}.", INVALID)
        if asked.raw and outputs is None and asked.outputs and len(wanted) == 1:
            return _file(files, next(iter(wanted)), public_item(store, found, base))
        listed = {
            name: Link(href=f"{base}/jobs/{job}/results/{name}", type=media).plain()
            for name, (_, media) in OUTPUTS.items()
            if name in wanted
        }
        return JSONResponse(listed)

    content: dict[str, Any] = {media: {} for _, media in OUTPUTS.values()}
    answers: dict[int | str, dict[str, Any]] = {
        200: {"description": "The file", "content": content},
        206: {"description": "A part of it"},
        **told,
        **documented(416),
    }

    @routes.get("/jobs/{job}/results/{output}", tags=["jobs"], responses=answers)
    async def result(request: Request, job: str, output: str) -> Response:
        """Give one result."""
        found = ready_job(queue, user(request), job)
        files = store.results(found)
        if output not in files:
            raise Problem(404, f"The job has no output {output[:60]!r}; it has {', '.join(files)}.")
        return _file(files, output, public_item(store, found, base_of(request)))


def _file(files: dict[str, Path], output: str, item: dict[str, Any]) -> Response:
    media = OUTPUTS[output][1]
    if output == "item":
        return JSONResponse(item, media_type=media)
    return FileResponse(files[output], media_type=media, filename=files[output].name)
