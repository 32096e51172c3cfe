"""A server under siege: hostile requests of one user fail nothing, hold up nobody, and write nothing beyond a quota."""

import os
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from siege import Siege, looked_at, looks
from test_api_schema import ask_all
from test_fair import slow_host

from fake_fleets import host, make_weights, told
from fake_services import KEYS, answers, as_user, ask, command, ended, send, tiff

STORED = 30_000_000
LIMITS = {"stored_bytes": STORED, "uploads": 64, "connections": 200, "pixels": 4_000_000, "seconds": 120}
ELSEWHERE = {
    "/away": [(302, {"Location": "http://169.254.169.254/latest", "Content-Length": "0"}, b"")],
    "/round": [(302, {"Location": "/round", "Content-Length": "0"}, b"")],
    "/zipped": [(200, {"Content-Encoding": "gzip", "Content-Length": "4"}, b"\x1f\x8b\x08\0")],
    "/headers": [(200, {f"X-{at}": "b" * 90 for at in range(300)}, b"")],
    "/endless.tif": [(200, {}, b"II*\0" * (1 << 23))],
    "/item.json": told(b'{"type": "Feature", "assets": {}}'),
    "/x.tif": told(tiff(32)),
    "/x%00": [(404, {"Content-Length": "0"}, b"")],
    f"/{'a' * 9000}": [(404, {"Content-Length": "0"}, b"")],
}


def bytes_of_all_but(store: Path, known: set[str]) -> int:
    """The bytes of all files that are a user's, but for those of known jobs and uploads; those with two names once."""
    found = {}
    for kind in ("uploads", "requests", "inputs", "scenes", "items"):
        for folder, _, names in os.walk(store / kind):
            for name in names if (kind, folder) != ("uploads", str(store / kind)) else ():
                with suppress(FileNotFoundError):
                    if not known & {*Path(folder).parts, name.partition(".")[0]}:
                        told = Path(folder, name).stat()
                        found[told.st_ino] = told.st_size
    return sum(found.values())


@pytest.mark.parametrize(
    "count", [pytest.param(600, marks=pytest.mark.nightly), pytest.param(10_000, marks=pytest.mark.slow)]
)
def test_hostile_requests_fail_nothing_and_hold_up_nobody(tmp_path: Path, count: int) -> None:
    store, seen, ada = tmp_path / "store", tmp_path / "health", {"headers": {**as_user("ada"), "Connection": "close"}}
    (tmp_path / "keys").write_text("".join(f"{name} {key}\n" for name, key in KEYS.items()))
    with slow_host() as (slow, _), host(ELSEWHERE) as (url, _):
        options = ["--weights", str(make_weights(tmp_path / "tiny.safetensors")), "--keys", str(tmp_path / "keys")]
        options += [f"--allow-host=private:{one.removeprefix('http://')}" for one in (slow, url)]
        options += [f"--limit={name}={number}" for name, number in LIMITS.items()]
        with command(store, *options) as (_, at), answers(at, 300) as client:
            hers: set[str] = set()
            weighing = threading.Lock()
            siege, share = Siege(port := int(at.rpartition(":")[2])), count // 20
            upload = siege.upload(tiff(32))
            job = siege.job(scene={"upload": upload}, mask="none")
            assert ended(client, job, 300, headers=as_user("bob"))["status"] == "successful"

            def served() -> float:
                began = time.monotonic()
                with weighing:
                    hers.add(sent := send(client, tiff(32), **ada))
                    asked = ask(client, {"scene": {"upload": sent}, "mask": "none"}, **ada).json()
                    hers.add(asked["jobID"])
                assert ended(client, asked["jobID"], 300, **ada)["status"] == "successful"
                return round(time.monotonic() - began, 2)

            parts = {
                "any": lambda: siege.random_requests(count // 3, job, upload),
                "addresses": lambda: siege.addresses(url, slow, share // 5),
                "masks": lambda: siege.masks_of_many_bands(share // 5),
                "broken": lambda: siege.broken_rasters(share),
                "pipelines": lambda: siege.pipelines(share * 2),
                "events": lambda: siege.listeners(job, min(share, 90)),
                "ranges": lambda: siege.ranges(job, share),
                "pieces": lambda: siege.pieces(share),
                "resets": lambda: siege.resets(job, upload, share),
                "races": lambda: siege.races(share),
                "jobs": lambda: siege.keep_by_jobs(500_000, share // 10),
                "uploads": lambda: siege.uploads_at_once(1_000_000, 50),
            }
            most, over = [0], threading.Event()

            def weigh() -> None:
                while not over.wait(0.1):
                    with weighing:
                        most[0] = max(most[0], bytes_of_all_but(store, hers))

            threading.Thread(target=weigh, daemon=True).start()
            began, waits = {}, [[served() for _ in range(5)]]
            with looked_at(port, seen):
                for name, part in parts.items():
                    began[name] = time.monotonic()
                    with siege.holding(60):
                        part()
                        waits.append([served()])
                began["described"] = time.monotonic()
                cases = ask_all(at, max(count // 60, 1), job, upload, as_user("bob"))
            over.set()
            siege.dismiss()
            assert client.get("/jobs", **ada).json()["numberMatched"] == sum(map(len, waits))
    health, total = looks(seen), sum(siege.codes.values()) + cases
    worst = dict.fromkeys(began, 0.0)
    for when, took, _ in health:
        part_then = max((name for name in began if began[name] <= when), key=lambda name: began[name], default="any")
        worst[part_then] = max(worst[part_then], round(took, 3))
    print(f"{total} requests: {dict(siege.codes)}, {cases} of the description; most bytes of bob {most[0]:,}")
    print(f"{len(health)} looks at health, longest {worst}; ada waits {waits}")
    assert not siege.failures, siege.failures[:5]
    assert all(good for *_, good in health)
    log = (tmp_path / "store.log").read_text()
    assert "Traceback" not in log
    assert '"level": "error"' not in log
    assert STORED // 2 < most[0] <= STORED
    assert total >= count
