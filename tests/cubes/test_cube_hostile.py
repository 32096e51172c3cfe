"""Servers of files that lie or stall: what is wrong is said, nothing hangs, and nothing private is asked."""

import contextlib
import http.server
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import pytest
import rasterio
from affine import Affine

from attcr.cubes import odc_stac
from attcr.cubes.odc_stac import load
from attcr.cubes.place import Grid
from attcr.cubes.search import Acquisition, Found
from attcr.cubes.sources import Source
from attcr.errors import SceneError

GRID = Grid("EPSG:32633", Affine(10, 0, 600_000, 0, -10, 5_500_000), 32, 32)
Answer = Callable[[http.server.BaseHTTPRequestHandler], None]


@contextmanager
def served(answer: Answer) -> Iterator[tuple[str, list[str]]]:
    """Serve every path by one function; give the address, and what was asked so far."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            with contextlib.suppress(OSError):  # the client hung up
                answer(self)

        def do_HEAD(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
        server.shutdown()


def read(host: str, name: str = "red.tif", grid: Grid = GRID) -> np.ndarray:
    """Read a band of an acquisition whose file is there."""
    source = Source("mine", host, "any", {"red": "red"}, requests=1)
    taken = datetime(2024, 5, 1, tzinfo=timezone.utc)
    item = Found("one", taken, {"red": f"{host}/{name}"}, 0.0, "", GRID.box, 0.0, "")
    return np.asarray(load(Acquisition((item,)), source, ("red",), grid).values[0])


def tiff(path: Path, crs: str | None = "EPSG:32633", side: int = 32, **more: object) -> bytes:
    """Give a raster whose pixels are their column, 1 to 32."""
    told = {"driver": "GTiff", "height": side, "width": side, "count": 1, "dtype": "uint16", "nodata": 0, **more}
    with rasterio.open(path, "w", crs=crs, transform=GRID.transform, **told) as file:
        file.write(np.arange(1, side + 1, dtype=np.uint16)[None].repeat(side, 0), 1)
    return path.read_bytes()


def gives(content: bytes, kind: str = "image/tiff", told: int | None = None) -> Answer:
    """Answer with a content, or the asked part of it; `told` is the size that is claimed."""

    def answer(handler: http.server.BaseHTTPRequestHandler) -> None:
        first, last = 0, len(content) - 1
        part = handler.headers.get("Range")
        if part and handler.command == "GET":
            begin, _, end = part.removeprefix("bytes=").partition("-")
            first, last = int(begin), min(int(end or last), last)
            handler.send_response(206)
            handler.send_header("Content-Range", f"bytes {first}-{last}/{told or len(content)}")
        else:
            handler.send_response(200)
        handler.send_header("Content-Type", kind)
        size = last + 1 - first
        handler.send_header("Content-Length", str(told or size if handler.command == "HEAD" else size))
        handler.end_headers()
        if handler.command == "GET":
            handler.wfile.write(content[first : last + 1])

    return answer


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give servers a second, and no second chance."""
    for name, value in (
        ("GDAL_HTTP_MAX_RETRY", "0"),
        ("GDAL_HTTP_TIMEOUT", "3"),
        ("GDAL_HTTP_LOW_SPEED_TIME", "1"),
    ):
        monkeypatch.setitem(odc_stac.SETTINGS, name, value)


def test_what_is_there_is_read(tmp_path: Path) -> None:
    with served(gives(tiff(tmp_path / "a.tif"))) as (host, _):
        assert (read(host) == np.arange(1, 33)).all()


def test_a_file_in_another_projection_is_put_where_it_lies(tmp_path: Path) -> None:
    with served(gives(tiff(tmp_path / "a.tif", "EPSG:32634"))) as (host, _):
        assert (read(host, "far.tif") == 0).all()  # these metres are elsewhere in the next zone


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"<html>sign in</html>", "text/html"),
        (b"", "image/tiff"),
        (b"II*\0" + b"\xff" * 400, "image/tiff"),
        (b'<VRTDataset rasterXSize="32" rasterYSize="32"></VRTDataset>', "application/xml"),
    ],
    ids=["a web page", "nothing", "a broken header", "a VRT"],
)
def test_what_is_no_raster_is_refused(content: bytes, kind: str) -> None:
    with served(gives(content, kind)) as (host, _), pytest.raises(SceneError):
        read(host, f"{kind.replace('/', '-')}-{len(content)}.tif")


def test_a_raster_that_lies_nowhere_is_refused(tmp_path: Path) -> None:
    content = tiff(tmp_path / "a.tif", None)
    with served(gives(content)) as (host, _), pytest.raises(SceneError, match="where on the Earth"):
        read(host, "nowhere.tif")


def test_half_a_file_is_refused(tmp_path: Path) -> None:
    content = tiff(tmp_path / "a.tif", side=512)
    with served(gives(content[: len(content) // 2], told=len(content))) as (host, _), pytest.raises(SceneError):
        read(host, "half.tif", Grid(GRID.crs, GRID.transform, 512, 512))


@pytest.mark.parametrize("status", [401, 404, 500])
def test_a_server_that_refuses_is_named(status: int) -> None:
    with served(lambda handler: handler.send_error(status)) as (host, _), pytest.raises(SceneError, match="127"):
        read(host, f"{status}.tif")


@pytest.mark.parametrize("drops", [False, True])
def test_a_server_that_stalls_is_given_up(tmp_path: Path, drops: bool) -> None:
    over = threading.Event()

    def stall(handler: http.server.BaseHTTPRequestHandler) -> None:
        if drops:
            handler.send_response(200)
            handler.send_header("Content-Length", "1000000")
            handler.end_headers()
            while not over.wait(0.1):
                handler.wfile.write(b" ")
        over.wait(60)

    with served(stall) as (host, _):
        began = time.monotonic()
        with pytest.raises(SceneError):
            read(host, f"stall-{drops}.tif")
        over.set()
        assert time.monotonic() - began < 50  # and not for ever: the limits above are 3 s for each request


def test_no_redirection_leads_into_a_private_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(odc_stac, "is_public_host", lambda href: "10.0.0.7" not in href)
    content = tiff(tmp_path / "a.tif")

    def answer(handler: http.server.BaseHTTPRequestHandler) -> None:
        onward = {"/inside.tif": "http://10.0.0.7/a.tif", "/twice.tif": "/inside.tif", "/round.tif": "/round.tif"}
        if handler.path in onward or handler.path == "/moved.tif":
            handler.send_response(302)
            handler.send_header("Location", onward.get(handler.path, "/here.tif"))
            handler.send_header("Content-Length", "0")
            handler.end_headers()
        else:
            gives(content)(handler)

    with served(answer) as (host, asked):
        for name in ("inside.tif", "twice.tif"):
            asked.clear()
            with pytest.raises(SceneError, match=r"leads to http://10\.0\.0\.7/a\.tif, which is not on the open"):
                read(host, name)
            assert len(asked) == (1 if name == "inside.tif" else 2)  # the network's library asked for nothing
        with pytest.raises(SceneError, match="leads on more than 10 times"):
            read(host, "round.tif")
        assert (read(host, "moved.tif") == np.arange(1, 33)).all()  # a redirection that stays is followed
