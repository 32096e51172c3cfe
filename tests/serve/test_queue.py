"""Whose turn it is."""

import pytest

from attcr.serve.problems import Problem
from attcr.serve.queue import JobQueue
from attcr.serve.store import JobState


def queue_of(*names: str, short: tuple[str, ...] = ()) -> JobQueue:
    """A queue in which these jobs wait; the first letter of each is its owner."""
    queue = JobQueue()
    for at, name in enumerate(names):
        job = JobState(name, name[0], created=float(at), short=name in short)
        queue.add(job)
        queue.wait(job)
    return queue


def turns(queue: JobQueue) -> list[str]:
    return [job.id for job in iter(queue.next, None)]


def test_users_take_turns_however_many_jobs_one_of_them_sent() -> None:
    assert turns(queue_of("a1", "a2", "a3", "b1", "b2", "c1")) == ["a1", "b1", "c1", "a2", "b2", "a3"]


def test_who_comes_later_waits_for_one_job_of_each_other_user() -> None:
    queue = queue_of("a1", "a2", "a3")
    first = queue.next()
    late = JobState("b1", "b", 9.0)
    queue.add(late)
    queue.wait(late)
    assert first is not None
    assert [first.id, *turns(queue)] == ["a1", "a2", "b1", "a3"]


def test_a_short_job_has_a_process_of_its_own_unless_its_user_has_one_already() -> None:
    queue = queue_of("a1", "a2", "b1", "b2", "c1", short=("a1", "a2", "b2"))

    def take(**kind: bool) -> str | None:
        job = queue.next(**kind)
        if job:
            queue.computed[job.id] = job
        return job and job.id

    assert take() == "a1"
    assert take(short=True) == "b2", "a has one, and b's first is long"
    assert take(short=True) is None
    assert [take(), take(), take()] == ["b1", "c1", "a2"], "the turns of the others stay as they were"
    del queue.computed["a1"], queue.computed["b2"]
    assert queue.next() is None
    assert queue.next(short=True) is None


def test_what_one_kind_of_process_took_no_other_takes() -> None:
    queue = queue_of("a1", "a2", short=("a1", "a2"))
    assert [job and job.id for job in (queue.next(short=True), queue.next(short=True))] == ["a1", "a2"]
    assert queue.next() is None


def test_jobs_that_ended_or_were_forgotten_lose_their_turn() -> None:
    queue = queue_of("a1", "a2", "a3")
    queue.get("a", "a1").status = "dismissed"
    queue.remove("a2")
    assert turns(queue) == ["a3"]


def test_a_user_may_have_so_many_unfinished_jobs() -> None:
    queue = queue_of("a1", "a2", "b1")
    with pytest.raises(Problem, match="You have 2 unfinished jobs and 2 are allowed") as refused:
        queue.add(JobState("a3", "a", 3.0), 2)
    assert refused.value.status == 429
    queue.get("a", "a1").status = "failed"
    queue.add(JobState("a3", "a", 3.0), 2)
    assert [job.id for job in queue.of("a")] == ["a3", "a2", "a1"]
    assert queue.counts() == {"accepted": 3, "running": 0, "successful": 0, "failed": 1, "dismissed": 0}


def test_only_what_ended_before_a_time_is_old() -> None:
    queue = queue_of("a1", "a2", "a3")
    for name, finished in (("a1", 5.0), ("a2", 10.0)):
        queue.get("a", name).status, queue.get("a", name).finished = "successful", finished
    assert [job.id for job in queue.remove_older(10.0)] == ["a1"]
    assert [job.id for job in queue.of("a")] == ["a3", "a2"]
    assert queue.keeps_files_of("a2")
    assert not queue.keeps_files_of("a1")
