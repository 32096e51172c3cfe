"""The computing processes: started, given work, watched, and started again when they die."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import asdict
from typing import Any, Protocol

from attcr.fleet.ledger import Outcome
from attcr.serve.settings import ServeSettings
from attcr.serve.worker import WorkerSettings

_log = logging.getLogger("attcr.serve")
WORKER = (sys.executable, "-m", "attcr.serve.compute")
"""What computes."""
IN_FLIGHT = 2
"""Jobs that a worker on Ray has at once: one that runs and one that waits for it."""
SLACK = 60.0
"""Seconds beyond a job's own limit after which its process is killed: a library may hear no signal."""
_PAUSE = 5.0  # seconds before a process is started again that died before it was ready


class Desk(Protocol):
    """Where work comes from, and where its results are reported."""

    lock: threading.RLock
    stopping: threading.Event

    def next_job(self) -> str | None:
        """Give the id of the next job."""

    def begun(self, name: str) -> None:
        """Hear that a job is being computed."""

    def ended(self, outcome: Outcome, told: dict[str, Any]) -> None:
        """Hear what became of a job."""

    def died(self, name: str, reason: str) -> None:
        """Hear that the process died that was at a job."""


class Hand:
    """One computing process, or the driver of those on Ray."""

    def __init__(self, crew: Crew, capacity: int) -> None:
        self._crew, self.capacity = crew, capacity
        self.jobs: dict[str, float] = {}
        """Id to when it was handed over."""
        self.ready = False
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start the process."""
        self.ready = False
        self.process = subprocess.Popen(
            [*self._crew.command, self._crew.told],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            env={"OMP_WAIT_POLICY": "PASSIVE", **os.environ},
        )
        threading.Thread(target=self._read, args=(self.process,), name="hand", daemon=True).start()

    def give(self, name: str) -> None:
        """Hand a job over."""
        self.jobs[name] = time.monotonic()
        assert self.process is not None
        assert self.process.stdin is not None
        with suppress(BrokenPipeError, ValueError):  # it died just now: whoever reads from it hears so
            self.process.stdin.write(f"{name}\n")
            self.process.stdin.flush()

    def kill(self) -> None:
        """End the process at once."""
        if self.process is not None:
            self.process.kill()

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                self._crew.hear(self, json.loads(line))
        except Exception:  # the next process starts its job again
            _log.exception("what a computing process told cannot be taken")
            process.kill()
        code = process.wait()
        with suppress(OSError):
            if process.stdin is not None:
                process.stdin.close()
        process.stdout.close()
        self._crew.bury(self, code)


class Crew:
    """All computing processes of a server."""

    def __init__(self, settings: ServeSettings, jobs: Desk) -> None:
        self._jobs, self._seconds = jobs, settings.limits.seconds
        self.command = WORKER
        self.told = json.dumps(
            asdict(
                WorkerSettings(
                    store=str(settings.root),
                    engine=settings.engine,
                    workers=settings.workers,
                    threads=settings.threads or (1 if settings.engine == "ray" else 0),
                    device=settings.device,
                    address=settings.address,
                    pixels=settings.limits.pixels,
                    bands=settings.limits.bands,
                    seconds=settings.limits.seconds,
                )
            )
        )
        on_ray = settings.engine == "ray"
        count, capacity = (1, settings.workers * IN_FLIGHT) if on_ray else (settings.workers, 1)
        self.hands = [Hand(self, capacity) for _ in range(count)]
        self._killed: dict[str, str] = {}
        """Jobs whose process was killed on purpose, and why."""

    @property
    def ready(self) -> bool:
        """Whether a process is there to compute."""
        return any(hand.ready for hand in self.hands)

    def start(self) -> None:
        """Start all processes."""
        for hand in self.hands:
            hand.start()

    def stop(self) -> None:
        """End all processes."""
        for hand in self.hands:
            hand.kill()
        for hand in self.hands:
            if hand.process is not None:
                hand.process.wait(5)

    def hand_out(self) -> None:
        """Give every process that has room a job."""
        with self._jobs.lock:
            if self._jobs.stopping.is_set():
                return
            for hand in sorted(self.hands, key=lambda one: len(one.jobs)):
                while hand.ready and len(hand.jobs) < hand.capacity:
                    name = self._jobs.next_job()
                    if name is None:
                        return
                    hand.give(name)

    def hear(self, hand: Hand, line: dict[str, Any]) -> None:
        """Take a report of a process."""
        if "ready" in line:
            hand.ready = True
        elif "at" in line:
            self._jobs.begun(line["at"])
        elif "outcome" in line:
            outcome = Outcome(**line["outcome"])
            with self._jobs.lock:
                hand.jobs.pop(outcome.id, None)
            self._jobs.ended(outcome, line["told"])
        self.hand_out()

    def bury(self, hand: Hand, code: int) -> None:
        """Take back what a dead process was at, and start another."""
        with self._jobs.lock:
            lost, hand.jobs = list(hand.jobs), {}
            was_ready, hand.ready = hand.ready, False
        if self._jobs.stopping.is_set():
            return
        for name in lost:
            reason = self._killed.pop(name, f"The process that computed it died ({code}).")
            self._jobs.died(name, reason)
        if not was_ready:
            _log.error("a computing process died before it was ready", extra={"code": code})
            self._jobs.stopping.wait(_PAUSE)
        if not self._jobs.stopping.is_set():
            hand.start()

    def drop(self, name: str) -> None:
        """Stop computing a job; on Ray it runs to its end, and what it made is removed."""
        for hand in self.hands:
            if name in hand.jobs and hand.capacity == 1:
                self._killed[name] = "It was dismissed."
                hand.kill()

    def watch(self) -> None:
        """Kill processes that are at a job for too long."""
        with self._jobs.lock:
            for hand in self.hands:
                for name, since in hand.jobs.items():
                    if hand.capacity == 1 and time.monotonic() - since > self._seconds + SLACK:
                        self._killed[name] = f"It took more than the {self._seconds:g} s that a job may take."
                        hand.kill()
