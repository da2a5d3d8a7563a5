"""The pictures grow by mouse and by keyboard, and need no script."""

from __future__ import annotations

import pytest

from browser.visits import Visit, Visitor
from kata.stubs import ROOT

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
        visit.page.clock.install()
        figure.get_by_role("button", name="Play").click()
        visit.page.clock.run_for("01:00")
        assert figure.locator("[data-node]:not(.later)").count() == nodes


def test_the_player_of_the_home_page_begins_empty_and_plays_once(visitor: Visitor):
    with visitor.visit("index.html") as visit:
        figure = visit.page.locator(".fx-once")
        status = figure.locator("[role=status]")
        shown = figure.locator("[data-node]:not(.later)")
        status.filter(has_text="1 of ").wait_for()
        assert shown.count() == 1
        status.filter(has_text="6 of 6").wait_for()
        assert shown.count() == 6
        assert figure.get_by_role("button", name="Play", exact=True).is_visible()


def test_the_player_of_the_home_page_keeps_still_with_reduced_motion(visitor: Visitor):
    with visitor.visit("index.html", calm=True) as visit:
        figure = visit.page.locator(".fx-once")
        visit.page.wait_for_timeout(1500)
        assert figure.locator("[role=status]").inner_text() == ""
        assert figure.locator("[data-node].later").count() == 0


CHANGES = {
    # How many rows the first step has, and the last.
    "lessons/inlining.html": (6, 11),
    "lessons/rewriting.html": (12, 12),
    "lessons/split_module.html": (10, 11),
    "lessons/unflatten.html": (10, 13),
}


def step_of(visit: Visit) -> str:
    return visit.page.locator(".fx-change [role=status]").inner_text().partition(" of ")[0]


@pytest.mark.parametrize("protocol", ["http", "file"])
@pytest.mark.parametrize("page", CHANGES)
def test_a_change_is_gone_through_with_slider_keys_and_button(
    visitor: Visitor, page: str, protocol: str
):
    first, last = CHANGES[page]
    with visitor.visit(page, protocol, calm=True) as visit:
        figure = visit.page.locator(".fx-change")
        nodes = figure.locator(".fx-view [data-node]")
        assert (step_of(visit), nodes.count()) == ("1", first)
        figure.locator(".fx-view").focus()
        visit.page.keyboard.press("ArrowRight")
        assert step_of(visit) == "2"
        figure.locator("input[type=range]").focus()
        visit.page.keyboard.press("End")
        assert nodes.count() == last
        figure.get_by_role("button", name="Play").click()
        assert (step_of(visit), nodes.count()) == ("1", first)
        figure.get_by_role("button", name="Pause").click()
        assert visit.errors == []


MOVING = "() => document.getAnimations().filter(each => each.playState === 'running').length"


@pytest.mark.parametrize("calm", [False, True])
@pytest.mark.parametrize("page", CHANGES)
def test_nodes_move_unless_the_reader_wants_less_motion(visitor: Visitor, page: str, calm: bool):
    with visitor.visit(page, calm=calm) as visit:
        figure = visit.page.locator(".fx-change")
        figure.locator("input[type=range]").focus()
        visit.page.keyboard.press("ArrowRight")
        assert (visit.page.evaluate(MOVING) == 0) == calm
        visit.page.evaluate("() => document.getAnimations().forEach(each => each.finish())")
        names = figure.locator(".fx-view text.name")
        visit.page.wait_for_function(
            "count => document.querySelectorAll('.fx-change .fx-view text.name').length === count",
            arg=figure.locator(".fx-view [data-node]").count(),
        )
        assert all(name.is_visible() for name in names.all())


@pytest.mark.parametrize("page", CHANGES)
def test_a_change_is_complete_without_scripts(visitor: Visitor, page: str):
    with visitor.visit(page, scripts=False) as visit:
        figure = visit.page.locator(".fx-change")
        heads = figure.locator(".fx-view text.head").all_text_contents()
        assert heads == ["before", "after"]
        figure.locator("summary").click()
        assert figure.locator("details li").count() > 5


def test_the_scripts_of_the_pages_are_small():
    scripts = (ROOT / "docs/assets").glob("*.js")
    assert sum(script.stat().st_size for script in scripts) <= 12_000


@pytest.mark.parametrize("page", STEPS)
def test_a_trace_is_complete_without_scripts(visitor: Visitor, page: str):
    with visitor.visit(page, scripts=False) as visit:
        figure = visit.page.locator(".fx-steps").first
        assert all(node.is_visible() for node in figure.locator("[data-node] .name").all())
        assert figure.locator(".fx-source").is_visible()
