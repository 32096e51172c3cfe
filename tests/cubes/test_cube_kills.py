"""Runs that are killed at any moment: what readers see meanwhile, and what a later run makes of what is left."""

import multiprocessing
import os
import random
import shutil
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from attcr.cubes import write as writing
from attcr.cubes.fill import Dates, Filled
from attcr.cubes.write import write_cube
from attcr.restore.walk import FROM_DATE, ORIGINAL
from fake_cubes import DAYS, Drawn, contents, options

SMALL = "49.64,16.39,790"
"""80 x 80 pixels, which are four blocks."""
STARTED = multiprocessing.get_context("forkserver")
STARTED.set_forkserver_preload(["attcr.cubes.write", "fake_cubes"])


def copied(dates: Dates, wanted: Sequence[int]) -> Filled:
    """Fill in no time, so that kills fall into reading and writing."""
    at = np.array(wanted)[:, None, None]
    seen = dates.seen[list(wanted)]
    values = np.where(seen[:, None], dates.values[list(wanted)], np.float32(0.2))
    quality = np.where(seen, ORIGINAL, FROM_DATE).astype(np.uint8)
    other = np.where(at == 0, 1, 0)
    days = np.where(seen, 0, 10 * (other - at)).astype(np.float32)
    return Filled(values, quality, np.where(seen, at, other).astype(np.int16), days, np.zeros_like(days))


def work(target: Path, days: tuple[str, ...], update: bool) -> None:
    """Make or lengthen a cube in a process of its own, with a commit after every block."""
    drawn = Drawn(days)
    with pytest.MonkeyPatch.context() as patch:
        drawn.install(patch.setattr)
        patch.setattr(writing, "COMMIT_SECONDS", 0.0)
        patch.setattr("attcr.cubes.block.fill", copied)
        write_cube(SMALL, target, options(), update=update)


def run(target: Path, days: tuple[str, ...], update: bool, seconds: float | None) -> int:
    """Run it, killed after so many seconds; give what it ended with."""
    process = STARTED.Process(target=work, args=(target, days, update))
    process.start()
    process.join(seconds)
    if process.is_alive() and process.pid:
        os.kill(process.pid, signal.SIGKILL)
    process.join()
    return process.exitcode or 0


@pytest.mark.parametrize("kills", [6, pytest.param(60, marks=pytest.mark.nightly)])
def test_a_killed_run_is_taken_up_to_equal_bytes_and_readers_see_a_whole_cube(kills: int, tmp_path: Path) -> None:
    first, then = DAYS[:3], DAYS
    old, new, target = (tmp_path / name for name in ("old.zarr", "new.zarr", "o.zarr"))
    assert run(tmp_path / "warm.zarr", first, False, None) == 0  # imports take longer than the work
    began = time.monotonic()
    assert run(old, first, False, None) == 0
    took = time.monotonic() - began
    shutil.copytree(old, new)
    assert run(new, then, True, None) == 0
    states = {"none": {}, "old": contents(old), "new": contents(new)}
    draw, killed = random.Random(kills), {False: 0, True: 0}
    for update, days, before, after in ((False, first, "none", "old"), (True, then, "old", "new")):
        while killed[update] < kills // 2:
            ended = run(target, days, update, draw.uniform(0, 1.1 * took))
            seen = contents(target)
            assert seen in (states[before], states[after])  # never a half-written date
            killed[update] += ended == -signal.SIGKILL
            if seen == states[after]:  # it was whole before it could be killed: begin again
                shutil.rmtree(target)
                if update:
                    shutil.copytree(old, target)
        assert run(target, days, update, None) == 0
        assert contents(target) == states[after]
