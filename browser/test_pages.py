"""Every page, wide and narrow, light and dark, over http and as a file; and its copied code."""

from __future__ import annotations

import pytest

from browser.visits import HEIGHTS, OVERFLOW, Visitor
from lessons import LESSONS

SCHEMES = ("light", "dark")
# The widths of a window, each with a way to a page, over http or as a file, and a scheme.
WAYS = {1440: ("http", "light"), 375: ("file", "dark")}
# One page of each kind, seen in both schemes at both widths. The others have the same frame, by
# template, and the style sheets of all pages say what a width changes.
KINDS = ["404.html", "index.html", "setup.html", "try.html"]
KINDS += [f"{kind}/proxy.html" for kind in ("lessons", "solutions", "api")]

# The words of inline code, and of names in headings, that take more than one line.
BROKEN = """() => {
    const broken = [];
    const names = ".md-content :is(:not(pre) > code, .doc-object-name)";
    for (const code of document.querySelectorAll(names)) {
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
# What has to be scrolled sideways; a table that is asked for may, and a graph, to be readable.
WIDER = """() => [...document.querySelectorAll(".md-typeset__scrollwrap")]
    .filter(each => each.scrollWidth > each.clientWidth && !each.closest("details"))
    .map(each => each.textContent.trim().slice(0, 40))"""
# Links in a text that only their colour shows; the link of a heading isn't in a text.
PLAIN_LINKS = """() => [...document.querySelectorAll(":is(p, li, td) a")]
    .filter(each => !each.matches(".md-button, .headerlink"))
    .filter(each => each.closest(".md-content") && each.checkVisibility())
    .filter(each => each.textContent.trim())
    .filter(each => !getComputedStyle(each).textDecorationLine.includes("underline"))
    .map(each => each.outerHTML.slice(0, 80))"""
# Code that scrolls, and that the keyboard doesn't reach. Material sees to it a little later.
UNREACHED = """async () => {
    for (let tries = 0; ; tries++) {
        const found = [...document.querySelectorAll("pre > code")]
            .filter(each => each.scrollWidth > each.clientWidth)
            .filter(each => each.tabIndex < 0)
            .map(each => each.textContent.trim().slice(0, 40));
        if (!found.length || tries === 50) return found;
        await new Promise(resolve => setTimeout(resolve, 100));
    }
}"""
# Texts of pictures below eleven pixels, as they are on the screen.
SMALL = """() => [...document.querySelectorAll(".fx-view > svg text")]
    .filter(each => each.checkVisibility())
    .filter(each => parseFloat(getComputedStyle(each).fontSize) * each.getScreenCTM().a < 11)
    .map(each => each.textContent.slice(0, 40))"""
# Players whose picture is higher or lower at some of the steps.
MOVING = """() => [...document.querySelectorAll(".fx-steps")].filter(figure => {
    const slider = figure.querySelector("input[type=range]");
    const view = figure.querySelector(".fx-view");
    const tops = new Set();
    for (let step = 1; step <= slider.max; step++) {
        slider.value = step;
        slider.dispatchEvent(new Event("input"));
        tops.add(Math.round(view.getBoundingClientRect().top - figure.getBoundingClientRect().top));
    }
    return tops.size > 1;
}).map(each => each.textContent.trim().slice(0, 40))"""
LATE = f"""() => [...document.querySelectorAll("#the-exercise")]
    .map(each => each.getBoundingClientRect().top)
    .filter(top => top > {4 * HEIGHTS[1440]})"""
# What is asked of a page as it opens, of each of its states, and of its players at the end.
AT_FIRST = {
    1440: {"the exercise begins after four screens, at": LATE},
    375: {"scrolls sideways": WIDER, "below eleven pixels": SMALL},
}
IN_EACH_STATE = {
    "a broken name": BROKEN,
    "not underlined": PLAIN_LINKS,
    "no key leads to the code": UNREACHED,
    "the page is wider than its window, by": f"() => [({OVERFLOW})()].filter(over => over > 0)",
}
AT_LAST = {1440: {}, 375: {"moves from step to step": MOVING}}


@pytest.mark.parametrize("width", WAYS)
def test_a_page_fits_its_window_is_accessible_and_fetches_nothing_from_elsewhere(
    visitor: Visitor, path: str, width: int
):
    protocol, usual = WAYS[width]
    if path == "404.html":
        protocol = "http"  # it is what a server answers; no file leads to it
    visit = visitor.turn_to(path, protocol, width)
    found = visit.ask(AT_FIRST[width])
    found += [line for _ in visit.states() for line in visit.ask(IN_EACH_STATE)]
    for scheme in SCHEMES if path in KINDS else [usual]:
        visit.choose(scheme)  # the tab remembers it
        found += [f"{scheme}: {line}" for line in visit.faint()]
    found += visit.ask(AT_LAST[width])
    found += visit.violations() if path in KINDS else visit.violations(besides=".md-sidebar")
    visit.settle()
    found += [f"fetches {url}" for url in visit.external(visitor.addresses[protocol])]
    found += visit.errors
    assert not found, "\n".join(found)


def test_a_lesson_has_its_name_in_the_navigation(visitor: Visitor):
    visit = visitor.turn_to("lessons/proxy.html")
    names = visit.page.locator(".md-nav--primary .md-nav__link small").all_inner_texts()
    assert [lesson.name for lesson in LESSONS] == list(filter(None, dict.fromkeys(names)))


# The share of wide blocks of code that have no shadow at their edge, and buttons on a first line.
CUES = """() => [...document.querySelectorAll("pre > code")]
    .filter(each => each.scrollWidth > each.clientWidth)
    .map(each => getComputedStyle(each).backgroundAttachment)"""
COVERED = """() => [...document.querySelectorAll("pre > .md-code__nav")].filter(each => {
    const code = each.parentElement.querySelector("code");
    const text = document.createRange();
    text.selectNodeContents(code);
    const [line] = text.getClientRects();
    const button = each.getBoundingClientRect();
    const apart = button.bottom <= line?.top + 2 || button.left >= line?.right;
    return line && each.checkVisibility() && !apart;
}).map(each => each.parentElement.textContent.slice(0, 40))"""


def test_code_that_goes_on_to_the_right_says_so_and_no_button_is_on_it(visitor: Visitor):
    with visitor.visit("lessons/unflatten.html", width=390) as visit:
        cues = visit.page.evaluate(CUES)
        assert cues
        assert all("local" in cue and "scroll" in cue for cue in cues)
        assert visit.page.evaluate(COVERED) == []


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_page_follows_the_system_until_the_reader_chooses(visitor: Visitor, scheme: str):
    other = next(name for name in SCHEMES if name != scheme)
    with visitor.visit("index.html", scheme=scheme) as visit:
        assert visit.scheme() == scheme
        visit.choose(other)
        visit.page.reload()
        assert visit.scheme() == other


# A page, the prompts of its blocks, and what is written after one of them.
BLOCKS = [
    ("setup.html", ("$ ",), "pip install nox"),
    ("lessons/inversion.html", ("$ ",), "kata watch inversion"),
    ("api/inversion.html", (">>> ", "... "), "find_chain(graph"),
]


@pytest.mark.parametrize(("page", "prompts", "command"), BLOCKS, ids=[row[0] for row in BLOCKS])
def test_a_copied_block_is_without_its_prompts(
    visitor: Visitor, page: str, prompts: tuple[str, ...], command: str
):
    with visitor.visit(page) as visit:
        visit.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        shown, copied = [], []
        for block in visit.page.locator(".highlight:has(.gp)").all():
            button = block.locator("button[data-clipboard-target]")
            if block.is_visible() and button.count():
                shown.append(block.inner_text())
                button.first.click()
                copied.append(visit.page.evaluate("() => navigator.clipboard.readText()"))
        assert any(prompt in text for text in shown for prompt in prompts)
        lines = [line for text in copied for line in text.splitlines()]
        assert not [line for line in lines if line.startswith(prompts)]
        assert [line for line in lines if command in line]
