"""Jobs outlive their server: none is lost, none is done twice, and each ends as the command would have it."""

import random
import signal
import time
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


def kills(store: Path, seed: int, count: int, scenes: list[bytes], *more: str, worker: Any = None) -> dict[str, int]:
    """Send scenes to a server that is killed again and again; give the job of each that was accepted, to its scene."""
    dice, accepted = random.Random(seed), {}
    waiting = list(enumerate(scenes))
    for _ in range(count):
        with command(store, *more, worker=worker) as (process, url):
            until = time.monotonic() + dice.uniform(0.5, 6)
            client = httpx.Client(base_url=url, timeout=10)
            while time.monotonic() < until:
                try:
                    if waiting and dice.random() < 0.3:
                        answer = ask(client, {"scene": {"upload": send(client, waiting[-1][1])}, "mask": "none"})
                        if answer.status_code == 201:
                            accepted[answer.json()["jobID"]] = waiting.pop()[0]
                except httpx.TransportError:
                    pass
                time.sleep(0.05)
            process.send_signal(signal.SIGKILL)
            process.wait()
    return accepted


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


@pytest.mark.slow
def test_20_kills_at_random_moments_and_every_job_ends_byte_equal(tmp_path: Path) -> None:
    weights = make_weights(tmp_path / "tiny.safetensors")
    scenes = [tiff(64, seed=seed) for seed in range(12)]
    accepted = kills(tmp_path / "store", 1, 20, scenes, "--weights", str(weights))
    assert accepted
    expected = [by_command(tmp_path / f"cli{i}", scene, weights, "--mask", "none") for i, scene in enumerate(scenes)]
    with command(tmp_path / "store", "--weights", str(weights)) as (_, url), answers(url, 300) as client:
        for job, scene in accepted.items():
            assert ended(client, job, 600)["status"] == "successful"
            assert by_service(client, job) == expected[scene]
    assert all(count == 1 for job, count in completed(tmp_path / "store").items() if job in accepted)
    print(f"{len(accepted)} jobs accepted, all byte-equal")


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
        client.app.state.supervisor.forget(time.time() + 1)  # type: ignore[attr-defined]
        assert client.get(f"/jobs/{job}").status_code == 404
    left = [path for path in (tmp_path / "store").rglob("*") if job in path.name or path.suffix == ".tif"]
    assert not left


def test_a_store_is_served_by_one_server(tmp_path: Path) -> None:
    with command(tmp_path / "store", worker=QUICK) as (_, _url):
        second = attcr("serve", tmp_path / "store", "--port", 0)
    assert second.returncode == 2
    assert "served by another process" in second.stderr
