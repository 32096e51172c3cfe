"""Jobs outlive their server: none is lost, none is done twice, and each ends as the command would have it."""

import random
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

from commands import attcr
from fake_fleets import completed, make_weights
from fake_services import (
    QUICK,
    answers,
    ask,
    begin,
    by_command,
    by_service,
    command,
    ended,
    quick_server,
    send,
    tiff,
)

WISHES = {"mask": "none", "tile": 64, "overlap": 8}


def kills(store: Path, seed: int, count: int, scenes: list[bytes], *more: str, worker: Any = None) -> dict[str, int]:
    """Send scenes to a server that is killed again and again, in each of its lives; give accepted jobs to their scenes.

    Some kills come while it computes a job or just after the end of one, others whenever they do.
    """
    dice, accepted = random.Random(seed), {}
    for life in range(count):
        with command(store, *more, worker=worker) as (process, url), httpx.Client(base_url=url, timeout=60) as client:
            kill = threading.Timer(dice.uniform(0.5, 6), process.kill)
            if life % 3 == 2:
                kill.start()
            sent, done = 0, ends_of(store)
            with suppress(httpx.TransportError):
                uploads = [send(client, scene) for scene in scenes]
                while process.poll() is None:
                    number = dice.randrange(len(scenes))
                    answer = ask(client, {"scene": {"upload": uploads[number]}, **WISHES}) if sent < 2 else None
                    if answer is not None and answer.status_code == 201:
                        accepted[answer.json()["jobID"]], sent = number, sent + 1
                    at_work = client.get("/jobs", params={"status": "running"}).json()["jobs"]
                    if not kill.ident and at_work and (life % 3 or ends_of(store) != done):
                        kill = threading.Timer(dice.uniform(0, 2), process.kill)
                        kill.start()
                    time.sleep(0.1)
            process.wait()
    return accepted


def ends_of(store: Path) -> dict[str, tuple[int, int]]:
    """The items of a store: what tells that a scene was published once more."""
    return {path.stem: (path.stat().st_ino, path.stat().st_mtime_ns) for path in (store / "items").glob("*.json")}


def test_a_killed_server_loses_no_job_and_doubles_none(tmp_path: Path) -> None:
    scenes = [tiff(seed=seed) for seed in range(6)]
    accepted = kills(tmp_path / "store", 0, 1, scenes, worker=QUICK)
    assert accepted
    with command(tmp_path / "store", worker=QUICK) as (_, url), answers(url) as client:
        for job in accepted:
            assert ended(client, job)["status"] == "successful"
        assert {one["jobID"] for one in client.get("/jobs", params={"limit": 100}).json()["jobs"]} >= set(accepted)
    assert {path.stem for path in (tmp_path / "store" / "items").glob("*.json")} >= set(accepted)


@pytest.mark.nightly
def test_a_job_gives_the_bytes_that_the_command_gives(tmp_path: Path) -> None:
    weights = make_weights(tmp_path / "tiny.safetensors")
    content = tiff(64)
    with command(tmp_path / "store", "--weights", str(weights)) as (process, url):
        with answers(url, 600) as client:
            job = begin(client, content, mask="none", dilate=4)
            status = ended(client, job, 180)
            assert status["status"] == "successful", status
            assert status["weights"] == "tiny"
            assert any("no mask" in note for note in status["notes"])
            served = by_service(client, job)
            refused = begin(client, tiff(64, bands=1), mask="none")
            assert "band" in ended(client, refused, 60)["message"]
        process.send_signal(signal.SIGTERM)
        began = time.monotonic()
        process.wait(20)
        assert time.monotonic() - began < 10
    assert served == by_command(tmp_path / "cli", content, weights, "--mask", "none", "--dilate", "4")
    assert completed(tmp_path / "store") == {job: 1}


@pytest.mark.parametrize(
    "count", [pytest.param(3, marks=pytest.mark.nightly), pytest.param(20, marks=pytest.mark.slow)]
)
def test_kills_while_jobs_come_in_and_every_job_ends_once_and_byte_equal(tmp_path: Path, count: int) -> None:
    weights, store = make_weights(tmp_path / "tiny.safetensors"), tmp_path / "store"
    scenes = [tiff(128, seed=seed) for seed in range(3)]
    accepted = kills(store, 1, count, scenes, "--weights", str(weights))
    assert len(accepted) >= count
    before = ends_of(store)
    with command(store, "--weights", str(weights)) as (_, url), answers(url, 300) as client:
        listed = {one["jobID"] for one in client.get("/jobs", params={"limit": 1000}).json()["jobs"]}
        assert listed >= set(accepted)
        assert {ended(client, job, 900)["status"] for job in listed} == {"successful"}
        served = {job: by_service(client, job) for job in accepted}
    options = [f"--{name}={value}" for name, value in WISHES.items()]
    expected = [by_command(tmp_path / f"cli{i}", scene, weights, *options) for i, scene in enumerate(scenes)]
    assert served == {job: expected[scene] for job, scene in accepted.items()}
    assert before.items() <= ends_of(store).items(), "what was published is not done again"
    assert {len(list(folder.iterdir())) for folder in (store / "scenes").iterdir()} == {1}
    assert set(completed(store).values()) <= {1}
    assert not [path for path in store.rglob("*partial*") if path.is_file()]
    print(f"{count} kills, {len(accepted)} jobs accepted, {len(before)} done before the last, all once and byte-equal")


def test_a_job_that_kills_its_process_fails_and_the_next_one_does_not(tmp_path: Path) -> None:
    with quick_server(tmp_path / "store") as client:
        poison, sound = begin(client, tiff(), "die.tif"), begin(client, tiff())
        status = ended(client, poison)
        assert status["status"] == "failed"
        assert "died" in status["message"]
        assert client.get(f"/jobs/{poison}/results").status_code == 500
        assert ended(client, sound)["status"] == "successful"


def test_the_log_of_the_fleet_tells_each_job_once(tmp_path: Path) -> None:
    with quick_server(tmp_path / "store") as client:
        jobs = [begin(client, tiff()) for _ in range(3)]
        for job in jobs:
            ended(client, job)
    assert completed(tmp_path / "store") == dict.fromkeys(jobs, 1)


def test_events_tell_until_the_end(tmp_path: Path) -> None:
    with quick_server(tmp_path / "store") as client:
        job = begin(client, tiff())
        text = client.get(f"/jobs/{job}/events").text
    assert text.startswith("event: status\ndata: {")
    assert text.count("event: status") >= 1
    assert '"status": "successful"' in text.strip().rpartition("data: ")[2]


def test_old_jobs_and_uploads_are_forgotten(tmp_path: Path) -> None:
    with quick_server(tmp_path / "store") as client:
        job = begin(client, tiff())
        ended(client, job)
        (tmp_path / "store" / "progress" / f"{job}.json").write_text("{}")  # told after its end
        client.app.state.supervisor.forget(time.time() + 1)  # type: ignore[attr-defined]
        assert client.get(f"/jobs/{job}").status_code == 404
    left = [path for path in (tmp_path / "store").rglob("*") if job in path.name or path.suffix == ".tif"]
    assert not left


def test_a_store_is_served_by_one_server(tmp_path: Path) -> None:
    with command(tmp_path / "store", worker=QUICK) as (_, _url):
        second = attcr("serve", tmp_path / "store", "--port", 0)
    assert second.returncode == 2
    assert "served by another process" in second.stderr
