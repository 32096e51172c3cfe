"""What one user does holds up nobody else: slow servers, quotas, slow clients, and memory."""

import asyncio
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2 as httpx
import pytest
from starlette.testclient import TestClient

from attcr.errors import ConfigError
from attcr.fleet.ledger import Outcome
from attcr.serve import clients, supervisor
from attcr.serve.clients import Body, Watch, places
from attcr.serve.guard import Guard
from attcr.serve.problems import Problem
from attcr.serve.processes import status_of
from attcr.serve.quota import Quota, Reservation
from attcr.serve.settings import Limits, ServeSettings, digest_of
from attcr.serve.store import JobState
from attcr.serve.turns import Turns
from attcr.serve.uploads import Uploads
from attcr.serve.worker import _in_words
from fake_fleets import SOURCE, host, told
from fake_services import QUICK, answers, as_user, ask, begin, command, ended, quick_server, send, tiff

SCENE = tiff(40)
FIRST = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\nII*\0"


@contextmanager
def slow_host(
    first: bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\nII*\0",
) -> Iterator[tuple[str, list[Any]]]:
    """A server that sends its first bytes and then one now and then; gives its address and when each client left."""
    ends: list[Any] = []
    stop = threading.Event()

    def drip(client: socket.socket) -> None:
        at = len(ends)
        ends.append(None)
        with client:
            try:
                client.sendall(first)
                while not stop.wait(0.1):
                    client.sendall(b"0")
            except OSError:
                ends[at] = time.monotonic()

    def listen() -> None:
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=drip, args=(client,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=listen, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}", ends
        stop.set()


def until(condition: Callable[[], Any], seconds: float = 180) -> None:
    last = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < last
        time.sleep(0.02)


def quota_of(client: TestClient) -> Quota:
    found: Quota = client.app.state.supervisor.quota  # type: ignore[attr-defined]
    return found


def on_disk(store: Path) -> int:
    """The bytes of all files that are a user's; those with two names once."""
    kept = [path.stat() for name in ("uploads", "requests", "inputs", "scenes", "items")
            for path in (store / name).rglob("*") if path.is_file() and path.parent.name != "uploads"]  # fmt: skip
    return sum({told.st_ino: told.st_size for told in kept}.values())


def test_slow_servers_of_one_user_hold_up_nobody_else(tmp_path: Path) -> None:
    with (
        slow_host() as (slow, _),
        host({"/x.tif": told(SCENE)}) as (good, _),
        quick_server(
            tmp_path / "store", keys=True, allow_hosts=(f"private:{slow}", f"private:{good.removeprefix('http://')}")
        ) as client,
    ):
        ada, bob = ({"headers": as_user(name)} for name in ("ada", "bob"))
        slow_ones = [
            ask(client, {"scene": {"href": f"http://{slow}/{i}.tif"}}, **ada).json()["jobID"] for i in range(6)
        ]
        own = ask(client, {"scene": {"upload": send(client, SCENE, **ada)}}, **ada).json()["jobID"]
        assert ended(client, own, 20, **ada)["status"] == "successful", "a job of uploads waits for no server"
        fetched = ask(client, {"scene": {"href": f"{good}/x.tif"}}, **bob).json()["jobID"]
        assert ended(client, fetched, 20, **bob)["status"] == "successful", "nor does another user's fetch"
        assert {client.get(f"/jobs/{job}", **ada).json()["stage"] for job in slow_ones} == {"fetch"}


def test_a_fetch_ends_with_its_job_and_leaves_nothing(tmp_path: Path) -> None:
    with slow_host() as (slow, ends), quick_server(tmp_path / "store", allow_hosts=(f"private:{slow}",)) as client:
        job = ask(client, {"scene": {"href": f"http://{slow}/x.tif"}}).json()["jobID"]
        until(lambda: ends and quota_of(client).used("anonymous") > 100_000)
        assert client.delete(f"/jobs/{job}").json()["status"] == "dismissed"
        until(lambda: ends[0], 30)
        until(lambda: not (tmp_path / "store" / "inputs" / job).exists())
        until(lambda: quota_of(client).used("anonymous") == on_disk(tmp_path / "store"))
        assert quota_of(client).used("anonymous") < 1000, "that it was there, and no more"


@pytest.mark.parametrize("first", [b"", b"HTTP/1.1 200 OK\r\nX-Slow: ", b"HTTP/1.1 200 OK\r\n\r\nII*\0"])
@pytest.mark.parametrize(("limit", "what"), [("fetch_seconds", "a file"), ("seconds", "a job")])
def test_a_file_has_its_time_by_the_clock_however_it_drips(tmp_path: Path, first: bytes, limit: str, what: str) -> None:
    with (
        slow_host(first) as (slow, ends),
        quick_server(tmp_path / "store", allow_hosts=(f"private:{slow}",), limits=Limits(**{limit: 0.5})) as client,  # type: ignore[arg-type]
    ):
        began = time.monotonic()
        status = ended(client, ask(client, {"scene": {"href": f"http://{slow}/x.tif"}}).json()["jobID"], 45)
    assert f"it took more than the 0.5 s that {what} may take" in status["message"]
    assert time.monotonic() - began < 45
    assert len(ends) == 1, "it is not tried again"


@pytest.mark.parametrize("spare", [True, False])
def test_a_short_job_does_not_wait_for_those_of_another_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spare: bool
) -> None:
    monkeypatch.setattr(supervisor, "cores", lambda: 1 + spare)
    with quick_server(tmp_path / "store", keys=True) as client:
        ada, bob = ({"headers": as_user(name)} for name in ("ada", "bob"))

        def begun(name: str, **user: Any) -> str:
            upload = send(client, SCENE, name, **user)
            return str(ask(client, {"scene": {"upload": upload}}, **user).json()["jobID"])

        until(lambda: all(pool.ready for pool in client.app.state.supervisor._pools))  # type: ignore[attr-defined]
        theirs = [begun("slow.tif", **ada) for _ in range(3)]
        until(lambda: client.get(f"/jobs/{theirs[0]}", **ada).json()["status"] == "running")
        long, short = begun("long.tif", **bob), begun("x.tif", **bob)
        if spare:
            assert ended(client, short, **bob)["status"] == "successful"
            until(lambda: (tmp_path / "store" / "tries" / long).exists())
        stages = {client.get(f"/jobs/{job}", **ada).json()["stage"] for job in theirs[1:]}
        assert stages == {"queue"}, "who has one short job in a process waits with the others"
        until(lambda: client.get(f"/jobs/{long}", **bob).json()["status"] == "accepted")
        for job in theirs:
            client.delete(f"/jobs/{job}", **ada)
        for job in (long, short):
            assert ended(client, job, **bob)["status"] == "successful"


def test_owners_have_so_many_at_once_and_others_pass() -> None:
    turns: Turns[str] = Turns(2)
    for one in ("a1", "a2", "a3", "b1", "b2", "b3"):
        turns.wait(one[0], one)
    assert [turns.next() for _ in range(5)] == ["a1", "b1", "a2", "b2", None]
    turns.ended("b")
    assert [turns.next(), turns.next()] == ["b3", None]
    assert turns.clear() == ["a3"]
    assert not turns


def test_a_file_with_two_names_counts_until_the_last_one_goes(tmp_path: Path) -> None:
    quota = Quota(100)
    first, second = tmp_path / "first", tmp_path / "folder" / "second"
    second.parent.mkdir()
    quota.take("ada", 60)
    first.write_bytes(b"0" * 60)
    quota.link(first, second)
    quota.remove("ada", first)
    assert quota.used("ada") == 60
    with pytest.raises(Problem, match="take 60 of the 100 bytes that you may have, and there is no room for 41"):
        quota.take("ada", 41)
    quota.take("bob", 100)
    quota.remove("ada", second.parent)
    assert (quota.used("ada"), quota.used("bob"), second.parent.exists()) == (0, 100, False)
    room = Reservation(quota, "ada")
    for size in (40, 30, 50):
        room.grow(size)
    assert quota.used("ada") == 50
    room.keep(20)
    room.keep()
    assert quota.used("ada") == 20


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A server with room for seven scenes and a half, and for 64 connections; gives its address and store."""
    size, store = len(SCENE), tmp_path_factory.mktemp("crowded") / "store"
    limits = {"stored_bytes": 7 * size + size // 2, "uploads": 50, "connections": 64, "upload_bytes": size}
    told = [word for name, value in limits.items() for word in ("--limit", f"{name}={value}")]
    with command(store, *told, worker=QUICK) as (_, url), answers(url):
        yield url, store


def test_50_uploads_at_once_hold_the_quota_to_the_byte(crowded: tuple[str, Path]) -> None:
    (url, store), size = crowded, len(SCENE)

    def pieces() -> Iterator[bytes]:
        for at in range(0, size, 500):
            time.sleep(0.01)
            yield SCENE[at : at + 500]

    def one(number: int) -> int:
        length = {"Content-Length": str(size)} if number % 2 else {}
        with httpx.Client(base_url=url, timeout=60) as client:
            return int(client.post("/uploads", content=pieces(), headers=length).status_code)

    with ThreadPoolExecutor(50) as all_at_once:
        codes = list(all_at_once.map(one, range(50)))
    assert set(codes) <= {201, 507}
    assert on_disk(store) == codes.count(201) * size <= 7 * size
    codes += [one(1) for _ in range(7 - codes.count(201))]
    assert codes.count(201) == 7, "what was refused is free again"
    assert one(1) == 507


def test_inputs_requests_and_results_count_and_a_restart_counts_the_same(tmp_path: Path) -> None:
    with quick_server(tmp_path / "store") as client:
        job = begin(client, SCENE)
        (upload,) = (path.stem for path in (tmp_path / "store" / "uploads").glob("*.json"))
        assert ended(client, job)["status"] == "successful"
        used = quota_of(client).used("anonymous")
        assert used == on_disk(tmp_path / "store") > 2 * len(SCENE)
        assert client.delete(f"/uploads/{upload}").status_code == 204
        assert quota_of(client).used("anonymous") == used, "the job has the file"
    with quick_server(tmp_path / "store") as client:
        assert quota_of(client).used("anonymous") == used
        client.delete(f"/jobs/{job}")
        assert quota_of(client).used("anonymous") == on_disk(tmp_path / "store") < 300
        client.app.state.supervisor.forget(time.time() + 1)  # type: ignore[attr-defined]
        assert quota_of(client).used("anonymous") == on_disk(tmp_path / "store") == 0


def test_results_beyond_the_quota_are_not_kept(tmp_path: Path) -> None:
    with quick_server(tmp_path / "store", limits=Limits(stored_bytes=len(SCENE) + 2000)) as client:
        job = begin(client, SCENE)
        status = ended(client, job)
        assert status["status"] == "failed"
        assert status["message"].startswith("Its results cannot be kept. Your files take ")
        assert quota_of(client).used("anonymous") == on_disk(tmp_path / "store") <= len(SCENE) + 2000
        assert not (tmp_path / "store" / "scenes" / job).exists()


def test_fetched_bytes_count_as_they_come(tmp_path: Path) -> None:
    endless = [(200, {}, b"II*\0" * 20_000)]
    with (
        host({"/x.tif": endless}) as (url, _),
        quick_server(
            tmp_path / "store",
            allow_hosts=(f"private:{url.removeprefix('http://')}",),
            limits=Limits(stored_bytes=50_000),
        ) as client,
    ):
        status = ended(client, ask(client, {"scene": {"href": f"{url}/x.tif"}}).json()["jobID"])
        assert "of the 50,000 bytes that you may have" in status["message"]
        assert quota_of(client).used("anonymous") == on_disk(tmp_path / "store") < 1000


def test_a_user_sends_so_many_files_at_once(tmp_path: Path) -> None:
    (tmp_path / "uploads").mkdir()
    uploads = Uploads(tmp_path, Limits(uploads=2), Quota(10**6))

    async def run() -> None:
        go = asyncio.Event()

        async def pieces() -> AsyncIterator[bytes]:
            yield SCENE[:500]
            await go.wait()
            yield SCENE[500:]

        begun = [asyncio.create_task(uploads.receive("ada", "x.tif", pieces())) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(Problem, match="You are sending 2 files, and no more are allowed at once") as refused:
            await uploads.receive("ada", "x.tif", pieces())
        assert (refused.value.status, refused.value.headers) == (429, {"Retry-After": "5"})
        others = asyncio.create_task(uploads.receive("bob", "x.tif", pieces()))
        go.set()
        assert [(await one).bytes for one in (*begun, others)] == [len(SCENE)] * 3
        assert (await uploads.receive("ada", "x.tif", pieces())).bytes == len(SCENE)

    asyncio.run(run())


def test_a_user_has_so_many_requests_at_once(tmp_path: Path) -> None:
    settings = ServeSettings(str(tmp_path), keys={digest_of("k" * 16): "ada"}, limits=Limits(requests=2))

    async def run() -> list[int]:
        go, codes = asyncio.Event(), []

        async def app(scope: Any, receive: Any, send: Any) -> None:
            await go.wait()
            await send({"type": "http.response.start", "status": 200, "headers": []})

        async def request(key: str) -> None:
            async def send(message: Any) -> None:
                if message["type"] == "http.response.start":
                    codes.append(message["status"])

            async def receive() -> Any:
                return {"type": "http.request", "body": b"", "more_body": False}

            scope = {
                "type": "http",
                "method": "GET",
                "path": "/",
                "query_string": b"",
                "server": ("x", 80),
                "root_path": "",
            }
            await guard({**scope, "scheme": "http", "headers": [(b"x-api-key", key.encode())]}, receive, send)

        guard = Guard(app, settings, lambda *_: None)
        waiting = [asyncio.create_task(request("k" * 16)) for _ in range(2)]
        waiting += [asyncio.create_task(request("no key")) for _ in range(3)]
        await asyncio.sleep(0)
        await request("k" * 16)
        go.set()
        await asyncio.gather(*waiting)
        await request("k" * 16)
        return codes

    assert asyncio.run(run()) == [429, 200, 200, 200, 200, 200, 200]


def test_connections_beyond_their_number_go_and_others_are_answered(crowded: tuple[str, Path]) -> None:
    at = ("127.0.0.1", int(crowded[0].rpartition(":")[2]))
    with ExitStack() as open_ones:
        slow = [open_ones.enter_context(socket.create_connection(at)) for _ in range(100)]
        for one in slow:
            one.sendall(b"GET / HTTP/1.1\r\nHost: 127")
        until(lambda: sum(hung_up(one) for one in slow) >= 36)
        assert httpx.get(f"{crowded[0]}/health", timeout=10).status_code == 200


def hung_up(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


class Connection:
    """What a watch sees of one."""

    def __init__(self, *, user: str = "", left: int = 0, answered: bool = False) -> None:
        self.cycle = SimpleNamespace(response_complete=False) if answered else None
        self.scope = {"user": user}
        self.left, self.gone = left, False
        self.transport = SimpleNamespace(get_write_buffer_size=lambda: self.left, abort=self._abort)

    def _abort(self) -> None:
        self.gone = True


def test_a_connection_has_ten_seconds_for_its_headers_and_thirty_to_take_a_byte() -> None:
    silent, stalled, reading, computed = (
        Connection(), Connection(left=9, answered=True), Connection(left=9, answered=True), Connection(answered=True)
    )  # fmt: skip
    watch, all_of_them = Watch(10), [silent, stalled, reading, computed]
    for now in (0.0, 10.0, 10.1, 30.0, 30.1, 3000.0):
        reading.left += 1
        watch.look({one for one in all_of_them if not one.gone}, now)
        gone = [one.gone for one in all_of_them]
        assert gone == [now > 10, now > 30, False, False], now


def test_who_is_answered_and_has_a_key_goes_last() -> None:
    ours, theirs, silent = Connection(user="ada", answered=True), Connection(answered=True), Connection(user="ada")
    late = Connection()
    watch = Watch(2)
    watch.look({ours, theirs, silent} - {silent}, 0.0)
    watch.look({ours, theirs, silent}, 1.0)
    assert [one.gone for one in (ours, theirs, silent)] == [False, True, False]
    watch.look({ours, silent, late}, 2.0)
    assert [one.gone for one in (ours, silent, late)] == [False, True, False]


def test_the_system_bounds_the_connections() -> None:
    import resource

    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert places(20) == 20
    code = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (400, 400))\n"
    code += "from attcr.serve.clients import places; print(places(512), places(70))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=with_source(), check=True)
    assert found.stdout.split() == ["72", "70"]
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[1] == before[1]


def with_source() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(SOURCE)}


def body_of(*pieces: tuple[float, bytes]) -> Body:
    """A body whose pieces come after so many seconds."""
    left = list(pieces)

    async def receive() -> Any:
        wait, piece = left.pop(0)
        await asyncio.sleep(wait)
        return {"type": "http.request", "body": piece, "more_body": bool(left)}

    return Body(receive)


async def read(body: Body, count: int) -> list[bytes]:
    return [(await body())["body"] for _ in range(count)]


def test_a_body_that_stalls_or_drips_is_refused_and_a_steady_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "PAUSE", 2.0)
    monkeypatch.setattr(clients, "FIRST", 0.2)
    monkeypatch.setattr(clients, "SLOWEST", 20)
    steady = [(0.1, b"0" * 200)] * 6
    assert asyncio.run(read(body_of(*steady), 6)) == [b"0" * 200] * 6
    with pytest.raises(Problem, match=r"Nothing of the request came for 2 s"):
        asyncio.run(read(body_of((0, b"0" * 200), (9, b"0")), 2))
    with pytest.raises(Problem, match=r"Only \d bytes of the request came in time") as refused:
        asyncio.run(read(body_of(*[(0.1, b"0")] * 9), 9))
    assert (refused.value.status, refused.value.headers) == (408, {"Connection": "close"})


def test_a_refused_client_can_send_the_rest_and_read_why(crowded: tuple[str, Path]) -> None:
    """A client that writes all before it reads would see a broken connection, and no reason."""
    head = b"POST /uploads HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: 3000000\r\n\r\n"
    with socket.create_connection(("127.0.0.1", int(crowded[0].rpartition(":")[2]))) as client:
        client.sendall(head)
        for _ in range(30):
            client.sendall(b"0" * 100_000)
            time.sleep(0.01)
        assert b"HTTP/1.1 413" in client.recv(1 << 16)


@pytest.mark.parametrize(("size", "count", "code"), [(1, 3000, b"400"), (1, 200, b"201"), (100, 300, b"413")])
def test_a_body_in_thousands_of_tiny_pieces_is_refused(
    crowded: tuple[str, Path], size: int, count: int, code: bytes
) -> None:
    """Each piece takes time in which nobody else is answered."""
    body = (b"II*\0" + b"0" * size * count)[: size * count]
    pieces = [b"%x\r\n%s\r\n" % (size, body[at : at + size]) for at in range(0, len(body), size)]
    head = b"POST /uploads HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    with socket.create_connection(("127.0.0.1", int(crowded[0].rpartition(":")[2])), 60) as client:
        with suppress(ConnectionError):
            client.sendall(head + b"".join(pieces) + b"0\r\n\r\n")
        assert client.recv(1 << 16).split()[1] == code


def test_what_is_no_http_after_an_answer_ends_the_connection(
    crowded: tuple[str, Path],
) -> None:
    head = b"POST /nowhere HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    with socket.create_connection(("127.0.0.1", int(crowded[0].rpartition(":")[2])), 60) as client:
        client.sendall(head)
        assert b" 404 " in client.recv(1 << 16)
        with suppress(ConnectionError):
            client.sendall(b"ZZ\r\n")
            while client.recv(1 << 16):
                pass
    assert "Traceback" not in (crowded[1].parent / f"{crowded[1].name}.log").read_text()


def test_memory_beyond_the_limit_fails_in_that_process_alone() -> None:
    code = "from attcr.serve.pool import hold_memory\nimport numpy as np\nhold_memory(600 << 20)\n"
    code += "print(np.ones(200 << 20, np.uint8).sum())\nnp.ones(700 << 20, np.uint8)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=with_source())
    assert found.stdout.split() == [str(200 << 20)]
    assert "MemoryError" in found.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("error", "message", "lacks"),
    [
        ("_ArrayMemoryError", "Unable to allocate 3 GiB", True),
        (
            "RuntimeError",
            "DefaultCPUAllocator: can't allocate memory: you tried to allocate",
            True,
        ),
        ("SceneError", "x.tif has 9 bands", False),
    ],
)
def test_a_lack_of_memory_is_told_as_such(error: str, message: str, lacks: bool) -> None:
    outcome = _in_words(Outcome("a", "0", "quarantined", error=error, message=message), 3 << 29)
    expected = "It needs more memory than the 1.5 GiB that a job may have: use a smaller `tile` or `batch`."
    assert (outcome.error, outcome.message) == (("MemoryError", expected) if lacks else (error, message))


def test_no_limit_but_that_of_memory_may_be_nothing() -> None:
    assert Limits(memory=0).memory == 0
    with pytest.raises(ConfigError, match="The limit uploads is 0"):
        Limits(uploads=0)


def test_progress_never_goes_back() -> None:
    """A job whose process dies begins again, and one that fails has come so far."""
    job, told = JobState("a" * 32, "ada", 0.0), {"stage": "restore", "done": 3, "total": 4}
    store: Any = SimpleNamespace(progress=lambda _: told, public=str)

    def percent() -> int | None:
        return status_of(store, job, "http://x").progress

    job.status, seen = "running", []
    seen.append(percent())
    told["done"] = 1
    seen.append(percent())
    for status in ("accepted", "running", "failed", "successful"):
        job.status = status  # type: ignore[assignment]
        seen.append(percent())
    assert seen == [75, 75, 75, 75, 75, 100]
