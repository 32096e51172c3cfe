"""The attcr that does the work: finding it, running it as a child process, and taking its result over. No QGIS here.

QGIS's own Python has no torch on most machines, and need not: attcr lives in an environment of its own.
"""

from __future__ import annotations

import json
import os
import queue
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Callable

INSTALL = """Run "Set up attcr" in the Processing toolbox, which installs it. Or install it by hand, into an environment
of its own.
Linux and macOS, in a terminal:
    python3 -m venv ~/attcr
    ~/attcr/bin/pip install 'attcr[scenes]'
Windows, in a command prompt:
    py -m venv %USERPROFILE%\\attcr
    %USERPROFILE%\\attcr\\Scripts\\pip install "attcr[scenes]"
Then name that folder in Settings > Options > Processing > Providers > attcr."""

PATIENCE = 10.0
"""Seconds that a stopped attcr has to end by itself."""
OF_QGIS = (
    *("PYTHONHOME", "PYTHONPATH", "PYTHONEXECUTABLE", "PYTHONSTARTUP", "__PYVENV_LAUNCHER__"),
    *("GDAL_DATA", "GDAL_DRIVER_PATH", "PROJ_LIB", "PROJ_DATA"),
)
"""What QGIS sets for its own Python, GDAL and PROJ, and what would mislead those of attcr."""
STAGES = {"mask": (0.0, 5.0), "restore": (5.0, 95.0), "write": (95.0, 100.0)}
"""Where each stage of a restore begins and ends, in per cent."""


class EngineError(Exception):
    """What the user is to be told."""


def environment_in(profile: Path) -> Path:
    """Name the environment that `set_up` makes in a profile of QGIS."""
    return profile / "attcr"


def set_up(
    folder: Path, wheels: str, version: str, python: str, on_line: Callable[[str], None], stopped: Callable[[], bool]
) -> str | None:
    """Make an environment and install attcr into it; give its program, or None where it was stopped.

    With uv, if it is there, else with the venv of a Python. `wheels` is a folder to install from without internet.
    What was there before stays until the new one works.
    """
    name = f"attcr[scenes]{version and '=='}{version}"
    uv = shutil.which("uv")
    if wheels and not Path(wheels).is_dir():
        raise EngineError(f"There is no folder {wheels}: name one with the wheels of attcr and of all it needs.")
    fresh, bin_ = folder.with_name(f"{folder.name}.new"), "Scripts" if os.name == "nt" else "bin"
    shutil.rmtree(fresh, ignore_errors=True)
    inner = str(fresh / bin_ / ("python.exe" if os.name == "nt" else "python"))
    local = ["--no-index", "--find-links", wheels] if wheels else []
    if uv:
        steps = [
            [uv, "venv", "--relocatable", "--python", python or ">=3.10", str(fresh)],
            [uv, "pip", "install", "--python", inner, *local, name],
        ]
    else:
        python = python or find_python()
        steps = [
            [python, "-m", "venv", str(fresh)],
            [inner, "-m", "pip", "install", "--disable-pip-version-check", "--progress-bar", "off", *local, name],
        ]
    try:
        for step in [*steps, [inner, "-m", "attcr", "--version"]]:
            on_line(" ".join(step))
            said: list[str] = []

            def hear(line: str, said: list[str] = said) -> None:
                said.append(line)
                on_line(line)

            ended = run(step, hear, stopped)
            on_line(ended.stdout.strip())
            if ended.stopped:
                return None
            if ended.code:
                raise EngineError(_reason(step[0], ended.code, [*said, ended.stdout]))
        shutil.rmtree(folder, ignore_errors=True)
        fresh.rename(folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return _own_program(folder)


def _own_program(folder: Path) -> str:
    """Write what starts attcr in an environment that was made under another name."""
    bin_ = "Scripts" if os.name == "nt" else "bin"
    program = folder / ("attcr.cmd" if os.name == "nt" else "attcr")
    if os.name == "nt":
        program.write_text(f'@"%~dp0{bin_}\\python.exe" -m attcr %*\n', encoding="utf-8")
    else:
        program.write_text(f'#!/bin/sh\nexec "$(dirname "$0")/{bin_}/python" -m attcr "$@"\n', encoding="utf-8")
        program.chmod(0o755)
    return str(program)


def find_python() -> str:
    """Give a Python of at least 3.10 that can make an environment; QGIS's own on Windows and macOS."""
    places = [str(Path(sys.exec_prefix) / name) for name in ("bin/python3", "python.exe", "../MacOS/bin/python3")]
    names = ("python3", *(f"python3.{minor}" for minor in range(14, 9, -1)), "python")
    for place in (*places, *filter(None, map(shutil.which, names))):
        asked = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))"
        with suppress(OSError, subprocess.SubprocessError):
            if not subprocess.run([place, "-c", asked], env=environment(), capture_output=True, timeout=60).returncode:
                return place
    raise EngineError(
        "No Python of 3.10 or later with venv was found: install uv (docs.astral.sh/uv) or Python (python.org), or on "
        "Debian and Ubuntu the package python3-venv, and try again."
    )


def find_attcr(chosen: str = "", profile: Path | None = None) -> str:
    """Give the attcr to run: the chosen one (its file, or the folder of its environment), that of the profile, or
    that on the path.

    Programs that are started from a desktop often have a shorter path than a terminal: where pipx and uv put
    commands is looked at, too.
    """
    name = "attcr.exe" if os.name == "nt" else "attcr"
    if chosen:
        given = Path(chosen).expanduser()
        places = [given, given / "bin" / name, given / "Scripts" / name, given / name]
    else:
        on_path = shutil.which("attcr")
        places = [environment_in(profile) / ("attcr.cmd" if os.name == "nt" else "attcr")] if profile else []
        places += [Path(on_path)] if on_path else []
        places.append(Path.home() / ".local" / "bin" / name)
    for place in places:
        if place.is_file() and os.access(place, os.X_OK):
            return str(place)
    if chosen:
        raise EngineError(
            f"There is no attcr in {chosen}, which Settings > Options > Processing > Providers > attcr names: name its "
            "environment's folder or the program itself, or leave it empty to take the one on the path."
        )
    raise EngineError(f"No attcr was found. {INSTALL}")


def environment() -> dict[str, str]:
    """Give the environment for attcr: ours without what is meant for QGIS's own libraries."""
    ours = {name: value for name, value in os.environ.items() if name not in OF_QGIS}
    return {**ours, "PYTHONIOENCODING": "utf-8"}


def split_options(text: str) -> list[str]:
    """Give the words of a command line; on Windows a backslash is part of a path."""
    try:
        return shlex.split(text.replace("\\", "\\\\") if os.name == "nt" else text)
    except ValueError as error:
        raise EngineError(f"The additional options {text!r} cannot be read: {error}.") from None


@dataclass
class Ended:
    """How a run of attcr ended."""

    code: int
    stdout: str
    stopped: bool
    """Whether it was stopped because it was asked to."""


def run(
    command: Sequence[str], on_line: Callable[[str], None], stopped: Callable[[], bool], patience: float = PATIENCE
) -> Ended:
    """Run a command to its end, or until `stopped` says so; each line of its stderr is handed on as it comes."""
    hidden = getattr(subprocess, "CREATE_NO_WINDOW", 0)  # Windows would show a console
    pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    text: dict[str, Any] = {"text": True, "encoding": "utf-8", "errors": "replace"}
    try:
        child = subprocess.Popen(list(command), env=environment(), creationflags=hidden, **pipes, **text)
    except OSError as error:
        raise EngineError(f"{command[0]} cannot be run: {error}") from error
    lines: queue.Queue[str | None] = queue.Queue()
    said: list[str] = []
    readers = [
        threading.Thread(target=_hand_on, args=(child.stderr, lines), daemon=True),
        threading.Thread(target=_collect, args=(child.stdout, said), daemon=True),
    ]
    for reader in readers:
        reader.start()
    ended = False
    try:
        while not (ended or stopped()):
            try:
                line = lines.get(timeout=0.1)
            except queue.Empty:
                continue
            if line is None:
                ended = True
            else:
                on_line(line)
        if ended:
            while child.poll() is None and not stopped():
                time.sleep(0.05)
    finally:
        asked = child.poll() is None
        _stop(child, patience)
        for reader in readers:
            reader.join(patience)
    return Ended(child.returncode, "".join(said), stopped=asked)


def _hand_on(stream: IO[str], lines: queue.Queue[str | None]) -> None:
    with stream:
        for line in stream:
            lines.put(line.rstrip("\r\n"))
    lines.put(None)


def _collect(stream: IO[str], said: list[str]) -> None:
    with stream:
        said.append(stream.read())


def _stop(child: subprocess.Popen[str], patience: float) -> None:
    """End a child that still runs: ask it first, then make it."""
    if child.poll() is None:
        child.terminate()
    try:
        child.wait(patience)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


@dataclass
class Listener:
    """Who hears what attcr tells."""

    progress: Callable[[float, str], None]
    """Per cent done, and what is being done."""
    note: Callable[[str], None]
    warning: Callable[[str], None]
    stopped: Callable[[], bool]


@dataclass
class _Events:
    """What the lines of `--progress json` tell, handed on to a listener."""

    listener: Listener
    shown: Callable[[str], str]
    """Turns a message of attcr into one for the user."""
    result: dict[str, Any] = field(default_factory=dict)
    error: str = ""
    rest: list[str] = field(default_factory=list)
    """Lines that are no events."""

    def __call__(self, line: str) -> None:
        event = _event(line)
        kind, message = event.get("event"), self.shown(str(event.get("message", "")))
        if kind == "progress":
            first, last = STAGES.get(str(event.get("stage")), (0.0, 100.0))
            part = event["done"] / event["total"] if event.get("total") else 0.0
            self.listener.progress(first + (last - first) * part, message)
        elif kind == "note":
            self.listener.note(message)
        elif kind == "warning":
            self.listener.warning(message)
        elif kind == "result":
            self.result = event["result"]
        elif kind == "error":
            missing = event.get("error") == "ModuleNotFoundError"
            self.error = f"{message}. {INSTALL}" if missing else message
        elif not event and line.strip():
            self.rest.append(self.shown(line))


def _event(line: str) -> dict[str, Any]:
    if not line.startswith("{"):
        return {}
    try:
        event = json.loads(line)
    except ValueError:
        return {}
    return event if isinstance(event, dict) else {}


def restore(
    attcr: str, scene: str, target: Path, options: Sequence[str], inputs: Sequence[str], listener: Listener
) -> dict[str, Any] | None:
    """Remove the clouds of a scene into `target` and the files beside it; None where it was stopped.

    All is made in a folder of its own beside the target, and taken over at the end: a run that is stopped or fails
    leaves nothing, and what was there before stays until then. Gives what `attcr restore --json` tells.
    """
    check_target(target, [scene, *inputs])
    with _folder_beside(target) as folder:
        events = _Events(listener, lambda text: text.replace(str(folder) + os.sep, str(target.parent) + os.sep))
        made = folder / target.name
        command = [attcr, "restore", *options, "--progress", "json", "--quiet", "--", scene, str(made)]
        ended = run(command, events, listener.stopped)
        if ended.stopped or listener.stopped():
            return None
        if ended.code or not made.is_file():
            raise EngineError(events.error or _reason(attcr, ended.code, events.rest))
        _take_over(folder, target)
    return events.result


def which_weights(attcr: str, scene: str, options: Sequence[str], listener: Listener) -> list[dict[str, Any]] | None:
    """Say for each of the weights of the package whether they fit a scene and why; None where it was stopped."""
    rest: list[str] = []
    ended = run([attcr, "weights", f"--for={scene}", *options, "--json"], rest.append, listener.stopped)
    if ended.stopped:
        return None
    if ended.code:
        raise EngineError(_reason(attcr, ended.code, rest))
    fits: list[dict[str, Any]] = json.loads(ended.stdout)
    return fits


def _reason(attcr: str, code: int, lines: Sequence[str]) -> str:
    """Give why attcr ended without a result, from what it wrote."""
    told = [line for line in lines if line.startswith("attcr: ")]
    if told:
        return told[-1][len("attcr: ") :]
    last = " ".join(" ".join(lines[-12:]).split())
    return f"{attcr} ended with code {code} and said: {last or 'nothing'}"


def files_beside(target: Path) -> list[Path]:
    """Name every file that a result may have beside its target; the item, which tells of all, is the last."""
    rasters = [target, *(target.with_name(f"{target.stem}_{layer}.tif") for layer in ("quality", "spread", "dates"))]
    described = [raster.with_name(raster.name + ".aux.xml") for raster in rasters]
    return [*rasters[1:], *described, target.with_name(f"{target.stem}_preview.png"), item_of(target)]


def item_of(target: Path) -> Path:
    """Name the item of a result: where it is, all is there."""
    return target.with_name(f"{target.stem}.json")


def check_target(target: Path, inputs: Sequence[str]) -> None:
    """Refuse a target that cannot be written, or that would replace an input or what is no earlier result of this name.

    QGIS asks before a file is replaced, but knows nothing of those beside it, nor of those that an input reads.
    """
    if not target.parent.is_dir():
        raise EngineError(f"There is no folder {target.parent}: make it, or choose another output.")
    if target.is_dir():
        raise EngineError(f"{target} is a folder: name a file in it as output.")
    taken = [path for path in [target, *files_beside(target)] if os.path.lexists(path)]
    read = {os.path.realpath(name) for name in inputs}
    for path in taken:
        if os.path.realpath(path) in read:
            raise EngineError(f"{path} is an input and would be replaced: choose another output.")
    if taken and not _is_ours(target):
        raise EngineError(f"{taken[0]} exists and is of no earlier result {target.name}: choose another output.")


def _is_ours(target: Path) -> bool:
    """Say whether the files beside a target are of an earlier result of this name."""
    try:
        item = json.loads(item_of(target).read_text(encoding="utf-8"))
        return "attcr:fingerprint" in item["properties"] and item["assets"]["restored"]["href"] == f"./{target.name}"
    except (OSError, ValueError, LookupError, TypeError):
        return False


@contextmanager
def _folder_beside(target: Path) -> Iterator[Path]:
    """Give an empty folder on the target's disk, and leave nothing of it."""
    try:
        folder = Path(tempfile.mkdtemp(prefix=".attcr-", dir=target.parent))
    except OSError as error:
        raise EngineError(f"{target.parent} cannot be written to: {error}. Choose another output.") from error
    try:
        yield folder
    finally:
        for pause in (0.0, 0.2, 1.0, 3.0):  # Windows keeps files of a program that was ended for a moment
            time.sleep(pause)
            shutil.rmtree(folder, ignore_errors=True)
            if not folder.exists():
                break


def _take_over(folder: Path, target: Path) -> None:
    """Give the files of a finished result their names, the item last; what an earlier result had more goes."""
    try:
        item_of(target).unlink(missing_ok=True)  # there are never new pixels under an old item
        for path in [*files_beside(target)[:-1], target, item_of(target)]:
            made = folder / path.name
            if made.exists():
                made.replace(path)
            elif path.exists():
                path.unlink()
    except OSError as error:
        raise EngineError(
            f"{error.filename2 or error.filename} cannot be replaced ({error.strerror}): is it open as a layer? Remove "
            "the layer, or choose another output."
        ) from error


def told_pixels(result: Mapping[str, Any]) -> list[str]:
    """Give the share of each class of the quality raster in words."""
    pixels = result.get("pixels", {})
    total = sum(pixels.values()) or 1
    return [f"{count / total:8.2%}  {name}" for name, count in pixels.items() if count]
