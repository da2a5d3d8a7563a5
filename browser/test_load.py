"""What the audit weighs is what a browser fetches."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from browser.conftest import SITE
from browser.visits import Visitor
from tools.pages.audit import fetched
from tools.pages.markup import Markup


@pytest.mark.parametrize("page", ["index.html", "lessons/tracer.html", "api/graph.html"])
def test_the_audit_weighs_all_that_the_browser_fetches(visitor: Visitor, page: str):
    path = (SITE / page).resolve()
    with visitor.visit(page) as visit:
        visit.settle()
        asked = {Path(f"{SITE.resolve()}{urlsplit(url).path}") for url in visit.requests}
    assert asked == {path, *fetched(SITE.resolve(), path, {path: Markup(path)})}
