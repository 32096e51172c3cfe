"""Refusals over HTTP: problem details (RFC 7807) with the exception types of OGC API - Processes."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from attcr.addresses import hide_secrets
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
    429: "Too many jobs",
    431: "Too large",
    500: "The server failed",
    503: "Not ready",
    507: "The room for your files is used up",
}
MEDIA = "application/problem+json"


class Problem(Exception):  # noqa: N818  # as RFC 7807 calls it
    """A request that is refused."""

    def __init__(
        self, status: int, detail: str, kind: str = "about:blank", headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.status, self.detail, self.kind, self.headers = status, detail, kind, headers

    def response(self, instance: str) -> JSONResponse:
        """Give it as an answer."""
        body = models.Problem(
            type=self.kind,
            title=TITLES.get(self.status, "Refused"),
            status=self.status,
            detail=_encodable(hide_secrets(self.detail)[:2000]),
            instance=_encodable(instance),
        )
        return JSONResponse(body.plain(), self.status, headers=self.headers, media_type=MEDIA)


def _encodable(text: str) -> str:
    """Give a text that can be encoded: addresses may hold halves of characters."""
    return text.encode(errors="backslashreplace").decode()


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Give what the API's description says of refusals with these codes."""
    content = {MEDIA: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {status: {"description": TITLES[status], "content": content} for status in statuses}


def install(app: FastAPI) -> None:
    """Let every refusal be answered as problem details."""

    async def refused(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, Problem)
        return error.response(request.url.path)

    async def invalid(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        return Problem(400, models.refusal_of(error.errors(), start=1), INVALID).response(request.url.path)

    async def other(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        headers = dict(error.headers) if error.headers else None
        detail = TITLES.get(error.status_code, str(error.detail))
        return Problem(error.status_code, f"{detail}: {request.url.path}.", headers=headers).response(request.url.path)

    async def failed(request: Request, error: Exception) -> JSONResponse:
        return Problem(500, "The server failed at this request; its log says why.").response(request.url.path)

    app.add_exception_handler(Problem, refused)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, other)
    app.add_exception_handler(Exception, failed)
