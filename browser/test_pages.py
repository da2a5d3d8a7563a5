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


@pytest.mark.parametrize("width", WIDTHS)
def test_a_page_is_accessible_light_and_dark_with_everything_opened(
    visitor: Visitor, path: str, width: int
):
    # Colours don't depend on the width: those of the code, thousands of words, are measured once.
    left_out = [] if width == max(WIDTHS) else [".highlight"]
    with visitor.visit(path, "http", width) as visit:
        for scheme in SCHEMES:
            visit.choose(scheme)
            found = [line for _ in visit.states() for line in visit.violations(left_out)]
            assert not found, "\n".join([scheme, *found])


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_page_follows_the_system_until_the_reader_chooses(visitor: Visitor, scheme: str):
    other = next(name for name in SCHEMES if name != scheme)
    with visitor.visit("index.html", scheme=scheme) as visit:
        assert visit.scheme() == scheme
        visit.choose(other)
        visit.page.reload()
        assert visit.scheme() == other
