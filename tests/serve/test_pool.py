"""Processes of a pool: one that dies or takes too long takes its own tasks along, and no others."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from attcr.serve import pool as pools
from attcr.serve.pool import Cancelled, Pool, TookTooLong, WorkerDied

WORKER = """
import os, sys, time
from attcr.serve.pool import read_requests, take_stdout
tell, requests = take_stdout(), read_requests()
print("what a library prints is no answer")
tell({"ready": True})
while True:
    asked = requests.get()
    tell({"at": asked["id"]})
    time.sleep(asked.get("sleep", 0))
    if asked.get("die"):
        os._exit(9)
    tell({"id": asked["id"], "pid": os.getpid()}, b"x" * asked.get("size", 0))
"""


@contextmanager
def started(command: str = WORKER, **options: Any) -> Iterator[Pool]:
    pool = Pool((sys.executable, "-c", command), **{"least": 1, "most": 1, **options})
    pool.start()
    try:
        yield pool
    finally:
        pool.stop()


def wait_for(condition: Callable[[], object], seconds: float = 30) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def test_an_answer_comes_with_its_bytes_and_tells_when_it_was_begun() -> None:
    begun: list[str] = []
    with started() as pool:
        found = pool.submit("a", {"size": 300_000}, begun=lambda: begun.append("a")).result(30)
    assert (found.told["id"], found.content) == ("a", b"x" * 300_000)
    assert begun == ["a"]


def test_a_process_that_dies_loses_its_own_task_and_another_takes_its_place() -> None:
    with started(least=2, most=2) as pool:
        wait_for(lambda: pool.room == 2)
        beside, dying = pool.submit("beside", {"sleep": 0.5}), pool.submit("dying", {"die": True})
        waiting = pool.submit("waiting", {})
        with pytest.raises(WorkerDied, match=r"died \(9\)"):
            dying.result(30)
        assert beside.result(30).told["id"] == "beside"
        assert waiting.result(30).told["id"] == "waiting"
        wait_for(lambda: pool.room == 2)


def test_a_task_that_takes_too_long_is_told_from_one_whose_process_died() -> None:
    with started(seconds=0.3) as pool:
        with pytest.raises(TookTooLong):
            pool.submit("late", {"sleep": 60}).result(30)
        assert pool.submit("next", {}).result(30).told["id"] == "next"


def test_a_cancelled_task_ends_at_once_and_the_next_one_gets_another_process() -> None:
    with started() as pool:
        before = pool.submit("first", {}).result(30).told["pid"]
        long = pool.submit("long", {"sleep": 60})
        wait_for(lambda: pool.room == 0)
        pool.cancel("long")
        with pytest.raises(Cancelled):
            long.result(10)
        assert pool.submit("next", {}).result(30).told["pid"] != before
        assert not alive(before)


def test_a_cancelled_task_that_ends_by_itself_in_time_takes_no_process_along() -> None:
    with started() as pool:
        before = pool.submit("first", {}).result(30).told["pid"]
        soon = pool.submit("soon", {"sleep": 0.5})
        pool.cancel_later("soon", 60)
        assert soon.result(60).told["pid"] == before
        long = pool.submit("long", {"sleep": 600})
        pool.cancel_later("long", 0.2)
        with pytest.raises(Cancelled):
            long.result(60)


def test_a_task_that_nobody_cancelled_and_that_is_in_time_goes_on() -> None:
    with started(seconds=30) as pool:
        task = pool.submit("mine", {"sleep": 1.5})
        wait_for(lambda: pool.ready and pool.room == 0)
        pool.cancel("other")
        assert task.result(30).told["id"] == "mine"


def test_a_process_that_dies_has_a_successor_though_nobody_waits_for_it() -> None:
    with started() as pool:
        with pytest.raises(WorkerDied):
            pool.submit("dying", {"die": True}).result(30)
        wait_for(lambda: pool.room == 1)


def test_a_process_with_several_tasks_is_not_killed_for_one_of_them() -> None:
    with started(capacity=2, seconds=0.2) as pool:
        wait_for(lambda: pool.room == 2)
        first, second = pool.submit("first", {"sleep": 1.5}), pool.submit("second", {})
        assert pool.room == 0
        pool.cancel("first")
        assert first.result(30).told["pid"] == second.result(30).told["pid"]


def test_a_further_process_is_started_only_where_tasks_wait() -> None:
    with started(least=1, most=2) as pool:
        one = pool.submit("first", {}).result(30).told["pid"]
        assert pool.submit("second", {}).result(30).told["pid"] == one
        busy, other = pool.submit("busy", {"sleep": 2}), pool.submit("other", {})
        assert other.result(30).told["pid"] != busy.result(30).told["pid"] == one


def test_where_no_process_starts_what_waits_is_lost_and_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "_PAUSE", 0.1)
    with started("import sys, time; time.sleep(0.5); sys.exit(3)") as pool:
        with pytest.raises(WorkerDied, match=r"died \(3\)"):
            pool.submit("never", {}).result(30)
        assert not pool.ready


def test_a_pool_that_stops_leaves_nobody_waiting_and_no_process() -> None:
    with started() as pool:
        pid = pool.submit("first", {}).result(30).told["pid"]
        tasks = [pool.submit("at it", {"sleep": 60}), pool.submit("waiting", {})]
    for task in tasks:
        with pytest.raises(WorkerDied):
            task.result(10)
    assert not alive(pid)


def test_processes_end_with_a_server_that_is_killed(tmp_path: Path) -> None:
    (tmp_path / "worker.py").write_text(WORKER)
    server = (
        "import sys, time; from attcr.serve.pool import Pool\n"
        f"pool = Pool((sys.executable, {str(tmp_path / 'worker.py')!r}), least=1, most=1); pool.start()\n"
        "print(pool.submit('a', {}).result(30).told['pid'], flush=True)\n"
        "pool.submit('b', {'sleep': 60}); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", server], stdout=subprocess.PIPE, env=dict(os.environ)) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        assert alive(pid)
        process.kill()
    wait_for(lambda: not alive(pid), 10)
