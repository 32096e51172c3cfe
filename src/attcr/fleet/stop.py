"""How a run ends before its end: at a signal, whatever it is at, and a scene at its deadline."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

GRACE = 8.0
"""Seconds that a process has to write its log and remove what is unfinished."""


class DeadlineOver(BaseException):  # no error of the scene: nothing that tries again may catch it
    """A scene took longer than it may."""


def end_on_signals(grace: float = GRACE) -> None:
    """Let SIGTERM interrupt this process as SIGINT does, and end it where neither is heard within the grace.

    Python hears a signal between two of its own steps. A library that waits for a server may be in one for minutes,
    so a thread that the system wakes at once counts the seconds. Nothing is lost: the same command continues the run.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    heard, told = os.pipe()
    os.set_blocking(told, False)
    signal.set_wakeup_fd(told, warn_on_full_buffer=False)

    def watch() -> None:
        while number := os.read(heard, 1):
            if number[0] in (signal.SIGTERM, signal.SIGINT):
                time.sleep(grace)
                os._exit(128 + number[0])

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def within(seconds: float | None) -> Iterator[None]:
    """Raise `DeadlineOver` in what is done here past so many seconds; of a process's main thread alone."""
    if seconds is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    def over(number: int, frame: FrameType | None) -> None:
        raise DeadlineOver

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
