"""Every page, wide and narrow, light and dark, over http and as a file."""

from __future__ import annotations

import pytest

from browser.visits import Visitor

WIDTHS = (1440, 375)
SCHEMES = ("light", "dark")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("protocol", ["http", "file"])
def test_a_page_fetches_nothing_from_elsewhere_and_fits_its_window(
    visitor: Visitor, path: str, protocol: str, width: int
):
    if protocol == "file" and path == "404.html":
        pytest.skip("404.html is what a server answers; no file leads to it")
    with visitor.visit(path, protocol, width) as visit:
        too_wide = [state for state in visit.states() if visit.overflow() > 0]
        visit.page.wait_for_load_state("networkidle")
        assert visit.external(visitor.addresses[protocol]) == []
        assert visit.errors == []
        assert too_wide == []


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_a_page_is_accessible_with_everything_opened(
    visitor: Visitor, path: str, width: int, scheme: str
):
    with visitor.visit(path, "http", width, scheme) as visit:
        found = [line for _ in visit.states() for line in visit.violations()]
        assert not found, "\n".join(found)
