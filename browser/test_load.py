"""What the audit weighs is what a browser fetches."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from browser.conftest import SITE
from browser.visits import Visit, Visitor
from tools.pages.audit import fetched
from tools.pages.markup import Markup


@pytest.mark.parametrize("page", ["index.html", "lessons/tracer.html", "api/graph.html"])
def test_the_audit_weighs_all_that_the_browser_fetches(visitor: Visitor, page: str):
    path = (SITE / page).resolve()
    weighed = {path, *fetched(SITE.resolve(), path, {path: Markup(path)})}
    with visitor.visit(page) as visit:
        wait_until(lambda: weighed <= files_asked_for(visit), visit)
        visit.settle()
        assert files_asked_for(visit) == weighed


def files_asked_for(visit: Visit) -> set[Path]:
    return {Path(f"{SITE.resolve()}{urlsplit(url).path}") for url in visit.requests}


def wait_until(condition: Callable[[], bool], visit: Visit) -> None:
    """Wait for ten seconds at most: a browser asks for the page's icon when it has time."""
    deadline = time.monotonic() + 10
    while not condition() and time.monotonic() < deadline:
        visit.page.wait_for_timeout(100)
