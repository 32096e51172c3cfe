"""Processes that do what the server itself must not: each may die, or be killed, and takes only its own tasks along.

A process reads a request a line and writes lines of JSON: {"ready": true}, {"at": ID} when it begins a task, and
{"id": ID, "bytes": N, ...} with N bytes after the line when it has the answer.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, Any

from attcr.serve.turns import Turns

_log = logging.getLogger("attcr.serve")
_PAUSE = 5.0  # seconds before a process is started again that died before it was ready


class WorkerDied(Exception):  # noqa: N818  # what users read as the kind of an error
    """The process that was at a task died."""


class TookTooLong(WorkerDied):
    """The process that was at a task was killed, for the task took too long."""


class Cancelled(WorkerDied):
    """The process that was at a task was killed, for nobody wants the task any more."""


@dataclass(frozen=True)
class Reply:
    """What a process says about a task, and the bytes that come with it."""

    told: dict[str, Any]
    content: bytes


@dataclass(eq=False)
class _Task:
    id: str
    request: dict[str, Any]
    begun: Callable[[], None]
    future: Future[Reply] = field(default_factory=Future)
    since: float = 0.0


class _Process:
    """One process, from its start to its death."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.ready = False
        self.tasks: dict[str, _Task] = {}
        self.reason: WorkerDied | None = None
        """Why it was killed on purpose."""
        self.system = subprocess.Popen(
            pool.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"OMP_WAIT_POLICY": "PASSIVE", **os.environ},
        )
        threading.Thread(target=self._read, name="worker", daemon=True).start()

    def give(self, task: _Task) -> None:
        task.since = time.monotonic()
        self.tasks[task.id] = task
        assert self.system.stdin is not None
        with suppress(OSError, ValueError):  # it died just now: the thread that reads from it sees that
            self.system.stdin.write(json.dumps({"id": task.id, **task.request}).encode() + b"\n")
            self.system.stdin.flush()

    def kill(self, reason: WorkerDied) -> None:
        self.ready, self.reason = False, reason
        self.system.kill()

    def _read(self) -> None:
        assert self.system.stdin is not None
        assert self.system.stdout is not None
        try:
            while line := self.system.stdout.readline():
                told = json.loads(line)
                content = self.system.stdout.read(told.get("bytes", 0))
                if len(content) == told.get("bytes", 0):
                    self._pool.hear(self, told, content)
        except Exception:  # another process starts its tasks again
            _log.exception("what a process answered cannot be read")
            self.system.kill()
        code = self.system.wait()
        with suppress(OSError):
            self.system.stdin.close()
        self.system.stdout.close()
        self._pool.take_back(self, code)


class Pool:
    """Processes that run one command: `least` of them always, `most` where tasks wait."""

    def __init__(
        self, command: Sequence[str], *, least: int, most: int, capacity: int = 1, seconds: float = float("inf")
    ) -> None:
        self.command = list(command)
        self._least, self._most = least, most
        self._capacity, self._seconds = capacity, seconds
        self._processes: list[_Process] = []
        self._waiting: Turns[_Task] = Turns()
        self._lock = threading.RLock()
        self._stopping = threading.Event()
        self.on_room: Callable[[], None] = lambda: None
        """Called when a process can take another task."""

    @property
    def ready(self) -> bool:
        """Whether a process can compute."""
        return any(process.ready for process in self._processes)

    @property
    def room(self) -> int:
        """How many more tasks would begin at once."""
        with self._lock:
            return sum(self._capacity - len(process.tasks) for process in self._processes if process.ready)

    def start(self) -> None:
        """Start as many processes as there always are."""
        for _ in range(self._least):
            self._processes.append(_Process(self))
        threading.Thread(target=self._end_late_ones, name="deadlines", daemon=True).start()

    def stop(self) -> None:
        """End all processes; tasks that have no answer are lost."""
        self._stopping.set()
        with self._lock:
            processes, waiting = list(self._processes), self._waiting.clear()
        for process in processes:
            process.kill(WorkerDied("The server stops."))
        for process in processes:
            process.system.wait(5)
        _lose(waiting, WorkerDied("The server stops."))

    def submit(
        self, name: str, request: dict[str, Any], begun: Callable[[], None] = lambda: None, owner: str = ""
    ) -> Future[Reply]:
        """Give a task to a process, or let it wait for one; a WorkerDied in place of an answer says what became of it.

        `begun` is called when a process begins it; owners take turns.
        """
        task = _Task(name, request, begun)
        with self._lock:
            self._waiting.wait(owner, task)
            self._give_out()
        return task.future

    def cancel(self, name: str) -> None:
        """Kill the process that is still at a task; one that has several at once goes on."""
        with self._lock:
            for process in self._processes:
                if name in process.tasks and self._capacity == 1:
                    process.kill(Cancelled("It was dismissed."))

    def cancel_later(self, name: str, seconds: float) -> None:
        """Leave the process so long to end a task by itself: another one takes seconds to start."""
        timer = threading.Timer(seconds, self.cancel, (name,))
        timer.daemon = True
        timer.start()

    def hear(self, process: _Process, told: dict[str, Any], content: bytes) -> None:
        """Take what a process says."""
        if "at" in told:
            process.tasks[told["at"]].begun()
            return
        with self._lock:
            task = process.tasks.pop(told["id"]) if "id" in told else None
            process.ready = process.reason is None
            self._give_out()
        if task is not None:
            task.future.set_result(Reply(told, content))
        self.on_room()

    def take_back(self, process: _Process, code: int) -> None:
        """Take the tasks of a process that died, and start another."""
        with self._lock:
            self._processes.remove(process)
            lost = list(process.tasks.values())
            was_ready = process.ready or process.reason is not None or bool(lost)
            if not was_ready and not self._processes:  # nobody is there for those that wait
                lost += self._waiting.clear()
        _lose(lost, process.reason or WorkerDied(f"The process that computed it died ({code})."))
        if not was_ready and not self._stopping.is_set():
            _log.error("a process died before it was ready", extra={"code": code})
            self._stopping.wait(_PAUSE)
        with self._lock:
            if not self._stopping.is_set() and len(self._processes) < self._least:
                self._processes.append(_Process(self))
            self._give_out()

    def _give_out(self) -> None:
        """Give waiting tasks to processes; start another process where all are busy. Called with the lock held."""
        while self._waiting and not self._stopping.is_set():
            free = [one for one in self._processes if one.ready and len(one.tasks) < self._capacity]
            if not free:
                if len(self._processes) < self._most:
                    self._processes.append(_Process(self))
                return
            task = self._waiting.next()
            assert task is not None, "any owner may have the next one"
            min(free, key=lambda one: len(one.tasks)).give(task)

    def _end_late_ones(self) -> None:
        """Kill processes that are at a task for too long; one that has several at once sees to that itself."""
        while not self._stopping.wait(min(1.0, self._seconds)):
            with self._lock:
                for process in self._processes:
                    since = min((task.since for task in process.tasks.values()), default=float("inf"))
                    if self._capacity == 1 and time.monotonic() - since > self._seconds:
                        process.kill(TookTooLong())


def _lose(tasks: Sequence[_Task], reason: WorkerDied) -> None:
    for task in tasks:
        task.future.set_exception(reason)


def hold_memory(size: int) -> None:
    """In a process of a pool: have no more than so many bytes: what asks for more fails, and no other process does."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (size, hard))


def read_requests() -> queue.SimpleQueue[dict[str, Any]]:
    """In a process of a pool: give the requests as they come; the process ends with the server, whatever it is at."""
    requests: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()

    def read() -> None:
        for line in sys.stdin:
            requests.put(json.loads(line))
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    return requests


def take_stdout() -> Callable[..., None]:
    """In a process of a pool: keep its output for answers, and give what writes them; prints go to the log."""
    out: IO[bytes] = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)

    def tell(told: dict[str, Any], content: bytes = b"") -> None:
        out.write(json.dumps({**told, "bytes": len(content)}).encode() + b"\n" + content)
        out.flush()

    return tell
