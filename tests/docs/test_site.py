"""The built site in a real browser: every page loads whole, asks no other site, and search finds what is there."""

import functools
import http.server
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from browsers import browses, empty_page

ROOT = Path(__file__).parents[2]
LEFT = "net::ERR_ABORTED"
"""How a request ends when the browser goes on to the next page."""


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


@pytest.fixture(scope="module")
def tab(address: str) -> Iterator[Any]:
    """A page of Chromium; `missing` holds the addresses that were asked for and did not come."""
    with empty_page() as page:
        page.missing = []
        page.on("requestfailed", lambda asked: page.missing.append(asked.url) if asked.failure != LEFT else None)
        page.on("response", lambda got: page.missing.append(got.url) if got.status >= 400 else None)
        yield page


@pytest.fixture
def page(tab: Any) -> Any:
    """The page, without what another test asked for."""
    for kept in (tab.told, tab.missing, tab.asked):
        kept.clear()
    return tab


def wrong(page: Any, address: str) -> list[str]:
    """What went wrong since it was last asked: errors, what is missing, and what is of another site."""
    errors = [text for text in page.told if text.startswith("error")]
    own = (f"{address}/", "data:", "blob:")
    found = [*errors, *page.missing, *(url for url in page.asked if not url.startswith(own))]
    for kept in (page.told, page.missing, page.asked):
        kept.clear()
    return found


@browses
def test_every_page_loads_whole_and_asks_no_other_site(site: Path, address: str, page: Any) -> None:
    pages = sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html") if path.name != "404.html")
    assert len(pages) > 40
    found = {}
    for path in pages:
        page.goto(f"{address}/{path}", wait_until="load")
        assert page.locator("h1").count() >= 1, path
        found[path] = wrong(page, address)
    assert not {path: told for path, told in found.items() if told}


@browses
def test_pictures_are_seen(site: Path, address: str, page: Any) -> None:
    """Each picture of the results and of how it works has decoded to some pixels."""
    for path in ("results/gallery.html", "understand/how-it-works.html", "start/which-weights.html"):
        page.goto(f"{address}/{path}", wait_until="load")
        sizes = page.eval_on_selector_all("article img", "all => all.map(one => one.naturalWidth)")
        assert sizes
        assert min(sizes) > 0, path


def search(page: Any, words: str, wanted: str) -> str:
    """Type words into the search field of a page; give the first address found that contains `wanted`."""
    page.keyboard.press("/")
    page.locator("input.md-search__input").press_sequentially(words)  # it listens to keys, not to a value that is set
    hit = page.wait_for_selector(f'.md-search-result__link[href*="{wanted}"]', state="attached")
    return str(hit.evaluate("one => one.href"))


@browses
def test_search_finds_ndvi(address: str, page: Any) -> None:
    page.goto(f"{address}/", wait_until="load")
    assert search(page, "NDVI", "results/s2-thin.html").startswith(f"{address}/results/")
    assert not wrong(page, address)


@browses
@pytest.mark.parametrize("start", ["index.html", "guides/restore.html"])
def test_search_works_in_a_site_that_is_opened_as_files(site: Path, page: Any, start: str) -> None:
    home = site.resolve().as_uri()
    page.goto(f"{home}/{start}", wait_until="load")
    page.goto(search(page, "NDVI", "results/s2-thin.html"), wait_until="load")
    assert "s2-thin" in page.locator("h1").first.inner_text()
    assert not wrong(page, home)


OUTSIDE = re.compile(
    r"""<(?:script|img|iframe|source)[^>]*\ssrc=["']?(?:https?:)?//|<link[^>]*stylesheet[^>]*href=["']?(?:https?:)?//"""
    r"""|import\(\s*["']https?:|@import[^;]*https?:|url\(["']?https?:"""
)


def test_no_page_names_a_file_of_another_site(site: Path) -> None:
    """Not even one that is loaded later, as the diagrams of notebooks."""
    pages = list(site.rglob("*.html"))
    assert len(pages) > 40
    found = {path.name: OUTSIDE.findall(path.read_text()) for path in pages}
    assert not {name: told for name, told in found.items() if told}


def test_notebooks_are_pages_with_their_outputs(site: Path) -> None:
    text = (site / "notebooks" / "remove-cloud-ndvi.html").read_text()
    assert re.search(r"after\s+error of reflectance 0\.0065, of NDVI 0\.048", text)
    assert text.count('src="data:image/png;base64') >= 1
    assert (site / "notebooks" / "remove-cloud-ndvi.ipynb").is_file()
