"""The engine `ray` of a server, on a real Ray on this machine."""

import queue
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from attcr.errors import FleetError
from attcr.serve.settings import Limits
from attcr.serve.worker import WorkerSettings
from fake_fleets import completed, make_weights
from fake_services import answers, begin, by_command, by_service, command, ended, tiff

ray = pytest.importorskip("ray")
psutil = pytest.importorskip("psutil")

PATIENCE = 300
"""Seconds for what takes a few where nothing else runs."""


@pytest.fixture(scope="module")
def node() -> Iterator[Any]:
    """A cluster of one node that no driver owns."""
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 8, "object_store_memory": 80 << 20, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    yield cluster.head_node
    cluster.shutdown()


def actors(node: Any) -> list[Any]:
    """The processes of a node's actors."""
    found = []
    for process in psutil.Process(node.all_processes["raylet"][0].process.pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess, IndexError):
            if process.cmdline()[0].startswith("ray::_Actor"):
                found.append(process)
    return found


@pytest.mark.slow
def test_on_ray_a_killed_server_loses_no_job_and_all_give_the_bytes_of_the_command(tmp_path: Path, node: Any) -> None:
    weights, store = make_weights(tmp_path / "tiny.safetensors"), tmp_path / "store"
    small, large = tiff(64), tiff(512, seed=1)
    arguments = ("--weights", str(weights), "--engine", "ray", "--address", node.address)
    with command(store, *arguments) as (process, url), answers(url, PATIENCE) as client:
        first, second = (begin(client, scene, mask="none", tile=64, overlap=8) for scene in (small, large))
        status = ended(client, first, PATIENCE)
        assert (status["status"], status["weights"]) == ("successful", "tiny"), status
        assert any("no mask" in note for note in status["notes"])
        served = by_service(client, first)
        assert client.get(f"/jobs/{second}").json()["status"] in ("accepted", "running")
        started = [*psutil.Process(process.pid).children(recursive=True), *actors(node)]
        assert actors(node)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert not psutil.wait_procs(started, PATIENCE)[1], "what computed for it ends with it"

    with command(store, *arguments) as (_, url), answers(url, PATIENCE) as client:
        assert client.get(f"/jobs/{first}").json()["status"] == "successful"
        assert by_service(client, first) == served
        assert ended(client, second, PATIENCE)["status"] == "successful"
        again = by_service(client, second)
        refused = ended(client, begin(client, tiff(64, bands=1), mask="none"), PATIENCE)
        assert refused["status"] == "failed"
        assert "band" in refused["message"]
    options = ("--mask", "none", "--tile", "64", "--overlap", "8")
    assert served == by_command(tmp_path / "small", small, weights, *options)
    assert again == by_command(tmp_path / "large", large, weights, *options)
    assert set(completed(store).values()) <= {1}


def test_without_a_cluster_no_job_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A job that is handed over counts as begun: those that wait for Ray to come back must not use up their tries."""
    from attcr.fleet import ray as engine
    from attcr.serve.on_ray import run_ray

    def refuse(*_: Any, **__: Any) -> None:
        raise ConnectionError("nobody is there")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(engine.ray, "init", refuse)
    settings = WorkerSettings(str(tmp_path), "ray", 1, 1, "cpu", "127.0.0.1:1", Limits())
    told: list[dict[str, Any]] = []
    with pytest.raises(FleetError, match="cannot be reached at 127"):
        run_ray(settings, queue.SimpleQueue(), told.append)
    assert told == []
