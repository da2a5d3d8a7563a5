"""The pictures grow by mouse and by keyboard, and need no script."""

from __future__ import annotations

import pytest

from browser.visits import Visit, Visitor

PAGES = ["index.html", "lessons/tracer.html", "lessons/split_module.html"]
SIZE = ".fx-view > svg"
# The smallest text of a picture, as it is on the screen.
SMALLEST = """() => Math.min(...[...document.querySelectorAll(".fx-view > svg text")].map(text => {
    const drawing = text.ownerSVGElement;
    const scale = drawing.getBoundingClientRect().width / drawing.viewBox.baseVal.width;
    return parseFloat(getComputedStyle(text).fontSize) * scale;
}))"""


def width(visit: Visit) -> float:
    return visit.page.locator(SIZE).first.bounding_box()["width"]


@pytest.mark.parametrize("protocol", ["http", "file"])
@pytest.mark.parametrize("page", PAGES)
def test_a_click_zooms(visitor: Visitor, page: str, protocol: str):
    with visitor.visit(page, protocol) as visit:
        before = width(visit)
        visit.page.locator(".fx-figure label", has_text="200").first.click()
        assert width(visit) == pytest.approx(2 * before, rel=0.01)


@pytest.mark.parametrize("page", PAGES)
def test_the_arrow_keys_zoom(visitor: Visitor, page: str):
    with visitor.visit(page) as visit:
        before = width(visit)
        visit.page.locator(".fx-figure input").first.focus()
        visit.page.keyboard.press("ArrowRight")
        assert width(visit) == pytest.approx(1.5 * before, rel=0.01)


@pytest.mark.parametrize("page", PAGES)
def test_a_zoomed_picture_scrolls_in_its_own_frame(visitor: Visitor, page: str):
    with visitor.visit(page, width=375) as visit:
        visit.page.locator(".fx-figure label", has_text="300").first.click()
        assert visit.overflow() <= 0


@pytest.mark.parametrize("page", PAGES)
def test_a_picture_is_complete_without_scripts(visitor: Visitor, page: str):
    with visitor.visit(page, scripts=False) as visit:
        drawing = visit.page.locator(SIZE).first
        assert drawing.is_visible()
        assert drawing.locator("text").count() > 5
        assert visit.page.locator(".fx-figure details.fx-table").count() > 0


@pytest.mark.parametrize("page", PAGES)
def test_every_name_can_be_read_wide_without_scrolling_sideways(visitor: Visitor, page: str):
    with visitor.visit(page) as visit:
        frame = visit.page.locator(".fx-view").first
        hidden = frame.evaluate("view => view.scrollWidth - view.clientWidth")
        assert visit.page.evaluate(SMALLEST) >= 10
        assert hidden <= 0
