"""What every request passes: who sends it, from which page, and what is logged about it."""

import logging
import time
from collections import Counter
from collections.abc import Callable

from fastapi import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from attcr.serve.clients import Body
from attcr.serve.problems import Problem
from attcr.serve.settings import ANONYMOUS, LOOPBACK, ServeSettings, digest_of
from attcr.serve.store import JobState
from attcr.serve.supervisor import Supervisor

_log = logging.getLogger("attcr.serve")
_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="attcr"'}
_SAFE = ("GET", "HEAD", "OPTIONS")
_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
]


def supervisor_of(request: Request) -> Supervisor:
    """Give what sees to the jobs of the server that is asked."""
    found: Supervisor = request.app.state.supervisor
    return found


def user_of(request: Request) -> str:
    """Give the user of a request, or refuse it."""
    name: str = request.scope["user"]
    if not name:
        raise Problem(401, "Send your API key as `Authorization: Bearer KEY` or `X-API-Key: KEY`.", headers=_CHALLENGE)
    return name


def job_of(request: Request, name: str) -> JobState:
    """Give a job of the user who asks, or refuse the request."""
    return supervisor_of(request).queue.get(user_of(request), name)


def base_of(request: Request) -> str:
    """Give the server's own address as the client knows it."""
    return str(request.base_url).rstrip("/")


def _host_of(netloc: str) -> str:
    """Give the name in a Host header, without its port."""
    if netloc.startswith("["):
        return netloc[1:].partition("]")[0]
    return netloc.partition(":")[0]


class Guard:
    """The outermost layer: refuses requests of foreign pages, adds headers, logs and counts."""

    def __init__(self, app: ASGIApp, settings: ServeSettings, count: Callable[[str, str, int, float], None]) -> None:
        self._app, self._settings, self._count = app, settings, count
        self._running: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status, body = time.perf_counter(), 500, Body(receive)

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if status >= 400:
                    await body.rest()
                message["headers"] = [*message["headers"], *_HEADERS]
            await send(message)

        request = Request(scope)
        user = scope["user"] = self._user(request)
        refusal = self._refusal(request, user)
        self._running[user] += 1
        try:
            if refusal is not None:
                await refusal.response(request.url.path)(scope, body, answer)
            else:
                await self._app(scope, body, answer)
        finally:
            self._running[user] -= 1
            seconds = time.perf_counter() - began
            route = getattr(scope.get("route"), "path", "other")
            self._count(
                scope["method"] if scope["method"] in (*_SAFE, "POST", "DELETE") else "other", route, status, seconds
            )
            told = {"method": scope["method"], "path": scope["path"], "status": status, "seconds": round(seconds, 4)}
            if route not in ("/health", "/ready", "/metrics"):
                _log.info("request", extra=told)

    def _user(self, request: Request) -> str:
        """Give the user whose key a request has; an empty name where it has none."""
        if self._settings.keys is None:
            return ANONYMOUS
        scheme, _, key = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            key = request.headers.get("X-API-Key", "")
        return self._settings.keys.get(digest_of(key.strip()), "") if key else ""

    def _refusal(self, request: Request, user: str) -> Problem | None:
        """Refuse one request too many, and what another site's page sends: a browser would do it in its user's name."""
        most = self._settings.limits.requests
        if user and self._running[user] >= most:
            told = f"{most} of your requests are being answered, as many as are allowed at once: wait until one ends."
            return Problem(429, told, headers={"Retry-After": "1"})
        host = request.headers.get("Host", "")
        if self._settings.keys is None and _host_of(host).lower() not in LOOPBACK:
            return Problem(403, f"This server is for its own machine, and the request is for {host[:100]!r}.")
        origin = request.headers.get("Origin")
        if origin is not None and request.method not in _SAFE and origin.partition("://")[2] != host:
            return Problem(403, f"The request comes from a page of {origin[:100]!r}, which is another site.")
        return None
