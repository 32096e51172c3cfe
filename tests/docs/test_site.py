"""The built site in a real browser: every page loads whole, asks no other site, and search finds what is there."""

import functools
import http.server
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

ROOT = Path(__file__).parents[2]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site: the gate's, or built here."""
    if "ATTCR_SITE" in os.environ:
        return Path(os.environ["ATTCR_SITE"])
    pytest.importorskip("mkdocs")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return folder


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files and prints nothing."""

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """The site, served on this machine alone."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def elsewhere(url: str) -> bool:
    """Whether an address is of another machine."""
    return urlsplit(url).scheme not in ("data", "blob") and urlsplit(url).hostname != "127.0.0.1"


@pytest.fixture(scope="module")
def page(address: str) -> Iterator[Any]:
    """A page of Chromium; `page.wrong` gathers what went wrong on it."""
    if CHROMIUM is None:
        pytest.skip("needs a browser: apt-get install chromium")
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(120_000)
        page.wrong = wrong = []
        page.on("console", lambda said: wrong.append(f"console: {said.text}") if said.type == "error" else None)
        page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
        page.on("requestfailed", lambda asked: wrong.append(f"failed: {asked.url}"))
        page.on("response", lambda got: wrong.append(f"{got.status}: {got.url}") if got.status >= 400 else None)
        page.on("request", lambda asked: wrong.append(f"elsewhere: {asked.url}") if elsewhere(asked.url) else None)
        yield page
        browser.close()


def test_every_page_loads_whole_and_asks_no_other_site(site: Path, address: str, page: Any) -> None:
    pages = sorted(path.relative_to(site).as_posix() for path in site.rglob("index.html"))
    assert len(pages) > 40
    wrong = {}
    for path in pages:
        page.wrong.clear()
        page.goto(f"{address}/{path.removesuffix('index.html')}", wait_until="load")
        assert page.locator("h1").count() >= 1, path
        if page.wrong:
            wrong[path] = list(page.wrong)
    assert not wrong


def test_pictures_are_seen(site: Path, address: str, page: Any) -> None:
    """Each picture of the results and of how it works has decoded to some pixels."""
    for path in ("results/gallery/", "understand/how-it-works/", "start/which-weights/"):
        page.goto(f"{address}/{path}", wait_until="load")
        sizes = page.eval_on_selector_all("article img", "all => all.map(one => one.naturalWidth)")
        assert sizes
        assert min(sizes) > 0, path


def test_search_finds_ndvi(address: str, page: Any) -> None:
    page.wrong.clear()
    page.goto(f"{address}/", wait_until="load")
    page.keyboard.press("/")
    page.locator("input.md-search__input").fill("NDVI")
    page.wait_for_selector(".md-search-result__item .md-search-result__link")
    found = page.eval_on_selector_all(".md-search-result__link", "all => all.map(one => one.href)")
    assert any("results/s2-thin" in href for href in found), found
    assert not page.wrong
