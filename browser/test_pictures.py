"""The pictures grow by mouse and by keyboard, and need no script."""

from __future__ import annotations

import pytest

from browser.visits import Visit, Visitor

PAGES = ["index.html", "lessons/tracer.html", "lessons/split_module.html"]
SIZE = ".fx-figure:not(.fx-steps) .fx-view > svg"
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
        visit.page.locator(".fx-figure input[type=radio]").first.focus()
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


def test_an_arrow_key_lights_a_node_and_says_what_it_is(visitor: Visitor):
    with visitor.visit("index.html") as visit:
        figure = visit.page.locator(".fx-figure:not(.fx-steps)").first
        figure.locator(".fx-view").focus()
        for _ in range(2):
            visit.page.keyboard.press("ArrowRight")
        assert figure.locator("[role=status]").inner_text().startswith("call_module conv1 conv1(x)")
        lit = figure.locator("[data-node].near").evaluate_all("all => all.map(n => n.dataset.node)")
        assert lit == ["x", "conv1", "bn1"]


STEPS = ["index.html", "ten_minutes.html", "lessons/proxy.html", "lessons/tracer.html"]


@pytest.mark.parametrize("protocol", ["http", "file"])
@pytest.mark.parametrize("page", STEPS)
def test_a_trace_is_gone_through_with_slider_keys_and_button(
    visitor: Visitor, page: str, protocol: str
):
    with visitor.visit(page, protocol) as visit:
        figure = visit.page.locator(".fx-steps").first
        nodes = figure.locator("[data-node]").count()
        figure.locator("input[type=range]").focus()
        visit.page.keyboard.press("Home")
        assert figure.locator("[role=status]").inner_text().startswith(f"1 of {nodes}, line 1:")
        assert figure.locator("[data-node]:not(.later)").count() == 1
        figure.locator(".fx-view").focus()
        visit.page.keyboard.press("ArrowRight")
        assert figure.locator("[data-node]:not(.later)").count() == 2
        assert figure.locator(".fx-source .here").get_attribute("data-line") == "2"
        figure.get_by_role("button", name="Play").click()
        visit.page.wait_for_function(
            "nodes => document.querySelectorAll('.fx-steps')[0].querySelectorAll("
            "'[data-node]:not(.later)').length === nodes",
            arg=nodes,
        )


@pytest.mark.parametrize("page", STEPS)
def test_a_trace_is_complete_without_scripts(visitor: Visitor, page: str):
    with visitor.visit(page, scripts=False) as visit:
        figure = visit.page.locator(".fx-steps").first
        assert all(node.is_visible() for node in figure.locator("[data-node] .name").all())
        assert figure.locator(".fx-source").is_visible()
