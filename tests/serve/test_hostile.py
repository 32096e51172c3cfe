"""Requests of people who mean harm. Each is refused, and the server goes on."""

import socket
import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from attcr.fleet.manifest import Work
from attcr.serve.limits import Hosts, NotAllowedError, fetch_file, is_public
from attcr.serve.settings import Limits
from attcr.serve.worker import JobRunner, WorkerSettings
from fake_fleets import host, told
from fake_scenes import UTM, make, noise
from fake_services import QUICK, answers, as_user, ask, begin, command, ended, problem, quick_server, send, tiff

SMALL = Limits(upload_bytes=200_000, stored_bytes=500_000, body_bytes=20_000, jobs=3)
VRT = b'<VRTDataset rasterXSize="1" rasterYSize="1"><VRTRasterBand><SourceFilename>/etc/passwd</SourceFilename>'


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A server with keys, small limits and one allowed host."""
    store = tmp_path_factory.mktemp("guarded") / "store"
    with quick_server(store, keys=True, limits=SMALL, allow_hosts=("allowed.example", "*.below.example")) as client:
        client.headers.update(as_user("ada"))
        yield client


ELSEWHERE = [
    "http://127.0.0.1/x.tif",
    "http://localhost:8000/jobs",
    "http://169.254.169.254/latest/meta-data/",
    "http://[::1]/x.tif",
    "http://[::ffff:127.0.0.1]/x.tif",
    "http://0x7f000001/x.tif",
    "http://2130706433/x.tif",
    "http://127.1/x.tif",
    "http://allowed.example@127.0.0.1/x.tif",
    "http://allowed.example.evil.org/x.tif",
    "http://evil.org/x.tif#allowed.example",
    "http://evil.org/?allowed.example/x.tif",
    "http://evilallowed.example/x.tif",
    "http://below.example/x.tif",
    "http://.below.example/x.tif",
    "http://allowed.example:22/x.tif",
    "http://allowed.example\\@evil.org/x.tif",
    "http://allowed.example/x.tif\r\nHost: evil.org",
    "http://allowed.example:port/x.tif",
    "http:///x.tif",
    "file:///etc/passwd",
    "/etc/passwd",
    "../../etc/passwd",
    "/vsicurl/http://127.0.0.1/x.tif",
    "/vsizip//etc/x.zip",
    "ftp://allowed.example/x.tif",
    "gopher://allowed.example/",
    "s3://allowed.example/x.tif",
    "",
]


@pytest.mark.parametrize("slot", ["scene", "mask", "references"])
@pytest.mark.parametrize("href", ELSEWHERE)
def test_an_address_elsewhere_is_refused_before_anything_is_asked(
    guarded: TestClient, href: str, slot: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", None)
    scene: Any = {"upload": "0" * 32} if slot != "scene" else {"href": href}
    more = {} if slot == "scene" else {slot: [{"href": href}] if slot == "references" else {"href": href}}
    answer = ask(guarded, {"scene": scene, **more})
    assert answer.status_code == 403, answer.text
    assert "passwd" not in problem(answer)["detail"] or "passwd" in href


@pytest.mark.parametrize(
    "addresses",
    [
        ["10.0.0.1"], ["127.0.0.1"], ["169.254.169.254"], ["192.168.1.1"], ["0.0.0.0"], ["100.64.0.1"], ["224.0.0.1"],
        ["::1"], ["fe80::1%eth0"], ["fd00::1"], ["::ffff:169.254.169.254"], ["64:ff9b::7f00:1"], ["2002:7f00:1::"],
        ["fec0::1"], ["192.0.0.192"], ["192.0.0.8"], ["192.88.99.1"], ["3fff::1"], ["5f00::1"],
        ["::7f00:1"], ["168.63.129.16"], ["93.184.215.14", "127.0.0.1"], ["255.255.255.255"],
    ],
    ids=str,
)  # fmt: skip
def test_a_name_that_leads_into_a_private_network_is_refused(
    addresses: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [(0, 0, 0, "", (address, 80)) for address in addresses]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    monkeypatch.setattr(socket, "create_connection", None)
    with pytest.raises(NotAllowedError, match="not public"):
        fetch_file("http://allowed.example/x.tif", BytesIO(), Hosts(("allowed.example",)), 1000)


def test_public_addresses_are_public() -> None:
    assert all(map(is_public, ("93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c", "::ffff:8.8.8.8")))


def test_the_address_that_was_checked_is_the_one_that_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name may lead elsewhere the second time: it is looked up once."""
    looked, asked = [], []

    def look(*_: Any, **__: Any) -> list[Any]:
        looked.append(1)
        return [(0, 0, 0, "", ("93.184.215.14" if len(looked) == 1 else "127.0.0.1", 80))]

    def connect(address: tuple[str, int], timeout: float) -> None:
        asked.append(address)
        raise ConnectionRefusedError

    monkeypatch.setattr(socket, "getaddrinfo", look)
    monkeypatch.setattr(socket, "create_connection", connect)
    with pytest.raises(ConnectionRefusedError):
        fetch_file("http://allowed.example/x.tif", BytesIO(), Hosts(("allowed.example",)), 1000)
    assert asked == [("93.184.215.14", 80)]


@pytest.mark.parametrize(
    "onward",
    ["http://169.254.169.254/", "file:///etc/passwd", "//localhost/x.tif", "http://10.0.0.1/", "gopher://x/", "/round"],
)
def test_a_redirect_is_checked_like_the_address(onward: str) -> None:
    leads = [(302, {"Location": onward, "Content-Length": "0"}, b"")]
    with host({"/x.tif": leads, "/round": [(302, {"Location": "/round", "Content-Length": "0"}, b"")]}) as (url, _):
        hosts = Hosts((f"private:{url.removeprefix('http://')}",))
        with pytest.raises(NotAllowedError):
            fetch_file(f"{url}/x.tif", BytesIO(), hosts, 1000)


def test_a_redirect_to_another_host_takes_no_password_along() -> None:
    with host({"/x.tif": told(b"there")}) as (second, asked):
        onward = [(302, {"Location": f"{second}/x.tif", "Content-Length": "0"}, b"")]
        with host({"/x.tif": onward}) as (first, before):
            hosts = Hosts(tuple(f"private:{one.removeprefix('http://')}" for one in (first, second)))
            file = BytesIO()
            fetch_file(first.replace("//", "//user:secret@") + "/x.tif", file, hosts, 1000)
    assert file.getvalue() == b"there"
    assert before[0][1] is not None
    assert asked[0][1] is None


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({"Content-Length": "1000000"}, b"II*\0"),
        ({"Content-Encoding": "gzip", "Content-Length": "4"}, b"\x1f\x8b\x08\0"),
        ({}, b"II*\0" * 1000),
    ],
    ids=["huge", "compressed", "endless"],
)
def test_a_download_is_bounded_whatever_it_says(headers: dict[str, str], body: bytes) -> None:
    with host({"/x.tif": [(200, headers, body)]}) as (url, _):
        hosts = Hosts((f"private:{url.removeprefix('http://')}",))
        with pytest.raises((NotAllowedError, OSError)):
            fetch_file(f"{url}/x.tif", BytesIO(), hosts, 1000)


def bomb() -> bytes:
    """An archive of zeros, a thousand times as large as it looks."""
    made = BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("T_B02.tif", b"\0" * 10_000_000)
    return made.getvalue()


@pytest.mark.parametrize("name", ["x.tif", "x.zip", "x.vrt", "x.json", "MTD_MSIL2A.xml", "../../x.tif"])
@pytest.mark.parametrize("content", [VRT, bomb(), b'{"type": "Feature"}', b"\x1f\x8b\x08", b"<!DOCTYPE x>", b"%PDF"])
def test_what_is_no_raster_is_not_taken(guarded: TestClient, name: str, content: bytes) -> None:
    answer = guarded.post("/uploads", params={"name": name}, content=content)
    assert answer.status_code == 415
    assert "no VRT and no archive" in problem(answer)["detail"]


def test_a_fetched_vrt_is_not_taken(tmp_path: Path) -> None:
    with (
        host({"/x.tif": told(VRT)}) as (url, _),
        quick_server(tmp_path / "store", allow_hosts=(f"private:{url.removeprefix('http://')}",)) as client,
    ):
        job = ask(client, {"scene": {"href": f"{url}/x.tif"}}).json()["jobID"]
        status = ended(client, job)
    assert status["status"] == "failed"
    assert "no VRT and no archive" in status["message"]


@pytest.mark.parametrize("href", ["file:///etc/passwd", "/etc/passwd", "http://127.0.0.1/B02.tif", "../../x.tif"])
def test_the_assets_of_an_item_are_addresses_like_any_other(guarded: TestClient, href: str) -> None:
    assets = {"red": {"href": href, "type": "image/tiff", "bands": [{"name": "red"}]}}
    item = {"type": "Feature", "stac_version": "1.0.0", "id": "x", "assets": assets, "properties": {}}
    job = ask(guarded, {"scene": item}).json()["jobID"]
    status = ended(guarded, job)
    assert status["status"] == "failed"
    assert "root:" not in status["message"]
    guarded.delete(f"/jobs/{job}")


@pytest.mark.parametrize(
    "name", ["../../evil.tif", "/etc/evil.tif", "..\\evil.tif", ".hidden.tif", "a\0b.tif", "x" * 400]
)
def test_names_of_uploads_lead_nowhere(guarded: TestClient, name: str) -> None:
    answer = guarded.post("/uploads", params={"name": name}, content=tiff(8))
    assert answer.status_code == 201
    kept = answer.json()["name"]
    assert not {"/", "\\", "\0"} & set(kept)
    assert not kept.startswith(".")
    assert guarded.delete(f"/uploads/{answer.json()['id']}").status_code == 204


@pytest.mark.parametrize(
    "path",
    [
        "/jobs/../../etc/passwd", "/jobs/%2e%2e%2f%2e%2e%2fetc%2fpasswd", "/jobs/..%00", "/jobs/" + "a" * 5000,
        "/jobs/JOB/results/..%2f..%2fitems", "/jobs/JOB/results/%2e%2e", "/jobs/JOB/results/restored%00",
        "/jobs/JOB/tiles/..%2f/1/1/1.png", "/jobs/JOB/tiles/input/99/1/1.png", "/jobs/JOB/tiles/input/3/9/1.png",
        "/jobs/JOB/tiles/input/1/1/1.tif", "/jobs/JOB/tiles/input/-1/0/0.png", "/jobs/JOB/point?lon=nan&lat=0",
        "/jobs/JOB/point?lon=1e400&lat=0", "/jobs/JOB/point?lon=999&lat=0", "/static/../../etc/passwd",
    ],
)  # fmt: skip
def test_paths_lead_nowhere(server: TestClient, done: str, path: str) -> None:
    answer = server.get(path.replace("JOB", done))
    assert answer.status_code in (400, 404)
    assert "root:" not in answer.text
    problem(answer)


@pytest.mark.parametrize("key", ["../secret", "..", "", "0" * 31, "0" * 33, "g" * 32, 7, None, ["0" * 32], {"a": 1}])
def test_ids_of_uploads_lead_nowhere(guarded: TestClient, key: Any) -> None:
    assert ask(guarded, {"scene": {"upload": key}}).status_code == 400


def test_another_users_job_and_upload_are_not_there(guarded: TestClient) -> None:
    upload = send(guarded, tiff(), "mine.tif")
    job = ask(guarded, {"scene": {"upload": upload}}).json()["jobID"]
    assert ended(guarded, job)["status"] == "successful"
    bob = {"headers": as_user("bob")}
    paths = ("", "/results", "/results/restored", "/events", "/info", "/tiles/input/0/0/0.png", "/point?lon=0&lat=0")
    for path in paths:
        assert problem(guarded.get(f"/jobs/{job}{path}", **bob))["type"].endswith("no-such-job"), path
    assert guarded.delete(f"/jobs/{job}", **bob).status_code == 404
    assert guarded.delete(f"/uploads/{upload}", **bob).status_code == 404
    assert ask(guarded, {"scene": {"upload": upload}}, **bob).status_code == 404
    assert guarded.get("/jobs", **bob).json()["jobs"] == []
    assert guarded.get(f"/jobs/{job}").json()["status"] == "successful"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {"X-API-Key": "'; --"},
        {"Authorization": "Basic YWRhOmE="},
        {"X-API-Key": "é"},
    ],
)
def test_without_a_valid_key_nothing_is_given(guarded: TestClient, headers: dict[str, str]) -> None:
    plain = {"Authorization": "", **headers}
    encoded = [(name.encode(), value.encode()) for name, value in plain.items()]
    for method, path in (
        ("GET", "/jobs"), ("POST", "/uploads"), ("POST", "/processes/restore/execution"), ("GET", "/metrics"),
        ("GET", f"/jobs/{'0' * 32}"), ("DELETE", f"/jobs/{'0' * 32}"),
    ):  # fmt: skip
        answer = guarded.request(method, path, headers=encoded, content=b"{}")
        assert answer.status_code == 401, path
        assert answer.headers["www-authenticate"].startswith("Bearer")


def test_too_large_is_refused(guarded: TestClient) -> None:
    assert guarded.post("/uploads", content=b"II*\0" * 60_000).status_code == 413
    pieces = (b"II*\0" * 1000 for _ in range(60))
    assert guarded.post("/uploads", content=pieces).status_code == 413, "nobody says how long it is"
    assert guarded.post("/processes/restore/execution", content=b" " * 30_000).status_code == 413


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 9000, b"{", b"\xff", b"", b"null", b"[]", b'{"inputs": []}', b'{"inputs": {"scene": NaN}}',
        b'{"inputs": {"scene": {"upload": "' + b"0" * 32 + b'"}, "nodata": 1e999}}',
        b'{"inputs": {"scene": {"upload": "' + b"0" * 32 + b'"}, "tile": 1' + b"0" * 4000 + b"}}",
        b'{"inputs": {"scene": {"upload": "' + b"0" * 32 + b'"}, "batch": 1000000}}',
        b'{"inputs": {"scene": {"upload": "' + b"0" * 32 + b'"}, "mask": "scl=/etc/passwd"}}',
        b'{"inputs": {"scene": {"upload": "' + b"0" * 32 + b'"}, "vrt": "any"}}',
        b'{"inputs": {"scene": {"upload": "' + b"0" * 32 + b'"}, "device": "cuda"}}',
        b'{"inputs": {"scene": {"upload": "' + b"0" * 32 + b'"}, "weights": "../../w"}}',
    ],
    ids=lambda body: body[:70].decode(errors="replace"),
)  # fmt: skip
def test_a_body_that_is_no_request_is_refused(guarded: TestClient, body: bytes) -> None:
    answer = guarded.post("/processes/restore/execution", content=body)
    assert answer.status_code == 400, answer.text
    assert problem(answer)["type"] == "InvalidParameterValue"


@pytest.fixture(scope="module")
def listening(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    """A server as the command runs it: its process and port."""
    with command(tmp_path_factory.mktemp("headers") / "store", worker=QUICK) as (process, url), answers(url, 240):
        yield process.pid, int(url.rpartition(":")[2])


def head(*lines: bytes) -> bytes:
    return b"\r\n".join([b"GET /jobs HTTP/1.1", b"Host: 127.0.0.1", *lines, b"", b""])


@pytest.mark.parametrize(
    "request_",
    [
        head(b"X-Large: " + b"a" * (1 << 20)),
        head(*(b"X-%d: a" % number for number in range(50_000))),
        head(*([b"Cookie: " + b"a" * 4000] * 200)),
        head(b"a" * (1 << 20)),
        b"GET /" + b"a" * (1 << 20) + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Endless: " + b"a" * (64 << 20),
    ],
    ids=["a header of 1 MB", "50,000 headers", "200 cookies", "no colon", "a path of 1 MB", "a header without an end"],
)
def test_huge_headers_are_refused_and_take_no_memory(listening: tuple[int, int], request_: bytes) -> None:
    pid, port = listening
    psutil = pytest.importorskip("psutil")
    before = psutil.Process(pid).memory_info().rss
    got = b""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        try:
            connection.sendall(request_)
            got = connection.recv(1 << 16)
        except (ConnectionResetError, BrokenPipeError):
            pass  # it hung up on us
    assert not got or got.startswith((b"HTTP/1.1 400", b"HTTP/1.1 414", b"HTTP/1.1 431")), got[:200]
    assert psutil.Process(pid).memory_info().rss - before < 16 << 20
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")


def test_one_user_cannot_take_the_queue(guarded: TestClient) -> None:
    ours = [begin(guarded, tiff(8), "slow.tif") for _ in range(SMALL.jobs)]
    answer = ask(guarded, {"scene": {"upload": send(guarded, tiff(8))}})
    assert answer.status_code == 429
    assert int(answer.headers["retry-after"]) > 0
    theirs = send(guarded, tiff(8), headers=as_user("bob"))
    assert ask(guarded, {"scene": {"upload": theirs}}, headers=as_user("bob")).status_code == 201
    for job in ours:
        guarded.delete(f"/jobs/{job}")


def test_a_page_of_another_site_cannot_ask_in_the_users_name(server: TestClient) -> None:
    foreign = {"Origin": "https://evil.example"}
    assert server.post("/uploads", content=tiff(8), headers=foreign).status_code == 403
    assert server.delete(f"/jobs/{'0' * 32}", headers=foreign).status_code == 403
    assert server.get("/jobs", headers={"Host": "evil.example:8000"}).status_code == 403, "a name made to lead here"
    assert server.get("/jobs", headers={"Host": "localhost:8000"}).status_code == 200
    own = {"Origin": "http://127.0.0.1:8000"}
    assert server.post("/uploads", content=tiff(8), headers=own).status_code == 201


def test_a_raster_that_says_it_is_huge_is_refused_before_it_is_read(tmp_path: Path) -> None:
    """A sparse TIFF of a terabyte in a few bytes."""
    path = make(tmp_path / "x.tif", noise("uint8", (1, 16, 16)), **UTM)
    data = path.read_bytes()
    (tmp_path / "y.tif").write_bytes(data.replace(b"\x10\0\0\0", b"\0\0\x10\0"))
    settings = WorkerSettings(str(tmp_path), "local", 1, 1, "cpu", None, Limits(pixels=10**6))
    with pytest.raises(Exception, match=r"pixels|cannot be|declares"):
        JobRunner(settings)._check(Work("x", (str(tmp_path / "y.tif"),)), tmp_path)
