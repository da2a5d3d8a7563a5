"""The pictures grow, light up and play by mouse, key and tap, and are complete without a script."""

from __future__ import annotations

import pytest

from browser.visits import Visit, Visitor
from lessons import COURSE

PICTURE = ".fx-figure:not(.fx-steps, .map *)"
SIZE = f"{PICTURE} .fx-view > svg"
# Pages whose first player shows a trace, line by line, and those with a change, step by step.
TRACES = ["index.html", "ten_minutes.html", "lessons/proxy.html"]
CHANGES = ["lessons/inlining.html", "lessons/unflatten.html", "lessons/split_module.html"]
both_protocols = pytest.mark.parametrize("protocol", ["http", "file"])


def width(visit: Visit) -> float:
    return visit.page.locator(SIZE).first.bounding_box()["width"]


@both_protocols
def test_the_map_leads_to_every_lesson_and_ticks_those_that_are_done(
    visitor: Visitor, protocol: str
):
    with visitor.visit("index.html#done=proxy,graph", protocol) as visit:
        links = visit.page.locator(".map svg a")
        assert links.count() == len(COURSE)
        done = visit.page.locator(".map .done")
        ticked = done.evaluate_all("all => all.map(n => n.dataset.node)")
        assert ticked == ["proxy", "graph"]
        assert not visit.page.locator(".path li li").first.is_visible()
        links.nth(2).locator(".name").click()
        visit.page.wait_for_url("**/lessons/code.html")
        button = visit.page.get_by_role("button", name="Mark as done")
        button.click()
        assert visit.page.get_by_role("button", name="Done").get_attribute("aria-pressed") == "true"
        visit.page.go_back()
        assert visit.page.locator(".map .done").count() == 3


def test_the_lists_take_the_place_of_the_map_on_a_phone(visitor: Visitor):
    with visitor.visit("index.html", width=390) as visit:
        assert not visit.page.locator(".map").is_visible()
        assert visit.page.locator(".path li li").first.is_visible()


@both_protocols
def test_a_click_and_the_arrow_keys_zoom(visitor: Visitor, protocol: str):
    with visitor.visit("index.html", protocol) as visit:
        before = width(visit)
        visit.page.locator(f"{PICTURE} label", has_text="200").first.click()
        assert width(visit) == pytest.approx(2 * before, rel=0.01)
        visit.page.locator(f"{PICTURE} input[type=radio]:checked").first.focus()
        visit.page.keyboard.press("ArrowLeft")
        assert width(visit) == pytest.approx(1.5 * before, rel=0.01)
        visit.page.locator(f"{PICTURE} label", has_text="300").first.click()
        assert visit.overflow() <= 0  # it scrolls in its own frame


def test_keys_light_a_node_and_say_what_it_is(visitor: Visitor):
    visit = visitor.turn_to("index.html")
    figure = visit.page.locator(PICTURE).first
    figure.locator(".fx-view").focus()
    for key, name in (("End", "output"), ("Home", "x"), ("ArrowRight", "conv1")):
        visit.page.keyboard.press(key)
        assert figure.locator("[data-node].here").get_attribute("data-node") == name
    says = figure.locator("[role=status]").inner_text()
    assert says.startswith("call_module conv1 = conv1(x)")
    lit = figure.locator("[data-node].near").evaluate_all("all => all.map(n => n.dataset.node)")
    assert lit == ["x", "conv1", "bn1"]


def test_a_tap_lights_a_node_until_the_next_tap_outside(visitor: Visitor):
    with visitor.visit("index.html", width=390, has_touch=True) as visit:
        figure = visit.page.locator(PICTURE).first
        figure.locator("[data-node=conv1] text.name").tap()
        status = figure.locator("[role=status]")
        assert status.inner_text() == "call_module conv1 = conv1(x) · used by bn1"
        visit.page.locator("h2").first.tap()
        assert status.inner_text() == ""


@both_protocols
@pytest.mark.parametrize("page", TRACES)
def test_slider_keys_and_button_go_through_a_trace(visitor: Visitor, page: str, protocol: str):
    with visitor.visit(page, protocol) as visit:
        figure = visit.page.locator(".fx-steps").first
        nodes = figure.locator("[data-node]").count()
        shown = figure.locator("[data-node]:not(.later)")
        figure.locator("input[type=range]").focus()
        visit.page.keyboard.press("Home")
        assert figure.locator("[role=status]").inner_text().startswith(f"1 of {nodes}, line 1:")
        assert shown.count() == 1
        figure.locator(".fx-view").focus()
        visit.page.keyboard.press("ArrowRight")
        assert shown.count() == 2
        assert figure.locator(".fx-source .here").get_attribute("data-line") == "2"
        visit.page.clock.install()
        figure.get_by_role("button", name="Play").click()
        visit.page.clock.run_for("01:00")
        assert shown.count() == nodes


def test_the_player_of_the_home_page_begins_empty_and_plays_once(visitor: Visitor):
    with visitor.visit("index.html") as visit:
        figure = visit.page.locator(".fx-once")
        status = figure.locator("[role=status]")
        figure.locator(".fx-view").scroll_into_view_if_needed()
        status.filter(has_text="1 of ").wait_for()
        status.filter(has_text="7 of 7").wait_for()
        assert figure.locator("[data-node]:not(.later)").count() == 7
        assert figure.get_by_role("button", name="Play", exact=True).is_visible()


def test_the_player_of_the_home_page_keeps_still_with_reduced_motion(visitor: Visitor):
    with visitor.visit("index.html", calm=True) as visit:
        figure = visit.page.locator(".fx-once")
        visit.page.wait_for_timeout(1500)
        assert figure.locator("[role=status]").inner_text() == "Play it, or move the slider."
        assert figure.locator("[data-node].later").count() == 0


def step_of(visit: Visit) -> str:
    return visit.page.locator(".fx-change [role=status]").first.inner_text().partition(" of ")[0]


@both_protocols
@pytest.mark.parametrize("page", CHANGES)
def test_slider_keys_and_buttons_go_through_a_change(visitor: Visitor, page: str, protocol: str):
    with visitor.visit(page, protocol, calm=True) as visit:
        figure = visit.page.locator(".fx-change").first
        last = figure.locator("input[type=range]").get_attribute("max")
        figure.locator(".fx-view").focus()
        for key, step in (("End", last), ("Home", "1"), ("ArrowRight", "2"), ("ArrowLeft", "1")):
            visit.page.keyboard.press(key)
            assert step_of(visit) == step
        figure.get_by_role("button", name="Step on").click()
        assert step_of(visit) == "2"
        figure.get_by_role("button", name="Play").click()
        figure.get_by_role("button", name="Pause").click()
        assert visit.errors == []


MOVING = "() => document.getAnimations().filter(each => each.playState === 'running').length"


@pytest.mark.parametrize("calm", [False, True])
def test_nodes_move_unless_the_reader_wants_less_motion(visitor: Visitor, calm: bool):
    with visitor.visit("lessons/inlining.html", calm=calm) as visit:
        figure = visit.page.locator(".fx-change").first
        figure.locator("input[type=range]").focus()
        visit.page.keyboard.press("ArrowRight")
        assert (visit.page.evaluate(MOVING) == 0) == calm


def test_buttons_of_a_player_are_big_enough_for_a_thumb(visitor: Visitor):
    with visitor.visit("lessons/inlining.html", width=390, calm=True) as visit:
        buttons = visit.page.locator(".fx-change").first.get_by_role("button").all()
        boxes = [button.bounding_box() for button in buttons]
        assert min(min(box["width"], box["height"]) for box in boxes) >= 44


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


# The share of a curtain that is left.
CURTAINS = """all => all.map(each => new DOMMatrix(getComputedStyle(each).transform).a)"""


def test_a_time_line_goes_on_with_every_step(visitor: Visitor):
    with visitor.visit("lessons/schedule.html", calm=True) as visit:
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


def test_a_picture_is_complete_without_scripts(visitor: Visitor):
    with visitor.visit("lessons/inlining.html", scripts=False) as visit:
        change = visit.page.locator(".fx-change").first
        assert change.locator(".fx-view text.head").all_text_contents() == ["before", "after"]
        change.locator("summary").click()
        assert change.locator("details li").count() >= 5
    with visitor.visit("lessons/proxy.html", scripts=False) as visit:
        trace = visit.page.locator(".fx-steps").first
        assert all(node.is_visible() for node in trace.locator("[data-node] .name").all())
        assert trace.locator(".fx-source").is_visible()
