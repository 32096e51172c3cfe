"""Acquisitions of a place and a period: what is put together, and what is refused."""

import http.server
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import Any

import pytest

from attcr.cubes import search as searching
from attcr.cubes.search import Found, found_of, merged, period, search, steps
from attcr.cubes.sources import SOURCES, open_source
from attcr.errors import AttcrWarning, SceneError

SOURCE = SOURCES["earth-search"]
BOX = (14.0, 52.0, 14.1, 52.1)
PERIOD = period("2024-05-01", "2024-05-31")


def item(name: str = "S2A_1", day: str = "2024-05-03T10:00:00Z", **more: Any) -> dict[str, Any]:
    """An item as Earth Search gives it."""
    told = {
        "type": "Feature",
        "stac_version": "1.0.0",
        "id": name,
        "collection": "sentinel-2-l2a",
        "geometry": None,
        "bbox": [13.5, 51.5, 15.1, 52.5],
        "properties": {"datetime": day, "s2:processing_baseline": "05.10", "eo:cloud_cover": 12.5},
        "links": [],
        "assets": {
            key: {"href": f"https://a.org/{name}/{key}.tif"}
            for key in ("blue", "green", "red", "nir", *SOURCE.bands, "scl")
        },
    }
    return {**told, **more}


def test_an_item_is_read_with_what_is_needed_of_it() -> None:
    found = found_of(item(), SOURCE, ("red",))
    assert set(found.assets) == {"red", "scl"}
    assert (found.offset, found.cloudy, found.box) == (-0.1, 0.125, (13.5, 51.5, 15.1, 52.5))
    assert found_of(item(bbox=[13.5, 51.5, 0, 15.1, 52.5, 900]), SOURCE).box == (13.5, 51.5, 15.1, 52.5)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"assets": {}}, "no asset"),
        ({"assets": {"red": {"href": "file:///etc/passwd"}, "scl": {"href": "https://a.org/scl.tif"}}}, "elsewhere"),
        ({"assets": {"red": {"href": "/etc/passwd"}, "scl": {"href": "https://a.org/scl.tif"}}}, "elsewhere"),
        ({"assets": {"red": {"href": "/vsizip//tmp/a.zip"}, "scl": {"href": "https://a.org/scl.tif"}}}, "elsewhere"),
        ({"assets": {"red": {"href": 7}, "scl": {"href": "https://a.org/scl.tif"}}}, "no asset"),
        ({"assets": {"red": "https://a.org/red.tif"}}, "no asset"),
        ({"bbox": [15.1, 51.5, 13.5, 52.5]}, "swapped"),
        ({"bbox": [178, 51.5, 182, 52.5]}, "swapped"),
        ({"bbox": [1, 2]}, "no date, no box"),
        ({"bbox": None}, "no date, no box"),
        ({"properties": None}, "no date, no box"),
        ({"properties": {"datetime": "yesterday"}}, "no date, no box"),
        ({"properties": []}, "no date, no box"),
    ],
)
def test_an_item_that_lies_is_refused(change: dict[str, Any], told: str) -> None:
    with pytest.raises(SceneError, match=told):
        found_of(item(**change), SOURCE, ("red",))


def found(name: str, minute: int, *, day: int = 3, tile: str = "", processed: str = "05.10") -> Found:
    taken = datetime(2024, 5, day, 10, minute, tzinfo=timezone.utc)
    return Found(name, taken, {}, -0.1, tile or name, BOX, 0.0, processed)


def test_items_of_one_pass_are_one_acquisition_in_order_of_time() -> None:
    made = merged([found("later", 0, day=8), found("b", 20), found("a", 0)])
    assert [one.name for one in made] == ["a b", "later"]


def test_of_two_processings_the_later_one_counts() -> None:
    made = merged([found("new", 0, tile="33UVT"), found("old", 0, tile="33UVT", processed="02.14")])
    assert [one.name for one in made] == ["new"]


def test_a_period_has_its_last_day_whole() -> None:
    assert [f"{one:%m-%d %H:%M:%S}" for one in PERIOD] == ["05-01 00:00:00", "05-31 23:59:59"]


def test_a_regular_axis_reaches_the_end_of_the_period() -> None:
    from datetime import timedelta

    axis = steps(*period("2024-05-01", "2024-05-31"), timedelta(days=10))
    assert [f"{one:%m-%d}" for one in axis] == ["05-01", "05-11", "05-21", "05-31"]


@contextmanager
def api(pages: Any) -> Iterator[str]:
    """Serve a STAC API whose searches give what `pages` says of a page's number."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            host = f"http://127.0.0.1:{self.server.server_address[1]}"
            number = int(self.path.partition("page=")[2] or 0)
            if "search" in self.path:
                body = pages(number, host)
            else:
                body = {
                    "type": "Catalog",
                    "id": "api",
                    "stac_version": "1.0.0",
                    "description": "-",
                    "conformsTo": ["https://api.stacspec.org/v1.0.0/item-search"],
                    "links": [{"rel": "search", "href": f"{host}/search", "type": "application/geo+json"}],
                }
            if callable(body):
                body(self)
                return
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.do_GET()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}#sentinel-2-l2a"
        server.shutdown()


def page(items: list[dict[str, Any]], *links: dict[str, str]) -> dict[str, Any]:
    return {"type": "FeatureCollection", "features": items, "links": list(links)}


def test_items_without_assets_are_left_out_with_a_warning() -> None:
    with (
        api(lambda number, host: page([item("good"), item("bad", assets={})])) as address,
        pytest.warns(AttcrWarning, match="1 of 2 items: an item has no asset"),
    ):
        made = search(open_source(address), BOX, *PERIOD)
    assert [one.name for one in made] == ["good"]


def test_items_of_another_place_or_time_are_left_out() -> None:
    items = [item("good"), item("far", bbox=[1, 1, 2, 2]), item("late", "2024-07-03T10:00:00Z")]
    with api(lambda number, host: page(items)) as address, pytest.warns(AttcrWarning, match="2 of 3 items"):
        assert [one.name for one in search(open_source(address), BOX, *PERIOD)] == ["good"]


def test_pages_without_end_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "MOST_ITEMS", 500)
    asked = []

    def pages(number: int, host: str) -> dict[str, Any]:
        asked.append(number)
        return page(
            [item(f"{number}-{i}") for i in range(100)], {"rel": "next", "href": f"{host}/search?page={number + 1}"}
        )

    with api(pages) as address, pytest.raises(SceneError, match="more than 500 items"):
        search(open_source(address), BOX, *PERIOD)
    assert len(asked) <= 6


def test_a_page_that_is_too_large_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attcr.scenes.pystac_client.PAGE_BYTES", 1 << 16)
    with api(lambda number, host: b"[" + b" " * (1 << 18)) as address, pytest.raises(SceneError, match="larger than"):
        search(open_source(address), BOX, *PERIOD)


def test_a_server_that_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attcr.scenes.pystac_client.PATIENCE", 0.3)
    over = threading.Event()
    with api(lambda number, host: lambda handler: over.wait(20)) as address:
        with pytest.raises(SceneError, match="timed out"):
            search(open_source(address), BOX, *PERIOD)
        over.set()


def test_a_server_that_answers_a_byte_at_a_time_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attcr.scenes.pystac_client.PAGE_SECONDS", 0.5)

    def drop_by_drop(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        try:
            for _ in range(60):
                handler.wfile.write(b"10000\r\n" + b" " * (1 << 16) + b"\r\n")
                time.sleep(0.05)
        except OSError:
            pass  # the client hung up, as it should

    with (
        api(lambda number, host: drop_by_drop) as address,
        pytest.raises(SceneError, match="takes longer than"),
    ):
        search(open_source(address), BOX, *PERIOD)


@pytest.mark.parametrize(
    "answer",
    [
        b"<html>sign in</html>",
        b'{"type": "FeatureCollection", "features": [',
        {"type": "FeatureCollection", "features": "none"},
        {"type": "FeatureCollection", "features": [7], "links": []},
        {"type": "FeatureCollection", "features": [{"id": "x"}], "links": 3},
        [],
    ],
    ids=["a web page", "half an answer", "text for items", "a number for an item", "a number for links", "a list"],
)
@pytest.mark.filterwarnings("ignore:Left out")
def test_an_answer_that_is_none_is_an_error_of_ours(answer: Any) -> None:
    with api(lambda number, host: answer) as address, pytest.raises(SceneError):
        search(open_source(address), BOX, *PERIOD)


def test_a_server_that_promises_more_than_it_gives_is_given_up() -> None:
    def half(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "5000")
        handler.end_headers()
        handler.wfile.write(b'{"type": "FeatureCollection", "features": []}')

    with api(lambda number, host: half) as address, pytest.raises(SceneError, match="cannot be searched"):
        search(open_source(address), BOX, *PERIOD)


def test_ten_thousand_items_are_read_and_one_more_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def pages(count: int, number: int, host: str) -> dict[str, Any]:
        day = timedelta(minutes=1)
        began = datetime(2024, 5, 1, tzinfo=timezone.utc)
        some = range(1000 * number, min(1000 * (number + 1), count))
        following = {"rel": "next", "href": f"{host}/search?page={number + 1}"}
        items = [item(f"{i}", (began + i * day).isoformat()) for i in some]
        return page(items, *([following] if some.stop < count else []))

    for count in (10_000, 10_001):
        with api(partial(pages, count)) as address:
            if count == 10_000:
                assert sum(len(one.items) for one in search(open_source(address), BOX, *PERIOD)) == count
            else:
                with pytest.raises(SceneError, match="more than 10,000 items"):
                    search(open_source(address), BOX, *PERIOD)


def test_no_item_of_a_public_api_leads_into_a_private_network(monkeypatch: pytest.MonkeyPatch) -> None:
    inside = item("inside", assets={key: {"href": f"http://10.0.0.7/{key}.tif"} for key in item()["assets"]})
    monkeypatch.setattr(searching, "is_public_host", lambda href: "10.0.0.7" not in href)
    with (
        api(lambda number, host: page([item("good"), inside])) as address,
        pytest.warns(AttcrWarning, match="not on the open internet"),
    ):
        assert [one.name for one in search(open_source(address), BOX, *PERIOD)] == ["good"]


def test_no_page_of_a_public_api_leads_into_a_private_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "is_public_host", lambda href: "10.0.0.7" not in href)
    following = {"rel": "next", "href": "http://10.0.0.7/search?page=1"}
    with (
        api(lambda number, host: page([item("good")], following)) as address,
        pytest.raises(SceneError, match="not on the open internet"),
    ):
        search(open_source(address), BOX, *PERIOD)


def test_nothing_found_says_what_to_look_at() -> None:
    with api(lambda number, host: page([])) as address, pytest.raises(SceneError, match="look at the place"):
        search(open_source(address), BOX, *PERIOD)


@pytest.mark.parametrize("ends", [("2024-5", "2024-06-01"), ("2024-06-01", "tomorrow")])
def test_what_is_no_day_is_refused(ends: tuple[str, str]) -> None:
    with pytest.raises(SceneError, match="is no day"):
        period(*ends)
