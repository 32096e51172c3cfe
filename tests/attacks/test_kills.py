"""Whatever is killed at whatever moment, started again it leaves what an undisturbed run leaves, to the byte."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from counts import Record, seeds_of

from fake_fleets import environment

SCRIPT = Path(__file__).with_name("killed.py")


def kill(attack: str, seeds: range, kind: str, folder: Path, **env: str) -> None:
    """Run the seeds of an attack; of several, some must have been killed before their end."""
    record = Record(attack, seeds)
    command = [sys.executable, str(SCRIPT), kind, str(folder), str(seeds.start), str(seeds.stop)]
    errors = folder / "errors"
    with (
        errors.open("wb") as stderr,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True, env=environment(**env)) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            seed, told = json.loads(line)
            late = told["seconds"] > 10 and f"it took {told['seconds']} s to end"
            record.add(seed, f"killed {told['kills']} times", told["wrong"] or late)
    log = (folder / "log").read_text()[-2000:] if (folder / "log").exists() else ""
    assert process.returncode == 0, errors.read_text() + log
    record.check()
    if len(seeds) >= 6:
        assert record.counts["killed 0 times"] <= 0.7 * len(seeds), record.counts


@pytest.mark.nightly
def test_a_killed_restore_is_resumed_to_the_same_bytes(tmp_path: Path) -> None:
    kill("kills of restore", seeds_of("kills of restore"), "restore", tmp_path)


def test_a_killed_restore_with_references_is_resumed_to_the_same_bytes(tmp_path: Path) -> None:
    name = "kills of restore with references"
    kill(name, seeds_of(name), "dates", tmp_path)


@pytest.mark.nightly
def test_a_killed_restore_with_the_network_for_references_is_resumed_to_the_same_bytes(
    shared_data: Path, tmp_path: Path
) -> None:
    name = "kills of restore with the network for references"
    kill(name, seeds_of(name), "real dates", tmp_path, ATTACKED_DATES=str(shared_data / "s2/series_l1c_roi146"))


@pytest.mark.nightly
def test_a_killed_local_fleet_leaves_what_an_undisturbed_one_leaves(tmp_path: Path) -> None:
    kill("kills of local fleets", seeds_of("kills of local fleets"), "local", tmp_path)


@pytest.mark.nightly
def test_a_killed_fleet_on_s3_leaves_what_an_undisturbed_one_leaves(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    seeds = seeds_of("kills of S3 fleets")  # before a server is started for them
    request.getfixturevalue("s3")
    (tmp_path / "scratch").mkdir()
    kill("kills of S3 fleets", seeds, "s3", tmp_path, TMPDIR=str(tmp_path / "scratch"))
    assert not list((tmp_path / "scratch").glob("attcr-fleet*"))


@contextmanager
def cluster() -> Iterator[str]:
    """Give the address of a Ray cluster on this machine that no driver owns."""
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 8, "object_store_memory": 80 << 20, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args=head)
    try:
        yield made.address
    finally:
        made.shutdown()


@pytest.mark.nightly
def test_killed_drivers_on_ray_leave_what_an_undisturbed_one_leaves(tmp_path: Path) -> None:
    seeds = seeds_of("kills of Ray drivers")
    pytest.importorskip("ray")
    with cluster() as address:
        kill("kills of Ray drivers", seeds, "ray", tmp_path, ATTACKED_RAY=address)
