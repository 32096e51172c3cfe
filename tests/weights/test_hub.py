"""Weights from elsewhere: what comes is checked before it is used."""

import hashlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from attcr.bands.spec import TRUE_COLOUR
from attcr.errors import WeightsError
from attcr.networks.attcr import ATTCR, ATTCRConfig
from attcr.weights import load_model, save_model
from attcr.weights.hub import fetch

SMALL = ATTCRConfig(dim=8, blocks=(1, 1, 1, 1, 1), heads=(2, 2, 2, 2, 2))


class _Server(BaseHTTPRequestHandler):
    """A web server and, below /owner/, as much of the Hub as a download asks for."""

    content: bytes
    due: str
    asked: int
    path_asked: str
    status: int
    told: str | None
    """Content-Length, where it is not that of the content; "" is none."""

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()
        type(self).asked += 1
        type(self).path_asked = self.path
        self.wfile.write(self.content)

    def _answer(self) -> None:
        self.send_response(self.status)
        if self.told != "":
            self.send_header("Content-Length", self.told or str(len(self.content)))
        self.send_header("ETag", f'"{self.due}"')
        self.send_header("X-Repo-Commit", "0" * 40)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    save_model(ATTCR(SMALL), tmp_path / "w.safetensors", spec=TRUE_COLOUR)
    _Server.content = (tmp_path / "w.safetensors").read_bytes()
    _Server.due, _Server.asked, _Server.status = hashlib.sha256(_Server.content).hexdigest(), 0, 200
    _Server.told = None
    web = ThreadingHTTPServer(("127.0.0.1", 0), _Server)
    thread = threading.Thread(target=web.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{web.server_port}"
    web.shutdown()
    thread.join()
    web.server_close()


def test_a_url_is_fetched_once_and_loads(server: str, tmp_path: Path) -> None:
    address = f"{server}/w.safetensors?signature=secret#sha256={_Server.due}"
    assert load_model(address).config == SMALL
    assert load_model(address).config == SMALL
    assert _Server.asked == 1
    assert [file.name for file in (tmp_path / "cache" / "attcr").iterdir()] == [f"{_Server.due}.safetensors"]


def test_a_url_that_gives_other_bytes_is_refused_and_nothing_is_kept(server: str, tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="has sha256") as refused:
        load_model(f"{server}/w.safetensors?signature=secret#sha256={'0' * 64}")
    assert "secret" not in str(refused.value)
    assert not list((tmp_path / "cache" / "attcr").iterdir())


def test_a_kept_file_that_was_changed_is_fetched_again(server: str, tmp_path: Path) -> None:
    address = f"{server}/w.safetensors#sha256={_Server.due}"
    fetch(address).write_bytes(b"changed")
    assert fetch(address).read_bytes() == _Server.content
    assert _Server.asked == 2


@pytest.mark.parametrize("status", [403, 404, 503])
def test_a_url_that_cannot_be_had_is_told_without_its_signature(server: str, status: int) -> None:
    _Server.status = status
    with pytest.raises(WeightsError, match="cannot be fetched") as refused:
        fetch(f"{server}/w.safetensors?signature=secret#sha256={_Server.due.upper()}")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("https://example.org/w.safetensors", "add #sha256="),
        ("https://example.org/w.safetensors#sha256=12", "64 hexadecimal digits"),
        ("hf://owner", "expected hf://OWNER/NAME"),
        ("nothing://x/y#sha256=" + "0" * 64, "cannot be fetched"),
        ("https://user:secret@example.org/w?sig=secret", r"^https://example.org/w: add #sha256="),
        ("https://user:secret@example.org/w?sig=secret#sha256=12", r"^https://example.org/w: what follows"),
        ("nothing://user:secret@x/y?sig=secret#sha256=" + "0" * 64, r"^nothing://x/y cannot be fetched: "),
    ],
)
def test_an_address_that_cannot_be_checked_or_read_is_refused(
    address: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(WeightsError, match=message) as refused:
        fetch(address)
    assert "secret" not in str(refused.value)


def read_from_hub(address: str, server: str, home: Path) -> subprocess.CompletedProcess[str]:
    """Read in a process of its own, without torch: huggingface_hub reads its settings when it is imported."""
    settings = {"HF_ENDPOINT": server, "HF_HOME": str(home), "HF_HUB_DISABLE_TELEMETRY": "1"}
    code = "import sys, attcr; print(attcr.read_header(sys.argv[1]).config['dim'])"
    command = [sys.executable, "-c", code, address]
    return subprocess.run(command, env={**os.environ, **settings}, capture_output=True, text=True, check=False)


def test_the_hub_is_asked_once_and_its_sha256_is_checked(server: str, tmp_path: Path) -> None:
    first = read_from_hub("hf://owner/name", server, tmp_path / "hub")
    assert first.stdout == "8\n", first.stderr
    again = read_from_hub("hf://owner/name/model.safetensors@main", server, tmp_path / "hub")
    assert again.stdout == "8\n", again.stderr
    assert _Server.asked == 1
    assert _Server.path_asked == "/owner/name/resolve/main/model.safetensors"


def test_a_file_that_is_not_what_the_hub_says_is_refused_and_fetched_again(server: str, tmp_path: Path) -> None:
    whole, _Server.content = _Server.content, _Server.content[:-1] + b"x"
    answer = read_from_hub("hf://owner/name", server, tmp_path / "hub")
    assert answer.returncode != 0
    assert "has sha256" in answer.stderr
    _Server.content = whole
    assert read_from_hub("hf://owner/name", server, tmp_path / "hub").stdout == "8\n"


@pytest.mark.parametrize("told", [str(3 << 30), str(10**18)])
def test_a_file_that_says_it_is_larger_than_is_taken_is_not_fetched(server: str, tmp_path: Path, told: str) -> None:
    _Server.told = told
    with pytest.raises(WeightsError, match="ATTCR_DOWNLOAD_GIB="):
        fetch(f"{server}/w.safetensors#sha256={_Server.due}")
    assert not list((tmp_path / "cache" / "attcr").iterdir())


def test_a_file_that_does_not_say_how_large_it_is_is_taken_up_to_the_limit(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _Server.told = ""
    address = f"{server}/w.safetensors#sha256={_Server.due}"
    monkeypatch.setattr("attcr.weights.hub.download_limit", lambda: 1000)
    with pytest.raises(WeightsError, match="more than the 1,000 bytes"):
        fetch(address)
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("ATTCR_DOWNLOAD_GIB", "1")
    assert fetch(address).read_bytes() == _Server.content


def test_a_server_that_drips_is_given_up(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attcr.weights.hub.seconds_for", lambda size: -1.0)
    with pytest.raises(WeightsError, match="too slowly"):
        fetch(f"{server}/w.safetensors#sha256={_Server.due}")


@pytest.mark.parametrize(
    "user", ["user:p@hunter2", "user:p/hunter2", "hunter2:p@ss", "user:p?hunter2", "user:p#hunter2"]
)
@pytest.mark.parametrize("scheme", ["http", "s3", "nope"])
def test_no_part_of_a_password_is_told(user: str, scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(WeightsError) as refused:
        fetch(f"{scheme}://{user}@127.0.0.1:9/w.safetensors#sha256={'0' * 64}")
    assert "hunter2" not in str(refused.value)


def test_what_a_link_in_the_cache_leads_to_is_never_deleted(server: str, tmp_path: Path) -> None:
    mine = tmp_path / "mine.safetensors"
    mine.write_text("mine")
    (tmp_path / "cache" / "attcr").mkdir(parents=True)
    kept = tmp_path / "cache" / "attcr" / f"{_Server.due}.safetensors"
    kept.symlink_to(mine)
    assert fetch(f"{server}/w.safetensors#sha256={_Server.due}").read_bytes() == _Server.content
    assert mine.read_text() == "mine"
    assert not kept.is_symlink()


def test_a_file_of_the_hub_stays_in_its_cache_though_another_sha256_is_asked_for(server: str, tmp_path: Path) -> None:
    answer = read_from_hub(f"hf://owner/name#sha256={'0' * 64}", server, tmp_path / "hub")
    assert "expected 000" in answer.stderr
    assert [path.read_bytes() for path in tmp_path.glob("hub/hub/models--*/blobs/*")] == [_Server.content]


def test_without_a_connection_the_hub_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    code = (
        "import attcr, time\n"
        "time.sleep = lambda seconds: None\n"  # the client tries again and again, after longer and longer waits
        "try: attcr.load_model('hf://owner/name')\n"
        "except attcr.errors.WeightsError as error: print(error)"
    )
    closed = {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": str(tmp_path), "HF_HUB_DOWNLOAD_TIMEOUT": "1"}
    done = subprocess.run(
        [sys.executable, "-c", f"import attcr.errors\n{code}"],
        capture_output=True, text=True, env={**os.environ, **closed},
    )  # fmt: skip
    assert done.stdout == (
        "hf://owner/name: the Hub cannot be reached, and model.safetensors is not in this machine's cache: check the "
        "connection\n"
    ), done.stderr
