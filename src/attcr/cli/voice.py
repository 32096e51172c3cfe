"""How commands speak: results on stdout; notes, warnings and progress on stderr, for people or for programs."""

import json
import logging
import re
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

import typer

from attcr.addresses import hide_secrets
from attcr.errors import AllCloudError, AttcrError, AttcrWarning, ConfigError
from attcr.version import __version__

if TYPE_CHECKING:
    from attcr.restore.scene import Progress

STAGES = {
    "mask": "finding clouds (rows)",
    "restore": "restoring (tiles)",
    "write": "writing",
    "cube": "filling (blocks)",
    "composite": "merging (blocks)",
    "scenes": "restoring (scenes)",
    "evaluate": "evaluating (images)",
    "gaps": "filling gaps (windows)",
}
"""What is counted in each stage, in words."""
FIRST_LINE, LONGEST_SILENCE = 10.0, 60.0
"""Seconds until the first line of progress where stderr is no terminal, and between later ones at most."""
EVENTS_A_SECOND = 4
"""Progress events of one stage at most, beside its first and its last."""
STOPPED, ALL_CLOUD = 130, 4


def exit_code(error: Exception) -> int:
    """Give the exit code of a command that an error ends."""
    return ALL_CLOUD if isinstance(error, AllCloudError) else 2 if isinstance(error, AttcrError) else 1


class Show(Protocol):
    """What hears how far a stage is."""

    def __call__(self, stage: str, done: int, total: int, megapixels: float = 0.0) -> None:
        """Hear it."""


@dataclass
class Voice:
    """What one command says, and to whom."""

    command: str
    quiet: bool = False
    """Nothing but warnings and errors."""
    verbose: int = 0
    """1: what is done, and the traceback of an error. 2: what libraries say, too."""
    as_json: bool = False
    """The result as JSON on stdout."""
    progress: str = "auto"
    """auto: a bar at a terminal, else a line now and then. json: events. none."""
    if_stopped: str = "Nothing is left of it."
    """What to do after Ctrl-C."""
    began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        if self.progress not in ("auto", "json", "none"):
            raise ConfigError(f"--progress is {self.progress!r}; expected auto, json or none.")

    @property
    def seconds(self) -> float:
        """Since the command began."""
        return round(time.monotonic() - self.began, 3)

    def event(self, event: str, message: str, **told: Any) -> None:
        """Write one event as a line of JSON on stderr, where events were asked for."""
        if self.progress == "json":
            line = {"event": event, **told, "seconds": self.seconds, "message": " ".join(message.split())}
            typer.echo(json.dumps(line), err=True)

    def say(self, text: str = "") -> None:
        """Write a line of the result for people."""
        if not (self.quiet or self.as_json):
            typer.echo(text)

    def note(self, text: str) -> None:
        """Say on stderr what was chosen or done on the way."""
        if self.progress == "json":
            self.event("note", text)
        elif not self.quiet:
            typer.echo(text, err=True)

    def warn(self, text: str) -> None:
        """Say on stderr what is to be read with care."""
        if self.progress == "json":
            self.event("warning", text)
        else:
            typer.echo(f"attcr: {text}", err=True)

    def result(self, told: Mapping[str, Any], lines: Iterable[str]) -> None:
        """Give the result: `told` for programs, the lines for people."""
        if self.as_json:
            typer.echo(json.dumps(told, indent=2, default=str))
        for line in lines:
            self.say(line)
        self.event("result", f"{self.command} is done", result=json.loads(json.dumps(told, default=str)))

    def error(self, error: BaseException, code: int, message: str | None = None) -> None:
        """Tell of the error that ends the command."""
        text = message or one_line(error)
        self.event("error", text, error=type(error).__name__, exit_code=code)
        if self.progress != "json":
            typer.echo(f"attcr: {text}", err=True)

    def showing(self) -> AbstractContextManager[Show]:
        """Give what shows progress in the way that was asked for."""
        if self.progress == "json":
            return nullcontext(_Events(self))
        if self.quiet or self.progress == "none":
            return nullcontext(_silence)
        return _bar() if sys.stderr.isatty() else nullcontext(_Lines())


def _silence(stage: str, done: int, total: int, megapixels: float = 0.0) -> None:
    pass


class _Events:
    """Progress as events."""

    def __init__(self, voice: Voice) -> None:
        self._voice, self._last = voice, {"": 0.0}

    def __call__(self, stage: str, done: int, total: int, megapixels: float = 0.0) -> None:
        now = time.monotonic()
        if stage in self._last and done < total and now - self._last[stage] < 1 / EVENTS_A_SECOND:
            return
        self._last[stage] = now
        told = {"megapixels": round(megapixels, 3)} if megapixels else {}
        self._voice.event(
            "progress", f"{STAGES[stage]}: {done} of {total}", stage=stage, done=done, total=total, **told
        )


class _Lines:
    """Progress as a line now and then, for a log."""

    def __init__(self) -> None:
        self._began: dict[str, float] = {}
        self._next = time.monotonic() + FIRST_LINE
        self._pause = FIRST_LINE

    def __call__(self, stage: str, done: int, total: int, megapixels: float = 0.0) -> None:
        now = time.monotonic()
        elapsed = now - self._began.setdefault(stage, now)
        if now < self._next or not 0 < done < total:
            return
        self._pause = min(2 * self._pause, LONGEST_SILENCE)
        self._next = now + self._pause
        rate = f", {megapixels / elapsed:.2f} MP/s" if megapixels and elapsed else ""
        left = f", about {duration(elapsed / done * (total - done))} left" if elapsed else ""
        typer.echo(f"{STAGES[stage]}: {done} of {total}{rate}{left}", err=True)


@contextmanager
def _bar() -> Iterator[Show]:
    """Progress as a bar for each stage: how many, megapixels a second, time left."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}")]
    with Bar(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as bar:
        tasks: dict[str, Any] = {}
        began: dict[str, float] = {}

        def show(stage: str, done: int, total: int, megapixels: float = 0.0) -> None:
            if stage not in tasks:
                tasks[stage] = bar.add_task(STAGES[stage], total=total, rate="")
                began[stage] = time.perf_counter()
            elapsed = time.perf_counter() - began[stage]
            rate = f"{megapixels / elapsed:.2f} MP/s" if megapixels and elapsed else ""
            bar.update(tasks[stage], completed=done, total=total, rate=rate)

        yield show


def of_restore(show: Show) -> "Callable[[Progress], None]":
    """Give what takes the progress of a restore and shows it."""
    return lambda progress: show(progress.stage, progress.done, progress.total, progress.megapixels)


@contextmanager
def speaking(voice: Voice) -> Iterator[Voice]:
    """Let a command speak: warnings, logs and the error that ends it reach the user in the way that was asked for."""
    logger, logs = logging.getLogger("attcr" if voice.verbose < 2 else None), _Logs(voice)
    if voice.verbose < 2:
        quiet_rasterio()
    if voice.verbose:
        logger.addHandler(logs)
        logger.setLevel(logging.INFO)
    voice.event("start", f"attcr {voice.command}", command=voice.command, version=__version__)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, category, *_: _show_warning(voice, message, category)
            yield voice
    except KeyboardInterrupt as error:
        voice.error(error, STOPPED, f"stopped. {voice.if_stopped}")
        raise typer.Exit(STOPPED) from None
    except Exception as error:
        if voice.verbose:
            traceback.print_exception(error, file=sys.stderr)
        if voice.progress != "json" or isinstance(error, typer.Exit):
            raise  # `main` says what an AttcrError says
        code = exit_code(error)
        voice.error(error, code)
        raise typer.Exit(code) from error
    finally:
        logger.removeHandler(logs)


def _show_warning(voice: Voice, message: object, category: type[Warning]) -> None:
    if issubclass(category, AttcrWarning) or voice.verbose:
        voice.warn(as_flags(" ".join(str(message).split())))


class _Logs(logging.Handler):
    def __init__(self, voice: Voice) -> None:
        super().__init__()
        self._voice = voice

    def emit(self, record: logging.LogRecord) -> None:
        self._voice.note(f"{record.name}: {hide_secrets(record.getMessage())}")


_OPTION = re.compile(r"`(?P<name>[a-z_]+)(?:=(?P<value>[^`]*))?`")
_SWITCHES = ("overwrite", "resume", "update")
_OTHERS = (
    "weights", "engine", "gpus", "address", "collection", "workers", "threads", "slots", "predictions", "baseline",
    "protocol", "from", "to", "source", "every", "resolution", "crs", "most_cloud", "memory",
)  # fmt: skip


def as_flags(text: str, *, fleet: bool = False) -> str:
    """Give a message of the library, where `sensor=rgb8` is an option, as the command line spells it: --sensor rgb8.

    For a fleet the options of a scene are settings: --set sensor=rgb8.
    """

    def flag(found: re.Match[str]) -> str:
        from attcr.restore.options import restore_options

        name, value = found["name"], found["value"]
        option = restore_options().get(name)
        if option is None and name not in (*_SWITCHES, *_OTHERS):
            return found[0]
        if fleet and name not in _OTHERS:
            return f"--set {name}={'...' if value is None else value}"
        dashed = option.flags[0] if option else f"--{name.replace('_', '-')}"
        is_switch = name in _SWITCHES or (option and (option.switch or option.kind is bool))
        return dashed if value is None or is_switch else f"{dashed} {value}"

    return _OPTION.sub(flag, text)


def one_line(error: BaseException, *, fleet: bool = False) -> str:
    """Give an error's text in one line (a file's name may hold a line break), with options as flags."""
    return as_flags(" ".join(str(error).split()) or type(error).__name__, fleet=fleet)


def quiet_rasterio() -> None:
    """Keep rasterio's log off the screen: its errors reach the user as ours.

    Where a message of GDAL quotes bytes of a damaged file, rasterio's logger cannot decode it and Python prints that.
    """
    logging.getLogger("rasterio").setLevel(logging.CRITICAL)
    uncaught, unraisable = sys.excepthook, sys.unraisablehook

    def tell_uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if trace is not None or not isinstance(error, UnicodeDecodeError):
            uncaught(kind, error, trace)

    def tell_unraisable(told: "sys.UnraisableHookArgs") -> None:
        if told.object != "rasterio._env.log_error":
            unraisable(told)

    sys.excepthook, sys.unraisablehook = tell_uncaught, tell_unraisable


def duration(seconds: float) -> str:
    """Give a time in the unit that fits it."""
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
