"""Deaths, deadlines and restarts: how a job ends that its process does not finish."""

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from attcr.errors import AttcrError
from attcr.fleet.manifest import Work
from attcr.restore.scene import Progress
from attcr.serve import supervisor
from attcr.serve.settings import Limits
from attcr.serve.worker import JobWorker
from fake_services import begin, ended, problem, quick_server, tiff

LEFT = ("inputs", "progress", "scenes", "items", "tries")


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


def test_whoever_computes_a_job_hears_that_it_was_dismissed(tmp_path: Path) -> None:
    worker: Any = SimpleNamespace(job=SimpleNamespace(out=str(tmp_path)), notes=())
    tell = JobWorker.progress(worker, Work("mine", ("x.tif",)))
    (tmp_path / "ended").mkdir()
    (tmp_path / "ended" / "other.json").write_text("{}")
    tell(Progress("restore", 1, 4))
    assert json.loads((tmp_path / "progress" / "mine.json").read_text())["done"] == 1
    (tmp_path / "ended" / "mine.json").write_text("{}")
    with pytest.raises(AttcrError, match="mine was dismissed"):
        tell(Progress("restore", 2, 4))


def test_a_dismissed_job_has_a_moment_to_stop_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "GRACE", 0.3)
    with quick_server(tmp_path / "store") as client:
        job = begin(client, tiff(), "slow.tif")
        while client.get(f"/jobs/{job}").json()["status"] != "running":
            time.sleep(0.02)
        assert client.delete(f"/jobs/{job}").json()["status"] == "dismissed"
        assert ended(client, begin(client, tiff()))["status"] == "successful"
        until = time.monotonic() + 60
        while left := [path for path in (tmp_path / "store").rglob(f"*{job}*") if path.parent.name in LEFT]:
            assert time.monotonic() < until, left


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
