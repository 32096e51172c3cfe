"""Runs that are killed at any moment: what readers see meanwhile, and what a later run makes of what is left."""

import itertools
import multiprocessing
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest

from attcr.cli import app
from attcr.cubes import write as writing
from attcr.cubes.write import write_cube
from attcr.errors import SceneError
from fake_cubes import DAYS, Drawn, contents, options

SMALL = "49.64,16.39,790"
"""80 x 80 pixels, which are four blocks."""
STARTED = multiprocessing.get_context("forkserver")
STARTED.set_forkserver_preload(["attcr.cli", "attcr.cubes.write", "pytest", "scipy.ndimage", "torch"])


def work(target: str, days: tuple[str, ...], update: bool, settings: dict[str, str]) -> None:
    """Run the command in a process of its own, with a commit after every block."""
    given = ["--bands", "red,green,blue", "--memory", "0.525", "--dilate", "0", "--progress", "none", "--quiet"]
    more = ["--update"] if update else []
    os.environ.update(settings)
    with pytest.MonkeyPatch.context() as patch:
        Drawn(days).install(patch.setattr)
        patch.setattr(writing, "COMMIT_SECONDS", 0.0)
        app(["cube", SMALL, target, "--from", DAYS[0], "--to", DAYS[-1], *given, *more], standalone_mode=False)


def run(
    target: str,
    days: tuple[str, ...],
    update: bool,
    seconds: float | None = None,
    look: Callable[[], None] = lambda: None,
) -> int:
    """Run it, killed after so many seconds, and look meanwhile; give what it ended with."""
    process = STARTED.Process(target=work, args=(target, days, update, dict(os.environ)))
    process.start()
    timer = threading.Timer(seconds or 3600, process.kill)
    timer.start()
    while process.is_alive():
        look()
        process.join(0.1)
    timer.cancel()
    return process.exitcode or 0


def kill(base: str, kills: int) -> None:
    """Kill new cubes and updates at random moments, half of the times each."""
    names = (f"{base}/{number}.zarr" for number in itertools.count())
    old, first, draw = next(names), DAYS[:3], random.Random(kills)
    assert run(next(names), first, False) == 0  # imports take longer than the work
    began = time.monotonic()
    assert run(old, first, False) == 0
    took = time.monotonic() - began
    before: dict[str, bytes] = {}
    for update, days in ((False, first), (True, DAYS)):
        assert not update or run(old, days, True) == 0
        after, target, killed = contents(old), "", 0

        def look(target: str, two: Sequence[dict[str, bytes]] = (before, after)) -> None:
            assert contents(target) in two  # never a half-written date

        while killed < kills // 2 or target:
            if not target:
                target = next(names)
                assert not update or run(target, first, False) == 0
            seconds = draw.uniform(0, 1.1 * took) if killed < kills // 2 else None
            ended = run(target, days, update, seconds, partial(look, target))
            assert ended in (0, -signal.SIGKILL)
            killed += ended != 0
            if contents(target) == after:
                target = ""
            else:
                assert ended != 0
        before = after


@pytest.mark.parametrize("kills", [6, pytest.param(60, marks=pytest.mark.nightly)])
def test_a_killed_run_is_taken_up_to_equal_bytes_and_readers_see_a_whole_cube(kills: int, tmp_path: Path) -> None:
    kill(str(tmp_path), kills)


def test_runs_into_a_bucket_are_killed_too_and_of_two_at_once_one_wins(
    s3: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill(f"{s3}/killed", 10)
    target, told = f"{s3}/two.zarr", []
    Drawn().install(monkeypatch.setattr)
    monkeypatch.setattr(writing, "COMMIT_SECONDS", 0.0)

    def other(stage: str, done: int, total: int, megapixels: float) -> None:
        if done == 2 and not told:
            told.append(write_cube(SMALL, target, options()).dates)  # takes it up, and ends it meanwhile

    with pytest.raises(SceneError, match="written by another run meanwhile, which was first"):
        write_cube(SMALL, target, options(), progress=other)
    assert told == [4]
    write_cube(SMALL, f"{s3}/right.zarr", options())
    assert contents(target) == contents(f"{s3}/right.zarr") != {}
