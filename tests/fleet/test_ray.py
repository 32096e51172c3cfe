"""Runs on Ray, several nodes on one machine, and what is left when parts of them are killed."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from attcr.errors import WeightsError
from attcr.fleet.ledger import Outcome
from attcr.fleet.manifest import Work
from attcr.fleet.run import FleetOptions, Tally, run_fleet
from attcr.fleet.worker import SceneWorker
from attcr.predict import Predictor
from attcr.restore.options import RestoreOptions
from fake_fleets import bucket_contents, command, completed, contents, environment, ledger, make_scenes, run
from fake_scenes import UTM, make, noise, serve

ray = pytest.importorskip("ray")
psutil = pytest.importorskip("psutil")

OPTIONS = RestoreOptions(tile=64, overlap=8, mask="none")
SETTINGS = ("--set", "tile=64", "--set", "overlap=8", "--set", "mask=none")
NODE = {"num_cpus": 8, "object_store_memory": 80 << 20}


class Machines:
    """A cluster of a head that runs nothing and two nodes."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        head = {"num_cpus": 0, "object_store_memory": 80 << 20, "include_dashboard": False}
        self.cluster = Cluster(initialize_head=True, head_node_args=head)
        self.nodes = [self.cluster.add_node(**NODE) for _ in range(2)]
        self.address: str = self.cluster.address

    def workers(self, node: Any) -> list[Any]:
        """The processes of a node's actors."""
        found = []
        for process in _raylet(node).children(recursive=True):
            with suppress(psutil.NoSuchProcess, IndexError):
                if process.cmdline()[0].startswith("ray::_Actor"):
                    found.append(process)
        return found

    def kill_worker(self, chance: random.Random) -> int:
        process = chance.choice([one for node in self.nodes for one in self.workers(node)])
        os.kill(process.pid, signal.SIGKILL)
        return int(process.pid)

    def kill_node(self, chance: random.Random) -> int:
        node = chance.choice([node for node in self.nodes if self.workers(node)])
        raylet = _raylet(node)
        for process in [raylet, *raylet.children(recursive=True)]:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        self.nodes.remove(node)
        self.cluster.remove_node(node, allow_graceful=False)
        return int(raylet.pid)

    def mend(self) -> None:
        while len(self.nodes) < 2:
            self.nodes.append(self.cluster.add_node(**NODE))


def _raylet(node: Any) -> Any:
    return psutil.Process(node.all_processes["raylet"][0].process.pid)


@pytest.fixture(scope="module")
def machines() -> Iterator[Machines]:
    before = signal.getsignal(signal.SIGTERM)
    made = Machines()
    ray.init(address=made.address, log_to_driver=False, logging_level="error")
    yield made
    ray.shutdown()
    made.cluster.shutdown()
    signal.signal(signal.SIGTERM, before)  # ray.init puts its own in place


def on_ray(address: str | None = None, **more: Any) -> FleetOptions:
    return FleetOptions(engine="ray", workers=2, address=address, **more)


def at(count: int, delay: float, act: Callable[[], None]) -> Callable[[Outcome, Tally], None]:
    """Act so many seconds after so many scenes are done."""

    def seen(outcome: Outcome, tally: Tally) -> None:
        if tally.done + tally.found == count:
            threading.Timer(delay, act).start()

    return seen


class Trial:
    """An undisturbed run, to which others are held."""

    def __init__(self, folder: Path, weights: Path, machines: Machines, count: int) -> None:
        self.folder, self.weights, self.machines, self.count = folder, weights, machines, count
        self.scenes = make_scenes(folder / "in", count, 160)
        self.go(folder / "whole")
        self.whole = contents(folder / "whole")

    def go(self, out: Path | str, on_outcome: Any = None) -> Tally:
        return run_fleet(
            str(self.scenes), str(out), str(self.weights), options=OPTIONS, fleet=on_ray(), on_outcome=on_outcome
        )

    def disturb(self, kind: str, seed: int) -> None:
        """Kill something at a random moment, run again, and compare."""
        chance = random.Random(f"{kind} {seed}")
        out = self.folder / f"{kind}-{seed}"
        moment, delay = chance.randint(1, self.count // 2), chance.random() / 10
        if kind == "driver":
            self._kill_driver(out, moment, delay)
        else:
            kill = {"worker": self.machines.kill_worker, "node": self.machines.kill_node}[kind]
            killed = []
            tally = self.go(out, at(moment, delay, lambda: killed.append(kill(chance))))
            assert tally.complete
            assert killed, "the run was over before anything was killed"
            self.machines.mend()
        self.go(out)
        assert contents(out) == self.whole
        assert completed(out) == dict.fromkeys(completed(self.folder / "whole"), 1)
        assert not (out / ".scratch").exists()

    def _kill_driver(self, out: Path, moment: int, delay: float) -> None:
        arguments = command("run", self.scenes, out, "--weights", self.weights, "--engine", "ray", "--workers", 2)
        process = subprocess.Popen(
            [*arguments, *SETTINGS, "--address", self.machines.address], env=environment(), stderr=subprocess.PIPE
        )
        deadline = time.monotonic() + 300
        while len(list((out / "items").glob("*.json"))) < moment and time.monotonic() < deadline:
            assert process.poll() is None, process.stderr.read().decode() if process.stderr else ""
            time.sleep(0.005)
        time.sleep(delay)
        process.kill()
        assert process.wait() == -signal.SIGKILL, "the run was over before it was killed"


@pytest.fixture(scope="module")
def trial(machines: Machines, weights: Path, tmp_path_factory: pytest.TempPathFactory) -> Trial:
    return Trial(tmp_path_factory.mktemp("trial"), weights, machines, 8)


@pytest.mark.parametrize(
    "kind", ["worker", *(pytest.param(kind, marks=pytest.mark.nightly) for kind in ("node", "driver"))]
)
def test_killed_and_started_again_it_leaves_what_an_undisturbed_run_leaves(trial: Trial, kind: str) -> None:
    trial.disturb(kind, 0)


@pytest.fixture(scope="module")
def large_trial(machines: Machines, weights: Path, tmp_path_factory: pytest.TempPathFactory) -> Trial:
    return Trial(tmp_path_factory.mktemp("large"), weights, machines, 40)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("kind", ["worker", "node", "driver"])
def test_40_scenes_killed_20_times(large_trial: Trial, kind: str, seed: int) -> None:
    large_trial.disturb(kind, seed)


def test_ray_and_this_process_give_the_same_bytes(trial: Trial, tmp_path: Path) -> None:
    fleet = FleetOptions(threads=1)
    run_fleet(str(trial.scenes), str(tmp_path / "out"), str(trial.weights), options=OPTIONS, fleet=fleet)
    assert contents(tmp_path / "out") == trial.whole


@pytest.mark.nightly
def test_a_large_scene_is_split_among_workers_and_joined_to_the_same_bytes(
    machines: Machines, weights: Path, tmp_path: Path
) -> None:
    scenes = make_scenes(tmp_path / "in", 2, 300)
    make(tmp_path / "in" / "small.tif", noise("uint8", (3, 64, 64)), photometric="RGB", **UTM)
    for name, fleet in (("whole", FleetOptions(threads=1)), ("split", on_ray(split_over=0.03))):
        tally = run_fleet(str(scenes), str(tmp_path / name), str(weights), options=OPTIONS, fleet=fleet)
        assert tally.done == 3
    assert contents(tmp_path / "split") == contents(tmp_path / "whole")
    assert set(completed(tmp_path / "split").values()) == {1}


@pytest.mark.nightly
def test_a_scene_that_kills_its_workers_is_quarantined_and_the_others_come_out(trial: Trial, tmp_path: Path) -> None:
    died, loads, late = tmp_path / "died", tmp_path / "loads", []
    died.mkdir()

    class Deadly(SceneWorker):  # in here it travels to the workers, which do not know this module
        def load(self, options: RestoreOptions) -> Predictor:
            with suppress(FileExistsError):
                if len(list(died.iterdir())) == 2:
                    loads.touch(exist_ok=False)
                    time.sleep(600)  # one successor still loads when the run ends
            return super().load(options)

        def restore(self, work: Work, fetched: Any) -> float | None:
            if work.id == "s001_20200101":
                (died / str(os.getpid())).touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return super().restore(work, fetched)

    def seen(outcome: Outcome, tally: Tally) -> None:
        if outcome.status == "quarantined":
            deadline = time.monotonic() + 300
            while not loads.exists() and time.monotonic() < deadline:
                time.sleep(0.05)
            late.append(loads.exists())

    out = tmp_path / "out"
    fleet = on_ray(attempts=2)
    tally = run_fleet(
        str(trial.scenes), str(out), str(trial.weights), options=OPTIONS, fleet=fleet, on_outcome=seen, make=Deadly
    )
    assert late == [True]
    assert (tally.done, tally.quarantined) == (7, 1)
    (row,) = (row for row in ledger(out) if row["status"] == "quarantined")
    assert (row["id"], row["error"], row["attempts"]) == ("s001_20200101", "WorkerDied", 2)
    assert not (out / ".scratch").exists()


@pytest.mark.nightly
def test_remote_scenes_are_read_ahead_and_malformed_ones_quarantined(
    machines: Machines, weights: Path, tmp_path: Path
) -> None:
    (tmp_path / "served").mkdir()
    for i in range(3):
        make(tmp_path / "served" / f"s{i}.tif", noise("uint8", (3, 64, 64), i), photometric="RGB", **UTM)
    (tmp_path / "served" / "broken.tif").write_text("no")
    with serve(tmp_path / "served") as address:
        names = ["s0", "broken", "s1", "absent", "s2"]
        (tmp_path / "list.txt").write_text("".join(f"{address}/{name}.tif?sig=hunter2\n" for name in names))
        out = tmp_path / "out"
        tally = run_fleet(str(tmp_path / "list.txt"), str(out), str(weights), options=OPTIONS, fleet=on_ray())
    assert (tally.done, tally.quarantined) == (3, 2)
    assert "hunter2" not in str(ledger(out))
    assert all(b"hunter2" not in data for data in contents(out).values())
    session = Path(ray._private.worker._global_node.get_session_dir_path())
    logs = [path for path in (session / "logs").rglob("*") if path.is_file()]
    assert [path.name for path in logs if b"hunter2" in path.read_bytes()] == []


def test_weights_that_do_not_load_end_the_run_with_their_own_error(machines: Machines, tmp_path: Path) -> None:
    (tmp_path / "broken.safetensors").write_bytes(b"broken")
    scenes = make_scenes(tmp_path / "in", 1)
    with pytest.raises(WeightsError):
        run_fleet(str(scenes), str(tmp_path / "out"), str(tmp_path / "broken.safetensors"), fleet=on_ray())


def test_on_s3_a_killed_driver_leaves_nothing_behind_either(trial: Trial, s3: str, tmp_path: Path) -> None:
    out = f"{s3}/killed"
    arguments = ("run", trial.scenes, out, "--weights", trial.weights, *SETTINGS, "--threads", 1)
    process = subprocess.Popen(command(*arguments), env=environment(TMPDIR=str(tmp_path)))
    deadline = time.monotonic() + 300
    while sum(key.startswith("items/") for key in bucket_contents(out)) < 3 and time.monotonic() < deadline:
        assert process.poll() is None
        time.sleep(0.01)
    process.kill()
    process.wait()
    again = run(*arguments, TMPDIR=str(tmp_path))
    assert again.returncode == 0, again.stderr
    assert bucket_contents(out) == trial.whole
    assert completed(out) == completed(trial.folder / "whole")
    assert not list(tmp_path.glob("attcr-fleet*"))


@pytest.mark.nightly
def test_a_cluster_that_is_started_here_listens_to_this_machine_alone(tmp_path: Path, weights: Path) -> None:
    """In a process of its own: the tests here are connected to a cluster already."""
    code = """
import sys, psutil, ray
from attcr.fleet.ray import Cluster, _connect
from attcr.fleet.run import FleetOptions, make_job
from attcr.restore.options import RestoreOptions
_connect(Cluster(), make_job(sys.argv[1], sys.argv[2], RestoreOptions(), FleetOptions()))
ray.get(ray.remote(lambda: 1).remote())
for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
    for one in process.net_connections("inet"):
        if one.status == psutil.CONN_LISTEN:
            print(one.laddr.ip, process.name())
"""
    settings = environment(RAY_ADDRESS="")
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "out", weights], capture_output=True, text=True, env=settings
    )
    assert done.returncode == 0, done.stderr
    listening = [line.split()[0] for line in done.stdout.splitlines()]
    assert len(listening) > 3
    assert set(listening) <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}, done.stdout
