"""Refusals over HTTP: problem details (RFC 7807) with the exception types of OGC API - Processes."""

from collections.abc import Mapping
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from attcr.addresses import hide_secrets
from attcr.fleet.manifest import as_utf8
from attcr.serve import models

OGC = "http://www.opengis.net/def/exceptions/ogcapi-processes-1/1.0"
NO_SUCH_PROCESS = f"{OGC}/no-such-process"
NO_SUCH_JOB = f"{OGC}/no-such-job"
NOT_READY = f"{OGC}/result-not-ready"
INVALID = "InvalidParameterValue"
"""The standard's own word for an input that cannot be taken."""
TITLES = {
    400: "The request cannot be taken",
    401: "A valid API key is needed",
    403: "Not allowed",
    404: "Not found",
    405: "There is no such operation",
    406: "No such form of it",
    408: "The request came too slowly",
    410: "No longer there",
    413: "Too large",
    415: "Not an accepted raster",
    416: "There is no such range",
    422: "The scene cannot be restored",
    429: "Too many at once",
    431: "Too large",
    500: "The server failed",
    503: "Not ready",
    507: "The room for your files is used up",
}
MEDIA = "application/problem+json"


class Problem(Exception):  # noqa: N818  # as RFC 7807 calls it
    """A request that is refused."""

    def __init__(
        self, status: int, detail: str, kind: str = "about:blank", headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.status, self.detail, self.kind, self.headers = status, detail, kind, headers

    def response(self, instance: str) -> JSONResponse:
        """Give it as an answer."""
        body = models.Problem(
            type=self.kind,
            title=TITLES.get(self.status, "Refused"),
            status=self.status,
            detail=as_utf8(hide_secrets(self.detail)[:2000]),
            instance=as_utf8(instance),
        )
        return JSONResponse(body.plain(), self.status, headers=self.headers, media_type=MEDIA)


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Give what the API's description says of refusals with these codes."""
    content = {MEDIA: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {status: {"description": TITLES[status], "content": content} for status in statuses}


async def answer(request: Request, error: Exception) -> JSONResponse:
    """Answer every refusal as problem details."""
    if isinstance(error, RequestValidationError):
        error = Problem(400, models.refusal_of(error.errors(), start=1), INVALID)
    elif isinstance(error, HTTPException):
        title = TITLES.get(error.status_code, str(error.detail))
        error = Problem(error.status_code, f"{title}: {request.url.path}.", headers=error.headers)
    elif isinstance(error, ClientDisconnect):
        error = Problem(400, "The request ended before all of it was there.")
    elif isinstance(error, FileNotFoundError):
        error = Problem(410, "Its files are no longer there: it was removed meanwhile.")
    elif not isinstance(error, Problem):
        error = Problem(500, "The server failed at this request; its log says why.")
    return error.response(request.url.path)


HANDLERS: dict[Any, Any] = dict.fromkeys(
    (Problem, RequestValidationError, HTTPException, ClientDisconnect, FileNotFoundError, Exception), answer
)
