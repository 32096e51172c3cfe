"""Slow clients: how long a request may take to arrive and an answer to be taken, who goes where there are too many.

Behind a proxy that collects requests, such as nginx, the proxy's own times count; alone, these do.
"""

import asyncio
import resource
import time
from contextlib import suppress
from typing import Any

import h11
from starlette.types import Message, Receive
from uvicorn.protocols.http.h11_impl import H11Protocol

from attcr.serve.problems import Problem

HEADERS = 10.0
"""Seconds until a connection has sent all headers of a request; also, until it sends another one."""
PAUSE = 30.0
"""Seconds without a byte of a body that is sent, or of an answer that is to be taken."""
FIRST, SLOWEST = 60.0, 16 << 10
"""Seconds that any body may take, and bytes a second beyond."""
PIECES, SMALLEST = 250, 64
"""Pieces in which any body may come, and bytes of those beyond on average: each one takes time from all others."""
LINGER = 5.0
"""Seconds that a client has to send the rest of what is refused."""
_CLOSE = {"Connection": "close"}
_LOOK = 0.25  # seconds between two looks at the connections
_SPARE = 256  # files that the server opens for other things than connections


class Body:
    """A request's messages as they come; a body that comes too slowly is refused."""

    def __init__(self, receive: Receive) -> None:
        self._receive, self._began, self._came = receive, time.monotonic(), 0
        self._whole = self._late = False

    async def __call__(self) -> Message:
        """Give the next message."""
        if self._whole:
            return await self._receive()  # whether the client is still there
        try:
            message = await asyncio.wait_for(self._receive(), PAUSE)
        except asyncio.TimeoutError:  # of its own kind before Python 3.11
            self._late = True
            raise Problem(408, f"Nothing of the request came for {PAUSE:g} s: send it again.", headers=_CLOSE) from None
        self._whole = not message.get("more_body", False)
        self._came += len(message.get("body", b""))
        if not self._whole and time.monotonic() - self._began > FIRST + self._came / SLOWEST:
            self._late = True
            raise Problem(408, f"Only {self._came:,} bytes of the request came in time: send it again.", headers=_CLOSE)
        return message

    async def rest(self) -> None:
        """Let a client that is refused send the rest, for a moment: many read no answer before they have."""
        until = time.monotonic() + LINGER
        while not self._whole and not self._late and time.monotonic() < until:
            with suppress(asyncio.TimeoutError):
                message = await asyncio.wait_for(self._receive(), LINGER)
                self._whole = not message.get("more_body", False)


class Protocol(H11Protocol):
    """A connection that ends where a body comes in thousands of tiny pieces."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self._next, self._pieces, self._bytes = self.conn.next_event, 0, 0
        self.conn.next_event = self._next_event  # type: ignore[method-assign]

    def _next_event(self) -> Any:
        event = self._next()
        if isinstance(event, h11.Request):
            self._pieces = self._bytes = 0
        elif isinstance(event, h11.Data):
            self._pieces, self._bytes = self._pieces + 1, self._bytes + len(event.data)
            if self._pieces > PIECES + self._bytes // SMALLEST:
                raise h11.RemoteProtocolError("a body in too small pieces")
        return event

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP; where an answer has begun, there is none to give."""
        try:
            super().send_400_response(msg)
        except h11.LocalProtocolError:
            self.transport.abort()


def places(most: int) -> int:
    """Give how many connections there may be: as many files as the system lets the server open, less some."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(2 * most + _SPARE, hard) if hard != resource.RLIM_INFINITY else 2 * most + _SPARE
    if wanted > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    return max(min(most, (soft - _SPARE) // 2), 16)


class Watch:
    """Looks at the connections of a server, and ends the slow ones."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._seen: dict[Any, tuple[object, float]] = {}
        """Of each connection what it was at, and since when."""

    async def run(self, connections: set[Any]) -> None:
        """Look again and again."""
        while True:
            self.look(connections, time.monotonic())
            await asyncio.sleep(_LOOK)

    def look(self, connections: set[Any], now: float) -> None:
        """End connections that are too slow, and the longest waiting ones where there are too many."""
        before, self._seen = self._seen, {}
        for one in list(connections):
            waits = one.cycle is None or one.cycle.response_complete
            left = one.transport.get_write_buffer_size()
            # whoever waits for a request is at the same as long as none has come, whatever bytes have
            at = (id(one.cycle), waits, left)
            since = before[one][1] if one in before and before[one][0] == at else now
            self._seen[one] = at, since
            if now - since > (HEADERS if waits else PAUSE) and (waits or left):
                one.transport.abort()
        over = len(self._seen) - self._most
        if over > 0:
            for one in sorted(self._seen, key=self._last_to_go)[:over]:
                one.transport.abort()

    def _last_to_go(self, one: Any) -> tuple[bool, float]:
        """Order connections: those of known users that are being answered go last, whoever waits longest first."""
        answered = one.cycle is not None and not one.cycle.response_complete
        return answered and bool(one.scope.get("user")), self._seen[one][1]
