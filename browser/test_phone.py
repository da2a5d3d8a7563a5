"""On a phone: tables are cards, names are whole, pictures fit."""

from __future__ import annotations

import pytest

from browser.visits import Visitor

# The words of inline code that stand on more than one line.
BROKEN = """() => {
    const broken = [];
    for (const code of document.querySelectorAll(".md-content :not(pre) > code")) {
        const texts = document.createTreeWalker(code, NodeFilter.SHOW_TEXT);
        for (let text; code.offsetParent && (text = texts.nextNode());) {
            for (const word of text.data.matchAll(/\\w+/g)) {
                const range = document.createRange();
                range.setStart(text, word.index);
                range.setEnd(text, word.index + word[0].length);
                const lines = [...range.getClientRects()].map((each) => Math.round(each.top));
                if (new Set(lines).size > 1) broken.push(word[0]);
            }
        }
    }
    return broken;
}"""
WIDER = """() => [...document.querySelectorAll(".fx-view, .md-typeset__scrollwrap")]
    .filter(each => each.scrollWidth > each.clientWidth && !each.closest("details"))
    .map(each => each.textContent.trim().slice(0, 40))"""


def test_no_name_is_broken_in_its_middle(visitor: Visitor, path: str):
    with visitor.visit(path, width=375) as visit:
        assert [visit.page.evaluate(BROKEN) for _ in visit.states()][-1] == []


def test_tables_and_pictures_fit(visitor: Visitor, path: str):
    with visitor.visit(path, width=375) as visit:
        assert visit.page.evaluate(WIDER) == []


def test_a_cell_of_a_card_stands_behind_the_name_of_its_column(visitor: Visitor):
    with visitor.visit("index.html", width=375) as visit:
        cell = visit.page.locator("td[data-label=minutes]").first
        shown = cell.evaluate("cell => getComputedStyle(cell, '::before').content")
        assert shown == '"minutes: "'
        assert not visit.page.locator("thead").first.is_visible()


@pytest.mark.parametrize("page", ["index.html", "lessons/split_module.html"])
def test_a_picture_grows_by_what_is_chosen(visitor: Visitor, page: str):
    with visitor.visit(page, width=375) as visit:
        figure = visit.page.locator(".fx-figure:not(.fx-steps)").first
        drawing = figure.locator("svg")
        fitting = drawing.bounding_box()["width"]
        figure.locator("label", has_text="200").click()
        assert drawing.bounding_box()["width"] == pytest.approx(2 * fitting, rel=0.01)
