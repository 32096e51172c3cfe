"""The routes of tiles, facts and points; the processes that draw them are `attcr.serve.tiles`."""

from __future__ import annotations

import json
import queue
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import JSONResponse, Response

from attcr.restore.walk import QUALITY_COLOURS, QUALITY_NAMES
from attcr.serve.inputs import READY
from attcr.serve.jobs import Jobs, JobState
from attcr.serve.problems import INVALID, NOT_READY, Problem, documented
from attcr.serve.processes import base_of
from attcr.serve.schemas import ref
from attcr.serve.worker import INPUTS

PAINTERS = 2
WAITING = 16
"""Requests that may wait for them at once; others wait before they take a thread of the server's."""
SECONDS = 30.0
"""That one tile may take."""
LAYERS = ("input", "result", "quality")
SIZES = {"": 256, "@1x": 256, "@2x": 512}
DEEPEST = 24
_ROW = re.compile(r"(?P<y>\d{1,8})(?P<size>@[12]x)?\.png")


class Painter:
    """One process that draws."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "attcr.serve.tiles"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._ready = False  # it loads its libraries; that is not counted

    def ask(self, request: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        """Give what it answers; EOFError where it died, or was killed for taking too long."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if not self._ready:
            self._ready = self._process.stdout.readline() == b"ready\n"
        clock = threading.Timer(SECONDS, self._process.kill)
        clock.start()
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
            if not line.endswith(b"\n"):
                raise EOFError
            head: dict[str, Any] = json.loads(line)
            content = self._process.stdout.read(head["bytes"])
            if len(content) != head["bytes"]:
                raise EOFError
            return head, content
        except (OSError, ValueError) as error:
            raise EOFError from error
        finally:
            clock.cancel()

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait(5)
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()


class Painters:
    """A few processes that draw, started when they are first needed."""

    def __init__(self) -> None:
        self._free: queue.LifoQueue[Painter | None] = queue.LifoQueue()
        for _ in range(PAINTERS):
            self._free.put(None)

    def warm(self) -> None:
        """Start one of them, so that the first tile need not wait."""
        with suppress(queue.Empty):
            self._free.put(self._free.get_nowait() or Painter())

    def ask(self, request: dict[str, Any]) -> tuple[Any, bytes]:
        """Give an answer; a file that cannot be shown is refused."""
        painter = self._free.get()
        try:
            painter = painter or Painter()
            head, content = painter.ask(request)
        except EOFError:
            if painter is not None:
                painter.close()
            painter = None
            raise Problem(422, "The file cannot be shown: whatever reads it died or took too long.", INVALID) from None
        finally:
            self._free.put(painter)
        if "error" in head:
            raise Problem(422, f"The file cannot be shown: {head['error']}", INVALID)
        return head["told"], content

    def close(self) -> None:
        """End them all."""
        for _ in range(PAINTERS):
            with suppress(queue.Empty):
                painter = self._free.get(timeout=1)
                if painter is not None:
                    painter.close()


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

    def __init__(self, jobs: Jobs, painters: Painters) -> None:
        self._jobs, self._painters = jobs, painters

    def files(self, job: JobState) -> dict[str, Any]:
        """Give the files of a job that are there."""
        folder = self._jobs.root / INPUTS / job.id
        try:
            scene = json.loads((folder / READY).read_bytes())["scene"]
        except (OSError, ValueError):
            raise Problem(404, f"The files of the job {job.id} are not there.", NOT_READY) from None
        files = self._jobs.results(job) if job.status == "successful" else {}
        shown = {name: str(path) for name, path in files.items() if name in ("restored", "quality", "dates")}
        return {"source": [str(folder / place) for place in scene], "files": shown}

    def tile(self, job: JobState, layer: str, at: tuple[int, int, int], size: int) -> bytes:
        """Give a tile as PNG."""
        files = self.files(job)
        if layer != "input" and not files["files"]:
            raise Problem(404, f"The job {job.id} is {job.status}: its {layer} is not there.", NOT_READY)
        z, x, y = at
        asked = {"call": "tile", "layer": layer, "z": z, "x": x, "y": y, "size": size}
        return self._painters.ask({**asked, **files})[1]

    def info(self, job: JobState, base: str) -> dict[str, Any]:
        """Give where a job's scene is, its bands, classes and tiles."""
        files = self.files(job)
        told, _ = self._painters.ask({"call": "info", **files})
        there = {name: name == "input" or bool(files["files"]) for name in LAYERS}
        version = 2 if files["files"] else 1
        start = f"{base}/jobs/{job.id}/tiles"
        properties = self._item(job).get("properties", {})
        return {
            "jobID": job.id,
            "layers": there,
            **told,
            "classes": classes(properties.get("attcr:pixels", {})),
            "references": self._references(properties),
            "tiles": {name: f"{start}/{name}/{{z}}/{{x}}/{{y}}.png?v={version}" for name in LAYERS if there[name]},
        }

    def _item(self, job: JobState) -> dict[str, Any]:
        if job.status != "successful":
            return {}
        item: dict[str, Any] = json.loads(self._jobs.results(job)["item"].read_bytes())
        return item

    def _references(self, properties: dict[str, Any]) -> list[dict[str, Any]]:
        kept = ("days", "share", "pixels", "method", "expected_error")
        return [
            {
                "number": number,
                "name": self._jobs.public(str(one.get("name", ""))),
                **{name: one.get(name) for name in kept},
            }
            for number, one in enumerate(properties.get("attcr:references", []), 1)
        ]

    def point(self, job: JobState, lon: float, lat: float) -> dict[str, Any]:
        """Give the numbers at a place before and after, its class and date."""
        told, _ = self._painters.ask({"call": "point", "lon": lon, "lat": lat, **self.files(job)})
        if told is None:
            raise Problem(404, f"The place {lon:g}, {lat:g} is outside the scene.")
        value = told["quality"]
        if value is not None:
            told["quality"] = {"value": value, "name": QUALITY_NAMES[value]}
        if told["date"] is not None:
            named = self._references(self._item(job).get("properties", {}))
            number = told["date"]["reference"]
            told["date"]["name"] = next((one["name"] for one in named if one["number"] == number), "")
            if told["date"]["days"] == -(1 << 15):
                told["date"]["days"] = None
        return {"lon": lon, "lat": lat, **told}


def router(pictures: Pictures, jobs: Jobs, user: Callable[[Request], str]) -> APIRouter:
    """Give the routes."""
    routes = APIRouter(tags=["pictures"])
    refusals = documented(400, 401, 404, 422)
    limiter = CapacityLimiter(WAITING)
    png = {"image/png": {"schema": {"type": "string", "format": "binary"}}}

    @routes.get("/jobs/{job}/info", responses={200: ref("Info"), **refusals})
    async def job_info(request: Request, job: str) -> JSONResponse:
        """Say where a scene is, what its bands and classes are, and where its tiles are."""
        found = jobs.get(user(request), job)
        return JSONResponse(await run_sync(pictures.info, found, base_of(request), limiter=limiter))

    @routes.get(
        "/jobs/{job}/tiles/{layer}/{z}/{x}/{y}",
        responses={200: {"description": "A tile", "content": png}, **refusals},
        response_class=Response,
    )
    async def tile(
        request: Request,
        job: str,
        layer: str,
        z: Annotated[int, Path(ge=0, le=DEEPEST)],
        x: Annotated[int, Path(ge=0, lt=1 << DEEPEST)],
        y: str,
    ) -> Response:
        """Draw a tile of the input, the result or the quality; y ends in .png, or in @2x.png."""
        found = jobs.get(user(request), job)
        row = _ROW.fullmatch(y)
        if layer not in LAYERS or row is None or max(x, int(row["y"])) >= 1 << z:
            raise Problem(404, f"There is no such tile; layers are {', '.join(LAYERS)}.")
        at, size = (z, x, int(row["y"])), SIZES[row["size"] or ""]
        content = await run_sync(pictures.tile, found, layer, at, size, limiter=limiter)
        return Response(content, media_type="image/png", headers={"Cache-Control": "private, max-age=3600"})

    @routes.get("/jobs/{job}/point", responses={200: ref("Point"), **refusals})
    async def point(
        request: Request,
        job: str,
        lon: Annotated[float, Query(ge=-180, le=180, allow_inf_nan=False)],
        lat: Annotated[float, Query(ge=-90, le=90, allow_inf_nan=False)],
    ) -> JSONResponse:
        """Give the digital numbers at a place before and after, its class and date."""
        found = jobs.get(user(request), job)
        return JSONResponse(await run_sync(pictures.point, found, lon, lat, limiter=limiter))

    return routes
