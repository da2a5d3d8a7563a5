"""The pictures grow by mouse and by keyboard, and need no script."""

from __future__ import annotations

import pytest

from browser.visits import Visit, Visitor
from kata.paths import ROOT
from lessons import LESSONS

PAGES = ["index.html", "lessons/tracer.html", "lessons/split_module.html"]
SIZE = ".fx-figure:not(.fx-steps) .fx-view > svg"
# The smallest text of a picture, as it is on the screen.
SMALLEST = """() => Math.min(...[...document.querySelectorAll(".fx-view > svg text")].map(text =>
    parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a
))"""


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
        assert (
            figure.locator("[role=status]").inner_text().startswith("call_module conv1 = conv1(x)")
        )
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


def test_resnet18_draws_itself_on_the_page_of_the_finale(visitor: Visitor):
    with visitor.visit("finale.html") as visit:
        figure = visit.page.locator(".fx-once")
        figure.evaluate("each => each.scrollIntoView()")
        figure.locator("[role=status]").filter(has_text="2 of 71: call_module conv1").wait_for()
        figure.get_by_role("slider").press("End")
        assert figure.locator("[data-node]:not(.later)").count() == 71


def test_the_player_of_the_home_page_keeps_still_with_reduced_motion(visitor: Visitor):
    with visitor.visit("index.html", calm=True) as visit:
        figure = visit.page.locator(".fx-once")
        visit.page.wait_for_timeout(1500)
        assert figure.locator("[role=status]").inner_text() == ""
        assert figure.locator("[data-node].later").count() == 0


WITH_PICTURES = [
    "index.html",
    "finale.html",
    *(f"lessons/{lesson.name}.html" for lesson in LESSONS),
]
# The smallest text of all that is drawn, where something is.
READABLE = SMALLEST.replace(" => Math.min(", " => Math.min(99, ")


@pytest.mark.parametrize("page", WITH_PICTURES)
def test_no_label_is_below_eleven_pixels_on_a_phone(visitor: Visitor, page: str):
    with visitor.visit(page, width=390) as visit:
        assert visit.page.evaluate(READABLE) >= 11
        assert visit.overflow() <= 0


def test_panels_are_below_each_other_on_a_phone(visitor: Visitor):
    tops = "all => all.map(each => each.getBoundingClientRect().top)"
    for width, several in ((1440, False), (390, True)):
        with visitor.visit("lessons/exec_order.html", width=width) as visit:
            figure = visit.page.locator(".fx-figure:not(.fx-steps)").first
            panels = figure.locator(".fx-view > svg > .panel").evaluate_all(tops)
            assert len(panels) > 1
            assert (max(panels) - min(panels) > 50) == several


def test_a_tap_lights_a_node_until_the_next_tap_outside(visitor: Visitor):
    with visitor.visit("index.html", width=390, has_touch=True) as visit:
        figure = visit.page.locator(".fx-figure:not(.fx-steps)").first
        figure.locator("[data-node=conv1] text.name").tap()
        status = figure.locator("[role=status]")
        assert status.inner_text() == "call_module conv1 = conv1(x) · used by bn1"
        assert figure.locator("[data-node].here").get_attribute("data-node") == "conv1"
        visit.page.locator("h2").first.tap()
        assert status.inner_text() == ""


@pytest.mark.parametrize("page", ["index.html", "lessons/inlining.html"])
def test_keys_go_through_a_player_that_has_the_focus(visitor: Visitor, page: str):
    with visitor.visit(page, calm=True) as visit:
        figure = visit.page.locator(".fx-steps").first
        status, last = figure.locator("[role=status]"), figure.locator("input").get_attribute("max")
        figure.locator(".fx-view").focus()
        for key, step in (("End", last), ("Home", "1"), ("ArrowRight", "2"), ("ArrowLeft", "1")):
            visit.page.keyboard.press(key)
            assert status.inner_text().startswith(f"{step} of {last}")
        visit.page.keyboard.press(" ")
        assert figure.get_by_role("button", name="Pause").is_visible()
        visit.page.keyboard.press(" ")
        assert figure.get_by_role("button", name="Play").is_visible()


def test_home_and_end_light_the_first_node_and_the_last(visitor: Visitor):
    with visitor.visit("index.html") as visit:
        figure = visit.page.locator(".fx-figure:not(.fx-steps)").first
        figure.locator(".fx-view").focus()
        for key, name in (("End", "output"), ("Home", "x")):
            visit.page.keyboard.press(key)
            assert figure.locator("[data-node].here").get_attribute("data-node") == name


def test_buttons_of_a_player_are_big_enough_for_a_thumb_and_go_one_step(visitor: Visitor):
    with visitor.visit("lessons/inlining.html", width=390, calm=True) as visit:
        figure = visit.page.locator(".fx-change").first
        boxes = [button.bounding_box() for button in figure.get_by_role("button").all()]
        assert min(min(box["width"], box["height"]) for box in boxes) >= 44
        figure.get_by_role("button", name="Step on").click()
        assert step_of(visit) == "2"
        figure.get_by_role("button", name="Step back").click()
        assert step_of(visit) == "1"


def test_a_node_of_a_player_lights_up_and_the_words_of_the_step_come_back(visitor: Visitor):
    with visitor.visit("lessons/inlining.html", calm=True) as visit:
        figure = visit.page.locator(".fx-change").first
        words = figure.locator("[role=status]").inner_text()
        figure.locator(".fx-view [data-node=conv] text.name").hover()
        assert figure.locator("[role=status]").inner_text().startswith("call_module conv = conv(x)")
        visit.page.mouse.move(0, 0)
        assert figure.locator("[role=status]").inner_text() == words


def test_paper_has_both_ends_of_a_change_no_buttons_and_no_solutions(visitor: Visitor):
    with visitor.visit("lessons/inlining.html") as visit:
        visit.page.emulate_media(media="print")
        visit.page.evaluate(
            "() => document.querySelectorAll('details').forEach(e => e.open = true)"
        )
        figure = visit.page.locator(".fx-change").first
        heads = figure.locator(".fx-paper .head")
        assert [head.is_visible() for head in heads.all()] == [True, True]
        assert not any(each.is_visible() for each in figure.locator("button, .fx-view").all())
        folded = visit.page.locator(".md-content details > :not(summary)")
        assert not any(each.is_visible() for each in folded.all())


CHANGES = {
    # How many rows the first step has, and the last.
    "lessons/graph.html": (1, 5),
    "lessons/code.html": (3, 2),
    "lessons/interpreter.html": (6, 6),
    "lessons/tracer.html": (2, 5),
    "lessons/inlining.html": (6, 11),
    "lessons/rewriting.html": (12, 12),
    "lessons/split_module.html": (10, 11),
    "lessons/unflatten.html": (10, 13),
    "lessons/backend.html": (8, 8),
}


def step_of(visit: Visit) -> str:
    return visit.page.locator(".fx-change [role=status]").first.inner_text().partition(" of ")[0]


@pytest.mark.parametrize("protocol", ["http", "file"])
@pytest.mark.parametrize("page", CHANGES)
def test_a_change_is_gone_through_with_slider_keys_and_button(
    visitor: Visitor, page: str, protocol: str
):
    first, last = CHANGES[page]
    with visitor.visit(page, protocol, calm=True) as visit:
        figure = visit.page.locator(".fx-change").first
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
        figure = visit.page.locator(".fx-change").first
        figure.locator("input[type=range]").focus()
        visit.page.keyboard.press("ArrowRight")
        assert (visit.page.evaluate(MOVING) == 0) == calm
        visit.page.evaluate("() => document.getAnimations().forEach(each => each.finish())")
        names = figure.locator(".fx-view text.name")
        visit.page.wait_for_function(
            "count => document.querySelector('.fx-change .fx-view')"
            ".querySelectorAll('text.name').length === count",
            arg=figure.locator(".fx-view [data-node]").count(),
        )
        assert all(name.is_visible() for name in names.all())


@pytest.mark.parametrize("page", CHANGES)
def test_a_change_is_complete_without_scripts(visitor: Visitor, page: str):
    with visitor.visit(page, scripts=False) as visit:
        figure = visit.page.locator(".fx-change").first
        heads = figure.locator(".fx-view text.head").all_text_contents()
        assert heads == ["before", "after"]
        figure.locator("summary").click()
        assert figure.locator("details li").count() >= 5


# Of a player: a step in the middle, and what is to be read there.
MIDDLES = {
    "lessons/interpreter.html": (".fx-change", 3, ".note", ["[1, 8, 4, 4]", "[1, 8, 4, 4]"]),
    "lessons/tracer.html": (".fx-change", 6, ".here .name", ["Tracer.call_module(layers.0)"]),
    "lessons/unflatten.html": (".fx-change >> nth=1", 5, ".group", ["block.linear", "block"]),
    "lessons/backend.html": (".fx-change", 3, ".group", ["loop 1", "loop 2"]),
    "lessons/split_module.html": (".fx-change", 4, ".badge", ["0", "1", "2"]),
    "lessons/capture.html": (".fx-steps", 8, ".here .note", ["← aten.relu_.default(3)"]),
}


@pytest.mark.parametrize("page", MIDDLES)
def test_a_step_in_the_middle_shows_what_it_is_about(visitor: Visitor, page: str):
    place, step, selector, words = MIDDLES[page]
    with visitor.visit(page, calm=True) as visit:
        figure = visit.page.locator(place).first
        figure.locator(".fx-view").focus()
        for key in ("Home", *["ArrowRight"] * (step - 1)):
            visit.page.keyboard.press(key)
        assert figure.locator("[role=status]").inner_text().startswith(f"{step} of ")
        assert figure.locator(f".fx-view {selector}").all_text_contents() == words
        lit = figure.locator(".fx-view [data-edge].near").count()
        assert lit < figure.locator(".fx-view [data-edge]").count()


TIME_LINES = ["lessons/schedule.html", "lessons/exec_order.html"]
# The share of a curtain that is left.
CURTAINS = """all => all.map(each => new DOMMatrix(getComputedStyle(each).transform).a)"""


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("page", TIME_LINES)
def test_a_time_line_goes_on_with_every_step(visitor: Visitor, page: str, width: int):
    with visitor.visit(page, width=width, calm=True) as visit:
        figure = visit.page.locator(".fx-time")
        status, curtains = figure.locator("[role=status]"), figure.locator(".curtain")
        figure.locator(".fx-view").focus()
        left = []
        for key in ("Home", "ArrowRight", "End"):
            visit.page.keyboard.press(key)
            one, other = curtains.evaluate_all(CURTAINS)
            assert one == other
            left.append(one)
        assert 1 > left[0] > left[1] > left[2] == 0
        assert status.inner_text().startswith(f"{figure.locator('li').count()} of ")
        figure.locator(".bar").first.hover()
        assert status.inner_text().endswith(("from 0 to 1", "from 0 to 2"))
        assert visit.errors == []


def test_the_scripts_of_the_pages_are_small():
    scripts = (ROOT / "docs/assets").glob("*.js")
    assert sum(script.stat().st_size for script in scripts) <= 16_000


@pytest.mark.parametrize("page", STEPS)
def test_a_trace_is_complete_without_scripts(visitor: Visitor, page: str):
    with visitor.visit(page, scripts=False) as visit:
        figure = visit.page.locator(".fx-steps").first
        assert all(node.is_visible() for node in figure.locator("[data-node] .name").all())
        assert figure.locator(".fx-source").is_visible()
