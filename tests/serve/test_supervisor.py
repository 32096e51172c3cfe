"""Deaths, deadlines and restarts: how a job ends that its process does not finish."""

import json
import time
from pathlib import Path

import pytest

from attcr.serve import supervisor
from attcr.serve.settings import Limits
from fake_services import begin, ended, problem, quick_server, tiff


def test_a_job_whose_process_dies_is_tried_three_times(tmp_path: Path) -> None:
    with quick_server(tmp_path / "store") as client:
        job = begin(client, tiff(), "die.tif")
        assert ended(client, job)["message"] == "The process that computed it died (9). It was tried 3 times."
        answer = client.get(f"/jobs/{job}/results")
        assert (answer.status_code, problem(answer)["type"]) == (500, "WorkerDied")


def test_a_job_that_takes_too_long_is_ended_and_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "SLACK", 0.2)
    with quick_server(tmp_path / "store", limits=Limits(seconds=0.3)) as client:
        job = begin(client, tiff(), "slow.tif")
        expected = "It took more than the 0.3 s that a job may take. It was tried 1 times."
        assert ended(client, job)["message"] == expected
        answer = client.get(f"/jobs/{job}/results")
        assert (answer.status_code, problem(answer)["type"]) == (422, "InvalidParameterValue")
        assert ended(client, begin(client, tiff()))["status"] == "successful"
    assert json.loads((tmp_path / "store" / "ended" / f"{job}.json").read_text())["error"] == "TimeoutError"


@pytest.mark.parametrize(("tries", "status"), [(19, "successful"), (20, "failed")])
def test_a_job_at_which_servers_died_again_and_again_is_given_up(tmp_path: Path, tries: int, status: str) -> None:
    with quick_server(tmp_path / "store") as client:
        job = begin(client, tiff(), "slow.tif")
        while client.get(f"/jobs/{job}").json()["status"] != "running":
            time.sleep(0.02)
    counted = tmp_path / "store" / "tries" / job
    assert counted.read_text() == "1"
    counted.write_text(str(tries))
    (scene,) = (tmp_path / "store" / "inputs" / job / "0").iterdir()
    scene.rename(scene.with_name("quick.tif"))
    ready = tmp_path / "store" / "inputs" / job / "ready.json"
    ready.write_text(ready.read_text().replace("slow.tif", "quick.tif"))
    with quick_server(tmp_path / "store") as client:
        found = ended(client, job)
    assert found["status"] == status
    assert status == "successful" or found["message"] == "The server ended 20 times while at it."
    assert not counted.exists()


def test_what_a_server_began_comes_after_what_none_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "cores", lambda: 1)  # none beside for short jobs
    with quick_server(tmp_path / "store") as client:
        begun = begin(client, tiff(), "slow.tif")
        while client.get(f"/jobs/{begun}").json()["status"] != "running":
            time.sleep(0.02)
        waiting = begin(client, tiff())
    with quick_server(tmp_path / "store") as client:
        assert ended(client, waiting)["status"] == "successful"
        assert client.get(f"/jobs/{begun}").json()["status"] in ("accepted", "running")
