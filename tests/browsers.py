"""Debian's Chromium for tests, which reaches this machine alone."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium")
has_browser = pytest.mark.skipif(
    CHROMIUM is None or find_spec("playwright") is None,
    reason="needs Debian's chromium and playwright: apt-get install chromium && pip install playwright",
)
PATIENCE = 240_000  # milliseconds, for machines with much else to do


def browses(test: Callable[..., None]) -> Callable[..., None]:
    """Mark a test that needs a browser; it is one of the nightly's."""
    return pytest.mark.nightly(has_browser(test))


@contextmanager
def empty_page(**settings: Any) -> Iterator[Any]:
    """A page; `told` holds what its console says, `asked` the addresses that it asks for."""
    from playwright.sync_api import sync_playwright

    flags = ["--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
    cut_off = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=[*flags, cut_off], timeout=PATIENCE)
        context = browser.new_context(viewport={"width": 1100, "height": 700}, **settings)
        context.set_default_timeout(PATIENCE)
        page: Any = context.new_page()
        page.told, page.asked = [], []
        page.on("console", lambda message: page.told.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: page.told.append(f"error: {error}"))
        context.on("request", lambda request: page.asked.append(request.url))
        yield page
        browser.close()
