"""Hostile clients of a server, and one who looks at its health meanwhile.

Every request is counted with its answer: a failure of the server (5xx that are not told) is kept, and so is an answer
that does not come. What `ada` does is harmless; `bob` is hostile.
"""

import json
import random
import socket
import struct
import subprocess
import sys
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from fake_services import KEYS, tiff

PATIENCE = 60.0
"""Seconds in which an answer comes."""
TOLD = (503, 507)
"""Failures that the description tells: not ready, and no room."""
ID = "0" * 32
WORDS = (
    "", "..", "%2e%2e%2fetc%2fpasswd", "%00", "%ff%fe", "%ED%A0%80", "-1", "1e400", "nan", "9" * 400, "9" * 4000, "*",
    "a" * 3000, "%0d%0aX-A:%20b", "<script>", "%F0%9F%92%A5", "'%20OR%201=1--", "a," * 2000, "..%5c..", "%D9%A1",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 10**400, 1e308, "", "\ud800", "\0", "a" * 5000, [], [[]], {}, {"a": 1}, ["none"], "/etc/passwd",
    {"upload": ID}, {"href": "file:///etc/passwd"}, {"href": "http://[::1"}, {"href": "http://é.example/"}, "auto:9",
    {"value": {"value": {}}}, [{"upload": "0" * 32}] * 40, {"upload": ["0"]}, "📦" * 200, 256.0, "256", [1, [2, [3]]],
    {"type": "Feature", "id": "x", "assets": {str(i): {"href": "http://127.0.0.1/a"} for i in range(500)}},
)  # fmt: skip
INPUTS = (
    "scene", "mask", "references", "reference_mask", "sar", "weights", "tile", "overlap", "batch", "nodata", "bands",
    "sensor", "dilate", "confidence", "unseen", "dtype", "device", "vrt",
)  # fmt: skip
PATHS = (
    "/", "/api", "/conformance", "/processes", "/processes/{}", "/processes/{}/execution", "/jobs", "/jobs/{}",
    "/jobs/{}/results", "/jobs/{}/results/{}", "/jobs/{}/info", "/jobs/{}/point", "/jobs/{}/tiles/{}.json",
    "/jobs/{}/tiles/{}/{}/{}/{}.png", "/uploads", "/uploads/{}", "/viewer/{}", "/health", "/metrics", "/{}",
)  # fmt: skip
QUERIES = (
    "name", "limit", "offset", "status", "type", "processID", "datetime", "minDuration", "maxDuration", "lon", "lat",
    "show", "outputs", "v",
)  # fmt: skip
HEADERS = (
    "Host", "Accept", "Accept-Encoding", "Origin", "Range", "If-Range", "If-None-Match", "Prefer", "Content-Type",
    "Authorization", "Cookie", "Expect", "Upgrade", "X-Forwarded-Host", "X-Forwarded-For", "Forwarded", "X-API-Key",
)  # fmt: skip
METHODS = ("GET", "POST", "DELETE", "HEAD", "OPTIONS", "PUT", "PATCH", "TRACE", "CONNECT", "BREW")

_LOOK = """
import socket, sys, time
port = int(sys.argv[1])
while True:
    began = time.monotonic()
    try:
        with socket.create_connection(("127.0.0.1", port), 60) as one:
            one.settimeout(60)
            one.sendall(b"GET /health HTTP/1.1\\r\\nHost: 127.0.0.1\\r\\nConnection: close\\r\\n\\r\\n")
            good = one.recv(1000).startswith(b"HTTP/1.1 200")
    except OSError:
        good = False
    print(began, time.monotonic() - began, int(good), flush=True)
    time.sleep(0.05)
"""


@contextmanager
def looked_at(port: int, seen: Path) -> Iterator[None]:
    """Ask for a server's health about twenty times a second, from another process; write when, how long and whether."""
    with seen.open("w") as out:
        look = subprocess.Popen([sys.executable, "-S", "-c", _LOOK, str(port)], stdout=out)
        try:
            yield
        finally:
            look.kill()
            look.wait()


def looks(seen: Path) -> list[tuple[float, float, bool]]:
    """Give what was seen of a server's health: when, seconds, whether it was well."""
    rows = [line.split() for line in seen.read_text().splitlines()[:-1]]
    return [(float(when), float(took), good == "1") for when, took, good in rows]


def head(method: str, path: str, length: int | None = None, *more: bytes, key: str = KEYS["bob"]) -> bytes:
    """The first lines of a request."""
    lines = [
        f"{method} {path} HTTP/1.1".encode("latin-1", "replace"),
        b"Host: 127.0.0.1",
        b"X-API-Key: " + key.encode(),
    ]
    lines += [b"Content-Length: %d" % length] if length is not None else []
    return b"\r\n".join([*lines, *more, b"", b""])


class Siege:
    """Hostile clients of one server, and what it answered them."""

    def __init__(self, port: int, seed: int = 0) -> None:
        self.port, self.dice = port, random.Random(seed)
        self.codes: Counter[str] = Counter()
        self.failures: list[str] = []

    def connect(self) -> socket.socket:
        """A connection that is left alone with its time."""
        one = socket.create_connection(("127.0.0.1", self.port), PATIENCE)
        one.settimeout(PATIENCE)
        return one

    def count(self, answer: bytes, asked: bytes, *, due: bool = True) -> int:
        """Count a request with the first bytes of its answer; give its status, 0 where there is none."""
        code = answer[9:12].decode("latin-1") if answer.startswith(b"HTTP/1.1 ") else "none"
        self.codes[code] += 1
        if (code.startswith("5") and int(code) not in TOLD) or (due and answer == b"late"):
            self.failures.append(f"{asked[:300]!r}: {answer[:300]!r}")
        return int(code) if code.isdecimal() else 0

    def ask(self, request: bytes, *, due: bool = True) -> tuple[int, bytes]:
        """Send bytes as they are; give status and the first bytes of the answer; `due` where there must be one."""
        answer = b""
        try:
            with self.connect() as one:
                if not due:
                    one.settimeout(3)
                with suppress(ConnectionError):
                    one.sendall(request)
                while b"\r\n\r\n" not in answer and (piece := one.recv(1 << 16)):
                    answer += piece
                length = next(
                    (int(line[15:]) for line in answer.lower().split(b"\r\n") if line[:15] == b"content-length:"), 0
                )
                while len(answer.partition(b"\r\n\r\n")[2]) < min(length, 1 << 20) and (piece := one.recv(1 << 16)):
                    answer += piece
        except TimeoutError:
            answer = answer or b"late"
        except OSError:
            pass
        return self.count(answer, request, due=due), answer.partition(b"\r\n\r\n")[2]

    def get(self, path: str, method: str = "GET", *more: bytes) -> tuple[int, Any]:
        """Ask for what is JSON, where it is."""
        code, content = self.ask(head(method, path, None, b"Connection: close", *more))
        with suppress(ValueError):
            return code, json.loads(content)
        return code, content

    def post(self, path: str, body: bytes, *more: bytes) -> tuple[int, Any]:
        """Send a body."""
        code, content = self.ask(head("POST", path, len(body), b"Connection: close", *more) + body)
        with suppress(ValueError):
            return code, json.loads(content)
        return code, content

    def upload(self, content: bytes) -> str:
        """Send a file; give its id, or one that is not there."""
        code, told = self.post("/uploads?name=x.tif", content)
        return str(told["id"]) if code == 201 else ID

    def job(self, **inputs: Any) -> str:
        """Ask for a job; give its id, or one that is not there."""
        code, told = self.post("/processes/restore/execution", json.dumps({"inputs": inputs}).encode())
        return str(told["jobID"]) if code == 201 else ID

    def many(self, count: int, one: Callable[[int], Any], at_once: int = 8) -> list[Any]:
        """Do something so many times, some at once."""
        with ThreadPoolExecutor(at_once) as threads:
            return list(threads.map(one, range(count)))

    # requests of any kind

    def random_requests(self, count: int, job: str, upload: str) -> None:
        """Requests whose every part may be wrong."""
        dice = self.dice
        made = [self._random_request(dice, job, upload) for _ in range(count)]
        self.many(count, lambda at: self.ask(made[at]))

    def _random_request(self, dice: random.Random, job: str, upload: str) -> bytes:
        kind = dice.random()
        if kind < 0.4:
            body = json.dumps(self._random_inputs(dice, upload)).encode()
            if dice.random() < 0.2:
                body = dice.choice(
                    (b"[" * 9000, b"null", b'{"inputs":NaN}', b"\xff" * 99, body[:-3], b"9" * 9000, body * 2)
                )
            return head("POST", "/processes/restore/execution", len(body), b"Connection: close") + body
        path = dice.choice(PATHS)
        while "{}" in path:
            sound = {"/jobs/": job, "/uploads/": upload, "results/": "restored", "tiles/": "result"}
            known = next((word for start, word in sound.items() if path.partition("{}")[0].endswith(start)), "0")
            path = path.replace("{}", known if dice.random() < 0.6 else dice.choice(WORDS), 1)
        query = "&".join(f"{dice.choice(QUERIES)}={dice.choice(WORDS)}" for _ in range(dice.choice((0, 0, 1, 2, 40))))
        path += f"?{query}" if query else ""
        more = [
            f"{dice.choice(HEADERS)}: {dice.choice(WORDS)[:3000]}".encode() for _ in range(dice.choice((0, 0, 1, 3)))
        ]
        method = "GET" if kind < 0.75 else dice.choice(METHODS)
        if method == "DELETE" and path.startswith((f"/jobs/{job}", f"/uploads/{upload}")):
            method = "GET"
        body = dice.choice((b"", b"{}", b"II*\0", tiff(8))) if method in ("POST", "PUT", "PATCH") else b""
        return head(method, path[:60_000], len(body), b"Connection: close", *more) + body

    def _random_inputs(self, dice: random.Random, upload: str) -> object:
        inputs: dict[str, Any] = {"scene": {"upload": upload}}
        for _ in range(dice.randrange(1, 4)):
            inputs[dice.choice(INPUTS)] = dice.choice(VALUES)
        return dice.choice(
            ({"inputs": inputs}, {"inputs": inputs, dice.choice(("outputs", "response")): dice.choice(VALUES)})
        )

    # who holds what he has

    @contextmanager
    def holding(self, count: int) -> Iterator[None]:
        """Requests that never end, and answers that nobody reads, while something else is done."""
        begun = (
            b"GET /jobs HTTP/1.1\r\nHost: 127", head("POST", "/uploads?name=a.tif", 1000) + b"II*\0",
            head("POST", "/processes/restore/execution", 90) + b"{", head("GET", "/api") * 300,
            head("GET", "/jobs") + b"G",
        )  # fmt: skip
        with ExitStack() as held:
            for at in range(count):
                with suppress(OSError):
                    one = held.enter_context(self.connect())
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
                    one.settimeout(0.1)  # who is not read from sends no more
                    one.sendall(begun[at % len(begun)])
                self.codes["held"] += 1
            yield

    # one way each

    def uploads_at_once(self, size: int, count: int) -> Counter[int]:
        """Files that all begin before any ends; half of them say how long they are."""
        content = tiff(8) + b"\0" * size

        def one(number: int) -> int:
            asked = head("POST", "/uploads?name=a.tif", len(content) if number % 2 else None)
            if not number % 2:
                asked = asked[:-2] + b"Transfer-Encoding: chunked\r\n\r\n"
            answer = b""
            with suppress(OSError), self.connect() as client:
                client.sendall(asked)
                for at in range(0, len(content), 40_000):
                    piece = content[at : at + 40_000]
                    client.sendall(piece if number % 2 else b"%x\r\n%s\r\n" % (len(piece), piece))
                    time.sleep(0.05)
                client.sendall(b"" if number % 2 else b"0\r\n\r\n")
                answer = client.recv(1000)
            return self.count(answer, asked)

        return Counter(self.many(count, one, count))

    def keep_by_jobs(self, size: int, count: int) -> None:
        """Upload, ask for a job, delete the upload: the job has the file still."""
        content = tiff(8) + b"\0" * size
        for _ in range(count):
            upload = self.upload(content)
            self.job(scene={"upload": upload}, mask="none")
            self.get(f"/uploads/{upload}", "DELETE")

    def masks_of_many_bands(self, count: int) -> list[str]:
        """Masks of a few bytes and thousands of bands."""
        scene, mask = self.upload(tiff(32)), self.upload(tiff(32, bands=4000))
        return [self.job(scene={"upload": scene}, mask={"upload": mask}) for _ in range(count)]

    def pipelines(self, count: int) -> None:
        """Requests one behind the other on a connection, of which the answers are read at the end, or never."""
        for at in range(count // 50):
            with suppress(OSError), self.connect() as one:
                one.settimeout(10)
                one.sendall(head("GET", "/jobs?limit=1000") * 49 + head("GET", "/health", None, b"Connection: close"))
                answer = b""
                while at % 2 and (piece := one.recv(1 << 16)):
                    answer += piece
            self.codes["pipelined"] += 50
            if b"HTTP/1.1 500" in answer:
                self.failures.append(f"pipeline: {answer[:300]!r}")

    def listeners(self, job: str, count: int) -> None:
        """Streams of events, more than a user may have, that are reset."""
        with ExitStack() as held:
            for _ in range(count):
                one = held.enter_context(self.connect())
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                one.sendall(head("GET", f"/jobs/{job}/events"))
                with suppress(OSError):
                    self.count(one.recv(1000), b"events")

    def ranges(self, job: str, count: int) -> None:
        """Ranges of a file: thousands, one in the other, of no byte, of more than there are."""
        kinds = (
            ",".join(f"{at}-{at + 5}" for at in range(4000)), ",".join(["0-"] * 8000), "0-0,-1", "-", "5-1", "-0",
            "9" * 999 + "-", "0-" + "9" * 999, "a-b", ",".join(f"{at}-" for at in range(9000, 0, -1)),
        )  # fmt: skip
        for at in range(count):
            self.get(f"/jobs/{job}/results/restored", "GET", b"Range: bytes=" + kinds[at % len(kinds)].encode())

    def pieces(self, count: int) -> None:
        """Bodies in pieces that are wrong, tiny or more than is told."""
        start = head("POST", "/uploads?name=a.tif")[:-2] + b"Transfer-Encoding: chunked\r\n"
        kinds = (
            start + b"\r\n" + b"1\r\nI\r\n" * 20_000 + b"0\r\n\r\n", start + b"\r\nZZ\r\n",
            start + b"\r\n-1\r\nII\r\n0\r\n\r\n", start + b"\r\n" + b"f" * 40 + b"\r\n",
            start + b"Content-Length: 5\r\n\r\n0\r\n\r\n", start + b"\r\n4;" + b"a" * 90_000 + b"\r\nII*\0\r\n0\r\n",
            start + b"\r\n0\r\n" + b"X: y\r\n" * 9000 + b"\r\n", head("POST", "/uploads", None, b"Content-Length: -1"),
            head("POST", "/uploads", None, b"Content-Length: 4, 4") + b"II*\0",
            head("POST", "/uploads", None, b"Content-Length: 4", b"Content-Length: 5") + b"II*\0",
            head("POST", "/uploads", 3) + tiff(8), b"\0" * 70_000, b"\x16\x03\x01\x02\0\x01\0" * 9, b"GET\r\n\r\n",
            b"GET / HTTP/9.9\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"GET /\xff\xfe HTTP/1.1\r\nHost: \xff\r\n\r\n",
        )  # fmt: skip
        self.many(count, lambda at: self.ask(kinds[at % len(kinds)], due=False))

    def resets(self, job: str, upload: str, count: int) -> None:
        """Connections that are reset in the middle of a body or of an answer."""
        body = json.dumps({"inputs": {"scene": {"upload": upload}}}).encode()
        kinds = (
            head("POST", "/uploads?name=a.tif", 9000) + tiff(8), head("GET", f"/jobs/{job}/results/restored"),
            head("POST", "/processes/restore/execution", len(body)) + body[:-1], head("GET", f"/jobs/{job}/info"),
            head("GET", f"/jobs/{job}/tiles/result/0/0/0.png"), head("GET", "/jobs?limit=1000"),
        )  # fmt: skip

        def one(at: int) -> None:
            with suppress(OSError), self.connect() as client:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                client.sendall(kinds[at % len(kinds)])
                time.sleep(0.01 * (at % 7))
            self.codes["reset"] += 1

        self.many(count, one)

    def races(self, count: int) -> None:
        """Jobs and uploads that are removed while they are begun, looked at and sent."""
        content = tiff(32)
        for _ in range(count // 24):
            upload = self.upload(content)
            job = self.job(scene={"upload": upload}, mask="none")
            paths = ("", "/results", "/results/restored", "/results/item", "/info", "/point?lon=16&lat=49")
            asked = [("GET", f"/jobs/{job}{path}") for path in paths * 3]
            asked += [
                ("DELETE", f"/jobs/{job}"),
                ("DELETE", f"/uploads/{upload}"),
                ("GET", "/jobs"),
                ("DELETE", f"/jobs/{job}"),
            ]
            self.dice.shuffle(asked)
            self.many(len(asked), lambda at: self.get(asked[at][1], asked[at][0]), 12)  # noqa: B023

    def broken_rasters(self, count: int) -> list[str]:
        """Files that are wrong inside, with their jobs, tiles and facts; some are far larger than they look."""
        sound, jobs = tiff(32), []
        for at in range(count // 5):
            broken = bytearray(sound)
            for _ in range(self.dice.randrange(1, 9)):
                broken[self.dice.randrange(4, len(broken) if at % 2 else 400)] = self.dice.randrange(256)
            job = self.job(scene={"upload": self.upload(bytes(broken) if at % 10 else bomb())}, mask="none")
            self.get(f"/jobs/{job}/info")
            self.get(f"/jobs/{job}/tiles/input/0/0/0.png")
            self.get(f"/jobs/{job}/point?lon=16&lat=49")
            jobs.append(job)
        return jobs

    def addresses(self, url: str, slow: str, count: int) -> list[str]:
        """Items and addresses that lead elsewhere, round and round, or to more than anyone wants, or drip."""
        item = {"type": "Feature", "stac_version": "1.0.0", "id": "x", "properties": {}}

        def of(href: str, number: int = 1) -> dict[str, Any]:
            band = {"type": "image/tiff", "bands": [{"name": "B02"}]}
            return {**item, "assets": {f"B{at}": {"href": href, **band} for at in range(number)}}

        kinds = (
            {"href": f"{url}/round"}, {"href": f"{url}/away"}, {"href": f"{url}/zipped"}, {"href": f"{url}/x%00"},
            {"href": f"{url}/item.json"}, of(f"{url}/round", 400), of("../../etc/passwd"), of(f"{url}/headers"),
            [{"href": f"{url}/x.tif"}] * 30, {"href": f"{url.replace('//', '//a:b@')}/x.tif"},
            {"href": f"{url}/{'a' * 9000}"}, {"href": f"{url}/endless.tif"}, {"href": f"http://{slow}/x.tif"},
            of(f"http://{slow}/x.tif", 9),
        )  # fmt: skip
        return [self.job(scene=kinds[at % len(kinds)], mask="none") for at in range(count)]

    def dismiss(self) -> None:
        """Remove every job and upload that is known."""
        while (jobs := self.get("/jobs?limit=1000")[1].get("jobs", [])) and any(
            one["status"] != "dismissed" for one in jobs
        ):
            for one in jobs:
                if one["status"] != "dismissed":
                    self.get(f"/jobs/{one['jobID']}", "DELETE")


def bomb(side: int = 30_000) -> bytes:
    """A PNG of zeros: a gigapixel in a few kilobytes of rows that are all the same."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    start = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + start + chunk(b"IDAT", zlib.compress(b"\0" * 1_000_000)) + chunk(b"IEND", b"")
