"""How a run ends before its end: at SIGTERM whatever it is at, and a scene at its deadline."""

import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from attcr.errors import ConfigError
from attcr.fleet.fetch import Fetched
from attcr.fleet.manifest import Work
from attcr.fleet.run import FleetOptions, run_fleet
from attcr.fleet.stop import DeadlineOver, within
from fake_fleets import Publisher, command, environment, ledger, write_rows


class Dripping:
    """A server that gives a byte every half second of the million that it promises."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self._socket.listen()
        self.address = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            threading.Thread(target=self._drip, args=(self._socket.accept()[0],), daemon=True).start()

    def _drip(self, client: socket.socket) -> None:
        try:
            client.recv(9999)
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
            self.asked.set()
            while True:
                client.sendall(b"x")
                time.sleep(0.5)
        except OSError:
            pass


def test_a_run_at_a_server_that_drips_ends_within_ten_seconds_of_sigterm(tmp_path: Path, weights: Path) -> None:
    server, out = Dripping(), tmp_path / "out"
    (tmp_path / "m.txt").write_text(f"{server.address}/slow.tif\n")
    process = subprocess.Popen(command("run", tmp_path / "m.txt", out, "--weights", weights), env=environment())
    assert server.asked.wait(300)
    time.sleep(1)
    process.send_signal(signal.SIGTERM)
    began = time.monotonic()
    assert process.wait(60) in (130, 143)
    assert time.monotonic() - began < 10
    assert not list(out.glob("items/*"))


def test_a_process_that_hears_no_interrupt_is_ended_all_the_same() -> None:
    code = """
import time
from attcr.fleet.stop import end_on_signals
end_on_signals(grace=1)
while True:
    try:
        print("ready", flush=True)
        time.sleep(60)
    except KeyboardInterrupt:
        pass
"""
    arguments = [sys.executable, "-c", code]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env=environment()) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 128 + signal.SIGTERM


def test_a_scene_past_its_deadline_is_quarantined_and_stops_no_other(tmp_path: Path, weights: Path) -> None:
    tries: list[str] = []

    class Slow(Publisher):
        def restore(self, work: Work, fetched: Fetched | None) -> float | None:
            tries.append(work.id)
            if work.id == "a":
                time.sleep(60)
            return super().restore(work, fetched)

    rows = [{"id": name, "href": f"/in/{name}.tif"} for name in "ab"]
    manifest, out = str(write_rows(tmp_path / "m.parquet", rows)), str(tmp_path / "out")
    tally = run_fleet(manifest, out, str(weights), fleet=FleetOptions(deadline=1), make=Slow)
    assert (tally.done, tally.quarantined, tries) == (1, 1, ["a", "b"])
    (row,) = [row for row in ledger(out) if row["status"] == "quarantined"]
    assert (row["error"], row["message"]) == ("TimeoutError", "It took more than the 1 s that a scene may take.")


def test_a_deadline_is_over_when_what_it_is_for_is_done() -> None:
    before = signal.getsignal(signal.SIGALRM)
    with within(0.2):
        pass
    time.sleep(0.3)
    with pytest.raises(DeadlineOver), within(0.1):
        time.sleep(5)
    with within(None):
        pass
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


@pytest.mark.parametrize("deadline", [0, -1, float("nan"), float("inf")])
def test_a_deadline_that_is_none_is_refused(deadline: float) -> None:
    with pytest.raises(ConfigError, match="deadline"):
        FleetOptions(deadline=deadline)
