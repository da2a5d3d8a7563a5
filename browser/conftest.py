"""The built site, opened in a real browser: ``nox -s site``.

The pages are those in ``site/``; build them first. Without a browser every test here skips itself
and says so.
"""

from __future__ import annotations

import functools
import http.server
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from browser.visits import Visitor
from kata.paths import ROOT

SITE = ROOT / "site"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
# No sandbox: it needs rights that a container hasn't. The pages are our own.
OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--force-color-profile=srgb"]


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Serve files without a line for each."""

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture(scope="session")
def addresses() -> Iterator[dict[str, str]]:
    """The addresses of the site: over http, and as files."""
    handler = functools.partial(QuietHandler, directory=SITE)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield {"http": f"http://127.0.0.1:{server.server_port}", "file": f"file://{SITE}"}
        server.shutdown()


@pytest.fixture(scope="session")
def visitor(addresses: dict[str, str]) -> Iterator[Visitor]:
    """The reader who opens pages in the browser."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip(f"no browser: none of {', '.join(BROWSERS)} is installed")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=OPTIONS)
        yield Visitor(browser, addresses)
        browser.close()


def pages() -> list[str]:
    """Every page of the built site, by its path."""
    return sorted(str(path.relative_to(SITE)) for path in Path(SITE).rglob("*.html"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "path" in metafunc.fixturenames:
        found = pages()
        if not found:
            raise pytest.UsageError(f"{SITE} has no pages: run `nox -s docs` first")
        metafunc.parametrize("path", found)
