"""Runs that are killed at any moment: what readers see meanwhile, and what a later run makes of what is left."""

import multiprocessing
import random
import shutil
import signal
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from attcr.cli import app
from attcr.cubes import write as writing
from fake_cubes import DAYS, Drawn, contents

SMALL = "49.64,16.39,790"
"""80 x 80 pixels, which are four blocks."""
STARTED = multiprocessing.get_context("forkserver")
STARTED.set_forkserver_preload(["attcr.cli", "attcr.cubes.write", "pytest", "scipy.ndimage", "torch"])


def work(target: Path, days: tuple[str, ...], update: bool) -> None:
    """Run the command in a process of its own, with a commit after every block."""
    given = ["--bands", "red,green,blue", "--memory", "0.525", "--dilate", "0", "--progress", "none", "--quiet"]
    more = ["--update"] if update else []
    with pytest.MonkeyPatch.context() as patch:
        Drawn(days).install(patch.setattr)
        patch.setattr(writing, "COMMIT_SECONDS", 0.0)
        app(["cube", SMALL, str(target), "--from", DAYS[0], "--to", DAYS[-1], *given, *more], standalone_mode=False)


def run(
    target: Path,
    days: tuple[str, ...],
    update: bool,
    seconds: float | None = None,
    look: Callable[[], None] = lambda: None,
) -> int:
    """Run it, killed after so many seconds, and look meanwhile; give what it ended with."""
    process = STARTED.Process(target=work, args=(target, days, update))
    process.start()
    timer = threading.Timer(seconds or 3600, process.kill)
    timer.start()
    while process.is_alive():
        look()
        process.join(0.1)
    timer.cancel()
    return process.exitcode or 0


@pytest.mark.parametrize("kills", [6, pytest.param(60, marks=pytest.mark.nightly)])
def test_a_killed_run_is_taken_up_to_equal_bytes_and_readers_see_a_whole_cube(kills: int, tmp_path: Path) -> None:
    first, then = DAYS[:3], DAYS
    old, new, target = (tmp_path / name for name in ("old.zarr", "new.zarr", "o.zarr"))
    assert run(tmp_path / "warm.zarr", first, False) == 0  # imports take longer than the work
    began = time.monotonic()
    assert run(old, first, False) == 0
    took = time.monotonic() - began
    shutil.copytree(old, new)
    assert run(new, then, True) == 0
    states = {"none": {}, "old": contents(old), "new": contents(new)}
    draw, killed = random.Random(kills), {False: 0, True: 0}
    for update, days, before, after in ((False, first, "none", "old"), (True, then, "old", "new")):

        def look(two: Sequence[str] = (before, after)) -> None:
            assert contents(target) in [states[name] for name in two]  # never a half-written date

        while killed[update] < kills // 2:
            ended = run(target, days, update, draw.uniform(0, 1.1 * took), look)
            look()
            killed[update] += ended == -signal.SIGKILL
            if contents(target) == states[after]:  # it was whole before it could be killed: begin again
                shutil.rmtree(target)
                if update:
                    shutil.copytree(old, target)
        assert run(target, days, update) == 0
        assert contents(target) == states[after]
