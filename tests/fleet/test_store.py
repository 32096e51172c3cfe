"""Where results go: what is published once, and what the dead leave."""

import http.server
import os
import signal
import threading
from pathlib import Path

import pytest

from attcr.errors import FleetError
from attcr.fleet.store import Scratch, Store, sweep


def test_scratch_of_the_living_stays_and_of_the_dead_goes(tmp_path: Path) -> None:
    alive = Scratch(tmp_path / "s")
    child = os.fork()
    if not child:
        dead = Scratch(tmp_path / "s")
        (dead.folder / "scene").mkdir()
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    sweep(tmp_path / "s")
    assert [path.name for path in (tmp_path / "s").iterdir() if path.is_dir()] == [alive.folder.name]
    alive.close()
    assert not (tmp_path / "s").exists()


def test_scratch_of_a_process_that_is_about_to_end_goes_with_it(tmp_path: Path) -> None:
    alive = Scratch(tmp_path / "s")
    threading.Timer(0.3, alive._file.close).start()  # as the system does when the process ends
    sweep(tmp_path / "s", wait=60)
    assert not (tmp_path / "s").exists()


def test_a_key_is_created_once(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "out"))
    with Scratch(store.scratch) as scratch:
        for expected, text in ((True, "first"), (False, "second")):
            made = scratch.folder / "made"
            made.write_text(text)
            assert store.create(made, "items/a.json") is expected
            assert not made.exists()
    assert store.read("items/a.json") == b"first"
    assert list(store.names("items")) == ["a.json"]
    store.delete("items/a.json")
    store.delete("items/a.json")
    assert store.read("items/a.json") is None


def test_a_private_root_is_entered_by_its_user_alone(tmp_path: Path) -> None:
    root = tmp_path / "s"
    for before in (None, 0o755, 0o750):
        if before is not None:
            root.mkdir()
            root.chmod(before)
        with Scratch(root, private=True):
            assert root.stat().st_mode & 0o777 == 0o700
        assert not root.exists()


@pytest.mark.parametrize("kind", ["open", "link", "file", "another"])
def test_a_root_that_others_may_write_to_is_refused_and_left(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, kept = tmp_path / "s", tmp_path / "kept"
    kept.mkdir()
    if kind == "link":
        root.symlink_to(kept)
    elif kind == "file":
        root.touch()
    else:
        root.mkdir(mode=0o700)
    if kind == "open":
        root.chmod(0o777)
    if kind == "another":
        user = os.getuid()
        monkeypatch.setattr(os, "getuid", lambda: user + 1)
    with pytest.raises(FleetError, match="TMPDIR"):
        Scratch(root, private=True)
    assert os.path.lexists(root)


def test_the_scratch_of_a_bucket_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    store = Store("memory:///")
    with store.open_scratch() as scratch:
        assert scratch.folder.parent == tmp_path / f"attcr-fleet-{os.getuid()}"
        assert scratch.folder.parent.stat().st_mode & 0o777 == 0o700


class NoBucket(http.server.BaseHTTPRequestHandler):
    """Answers a listing as S3 does where there is no bucket."""

    def do_GET(self) -> None:
        told = b"<Error><Code>NoSuchBucket</Code><Message>The specified bucket does not exist</Message></Error>"
        self.send_response(404)
        self.send_header("Content-Length", str(len(told)))
        self.end_headers()
        self.wfile.write(told)

    def log_message(self, *_: object) -> None:
        pass


def test_listing_a_bucket_that_is_not_there_is_told_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), NoBucket) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        settings = {"ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}", "ALLOW_HTTP": "true"}
        for name, value in {**settings, "ACCESS_KEY_ID": "a", "SECRET_ACCESS_KEY": "b", "REGION": "us-east-1"}.items():
            monkeypatch.setenv(f"AWS_{name}", value)
        with pytest.raises(FleetError) as error:
            list(Store("s3://nowhere/out").names("items"))
        server.shutdown()
    assert str(error.value) == "s3://nowhere/out: there is no such bucket. Make it, or give another output."
